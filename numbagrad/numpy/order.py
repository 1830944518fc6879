"""Sorting, partitions, searching in sorted arrays, and what is unique."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from numbagrad.core.arguments import arrays_of, host_value, value_of
from numbagrad.core.array import Array, ViewArray, concrete_array
from numbagrad.core.device import beside
from numbagrad.core.dtypes import computed
from numbagrad.core.errors import ViewAssignmentError, message
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy import shaping
from numbagrad.numpy.reductions import normalize_axis
from numbagrad.primitives import index as rows_of
from numbagrad.primitives import sort as prims
from numbagrad.primitives.along import take_along
from numbagrad.primitives.elementwise import convert

# fmt: off
__all__ = [
    "argpartition", "argsort", "digitize", "lexsort", "partition", "searchsorted", "sort", "unique", "unique_all",
    "unique_counts", "unique_inverse", "unique_values",
]
# fmt: on

KINDS = (None, "quicksort", "mergesort", "heapsort", "stable")


def ordered(x: Any, name: str) -> Any:
    """The value of something whose elements have an order."""
    value = value_of(x, name)
    if value.dtype.kind == "c":
        step = "Order them by abs(x) or x.real: take_along_axis(x, argsort(abs(x)))."
        raise TypeError(message(name, "complex numbers have no order", value.dtype, "a real dtype", step))
    return value


def _line(x: Any, axis: int | None, name: str) -> tuple[Any, int]:
    """The value and its axis; None is the flat array."""
    value = ordered(x, name)
    if axis is None:
        return shaping.ravel(Array(value))._value, 0
    return value, axis_of(axis, len(value.shape), name)


def axis_of(axis: Any, ndim: int, name: str) -> int:
    """An axis to order along as a number in [0, ndim)."""
    if ndim == 0:
        raise np.exceptions.AxisError(message(name, "no axis to order along", "shape ()", "at least one axis"))
    return normalize_axis(axis, ndim, name)


def whole(n: Any, name: str, what: str) -> int:
    """A number of elements."""
    try:
        return operator.index(n)
    except TypeError:
        raise TypeError(message(name, f"{what} is not an integer", repr(n), "an int")) from None


def _plain(kind: Any, order: Any, name: str) -> None:
    if order is not None:
        raise ValueError(message(name, "there are no fields to order by", f"order={order!r}", "order=None"))
    if kind not in KINDS:
        raise ValueError(message(name, "no such kind", repr(kind), "'stable', 'quicksort', 'mergesort' or 'heapsort'"))


def sort(
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> Array:
    """Elements in order along an axis (of the flat array if None).

    Edge: nan is last, first if `descending`. Derivative: along the stable permutation, whatever `kind` says.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.grad(lambda x: np.sort(x)[0])(np.asarray([3.0, 1.0, 1.0]))
    Array([0., 1., 0.], dtype=float64)
    """
    _plain(kind, order, "sort")
    value, k = _line(a, axis, "sort")
    return Array(prims.sort(value, axis=k, descending=bool(descending)))


def argsort(
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> Array:
    """The stable permutation that sorts along an axis; with `descending`, too, equal elements keep their order."""
    _plain(kind, order, "argsort")
    value, k = _line(a, axis, "argsort")
    return Array(prims.argsort(value, axis=k, descending=bool(descending)))


def lexsort(keys: Any, axis: int = -1) -> Array:
    """The stable permutation that sorts by several keys: the last is the first to count.

    >>> import numbagrad.numpy as np
    >>> np.lexsort(([3, 1, 2], [0, 1, 0]))
    Array([2, 0, 1], dtype=int64)
    """
    given = keys if isinstance(keys, (list, tuple)) else Array(value_of(keys))
    lines = [ordered(k, "lexsort") for k in arrays_of("lexsort", *given)]
    if not lines or len({v.shape for v in lines}) > 1:
        got = [v.shape for v in lines]
        raise ValueError(message("lexsort", "keys do not match", got, "at least one key, all of one shape"))
    if lines[0].shape == ():
        return Array(beside(np.zeros((), np.int64), lines[0]))
    return Array(permutation(lines[::-1], normalize_axis(axis, len(lines[0].shape), "lexsort")))


def permutation(keys: Sequence[Any], axis: int) -> Any:
    """The stable permutation along an axis by several keys, the first counting first."""
    found = prims.argsort(keys[-1], axis=axis)
    for key in keys[-2::-1]:
        then = prims.argsort(take_along(key, found, axis=axis), axis=axis)
        found = take_along(found, then, axis=axis)
    return found


def _places(kth: Any, n: int, name: str) -> tuple[int, ...]:
    given = np.atleast_1d(np.asarray(kth))
    if given.size and given.dtype.kind not in "iu":
        raise TypeError(message(name, "kth is not an integer", kth, "an int or several"))
    if given.size and not (-n <= given.min() and given.max() < n):
        raise ValueError(message(name, "kth out of range", kth, f"{-n} to {n - 1} for {n} elements"))
    return tuple(sorted({int(k) % n for k in given.ravel()}))


def _partitioning(value: Any, kth: Any, axis: int, name: str) -> Any:
    places = _places(kth, value.shape[axis], name)
    if places:
        return prims.argpartition(value, kth=places, axis=axis)
    line = np.arange(value.shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(value.shape))])
    return beside(np.ascontiguousarray(np.broadcast_to(line, value.shape)), value)


def argpartition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: None = None) -> Array:
    """A permutation that brings the elements of sorted places `kth` there, smaller before and larger after."""
    _plain(None, order, "argpartition")
    value, k = _line(a, axis, "argpartition")
    return Array(_partitioning(value, kth, k, "argpartition"))


def partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: None = None) -> Array:
    """Elements of sorted places `kth` in their places, smaller before and larger after, in any order.

    Derivative: along the permutation. Edge: nan is last.
    """
    _plain(None, order, "partition")
    value, k = _line(a, axis, "partition")
    index = _partitioning(value, kth, k, "partition")
    return Array(take_along(value, index, axis=k, unique=True))


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Array:
    """Places where elements would go into a sorted array (sorted by `sorter`, if given). No derivative.

    >>> import numbagrad.numpy as np
    >>> np.searchsorted([1, 2, 2, 3], [2, 9]), int(np.searchsorted([1, 2, 2, 3], 2, side="right"))
    (Array([1, 4], dtype=int64), 3)
    """
    line, values = (ordered(x, "searchsorted") for x in arrays_of("searchsorted", a, v))
    if len(line.shape) != 1:
        raise ValueError(message("searchsorted", "not a line", f"shape {line.shape}", "one axis"))
    if side not in ("left", "right"):
        raise ValueError(message("searchsorted", "no such side", repr(side), "'left' or 'right'"))
    if sorter is not None:
        order = host_value(sorter, "searchsorted")
        if order.dtype.kind not in "iu" or order.shape != line.shape:
            got = f"{order.dtype}{list(order.shape)}"
            raise ValueError(message("searchsorted", "sorter is no permutation", got, f"{line.shape[0]} integers"))
        line = rows_of.take(line, convert(order, np.dtype(np.int64)), mode="raise")
    return Array(prims.searchsorted(line, values, side=side))


def digitize(x: Any, bins: Any, right: bool = False) -> Array:
    """Number of the bin of each element, for increasing or decreasing edges. No derivative."""
    values, edges = ordered(x, "digitize"), concrete_array(Array(ordered(Array(host_value(bins)), "digitize")))
    steps = np.diff(edges) if edges.ndim == 1 else None
    if steps is None or not ((steps >= 0).all() or (steps <= 0).all()):
        raise ValueError(message("digitize", "bins are not monotonic", f"shape {edges.shape}", "one monotonic axis"))
    side = "left" if right else "right"
    if edges.size and edges[-1] < edges[0]:
        return ew.call("subtract", edges.size, Array(prims.searchsorted(edges[::-1], values, side=side)))
    return Array(prims.searchsorted(edges, values, side=side))


# --- what is unique


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The different elements, sorted (slices of an axis); the derivative goes to the first of equals.

    size: cut or filled up to this number, with `fill_value` or the first element (and counts of 0), as in JAX.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.grad(lambda x: np.sum(np.unique(x) ** 2))(np.asarray([3.0, 1.0, 3.0]))
    Array([6., 2., 0.], dtype=float64)
    """
    x = Array(value_of(ar, "unique"))
    k = None if axis is None else normalize_axis(axis, x.ndim, "unique")
    plain, wide = concrete_array(x), computed(x.dtype)  # NumPy does not know bfloat16's nan from its numbers
    if plain is x._value and size is None and not (return_index or return_inverse or return_counts):
        return Array(np.unique(plain.astype(wide, copy=False), axis=k, equal_nan=equal_nan).astype(x.dtype, copy=False))
    options: Any = dict(return_inverse=bool(return_inverse), axis=k, equal_nan=equal_nan)
    _, first, *more = np.unique(plain.astype(wide, copy=False), return_index=True, return_counts=True, **options)
    inverse, counts = more[0], more[-1]
    lines = shaping.ravel(x) if k is None else shaping.moveaxis(x, k, 0)
    found = Array(rows_of.take(lines._value, first, mode="raise"))
    if size is not None:
        if (number := whole(size, "unique", "size")) < 0:
            raise ValueError(message("unique", "a negative size", number, "0 or more"))
        found, first, counts = _resized(found, first, counts, number, fill_value)
    found = found if k is None else shaping.moveaxis(found, 0, k)
    wanted = ((return_index, first), (return_inverse, inverse), (return_counts, counts))
    rest = [Array(beside(np.asarray(part, np.int64), x._value)) for want, part in wanted if want]
    return (found, *rest) if rest else found


