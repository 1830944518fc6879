"""Error functions, log-gamma and digamma, branch-free.

float32 versions of all but erf work in float64 inside. Polynomials are fitted by tools/simd_coefficients.py.
Errors quoted are the bounds tests/test_simd.py checks; for lgamma and digamma relative to max(1, |value|).
"""

import numpy as np

from numbagrad.scalar.simd import coefficients as C
from numbagrad.scalar.simd.bits import copysign, fabs, floor, fma, fma32, poly, rint, select, simd, sqrt
from numbagrad.scalar.simd.exponential import (
    LN2_HI,
    LN2_LO,
    LOG2E,
    exp2_d32,
    exp_f32,
    exp_parts_f64,
    log1p_parts_f64,
    log2_d32,
    log_f64,
    scale_f64,
    split_f64,
)
from numbagrad.scalar.simd.trigonometric import tan_parts

F, D = np.float32, np.float64
INF32, NAN32, INF, NAN = F(np.inf), F(np.nan), np.inf, np.nan
LN2, PI, PI_LO = 0.6931471805599453, np.pi, 1.2246467991473532e-16
HALF_LOG_2PI, HALF_LOG_2PI_LO = 0.9189385332046728, -3.878294158067242e-17

_erf32 = poly(F, C.ERF_F32)
_log_erfc32 = poly(F, C.LOG_ERFC_F32)
_erf64 = poly(D, C.ERF_F64)
_erfcx64 = poly(D, C.ERFCX_F64)
_erfcx_d32 = poly(D, C.ERFCX_D32)
_erfinv64 = poly(D, C.ERFINV_F64)
_erfinv_mid64 = poly(D, C.ERFINV_MID_F64)
_erfinv_tail64 = poly(D, C.ERFINV_TAIL_F64)
_erfinv_d32 = poly(D, C.ERFINV_D32)
_erfinv_tail_d32 = poly(D, C.ERFINV_TAIL_D32)
_lgamma64 = poly(D, C.LGAMMA_F64)
_stirling64 = poly(D, C.STIRLING_F64)
_digamma64 = poly(D, C.DIGAMMA_F64)
_digamma_tail64 = poly(D, C.DIGAMMA_TAIL_F64)
_sin64 = poly(D, C.SIN_F64)


@simd
def erf_f32(x):
    """Error function: x + x P(x^2) to 0.92, then 1 - e^Q(|x|) with Q ~ log erfc.

    Max 1.2 ulp; odd, keeps -0.0.
    """
    a = fabs(x)
    b = select(a > F(4.0), F(4.0), a)
    near = fma32(a, _erf32(a * a), a)
    far = F(1.0) - exp_f32(_log_erfc32(b))
    return copysign(select(a < F(0.92), near, far), x)


@simd
def _erfc_positive_f64(a):
    """erfc(a) for a >= 0: e^(-a^2) C(t)/(1 + 2a), t = (a - 4)/(a + 4).

    After Shepherd and Laframboise (1981); the quotient, the square and the exponential each in two parts."""
    a = select(a > 28.0, 28.0, a)
    c = _erfcx64((a - 4.0) / (a + 4.0))
    r = 1.0 / fma(2.0, a, 1.0)
    q = fma(c, r, r)
    q_low = fma(-2.0 * a, q, (1.0 - q) + c) * r
    z = a * a
    hi, low, n = exp_parts_f64(-z)
    low = fma(-hi, fma(a, a, -z), low)
    p = hi * q
    return scale_f64(p + (fma(hi, q, -p) + fma(hi, q_low, low * q)), n)


@simd
def erf_f64(x):
    """Error function: x + x P(x^2) to 1, then 1 - erfc(|x|). Max 1.2 ulp; odd, keeps -0.0."""
    a = fabs(x)
    near = fma(a, _erf64(a * a), a)
    return copysign(select(a < 1.0, near, 1.0 - _erfc_positive_f64(a)), x)


