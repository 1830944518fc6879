"""Kernels that keep one row in cache: softmax, log_softmax and the maps of their derivatives.

A row is read once from memory; the second and third pass find it in cache. Sums are kept in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np

from numbagrad.kernels.cpu import jobs, pool
from numbagrad.kernels.cpu.compiler import kernel_address
from numbagrad.kernels.cpu.copy import contiguous
from numbagrad.scalar.render import NAMES

LANES = 32  # accumulators of a row: fixed, so that a result does not depend on the width of the vectors

_HEADER = '''"""{name} of the rows of {T}."""

import numpy as np
from numba import {types}, njit
from numbagrad.kernels.cpu.abi import {F}, stack_{F}, stack_f64
from numbagrad.scalar.simd import {simd}


'''

# Largest element. A nan may be passed over: it shows in the sums.
_MAX = '''@njit(error_model="numpy", _nrt=False, forceinline=True)
def row_max(x, n):
    lane = stack_{F}()
    for j in range({lanes}):
        lane[j] = {T}(-np.inf)
    whole = n // {lanes}
    for block in range(whole):
        for j in range({lanes}):
            v = x[block * {lanes} + j]
            lane[j] = lane[j] if lane[j] > v else v
    for i in range(whole * {lanes}, n):
        lane[0] = lane[0] if lane[0] > x[i] else x[i]
    for j in range(1, {lanes}):
        lane[0] = lane[0] if lane[0] > lane[j] else lane[j]
    return lane[0]


@njit(error_model="numpy", _nrt=False)
def infinite_row(x, out, n, m, floor, logarithm):
    """A row whose largest element is infinite: every +inf has an equal share, the others none."""
    ties = 0
    nan = False
    for i in range(n):
        nan = nan | (x[i] != x[i])
        ties += (x[i] == m) & (m > 0)
    share = 1.0 / ties if ties > 0 else 0.0
    if logarithm:
        share = -np.log(float(ties)) if ties > 0 else -np.inf
    for i in range(n):
        out[i] = {T}(np.nan) if nan else ({T}(share) if (x[i] == m) & (m > 0) else floor)


'''

# Sum of a term of x[i] and y[i] in float64. Its own pass over the cached row: as a part of the loop that writes the
# exponentials it makes both twice as slow.
_SUM = """@njit(error_model="numpy", _nrt=False, forceinline=True)
def row_sum(x, y, n):
    lane = stack_f64()
    for j in range({lanes}):
        lane[j] = 0.0
    whole = n // {lanes}
    for block in range(whole):
        for j in range({lanes}):
            i = block * {lanes} + j
            lane[j] += {term}
    for i in range(whole * {lanes}, n):
        lane[0] += {term}
    width = {lanes} // 2
    while width > 0:
        for j in range(width):
            lane[j] += lane[j + width]
        width //= 2
    return lane[0]


"""

_PRODUCT = "(float64(x[i]) * float64({factor}) if x[i] != 0 else 0.0)"  # an exact 0 is absorbing

_TERMS = {
    "softmax": "float64(x[i])",
    "log_softmax": "float64(exp_{F}(x[i]))",
    "softmax_pull": _PRODUCT.format(factor="y[i]"),
    "log_softmax_push": _PRODUCT.format(factor="exp_{F}(y[i])"),
    "log_softmax_pull": "float64(x[i])",
}

_BODIES = {
    "softmax": """def {name}_{F}(n, ptrs, strides):
    x, out = {F}(ptrs, 0), {F}(ptrs, 1)
    m = row_max(x, n)
    if (m == np.inf) | (m == -np.inf):
        infinite_row(x, out, n, m, {T}(0), False)
    else:
        for i in range(n):
            out[i] = exp_{F}(x[i] - m)
        scale = {T}(1 / row_sum(out, out, n))
        for i in range(n):
            out[i] = out[i] * scale
""",
    "log_softmax": """def {name}_{F}(n, ptrs, strides):
    x, out = {F}(ptrs, 0), {F}(ptrs, 1)
    m = row_max(x, n)
    if (m == np.inf) | (m == -np.inf):
        infinite_row(x, out, n, m, {T}(-np.inf), True)
    else:
        for i in range(n):
            out[i] = x[i] - m
        shift = {T}(log_f64(row_sum(out, out, n)))
        for i in range(n):
            out[i] = out[i] - shift
""",
    "softmax_pull": """def {name}_{F}(n, ptrs, strides):
    g, s, out = {F}(ptrs, 0), {F}(ptrs, 1), {F}(ptrs, 2)
    mean = {T}(row_sum(g, s, n))
    for i in range(n):
        d = g[i] - mean
        out[i] = d * s[i] if d != 0 else {T}(0)
""",
    "log_softmax_push": """def {name}_{F}(n, ptrs, strides):
    t, y, out = {F}(ptrs, 0), {F}(ptrs, 1), {F}(ptrs, 2)
    mean = {T}(row_sum(t, y, n))
    for i in range(n):
        out[i] = t[i] - mean
""",
    "log_softmax_pull": """def {name}_{F}(n, ptrs, strides):
    g, y, out = {F}(ptrs, 0), {F}(ptrs, 1), {F}(ptrs, 2)
    whole = {T}(row_sum(g, g, n))
    for i in range(n):
        out[i] = g[i] - (whole * exp_{F}(y[i]) if whole != 0 else {T}(0))
""",
}


@cache
def _kernel(name: str, dtype: np.dtype) -> int:
    kind = NAMES[dtype.name]
    simd = ", ".join(sorted({"log_f64", f"exp_{kind}"}))
    types = ", ".join(sorted({"float64", dtype.name}))
    names = dict(name=name, T=dtype.name, F=kind, simd=simd, types=types, lanes=LANES)
    parts = _HEADER + (_MAX if name in ("softmax", "log_softmax") else "")
    text = parts.format(**names) + _SUM.format(term=_TERMS[name].format(**names), **names)
    return kernel_address(f"{name}_{kind}", text + _BODIES[name].format(**names))


@lru_cache(maxsize=4096)
def _plan(name: str, shape: tuple[int, ...], dtype: np.dtype, operands: int) -> jobs.Prepared:
    """The job for operands of one shape in C order."""
    n, rows, count = shape[-1], math.prod(shape[:-1]), operands + 1
    cut, wake = jobs.cut_for(n, (rows,), work=2)
    strides, inner = [(n * dtype.itemsize,)] * count, [dtype.itemsize] * count
    job = jobs.layout(_kernel(name, dtype), cut, (rows,), [0] * count, [1] * count, strides, inner)
    return jobs.Prepared.of(job, 1, wake)


def _rows(name: str) -> Callable[..., np.ndarray]:
    def kernel(*operands: np.ndarray) -> np.ndarray:
        shape, dtype = operands[0].shape, operands[0].dtype
        out = pool.empty(shape, dtype)
        if out.size:
            _plan(name, shape, dtype, len(operands)).run(*map(contiguous, operands), out)
        return out

    kernel.__name__ = name
    return kernel


softmax, log_softmax = _rows("softmax"), _rows("log_softmax")
softmax_pull = _rows("softmax_pull")
log_softmax_push, log_softmax_pull = _rows("log_softmax_push"), _rows("log_softmax_pull")
