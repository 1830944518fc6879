"""Exponentials, logarithms, powers and the cube root, branch-free.

exp family: x = n ln2 + r with a two-part ln2 (Cody and Waite 1980), a minimax polynomial in r, scaling by 2^n
in two steps, the first exact, so that subnormal results round once. log family: x = 2^e m with m in
[sqrt(1/2), sqrt(2)). cbrt: the exponent divided by three for a start, then series steps.
Polynomials are fitted by tools/simd_coefficients.py. Errors quoted are the bounds tests/test_simd.py checks.
"""

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
    low32,
    poly,
    rint,
    sar,
    select,
    shl,
    shr,
    simd,
)

F, I, D, L = np.float32, np.int32, np.float64, np.int64
INF32, NAN32, INF, NAN = F(np.inf), F(np.nan), np.inf, np.nan

# Adding 1.5 * 2^23 (2^52) rounds to an integer and leaves it in the low bits.
MAGIC32, MAGIC32_BITS = F(12582912.0), I(0x4B400000)
MAGIC, MAGIC_BITS = 6755399441055744.0, 0x4338000000000000
LOG2E32, LN2_HI32, LN2_LO32 = F(1.4426950408889634), F(0.693359375), F(-2.12194440054690583e-4)
LOG2E, LN2_HI, LN2_LO = 1.4426950408889634, 6.93145751953125e-1, 1.42860682030941723212e-6
LOG2E_LO = 2.0355273740931033e-17  # 1/ln2 - LOG2E
LOG10E32, LOG10E32_LO = F(0.4342944920063019), F(-1.0103049952192578e-08)
LOG10E, LOG10E_LO = 0.4342944819032518, 1.098319650216765e-17
LOG10_2_HI32, LOG10_2_LO32 = F(0.301025390625), F(4.605039066518657e-06)
LOG10_2_HI, LOG10_2_LO = 0.3010299956640665, -8.532344317057107e-14
SQRT_HALF32, SQRT_HALF = I(0x3F3504F3), 0x3FE6A09E667F3BCD  # bits of sqrt(1/2)

# CBRT_GUESS - bits(x)/3 are the bits of about x^(-1/3); the constant of least error, 10% in 1 - x y^3.
CBRT_GUESS32, CBRT_GUESS = F(1419900672.0), 1430186385.8045113

_exp32 = poly(F, C.EXP_F32)
_expm1_32 = poly(F, C.EXPM1_F32)
_exp2_32 = poly(F, C.EXP2_F32)
_log32 = poly(F, C.LOG_F32)
_exp64 = poly(D, C.EXP_F64)
_expm1_64 = poly(D, C.EXPM1_F64)
_exp2_64 = poly(D, C.EXP2_F64)
_log64 = poly(D, C.LOG_F64)
_pow64 = poly(D, C.POW_F64)
_log2_d32 = poly(D, C.LOG2_D32)
_exp2_d32 = poly(D, C.EXP2_D32)


@simd
def scale_f32(y, n):
    """y * 2^n for an integer |n| < 250, rounded once."""
    h = sar(n, 1)
    return y * f32_of(shl(h + I(127), 23)) * f32_of(shl(n - h + I(127), 23))


@simd
def scale_f64(y, n):
    """y * 2^n for an integer |n| < 2000, rounded once."""
    h = shr(n + 4096, 1) - 2048  # AVX2 has no arithmetic shift of int64
    return y * f64_of(shl(h + 1023, 52)) * f64_of(shl(n - h + 1023, 52))


@simd
def exp_parts_f32(x):
    """exp(x) = (hi + lo) * 2^n, hi + lo good to a few 2^-27."""
    x = select(x > F(90.0), F(90.0), select(x < F(-105.0), F(-105.0), x))
    t = fma32(x, LOG2E32, MAGIC32)
    n = t - MAGIC32
    a = fma32(n, -LN2_HI32, x)
    r = fma32(n, -LN2_LO32, a)
    low = fma32(n, -LN2_LO32, a - r)
    u = r + fma32(r * r, _exp32(r), low)
    hi = F(1.0) + u
    return hi, (F(1.0) - hi) + u, low32(i32_of(t) - MAGIC32_BITS)


