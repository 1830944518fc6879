"""Scalar functions for targets with a mathematical library of their own (libdevice), where `scalar/simd` is not used.

Plain Python, specialised by type: constants take the operand's, so that float32 is computed in float32. Sine, cosine
and tangent of float32 are our own: libdevice's keep a table in local memory and multiply in float64 once arguments
are large, which costs registers and stack in every kernel that calls them.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from numbagrad.scalar.functions import round_down, type_of
from numbagrad.scalar.simd import coefficients
from numbagrad.scalar.simd.bits import i32_of, poly

# As CPU code for emulation; a GPU's compiler takes the Python function.
device = numba.njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)

_F, _U = np.float32, np.uint64
_PI = _F(math.pi)
_sin_tail, _SIN_C0 = poly(_F, coefficients.SIN_F32[1:]), _F(coefficients.SIN_F32[0])
_sin_small, _cos_small = poly(_F, coefficients.SIN_SMALL_F32), poly(_F, coefficients.COS_SMALL_F32)
# 1/pi in words of 32 bits from 2^51 on: the first that decides of any number from 2^-20 on how many half turns it is
_W0, _W1, _W2, _W3, _W4, _W5, _W6, _W7 = (
    _U(w) for w in (0, 0x28BE6, 0xDB93910, 0x54A7F09D, 0x5F47D4D3, 0x77036D8A, 0x5664F10E, 0x4107F000)
)


@device
def _word(k):
    """Word k of 1/pi: selects, since an indexed table would lie in local memory."""
    low = (_W0 if k == 0 else _W1) if k < 2 else (_W2 if k == 2 else _W3)
    high = (_W4 if k == 4 else _W5) if k < 6 else (_W6 if k == 6 else _W7)
    return low if k < 4 else high


@device
def _half_turns(x):
    """|x|/pi mod 2 in units of 2^-63, for finite x (Payne and Hanek 1983): 24 bits times 96 bits of 1/pi."""
    bits = i32_of(x) & 0x7FFFFFFF
    place = (bits >> 23) - 106
    if place < 0:  # below 2^-20
        return _U(0)
    digits = _U((bits & 0x7FFFFF) | 0x800000)
    k, shift = place >> 5, _U(place & 31)
    high = (_word(k) << _U(32)) | _word(k + 1)
    low = (_word(k + 2) << _U(32)) | _word(k + 3)
    if shift > _U(0):
        high = (high << shift) | (low >> (_U(64) - shift))
        low = low << shift
    # the window is high (64 bits) and the upper half of low
    return _U(digits * high + ((digits * (low >> _U(32))) >> _U(32)))


@device
def _radians(rest):
    """A remainder in units of 2^-63 half turns as an angle."""
    return _F(np.int64(rest)) * _F(2.0**-63) * _PI


@device
def _sin_poly(r):
    z = r * r
    return r + r * (z * _SIN_C0 + z * (z * _sin_tail(z)))


@device
def sin_f32(x):
    """Sine, odd; nan at infinity."""
    if not abs(x) < _F(math.inf):
        return x - x
    if abs(x) < _F(1.5):
        return _sin_poly(x)
    p = _half_turns(x)
    n = (p + _U(1 << 62)) >> _U(63)
    y = _sin_poly(_radians(p - (n << _U(63))))
    return -y if (n == _U(1)) != (x < _F(0)) else y


@device
def cos_f32(x):
    """Cosine, as sin(|x| + pi/2); nan at infinity."""
    if not abs(x) < _F(math.inf):
        return x - x
    p = _half_turns(x) + _U(1 << 62)
    n = (p + _U(1 << 62)) >> _U(63)
    y = _sin_poly(_radians(p - (n << _U(63))))
    return -y if n == _U(1) else y


@device
def tan_f32(x):
    """Tangent: sine over cosine within an eighth of a turn; odd; nan at infinity."""
    if not abs(x) < _F(math.inf):
        return x - x
    quarter = _U(0)
    r = abs(x)
    if r >= _F(0.75):
        p = _half_turns(x)
        quarter = (p + _U(1 << 61)) >> _U(62)
        r = _radians(p - (quarter << _U(62)))
    z = r * r
    s = r + r * z * _sin_small(z)
    c = _F(1) + (z * z * _cos_small(z) - _F(0.5) * z)
    y = s / c
    if quarter & _U(1):
        y = -c / s
    return math.copysign(_F(1), x) * y


@device
def sigmoid(x):
    """1 / (1 + exp(-x)) without overflow."""
    one = type_of(x, 1.0)
    e = math.exp(-abs(x))
    return one / (one + e) if x >= 0 else e / (one + e)


@device
def softplus(x):
    """log(1 + exp(x)) without overflow."""
    rest = math.log1p(math.exp(-abs(x)))
    return x + rest if x > 0 else rest


@device
def _digamma_above(x):
    """For x > 0: recurrence up to x >= 10, the asymptotic series there (DLMF 5.11.2)."""
    one = type_of(x, 1.0)
    shift = type_of(x, 0.0)
    while x < type_of(x, 10.0):
        shift += one / x
        x += one
    y = one / (x * x)
    series = type_of(x, 691 / 32760) - y * type_of(x, 1 / 12)
    series = type_of(x, 1 / 132) - y * series
    series = type_of(x, 1 / 240) - y * series
    series = type_of(x, 1 / 252) - y * series
    series = type_of(x, 1 / 120) - y * series
    series = type_of(x, 1 / 12) - y * series
    return math.log(x) - type_of(x, 0.5) / x - y * series - shift


@device
def _distance(x):
    """x less the nearest integer, as an angle: pi * x itself would have lost that."""
    return type_of(x, math.pi) * (x - round_down(x + type_of(x, 0.5)))


@device
def digamma(x):
    """The derivative of log gamma; below 0 by reflection (DLMF 5.5.4); nan at the poles."""
    if x > 0:
        return _digamma_above(x)
    if x == round_down(x):
        return type_of(x, math.nan)
    return _digamma_above(type_of(x, 1.0) - x) - type_of(x, math.pi) / math.tan(_distance(x))


@device
def digamma_f32(x):
    """The same without libdevice's tangent."""
    if x > 0:
        return _digamma_above(x)
    if x == round_down(x):
        return type_of(x, math.nan)
    return _digamma_above(_F(1) - x) - _PI / tan_f32(_distance(x))