@simd
def erfc_f32(x):
    """1 - erf(x): e^(-x^2) C(t)/(1 + 2|x|) in float64, or 2 less that for x < 0. Max 0.6 ulp; 2 at -inf."""
    a = D(fabs(x))
    a = select(a > 12.0, 12.0, a)
    t = (a - 2.0) / (a + 2.0)
    y = exp2_d32(-(a * a) * LOG2E) * (1.0 + _erfcx_d32(t)) / fma(2.0, a, 1.0)
    return F(select(x < F(0.0), 2.0 - y, y))


@simd
def erfc_f64(x):
    """1 - erf(x): e^(-x^2) C(t)/(1 + 2|x|), or 2 less that for x < 0; 1 - erf(x) to 0.6.

    Max 2 ulp; 2 at -inf.
    """
    y = _erfc_positive_f64(fabs(x))
    y = select(x < 0.0, 2.0 - y, y)
    return select(fabs(x) < 0.6, 1.0 - fma(x, _erf64(x * x), x), y)  # t is too coarse near -1


@simd
def erfinv_f32(x):
    """Inverse of erf: x P(w) or x Q(sqrt w), w = -log(1 - x^2) (Giles 2010), in float64.

    Max 0.6 ulp; +-1 +-inf.
    """
    a = D(x)
    w = log2_d32(fma(-a, a, 1.0)) * -LN2
    w = select(fabs(x) < F(1e-4), 0.0, w)
    y = F(a * select(w < 5.0, _erfinv_d32(w - 2.5), _erfinv_tail_d32(sqrt(w) - 3.0)))
    y = select(fabs(x) < F(1.0), y, select(fabs(x) == F(1.0), INF32, NAN32))
    return copysign(y, x)


@simd
def erfinv_f64(x):
    """Inverse of erf: x P(w) or x Q(sqrt w), w = -log(1 - x^2) (Giles 2010), in three ranges. Max 2.5 ulp."""
    a = fabs(x)
    w = -log_f64((1.0 - a) * (1.0 + a))
    w = select(a < 1e-9, 0.0, w)
    s = sqrt(w)
    p = select(w < 5.0, _erfinv64(w - 2.5), select(w < 16.0, _erfinv_mid64(s - 3.0), _erfinv_tail64(s - 5.0)))
    y = select(a < 1.0, a * p, select(a == 1.0, INF, NAN))
    return copysign(y, x)


@simd
def _log_parts(x):
    """log(x) in two parts, good to about 2^-56 absolute, for positive finite x."""
    f, e = split_f64(x)
    hi, low = log1p_parts_f64(f)
    s = fma(e, LN2_HI, hi)
    return s, fma(e, LN2_HI, -s) + hi + fma(e, LN2_LO, low)


@simd
def _sinpi(a):
    """|sin(pi a)| and its argument pi (a - n) in two parts, for a >= 0."""
    r = a - rint(a)
    y = fabs(r) * PI
    low = fma(fabs(r), PI, -y) + fabs(r) * PI_LO
    z = y * y
    return y + fma(y * z, _sin64(z), low * fma(z, -0.5, 1.0))


@simd
def _lgamma_positive(a):
    """log Gamma(a), a >= 0, in two parts. Below 8 the polynomial on [2, 3) and the recurrence (DLMF 5.5.1),
    its factors multiplied under one logarithm; above, Stirling's series (DLMF 5.11.1), fitted."""
    n = floor(a)
    t = a - n
    p = select(a < 3.0, 1.0, t + 2.0) * select(a < 4.0, 1.0, t + 3.0)
    p = p * select(a < 5.0, 1.0, t + 4.0) * select(a < 6.0, 1.0, t + 5.0) * select(a < 7.0, 1.0, t + 6.0)
    p = select(a < 1.0, a * (a + 1.0), select(a < 2.0, a, p))
    near = a < 8.0
    h, low = _log_parts(select(near, p, a))
    sign = select(a < 2.0, -1.0, 1.0)
    m = t * _lgamma64(t)
    s = sign * h + m
    s_low = (fma(sign, h, -s) + m) + sign * low
    b = a - 0.5
    u = h - 1.0
    low = ((h - u) - 1.0) + low
    v = b * u
    r = 1.0 / a
    w = (HALF_LOG_2PI - 0.5) + r * _stirling64(r * r)
    y = v + w
    y_low = ((v - y) + w) + fma(b, u, -v) + b * low
    return select(near, s, y), select(near, s_low, y_low)