@simd
def exp_parts_f64(x):
    """exp(x) = (hi + lo) * 2^n, hi + lo good to 2^-55."""
    x = select(x > 711.0, 711.0, select(x < -746.0, -746.0, x))
    t = fma(x, LOG2E, MAGIC)
    n = t - MAGIC
    a = fma(n, -LN2_HI, x)
    r = fma(n, -LN2_LO, a)
    low = fma(n, -LN2_LO, a - r)
    u = r + fma(r * r, _exp64(r), low)
    hi = 1.0 + u
    return hi, (1.0 - hi) + u, i64_of(t) - MAGIC_BITS


@simd
def exp_f32(x):
    """e**x. Two-part reduction, degree 6. Max 1.1 ulp; exact at +-inf, nan; subnormal results round once."""
    x = select(x > F(90.0), F(90.0), select(x < F(-105.0), F(-105.0), x))
    t = fma32(x, LOG2E32, MAGIC32)
    n = t - MAGIC32
    r = fma32(n, -LN2_LO32, fma32(n, -LN2_HI32, x))
    y = F(1.0) + fma32(r * r, _exp32(r), r)
    return scale_f32(y, low32(i32_of(t) - MAGIC32_BITS))


@simd
def exp_f64(x):
    """e**x. Two-part reduction, degree 11. Max 1.1 ulp; exact at +-inf, nan; subnormal results round once."""
    x = select(x > 711.0, 711.0, select(x < -746.0, -746.0, x))
    t = fma(x, LOG2E, MAGIC)
    n = t - MAGIC
    r = fma(n, -LN2_LO, fma(n, -LN2_HI, x))
    y = 1.0 + fma(r * r, _exp64(r), r)
    return scale_f64(y, i64_of(t) - MAGIC_BITS)


@simd
def exp_plain_f32(x):
    """e**x for |x| < 80, not nan: 2^n goes straight into the exponent field."""
    t = fma32(x, LOG2E32, MAGIC32)
    n = t - MAGIC32
    r = fma32(n, -LN2_LO32, fma32(n, -LN2_HI32, x))
    y = F(1.0) + fma32(r * r, _exp32(r), r)
    return f32_of(i32_of(y) + shl(i32_of(t), 23))


@simd
def exp_plain_f64(x):
    """e**x for |x| < 700, not nan: 2^n goes straight into the exponent field."""
    t = fma(x, LOG2E, MAGIC)
    n = t - MAGIC
    r = fma(n, -LN2_LO, fma(n, -LN2_HI, x))
    y = 1.0 + fma(r * r, _exp64(r), r)
    return f64_of(i64_of(y) + shl(i64_of(t), 52))


@simd
def exp2_f32(x):
    """2**x. x = n + r exactly, degree 6. Max 0.9 ulp; exact at integers; subnormals round once."""
    x = select(x > F(130.0), F(130.0), select(x < F(-151.0), F(-151.0), x))
    t = x + MAGIC32
    r = x - (t - MAGIC32)
    return scale_f32(fma32(r, _exp2_32(r), F(1.0)), low32(i32_of(t) - MAGIC32_BITS))


@simd
def exp2_f64(x):
    """2**x. x = n + r exactly, degree 12. Max 0.9 ulp; exact at integers; subnormals round once."""
    x = select(x > 1025.0, 1025.0, select(x < -1076.0, -1076.0, x))
    t = x + MAGIC
    r = x - (t - MAGIC)
    return scale_f64(fma(r, _exp2_64(r), 1.0), i64_of(t) - MAGIC_BITS)


