"""Number types: NumPy's, with NEP 50 promotion (a Python scalar takes the array's type) and float64 default."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from numbagrad.core.errors import message

SUPPORTED = frozenset(
    np.dtype(t)
    for t in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float32", "float64", "complex64", "complex128"),
    )
)
# Kept on GPUs, where everything is computed in float32 and rounded once; the CPU has no kernels for it.
HALF = np.dtype(np.float16)
BOOL, INT, FLOAT, COMPLEX = (np.dtype(t) for t in (bool, np.int64, np.float64, np.complex128))
DEFAULTS: dict[type, np.dtype] = {bool: BOOL, int: INT, float: FLOAT, complex: COMPLEX}
SCALARS = frozenset(DEFAULTS)

_pairs: dict[tuple[Any, Any], np.dtype] = {}
_EXAMPLES = {bool: False, int: 0, float: 0.0, complex: 0j}


def check_dtype(op: str, dtype: Any, on_gpu: bool = False) -> np.dtype:
    """A supported dtype (`on_gpu`: float16 is one), or a TypeError that says what to do."""
    try:
        found = np.dtype(dtype)
    except TypeError as error:
        raise TypeError(message(op, "not a dtype", repr(dtype), "a NumPy dtype such as 'float64'")) from error
    if on_gpu and found == HALF:
        return HALF
    if found not in SUPPORTED:
        plain = found.newbyteorder("=")
        if plain in SUPPORTED:
            return plain
        raise TypeError(
            message(
                op,
                "dtype is not supported",
                found,
                "bool, an integer type, float32, float64, complex64 or complex128",
                _step(found),
            )
        )
    return found


def _step(dtype: np.dtype) -> str:
    if dtype == HALF:
        return "float16 is kept on GPUs only: device_put it there, or convert with .astype('float32') first."
    return "Convert with .astype(...) first." if dtype.kind in "fcmM" else "Convert to numbers first."


def result_type(kinds: Iterable[Any]) -> np.dtype:
    """Common dtype of dtypes and Python scalar types (bool, int, float, complex are weak)."""
    result: Any = None
    for kind in kinds:
        result = kind if result is None else promote_pair(result, kind)
    return DEFAULTS.get(result, result)


def promote_pair(a: Any, b: Any) -> Any:
    """Common type of two dtypes or Python scalar types."""
    if a is b:
        return a
    found = _pairs.get((a, b))
    if found is None:
        weak = [k for k in (a, b) if k in SCALARS]
        if len(weak) == 2:
            found = max(weak, key=[bool, int, float, complex].index)
        elif weak and np.dtype(b if a in SCALARS else a) == BOOL:
            found = DEFAULTS[weak[0]]
        else:
            found = np.result_type(_EXAMPLES.get(a, a), _EXAMPLES.get(b, b))
        _pairs[a, b] = found
    return found


def is_inexact(dtype: np.dtype) -> bool:
    """Whether the type has derivatives: floating or complex."""
    return dtype.kind in "fc"


def real_dtype(dtype: np.dtype) -> np.dtype:
    """float32 for complex64, float64 for complex128; others unchanged."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def complex_dtype(dtype: np.dtype) -> np.dtype:
    """The complex type whose parts hold this type."""
    if dtype.kind == "c":
        return dtype
    return np.dtype(np.complex64) if dtype == np.float32 else COMPLEX


def float_dtype(dtype: np.dtype) -> np.dtype:
    """The type a function with real results computes in: integers and bool become float64."""
    return dtype if dtype.kind in "fc" else FLOAT
