"""softmax and logsumexp of segments: the exponentials above each segment's largest, summed and shared."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from numbagrad.kernels.cpu import jobs, pool
from numbagrad.kernels.cpu.compiler import kernel_address
from numbagrad.kernels.cpu.copy import contiguous
from numbagrad.kernels.cpu.index import take
from numbagrad.kernels.cpu.map import MapKernel
from numbagrad.kernels.cpu.places import MODES, PLACE, readable
from numbagrad.kernels.cpu.segment import segment_max, segment_sum
from numbagrad.scalar import ATOMS, arg
from numbagrad.scalar.render import NAMES

_EXP = '''"""exp(x - largest of its segment) of {T}: of several +inf each counts 1, a row that is dropped 0."""

import numpy as np
from numba import {T}, int64, njit
from numbagrad.kernels.cpu.abi import {pointers}
from numbagrad.scalar.simd import exp_{t}


{place}def {name}(n, ptrs, strides):
    x, ids, best, out = {t}(ptrs, 0), {i}(ptrs, 1), {t}(ptrs, 2), {t}(ptrs, 3)
    width, rows, mode = strides[4], strides[5], strides[6]
    block = max(1, 4096 // max(1, width))  # the exponentials find their arguments in L1
    base = 0
    while base < n:
        stop = min(base + block, n)
        odd = 0  # rows outside, and largest elements without an ordinary difference
        for k in range(base, stop):
            r = int64(ids[k])
            odd += 0 if (r >= 0) & (r < rows) else 1
        if odd == 0:
            if width == 1:
                for k in range(base, stop):
                    m = best[ids[k]]
                    out[k] = x[k] - m
                    odd += 1 if abs(m) == np.inf else 0
            else:
                for k in range(base, stop):
                    to, start = ids[k] * width, k * width
                    for j in range(width):
                        m = best[to + j]
                        out[start + j] = x[start + j] - m
                        odd += 1 if abs(m) == np.inf else 0
        if odd > 0:
            for k in range(base, stop):
                r = int64(ids[k])
                if not ((r >= 0) & (r < rows)):
                    r = elsewhere(r, rows, mode)
                to, start = r * width, k * width
                for j in range(width):
                    m = best[to + j] if r >= 0 else {T}(0)
                    v = x[start + j] if r >= 0 else {T}(-np.inf)
                    tied = {T}(0) if (v == m) & (m > 0) else {T}(-np.inf)
                    out[start + j] = tied if abs(m) == np.inf else v - m
        for k in range(base * width, stop * width):
            out[k] = exp_{t}(out[k])
        base = stop
'''


@cache
def _exp_kernel(dtype: np.dtype, ids: np.dtype) -> int:
    t, i = NAMES[dtype.name], NAMES[ids.name]
    name = f"segment_exp_{t}_{i}"
    names = dict(name=name, T=dtype.name, t=t, i=i, place=PLACE, pointers=", ".join(sorted({t, i})))
    return kernel_address(name, _EXP.format(**names))


@cache
def _share(dtype: np.dtype) -> MapKernel:
    x, total = arg(0), arg(1)
    return MapKernel("segment_share", (ATOMS["select"](ATOMS["equal"](total, 0), 0, x / total),), (dtype, dtype))


@cache
def _closed(dtype: np.dtype) -> MapKernel:
    total, largest = arg(0), arg(1)
    finite = ATOMS["isfinite"](largest)
    return MapKernel("segment_log", (ATOMS["select"](finite, ATOMS["log"](total) + largest, largest),), (dtype, dtype))


def _exponentials(x: np.ndarray, ids: np.ndarray, best: np.ndarray, mode: str) -> np.ndarray:
    out = pool.empty(x.shape, x.dtype)
    if out.size:
        x, ids, width = contiguous(x), readable(ids), math.prod(x.shape[ids.ndim :])
        operands = ((x, (0,), width), (ids, (0,), 1), (best, (0,), 0), (out, (0,), width))
        extras = (width, best.shape[0], MODES[mode])
        chunk = max(1, (1 << 14) // width)
        jobs.run(_exp_kernel(x.dtype, ids.dtype), ids.size, (1,), operands, extras, chunk=chunk, work=4 * width)
    return out


def segment_softmax(x: np.ndarray, ids: np.ndarray, *, segments: int, mode: str = "drop") -> np.ndarray:
    """Each row's share of the exponentials of its segment; 0 for what is dropped, and where all are -inf."""
    best = segment_max(x, ids, segments=segments, mode=mode)
    terms = _exponentials(x, ids, best, mode)
    total = take(segment_sum(terms, ids, segments=segments, mode=mode), ids, mode=mode)
    (out,) = _share(x.dtype)((terms, total), x.shape)
    return out


def segment_logsumexp(x: np.ndarray, ids: np.ndarray, *, segments: int, mode: str = "drop") -> np.ndarray:
    """log of the sum of the exponentials of each segment; -inf for an empty one."""
    best = segment_max(x, ids, segments=segments, mode=mode)
    total = segment_sum(_exponentials(x, ids, best, mode), ids, segments=segments, mode=mode)
    (out,) = _closed(x.dtype)((total, best), best.shape)
    return out