@simd
def expm1_f32(x):
    """e**x - 1 = 2^n p + (2^n - 1) with p = expm1(r). Max 1.4 ulp; keeps -0.0; -inf gives -1."""
    c = select(x > F(89.0), F(89.0), select(x < F(-30.0), F(-30.0), x))
    t = fma32(c, LOG2E32, MAGIC32)
    n = t - MAGIC32
    a = fma32(n, -LN2_HI32, c)
    r = fma32(n, -LN2_LO32, a)
    low = fma32(n, -LN2_LO32, a - r)
    q = fma32(r * r, _expm1_32(r), low)
    top = n > F(127.5)  # 2^128 itself overflows
    k = low32(i32_of(t) - MAGIC32_BITS) - select(top, I(1), I(0))
    s = f32_of(shl(low32(k + I(127)), 23))
    y = fma32(s, q, fma32(s, r, s - F(1.0)))
    return copysign(y * select(top, F(2.0), F(1.0)), x)


@simd
def expm1_f64(x):
    """e**x - 1 = 2^n p + (2^n - 1) with p = expm1(r). Max 1.4 ulp; keeps -0.0; -inf gives -1."""
    c = select(x > 710.0, 710.0, select(x < -60.0, -60.0, x))
    t = fma(c, LOG2E, MAGIC)
    n = t - MAGIC
    a = fma(n, -LN2_HI, c)
    r = fma(n, -LN2_LO, a)
    low = fma(n, -LN2_LO, a - r)
    q = fma(r * r, _expm1_64(r), low)
    top = n > 1023.5  # 2^1024 itself overflows
    s = f64_of(shl(i64_of(t) - MAGIC_BITS - select(top, 1, 0) + 1023, 52))
    y = fma(s, q, fma(s, r, s - 1.0))
    return copysign(y * select(top, 2.0, 1.0), x)


@simd
def split_f32(x):
    """f, e with x = 2^e (1 + f), f in [sqrt(1/2) - 1, sqrt(2) - 1), for positive finite x."""
    tiny = x < F(1.1754943508222875e-38)
    b = i32_of(select(tiny, x * F(8388608.0), x))
    e = sar(low32(b - SQRT_HALF32), 23)
    f = f32_of(b - shl(e, 23)) - F(1.0)
    return f, F(e) - select(tiny, F(23.0), F(0.0))


@simd
def split_f64(x):
    """f, e with x = 2^e (1 + f), f in [sqrt(1/2) - 1, sqrt(2) - 1), for positive finite x."""
    tiny = x < 2.2250738585072014e-308
    b = i64_of(select(tiny, x * 4503599627370496.0, x))
    e = shr(b - SQRT_HALF + (1 << 62), 52) - 1024  # AVX2 has no arithmetic shift of int64
    f = f64_of(b - shl(e, 52)) - 1.0
    return f, (f64_of(e + MAGIC_BITS) - MAGIC) - select(tiny, 52.0, 0.0)


@simd
def log_edges_f32(x, y):
    """y, but the right value of a logarithm where x is not positive and finite."""
    y = select(x < INF32, y, x)
    return select(x > F(0.0), y, select(x == F(0.0), -INF32, NAN32))


@simd
def log_edges_f64(x, y):
    """y, but the right value of a logarithm where x is not positive and finite."""
    y = select(x < INF, y, x)
    return select(x > 0.0, y, select(x == 0.0, -INF, NAN))


@simd
def log1p_parts_f64(f):
    """log(1 + f) = hi + lo for f in [sqrt(1/2) - 1, sqrt(2) - 1): FDLIBM's series in s = f/(2 + f)."""
    s = f / (2.0 + f)
    z = s * s
    h = 0.5 * f * f
    hi = f - h
    return hi, ((f - hi) - h) + s * (h + z * _log64(z))


@simd
def log_f32(x):
    """Natural logarithm: f - f^2/2 + f^3 P(f), degree 11. Max 0.9 ulp; log(+-0) = -inf, x < 0 nan."""
    f, e = split_f32(x)
    z = f * f
    y = fma32(z * f, _log32(f), e * LN2_LO32)
    y = fma32(e, LN2_HI32, f + fma32(F(-0.5), z, y))
    return log_edges_f32(x, y)


