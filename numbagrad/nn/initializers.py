"""Start values of weights: each call makes a function (key, shape, dtype) -> Array, as in jax.nn.initializers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numbagrad import random
from numbagrad.core.array import Array
from numbagrad.core.device import beside
from numbagrad.core.errors import message
from numbagrad.numpy import creation
from numbagrad.random.keys import key_of

Initializer = Callable[..., Array]


def _device(key: Any) -> str | None:
    """Where the key is; initialisers that are not random take anything for one."""
    return key.device if isinstance(key, Array) else None


def zeros(key: Any, shape: Sequence[int], dtype: Any = float) -> Array:
    """All 0."""
    return creation.zeros(shape, dtype, device=_device(key))


def ones(key: Any, shape: Sequence[int], dtype: Any = float) -> Array:
    """All 1."""
    return creation.ones(shape, dtype, device=_device(key))


def constant(value: Any, dtype: Any = float) -> Initializer:
    """All one value."""
    return lambda key, shape, dtype=dtype: creation.full(shape, value, dtype, device=_device(key))


def uniform(scale: float = 1e-2, dtype: Any = float) -> Initializer:
    """Uniform on [0, scale)."""
    return lambda key, shape, dtype=dtype: random.uniform(key, shape, dtype) * scale


def normal(stddev: float = 1e-2, dtype: Any = float) -> Initializer:
    """Normal with mean 0."""
    return lambda key, shape, dtype=dtype: random.normal(key, shape, dtype) * stddev


def truncated_normal(stddev: float = 1e-2, dtype: Any = float, lower: float = -2.0, upper: float = 2.0) -> Initializer:
    """Normal cut to [lower, upper] standard deviations."""
    return lambda key, shape, dtype=dtype: random.truncated_normal(key, lower, upper, shape, dtype) * stddev


def _fans(shape: Sequence[int], in_axis: int, out_axis: int) -> tuple[float, float]:
    if len(shape) < 2:
        raise ValueError(
            message("variance_scaling", "no fan-in and fan-out", f"shape {tuple(shape)}", "two axes or more")
        )
    n_in, n_out = shape[in_axis], shape[out_axis]
    field = math.prod(shape) / max(1, n_in * n_out)
    return n_in * field, n_out * field


def variance_scaling(
    scale: float, mode: str, distribution: str, in_axis: int = -2, out_axis: int = -1, dtype: Any = float
) -> Initializer:
    """Variance scale / n with n the fan-in, the fan-out or their average, of one of three distributions.

    >>> import numbagrad as ng
    >>> ng.nn.initializers.variance_scaling(1.0, "fan_avg", "uniform")(ng.random.key(0), (3, 5)).shape
    (3, 5)
    """
    if mode not in ("fan_in", "fan_out", "fan_avg"):
        raise ValueError(message("variance_scaling", "no such mode", repr(mode), "'fan_in', 'fan_out' or 'fan_avg'"))
    if distribution not in ("uniform", "normal", "truncated_normal"):
        wanted = "'uniform', 'normal' or 'truncated_normal'"
        raise ValueError(message("variance_scaling", "no such distribution", repr(distribution), wanted))

    def make(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Array:
        fan_in, fan_out = _fans(shape, in_axis, out_axis)
        n = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[mode]
        deviation = math.sqrt(scale / max(1.0, n))
        if distribution == "uniform":
            return random.uniform(key, shape, dtype, -1.0, 1.0) * (math.sqrt(3.0) * deviation)
        if distribution == "normal":
            return random.normal(key, shape, dtype) * deviation
        # the standard deviation of a standard normal cut to [-2, 2]
        return random.truncated_normal(key, -2.0, 2.0, shape, dtype) * (deviation / 0.87962566103423978)

    return make


def _scaled(name: str, scale: float, mode: str, distribution: str, doc: str) -> Callable[..., Initializer]:
    def factory(in_axis: int = -2, out_axis: int = -1, dtype: Any = float) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, dtype)

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = doc
    return factory


glorot_uniform = _scaled("glorot_uniform", 1.0, "fan_avg", "uniform", "Uniform, variance 2 / (fan_in + fan_out).")
glorot_normal = _scaled(
    "glorot_normal", 1.0, "fan_avg", "truncated_normal", "Cut normal, variance 2 / (fan_in + fan_out)."
)
lecun_uniform = _scaled("lecun_uniform", 1.0, "fan_in", "uniform", "Uniform, variance 1 / fan_in.")
lecun_normal = _scaled("lecun_normal", 1.0, "fan_in", "truncated_normal", "Cut normal, variance 1 / fan_in.")
he_uniform = _scaled("he_uniform", 2.0, "fan_in", "uniform", "Uniform, variance 2 / fan_in.")
he_normal = _scaled("he_normal", 2.0, "fan_in", "truncated_normal", "Cut normal, variance 2 / fan_in.")
xavier_uniform, xavier_normal, kaiming_uniform, kaiming_normal = glorot_uniform, glorot_normal, he_uniform, he_normal


def orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = float) -> Initializer:
    """A random matrix with orthonormal rows or columns, the fewer of the two. Source: Saxe et al. 2013."""

    def make(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Array:
        if len(shape) < 2:
            raise ValueError(message("orthogonal", "not a matrix", f"shape {tuple(shape)}", "two axes or more"))
        columns = shape[column_axis]
        rows = math.prod(shape) // max(1, columns)
        tall = (max(rows, columns), min(rows, columns))
        q, r = np.linalg.qr(np.asarray(random.normal(key, tall)))
        q = q * np.where(np.diagonal(r) < 0, -1.0, 1.0)  # uniform over all such matrices
        q = q.T if rows < columns else q
        kept = [n for k, n in enumerate(shape) if k != column_axis % len(shape)]
        matrix = np.moveaxis(q.reshape(*kept, columns), -1, column_axis)
        return Array(beside(np.ascontiguousarray(scale * matrix).astype(dtype), key_of(key, "orthogonal")))

    return make
