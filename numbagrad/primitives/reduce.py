"""Reductions other than the sum: prod, max, min, any, all, argmax, argmin, logsumexp."""

from __future__ import annotations

from typing import Any

from numbagrad.core.dtypes import accumulated
from numbagrad.core.registry import Primitive, Routed, Smooth
from numbagrad.core.transform import Tape, push_forward
from numbagrad.primitives import softmax
from numbagrad.primitives.broadcast import broadcast_to, count, expand_axes, reduce_sum, reshape_to
from numbagrad.primitives.elementwise import convert, map_op, op
from numbagrad.primitives.join import concatenate
from numbagrad.primitives.layout import transpose
from numbagrad.primitives.slices import getitem
from numbagrad.scalar import ATOMS, arg

Axes = tuple[int, ...]

reduce_any = Primitive("reduce_any", "reduce:reduce_any", doc="Whether any element is nonzero.")
reduce_all = Primitive("reduce_all", "reduce:reduce_all", doc="Whether all elements are nonzero.")
argmax = Primitive("argmax", "reduce:argmax", doc="Index of the first maximum; the first nan counts as one.")
argmin = Primitive("argmin", "reduce:argmin", doc="Index of the first minimum; the first nan counts as one.")

_times = op("zero_product")


def _is_extremum_op() -> Any:
    """Whether an element is the extremum (or nan, if that is nan)."""
    x, out = arg(0), arg(1)
    nan, select = ATOMS["isnan"], ATOMS["select"]
    return map_op("is_extremum", (select(nan(out), nan(x), ATOMS["equal"](x, out)),), 2)


is_extremum = _is_extremum_op()


def _extremum_route(out: Any, x: Any, *, axes: Axes) -> Any:
    """Each element's share: ties share equally, nans share what is theirs."""
    mask = convert(is_extremum(x, expand_axes(out, axes, x.ndim)), x.dtype)
    ties = expand_axes(reduce_sum(mask, axes=axes), axes, x.ndim)
    return op("divide")(mask, ties)


def _extremum_apply(route: Any, tangents: Any, x: Any, *, axes: Axes) -> Any:
    return reduce_sum(_times(tangents[0], route), axes=axes)


def _extremum_transpose(route: Any, g: Any, x: Any, *, axes: Axes) -> Any:
    return (_times(broadcast_to(expand_axes(g, axes, x.ndim), shape=x.shape), route),)


reduce_max = Routed(
    "reduce_max",
    "reduce:reduce_max",
    _extremum_route,
    _extremum_apply,
    _extremum_transpose,
    doc="Maximum over axes; nan if one is. Ties share the derivative equally.",
)
reduce_min = Routed(
    "reduce_min",
    "reduce:reduce_min",
    _extremum_route,
    _extremum_apply,
    _extremum_transpose,
    doc="Minimum over axes; nan if one is. Ties share the derivative equally.",
)


# --- prod: its derivative is that of a tree of products, exact with any number of zeros and at any order


def _tree_product(x: Any, axes: Axes) -> Any:
    dtype = x.dtype
    x = convert(x, accumulated(dtype))  # a part of a product may leave the range of float32
    order = tuple(k for k in range(x.ndim) if k not in axes) + axes
    kept = tuple(x.shape[k] for k in order[: x.ndim - len(axes)])
    x = reshape_to(transpose(x, axes=order), (*kept, count(x.shape, axes)))
    while x.shape[-1] > 1:
        n = x.shape[-1]
        pairs = op("multiply")(getitem(x, key=(..., slice(0, n - n % 2, 2))), getitem(x, key=(..., slice(1, n, 2))))
        odd = [getitem(x, key=(..., slice(n - 1, n)))] if n % 2 else []
        x = concatenate(pairs, *odd, axis=x.ndim - 1) if odd else pairs
    return convert(reshape_to(x, kept), dtype)


def _prod_vjp(g: Any, out: Any, x: Any, *, axes: Axes, dtype: Any = None) -> Any:
    if count(x.shape, axes) == 0:
        return (None,)
    tape = Tape(lambda v: [_tree_product(v[0], axes)], [x], "vjp")
    return tape.back([convert(g, x.dtype)], release=True)


def _prod_jvp(tangents: Any, out: Any, x: Any, *, axes: Axes, dtype: Any = None) -> Any:
    if count(x.shape, axes) == 0:
        return None
    _, (t,) = push_forward(lambda v: [_tree_product(v[0], axes)], [x], tangents)
    return t


reduce_prod = Smooth(
    "reduce_prod",
    "reduce:reduce_prod",
    _prod_vjp,
    _prod_jvp,
    doc="Product over axes; the derivative is exact with zeros, at any order.",
)


# --- logsumexp


# Its derivative is softmax. exp(x - out) would be cheaper, but wrong by the rounding of a large `out`.
def _logsumexp_vjp(g: Any, out: Any, x: Any, *, axes: Axes) -> Any:
    spread = broadcast_to(expand_axes(g, axes, x.ndim), shape=x.shape)
    return (_times(spread, softmax.over(softmax.softmax, x, axes)),)


def _logsumexp_jvp(tangents: Any, out: Any, x: Any, *, axes: Axes) -> Any:
    return reduce_sum(_times(tangents[0], softmax.over(softmax.softmax, x, axes)), axes=axes)


logsumexp = Smooth(
    "logsumexp",
    "composite:logsumexp",
    _logsumexp_vjp,
    _logsumexp_jvp,
    doc="log(sum(exp(x))) over axes without overflow; -inf for an empty sum.",
)