def _resized(found: Array, first: Any, counts: Any, size: int, fill_value: Any) -> tuple[Array, Any, Any]:
    missing = size - found.shape[0]
    if missing <= 0:
        return Array(found[:size]._value), first[:size], counts[:size]
    if fill_value is None and found.shape[0] == 0:
        raise ValueError(message("unique", "nothing to fill up with", "an empty array", "fill_value="))
    rest = (missing, *found.shape[1:])
    filler = shaping.broadcast_to(found[:1], rest) if fill_value is None else np.full(rest, fill_value, found.dtype)
    first = np.concatenate([first, np.full(missing, first[0] if first.size else 0)])
    return shaping.concatenate([found, filler], 0), first, np.concatenate([counts, np.zeros(missing, np.int64)])


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Array
    inverse_indices: Array


def unique_all(x: Any, /) -> UniqueAll:
    """The different elements, where each is first, which of them each element is, how many there are; nans differ."""
    return UniqueAll(*unique(x, True, True, True, equal_nan=False))


def unique_counts(x: Any, /) -> UniqueCounts:
    """The different elements and how many there are of each; nans differ."""
    return UniqueCounts(*unique(x, return_counts=True, equal_nan=False))


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The different elements and which of them each element is; nans differ."""
    return UniqueInverse(*unique(x, return_inverse=True, equal_nan=False))


def unique_values(x: Any, /) -> Array:
    """The different elements; nans differ."""
    return unique(x, equal_nan=False)


# --- methods that order the array itself, as NumPy's do


def _in_place(self: Array, result: Array, name: str) -> None:
    if isinstance(self, ViewArray):
        wrong = "x is the result of indexing another array, which would not change"
        step = f"Take the result, np.{name}(x), or make it independent first, x = x.copy()."
        got = f"a view of shape {self.shape}"
        raise ViewAssignmentError(message(f"x.{name}()", wrong, got, "an array of its own", step))
    ew.rebind(self, result, name)


def sort_in_place(
    self: Array, axis: int = -1, kind: Any = None, order: None = None, *, stable: Any = None, descending: bool = False
) -> None:
    """Sort the array itself; `np.sort(x)` gives a sorted copy."""
    _in_place(self, sort(self, axis, kind, order, stable=stable, descending=descending), "sort")


def partition_in_place(self: Array, kth: Any, axis: int = -1, kind: str = "introselect", order: None = None) -> None:
    """Partition the array itself; `np.partition(x, kth)` gives a copy."""
    _in_place(self, partition(self, kth, axis, kind, order), "partition")
