"""Differences, integrals, interpolation, polynomials, statistics of several variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from numbagrad.core.arguments import arrays_of, meet_with, value_of
from numbagrad.core.array import Array
from numbagrad.core.dtypes import SCALARS, computed
from numbagrad.core.errors import message
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy import products, reductions, shaping
from numbagrad.numpy.cumulative import cumsum
from numbagrad.numpy.halves import in_float32
from numbagrad.numpy.reductions import normalize_axis
from numbagrad.numpy.searching import take
from numbagrad.primitives.barrier import stop_gradient
from numbagrad.primitives.elementwise import convert
from numbagrad.primitives.sort import argsort, searchsorted

# fmt: off
__all__ = [
    "apply_along_axis", "corrcoef", "cov", "diff", "ediff1d", "gradient", "interp", "polyval", "trapezoid",
    "unwrap", "vectorize",
]
# fmt: on


def _float(x: Any) -> Array:
    return ew.convert_to_float(x, "asarray")


def _cut(x: Array, axis: int, start: int | None, stop: int | None) -> Array:
    return Array(x[(slice(None),) * axis + (slice(start, stop),)]._value)


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Array:
    """n-th difference of neighbours along an axis."""
    given = [p for p in (a, prepend, append) if p is not None]
    x, *more = arrays_of("diff", *given)
    k = normalize_axis(axis, x.ndim, "diff")
    if n < 0:
        raise ValueError(message("diff", "negative order", n, "n >= 0"))
    ends = []
    for extra in (prepend, append):
        if extra is not None:
            e = more.pop(0)
            extra = shaping.broadcast_to(e, (*x.shape[:k], 1, *x.shape[k + 1 :])) if e.ndim == 0 else e
        ends.append(extra)
    parts = [p for p in (ends[0], x, ends[1]) if p is not None]
    x = shaping.concatenate(parts, k) if len(parts) > 1 else x
    for _ in range(n):
        after, before = _cut(x, k, 1, None), _cut(x, k, None, -1)
        x = after != before if x.dtype == bool else after - before
    return x


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Array:
    """Differences of neighbours of the flat array, with optional ends."""
    return shaping.concatenate([p for p in (to_begin, diff(shaping.ravel(ary)), to_end) if p is not None], None)


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Derivative by central differences of second order, one-sided at the ends; spacing as numbers or coordinates.

    Dtypes: that of f, integers as float64.
    """
    x = _float(f)
    axes = reductions.normalize_axes(axis, x.ndim, "gradient")
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError(message("gradient", "number of spacings", len(varargs), f"0, 1 or {len(axes)}"))
    spacings = varargs * len(axes) if len(varargs) == 1 else varargs or (1.0,) * len(axes)
    wide = Array(convert(x._value, computed(x.dtype)))
    found = [
        Array(convert(_gradient(wide, h, k, edge_order)._value, x.dtype)) for h, k in zip(spacings, axes, strict=True)
    ]
    return found[0] if len(found) == 1 else found


def _gradient(x: Array, spacing: Any, axis: int, edge_order: int) -> Array:
    n = x.shape[axis]
    if n < edge_order + 1:
        raise ValueError(message("gradient", "axis too short", n, f"at least {edge_order + 1}"))
    h = Array(meet_with("gradient", x, spacing)[0])
    h = h.astype(x.dtype) if spacing.__class__ in SCALARS else h
    if h.ndim:
        h = diff(h).reshape([-1 if d == axis else 1 for d in range(x.ndim)])
    else:
        h = h * np.ones([n - 1 if d == axis else 1 for d in range(x.ndim)], x.dtype)
    slope = diff(x, axis=axis) / h
    left, right = _cut(slope, axis, None, -1), _cut(slope, axis, 1, None)
    hl, hr = _cut(h, axis, None, -1), _cut(h, axis, 1, None)
    inner = (left * hr + right * hl) / (hl + hr)
    first, last = _cut(slope, axis, None, 1), _cut(slope, axis, -1, None)
    if edge_order == 2:
        first = first - _cut(h, axis, None, 1) * _cut((right - left) / (hl + hr), axis, None, 1)
        last = last + _cut(h, axis, -1, None) * _cut((right - left) / (hl + hr), axis, -1, None)
    return shaping.concatenate([first, inner, last], axis)


@in_float32
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Array:
    """Integral along an axis by the trapezoidal rule."""
    v, *rest = arrays_of("trapezoid", *((y,) if x is None else (y, x)))
    k = normalize_axis(axis, v.ndim, "trapezoid")
    step: Any = dx
    if x is not None:
        (points,) = rest
        step = diff(points, axis=-1 if points.ndim == 1 else k)
        step = step.reshape([-1 if d == k else 1 for d in range(v.ndim)]) if points.ndim == 1 else step
    return reductions.sum(step * (_cut(v, k, 1, None) + _cut(v, k, None, -1)) / 2.0, k)


