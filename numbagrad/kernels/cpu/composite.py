"""Kernels made of several others."""

from __future__ import annotations

import numpy as np

from numbagrad.kernels.cpu.map import MapKernel
from numbagrad.kernels.cpu.reduce import reduce_max, reduce_sum
from numbagrad.scalar import ATOMS, arg

_kernels: dict[np.dtype, tuple[MapKernel, MapKernel]] = {}


def _parts(dtype: np.dtype) -> tuple[MapKernel, MapKernel]:
    """exp(x - shift) and log(total) + shift, where an infinite shift counts as 0 in the first."""
    found = _kernels.get(dtype)
    if found is None:
        x, shift = arg(0), arg(1)
        finite = ATOMS["select"](ATOMS["isfinite"](shift), shift, 0)
        shifted = MapKernel("shifted_exp", (ATOMS["exp"](x - finite),), (dtype, dtype))
        closed = MapKernel("shifted_log", (ATOMS["log"](x) + finite,), (dtype, dtype))
        found = _kernels[dtype] = shifted, closed
    return found


def logsumexp(x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
    """log of the sum of exponentials over axes; an empty sum is -inf."""
    kept = tuple(n for k, n in enumerate(x.shape) if k not in axes)
    if x.size == 0:
        return np.full(kept, -np.inf, x.dtype)
    shifted, closed = _parts(x.dtype)
    largest = reduce_max(x, axes=axes)
    wide = largest.reshape([1 if k in axes else n for k, n in enumerate(x.shape)])
    (terms,) = shifted((x, wide), x.shape)
    (out,) = closed((reduce_sum(terms, axes=axes), largest), kept)
    return out
