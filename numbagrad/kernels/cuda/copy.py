"""Copies into C order, and filling. A transposed array goes through square tiles of shared memory, so that both sides
are read and written along their rows; everything else is one strided pass."""

# Checklist of docs/design/cuda.md: all 15 hold; no atomics; shared memory <= 17 KB; registers <= 26 (sm_90).

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.kernel import Kernel, index_type, kernel, short
from numbagrad.kernels.cuda.map import MapKernel
from numbagrad.scalar import arg
from numbagrad.scalar.atoms.arithmetic import positive
from numbagrad.scalar.render import NAMES

TILE, ROWS = 32, 8  # a block moves a tile of 32 x 32 with 32 x 8 threads

_TRANSPOSE = '''"""Transposed copy of matrices of {T}: x (batch, rows, columns) into out (batch, columns, rows).

A column more in the tile keeps the threads of a warp on different banks of the shared memory.
"""

from numbagrad.kernels.cuda.frontend import cuda, {T}, {I}


@cuda.jit
def {name}(x, out, rows, columns, rows_of_tiles):
    tile = cuda.shared.array({shared}, {T})
    across, down = {I}(cuda.threadIdx.x), {I}(cuda.threadIdx.y)
    batch, tile_row = {I}(cuda.blockIdx.y) // rows_of_tiles, {I}(cuda.blockIdx.y) % rows_of_tiles
    base = {I}({I}(batch * rows) * columns)
    row, column = {I}({tile} * tile_row), {I}({tile} * cuda.blockIdx.x)
    for step in range(0, {tile}, {step}):
        i, j = {I}(row + down + step), {I}(column + across)
        if i < rows and j < columns:
            tile[(down + step) * {pitch} + across] = x[base + i * columns + j]
    cuda.syncthreads()
    for step in range(0, {tile}, {step}):
        i, j = {I}(row + across), {I}(column + down + step)
        if i < rows and j < columns:
            out[base + j * rows + i] = tile[across * {pitch} + down + step]
'''


@cache
def _transpose_kernel(dtype: np.dtype, index: str) -> Kernel:
    t = NAMES[dtype.name]
    name = f"transpose_{t}" + ("" if index == "uint32" else "_large")
    text = _TRANSPOSE.format(
        name=name, T=element_type(dtype), I=index, tile=TILE, step=ROWS, pitch=TILE + 1, shared=TILE * (TILE + 1)
    )
    return kernel(name, text, [f"{t}*", f"{t}*", *[short(index)] * 3])


def element_type(dtype: np.dtype) -> str:
    """The type of elements as a kernel's text spells it: bools are bytes."""
    return "uint8" if dtype.kind == "b" else dtype.name


@cache
def _plain_kernel(dtype: np.dtype) -> MapKernel:
    return MapKernel("copy", (positive(arg(0)),), (dtype,))


def contiguous(x: Buffer) -> Buffer:
    """The buffer itself if it is in C order, else a copy that is."""
    return x if x.flat else copied(x)


def copied(x: Buffer) -> Buffer:
    """A copy in C order."""
    out = x.device.empty(x.shape, x.dtype)
    copy_into(out, x)
    return out


def copy_into(out: Buffer, x: Any) -> None:
    """Copy x, which broadcasts, into a buffer of any layout."""
    if x.__class__ is Buffer and out.flat and x.shape == out.shape and _transposed(x, out):
        return
    dtype = np.dtype(np.uint8) if out.dtype.kind == "b" else out.dtype
    if dtype != out.dtype:
        x = x.typed(dtype) if x.__class__ is Buffer else x.view(dtype)
        out = out.typed(dtype)
    _plain_kernel(dtype).write(out.device, (x,), (out,))


def _transposed(x: Buffer, out: Buffer) -> bool:
    """Copy by tiles if x is a batch of transposed matrices in C order."""
    if x.flat or x.ndim < 2 or x.size < TILE * TILE:
        return False
    # the batch axes are the first ones; the rest is in C order when its two groups change places
    for first in range(x.ndim - 1):
        for middle in range(first + 1, x.ndim):
            order = (*range(first), *range(middle, x.ndim), *range(first, middle))
            shape = tuple(x.shape[k] for k in order)
            strides = tuple(x.strides[k] for k in order)
            moved = x.view(shape, strides)
            if moved.flat:
                batch = math.prod(x.shape[:first])
                columns, rows = math.prod(x.shape[first:middle]), math.prod(x.shape[middle:])
                tiles = batch * -(-rows // TILE)
                if tiles > 65535 or min(rows, columns) < 4:
                    return False
                found = _transpose_kernel(x.dtype, index_type(x.size))
                grid = (-(-columns // TILE), tiles)
                x.device.launch(found, grid, (TILE, ROWS), moved, out, rows, columns, -(-rows // TILE))
                return True
    return False


@cache
def _fill_kernel(dtype: np.dtype) -> MapKernel:
    return MapKernel("fill", (positive(arg(0)),), (dtype,))


def filled(device: Any, shape: tuple[int, ...], value: Any, dtype: np.dtype) -> Buffer:
    """A new buffer of one value."""
    out = device.empty(shape, dtype)
    if out.size:
        plain = np.dtype(np.uint8) if dtype.kind == "b" else dtype
        number = np.asarray(value, dtype).view(plain)
        _fill_kernel(plain).write(device, (number,), (out.typed(plain),))
    return out
