"""Functions composed of several operations, for operands of 16 bits.

Every operation rounds its result. A sum of squares, or the inverse root of a small variance, leaves the range of
float16 long before what is made of it does: so these functions are float32 inside and round once, at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from numbagrad.core.arguments import value_of
from numbagrad.core.array import Array
from numbagrad.core.dtypes import INEXACT, computed, is_half, result_type
from numbagrad.core.tree import tree_map
from numbagrad.primitives.elementwise import convert

F = TypeVar("F", bound=Callable[..., Any])
_ARRAYS = (Array, np.ndarray, np.generic)


def in_float32(function: F) -> F:
    """The function computed in float32 for operands of 16 bits.

    If the operands' common type has 16 bits, so have the results, unless a `dtype` or `out` says what they are.
    """
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    place = names.index("out") if "out" in names else len(names)

    @wraps(function)
    def rounded_once(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], (list, tuple)):
            args = (Array(value_of(args[0], function.__name__)), *args[1:])
        operands = [x for k, x in enumerate(args) if isinstance(x, _ARRAYS) and k != place]
        operands += [x for name, x in kwargs.items() if isinstance(x, _ARRAYS) and name != "out"]
        dtypes = [x.dtype for x in operands]
        if not any(map(is_half, dtypes)):
            return function(*args, **kwargs)
        wide = [x if k == place else widened(x) for k, x in enumerate(args)]
        found = function(*wide, **{name: x if name == "out" else widened(x) for name, x in kwargs.items()})
        said = dict(zip(names, args, strict=False)) | kwargs
        common = result_type(d for d in dtypes if d.kind in INEXACT)
        if not is_half(common) or said.get("dtype") is not None or said.get("out") is not None:
            return found
        return tree_map(lambda x: _narrowed(x, common), found)

    return rounded_once  # type: ignore[return-value]


def widened(x: Any) -> Any:
    """An array of 16 bits in float32; anything else as it is."""
    if not isinstance(x, _ARRAYS):
        return x
    dtype = computed(x.dtype)
    if isinstance(x, Array):
        return Array(convert(x._value, dtype))
    return x.astype(dtype) if x.dtype != dtype else x


def _narrowed(x: Any, half: np.dtype) -> Any:
    return Array(convert(x._value, half)) if isinstance(x, Array) and x.dtype == np.float32 else x
