"""Counts by bin: the numbers of the bins are constants, the weights have a derivative."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from numbagrad.core.arguments import arrays_of, host_value, meet_with
from numbagrad.core.array import Array, concrete_array
from numbagrad.core.device import beside
from numbagrad.core.dtypes import FLOATING
from numbagrad.core.errors import message
from numbagrad.core.trace import concrete
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy import shaping
from numbagrad.numpy.indexing import as_index
from numbagrad.numpy.order import ordered, whole
from numbagrad.primitives import index as rows_of
from numbagrad.primitives.broadcast import reshape_to
from numbagrad.primitives.elementwise import convert
from numbagrad.primitives.reduce import reduce_max, reduce_min
from numbagrad.primitives.segment import segment_sum
from numbagrad.primitives.sort import searchsorted

_RULES = ("auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges")

__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


def _numbers(x: Any, name: str) -> np.ndarray:
    return concrete_array(Array(ordered(Array(host_value(x, name)), name)))


def _points(x: Any, name: str) -> Any:
    """The concrete numbers to count, where they are."""
    return concrete(ordered(x, name))


def _totals(numbers: Any, weights: Any, bins: int, name: str) -> Any:
    """Sum of the weights by number; numbers out of range are dropped."""
    (value,) = meet_with(name, Array(numbers), weights)
    if value.shape != numbers.shape:
        raise ValueError(message(name, "weights do not fit", value.shape, f"one per element, {numbers.shape}"))
    flat = shaping.ravel(Array(value))._value
    if flat.dtype.kind == "b":
        flat = convert(flat, np.dtype(np.int64))
    index = convert(reshape_to(numbers, (numbers.size,)), np.dtype(np.int64))
    if index.__class__ is not np.ndarray:
        return segment_sum(flat, index, segments=bins, mode="drop")
    index = np.where((index < 0) | (index >= bins), bins, index)
    return rows_of.scatter_add(np.zeros(bins, flat.dtype), index, flat, mode="fill")


def _count(numbers: Any, bins: int) -> Any:
    """How often each number below `bins` occurs; negative ones are dropped."""
    if numbers.__class__ is np.ndarray:
        return np.bincount(numbers[(numbers >= 0) & (numbers < bins)], minlength=bins)
    one = np.broadcast_to(np.ones((), np.int64), numbers.shape)
    return segment_sum(numbers.put(one), numbers, segments=bins, mode="drop")


def _ends(numbers: Any) -> tuple[Any, Any]:
    """The smallest and the largest number of some."""
    if numbers.__class__ is np.ndarray:
        return numbers.min(), numbers.max()
    axes = tuple(range(numbers.ndim))
    least, most = (np.asarray(f(numbers, axes=axes))[()] for f in (reduce_min, reduce_max))
    return least, most


def bincount(x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None) -> Array:
    """How often each number from 0 on occurs, or the sums of the weights of each.

    length: exactly as many bins, larger numbers are dropped, as in JAX. Dtypes: sums are float64.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.grad(lambda w: np.bincount([0, 1, 1], w)[1])(np.asarray([1.0, 2.0, 3.0]))
    Array([0., 1., 1.], dtype=float64)
    """
    numbers = _points(x, "bincount")
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "biu"):
        got = f"{numbers.dtype}{list(numbers.shape)}"
        raise TypeError(message("bincount", "not a line of integers", got, "one axis of integers"))
    least, most = _ends(numbers) if numbers.size else (0, -1)
    if least < 0:
        raise ValueError(message("bincount", "a negative number", least, "numbers from 0 on"))
    minlength = whole(minlength, "bincount", "minlength")
    bins = None if length is None else whole(length, "bincount", "length")
    if minlength < 0 or (bins is not None and bins < 0):
        got = f"minlength={minlength}, length={length}"
        raise ValueError(message("bincount", "a negative length", got, "0 or more"))
    numbers = convert(as_index(numbers), np.dtype(np.int64))
    if bins is None:
        bins = max(minlength, int(most) + 1)
    if weights is None:
        return Array(_count(numbers, bins))
    if isinstance(weights, Array) and numbers.__class__ is np.ndarray:
        numbers = beside(numbers, weights._value)
    (value,) = meet_with("bincount", Array(numbers), weights)
    if value.dtype.kind == "c":
        raise TypeError(message("bincount", "complex weights", value.dtype, "a real dtype", "Count both parts."))
    return Array(_totals(numbers, Array(convert(value, np.dtype(np.float64))), bins, "bincount"))


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Array:
    """The edges `histogram` would use. No derivative."""
    plain = _points(a, "histogram_bin_edges")
    return Array(beside(_edges(plain, bins, range, weights, "histogram_bin_edges"), plain))


def _number(bins: Any) -> int | None:
    """How many bins, of any kind of integer; None if something else is said."""
    if isinstance(bins, (int, np.integer)):
        return int(bins)
    if isinstance(bins, (Array, np.ndarray)) and bins.ndim == 0 and bins.dtype.kind in "iu":
        return int(concrete_array(bins))
    return None


def _bins(bins: Any, name: str) -> Any:
    """A number of bins or their edges, checked."""
    number = _number(bins)
    if number is not None:
        if number < 1:
            raise ValueError(message(name, "number of bins", number, "at least 1"))
        return number
    edges = _numbers(bins, name)
    if edges.ndim == 0:
        raise TypeError(message(name, "bins", repr(bins), "an integer or a line of edges"))
    if edges.ndim > 1 or edges.size == 0:
        raise ValueError(message(name, "edges are not a line", f"shape {edges.shape}", "one axis"))
    if (edges[1:] < edges[:-1]).any():
        raise ValueError(message(name, "edges decrease", edges, "edges in increasing order"))
    return edges


def _span(range: Any, name: str) -> Any:
    """The ends of a range, checked."""
    if range is None:
        return None
    ends = tuple(concrete_array(e)[()] if isinstance(e, Array) else e for e in range)
    if len(ends) != 2:
        raise ValueError(message(name, "range", ends, "a lower and an upper end"))
    if not all(np.isfinite(e) for e in ends) or ends[0] > ends[1]:
        raise ValueError(message(name, "range", ends, "finite ends in increasing order"))
    return ends


def _finite(values: Any, name: str) -> None:
    if values.dtype.kind in FLOATING and values.size and not np.isfinite(_ends(values)).all():
        step = "Give range=, or edges: then what is outside is left out."
        raise ValueError(message(name, "the range of the data", "nan or inf", "finite values", step))


def _edges(plain: Any, bins: Any, range: Any, weights: Any, name: str) -> np.ndarray:
    if not isinstance(bins, str):
        bins = _bins(bins, name)
    elif bins not in _RULES:
        raise ValueError(message(name, "no such rule for bins", repr(bins), ", ".join(_RULES)))
    elif weights is not None:
        raise TypeError(message(name, "rules know no weights", f"bins={bins!r}", "a number of bins or their edges"))
    span = _span(range, name)
    if span is None and not isinstance(bins, np.ndarray):
        _finite(plain, name)
    if plain.__class__ is not np.ndarray:  # but for a rule, the ends of the data are all that counts
        plain = np.asarray(plain) if isinstance(bins, str) or not plain.size else np.asarray(_ends(plain))
    edges = np.histogram_bin_edges(plain, bins, span)
    return edges if edges.dtype.kind in FLOATING and edges.itemsize >= 4 else np.asarray(edges, float)


def histogram(a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None) -> Any:
    """Counts (or sums of weights) by bin, and the edges; the last bin includes its right edge.

    bins: a number, edges, or the name of one of NumPy's rules. Derivative: of the weights.

    >>> import numbagrad.numpy as np
    >>> np.histogram(np.asarray([1.0, 2.0, 2.0, 4.0]), bins=3)
    (Array([1, 2, 1], dtype=int64), Array([1., 2., 3., 4.], dtype=float64))
    """
    if weights is not None:
        a, weights = arrays_of("histogram", a, weights)
    plain = _points(a, "histogram")
    edges = _edges(plain, bins, range, weights, "histogram")
    counts = Array(_grid([reshape_to(plain, (plain.size,))], edges=[edges], weights=weights, name="histogram"))
    return (_density(counts, [edges]) if density else counts), Array(beside(edges, plain))


def _grid(columns: Sequence[Any], edges: Sequence[np.ndarray], weights: Any, name: str) -> Any:
    """Counts of points, given by their coordinates, in the boxes between edges."""
    shape = tuple(e.size - 1 for e in edges)
    number: Any = 0
    inside: Any = None
    for column, e in zip(columns, edges, strict=True):
        place = Array(searchsorted(e, column, side="right")) - 1
        place = ew.where(Array(column) == e[-1], e.size - 2, place)
        within = (place >= 0) & (place <= e.size - 2)
        inside = within if inside is None else inside & within
        number = number * (e.size - 1) + place
    number = ew.where(inside, number, -1)._value
    bins = math.prod(shape)
    if weights is None:
        return shaping.reshape(Array(_count(number, bins)), shape)._value
    flat = shaping.ravel(Array(meet_with(name, Array(number), weights)[0]))
    return shaping.reshape(Array(_totals(number, flat, bins, name)), shape)._value


def _density(counts: Array, edges: Sequence[np.ndarray]) -> Array:
    total = Array(convert(counts._value, np.dtype(np.float64))) if counts.dtype.kind in "biu" else counts
    for k, e in enumerate(edges):
        total = total / np.diff(e).reshape([-1 if d == k else 1 for d in range(len(edges))]).astype(total.dtype)
    return total / counts.sum()


def _edges_of_axes(points: np.ndarray, bins: Any, range: Any) -> list[np.ndarray]:
    name, axes = "histogramdd", points.shape[1]
    number = _number(bins)
    parts = [_bins(b, name) for b in ([number] * axes if number is not None else bins)]
    spans: Any = [None] * axes if range is None else [_span(r, name) for r in range]
    if len(parts) != axes or len(spans) != axes:
        got = f"{len(parts)} bins and {len(spans)} ranges"
        raise ValueError(message(name, "numbers of bins and axes differ", got, f"{axes}, one for each axis"))
    for column, part, span in zip(points.T, parts, spans, strict=True):
        if span is None and isinstance(part, int):
            _finite(column, name)
    return list(np.histogramdd(points, parts, spans)[1])


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> Any:
    """Counts (or sums of weights) of points in boxes, and the edges of each axis. Derivative: of the weights.

    sample: (n, d), or d arrays of n coordinates.
    """
    if isinstance(sample, (list, tuple)):
        columns = [concrete(ordered(s, "histogramdd")) for s in arrays_of("histogramdd", *sample)]
    else:
        points = Array(_points(sample, "histogramdd"))
        points = points[:, None] if points.ndim == 1 else points
        columns = [points[:, k]._value for k in builtins.range(points.shape[1])]
    edges = _edges_of_axes(np.stack([np.asarray(c) for c in columns], -1), bins, range)
    counts = Array(_grid(columns, edges, weights, "histogramdd"))
    if weights is None:  # NumPy's counts are floats here
        counts = Array(convert(counts._value, np.dtype(np.float64)))
    return (_density(counts, edges) if density else counts), [Array(beside(e, counts._value)) for e in edges]


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Array, Array, Array]:
    """Counts (or sums of weights) of points (x, y) in rectangles, and the edges of both axes."""
    if _number(bins) is None and len(bins) != 2:
        bins = [bins, bins]
    counts, (first, second) = histogramdd([x, y], bins, range, density, weights)
    return counts, first, second