@simd
def log_f64(x):
    """Natural logarithm, FDLIBM's series in f/(2 + f). Max 0.9 ulp; log(+-0) = -inf, x < 0 nan."""
    f, e = split_f64(x)
    s = f / (2.0 + f)
    z = s * s
    h = 0.5 * f * f
    y = h - fma(s, h + z * _log64(z), e * LN2_LO)
    return log_edges_f64(x, fma(e, LN2_HI, f - y))


@simd
def log1p_split_f32(x):
    """f, low, t, e with (1 + x) t = 1 + f + low, t = 2^-e: the rounding of 1 + x does not matter."""
    far = x > F(1.0e9)
    x = select(far, x * F(2.3283064365386963e-10), x)
    one = select(far, F(2.3283064365386963e-10), F(1.0))
    e = sar(low32(i32_of(x + one) - SQRT_HALF32), 23)
    t = f32_of(shl(low32(I(127) - e), 23))
    g = fma32(one, t, F(-1.0))
    f = fma32(x, t, g)
    return f, fma32(x, t, g - f), t, F(e) + select(far, F(32.0), F(0.0))


@simd
def log1p_split_f64(x):
    """f, low, t, e with (1 + x) t = 1 + f + low, t = 2^-e: the rounding of 1 + x does not matter."""
    far = x > 1.0e18
    x = select(far, x * 5.421010862427522e-20, x)
    one = select(far, 5.421010862427522e-20, 1.0)
    e = shr(i64_of(x + one) - SQRT_HALF + (1 << 62), 52) - 1024
    t = f64_of(shl(1023 - e, 52))
    g = fma(one, t, -1.0)
    f = fma(x, t, g)
    return f, fma(x, t, g - f), t, (f64_of(e + MAGIC_BITS) - MAGIC) + select(far, 64.0, 0.0)


@simd
def log1p_sum_f32(x, low):
    """log(1 + x + low) for -1 < x < inf and |low| at most a few ulp of x."""
    f, f_low, t, e = log1p_split_f32(x)
    f_low = fma32(low, t, f_low) * fma32(f, f - F(1.0), F(1.0))  # its share, over 1 + f to a few per cent
    z = f * f
    y = fma32(z * f, _log32(f), fma32(e, LN2_LO32, f_low))
    return fma32(e, LN2_HI32, f + fma32(F(-0.5), z, y))


@simd
def log1p_sum_f64(x, low):
    """log(1 + x + low) for -1 < x < inf and |low| at most a few ulp of x."""
    f, f_low, t, e = log1p_split_f64(x)
    f_low = fma(low, t, f_low) * fma(f, f - 1.0, 1.0)  # its share, over 1 + f to a few per cent
    s = f / (2.0 + f)
    z = s * s
    h = 0.5 * f * f
    y = h - fma(s, h + z * _log64(z), fma(e, LN2_LO, f_low))
    return fma(e, LN2_HI, f - y)


@simd
def log1p_f32(x):
    """log(1 + x), with 1 + x reduced exactly. Max 0.9 ulp; keeps -0.0; log1p(-1) = -inf, below nan."""
    y = copysign(log1p_sum_f32(x, F(0.0)), x)
    y = select(x < INF32, y, x)
    return select(x > F(-1.0), y, select(x == F(-1.0), -INF32, NAN32))


@simd
def log1p_f64(x):
    """log(1 + x), with 1 + x reduced exactly. Max 1 ulp; keeps -0.0; log1p(-1) = -inf, below nan."""
    y = copysign(log1p_sum_f64(x, 0.0), x)
    y = select(x < INF, y, x)
    return select(x > -1.0, y, select(x == -1.0, -INF, NAN))


@simd
def _log_scaled_f32(x, scale, scale_low, e_hi, e_low):
    """e (e_hi + e_low) + log(1 + f) (scale + scale_low), e_hi short enough that e e_hi is exact."""
    f, e = split_f32(x)
    z = f * f
    hi = fma32(F(-0.5), z, f)
    low = fma32(z * f, _log32(f), fma32(F(-0.5), z, f - hi))
    p = hi * scale
    low = fma32(hi, scale, -p) + fma32(hi, scale_low, fma32(low, scale, e * e_low))
    s = fma32(e, e_hi, p)
    return log_edges_f32(x, s + (fma32(e, e_hi, -s) + p + low))


