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
        return out if _finite(out) else _again(function, a, b, absorbs, out)


def _again(function: Product, a: np.ndarray, b: np.ndarray, absorbs: tuple[int, ...], out: np.ndarray) -> np.ndarray:
    finite_a, finite_b = (np.where(np.isfinite(v), v, v.dtype.type(0)) for v in (a, b))
    met = function(*_counts(a, b, 0 in absorbs)) + function(*_counts(b, a, 1 in absorbs)[::-1])
    return np.where(met == 0, function(finite_a, finite_b), out)


def _counts(a: np.ndarray, b: np.ndarray, absorbing: bool) -> tuple[np.ndarray, np.ndarray]:
    """Ones where a is not an absorbing zero, and where b is not finite."""
    present = a != 0 if absorbing else np.ones(a.shape, bool)
    return present.astype(a.dtype), (~np.isfinite(b)).astype(b.dtype)


def _finite(x: np.ndarray) -> bool:
    """Whether all elements are (no: or so large that their sum is not)."""
    flat = x.reshape(-1)
    return bool(np.isfinite(np.dot(flat, flat) if x.size < MANY else reduce_sum(flat, axes=(0,))))
