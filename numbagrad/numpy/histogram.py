"""Counts by bin: the numbers of the bins are constants, the weights have a derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from numbagrad.core.arguments import value_of
from numbagrad.core.array import Array, concrete_array
from numbagrad.core.errors import message
from numbagrad.kernels.cpu.places import as_int64
from numbagrad.numpy import shaping
from numbagrad.numpy.order import ordered, whole
from numbagrad.primitives import index as rows_of
from numbagrad.primitives.elementwise import convert
from numbagrad.primitives.sort import searchsorted

_RULES = ("auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges")

__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


def _numbers(x: Any, name: str) -> np.ndarray:
    return concrete_array(Array(ordered(x, name)))


def _totals(numbers: np.ndarray, weights: Any, bins: int, name: str) -> Any:
    """Sum of the weights by number; numbers out of range are dropped."""
    value = value_of(weights, name)
    if value.shape != numbers.shape:
        raise ValueError(message(name, "weights do not fit", value.shape, f"one per element, {numbers.shape}"))
    flat = shaping.ravel(Array(value))._value
    if flat.dtype.kind == "b":
        flat = convert(flat, np.dtype(np.int64))
    index = numbers.reshape(-1).astype(np.int64)
    index = np.where((index < 0) | (index >= bins), bins, index)
    return rows_of.scatter_add(np.zeros(bins, flat.dtype), index, flat, mode="fill")


def bincount(x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None) -> Array:
    """How often each number from 0 on occurs, or the sums of the weights of each.

    length: exactly as many bins, larger numbers are dropped, as in JAX. Dtypes: sums are float64.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.grad(lambda w: np.bincount([0, 1, 1], w)[1])(np.asarray([1.0, 2.0, 3.0]))
    Array([0., 1., 1.], dtype=float64)
    """
    numbers = _numbers(x, "bincount")
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "biu"):
        got = f"{numbers.dtype}{list(numbers.shape)}"
        raise TypeError(message("bincount", "not a line of integers", got, "one axis of integers"))
    if numbers.size and numbers.min() < 0:
        raise ValueError(message("bincount", "a negative number", numbers.min(), "numbers from 0 on"))
    minlength = whole(minlength, "bincount", "minlength")
    bins = None if length is None else whole(length, "bincount", "length")
    if minlength < 0 or (bins is not None and bins < 0):
        got = f"minlength={minlength}, length={length}"
        raise ValueError(message("bincount", "a negative length", got, "0 or more"))
    numbers = as_int64(numbers)
    if bins is None:
        bins = max(minlength, int(numbers.max(initial=-1)) + 1)
    if weights is None:
        return Array(np.bincount(numbers[numbers < bins], minlength=bins))
    value = value_of(weights, "bincount")
    if value.dtype.kind == "c":
        raise TypeError(message("bincount", "complex weights", value.dtype, "a real dtype", "Count both parts."))
    return Array(_totals(numbers, Array(convert(value, np.dtype(np.float64))), bins, "bincount"))


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Array:
    """The edges `histogram` would use. No derivative."""
    return Array(_edges(_numbers(a, "histogram_bin_edges"), bins, range, weights, "histogram_bin_edges"))


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


def _finite(values: np.ndarray, name: str) -> None:
    if values.dtype.kind == "f" and values.size and not np.isfinite([values.min(), values.max()]).all():
        step = "Give range=, or edges: then what is outside is left out."
        raise ValueError(message(name, "the range of the data", "nan or inf", "finite values", step))


def _edges(plain: np.ndarray, bins: Any, range: Any, weights: Any, name: str) -> np.ndarray:
    if not isinstance(bins, str):
        bins = _bins(bins, name)
    elif bins not in _RULES:
        raise ValueError(message(name, "no such rule for bins", repr(bins), ", ".join(_RULES)))
    elif weights is not None:
        raise TypeError(message(name, "rules know no weights", f"bins={bins!r}", "a number of bins or their edges"))
    span = _span(range, name)
    if span is None and not isinstance(bins, np.ndarray):
        _finite(plain, name)
    edges = np.histogram_bin_edges(plain, bins, span)
    return edges if edges.dtype.kind == "f" and edges.itemsize >= 4 else np.asarray(edges, float)


def histogram(a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None) -> Any:
    """Counts (or sums of weights) by bin, and the edges; the last bin includes its right edge.

    bins: a number, edges, or the name of one of NumPy's rules. Derivative: of the weights.

    >>> import numbagrad.numpy as np
    >>> np.histogram(np.asarray([1.0, 2.0, 2.0, 4.0]), bins=3)
    (Array([1, 2, 1], dtype=int64), Array([1., 2., 3., 4.], dtype=float64))
    """
    plain = _numbers(a, "histogram")
    edges = _edges(plain, bins, range, weights, "histogram")
    counts = Array(_grid(plain.reshape(-1, 1), [edges], _flat(weights), "histogram"))
    return (_density(counts, [edges]) if density else counts), Array(edges)


def _flat(weights: Any) -> Any:
    return None if weights is None else shaping.ravel(Array(value_of(weights, "histogram")))


def _grid(sample: np.ndarray, edges: Sequence[np.ndarray], weights: Any, name: str) -> Any:
    """Counts of (n, d) points in the boxes between edges."""
    shape = tuple(e.size - 1 for e in edges)
    number, inside = np.zeros(len(sample), np.int64), np.ones(len(sample), bool)
    for column, e in zip(sample.T, edges, strict=True):
        place = searchsorted(e, column, side="right") - 1
        place = np.where(column == e[-1], e.size - 2, place)
        inside &= (place >= 0) & (place <= e.size - 2)
        number = number * (e.size - 1) + place
    number = np.where(inside, number, -1)
    bins = int(np.prod(shape))
    if weights is None:
        return np.bincount(number[inside], minlength=bins).reshape(shape)
    return shaping.reshape(Array(_totals(number, weights, bins, name)), shape)._value


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
        points = np.stack([_numbers(s, "histogramdd") for s in sample], -1)
    else:
        points = _numbers(sample, "histogramdd")
        points = points[:, None] if points.ndim == 1 else points
    edges = _edges_of_axes(points, bins, range)
    counts = Array(_grid(points, edges, _flat(weights), "histogramdd"))
    if weights is None:  # NumPy's counts are floats here
        counts = Array(convert(counts._value, np.dtype(np.float64)))
    return (_density(counts, edges) if density else counts), [Array(e) for e in edges]


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Array, Array, Array]:
    """Counts (or sums of weights) of points (x, y) in rectangles, and the edges of both axes."""
    if _number(bins) is None and len(bins) != 2:
        bins = [bins, bins]
    counts, (first, second) = histogramdd([x, y], bins, range, density, weights)
    return counts, first, second
