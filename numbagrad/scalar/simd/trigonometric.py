"""Sine, cosine and tangent, and their inverses, branch-free.

Reduction follows Payne and Hanek (1983): x is an integer of 24 or 53 bits times a power of two, and only the
part of 2^k/pi that decides the result modulo whole turns is multiplied by it.
- float32: x T, with T = 2^-k (2^k/pi mod 2) in two float64 parts and k from the exponent group of x (four
  groups, by selects: no gather), is x/pi mod 2 to 2^-55. No float32 is closer than about 2^-30 to a multiple
  of pi. The second part comes after rounding: the remainder can pass 1/2 by 1/32.
- float64: see _turns_f64. No float64 is closer than about 2^-62 of a turn to a multiple of pi/4.
Inverses: one polynomial in the square of a reduced argument, sqrt((1 - |x|)/2) above 1/2 for asin and acos,
for atan (a - 1)/(a + 1) or -1/a above 1/2, and a constant in two parts (the reductions of Cephes and FDLIBM).
Polynomials are fitted by tools/simd_coefficients.py. Errors quoted are the bounds tests/test_simd.py checks.
"""

import math

import numpy as np

from numbagrad.scalar.simd import coefficients as C
from numbagrad.scalar.simd.bits import (
    copysign,
    f32_of,
    f64_of,
    fabs,
    fma,
    fma32,
    i32_of,
    i64_of,
    poly,
    rint,
    select,
    shl,
    shr,
    simd,
    sqrt,
)

F, I, D, U = np.float32, np.int32, np.float64, np.uint64
INF32, NAN32, INF, NAN = F(np.inf), F(np.nan), np.inf, np.nan
PI, PI_LO = np.pi, 1.2246467991473532e-16
PI32, PI32_LO = F(3.1415927), F(-8.742278e-08)
PIO2_32, PIO2_32_LO, PIO4_32, PIO4_32_LO = F(1.5707964), F(-4.371139e-08), F(0.7853982), F(-2.1855695e-08)
PIO2, PIO2_LO, PIO4, PIO4_LO = 0.5 * PI, 0.5 * PI_LO, 0.25 * PI, 0.25 * PI_LO
MAGIC = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer, left in the low bits
GRID1, GRID2 = 1.5, math.ldexp(1.5, -52)  # the same for multiples of 2^-52 and 2^-104
SIGN_AND_FRACTION, FIELD_OF_2_52 = -0x7FF0000000000001, 1075 << 52

_sin_tail32, SIN_C0 = poly(F, C.SIN_F32[1:]), F(C.SIN_F32[0])
_sin64 = poly(D, C.SIN_F64)
_sin_small64 = poly(D, C.SIN_SMALL_F64)
_cos_small64 = poly(D, C.COS_SMALL_F64)
_sin_small32 = poly(D, C.SIN_SMALL_F32)
_cos_small32 = poly(D, C.COS_SMALL_F32)
_asin32 = poly(F, C.ASIN_F32)
_asin64 = poly(D, C.ASIN_F64)
_atan32 = poly(F, C.ATAN_F32)
_atan64 = poly(D, C.ATAN_F64)

(A0, A1, A2, A3), (B0, B1, B2, B3) = C.TURNS_F32
G1, G2, G3 = F(2.0**50), F(2.0**76), F(2.0**102)
SIGN32 = I(-2147483648)


def _turn_table():
    """For each exponent field E from 1022 on 2^(E-1075)/(2 pi) mod 1 in four parts; the first two are
    multiples of 2^-53 and 2^-105, so that 53 bits times one of them, less the nearest multiple of the step
    before, is exact."""
    table = np.empty((1025, 4))
    for row in range(1025):
        rest = (C.INVERSE_TURN >> (1113 - row)) & ((1 << 220) - 1)
        rest -= (rest >> 219) << 220
        for column, step in enumerate((167, 115, 0, 0)):
            part = (rest + (1 << step >> 1) >> step << step) if step else int(float(rest))
            table[row, column] = math.ldexp(float(part), -220)
            rest -= part
    return table.ravel()


TURN_TABLE = _turn_table()


@simd
def _turns_f32(a):
    """hi, lo with a * (hi + lo) = a/pi mod 2, for any finite a >= 0."""
    hi = select(a < G1, A0, select(a < G2, A1, select(a < G3, A2, A3)))
    lo = select(a < G1, B0, select(a < G2, B1, select(a < G3, B2, B3)))
    return hi, lo


