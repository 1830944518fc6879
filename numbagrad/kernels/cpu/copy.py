"""Copies into C order. A transposed array is copied in square tiles that fit in L1, so that both sides run along
their cache lines; everything else is one strided pass."""

from __future__ import annotations

from functools import cache

import numpy as np

from numbagrad.kernels.cpu import jobs, pool
from numbagrad.kernels.cpu.compiler import kernel_address
from numbagrad.kernels.cpu.map import MapKernel
from numbagrad.scalar import arg
from numbagrad.scalar.atoms.arithmetic import positive
from numbagrad.scalar.render import NAMES

TILE = 32
SMALL = 1 << 13  # up to here NumPy copies as fast, and has nothing to compile

_SOURCE = '''"""One tile of a transposed copy of {t}: rows run along the source, columns along the result."""

from numbagrad.kernels.cpu.abi import {t}


def {name}(n, ptrs, strides):
    x, out = {t}(ptrs, 0), {t}(ptrs, 1)
    across, rows, down, along = strides[0], strides[2], strides[3], strides[4]
    for i in range(rows):
        for j in range(n):
            out[i * along + j] = x[i * down + j * across]
'''


@cache
def _tile_kernel(dtype: np.dtype) -> int:
    t = NAMES[dtype.name]
    name = f"transpose_tile_{t}"
    return kernel_address(name, _SOURCE.format(name=name, t=t))


@cache
def _plain_kernel(dtype: np.dtype) -> MapKernel:
    return MapKernel("copy", (positive(arg(0)),), (dtype,))


def contiguous(x: np.ndarray) -> np.ndarray:
    """The array itself if it is in C order, else a copy that is."""
    if x.flags.c_contiguous:
        return x
    if x.size < SMALL:
        return np.ascontiguousarray(x)
    out = pool.empty(x.shape, x.dtype)
    copy_into(out, x)
    return out


def copied(x: np.ndarray) -> np.ndarray:
    """A copy in C order."""
    if x.size < SMALL:
        return x.copy()
    out = pool.empty(x.shape, x.dtype)
    copy_into(out, x)
    return out


def copy_into(out: np.ndarray, x: np.ndarray) -> None:
    """Copy x into a C-ordered array of its shape."""
    last = x.ndim - 1
    long = [k for k in range(x.ndim) if x.shape[k] > 1 and x.strides[k]]
    fast = min(long, key=lambda k: abs(x.strides[k]), default=last)
    if x.size < TILE**3 or fast == last or x.shape[fast] < TILE or x.shape[last] < TILE:
        _plain_kernel(x.dtype).write((x,), (out,))
        return
    rows, columns = (n - n % TILE for n in (x.shape[fast], x.shape[last]))
    head = tuple(slice(rows) if k == fast else slice(columns) if k == last else slice(None) for k in range(x.ndim))
    _copy_tiles(out[head], x[head], fast)
    for axis, done in ((fast, rows), (last, columns)):
        if done < x.shape[axis]:  # the rim (its corner twice)
            rim = tuple(slice(done, None) if k == axis else slice(None) for k in range(x.ndim))
            _plain_kernel(x.dtype).write((x[rim],), (out[rim],))


def _copy_tiles(out: np.ndarray, x: np.ndarray, fast: int) -> None:
    item, last = x.itemsize, x.ndim - 1
    others = [k for k in range(last) if k != fast]
    outer = [*(x.shape[k] for k in others), x.shape[fast] // TILE, x.shape[last] // TILE]

    def steps(a: np.ndarray) -> list[int]:
        return [*(a.strides[k] for k in others), a.strides[fast] * TILE, a.strides[last] * TILE]

    operands = ((x, steps(x), x.strides[last] // item), (out, steps(out), 1))
    extras = (TILE, x.strides[fast] // item, out.strides[fast] // item)
    jobs.run(_tile_kernel(x.dtype), TILE, outer, operands, extras, work=TILE)
