"""float16 and bfloat16 in operations that are no maps: those that only move elements move 16 bits, others get float32.

Maps widen and narrow elements as they read and write them (scalar/half.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numbagrad.core.dtypes import is_half

Convert = Callable[[Any, np.dtype], Any]
SINGLE, BITS = np.dtype(np.float32), np.dtype(np.uint16)
MOVES = frozenset(
    "broadcast_to concatenate diagonal dynamic_slice dynamic_update_slice embed embed_diagonal getitem reshape setitem"
    " stop_gradient transpose".split()
)


def call(
    convert: Convert,
    kernel: Callable[..., Any],
    name: str,
    operands: Sequence[Any],
    params: dict[str, Any],
) -> Any:
    """Run a kernel on operands some of which are of 16 bits; float32 results become of 16, too."""
    half = next(x.dtype for x in operands if is_half(x.dtype))
    if name in MOVES:
        return _typed(kernel(*(_typed(x, BITS) if x.dtype == half else x for x in operands), **params), half)
    wanted = params.get("dtype", half)
    found = kernel(*wide(convert, operands), **wide_params(params))
    outs = [
        convert(x, half) if x.dtype == SINGLE and wanted == half else x
        for x in (found if isinstance(found, tuple) else (found,))
    ]
    return tuple(outs) if isinstance(found, tuple) else outs[0]


def wide(convert: Convert, values: Sequence[Any]) -> list[Any]:
    """Values of 16 bits in float32; None stays."""
    return [x if x is None or not is_half(x.dtype) else convert(x, SINGLE) for x in values]


def wide_params(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters that ask for float32 where they asked for 16 bits."""
    wanted = params.get("dtype")
    return {**params, "dtype": SINGLE} if wanted is not None and is_half(wanted) else params


def narrow(convert: Convert, values: Sequence[Any], dtypes: Sequence[np.dtype]) -> list[Any]:
    """Values in the types of what they belong to, where those have 16 bits; None stays."""
    return [x if x is None or not is_half(d) else convert(x, d) for x, d in zip(values, dtypes, strict=True)]


def _typed(x: Any, dtype: np.dtype) -> Any:
    """The same bits as another type."""
    return x.view(dtype) if x.__class__ is np.ndarray else x.typed(dtype)