@simd
def _sin_poly_f32(r, t, sign):
    """(-1)^n sin(r) times the sign of `sign`, for |r| <= 1.67; n is the lowest bit of t."""
    r = F(f64_of(i64_of(r) ^ shl(i64_of(t), 63)))
    z = r * r
    y = fma32(r, fma32(z, SIN_C0, z * (z * _sin_tail32(z))), r)  # 0.3 ulp better than r z P(z)
    return f32_of(i32_of(y) ^ (i32_of(sign) & SIGN32))


@simd
def sin_f32(x):
    """Sine, in half turns. Max 1.6 ulp for every finite x; odd, keeps -0.0; nan at +-inf."""
    a = fabs(x)
    hi, lo = _turns_f32(a)
    v = D(a)
    t = fma(v, hi, MAGIC)
    return _sin_poly_f32(fma(v, lo, fma(v, hi, -(t - MAGIC))) * PI, t, x)


@simd
def cos_f32(x):
    """Cosine as sin(x + pi/2), in half turns. Max 1.6 ulp for every finite x; nan at +-inf."""
    a = fabs(x)
    hi, lo = _turns_f32(a)
    v = D(a)
    t = fma(v, hi, 0.5) + MAGIC
    return _sin_poly_f32(fma(v, lo, fma(v, hi, 0.5 - (t - MAGIC))) * PI, t, F(0.0))


@simd
def _turns_f64(x):
    """whole, fine, rest: their sum is x/(2 pi) mod 1 for |x| >= 1/2, to 2^-160.

    M, the 53 bit integer in x, times the table's first part less the nearest integer is an exact multiple of
    2^-53; the second part is split at that step into one more such multiple and an exact multiple of 2^-105;
    and so on."""
    b = i64_of(x)
    m = f64_of((b & SIGN_AND_FRACTION) | FIELD_OF_2_52)
    e = (shr(b, 52) & 0x7FF) - 1022
    row = U(select(e < 0, 0, e)) * U(4)
    t0, t1, t2, t3 = (TURN_TABLE[row], TURN_TABLE[row + U(1)], TURN_TABLE[row + U(2)], TURN_TABLE[row + U(3)])
    whole = fma(m, t0, -rint(m * t0))
    up = fma(m, t1, GRID1) - GRID1
    whole = whole + up
    fine = fma(m, t1, -up)
    up = fma(m, t2, GRID2) - GRID2
    rest = fma(m, t3, fma(m, t2, -up))
    return whole, fine + up, rest


@simd
def _radians(f, fine, rest):
    """2 pi (f + fine + rest) in two parts."""
    h = f + fine
    low = ((f - h) + fine) + rest
    y = h * (2.0 * PI)
    return y, fma(h, 2.0 * PI, -y) + fma(h, 2.0 * PI_LO, low * (2.0 * PI))


@simd
def _sin_poly_f64(y, low, n):
    """(-1)^n sin(y + low) for |y| <= pi/2; n holds its parity in the lowest bit."""
    z = y * y
    s = y + fma(y * z, _sin64(z), low * fma(z, -0.5, 1.0))
    return f64_of(i64_of(s) ^ shl(n, 63))


@simd
def sin_f64(x):
    """Sine, in half turns. Max 1.8 ulp for every finite x; odd, keeps -0.0; nan at +-inf."""
    whole, fine, rest = _turns_f64(x)
    t = fma(whole, 2.0, MAGIC)
    y, low = _radians(fma(t - MAGIC, -0.5, whole), fine, rest)
    small = fabs(x) < 0.5
    s = _sin_poly_f64(select(small, x, y), select(small, 0.0, low), select(small, 0, i64_of(t)))
    s = select(fabs(x) < 1e-9, x, s)
    return select(fabs(x) < INF, s, NAN)


@simd
def cos_f64(x):
    """Cosine as sin(x + pi/2), in half turns. Max 2 ulp for every finite x; nan at +-inf."""
    whole, fine, rest = _turns_f64(x)
    t = fma(whole, 2.0, 0.5) + MAGIC
    y, low = _radians(fma(0.5 - (t - MAGIC), 0.5, whole), fine, rest)
    small = fabs(x) < 0.5
    h = 0.5 * PI - fabs(x)
    y = select(small, h, y)
    low = select(small, ((0.5 * PI - h) - fabs(x)) + 0.5 * PI_LO, low)
    return select(fabs(x) < INF, _sin_poly_f64(y, low, select(small, 0, i64_of(t))), NAN)


