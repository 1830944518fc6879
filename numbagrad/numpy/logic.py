"""Tests on arrays and types, and what has no derivative."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from numbagrad.core.arguments import arrays_of, host_value, value_of
from numbagrad.core.array import Array
from numbagrad.core.dtypes import promote_pair
from numbagrad.core.dtypes import result_type as _result_type
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy import reductions

# fmt: off
__all__ = [
    "allclose", "array_equal", "array_equiv", "can_cast", "isclose", "iscomplex", "iscomplexobj", "isneginf",
    "isposinf", "isreal", "isrealobj", "isscalar", "ndim", "promote_types", "result_type", "shape", "size",
]
# fmt: on


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Array:
    """Whether |a - b| <= atol + rtol * |b|, elementwise; equal infinities are close."""
    x, y = arrays_of("isclose", a, b)
    near = ew.absolute(x - y) <= atol + rtol * ew.absolute(y)
    close = ew.where(ew.isfinite(x) & ew.isfinite(y), near, x == y)
    return close | (ew.isnan(x) & ew.isnan(y)) if equal_nan else close


def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether all elements are close."""
    return bool(reductions.all(isclose(a, b, rtol, atol, equal_nan)))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Whether two arrays have one shape and equal elements."""
    x, y = arrays_of("array_equal", a1, a2)
    if x.shape != y.shape:
        return False
    same = x == y
    return bool(reductions.all(same | (ew.isnan(x) & ew.isnan(y)) if equal_nan else same))


def array_equiv(a1: Any, a2: Any) -> bool:
    """Whether two arrays are equal after broadcasting."""
    x, y = arrays_of("array_equiv", a1, a2)
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return bool(reductions.all(x == y))


def iscomplex(x: Any) -> Array:
    """Whether the imaginary part is not 0."""
    return ew.imag(x) != 0


def isreal(x: Any) -> Array:
    """Whether the imaginary part is 0."""
    return ew.imag(x) == 0


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex."""
    return value_of(x).dtype.kind == "c"


def isrealobj(x: Any) -> bool:
    """Whether the dtype is not complex."""
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Whether it is a number or a 0-d array."""
    return np.isscalar(element) or (isinstance(element, Array) and element.ndim == 0)


def isposinf(x: Any) -> Array:
    """Whether x is +inf."""
    return Array(value_of(x)) == np.inf


def isneginf(x: Any) -> Array:
    """Whether x is -inf."""
    return Array(value_of(x)) == -np.inf


def shape(a: Any) -> tuple[int, ...]:
    """Length of each axis."""
    return host_value(a).shape


def ndim(a: Any) -> int:
    """Number of axes."""
    return len(host_value(a).shape)


def size(a: Any, axis: int | None = None) -> int:
    """Number of elements, or the length of an axis."""
    found = host_value(a).shape
    return math.prod(found) if axis is None else found[axis]


def result_type(*xs: Any) -> np.dtype:
    """Common dtype of arrays, dtypes and Python scalars (NEP 50)."""
    return _result_type(_kind(x) for x in xs)


def _kind(x: Any) -> Any:
    if x.__class__ in (bool, int, float, complex):
        return x.__class__
    if isinstance(x, (Array, np.ndarray, np.generic)):
        return x.dtype
    return np.dtype(x)


def promote_types(type1: Any, type2: Any) -> np.dtype:
    """Smallest dtype both convert to."""
    return promote_pair(np.dtype(type1), np.dtype(type2))


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Whether one dtype converts to another under a rule."""
    return np.can_cast(_kind(from_), np.dtype(to), casting)  # type: ignore[arg-type]