@simd
def lgamma_f64(x):
    """log|Gamma(x)|; x < 0 by reflection (DLMF 5.5.3).

    Max 2.5 ulp of max(1, |value|); poles and +-inf give inf.
    """
    a = fabs(x)
    y, low = _lgamma_positive(a)
    s = _sinpi(a)
    h, h_low = _log_parts(a * s * (1.0 / PI))
    v = -h - y
    mirrored = v + (((-h - v) - y) - (h_low + low))
    r = select((x < 0.0) & (a > 1e-20), mirrored, y + low)
    pole = (a == INF) | (a == 0.0) | ((x < 0.0) & (s == 0.0)) | (x > 2.6e305)
    return select(x == x, select(pole, INF, r), NAN)


@simd
def lgamma_f32(x):
    """log|Gamma(x)|, by lgamma_f64. Max 0.6 ulp of max(1, |value|); poles and +-inf give inf."""
    return F(lgamma_f64(D(x)))


@simd
def _digamma_two(a, negative):
    """digamma(a) for a > 0, or digamma(1 + a) for negative (DLMF 5.5.2), in two parts.

    A polynomial on [2, 3) and the recurrence, its terms summed as one quotient; from 8 on the asymptotic
    series (DLMF 5.11.2), fitted.
    """
    n = floor(a)
    t = a - n
    one, two = (a < 1.0) & (not negative), a < 2.0
    d = select(two, select(negative, a + 1.0, a), select(a < 3.0, 1.0, t + 2.0))
    top = select((a >= select(negative, 1.0, 2.0)) & (a < 3.0), 0.0, 1.0)
    f = select(one, a + 1.0, select(a < 4.0, 1.0, t + 3.0))
    top = select(one | (a >= 4.0), fma(top, f, d), top)
    d = d * f
    f = select(a < 5.0, 1.0, t + 4.0)
    top = select(a < 5.0, top, fma(top, f, d))
    d = d * f
    f = select(a < 6.0, 1.0, t + 5.0)
    top = select(a < 6.0, top, fma(top, f, d))
    d = d * f
    f = select(a < 7.0, 1.0, t + 6.0)
    top = select(a < 7.0, top, fma(top, f, d))
    d = d * f
    r = 1.0 / a
    near = _digamma64(t) + select(two, -top, top) / d + select(negative & (a >= 2.0), r, 0.0)
    h, low = _log_parts(a)
    u = fma(r * r, _digamma_tail64(r * r), select(negative, -0.5, 0.5) * r)
    far = h - u
    return select(a < 8.0, near, far), select(a < 8.0, 0.0, ((h - far) - u) + low)


@simd
def digamma_f64(x):
    """log Gamma's derivative; x < 0 by reflection (DLMF 5.5.4). Max 3.5 ulp of max(1, |value|); poles nan."""
    a = fabs(x)
    y, low = _digamma_two(a, x < 0.0)
    b = a - rint(a)
    r = fabs(b)
    steep = r <= 0.25
    u = select(steep, r, 0.5 - r)
    v = u * PI
    q, q_low = tan_parts(v, fma(u, PI, -v) + u * PI_LO, steep)  # steep: -cot(pi r), else cot(pi r)
    sign = copysign(1.0, b) * select(steep, -PI, PI)
    p = q * sign
    p_low = fma(q, sign, -p) + (q_low * sign + q * select(sign < 0.0, -PI_LO, PI_LO))
    s = y + p
    w = s - y
    p_low = ((y - (s - w)) + (p - w)) + (p_low + low)
    pole = (x == 0.0) | ((x < 0.0) & (b == 0.0)) | (x == -INF)
    y = select(a < 1e-300, -1.0 / x, select(x < 0.0, s + p_low, y + low))
    return select(pole, NAN, select(x == INF, INF, y))


@simd
def digamma_f32(x):
    """Derivative of log Gamma, by digamma_f64. Max 0.6 ulp of max(1, |value|); poles nan."""
    return F(digamma_f64(D(x)))
