"""Hyperbolic functions, the logistic function and softplus, branch-free, on the parts of exponential.py.

Where a polynomial serves the middle and exponentials the rest, both are computed and one is selected.
Polynomials are fitted by tools/simd_coefficients.py. Errors quoted are the bounds tests/test_simd.py checks.
"""

import numpy as np

from numbagrad.scalar.simd import coefficients as C
from numbagrad.scalar.simd.bits import (
    copysign,
    f64_of,
    fabs,
    fma,
    fma32,
    i64_of,
    poly,
    select,
    shl,
    shr,
    simd,
    sqrt,
)
from numbagrad.scalar.simd.exponential import (
    LN2_HI,
    LN2_LO,
    MAGIC,
    MAGIC_BITS,
    exp_parts_f32,
    exp_parts_f64,
    exp_plain_f32,
    exp_plain_f64,
    log1p_sum_f32,
    log1p_sum_f64,
    log2_d32,
    scale_f32,
    scale_f64,
)

F, I, D = np.float32, np.int32, np.float64
INF32, NAN32, INF, NAN = F(np.inf), F(np.nan), np.inf, np.nan
LN2 = 0.6931471805599453
ATANH_BIAS = int(0.28 * 2**52)  # one more halving from 2^0.72 on: s stays within -0.1 and 0.275

_tanh32 = poly(F, C.TANH_F32)
_tanh64 = poly(D, C.TANH_F64)
_sinh32 = poly(F, C.SINH_F32)
_sinh64 = poly(D, C.SINH_F64)
_atanh64 = poly(D, C.ATANH_F64)


@simd
def tanh_f32(x):
    """Hyperbolic tangent: x + x^3 P(x^2) to 0.55, then 1 - 2/(e^2|x| + 1). Max 1.6 ulp; odd, keeps -0.0."""
    a = fabs(x)
    z = a * a
    near = fma32(a * z, _tanh32(z), a)
    b = a + a
    far = F(1.0) - F(2.0) / (exp_plain_f32(select(b > F(20.0), F(20.0), b)) + F(1.0))
    return copysign(select(a >= F(0.55), far, near), x)  # nan takes the near side: far does not keep it


@simd
def tanh_f64(x):
    """Hyperbolic tangent: x + x^3 P(x^2) to 0.55, then 1 - 2/(e^2|x| + 1). Max 1.6 ulp; odd, keeps -0.0."""
    a = fabs(x)
    z = a * a
    near = fma(a * z, _tanh64(z), a)
    b = a + a
    far = 1.0 - 2.0 / (exp_plain_f64(select(b > 44.0, 44.0, b)) + 1.0)
    return copysign(select(a >= 0.55, far, near), x)  # nan takes the near side: far does not keep it


@simd
def sinh_f32(x):
    """Hyperbolic sine: x + x^3 P(x^2) to 1, then e^|x|/2 - e^-|x|/2. Max 1.1 ulp; odd, keeps -0.0."""
    a = fabs(x)
    z = a * a
    near = fma32(a * z, _sinh32(z), a)
    hi, low, n = exp_parts_f32(a)
    e = scale_f32(hi, n - I(1))
    far = e - (F(0.25) / e - scale_f32(low, n - I(1)))
    return copysign(select(a < F(1.0), near, far), x)


@simd
def sinh_f64(x):
    """Hyperbolic sine: x + x^3 P(x^2) to 1, then e^|x|/2 - e^-|x|/2. Max 1.1 ulp; odd, keeps -0.0."""
    a = fabs(x)
    z = a * a
    near = fma(a * z, _sinh64(z), a)
    hi, low, n = exp_parts_f64(a)
    e = scale_f64(hi, n - 1)
    far = e - (0.25 / e - scale_f64(low, n - 1))
    return copysign(select(a < 1.0, near, far), x)


@simd
def cosh_f32(x):
    """Hyperbolic cosine: e^|x|/2 + e^-|x|/2, the exponential in two parts. Max 1.1 ulp; even."""
    hi, low, n = exp_parts_f32(fabs(x))
    e = scale_f32(hi, n - I(1))
    return e + (F(0.25) / e + scale_f32(low, n - I(1)))


@simd
def cosh_f64(x):
    """Hyperbolic cosine: e^|x|/2 + e^-|x|/2, the exponential in two parts. Max 1.1 ulp; even."""
    hi, low, n = exp_parts_f64(fabs(x))
    e = scale_f64(hi, n - 1)
    return e + (0.25 / e + scale_f64(low, n - 1))


@simd
def asinh_f32(x):
    """Inverse hyperbolic sine: log(|x| + sqrt(x^2 + 1)) in float64. Max 0.6 ulp; odd, keeps -0.0."""
    a = D(fabs(x))
    y = F(log2_d32(a + sqrt(fma(a, a, 1.0))) * LN2)
    return copysign(select((fabs(x) > F(1e-4)) & (fabs(x) < INF32), y, x), x)


