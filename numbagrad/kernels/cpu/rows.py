"""Kernels that keep one row in cache: softmax, log_softmax and the maps of their derivatives.

A row is read once from memory; the second and third pass find it in cache. Sums are kept in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from numbagrad.kernels.cpu import jobs, pool
from numbagrad.kernels.cpu.compiler import SCALAR_FLAGS, kernel_address
from numbagrad.scalar.render import NAMES

ROW_FLAGS = SCALAR_FLAGS | {"reassoc"}  # sums in lanes: the compiler's fixed order

_HEADER = '''"""{name} of the rows of {T}."""

import numpy as np
from numba import {types}, njit
from numbagrad.kernels.cpu.abi import {F}
from numbagrad.scalar.functions import is_nan
from numbagrad.scalar.simd import {simd}


@njit(fastmath={{"nnan", "nsz", "reassoc", "contract"}}, error_model="numpy", _nrt=False, forceinline=True)
def row_max(x, n):
    """Largest element; a nan is passed over (it shows in the sums)."""
    m = {T}(-np.inf)
    for i in range(n):
        m = m if m > x[i] else x[i]
    return m


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

_BODIES = {
    "softmax": '''def {name}_{F}(n, ptrs, strides):
    x, out = {F}(ptrs, 0), {F}(ptrs, 1)
    m = row_max(x, n)
    if (m == np.inf) | (m == -np.inf):
        infinite_row(x, out, n, m, {T}(0), False)
    else:
        total = float64(0)
        for i in range(n):
            e = exp_{F}(x[i] - m)
            out[i] = e
            total += float64(e)
        scale = {T}(1 / total)
        for i in range(n):
            out[i] = out[i] * scale
''',
    "log_softmax": '''def {name}_{F}(n, ptrs, strides):
    x, out = {F}(ptrs, 0), {F}(ptrs, 1)
    m = row_max(x, n)
    if (m == np.inf) | (m == -np.inf):
        infinite_row(x, out, n, m, {T}(-np.inf), True)
    else:
        total = float64(0)
        for i in range(n):
            d = x[i] - m
            out[i] = d
            total += float64(exp_{F}(d))
        shift = {T}(log_f64(total))
        for i in range(n):
            out[i] = out[i] - shift
''',
    "softmax_pull": '''def {name}_{F}(n, ptrs, strides):
    g, s, out = {F}(ptrs, 0), {F}(ptrs, 1), {F}(ptrs, 2)
    total = float64(0)
    for i in range(n):
        total += float64(g[i]) * float64(s[i]) if g[i] != 0 else float64(0)
    mean = {T}(total)
    for i in range(n):
        d = g[i] - mean
        out[i] = d * s[i] if d != 0 else {T}(0)
''',
    "log_softmax_push": '''def {name}_{F}(n, ptrs, strides):
    t, y, out = {F}(ptrs, 0), {F}(ptrs, 1), {F}(ptrs, 2)
    total = float64(0)
    for i in range(n):
        total += float64(t[i]) * float64(exp_{F}(y[i])) if t[i] != 0 else float64(0)
    mean = {T}(total)
    for i in range(n):
        out[i] = t[i] - mean
''',
    "log_softmax_pull": '''def {name}_{F}(n, ptrs, strides):
    g, y, out = {F}(ptrs, 0), {F}(ptrs, 1), {F}(ptrs, 2)
    total = float64(0)
    for i in range(n):
        total += float64(g[i])
    whole = {T}(total)
    for i in range(n):
        out[i] = g[i] - (whole * exp_{F}(y[i]) if whole != 0 else {T}(0))
''',
}


@cache
def _kernel(name: str, dtype: np.dtype) -> int:
    kind = NAMES[dtype.name]
    simd = ", ".join(sorted({"log_f64", f"exp_{kind}"}))
    types = ", ".join(sorted({"float64", dtype.name}))
    text = (_HEADER + _BODIES[name]).format(name=name, T=dtype.name, F=kind, simd=simd, types=types)
    return kernel_address(f"{name}_{kind}", text, flags=ROW_FLAGS)


def _rows(name: str) -> Callable[..., np.ndarray]:
    def kernel(*operands: np.ndarray) -> np.ndarray:
        shape, dtype = operands[0].shape, operands[0].dtype
        out = pool.empty(shape, dtype)
        if out.size:
            n, size = shape[-1], dtype.itemsize
            arrays = [*map(np.ascontiguousarray, operands), out]
            rows = math.prod(shape[:-1])
            jobs.run(_kernel(name, dtype), n, (rows,), [(a, (n * size,), 1) for a in arrays], work=2)
        return out

    kernel.__name__ = name
    return kernel


softmax, log_softmax = _rows("softmax"), _rows("log_softmax")
softmax_pull = _rows("softmax_pull")
log_softmax_push, log_softmax_pull = _rows("log_softmax_push"), _rows("log_softmax_pull")