@simd
def _log_scaled_f64(x, scale, scale_low, e_hi, e_low):
    """e (e_hi + e_low) + log(1 + f) (scale + scale_low), e_hi short enough that e e_hi is exact."""
    f, e = split_f64(x)
    hi, low = log1p_parts_f64(f)
    p = hi * scale
    low = fma(hi, scale, -p) + fma(hi, scale_low, fma(low, scale, e * e_low))
    s = fma(e, e_hi, p)
    return log_edges_f64(x, s + (fma(e, e_hi, -s) + p + low))


@simd
def log2_f32(x):
    """Base 2 logarithm: log times 1/ln2 in two parts. Max 0.8 ulp; exact at powers of two; log2(0) = -inf."""
    return _log_scaled_f32(x, LOG2E32, F(1.925963033500845e-08), F(1.0), F(0.0))


@simd
def log2_f64(x):
    """Base 2 logarithm: log times 1/ln2 in two parts. Max 0.9 ulp; exact at powers of two; log2(0) = -inf."""
    return _log_scaled_f64(x, LOG2E, LOG2E_LO, 1.0, 0.0)


@simd
def log10_f32(x):
    """Base 10 logarithm: log times 1/ln10 in two parts. Max 0.8 ulp; log10(0) = -inf, x < 0 nan."""
    return _log_scaled_f32(x, LOG10E32, LOG10E32_LO, LOG10_2_HI32, LOG10_2_LO32)


@simd
def log10_f64(x):
    """Base 10 logarithm: log times 1/ln10 in two parts. Max 0.9 ulp; log10(0) = -inf, x < 0 nan."""
    return _log_scaled_f64(x, LOG10E, LOG10E_LO, LOG10_2_HI, LOG10_2_LO)


@simd
def log2_d32(x):
    """log2 of a positive normal float64 to 2^-42 relative: for float32 functions computed in float64."""
    f, e = split_f64(x)
    s = f / (2.0 + f)
    return fma(s, _log2_d32(s * s), e)


@simd
def exp2_d32(x):
    """2^x in float64 to 2^-33 relative, for |x| <= 1000 (larger are clamped)."""
    x = select(x > 1000.0, 1000.0, select(x < -1000.0, -1000.0, x))
    t = x + MAGIC
    y = _exp2_d32(x - (t - MAGIC))
    return y * f64_of(shl(i64_of(t) - (MAGIC_BITS - 1023), 52))


@simd
def _pow_edges(x, y, r, zero, one, inf, nan, negative):
    """C99's table of special cases, given r = |x|^y for ordinary arguments."""
    a = fabs(x)
    r = select(a == zero, select(y < zero, inf, zero), r)
    r = select(a == inf, select(y < zero, zero, inf), r)
    r = select(fabs(y) == inf, select(a == one, one, select((a > one) == (y > zero), inf, zero)), r)
    whole = rint(y) == y
    half = y * (one / (one + one))
    odd = whole & (rint(half) != half)
    r = select(negative & (a > zero) & (a < inf) & (not whole), nan, r)
    r = select(negative & odd, -r, r)
    r = select((x != x) | (y != y), nan, r)
    return select((y == zero) | (x == one), one, r)


@simd
def pow_f32(x, y):
    """x**y as 2^(y log2|x|) in float64. Max 0.6 ulp; C99's special cases."""
    r = F(exp2_d32(D(y) * log2_d32(D(fabs(x)))))
    return _pow_edges(x, y, r, F(0.0), F(1.0), INF32, NAN32, i32_of(x) < I(0))


