"""Continuous distributions: each is one fused map of uniform bits, differentiable in its parameters.

The uniform numbers behind them have 24 bits for float32 and 53 for float64; where an end of the interval would
give inf, 23 and 52 bits in the middle of their cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from numbagrad.config import OPENED
from numbagrad.core.arguments import host_value, together
from numbagrad.core.array import Array
from numbagrad.core.dtypes import FLOATING, check_dtype, computed, is_half
from numbagrad.core.errors import message
from numbagrad.primitives.elementwise import MapOp, convert, map_op
from numbagrad.random.keys import key_of, raw_bits, shape_of, split
from numbagrad.scalar import ATOMS, Expr, arg
from numbagrad.scalar.atoms.cast import cast, floored

F32 = np.dtype(np.float32)


def float_of(dtype: Any, op: str) -> np.dtype:
    """A real floating dtype, or the user's error."""
    found = check_dtype(op, dtype)
    if found.kind not in FLOATING:
        raise TypeError(message(op, "not a real floating dtype", found, "float16, bfloat16, float32 or float64"))
    return found


def _high_bits(dtype: np.dtype, count: int) -> Expr:
    """The highest bits of argument 0 as a floating-point integer."""
    width = 8 * dtype.itemsize
    unsigned = np.dtype(f"u{dtype.itemsize}")
    return cast(unsigned, dtype)(ATOMS["right_shift"](arg(0), width - count))


def unit(dtype: np.dtype) -> Expr:
    """Uniform on [0, 1)."""
    dtype = computed(dtype)
    n = 24 if dtype == F32 else 53
    return _high_bits(dtype, n) * 2.0**-n


def inside(dtype: np.dtype) -> Expr:
    """Uniform on the open interval (0, 1), symmetric about 1/2."""
    dtype = computed(dtype)
    n = 23 if dtype == F32 else 52
    return (_high_bits(dtype, n) + 0.5) * 2.0**-n


def signed(dtype: np.dtype) -> Expr:
    """Uniform on the open interval (-1, 1), symmetric about 0 and never 0."""
    dtype = computed(dtype)
    n = 24 if dtype == F32 else 53
    return _high_bits(dtype, n) * 2.0 ** (1 - n) - (1 - 2.0**-n)


@cache
def _map(name: str, dtype: np.dtype, source: Callable[..., Expr], transform: Callable[..., Expr], n: int) -> MapOp:
    made = transform(source(dtype), *(arg(k + 1) for k in range(n)))
    return map_op(f"random_{name}", (cast(F32, dtype)(made) if is_half(dtype) else made,), n + 1)


def draw(
    name: str,
    key: Any,
    shape: Any,
    dtype: Any,
    source: Callable[..., Expr],
    transform: Callable[..., Expr],
    *params: Any,
) -> Array:
    """transform(uniform numbers, *parameters) of a shape (by default the parameters')."""
    target = float_of(dtype, name)
    values = [convert(convert(host_value(p, name), target), computed(target)) for p in params]
    natural = np.broadcast_shapes(*(v.shape for v in values)) if values else ()
    full = natural if shape is None else shape_of(shape, name)
    if values and not _fits(natural, full):
        raise ValueError(message(name, "the parameters do not fit the shape", f"{natural} and {full}", "a broadcast"))
    key = key_of(key, name, *(v for v, p in zip(values, params, strict=True) if isinstance(p, Array)))
    if OPENED and values:
        values = together(name, (Array(key), *params), (key, *values))[1:]
    bits = raw_bits(key, full, 8 * computed(target).itemsize)
    return Array(_map(name, target, source, transform, len(values))(bits, *values))


