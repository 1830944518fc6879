"""Floating types of 16 bits, which are kept in memory and computed in float32: how they are read and written.

Plain Python for CPUs and GPUs alike. Rounding is to nearest, halves to even.
"""

from __future__ import annotations

import numpy as np

from numbagrad.scalar.simd.bits import f32_of, i32_of, simd

_F = np.float32


@simd
def float16_to_float(h):
    """The float32 of 16 bits of IEEE 754: a shift, and a multiplication that makes denormal numbers right."""
    magnitude = np.int32(h) & np.int32(0x7FFF)
    x = f32_of(magnitude << 13) * _F(2.0**112)
    if magnitude >= np.int32(0x7C00):  # infinite or nan
        x = f32_of((magnitude << 13) | 0x7F800000)
    return -x if h & np.uint16(0x8000) else x


@simd
def float_to_float16(x):
    """16 bits of IEEE 754."""
    bits = np.int64(i32_of(x)) & 0xFFFFFFFF
    sign, magnitude = (bits >> 16) & 0x8000, bits & 0x7FFFFFFF
    if magnitude > 0x7F800000:
        half = np.int64(0x7E00)
    elif magnitude >= 0x47800000:
        half = np.int64(0x7C00)
    elif magnitude < 0x38800000:  # below 2^-14: adding 1/2 leaves multiples of 2^-24 in the low bits, rounded
        half = np.int64(i32_of(abs(x) + _F(0.5))) - 0x3F000000
    else:
        half = (magnitude + 0xFFF + ((magnitude >> 13) & 1) - 0x38000000) >> 13
    return np.uint16(sign | half)


@simd
def bfloat16_to_float(h):
    """The float32 whose upper 16 bits these are."""
    return f32_of(np.int32(h) << 16)


@simd
def float_to_bfloat16(x):
    """The upper 16 bits of a float32, rounded; a nan stays one."""
    bits = np.int64(i32_of(x)) & 0xFFFFFFFF
    if bits & 0x7FFFFFFF > 0x7F800000:
        return np.uint16((bits >> 16) | 0x40)
    return np.uint16((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)


@simd
def floor_float16(x):
    """The largest float16 that is not above x, as float32."""
    h = np.int32(float_to_float16(x))
    if float16_to_float(np.uint16(h)) > x:
        h = h + 1 if h & 0x8000 else h - 1
    return float16_to_float(np.uint16(h))


@simd
def floor_bfloat16(x):
    """The largest bfloat16 that is not above x, as float32."""
    h = np.int32(float_to_bfloat16(x))
    if bfloat16_to_float(np.uint16(h)) > x:
        h = h + 1 if h & 0x8000 else h - 1
    return bfloat16_to_float(np.uint16(h))


@simd
def single_of(x):
    """float32 of a float64, rounded to odd where it is not exact: 16 bits of it are then those of x itself.

    Rounding twice to nearest is not rounding once. Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded
    sums: proved algorithms using rounding to odd".
    """
    y = np.float32(x)
    back = np.float64(y)
    bits = i32_of(y)
    if back == x or x != x:
        return y
    if abs(back) > abs(x):
        bits -= np.int32(1)  # towards zero; infinity becomes the largest number
    return f32_of(bits | np.int32(1))
