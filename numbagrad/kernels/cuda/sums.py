"""Sums in a kernel's text: float32 in pairs, so that they are as good as float64's without a float64 instruction.

`add(high, low, value)` and `merge(high, low, other_high, other_low)` return a pair, `total(high, low)` the sum.
An infinite or overflowing sum has no rounding error to carry along. Source: Knuth, TAOCP 2, 4.2.2, theorem B.
"""

# Checklist of docs/design/cuda.md: no kernels here; of the 15, 7 holds: float32 alone for float32.

from __future__ import annotations

from functools import cache

import numpy as np

_PAIR = '''@cuda.jit(device=True)
def add(high, low, value):
    """The sum and its rounding errors so far, one more value added."""
    s = high + value
    part = s - high
    error = (high - (s - part)) + (value - part)
    return s, low + (error if error == error else {T}(0))


@cuda.jit(device=True)
def merge(high, low, other_high, other_low):
    """The sum of two such sums."""
    return add(high, low + other_low, other_high)


@cuda.jit(device=True)
def total(high, low):
    """The sum."""
    return high + low
'''

_PLAIN = '''@cuda.jit(device=True)
def add(high, low, value):
    """The sum with one more value; `low` is not used for this type."""
    return {T}(high + value), low


@cuda.jit(device=True)
def merge(high, low, other_high, other_low):
    """The sum of two sums."""
    return {T}(high + other_high), low


@cuda.jit(device=True)
def total(high, low):
    """The sum."""
    return high
'''


@cache
def text(dtype: np.dtype) -> str:
    """The three device functions for sums of a type."""
    single = dtype in (np.dtype(np.float32), np.dtype(np.complex64))
    return (_PAIR if single else _PLAIN).format(T=dtype.name)