def _fits(natural: tuple[int, ...], full: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(natural, full) == full
    except ValueError:
        return False


@cache
def _uniform(dtype: np.dtype) -> tuple[Callable[..., Expr], Callable[..., Expr]]:
    """Transforms to [0, 1) and to [low, high). In 16 bits they round down: to nearest would reach the excluded end."""
    down = floored(dtype) if is_half(dtype) else _same

    def scaled(u: Expr, low: Expr, high: Expr) -> Expr:
        y = low + u * (high - low)
        return ATOMS["select"](y < high, down(y), low)  # rounding may reach the end before that, too

    return down, scaled


def uniform(key: Any, shape: Any = (), dtype: Any = float, minval: Any = 0.0, maxval: Any = 1.0) -> Array:
    """Uniform on [minval, maxval): never maxval. Differentiable in both ends.

    >>> import numbagrad as ng
    >>> ng.random.uniform(ng.random.key(0), (2,))
    Array([0.41845711, 0.21629545], dtype=float64)
    >>> ng.grad(lambda w: ng.random.uniform(ng.random.key(0), (), maxval=w))(5.0)
    Array(0.41845711, dtype=float64)
    """
    plain, scaled = _uniform(float_of(dtype, "uniform"))
    if minval.__class__ in (int, float) and maxval.__class__ in (int, float) and minval == 0 and maxval == 1:
        return draw("uniform", key, shape, dtype, unit, plain)
    return draw("uniform", key, shape, dtype, unit, scaled, minval, maxval)


def _same(u: Expr) -> Expr:
    return u


def _normal(s: Expr) -> Expr:
    return math.sqrt(2.0) * ATOMS["erfinv"](s)


def normal(key: Any, shape: Any = (), dtype: Any = float) -> Array:
    """Standard normal, by the inverse distribution function. Scale and shift it yourself: mu + sigma * normal(key).

    A complex dtype has independent parts of variance 1/2.

    >>> import numbagrad as ng
    >>> ng.grad(lambda s: ng.random.normal(ng.random.key(1), ()) * s)(2.0)
    Array(-1.18428442, dtype=float64)
    """
    target = check_dtype("normal", dtype)
    if target.kind == "c":
        real = np.dtype(f"f{target.itemsize // 2}")
        parts = [draw("normal", k, shape, real, signed, _normal) for k in split(Array(key_of(key, "normal")))]
        return Array(convert((math.sqrt(0.5) * (parts[0] + 1j * parts[1]))._value, target))
    return draw("normal", key, shape, target, signed, _normal)


def lognormal(key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = float) -> Array:
    """exp(sigma * normal)."""
    return draw("lognormal", key, shape, dtype, signed, lambda s, scale: ATOMS["exp"](scale * _normal(s)), sigma)


def _truncated(u: Expr, lower: Expr, upper: Expr) -> Expr:
    select, scale = ATOMS["select"], -math.sqrt(0.5)
    flip = lower > 0  # the left tail keeps the digits that the right one would lose next to 1
    low, high = select(flip, -upper, lower), select(flip, -lower, upper)
    below = 0.5 * ATOMS["erfc"](scale * low)
    above = 0.5 * ATOMS["erfc"](scale * high)
    x = ATOMS["clip"](ATOMS["ndtri"](below + u * (above - below)), low, high)
    return select(flip, -x, x)


def truncated_normal(key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = float) -> Array:
    """Standard normal cut to [lower, upper], exact far in the tails. Differentiable in both."""
    return draw("truncated_normal", key, shape, dtype, inside, _truncated, lower, upper)


def exponential(key: Any, shape: Any = (), dtype: Any = float) -> Array:
    """Exponential of rate 1."""
    return draw("exponential", key, shape, dtype, unit, _exponential)


def _exponential(u: Expr) -> Expr:
    return -ATOMS["log1p"](-u)


def gumbel(key: Any, shape: Any = (), dtype: Any = float) -> Array:
    """Standard Gumbel: -log(-log(uniform))."""
    return draw("gumbel", key, shape, dtype, inside, _gumbel)


def _gumbel(u: Expr) -> Expr:
    return -ATOMS["log"](-ATOMS["log"](u))


def laplace(key: Any, shape: Any = (), dtype: Any = float) -> Array:
    """Standard Laplace: density exp(-|x|) / 2."""
    return draw("laplace", key, shape, dtype, signed, _laplace)


def _laplace(s: Expr) -> Expr:
    return ATOMS["select"](s < 0, ATOMS["log1p"](s), -ATOMS["log1p"](-s))


def logistic(key: Any, shape: Any = (), dtype: Any = float) -> Array:
    """Standard logistic: the logit of a uniform."""
    return draw("logistic", key, shape, dtype, inside, _logit)


def _logit(u: Expr) -> Expr:
    return ATOMS["log"](u) - ATOMS["log1p"](-u)


def cauchy(key: Any, shape: Any = (), dtype: Any = float) -> Array:
    """Standard Cauchy."""
    return draw("cauchy", key, shape, dtype, signed, _cauchy)


def _cauchy(s: Expr) -> Expr:
    return ATOMS["tan"]((0.5 * math.pi) * s)


def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = float) -> Array:
    """Pareto of shape b: density b / x**(b + 1) above 1."""
    return draw("pareto", key, shape, dtype, unit, _pareto, b)


def _pareto(u: Expr, b: Expr) -> Expr:
    return ATOMS["exp"](_exponential(u) / b)


def weibull_min(key: Any, scale: Any, concentration: Any, shape: Any = None, dtype: Any = float) -> Array:
    """Weibull: scale * exponential ** (1 / concentration)."""
    return draw("weibull_min", key, shape, dtype, inside, _weibull, scale, concentration)


def _weibull(u: Expr, scale: Expr, concentration: Expr) -> Expr:
    return scale * ATOMS["power"](_exponential(u), 1 / concentration)


def rayleigh(key: Any, scale: Any = 1.0, shape: Any = None, dtype: Any = float) -> Array:
    """Rayleigh: scale * sqrt(2 * exponential)."""
    return draw("rayleigh", key, shape, dtype, inside, _rayleigh, scale)


def _rayleigh(u: Expr, scale: Expr) -> Expr:
    return scale * ATOMS["sqrt"](2 * _exponential(u))
