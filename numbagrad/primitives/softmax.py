"""softmax and log_softmax over the last axis, one row at a time in cache, and the four maps that are their derivatives.

With s = softmax(x) and y = log_softmax(x), row by row:

    softmax_pull(g, s)     = s * (g - sum(g * s))      the Jacobian of softmax is symmetric: VJP and JVP
    log_softmax_push(t, y) = t - sum(t * exp(y))       JVP of log_softmax
    log_softmax_pull(g, y) = g - exp(y) * sum(g)       its transpose, the VJP

Each is linear in its first operand with the adjoint named here, so the family is closed at every order.
Edge: s is the derivative of logsumexp: a row of -inf has s = 0 (and y = -inf); several +inf share 1.
"""

from __future__ import annotations

from typing import Any

from numbagrad.core.registry import Smooth, accumulate
from numbagrad.primitives.broadcast import broadcast_to, count, expand_axes, reduce_sum, reshape_to
from numbagrad.primitives.elementwise import op
from numbagrad.primitives.layout import transpose

_times, _minus, _exp = op("zero_product"), op("subtract"), op("exp")


def _row_sum(x: Any) -> Any:
    last = (x.ndim - 1,)
    return expand_axes(reduce_sum(x, axes=last), last, x.ndim)


def _plus(*terms: Any) -> Any:
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else accumulate(total, term)
    return total


def _softmax_pull_vjp(ct: Any, out: Any, g: Any, s: Any) -> Any:
    centred = _minus(g, _row_sum(_times(g, s)))
    return softmax_pull(ct, s), _minus(_times(ct, centred), _times(_row_sum(_times(ct, s)), g))


def _softmax_pull_jvp(tangents: Any, out: Any, g: Any, s: Any) -> Any:
    tg, ts = tangents
    first = None if tg is None else softmax_pull(tg, s)
    if ts is None:
        return first
    centred = _minus(g, _row_sum(_times(g, s)))
    return _plus(first, _minus(_times(ts, centred), _times(_row_sum(_times(ts, g)), s)))


softmax_pull = Smooth(
    "softmax_pull", "rows:softmax_pull", _softmax_pull_vjp, _softmax_pull_jvp, doc="s * (g - sum(g * s))."
)

softmax = Smooth(
    "softmax",
    "rows:softmax",
    lambda g, out, x: (softmax_pull(g, out),),
    lambda tangents, out, x: softmax_pull(tangents[0], out),
    doc="exp(x) / sum(exp(x)) over the last axis without overflow.",
)


def _push_vjp(ct: Any, out: Any, t: Any, y: Any) -> Any:
    return log_softmax_pull(ct, y), op("negative")(_times(_row_sum(ct), _times(t, _exp(y))))


def _push_jvp(tangents: Any, out: Any, t: Any, y: Any) -> Any:
    tt, ty = tangents
    first = None if tt is None else log_softmax_push(tt, y)
    if ty is None:
        return first
    moved = op("negative")(_row_sum(_times(ty, _times(t, _exp(y)))))
    return _plus(first, broadcast_to(moved, shape=t.shape))


log_softmax_push = Smooth(
    "log_softmax_push", "rows:log_softmax_push", _push_vjp, _push_jvp, doc="t - sum(t * exp(y))."
)


def _pull_vjp(ct: Any, out: Any, g: Any, y: Any) -> Any:
    return log_softmax_push(ct, y), op("negative")(_times(ct, _times(_row_sum(g), _exp(y))))


def _pull_jvp(tangents: Any, out: Any, g: Any, y: Any) -> Any:
    tg, ty = tangents
    first = None if tg is None else log_softmax_pull(tg, y)
    if ty is None:
        return first
    return _plus(first, op("negative")(_times(ty, _times(_row_sum(g), _exp(y)))))


log_softmax_pull = Smooth(
    "log_softmax_pull", "rows:log_softmax_pull", _pull_vjp, _pull_jvp, doc="g - exp(y) * sum(g)."
)

log_softmax = Smooth(
    "log_softmax",
    "rows:log_softmax",
    lambda g, out, x: (log_softmax_pull(g, out),),
    lambda tangents, out, x: log_softmax_push(tangents[0], out),
    doc="x - log(sum(exp(x))) over the last axis without overflow.",
)


def over(primitive: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """softmax or log_softmax over any axes: they are brought to the end and taken as one."""
    ndim = x.ndim
    if axes == (ndim - 1,):
        return primitive(x)
    order = tuple(k for k in range(ndim) if k not in axes) + axes
    moved = x if order == tuple(range(ndim)) else transpose(x, axes=order)
    rows = reshape_to(moved, (*moved.shape[: ndim - len(axes)], count(x.shape, axes)))
    done = reshape_to(primitive(rows), moved.shape)
    return done if moved is x else transpose(done, axes=tuple(order.index(k) for k in range(ndim)))