@simd
def asinh_f64(x):
    """Inverse hyperbolic sine: log1p(|x| + x^2/(1 + sqrt(1 + x^2))), the sum in two parts.

    Max 1.6 ulp; odd.
    """
    a = fabs(x)
    huge = a > 1e10
    z = select(huge, 1.0, a * a)
    q = z / (1.0 + sqrt(1.0 + z))
    u = a + q
    y = log1p_sum_f64(select(huge, a - 1.0, u), select(huge, 0.0, (a - u) + q)) + select(huge, LN2, 0.0)
    return select(a < INF, copysign(y, x), x)


@simd
def acosh_f32(x):
    """Inverse hyperbolic cosine: log(x + sqrt(x^2 - 1)) in float64. Max 0.6 ulp; x < 1 nan."""
    a = D(x)
    y = F(log2_d32(a + sqrt(fma(a, a, -1.0))) * LN2)
    return select(x >= F(1.0), select(x < INF32, y, x), NAN32)


@simd
def acosh_f64(x):
    """Inverse hyperbolic cosine: log1p(t + sqrt(2t + t^2)), t = x - 1, in two parts.

    Max 1.9 ulp; x < 1 nan.
    """
    huge = x > 1e10
    t = x - 1.0
    s = sqrt(select(huge, t, fma(t, t, 2.0 * t)))
    u = s + t
    y = log1p_sum_f64(select(huge, t, u), select(huge, 0.0, (s - u) + t)) + select(huge, LN2, 0.0)
    return select(x >= 1.0, select(x < INF, y, x), NAN)


@simd
def atanh_f32(x):
    """Inverse hyperbolic tangent: log((1 + x)/(1 - x))/2 in float64.

    Max 0.6 ulp; +-1 gives +-inf, keeps -0.0.
    """
    a = D(fabs(x))
    y = select(a < 1.0, F(log2_d32((1.0 + a) / (1.0 - a)) * (0.5 * LN2)), select(a == 1.0, INF32, NAN32))
    return copysign(select(a > 1e-4, y, fabs(x)), x)


@simd
def atanh_f64(x):
    """Inverse hyperbolic tangent: with k = 2^e near (1 + x)/(1 - x), e ln2/2 + atanh(s) and
    s = ((1 + x) - k (1 - x)) / ((1 + x) + k (1 - x)), which is x below 0.24. Max 1.9 ulp; +-1 gives +-inf."""
    a = fabs(x)
    b = shr(i64_of(1.0 + a) - i64_of(1.0 - a) + ((1 << 62) + ATANH_BIAS), 52) - 1024
    k = f64_of(shl(b + 1023, 52))
    e = f64_of(b + MAGIC_BITS) - MAGIC
    near = b < 50  # beyond, 1 - k is not exact, and the rounding of 1 + a does not matter
    top = select(near, fma(a, 1.0 + k, 1.0 - k), fma(a - 1.0, k, 1.0 + a))
    s = top / select(near, fma(a, 1.0 - k, 1.0 + k), fma(1.0 - a, k, 1.0 + a))
    z = s * s
    y = fma(e, 0.5 * LN2_HI, s + fma(s * z, 0.5 * _atanh64(z), e * (0.5 * LN2_LO)))
    y = select(a < 1.0, y, select(a == 1.0, INF, NAN))
    return copysign(y, x)


@simd
def sigmoid_f32(x):
    """1 / (1 + e**-x) as e^min(x,0) / (1 + e^-|x|), the divisor's rounding corrected.

    Max 1.1 ulp; 0 at -inf.
    """
    hi, low, n = exp_parts_f32(-fabs(x))
    e, low = scale_f32(hi, n), scale_f32(low, n)
    d = F(1.0) + e
    d_low = ((F(1.0) - d) + e) + low
    r = F(1.0) / d
    down = x < F(0.0)
    top = select(down, e, F(1.0))
    q = top * r
    return fma32(select(down, low, F(0.0)) + fma32(-q, d, top) - q * d_low, r, q)


@simd
def sigmoid_f64(x):
    """1 / (1 + e**-x) as e^min(x,0) / (1 + e^-|x|), the divisor's rounding corrected.

    Max 1.1 ulp; 0 at -inf.
    """
    hi, low, n = exp_parts_f64(-fabs(x))
    e, low = scale_f64(hi, n), scale_f64(low, n)
    d = 1.0 + e
    d_low = ((1.0 - d) + e) + low
    r = 1.0 / d
    down = x < 0.0
    top = select(down, e, 1.0)
    q = top * r
    return fma(select(down, low, 0.0) + fma(-q, d, top) - q * d_low, r, q)


@simd
def softplus_f32(x):
    """log(1 + e**x) as max(x, 0) + log1p(e^-|x|), the exponential in two parts. Max 1.6 ulp; 0 at -inf."""
    hi, low, n = exp_parts_f32(-fabs(x))
    return select(x > F(0.0), x, F(0.0)) + log1p_sum_f32(scale_f32(hi, n), scale_f32(low, n))


@simd
def softplus_f64(x):
    """log(1 + e**x) as max(x, 0) + log1p(e^-|x|), the exponential in two parts. Max 1.6 ulp; 0 at -inf."""
    hi, low, n = exp_parts_f64(-fabs(x))
    return select(x > 0.0, x, 0.0) + log1p_sum_f64(scale_f64(hi, n), scale_f64(low, n))
