"""softmax and its kin, and the layers that bring activations to mean 0 and variance 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from numbagrad.core.arguments import arrays_of, host_value, value_of
from numbagrad.core.array import Array
from numbagrad.core.device import beside
from numbagrad.core.dtypes import check_dtype, finfo, float_dtype, result_type
from numbagrad.core.errors import message
from numbagrad.core.trace import Box
from numbagrad.numpy import creation, reductions, shaping
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy.halves import in_float32, widened
from numbagrad.primitives import softmax as prims
from numbagrad.primitives.barrier import stop_gradient
from numbagrad.primitives.elementwise import convert
from numbagrad.scalar import ATOMS, arg


@in_float32
def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False, where: Any = None
) -> Any:
    """log(sum(b * exp(a))) over axes without overflow; `return_sign` gives (log|sum|, sign).

    Edge: -inf for nothing, or only -inf (derivative 0); +inf takes all of the derivative, several share.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.grad(ng.nn.logsumexp)(np.asarray([-np.inf, 1000.0]))
    Array([0., 1.], dtype=float64)
    """
    if b is None:
        out = reductions.logsumexp(a, axis, keepdims, where=where)
        return (out, creation.ones_like(out)) if return_sign else out
    x, factor = (ew.convert_to_float(v, "logsumexp") for v in arrays_of("logsumexp", a, b))
    terms = ew.where(factor == 0, -np.inf, x)
    terms = terms if where is None else ew.where(where, terms, -np.inf)
    axes = reductions.normalize_axes(axis, terms.ndim, "logsumexp")
    shift = Array(stop_gradient(reductions.max(terms, axes, keepdims=True, initial=-np.inf)._value))
    shift = ew.where(ew.isfinite(shift), shift, 0.0)
    # the largest exponent is taken from all that count; a factor of 0 keeps its derivative, exp(a) / sum
    weight = ew.call("exp", x - shift)
    largest = float(finfo(x.dtype).max)
    weight = ew.where(factor == 0, ew.call("minimum", weight, largest), weight)  # 0 * inf would be nan
    total = reductions.sum(factor * weight, axes, keepdims=keepdims, where=where)
    out = ew.call("log", ew.absolute(total)) + (shift if keepdims else shift.reshape(total.shape))
    if return_sign:
        return out, ew.sign(total)
    return ew.where(total < 0, np.nan, out)


@in_float32
def logmeanexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, where: Any = None) -> Array:
    """log(mean(exp(a))) over axes without overflow."""
    x = ew.convert_to_float(a, "logmeanexp")
    axes = reductions.normalize_axes(axis, x.ndim, "logmeanexp")
    if where is None:
        n: Any = np.log(np.float64(np.prod([x.shape[k] for k in axes])))
        return logsumexp(x, axes, b, keepdims) - float(n)
    mask = shaping.broadcast_to(ew.convert_like(Array(beside(host_value(where), x._value)), x), x.shape)
    held = reductions.sum(mask, axes, keepdims=keepdims)
    return logsumexp(x, axes, b, keepdims, where=where) - ew.call("log", held)


def _over_axis(name: str, primitive: Any, x: Any, axis: Any, where: Any) -> Array:
    value = value_of(x, name)
    value = convert(value, float_dtype(value.dtype))
    if value.dtype.kind == "c":
        raise TypeError(message(name, "complex numbers have no order", value.dtype, "a real dtype"))
    if where is not None:
        value = ew.where(where, Array(value), -np.inf)._value
    axes = reductions.normalize_axes(axis, len(value.shape), name)
    return Array(prims.over(primitive, value, axes))


def softmax(x: Any, axis: Any = -1, where: Any = None) -> Array:
    """exp(x) / sum(exp(x)) over axes, without overflow. Elements where `where` is False get 0.

    Edge: -inf has share 0 and derivative 0; several +inf share 1; a row of -inf, or all masked, is 0: the softmax
    is the derivative of logsumexp, in every case.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.grad(lambda x: ng.nn.softmax(x)[0])(np.asarray([1000.0, 1000.0]))
    Array([ 0.25, -0.25], dtype=float64)
    """
    return _over_axis("softmax", prims.softmax, x, axis, where)


def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> Array:
    """x - logsumexp(x) over axes, without overflow. Elements where `where` is False get -inf.

    Edge: -inf stays -inf; several +inf are -log of their number, the others -inf; a row of -inf stays so.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.grad(lambda x: ng.nn.log_softmax(x)[0])(np.asarray([0.0, 0.0]))
    Array([ 0.5, -0.5], dtype=float64)
    """
    return _over_axis("log_softmax", prims.log_softmax, x, axis, where)


_normalise = ew.composed("normalise", (arg(0) - arg(1)) * ATOMS["rsqrt"](arg(2) + arg(3)), 4, "float", "")


@in_float32
def standardize(
    x: Any, axis: Any = -1, mean: Any = None, variance: Any = None, epsilon: Any = 1e-5, where: Any = None
) -> Array:
    """(x - mean) / sqrt(variance + epsilon), with the moments over `axis` unless given.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.nn.standardize(np.asarray([1.0, 3.0]), epsilon=0.0)
    Array([-1.,  1.], dtype=float64)
    """
    x = ew.convert_to_float(x, "standardize")
    if mean is None:
        mean = reductions.mean(x, axis, keepdims=True, where=where)
    if variance is None:
        variance = reductions.mean(ew.call("square", x - mean), axis, keepdims=True, where=where)
    return _normalise(x, mean, variance, epsilon)


def _optional(op: str, *xs: Any) -> list[Any]:
    """Operands as Arrays on one device; None stays None."""
    found = iter(arrays_of(op, *(x for x in xs if x is not None)))
    return [None if x is None else next(found) for x in xs]


def _affine(x: Array, scale: Any, bias: Any) -> Array:
    x = x if scale is None else x * scale
    return x if bias is None else x + bias


@in_float32
def layer_norm(x: Any, scale: Any = None, bias: Any = None, axis: Any = -1, eps: Any = 1e-5) -> Array:
    """standardize over `axis`, then times scale plus bias. Source: Ba et al. 2016.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.grad(lambda b: np.sum(ng.nn.layer_norm(np.ones((3, 2)), bias=b)))(np.zeros(2))
    Array([3., 3.], dtype=float64)
    """
    x, scale, bias = _optional("layer_norm", x, scale, bias)
    return _affine(standardize(x, axis, epsilon=eps), scale, bias)


_scale_by_rms = ew.composed("rms_scale", arg(0) * ATOMS["rsqrt"](arg(1) + arg(2)), 3, "float", "")


@in_float32
def rms_norm(x: Any, scale: Any = None, axis: Any = -1, eps: Any = 1e-6) -> Array:
    """x / sqrt(mean(x * x) + eps) over `axis`, times scale. Source: Zhang, Sennrich 2019."""
    x, scale = _optional("rms_norm", x, scale)
    x = ew.convert_to_float(x, "rms_norm")
    return _affine(_scale_by_rms(x, reductions.mean(ew.call("square", x), axis, keepdims=True), eps), scale, None)


def batch_norm(
    x: Any, scale: Any = None, bias: Any = None, mean: Any = None, variance: Any = None, axis: int = -1, eps: Any = 1e-5
) -> tuple[Array, Array, Array]:
    """Channels on `axis` brought to mean 0 and variance 1 over all other axes: (y, mean, variance).

    Shapes: scale, bias, mean and variance have one number a channel. Given mean and variance (the running ones, at
    test time) are used instead of the batch's. Dtypes: for types of 16 bits, mean and variance are float32.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> y, mean, variance = ng.nn.batch_norm(np.asarray([[1.0, 5.0], [3.0, 5.0]]))
    >>> mean, variance
    (Array([2., 5.], dtype=float64), Array([1., 0.], dtype=float64))
    """
    given = _optional("batch_norm", x, scale, bias, mean, variance)
    target = float_dtype(result_type(v.dtype for v in given if v is not None))
    x, scale, bias, mean, variance = map(widened, given)
    x = ew.convert_to_float(x, "batch_norm")
    k = reductions.normalize_axis(axis, x.ndim, "batch_norm")
    others = tuple(d for d in range(x.ndim) if d != k)
    shape = [x.shape[d] if d == k else 1 for d in range(x.ndim)]

    def wide(v: Any) -> Any:
        return None if v is None else shaping.reshape(v, shape)

    if mean is None:
        mean = reductions.mean(x, others)
    if variance is None:
        variance = reductions.mean(ew.call("square", x - wide(mean)), others)
    y = _affine(_normalise(x, wide(mean), wide(variance), eps), wide(scale), wide(bias))
    return Array(convert(y._value, target)), mean, variance


def one_hot(x: Any, num_classes: int, *, dtype: Any = float, axis: int = -1) -> Array:
    """1 at the place an integer names along a new axis, 0 elsewhere; an integer out of range is all 0.

    >>> import numbagrad.numpy as np, numbagrad as ng
    >>> ng.nn.one_hot(np.asarray([1, 0, 5]), 2)
    Array([[0., 1.],
           [1., 0.],
           [0., 0.]], dtype=float64)
    """
    labels = value_of(x, "one_hot")
    if labels.dtype.kind not in "biu" and isinstance(labels, Box):
        raise TypeError(message("one_hot", "labels have no derivative", f"traced {labels.dtype}", "integers"))
    ndim = len(labels.shape) + 1
    k = reductions.normalize_axis(axis, ndim, "one_hot")
    classes = np.arange(num_classes).reshape([num_classes if d == k else 1 for d in range(ndim)])
    hits = ew.call("equal", shaping.expand_dims(Array(labels), k), classes)
    return Array(convert(hits._value, check_dtype("one_hot", dtype)))
