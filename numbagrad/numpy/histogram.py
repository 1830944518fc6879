"""Counts by bin: the numbers of the bins are constants, the weights have a derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from numbagrad.core.arguments import value_of
from numbagrad.core.array import Array, concrete_array
from numbagrad.core.errors import message
from numbagrad.numpy import shaping
from numbagrad.numpy.order import ordered
from numbagrad.primitives import index as rows_of
from numbagrad.primitives.elementwise import convert
from numbagrad.primitives.sort import searchsorted

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
    if minlength < 0:
        raise ValueError(message("bincount", "a negative length", minlength, "minlength >= 0"))
    numbers = numbers.astype(np.int64)
    bins = max(minlength, int(numbers.max(initial=-1)) + 1) if length is None else length
    if weights is None:
        return Array(np.bincount(numbers[numbers < bins], minlength=bins))
    value = value_of(weights, "bincount")
    if value.dtype.kind == "c":
        raise TypeError(message("bincount", "complex weights", value.dtype, "a real dtype", "Count both parts."))
    return Array(_totals(numbers, Array(convert(value, np.dtype(np.float64))), bins, "bincount"))


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Array:
    """The edges `histogram` would use. No derivative."""
    return Array(_edges(_numbers(a, "histogram_bin_edges"), bins, range, weights))


def _edges(plain: np.ndarray, bins: Any, range: Any, weights: Any) -> np.ndarray:
    bins = bins if isinstance(bins, (int, str)) else _numbers(bins, "histogram")
    heavy = None if weights is None else _numbers(weights, "histogram")
    edges = np.histogram_bin_edges(plain, bins, range, heavy)
    return edges if edges.dtype.kind == "f" and edges.itemsize >= 4 else np.asarray(edges, float)


def histogram(a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None) -> Any:
    """Counts (or sums of weights) by bin, and the edges; the last bin includes its right edge.

    bins: a number, edges, or the name of one of NumPy's rules. Derivative: of the weights.

    >>> import numbagrad.numpy as np
    >>> np.histogram(np.asarray([1.0, 2.0, 2.0, 4.0]), bins=3)
    (Array([1, 2, 1], dtype=int64), Array([1., 2., 3., 4.], dtype=float64))
    """
    plain = _numbers(a, "histogram")
    edges = _edges(plain, bins, range, weights)
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
    if not isinstance(bins, int):
        bins = [b if isinstance(b, int) else _numbers(b, "histogramdd") for b in bins]
    edges = list(np.histogramdd(points, bins, range)[1])
    counts = Array(_grid(points, edges, _flat(weights), "histogramdd"))
    if weights is None:  # NumPy's counts are floats here
        counts = Array(convert(counts._value, np.dtype(np.float64)))
    return (_density(counts, edges) if density else counts), [Array(e) for e in edges]


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Array, Array, Array]:
    """Counts (or sums of weights) of points (x, y) in rectangles, and the edges of both axes."""
    if not isinstance(bins, int) and len(bins) != 2:
        bins = [bins, bins]
    counts, (first, second) = histogramdd([x, y], bins, range, density, weights)
    return counts, first, second
