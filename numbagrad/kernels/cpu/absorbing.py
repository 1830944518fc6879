"""Products in which a zero of a cotangent or tangent is absorbing: 0 * inf and 0 * nan are 0.

BLAS and register tiles know no such zero. Their result is right wherever it is finite; only where it is not is the
product taken again, without the elements that zeros meet.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from numbagrad.kernels.cpu.reduce import reduce_sum

Product = Callable[[np.ndarray, np.ndarray], np.ndarray]
MANY = 1 << 19  # elements from which on a sum by our threads is faster than BLAS's sum of squares (30 us at 400,000)


def product(function: Product, a: np.ndarray, b: np.ndarray, absorbs: tuple[int, ...]) -> np.ndarray:
    """function(a, b), linear in both, in which the zeros of the operands `absorbs` are absorbing."""
    if not absorbs or a.dtype.kind not in "fc":
        return function(a, b)
    with np.errstate(all="ignore"):
        out = function(a, b)
        return out if is_finite(out) else again(function, a, b, absorbs, out)


def again(function: Product, a: np.ndarray, b: np.ndarray, absorbs: tuple[int, ...], out: np.ndarray) -> np.ndarray:
    """Sums of the terms that are finite, where only such are left; of the others what their kinds add up to."""
    finite = function(*(np.where(np.isfinite(v), v, v.dtype.type(0)) for v in (a, b)))
    if a.dtype.kind == "c":
        met = function(*_counts(a, b, 0 in absorbs)) + function(*_counts(b, a, 1 in absorbs)[::-1])
        return np.where(met == 0, finite, out)
    (sign_a, inf_a, nan_a, zero_a), (sign_b, inf_b, nan_b, zero_b) = (
        _kinds(v, k in absorbs) for k, v in enumerate((a, b))
    )
    finite_b = sign_b - inf_b
    signed = function(sign_a, inf_b) + function(inf_a, finite_b)
    every = function(abs(sign_a), abs(inf_b)) + function(abs(inf_a), abs(finite_b))
    nans = function(abs(sign_a) + nan_a + zero_a, nan_b) + function(nan_a, abs(sign_b) + zero_b)
    nans += function(zero_a, abs(inf_b)) + function(abs(inf_a), zero_b)
    infinite = np.where(abs(signed) == every, np.copysign(np.inf, signed), np.nan)  # all of one sign, or both
    return np.where(nans > 0, np.nan, np.where(every > 0, infinite, finite)).astype(out.dtype)


def _kinds(v: np.ndarray, absorbing: bool) -> tuple[np.ndarray, ...]:
    """Signs of elements, signs of the infinite ones, ones at nan, and ones at zeros that do not absorb."""
    sign = np.where(np.isnan(v), 0, np.sign(v)).astype(v.dtype)
    zero = np.zeros_like(v) if absorbing else (v == 0).astype(v.dtype)
    return sign, np.where(np.isinf(v), sign, 0).astype(v.dtype), np.isnan(v).astype(v.dtype), zero


def _counts(a: np.ndarray, b: np.ndarray, absorbing: bool) -> tuple[np.ndarray, np.ndarray]:
    """Ones where a is not an absorbing zero, and where b is not finite."""
    present = a != 0 if absorbing else np.ones(a.shape, bool)
    return present.astype(a.dtype), (~np.isfinite(b)).astype(b.dtype)


def is_finite(x: np.ndarray) -> bool:
    """Whether all elements are (no: or so large that their sum is not)."""
    flat = x.reshape(-1)
    return bool(np.isfinite(np.dot(flat, flat) if x.size < MANY else reduce_sum(flat, axes=(0,))))
