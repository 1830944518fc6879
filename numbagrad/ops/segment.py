"""Reductions over segments: rows that share an id, or that follow one another."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from numbagrad.core.arguments import host_value, own, promote, value_of
from numbagrad.core.array import Array
from numbagrad.core.device import place_of
from numbagrad.core.dtypes import FLOATING, real_dtype
from numbagrad.core.errors import message
from numbagrad.core.registry import mixed_devices
from numbagrad.core.trace import Box
from numbagrad.numpy.indexing import as_index, holds
from numbagrad.numpy.reductions import normalize_axis
from numbagrad.primitives import index as rows_of
from numbagrad.primitives import segment as rows
from numbagrad.primitives.broadcast import reshape_to
from numbagrad.primitives.elementwise import convert, op
from numbagrad.primitives.layout import transpose
from numbagrad.primitives.reduce import reduce_max

_MODES = {"drop": "drop", "fill": "drop", "promise_in_bounds": "drop", "fill_or_drop": "drop"}
_MODES |= {"clip": "clamp", "wrap": "wrap"}


class _Segments:
    """Which row belongs where: ids, how many segments, and what becomes of ids out of range."""

    __slots__ = ("axis", "count", "data", "ids", "mode")

    def __init__(
        self, name: str, data: Any, ids: Any, count: Any, mode: Any, lengths: Any, offsets: Any, axis: int
    ) -> None:
        value = value_of(data, name)
        if len(value.shape) == 0:
            raise ValueError(message(name, "data has no axis", "shape ()", "one axis or more"))
        self.axis = normalize_axis(axis, len(value.shape), name)
        given = [k for k in (ids, lengths, offsets) if k is not None]
        if len(given) != 1:
            got = f"{len(given)} of segment_ids, lengths and offsets"
            raise TypeError(message(name, "the segments", got, "exactly one"))
        if ids is not None:
            self.ids = _given(name, "segment_ids", ids, isinstance(value, Box))
            have = tuple(value.shape[self.axis : self.axis + self.ids.ndim])
            if self.ids.ndim == 0 or self.ids.shape != have:
                got = f"{self.ids.shape} for data {value.shape}"
                raise ValueError(message(name, "segment_ids do not match data", got, f"{have or value.shape[:1]}"))
            found = _largest(self.ids) + 1 if count is None and self.ids.size else 0
            if self.ids.__class__ is not np.ndarray and self.ids.device is not place_of(value):
                raise mixed_devices(name, (value, self.ids))
        else:
            self.ids, found = _ids_of(name, lengths, offsets, value.shape[self.axis])
        self.count = max(0, found) if count is None else operator.index(count)
        if self.count < 0:
            raise ValueError(message(name, "num_segments", self.count, "0 or more"))
        label = getattr(mode, "name", mode)
        self.mode = "drop" if label is None else _MODES.get(str(label).lower(), "")
        if not self.mode:
            wanted = "'drop', 'fill', 'clip', 'wrap' or 'promise_in_bounds'"
            raise ValueError(message(name, "no such mode", repr(mode), wanted))
        if self.ids.dtype == np.uint64:
            self.ids = as_index(self.ids, self.count if self.mode == "wrap" else 0)
        self.data = self._to_front(value)

    def _order(self, ndim: int, front: int) -> tuple[int, ...]:
        """Axes with `front` of them, from `axis` on, in front."""
        moved = range(self.axis, self.axis + front)
        return (*moved, *(k for k in range(ndim) if k not in moved))

    def _to_front(self, value: Any) -> Any:
        return transpose(value, axes=self._order(len(value.shape), self.ids.ndim)) if self.axis else value

    def run(self, primitive: Any, data: Any) -> Any:
        """The primitive over the rows."""
        return primitive(data, self.ids, segments=self.count, mode=self.mode)

    def result(self, value: Any, front: int = 1) -> Array:
        """The reduced value with its `front` leading axes back in their place."""
        if self.axis:
            order = self._order(len(value.shape), front)
            value = transpose(value, axes=tuple(order.index(k) for k in range(len(order))))
        return Array(value)


def _given(name: str, what: str, ids: Any, traced: bool) -> Any:
    """int32, int64 or uint64, where they are."""
    value = host_value(ids, name)
    value = own(value, ids) if traced else value
    found = Array(value)._buffer(what, "They must be known outside of transforms, or be a stop_gradient(...).")
    if found.dtype.kind not in "iu" and found.size:
        raise TypeError(message(name, f"{what} are not integers", found.dtype, "an integer dtype"))
    return found if found.dtype in (np.int32, np.int64, np.uint64) else convert(found, np.dtype(np.int64))


def _integers(name: str, what: str, ids: Any, traced: bool) -> Any:
    return as_index(_given(name, what, ids, traced))


def _largest(ids: Any) -> int:
    return int(reduce_max(ids, axes=tuple(range(ids.ndim))).item())


def _ids_of(name: str, lengths: Any, offsets: Any, rows_given: int) -> tuple[np.ndarray, int]:
    """Ids of rows that lie segment by segment, and how many segments there are."""
    if lengths is not None:
        sizes = np.asarray(_integers(name, "lengths", lengths, False))
        first = 0
    else:
        places = np.asarray(_integers(name, "offsets", offsets, False))
        if places.ndim != 1 or places.size == 0:
            raise ValueError(message(name, "offsets", f"shape {places.shape}", "one more than there are segments"))
        sizes, first = np.diff(places), int(places[0])
    if sizes.ndim != 1 or first != 0 or (sizes < 0).any() or sizes.sum() != rows_given:
        got = f"{first} to {first + sizes.sum()} in steps {sizes}"
        what = "lengths" if lengths is not None else "offsets"
        raise ValueError(message(name, f"{what} do not cover the rows", got, f"0 to {rows_given}"))
    return np.repeat(np.arange(sizes.size), sizes), sizes.size


class SegmentFunction(Protocol):
    """A reduction over segments as its users call it."""

    def __call__(
        self,
        data: Any,
        segment_ids: Any = None,
        num_segments: int | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        bucket_size: int | None = None,
        mode: Any = None,
        *,
        lengths: Any = None,
        offsets: Any = None,
        axis: int = 0,
    ) -> Array: ...


def _over_segments(rule: Callable[[_Segments], Array]) -> SegmentFunction:
    """The public function of a rule on prepared rows. Whether ids are sorted or unique changes no result."""

    def function(
        data: Any,
        segment_ids: Any = None,
        num_segments: int | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        bucket_size: int | None = None,
        mode: Any = None,
        *,
        lengths: Any = None,
        offsets: Any = None,
        axis: int = 0,
    ) -> Array:
        return rule(_Segments(rule.__name__, data, segment_ids, num_segments, mode, lengths, offsets, axis))

    function.__name__, function.__qualname__, function.__doc__ = rule.__name__, rule.__name__, rule.__doc__
    return function


def _real(name: str, value: Any) -> Any:
    """Floats, of integers too."""
    if value.dtype.kind == "c":
        raise TypeError(message(name, "no order among complex numbers", value.dtype, "a real dtype"))
    return value if value.dtype.kind in FLOATING else convert(value, np.dtype(np.float64))


@_over_segments
def segment_sum(s: _Segments) -> Array:
    """Sum of the rows of each segment.

    Of segment_ids (integers; one per row), lengths (rows of each segment, in order) and offsets (where each begins;
    the last is the number of rows) exactly one is given.

    Shapes: data (..., n, ...), ids (n,) -> (..., num_segments, ...); ids may span several axes from `axis` on.
    Dtypes: kept; float32 is accumulated in float64. The order of the sum depends on the shapes alone.
    Edge: ids out of range, negative ones too, are dropped; mode "clip" and "wrap" bring them in. num_segments is
    max(segment_ids) + 1 if left out. An empty segment is 0.
    Errors: TypeError for ids that are no integers, ValueError for shapes that differ.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.ops.segment_sum(np.asarray([1.0, 2.0, 3.0]), np.asarray([0, 2, 2]))
    Array([1., 0., 5.], dtype=float64)
    >>> ng.ops.segment_sum(np.asarray([1.0, 2.0, 3.0]), lengths=[2, 1])
    Array([3., 3.], dtype=float64)
    """
    return s.result(s.run(rows.segment_sum, _numbers("segment_sum", s.data)))


@_over_segments
def segment_prod(s: _Segments) -> Array:
    """Product of the rows of each segment; see segment_sum for the arguments.

    Edge: an empty segment is 1. The derivative is exact with zeros, at any order.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.grad(lambda x: ng.ops.segment_prod(x, np.asarray([0, 0, 0]))[0])(np.asarray([2.0, 0.0, 3.0]))
    Array([0., 6., 0.], dtype=float64)
    """
    return s.result(s.run(rows.segment_prod, _numbers("segment_prod", s.data)))


def _numbers(name: str, value: Any) -> Any:
    if value.dtype.kind == "b":
        raise TypeError(message(name, "booleans", "bool", "numbers", "Use x.astype(int), or segment_max for any()."))
    return value


def _extremum(primitive: Any, name: str, s: _Segments) -> Array:
    if s.data.dtype.kind == "c":
        raise TypeError(message(name, "no order among complex numbers", s.data.dtype, "a real dtype"))
    if s.data.dtype.kind == "b":
        bits = s.run(primitive, convert(s.data, np.dtype(np.uint8)))
        return s.result(op("equal")(op("minimum")(bits, np.ones((), np.uint8)), np.ones((), np.uint8)))
    return s.result(s.run(primitive, s.data))


@_over_segments
def segment_max(s: _Segments) -> Array:
    """Largest of the rows of each segment; see segment_sum for the arguments.

    Edge: an empty segment is -inf (the dtype's smallest integer, False). nan wins. Ties share the derivative equally.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.ops.segment_max(np.asarray([4.0, 9.0, 1.0]), np.asarray([0, 0, 2]))
    Array([  9., -inf,   1.], dtype=float64)
    """
    return _extremum(rows.segment_max, "segment_max", s)


@_over_segments
def segment_min(s: _Segments) -> Array:
    """Smallest of the rows of each segment; see segment_sum for the arguments.

    Edge: an empty segment is inf (the dtype's largest integer, True). nan wins. Ties share the derivative equally.
    """
    return _extremum(rows.segment_min, "segment_min", s)


@_over_segments
def segment_mean(s: _Segments) -> Array:
    """Mean of the rows of each segment, 0 of an empty one; see segment_sum for the arguments. Integers give float64.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.ops.segment_mean(np.asarray([1.0, 2.0, 4.0]), offsets=[0, 2, 3])
    Array([1.5, 4. ], dtype=float64)
    """
    data = s.data if s.data.dtype.kind == "c" else _real("segment_mean", s.data)
    total = s.run(rows.segment_sum, data)
    real = real_dtype(data.dtype)
    ones = np.broadcast_to(np.ones((), real), s.ids.shape)  # where the ids are: each is counted once
    count = s.run(rows.segment_sum, ones if s.ids.__class__ is np.ndarray else s.ids.put(ones))
    divisor = convert(op("maximum")(count, np.ones((), real)), data.dtype)
    return s.result(op("divide")(total, reshape_to(divisor, (s.count,) + (1,) * (len(total.shape) - 1))))


@_over_segments
def segment_logsumexp(s: _Segments) -> Array:
    """log of the sum of the exponentials of each segment's rows, without overflow; see segment_sum for the arguments.

    Edge: an empty segment, and one of -inf only, is -inf with derivative 0; several +inf share theirs.
    """
    return s.result(s.run(rows.segment_logsumexp, _real("segment_logsumexp", s.data)))


@_over_segments
def segment_softmax(s: _Segments) -> Array:
    """Each row's share in the exponentials of its segment; see segment_sum for the arguments.

    Shapes: data's.
    Edge: 0 for rows that are dropped and where the whole segment is -inf; several +inf share equally.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.ops.segment_softmax(np.asarray([1e4, 1e4, -3.0]), np.asarray([0, 0, 1]))
    Array([0.5, 0.5, 1. ], dtype=float64)
    """
    return s.result(s.run(rows.segment_softmax, _real("segment_softmax", s.data)), s.ids.ndim)


def index_add(x: Any, axis: int, index: Any, source: Any, alpha: Any = 1) -> Array:
    """x with alpha * source added at the places `index` (1-d) of an axis; repeated indices add up.

    Shapes: source is x's shape with len(index) along the axis.
    Dtypes: x's. Errors: IndexError for an index out of range; negative ones count from the end. TypeError for a float
    source or alpha and integers x, and for complex and real.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.ops.index_add(np.zeros(3), 0, [0, 2, 2], np.asarray([1.0, 2.0, 3.0]))
    Array([1., 0., 5.], dtype=float64)
    """
    kept = value_of(x, "index_add").dtype
    for given in (source, alpha):
        holds("index_add", kept, host_value(given, "index_add").dtype, fractions=False)
    (target, updates), dtype = promote((x, source), "index_add", kept)
    k = normalize_axis(axis, len(target.shape), "index_add")
    traced = isinstance(target, Box) or isinstance(updates, Box)
    places = _integers("index_add", "index", index, traced)
    places = reshape_to(places, (places.size,))
    wanted = (*target.shape[:k], places.size, *target.shape[k + 1 :])
    if updates.shape != wanted:
        raise ValueError(message("index_add", "source does not match", updates.shape, f"shape {wanted}"))
    if alpha.__class__ not in (int, float) or alpha != 1:
        updates = op("multiply")(promote((Array(updates), alpha), "index_add", dtype)[0][1], updates)
    front = (k, *(d for d in range(len(wanted)) if d != k))
    out = rows_of.scatter_add(transpose(target, axes=front), places, transpose(updates, axes=front), mode="raise")
    return Array(transpose(out, axes=tuple(np.argsort(front).tolist())))