@simd
def tan_f32(x):
    """Tangent, in quarter turns, as a float64 quotient. Max 0.6 ulp for every finite x; odd; nan at +-inf."""
    a = fabs(x)
    hi, lo = _turns_f32(a)
    v = D(a)
    t = fma(v, hi + hi, MAGIC)
    r = fma(v, lo + lo, fma(v, hi + hi, -(t - MAGIC))) * (0.5 * PI)
    z = r * r
    s = fma(r * z, _sin_small32(z), r)
    c = fma(z * z, _cos_small32(z), fma(z, -0.5, 1.0))
    odd = (i64_of(t) & 1) == 1
    y = F(select(odd, -c, s) / select(odd, s, c))
    return f32_of(i32_of(y) ^ (i32_of(x) & SIGN32))


@simd
def tan_parts(y, low, odd):
    """tan(y + low), |y| <= pi/4, or for odd -1/tan, in two parts: sine over cosine, both in two parts."""
    z = y * y
    u = fma(y * z, _sin_small64(z), low * fma(z, -0.5, 1.0))
    s = y + u
    s_low = (y - s) + u
    h = 0.5 * z
    u = fma(z * z, _cos_small64(z), fma(-y, low, -0.5 * fma(y, y, -z)))
    c = 1.0 - h
    u = ((1.0 - c) - h) + u
    c_low = u - ((c + u) - c)
    c = c + u
    n, n_low = select(odd, -c, s), select(odd, -c_low, s_low)
    d, d_low = select(odd, s, c), select(odd, s_low, c_low)
    r = 1.0 / d
    q = n * r
    return q, (fma(-q, d, n) + (n_low - q * d_low)) * r


@simd
def tan_f64(x):
    """Tangent: sine over cosine in quarter turns, both in two parts.

    Max 0.9 ulp for every finite x; keeps -0.0.
    """
    whole, fine, rest = _turns_f64(x)
    t = fma(whole, 4.0, MAGIC)
    y, low = _radians(fma(t - MAGIC, -0.25, whole), fine, rest)
    small = fabs(x) < 0.5
    q, low = tan_parts(select(small, x, y), select(small, 0.0, low), select(small, 0, i64_of(t) & 1) == 1)
    return select(fabs(x) < INF, select(fabs(x) < 1e-9, x, q + low), NAN)


@simd
def asin_f32(x):
    """Inverse sine: x + x^3 P(x^2), or pi/2 - 2 asin(sqrt((1 - |x|)/2)) above 1/2.

    Max 1.7 ulp; keeps -0.0.
    """
    a = fabs(x)
    big = a > F(0.5)
    z = select(big, fma32(F(-0.5), a, F(0.5)), a * a)
    s = select(big, sqrt(z), a)
    u = s * z * _asin32(z)
    far = PIO2_32 - fma32(F(2.0), s, fma32(F(2.0), u, -PIO2_32_LO))
    return copysign(select(big, far, s + u), x)


@simd
def asin_f64(x):
    """Inverse sine: x + x^3 P(x^2), or pi/2 - 2 asin(sqrt((1 - |x|)/2)) above 1/2.

    Max 1.7 ulp; keeps -0.0.
    """
    a = fabs(x)
    big = a > 0.5
    z = select(big, fma(-0.5, a, 0.5), a * a)
    s = select(big, sqrt(z), a)
    u = s * z * _asin64(z)
    far = PIO2 - fma(2.0, s, fma(2.0, u, -PIO2_LO))
    return copysign(select(big, far, s + u), x)


@simd
def acos_f32(x):
    """Inverse cosine: pi/2 - asin(x), or 2 asin(sqrt((1 - x)/2)) above 1/2, or pi less that. Max 1.3 ulp."""
    a = fabs(x)
    big = a > F(0.5)
    z = select(big, fma32(F(-0.5), a, F(0.5)), a * a)
    w = select(big, copysign(F(2.0) * sqrt(z), -x), x)
    base = select(big, select(x < F(0.0), PI32, F(0.0)), PIO2_32)
    low = select(big, select(x < F(0.0), PI32_LO, F(0.0)), PIO2_32_LO)
    return base - (w + fma32(w * z, _asin32(z), -low))


