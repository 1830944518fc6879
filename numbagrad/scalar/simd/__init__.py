"""Scalar functions that LLVM vectorises when a loop calls them: `exp_f32`, `exp_f64`, and so on.

Each takes and returns exactly its dtype, has no branch on data, allocates nothing, raises nothing and calls nothing
outside; for use from other compiled code only.
"""

from numbagrad.scalar.simd.bits import simd, wide_vectors
from numbagrad.scalar.simd.exponential import (
    cbrt_f32, cbrt_f64, exp2_f32, exp2_f64, exp_f32, exp_f64, expm1_f32, expm1_f64, log10_f32, log10_f64,
    log1p_f32, log1p_f64, log2_f32, log2_f64, log_f32, log_f64, pow_f32, pow_f64)
from numbagrad.scalar.simd.hyperbolic import (
    acosh_f32, acosh_f64, asinh_f32, asinh_f64, atanh_f32, atanh_f64, cosh_f32, cosh_f64, sigmoid_f32,
    sigmoid_f64, sinh_f32, sinh_f64, softplus_f32, softplus_f64, tanh_f32, tanh_f64)
from numbagrad.scalar.simd.special import (
    digamma_f32, digamma_f64, erf_f32, erf_f64, erfc_f32, erfc_f64, erfinv_f32, erfinv_f64, lgamma_f32,
    lgamma_f64)
from numbagrad.scalar.simd.trigonometric import (
    acos_f32, acos_f64, asin_f32, asin_f64, atan2_f32, atan2_f64, atan_f32, atan_f64, cos_f32, cos_f64,
    sin_f32, sin_f64, tan_f32, tan_f64)

__all__ = [
    "acos_f32", "acos_f64", "acosh_f32", "acosh_f64", "asin_f32", "asin_f64", "asinh_f32", "asinh_f64",
    "atan2_f32", "atan2_f64", "atan_f32", "atan_f64", "atanh_f32", "atanh_f64", "cbrt_f32", "cbrt_f64",
    "cos_f32", "cos_f64", "cosh_f32", "cosh_f64", "digamma_f32", "digamma_f64", "erf_f32", "erf_f64",
    "erfc_f32", "erfc_f64", "erfinv_f32", "erfinv_f64", "exp2_f32", "exp2_f64", "exp_f32", "exp_f64",
    "expm1_f32", "expm1_f64", "lgamma_f32", "lgamma_f64", "log10_f32", "log10_f64", "log1p_f32",
    "log1p_f64", "log2_f32", "log2_f64", "log_f32", "log_f64", "pow_f32", "pow_f64", "sigmoid_f32",
    "sigmoid_f64", "simd", "sin_f32", "sin_f64", "sinh_f32", "sinh_f64", "softplus_f32", "softplus_f64",
    "tan_f32", "tan_f64", "tanh_f32", "tanh_f64", "wide_vectors",
]
