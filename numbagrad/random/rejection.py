"""Distributions sampled by rejection: gamma and what is made of it, and Poisson. Exact, but without a derivative.

Asking for the derivative in a parameter is an error, never a silent 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from numbagrad.core.array import Array
from numbagrad.core.device import place_of
from numbagrad.core.dtypes import check_dtype
from numbagrad.core.errors import message
from numbagrad.numpy import elementwise as ew
from numbagrad.primitives.elementwise import convert, op
from numbagrad.primitives.random_bits import random_gamma, random_poisson
from numbagrad.primitives.softmax import softmax
from numbagrad.random.continuous import float_of, normal
from numbagrad.random.discrete import constant_parameter
from numbagrad.random.keys import key_of, shape_of, split

_HALF = np.asarray(0.5)
multiply = op("multiply")


def _full(name: str, shape: Any, *params: Any) -> tuple[int, ...]:
    natural = np.broadcast_shapes(*(p.shape for p in params))
    full = natural if shape is None else shape_of(shape, name)
    if np.broadcast_shapes(natural, full) != full:
        raise ValueError(message(name, "the parameters do not fit the shape", f"{natural} and {full}", "a broadcast"))
    return full


def _key(name: str, key: Any, *params: Any) -> Array:
    """A key, where parameters are that are on a device."""
    return Array(key_of(key, name, *(p for p in params if place_of(p) is not None)))


def _log_gamma(name: str, key: Any, a: Any, full: tuple[int, ...]) -> Array:
    return Array(random_gamma(_key(name, key, a)._value, a, shape=full))


def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = float) -> Array:
    """Logarithm of a gamma variate of shape parameter a: right also where the variate underflows."""
    target, a = float_of(dtype, "loggamma"), constant_parameter(a, "loggamma")
    return Array(convert(_log_gamma("loggamma", key, a, _full("loggamma", shape, a))._value, target))


def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = float) -> Array:
    """Gamma of shape parameter a and rate 1. Source: Marsaglia, Tsang 2000.

    >>> import numbagrad as ng
    >>> ng.random.gamma(ng.random.key(0), 3.0, (2,)).shape
    (2,)
    """
    target, a = float_of(dtype, "gamma"), constant_parameter(a, "gamma")
    drawn = ew.call("exp", _log_gamma("gamma", key, a, _full("gamma", shape, a)))
    return Array(convert(drawn._value, target))


def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = float) -> Array:
    """Beta of shape parameters a and b: X / (X + Y) of two gamma variates."""
    target = float_of(dtype, "beta")
    a, b = constant_parameter(a, "beta"), constant_parameter(b, "beta")
    full = _full("beta", shape, a, b)
    first, second = split(_key("beta", key, a, b))
    odds = _log_gamma("beta", first, a, full) - _log_gamma("beta", second, b, full)
    return Array(convert(ew.call("sigmoid", odds)._value, target))


def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = float) -> Array:
    """Dirichlet with the concentrations on the last axis of alpha; `shape` is the batch shape."""
    target, alpha = float_of(dtype, "dirichlet"), constant_parameter(alpha, "dirichlet")
    if alpha.ndim == 0:
        raise ValueError(message("dirichlet", "alpha has no axis", "a scalar", "at least one axis"))
    batch = alpha.shape[:-1] if shape is None else shape_of(shape, "dirichlet")
    drawn = _log_gamma("dirichlet", key, alpha, _full("dirichlet", (*batch, alpha.shape[-1]), alpha))
    return Array(convert(softmax(drawn._value), target))


def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = float) -> Array:
    """Chi-square with df degrees of freedom."""
    return gamma(key, Array(multiply(constant_parameter(df, "chisquare"), _HALF)), shape, dtype) * 2.0


def t(key: Any, df: Any, shape: Any = None, dtype: Any = float) -> Array:
    """Student's t with df degrees of freedom."""
    target, df = float_of(dtype, "t"), constant_parameter(df, "t")
    full = _full("t", shape, df)
    first, second = split(_key("t", key, df))
    half = multiply(df, _HALF)
    root = op("sqrt")(half)
    drawn = normal(first, full) * (root if place_of(root) is None else Array(root))
    drawn = drawn * ew.call("exp", -0.5 * _log_gamma("t", second, half, full))
    return Array(convert(drawn._value, target))


def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = int) -> Array:
    """Poisson of rate lam; -1 where lam is negative or nan. Source: Hoermann 1993 (PTRS) from rate 10 on.

    >>> import numbagrad as ng
    >>> ng.random.poisson(ng.random.key(0), 4.0, (3,)).dtype
    dtype('int64')
    """
    target, lam = check_dtype("poisson", dtype), constant_parameter(lam, "poisson")
    drawn = random_poisson(_key("poisson", key, lam)._value, lam, shape=_full("poisson", shape, lam))
    return Array(convert(drawn, target))
