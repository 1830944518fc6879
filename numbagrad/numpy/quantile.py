"""Medians, quantiles and percentiles: interpolation between neighbours of the sorted array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from numbagrad.core.arguments import host_value, meet_with
from numbagrad.core.array import Array, concrete_array
from numbagrad.core.device import beside
from numbagrad.core.dtypes import SCALARS, float_dtype
from numbagrad.core.errors import message
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy import reductions, shaping
from numbagrad.numpy.halves import in_float32
from numbagrad.numpy.order import ordered
from numbagrad.numpy.reductions import normalize_axes
from numbagrad.primitives import sort as prims
from numbagrad.primitives.along import take_along
from numbagrad.primitives.broadcast import count
from numbagrad.primitives.elementwise import convert
from numbagrad.scalar import ATOMS, arg

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]


def _lerp() -> Any:
    """a + t (b - a), exact at both ends, and without inf - inf or 0 * inf."""
    a, b, t = arg(0), arg(1), arg(2)
    select, times, apart = ATOMS["select"], ATOMS["zero_product"], b - a
    near = select(t < 0.5, a + apart * t, b - apart * (1 - t))
    expr = select(ATOMS["isfinite"](apart), near, times(1 - t, a) + times(t, b))
    return ew.composed("lerp", expr, 3, "float", "Between a and b.")


lerp = _lerp()


class Method(NamedTuple):
    """Where a quantile lies among n sorted elements: at(n, q), from 0; whether it varies with q between elements; what
    becomes of its fraction."""

    at: Callable[[Any, Any], Any]
    continuous: bool = True
    fraction: Callable[[Any], Any] = lambda t: t


def _plotting(alpha: float, beta: float) -> Method:
    return Method(lambda n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1)


def _up(place: Any) -> Any:
    """The next element, unless it is one exactly."""
    return np.ceil(place)


def _closest(n: Any, q: Any) -> Any:
    place = n * q - 1.5
    low = np.floor(place)
    return np.where((place == low) & (low % 2 == 1), low, low + 1)


METHODS = {
    "linear": Method(lambda n, q: (n - 1) * q),
    "lower": Method(lambda n, q: np.floor((n - 1) * q), False),
    "higher": Method(lambda n, q: np.ceil((n - 1) * q), False),
    "midpoint": Method(lambda n, q: 0.5 * (np.floor((n - 1) * q) + np.ceil((n - 1) * q)), False),
    "nearest": Method(lambda n, q: np.around((n - 1) * q), False),
    "inverted_cdf": Method(lambda n, q: _up(n * q - 1), False),
    "averaged_inverted_cdf": Method(lambda n, q: n * q - 1, False, lambda t: np.where(t == 0, 0.5, 1.0)),
    "closest_observation": Method(_closest, False),
    "interpolated_inverted_cdf": _plotting(0, 1),
    "hazen": _plotting(0.5, 0.5),
    "weibull": _plotting(0, 0),
    "median_unbiased": _plotting(1 / 3, 1 / 3),
    "normal_unbiased": _plotting(3 / 8, 3 / 8),
}


def _rows(a: Any, axis: Any, name: str) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    """(..., n) with the axes flattened at the end, the axes, and the shape before."""
    value = ordered(a, name)
    shape = value.shape
    axes = normalize_axes(axis, len(shape), name)
    value = convert(value, float_dtype(value.dtype))
    order = tuple(k for k in range(len(shape)) if k not in axes) + axes
    kept = tuple(shape[k] for k in order[: len(shape) - len(axes)])
    rows = shaping.reshape(shaping.transpose(Array(value), order), (*kept, count(shape, axes)))
    return rows._value, axes, shape


def _quantile(a: Any, q: Any, axis: Any, method: str, keepdims: bool, skip: bool, weights: Any, name: str) -> Array:
    """Quantiles over axes; `skip` leaves out the nans."""
    rows, axes, shape = _rows(a, axis, name)
    if method not in METHODS:
        raise ValueError(message(name, "no such method", repr(method), f"one of {', '.join(METHODS)}"))
    parts = Array(host_value(q, name))
    parts = Array(convert(parts._value, rows.dtype if q.__class__ in SCALARS else float_dtype(parts.dtype)))
    plain = concrete_array(parts).astype(np.float64).reshape(-1)
    if not ((plain >= 0) & (plain <= 1)).all():
        limit = 100 if "percentile" in name else 1
        raise ValueError(message(name, "not a share", q, f"numbers from 0 to {limit}"))
    kept = rows.shape[:-1]
    if rows.shape[-1] == 0:
        found = Array(beside(np.full((*kept, plain.size), np.nan, rows.dtype), rows))
    elif weights is not None:
        found = _weighted(rows, plain, weights, axes, shape, method, skip, name)
    else:
        found = _sorted(rows, parts, plain, METHODS[method], skip)
    result = shaping.moveaxis(found, -1, 0)
    result = shaping.reshape(result, (*parts.shape, *kept))
    if keepdims:
        inner = tuple(1 if k in axes else n for k, n in enumerate(shape))
        result = shaping.reshape(result, (*parts.shape, *inner))
    return result


def _sorted(rows: Any, parts: Array, plain: np.ndarray, method: Method, skip: bool) -> Array:
    """(..., q) from (..., n)."""
    last = len(rows.shape) - 1
    line = prims.sort(rows, axis=last)
    n: Any = float(rows.shape[last])
    if skip:
        held = reductions.sum(~ew.isnan(Array(rows)), last, keepdims=True)
        n = concrete_array(held).astype(np.float64)
    place = np.broadcast_to(method.at(n, plain), (*rows.shape[:-1], plain.size))
    low = np.floor(place)
    top = np.maximum(n - 1, 0)
    first, second = (np.clip(k, 0, top).astype(np.int64) for k in (low, low + 1))
    t: Any = method.fraction(place - low).astype(parts.dtype)
    if method.continuous:  # the fraction moves with q
        host = parts._value.__class__ is np.ndarray  # shares of the CPU's go where the elements are
        (q,) = meet_with("quantile", Array(rows), parts._value if host else parts)
        flat = shaping.reshape(Array(q), (plain.size,))
        moved = method.at(n, flat) - method.at(n, plain)
        t = ew.convert_like(moved, parts) + t
    a, b = (Array(take_along(line, np.ascontiguousarray(k), axis=last)) for k in (first, second))
    inside = np.asarray((place >= 0) & (place < top))
    (t,) = meet_with("quantile", a, t if isinstance(t, Array) else np.asarray(t))
    found = ew.where(inside, lerp(a, b, ew.where(inside, Array(t), 0.5)), a)
    if skip:
        return found
    end = Array(line)[..., -1:]
    return ew.where(ew.isnan(end), end, found)  # a nan is the result, and has the derivative


def _weighted(
    rows: Any, plain: np.ndarray, weights: Any, axes: Any, shape: Any, method: str, skip: bool, name: str
) -> Array:
    """Where the sum of the weights of the sorted elements first reaches a share of the whole."""
    if method != "inverted_cdf":
        raise ValueError(message(name, "weights need another method", repr(method), "method='inverted_cdf'"))
    w = concrete_array(Array(host_value(weights, name))).astype(np.float64)
    if w.shape != shape:
        if len(axes) != 1 or w.shape != (shape[axes[0]],):
            raise ValueError(message(name, "weights do not fit", w.shape, f"{shape}, or one per element of the axis"))
        w = np.broadcast_to(w.reshape([-1 if k == axes[0] else 1 for k in range(len(shape))]), shape)
    order = tuple(k for k in range(len(shape)) if k not in axes) + axes
    w = w.transpose(order).reshape(rows.shape)
    numbers = concrete_array(Array(rows))
    if (w < 0).any() or np.isnan(w).any():
        raise ValueError(message(name, "weights below 0", "a negative weight or nan", "weights >= 0"))
    w = np.where(np.isnan(numbers), 0, w) if skip else w
    index = np.argsort(numbers, -1, kind="stable")
    total = np.cumsum(np.take_along_axis(w, index, -1), -1)
    with np.errstate(invalid="ignore", divide="ignore"):
        total = total / total[..., -1:]
    total[total == 0] = -1.0
    found = np.sum(total[..., None, :] < plain[:, None], -1)
    last = len(rows.shape) - 1
    line = Array(take_along(rows, index, axis=last))
    result = Array(take_along(line._value, np.minimum(found, rows.shape[last] - 1), axis=last))
    end = line[..., -1:]
    return result if skip else ew.where(ew.isnan(end), end, result)


def _family(name: str, skip: bool, percent: bool, doc: str) -> Callable[..., Array]:
    def function(
        a: Any,
        q: Any,
        axis: int | tuple[int, ...] | None = None,
        out: Any = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: bool = False,
        *,
        weights: Any = None,
    ) -> Array:
        if percent:
            q = q / 100 if isinstance(q, (int, float)) else ew.call("divide", Array(host_value(q, name)), 100)
        return ew.store(_quantile(a, q, axis, method, keepdims, skip, weights, name), out, name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return in_float32(function)


quantile = _family(
    "quantile",
    False,
    False,
    """The elements below which the shares `q` (from 0 to 1) of the array lie, over axes; all of NumPy's methods.

    Shapes: those of q, then the axes left. Edge: a nan is the result and has the derivative.
    Derivative: to the two neighbours, and for continuous methods to q.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.grad(lambda x: np.quantile(x, 0.25))(np.asarray([4.0, 1.0, 3.0]))
    Array([0. , 0.5, 0.5], dtype=float64)
    """,
)
percentile = _family("percentile", False, True, "Quantiles for `q` from 0 to 100.")
nanquantile = _family("nanquantile", True, False, "Quantiles of what is not nan; nan where there is nothing else.")
nanpercentile = _family("nanpercentile", True, True, "Percentiles of what is not nan; nan where there is nothing else.")


@in_float32
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Array:
    """The middle of the sorted elements, the mean of the two middle ones of an even number; nan if one is.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.grad(np.median)(np.asarray([4.0, 1.0, 2.0, 9.0]))
    Array([0.5, 0. , 0.5, 0. ], dtype=float64)
    """
    return ew.store(_quantile(a, 0.5, axis, "linear", keepdims, False, None, "median"), out, "median")


@in_float32
def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """Median of what is not nan; nan where there is nothing else."""
    return ew.store(_quantile(a, 0.5, axis, "linear", keepdims, True, None, "nanmedian"), out, "nanmedian")
