"""Functions composed of several operations, for operands of 16 bits.

Every operation rounds its result. A sum of squares, or the inverse root of a small variance, leaves the range of
float16 long before what is made of it does: so these functions are float32 inside and round once, at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from numbagrad.core.array import Array
from numbagrad.core.dtypes import HALVES, INEXACT
from numbagrad.core.tree import tree_map
from numbagrad.primitives.elementwise import convert

F = TypeVar("F", bound=Callable[..., Any])
SINGLE = np.dtype(np.float32)


def in_float32(function: F) -> F:
    """The function computed in float32 for operands of 16 bits; its float32 results are then of 16 bits, too."""

    @wraps(function)
    def rounded_once(*args: Any, **kwargs: Any) -> Any:
        if not HALVES:
            return function(*args, **kwargs)
        given = [x for x in (*args, *kwargs.values()) if isinstance(x, (Array, np.ndarray, np.generic))]
        kinds = {x.dtype for x in given if x.dtype.kind in INEXACT}
        if len(kinds) != 1 or HALVES.isdisjoint(kinds) or kwargs.get("dtype") is not None:
            return function(*args, **kwargs)
        (half,) = kinds
        wide = [_as(x, half, SINGLE) for x in args]
        named = {name: x if name == "out" else _as(x, half, SINGLE) for name, x in kwargs.items()}
        return tree_map(lambda x: _as(x, SINGLE, half), function(*wide, **named))

    return rounded_once  # type: ignore[return-value]


def _as(x: Any, source: np.dtype, target: np.dtype) -> Any:
    """An array of one type as another; anything else as it is."""
    if isinstance(x, Array):
        return Array(convert(x._value, target)) if x.dtype == source else x
    if isinstance(x, (np.ndarray, np.generic)):
        return x.astype(target) if x.dtype == source else x
    return x
