"""Activations: each one fused kernel, forward and for every derivative.

Values and derivatives hold at +-inf too: where a factor has died out exactly, the expression switches to its limit
(`_gate`), because inf * 0 is nan. Derivatives at kinks are the minimum-norm ones (0, not 1, where a function stops
to move), but the slope at 0 for leaky_relu.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from numbagrad.core.arguments import value_of
from numbagrad.core.array import Array
from numbagrad.core.errors import message
from numbagrad.numpy.elementwise import call, composed
from numbagrad.numpy.reductions import normalize_axis
from numbagrad.numpy.shaping import split
from numbagrad.scalar import ATOMS, Expr, arg, atom

_x, _a, _b = arg(0), arg(1), arg(2)
_select, _exp, _expm1, _sigmoid = ATOMS["select"], ATOMS["exp"], ATOMS["expm1"], ATOMS["sigmoid"]
_SATURATED = 800.0  # exp(-800) is 0 in float64, and so in float32


def _gate(inside: Callable[[Expr], Expr], bound: float) -> Expr:
    """x times a gate that is exactly 0 below -bound and exactly 1 above bound.

    Out there `inside` is given the bound, so that nothing in it or in its derivatives overflows.
    """
    held = _select(_x < -bound, -bound, _select(_x > bound, bound, _x))
    return _select(_x < -bound, 0, _select(_x > bound, _x, inside(held)))


_below = _select(_x > 0, 0, _x)  # for what is only used below 0


def relu(x: Any) -> Array:
    """max(x, 0). Derivative 0 at 0.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.grad(lambda x: np.sum(ng.nn.relu(x)))(np.asarray([-1.0, 0.0, 2.0]))
    Array([0., 0., 1.], dtype=float64)
    """
    return call("relu", x)


_relu6 = composed("relu6", _select(_x <= 0, 0, _select(_x >= 6, 6, _x)), 1, "arithmetic", "")


def relu6(x: Any) -> Array:
    """min(max(x, 0), 6). Derivative 0 at 0 and at 6."""
    return _relu6(x)


_leaky = composed("leaky_relu", _select(_x > 0, _x, _a * _x), 2, "float", "")


def leaky_relu(x: Any, negative_slope: Any = 1e-2) -> Array:
    """x above 0, negative_slope * x below. Derivative at 0: the slope. Differentiable in the slope too.

    >>> import numbagrad as ng
    >>> ng.grad(ng.nn.leaky_relu)(0.0)
    Array(0.01, dtype=float64)
    """
    return _leaky(x, negative_slope)


_elu = composed("elu", _select(_x > 0, _x, _a * _expm1(_below)), 2, "float", "")


def elu(x: Any, alpha: Any = 1.0) -> Array:
    """x above 0, alpha * (exp(x) - 1) below. Derivative at 0: alpha."""
    return _elu(x, alpha)


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
_selu = composed(
    "selu", _select(_x > 0, _SELU_SCALE * _x, (_SELU_SCALE * _SELU_ALPHA) * _expm1(_below)), 1, "float", ""
)


def selu(x: Any) -> Array:
    """Self-normalising elu. Source: Klambauer et al. 2017, equation 2."""
    return _selu(x)


_celu = composed("celu", _select(_x > 0, _x, _a * _expm1(_below / _a)), 2, "float", "")


def celu(x: Any, alpha: Any = 1.0) -> Array:
    """x above 0, alpha * (exp(x / alpha) - 1) below: continuously differentiable. Source: Barron 2017."""
    return _celu(x, alpha)


def _tanh_gate(x: Expr) -> Expr:
    return x * _sigmoid((2 * math.sqrt(2 / math.pi)) * (x + 0.044715 * (x * x * x)))


_gelu_tanh = composed("gelu", _gate(_tanh_gate, 40.0), 1, "float", "")
_gelu_erf = composed("gelu_exact", _gate(lambda x: 0.5 * x * ATOMS["erfc"](-math.sqrt(0.5) * x), 40.0), 1, "float", "")


def gelu(x: Any, approximate: bool = True) -> Array:
    """x times the normal distribution function at x, by tanh if `approximate`. Source: Hendrycks, Gimpel 2016.

    >>> import numbagrad as ng, numpy as onp
    >>> ng.grad(ng.nn.gelu)(0.0), ng.grad(ng.nn.gelu)(-onp.inf), ng.grad(ng.nn.gelu)(onp.inf)
    (Array(0.5, dtype=float64), Array(0., dtype=float64), Array(1., dtype=float64))
    """
    return (_gelu_tanh if approximate else _gelu_erf)(x)


_silu = composed("silu", _gate(lambda x: x * _sigmoid(x), _SATURATED), 1, "float", "")


def silu(x: Any) -> Array:
    """x * sigmoid(x). Source: Elfwing et al. 2017.

    >>> import numbagrad as ng
    >>> ng.grad(ng.nn.silu)(0.0)
    Array(0.5, dtype=float64)
    """
    return _silu(x)


swish = silu


def sigmoid(x: Any) -> Array:
    """1 / (1 + exp(-x)) without overflow.

    >>> import numbagrad as ng
    >>> ng.grad(ng.nn.sigmoid)(0.0)
    Array(0.25, dtype=float64)
    """
    return call("sigmoid", x)


def softplus(x: Any) -> Array:
    """log(1 + exp(x)) without overflow.

    >>> import numbagrad as ng
    >>> ng.grad(ng.nn.softplus)(1000.0)
    Array(1., dtype=float64)
    """
    return call("softplus", x)


_log_sigmoid = composed("log_sigmoid", -ATOMS["softplus"](-_x), 1, "float", "")


def log_sigmoid(x: Any) -> Array:
    """log(sigmoid(x)) = -softplus(-x), without overflow."""
    return _log_sigmoid(x)


_hard_sigmoid = composed("hard_sigmoid", _select(_x <= -3, 0, _select(_x >= 3, 1, (_x + 3) * (1 / 6))), 1, "float", "")
_hard_tanh = composed("hard_tanh", _select(_x <= -1, -1, _select(_x >= 1, 1, _x)), 1, "arithmetic", "")
_hard_silu = composed("hard_silu", _select(_x <= -3, 0, _select(_x >= 3, _x, _x * (_x + 3) * (1 / 6))), 1, "float", "")


def hard_sigmoid(x: Any) -> Array:
    """relu6(x + 3) / 6. Derivative 0 at -3 and 3."""
    return _hard_sigmoid(x)


def hard_tanh(x: Any) -> Array:
    """x cut to [-1, 1]. Derivative 0 at -1 and 1, where it is constant on one side (clip has 1 there)."""
    return _hard_tanh(x)


def hard_silu(x: Any) -> Array:
    """x * hard_sigmoid(x). Derivative 0 at -3 and 1 at 3."""
    return _hard_silu(x)


hard_swish = hard_silu


@atom(
    "(({T}(1) if {0} > 0 else {T}(-1)) if abs({0}) == {T}(np.inf) else {0} / ({T}(1) + abs({0})))",
    partials=lambda x, out: ATOMS["square"](1 / (1 + ATOMS["absolute"](x))),
    rule="float",
    domain="nonzero",
    reference=lambda x: x / (1 + np.abs(x)),
)
def soft_sign_of(x):
    """x / (1 + |x|); its derivative 1 / (1 + |x|)^2 does not cancel."""


def soft_sign(x: Any) -> Array:
    """x / (1 + abs(x))."""
    return call("soft_sign_of", x)


_mish = composed("mish", _gate(lambda x: x * ATOMS["tanh"](ATOMS["softplus"](x)), _SATURATED), 1, "float", "")


def mish(x: Any) -> Array:
    """x * tanh(softplus(x)). Source: Misra 2019."""
    return _mish(x)


def _squareplus_expr() -> Expr:
    length = ATOMS["hypot"](_x, ATOMS["sqrt"](_a))
    ends = ATOMS["isinf"](_x)  # the sum would cancel on the negative side
    return _select(ends, _select(_x > 0, _x, 0), _select(_x > 0, 0.5 * (_x + length), 0.5 * _a / (length - _x)))


_squareplus = composed("squareplus", _squareplus_expr(), 2, "float", "")


def squareplus(x: Any, b: Any = 4.0) -> Array:
    """(x + sqrt(x * x + b)) / 2, without cancellation for negative x and without overflow."""
    return _squareplus(x, b)


def glu(x: Any, axis: int = -1) -> Array:
    """First half of an axis times the sigmoid of the second half. Source: Dauphin et al. 2016."""
    value = value_of(x, "glu")
    k = normalize_axis(axis, len(value.shape), "glu")
    if value.shape[k] % 2:
        raise ValueError(message("glu", "the axis cannot be halved", f"length {value.shape[k]}", "an even length"))
    first, second = split(Array(value), 2, k)
    return _glu(first, second)


_glu = composed("glu", _x * _sigmoid(_a), 2, "float", "")
