"""Running results along an axis: sums, products, extrema, log-sum-exps, linear recurrences.

Parameters `axis` and `reverse` (from the last element backwards). With y[-1] the element before in that direction:

    cumsum               linear; its adjoint runs the other way
    linear_recurrence    y = a * y[-1] + b, the derivative of everything below, closed under its own
    cumprod              p = x * p[-1]:  dp = x * dp[-1] + p[-1] * dx, a recurrence: exact with zeros at any order
    cumlogsumexp         y = log(exp(y[-1]) + exp(x)):  dy = kept * dy[-1] + new * dx with the weights of the two terms
    cummax, cummin       routed to the latest of equals; after a nan all is nan, routed to the latest nan
"""

from __future__ import annotations

from typing import Any

import numpy as np

from numbagrad.core.registry import Linear, Smooth, accumulate, routed_pair
from numbagrad.primitives import along
from numbagrad.primitives.elementwise import op
from numbagrad.primitives.join import concatenate
from numbagrad.primitives.slices import getitem

_times = op("null_product")  # a running value that is exactly 0 absorbs in one mode, so it must in the other


def _cumsum_transpose(g: Any, x: Any, *, axis: int, reverse: bool = False, dtype: Any = None) -> Any:
    return cumsum(g, axis=axis, reverse=not reverse)


cumsum = Linear(
    "cumsum",
    "scan:cumsum",
    _cumsum_transpose,
    doc="Sum of the elements so far along an axis; float32 is accumulated in float64. Adjoint: from the other end.",
)


def shifted(x: Any, axis: int, reverse: bool, fill: float) -> Any:
    """The element before along the axis (after, if reversed), `fill` for the first."""
    n = x.shape[axis]
    if n == 0:
        return x
    part = slice(1, None) if reverse else slice(0, n - 1)
    rest = getitem(x, key=(slice(None),) * axis + (part,))
    first = np.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), fill, x.dtype)
    return concatenate(*((rest, first) if reverse else (first, rest)), axis=axis)


# --- y = a * y[-1] + b


def _recurrence_vjp(g: Any, out: Any, a: Any, b: Any, *, axis: int, reverse: bool = False) -> Any:
    back = linear_recurrence(shifted(a, axis, not reverse, 0), g, axis=axis, reverse=not reverse)
    return _times(back, shifted(out, axis, reverse, 0)), back


def _recurrence_jvp(tangents: Any, out: Any, a: Any, b: Any, *, axis: int, reverse: bool = False) -> Any:
    ta, tb = tangents
    if ta is None and tb is None:
        return None
    moved = tb
    if ta is not None:
        term = _times(ta, shifted(out, axis, reverse, 0))
        moved = term if tb is None else accumulate(term, tb)
    return linear_recurrence(a, moved, axis=axis, reverse=reverse)


linear_recurrence = Smooth(
    "linear_recurrence",
    "scan:linear_recurrence",
    _recurrence_vjp,
    _recurrence_jvp,
    doc="y[i] = a[i] * y[i-1] + b[i] along an axis, from y[-1] = 0; an exact zero passes nothing on.",
)


# --- products


def _cumprod_vjp(g: Any, out: Any, x: Any, *, axis: int, reverse: bool = False, dtype: Any = None) -> Any:
    following = shifted(x, axis, not reverse, 0)
    back = linear_recurrence(following, g, axis=axis, reverse=not reverse)
    return (_times(back, shifted(out, axis, reverse, 1)),)


def _cumprod_jvp(tangents: Any, out: Any, x: Any, *, axis: int, reverse: bool = False, dtype: Any = None) -> Any:
    moved = _times(tangents[0], shifted(out, axis, reverse, 1))
    return linear_recurrence(x, moved, axis=axis, reverse=reverse)


cumprod = Smooth(
    "cumprod",
    "scan:cumprod",
    _cumprod_vjp,
    _cumprod_jvp,
    doc="Product of the elements so far along an axis; the derivative is exact with zeros, at any order.",
)


# --- log-sum-exp


def _weights_jvp(tangents: Any, outs: Any, x: Any, *, axis: int, reverse: bool = False) -> Any:
    new, kept = outs
    line = dict(axis=axis, reverse=reverse)
    dy = linear_recurrence(kept, _times(tangents[0], new), **line)
    apart = op("subtract")(tangents[0], shifted(dy, axis, reverse, 0))
    moved = _times(apart, op("multiply")(new, kept))
    return moved, op("negative")(moved)


def _weights_vjp(gs: Any, outs: Any, x: Any, *, axis: int, reverse: bool = False) -> Any:
    new, kept = outs
    apart = _times(op("subtract")(gs[0], gs[1]), op("multiply")(new, kept))
    # the transpose of what the JVP does to dy, then of the recurrence
    at_dy = op("negative")(shifted(apart, axis, not reverse, 0))
    back = linear_recurrence(shifted(kept, axis, not reverse, 0), at_dy, axis=axis, reverse=not reverse)
    return (accumulate(apart, _times(back, new)),)


cumlogsumexp_weights = Smooth(
    "cumlogsumexp_weights",
    "scan:cumlogsumexp_weights",
    _weights_vjp,
    _weights_jvp,
    outputs=2,
    doc="Shares of the new element and of all before in the cumulative log-sum-exp: exp(x - y), exp(y[-1] - y).",
)


def _lse_vjp(g: Any, out: Any, x: Any, *, axis: int, reverse: bool = False) -> Any:
    new, kept = cumlogsumexp_weights(x, axis=axis, reverse=reverse)
    back = linear_recurrence(shifted(kept, axis, not reverse, 0), g, axis=axis, reverse=not reverse)
    return (_times(back, new),)


def _lse_jvp(tangents: Any, out: Any, x: Any, *, axis: int, reverse: bool = False) -> Any:
    new, kept = cumlogsumexp_weights(x, axis=axis, reverse=reverse)
    return linear_recurrence(kept, _times(tangents[0], new), axis=axis, reverse=reverse)


cumlogsumexp = Smooth(
    "cumlogsumexp",
    "scan:cumlogsumexp",
    _lse_vjp,
    _lse_jvp,
    doc="log(sum(exp(x))) of the elements so far along an axis, without overflow. Several +inf share the derivative.",
)


# --- extrema


def _route_apply(route: Any, tangents: Any, x: Any, *, axis: int, reverse: bool = False) -> Any:
    return along.take_along(tangents[0], route, axis=axis)


def _route_transpose(route: Any, g: Any, x: Any, *, axis: int, reverse: bool = False) -> Any:
    return along.route_transpose(route, g, x, axis=axis)


(cummax, cummax_routed), (cummin, cummin_routed) = (
    routed_pair(
        name,
        f"scan:{name}",
        f"scan:{name}_routed",
        _route_apply,
        _route_transpose,
        doc=f"{word} element so far along an axis, nan after a nan. The latest of equals has the derivative.",
    )
    for name, word in (("cummax", "Largest"), ("cummin", "Smallest"))
)