@in_float32
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: float | None = None) -> Array:
    """Piecewise linear interpolation through (xp, fp), xp ascending; differentiable in x, xp and fp."""
    v, points, heights = map(_float, arrays_of("interp", x, xp, fp))
    if points.ndim != 1 or points.shape != heights.shape or points.size == 0:
        raise ValueError(
            message("interp", "points do not match", f"{points.shape}, {heights.shape}", "equal 1-d shapes")
        )
    if period is not None:
        v, points = v % period, points % period
        order = Array(argsort(points._value, axis=0))
        points, heights = points[order], heights[order]
        points = shaping.concatenate([points[-1:] - period, points, points[:1] + period])
        heights = shaping.concatenate([heights[-1:], heights, heights[:1]])
    n = points.size
    if n == 1:
        inside = v * 0 + heights[0]
    else:
        i = ew.clip(Array(searchsorted(points._value, v._value, side="right")), 1, n - 1)
        x0, x1, f0, f1 = (take(p, j) for p, j in ((points, i - 1), (points, i), (heights, i - 1), (heights, i)))
        inside = f0 + (v - x0) / (x1 - x0) * (f1 - f0)
    if period is None:
        inside = ew.where(v < points[0], heights[0] if left is None else left, inside)
        inside = ew.where(v > points[-1], heights[-1] if right is None else right, inside)
    return inside


def unwrap(p: Any, discont: float | None = None, axis: int = -1, *, period: float = 2 * np.pi) -> Array:
    """Jumps of more than half a period along an axis taken out.

    Dtypes: that of p; float64 for integers unless the period is an integer, too.
    """
    given = Array(value_of(p, "unwrap"))
    whole = given.dtype.kind in "iu" and isinstance(period, int)
    x = given.astype(np.int64) if whole else _float(given)
    dtype = given.dtype if whole else x.dtype
    k = normalize_axis(axis, x.ndim, "unwrap")
    plain = Array(stop_gradient(x._value))
    step = diff(plain, axis=k)
    half: Any = period // 2 if whole else period / 2
    reduced = (step + half) % period - half
    if half * 2 == period:
        reduced = ew.where((reduced == -half) & (step > 0), half, reduced)  # half a period up stays up
    jump = ew.where(ew.absolute(step) < (period / 2 if discont is None else discont), 0, reduced - step)
    front = (slice(None),) * k
    rest = x[(*front, slice(1, None))] + cumsum(jump, k)
    return shaping.concatenate([x[(*front, slice(0, 1))], rest], axis=k).astype(dtype)


@in_float32
def polyval(p: Any, x: Any) -> Array:
    """Polynomial with coefficients p, highest power first, at x (Horner)."""
    coefficients, v = arrays_of("polyval", p, x)
    result = v * 0
    for k in range(coefficients.shape[0]):
        result = result * v + coefficients[k]
    return result


@in_float32
def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None) -> Array:
    """Covariance matrix of variables in rows (columns if not rowvar)."""
    first, *second = arrays_of("cov", *((m,) if y is None else (m, y)))
    x = shaping.atleast_2d(_float(first))
    x = x if rowvar or x.shape[0] == 1 else x.T
    if y is not None:
        other = shaping.atleast_2d(_float(second[0]))
        x = shaping.concatenate([x, other if rowvar or other.shape[0] == 1 else other.T])
    freedom = (0 if bias else 1) if ddof is None else ddof
    centred = x - reductions.mean(x, 1, keepdims=True)
    result = products.matmul(centred, ew.conj(centred).T) / float(max(x.shape[1] - freedom, 0))
    return shaping.squeeze(result)


@in_float32
def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Array:
    """Correlation coefficients."""
    c = cov(x, y, rowvar)
    if c.ndim == 0:
        return c / c
    d = ew.call("sqrt", ew.real(products.diagonal(c)))
    return c / products.outer(d, d)


def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Array:
    """A function of 1-d arrays on every slice along an axis."""
    x = shaping.moveaxis(arr, axis, -1)
    rows = x.reshape(-1, x.shape[-1])
    made = [Array(value_of(func1d(Array(rows[k]._value), *args, **kwargs))) for k in range(rows.shape[0])]
    out = shaping.stack(made)
    out = out.reshape((*x.shape[:-1], *out.shape[1:]))
    extra = out.ndim - (x.ndim - 1)
    k = normalize_axis(axis, x.ndim, "apply_along_axis")
    return shaping.moveaxis(out, tuple(range(out.ndim - extra, out.ndim)), tuple(range(k, k + extra)))


def vectorize(pyfunc: Any, *options: Any, **more: Any) -> Any:
    """NumPy's vectorize has no derivative; elementwise code needs none of it."""
    raise TypeError(message("vectorize", "a Python loop over elements is not traced", "a function", "array operations"))
