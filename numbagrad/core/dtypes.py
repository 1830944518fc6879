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
# Types of 16 bits that values may have, too: everything is computed in float32 and rounded once. Those met so far, so
# that a program without them never looks for them.
HALVES: set[np.dtype] = set()
FLOAT16 = np.dtype(np.float16)
# NumPy's kinds of floating types. bfloat16 is a type of ml_dtypes, and for NumPy all such are "V".
FLOATING, INEXACT = "fV", "fcV"
_SINGLE = np.dtype(np.float32)
BOOL, INT, FLOAT, COMPLEX = (np.dtype(t) for t in (bool, np.int64, np.float64, np.complex128))
DEFAULTS: dict[type, np.dtype] = {bool: BOOL, int: INT, float: FLOAT, complex: COMPLEX}
SCALARS = frozenset(DEFAULTS)

_pairs: dict[tuple[Any, Any], np.dtype] = {}
_EXAMPLES = {bool: False, int: 0, float: 0.0, complex: 0j}


def check_dtype(op: str, dtype: Any) -> np.dtype:
    """A supported dtype, or a TypeError that says what to do."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        return bfloat16(op)
    try:
        found = np.dtype(dtype)
    except TypeError as error:
        raise TypeError(message(op, "not a dtype", repr(dtype), "a NumPy dtype such as 'float64'")) from error
    if found in SUPPORTED:
        return found
    if is_half(found):
        found = FLOAT16 if found.kind == "f" else np.dtype(found.type)  # in this machine's byte order
        HALVES.add(found)
        return found
    plain = found.newbyteorder("=")
    if plain in SUPPORTED:
        return plain
    needed = "bool, an integer type, float16, bfloat16, float32, float64, complex64 or complex128"
    step = "Convert with .astype(...) first." if found.kind in "fcmM" else "Convert to numbers first."
    raise TypeError(message(op, "dtype is not supported", found, needed, step))


def is_half(dtype: np.dtype) -> bool:
    """Whether the type is float16 or bfloat16."""
    return dtype.itemsize == 2 and (dtype.kind == "f" or (dtype.kind == "V" and dtype.name == "bfloat16"))


def bfloat16(op: str = "bfloat16") -> np.dtype:
    """The type bfloat16, which NumPy has from ml_dtypes."""
    try:
        import ml_dtypes
    except ImportError:
        needed = "the package ml_dtypes"
        step = "pip install ml_dtypes, or take float16."
        raise TypeError(message(op, "NumPy has no bfloat16 of its own", "no ml_dtypes", needed, step)) from None
    return check_dtype(op, ml_dtypes.bfloat16)


def computed(dtype: np.dtype) -> np.dtype:
    """The type kernels compute in: float32 for types of 16 bits."""
    return _SINGLE if is_half(dtype) else dtype


def single_of(number: Any) -> Any:
    """A number in float32, rounded to odd: rounding that to bfloat16, as NumPy does, is rounding the number once."""
    with np.errstate(over="ignore"):
        single = np.float32(number)
    if float(single) == number or not np.isfinite(number):  # by NumPy alone the number would be rounded first
        return single
    bits = single.view(np.int32) - (abs(float(single)) > abs(number))  # towards zero; infinity is the largest number
    return np.int32(bits | 1).view(np.float32)


def accumulated(dtype: np.dtype) -> np.dtype:
    """The type sums and products of many are formed in: float64 for narrower floating types."""
    if dtype.kind == "c":
        return COMPLEX
    return FLOAT if dtype.kind in FLOATING else dtype


def finfo(dtype: Any) -> Any:
    """NumPy's limits of a floating type, for bfloat16 those of ml_dtypes."""
    found = check_dtype("finfo", getattr(dtype, "dtype", dtype))
    if found.kind != "V":
        return np.finfo(found)
    import ml_dtypes

    return ml_dtypes.finfo(found)


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
        elif "V" in (getattr(a, "kind", ""), getattr(b, "kind", "")):
            found = _with_bfloat16(a, b)
        else:
            found = np.result_type(_EXAMPLES.get(a, a), _EXAMPLES.get(b, b))
        _pairs[a, b] = found
    return found


def _with_bfloat16(a: Any, b: Any) -> np.dtype:
    """NumPy knows few of these: integers take bfloat16 whatever their size, and float16 has other numbers."""
    first, other = (a, b) if getattr(a, "kind", "") == "V" else (b, a)
    if other is complex:
        return np.dtype(np.complex64)
    if first is other or other.__class__ is type or other.kind in "biu":
        return first
    return np.result_type(_SINGLE, other)


def isdtype(dtype: Any, kind: Any) -> bool:
    """NumPy's `isdtype`, which knows no bfloat16: by kind that is what float16 is."""
    asked = kind if isinstance(kind, tuple) else (kind,)
    if getattr(dtype, "kind", "") != "V" or not is_half(dtype):
        return any(np.isdtype(dtype, k) for k in asked if getattr(k, "kind", "") != "V")
    return any(np.isdtype(FLOAT16, k) if isinstance(k, str) else dtype == k for k in asked)


def is_inexact(dtype: np.dtype) -> bool:
    """Whether the type has derivatives: floating or complex."""
    return dtype.kind in INEXACT


def real_dtype(dtype: np.dtype) -> np.dtype:
    """float32 for complex64, float64 for complex128; others unchanged."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def complex_dtype(dtype: np.dtype) -> np.dtype:
    """The complex type whose parts hold this type."""
    if dtype.kind == "c":
        return dtype
    return np.dtype(np.complex64) if computed(dtype) == _SINGLE else COMPLEX


def float_dtype(dtype: np.dtype) -> np.dtype:
    """The type a function with real results computes in: integers and bool become float64."""
    return dtype if dtype.kind in INEXACT else FLOAT