@simd
def _log2_two_f64(x):
    """log2(x) in two parts, to about 2^-65, for positive finite x: atanh series with two exact terms."""
    f, e = split_f64(x)
    d = f + 2.0
    d_low = (2.0 - d) + f
    r = 1.0 / d
    s = f * r
    s_low = (fma(-s, d, f) - s * d_low) * r
    z = s * s
    z_low = fma(s, s, -z) + 2.0 * s * s_low
    q = fma(z, _pow64(z), 3.700743415417188e-17)  # 2/3 less its float64
    u = 0.6666666666666666 + q
    u_low = (0.6666666666666666 - u) + q
    w = s * z
    w_low = fma(s, z, -w) + fma(s, z_low, s_low * z)
    v = w * u
    v_low = fma(w, u, -v) + fma(w, u_low, w_low * u)
    h = 2.0 * s + v
    low = fma(2.0, s, -h) + v + fma(2.0, s_low, v_low)
    p = h * LOG2E
    p_low = fma(h, LOG2E, -p) + fma(h, LOG2E_LO, low * LOG2E)
    t = e + p
    return t, ((e - t) + p) + p_low


@simd
def pow_f64(x, y):
    """x**y as 2^(y log2|x|), the logarithm in two parts. Max 1 ulp; C99's special cases as in pow_f32."""
    h, low = _log2_two_f64(fabs(x))
    p = y * h
    low = fma(y, h, -p) + y * low
    big = fabs(p) > 1100.0
    p = select(big, copysign(1100.0, p), p)
    t = p + MAGIC
    r = (p - (t - MAGIC)) + select(big, 0.0, low)
    v = scale_f64(fma(r, _exp2_64(r), 1.0), i64_of(t) - MAGIC_BITS)
    return _pow_edges(x, y, v, 0.0, 1.0, INF, NAN, i64_of(x) < 0)


@simd
def cbrt_f32(x):
    """Cube root: x y^2, y ~ x^(-1/3) by two series steps, then an exact residual. Max 0.8 ulp; odd."""
    a = fabs(x)
    tiny = a < F(1.1754943508222875e-38)
    v = select(tiny, a * F(16777216.0), a)
    y = f32_of(I(fma32(F(i32_of(v)), F(-1.0 / 3.0), CBRT_GUESS32)))
    h = fma32(-(v * y), y * y, F(1.0))
    y = fma32(y * h, fma32(h, fma32(h, F(14.0 / 81.0), F(2.0 / 9.0)), F(1.0 / 3.0)), y)
    h = fma32(-(v * y), y * y, F(1.0))
    y = fma32(y * h, fma32(h, F(2.0 / 9.0), F(1.0 / 3.0)), y)
    t = v * (y * y)
    s = t * t
    t = fma32(fma32(-s, t, v) - fma32(t, t, -s) * t, y * y * F(1.0 / 3.0), t)
    t = select(a < INF32, t * select(tiny, F(0.00390625), F(1.0)), a)
    return copysign(select(a == F(0.0), a, t), x)


@simd
def cbrt_f64(x):
    """Cube root: x y^2, y ~ x^(-1/3) by two series steps, then an exact residual. Max 0.8 ulp; odd."""
    a = fabs(x)
    tiny = a < 2.2250738585072014e-308
    v = select(tiny, a * 2.0**54, a)
    y = f64_of(shl(L(I(fma(D(low32(shr(i64_of(v), 32))), -1.0 / 3.0, CBRT_GUESS))), 32))
    h = fma(-(v * y), y * y, 1.0)
    y = fma(y * h, fma(h, fma(h, 14.0 / 81.0, 2.0 / 9.0), 1.0 / 3.0), y)
    h = fma(-(v * y), y * y, 1.0)
    y = fma(y * h, fma(h, fma(h, 14.0 / 81.0, 2.0 / 9.0), 1.0 / 3.0), y)
    t = v * (y * y)
    s = t * t
    t = fma(fma(-s, t, v) - fma(t, t, -s) * t, y * y * (1.0 / 3.0), t)
    t = select(a < INF, t * select(tiny, 2.0**-18, 1.0), a)
    return copysign(select(a == 0.0, a, t), x)