@simd
def acos_f64(x):
    """Inverse cosine: pi/2 - asin(x), or 2 asin(sqrt((1 - x)/2)) above 1/2, or pi less that. Max 1.3 ulp."""
    a = fabs(x)
    big = a > 0.5
    z = select(big, fma(-0.5, a, 0.5), a * a)
    w = select(big, copysign(2.0 * sqrt(z), -x), x)
    base = select(big, select(x < 0.0, PI, 0.0), PIO2)
    low = select(big, select(x < 0.0, PI_LO, 0.0), PIO2_LO)
    return base - (w + fma(w * z, _asin64(z), -low))


@simd
def atan_f32(x):
    """Inverse tangent: t + t^3 P(t^2) + k pi/4, t = a, (a - 1)/(a + 1) or -1/a. Max 1.6 ulp; keeps -0.0."""
    a = fabs(x)
    mid = a > F(0.5)
    top = a > F(2.0)
    t = select(top, F(-1.0), select(mid, a - F(1.0), a)) / select(top, a, select(mid, a + F(1.0), F(1.0)))
    base = select(top, PIO2_32, select(mid, PIO4_32, F(0.0)))
    low = select(top, PIO2_32_LO, select(mid, PIO4_32_LO, F(0.0)))
    z = t * t
    return copysign(base + (t + fma32(t * z, _atan32(z), low)), x)


@simd
def atan_f64(x):
    """Inverse tangent: t + t^3 P(t^2) + k pi/4, t = a, (a - 1)/(a + 1) or -1/a. Max 1.6 ulp; keeps -0.0."""
    a = fabs(x)
    mid = a > 0.5
    top = a > 2.0
    t = select(top, -1.0, select(mid, a - 1.0, a)) / select(top, a, select(mid, a + 1.0, 1.0))
    base = select(top, PIO2, select(mid, PIO4, 0.0))
    low = select(top, PIO2_LO, select(mid, PIO4_LO, 0.0))
    z = t * t
    return copysign(base + (t + fma(t * z, _atan64(z), low)), x)


@simd
def atan2_f32(y, x):
    """Angle of (x, y): atan of the smaller over the larger part, from the octant.

    Max 1.8 ulp; C99 edge table.
    """
    ax, ay = fabs(x), fabs(y)
    swap = ay > ax
    big, small = select(swap, ay, ax), select(swap, ax, ay)
    scale = select(big > F(1e30), F(2.0**-30), select(big < F(1e-30), F(2.0**60), F(1.0)))
    mid = (small + small > big) | (small == INF32)
    b, s = big * scale, small * scale
    t = select(mid, s - b, s) / select(mid, s + b, b)
    t = select(small == big, F(0.0), select(small == F(0.0), F(0.0), t))
    k = select(mid, F(1.0), F(0.0))
    k = select(swap, F(2.0) - k, k)
    behind = i32_of(x) < I(0)
    k = select(behind, F(4.0) - k, k)
    t = select(swap != behind, -t, t)
    z = t * t
    base = k * PIO4_32
    low = fma32(k, PIO4_32_LO, fma32(k, PIO4_32, -base))
    r = base + (t + fma32(t * z, _atan32(z), low))
    return select((x == x) & (y == y), copysign(r, y), NAN32)


@simd
def atan2_f64(y, x):
    """Angle of (x, y): atan of the smaller over the larger part, from the octant.

    Max 1.8 ulp; C99 edge table.
    """
    ax, ay = fabs(x), fabs(y)
    swap = ay > ax
    big, small = select(swap, ay, ax), select(swap, ax, ay)
    scale = select(big > 1e300, 2.0**-60, select(big < 1e-250, 2.0**300, 1.0))
    mid = (small + small > big) | (small == INF)
    b, s = big * scale, small * scale
    t = select(mid, s - b, s) / select(mid, s + b, b)
    t = select(small == big, 0.0, select(small == 0.0, 0.0, t))
    k = select(mid, 1.0, 0.0)
    k = select(swap, 2.0 - k, k)
    behind = i64_of(x) < 0
    k = select(behind, 4.0 - k, k)
    t = select(swap != behind, -t, t)
    z = t * t
    base = k * PIO4
    low = fma(k, PIO4_LO, fma(k, PIO4, -base))
    r = base + (t + fma(t * z, _atan64(z), low))
    return select((x == x) & (y == y), copysign(r, y), NAN)
