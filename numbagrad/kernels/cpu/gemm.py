"""Matrix products of float32 and float64 in register tiles, on our own threads.

BLAS has threads of its own. They have to be woken while ours look out for work, take the cores from each other and look
out for a while afterwards. So BLAS keeps only what is its own: few multiplications, on one thread, very many, vectors,
complex numbers, and processors without wide vectors.

A piece of the result is made in blocks of its rows and of the depth. The block of a is packed in strips of MR rows (in
L2), that of b in panels of NR columns (in L1), and each strip meets each panel in one tile of sums in registers. Goto
and van de Geijn 2008, "Anatomy of high-performance matrix multiplication".
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from numbagrad import config
from numbagrad.kernels.cpu import jobs, pool, threads
from numbagrad.kernels.cpu.compiler import kernel_address, vector_bytes
from numbagrad.kernels.cpu.copy import contiguous
from numbagrad.scalar.render import NAMES

FEW = 1 << 18  # multiplications up to which BLAS stays on one thread
PARTS = 8  # calls of BLAS with so few, rather than packing
MANY = 1 << 28  # multiplications from which on BLAS is as fast
WORTH_WAKING = 1 << 23  # multiplications: 100 us of two threads
NARROW = 32  # rows or columns below which much of a tile would be empty
DEPTH = 256  # of a block: a panel of it takes 32 KiB
BLOCK_BYTES = 1 << 19  # of packed rows, in L2
Ints = tuple[int, ...]

_SOURCE = '''"""Products of {T} matrices in tiles of {MR} x {NR} sums."""

from numba import int{bits}, {T}, njit
from numbagrad.kernels.cpu.abi import {F}, {I}, i64, stack_of
from numbagrad.kernels.cpu.vector import matrix_tile, move, turn_tile
from numbagrad.scalar.simd import wide_vectors

tile, move_in, square = matrix_tile({T}, {MR}, {NV}, {MR}), move({T}, 1), turn_tile({T})
panel_memory, edge_memory = stack_of({T}, {DEPTH} * {NR}, 64), stack_of({T}, {MR} * {NR}, 64)


@njit(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def side_by_side(packed, to, width, x, at, far, depth, count, lanes):
    """`count` columns of x, of rows that are `far` apart, and zeros up to `lanes`."""
    for k in range(depth):
        for v in range(0, lanes, {VL}):
            move_in(packed, to + k * width + v, x, at + k * far + v, 0, count - v, lanes - v)


@njit(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def across(packed, to, width, x, at, far, depth, count, lanes, there):
    """The same of columns that are `far` apart, of which `there` may be read; whole vectors may be written."""
    for v in range(0, lanes, {VL}):
        done = 0
        if v + {VL} <= there:
            done = depth - depth % {VL}
            for k in range(0, done, {VL}):
                square(packed, to + k * width + v, width, x, at + v * far + k, far)
        for k in range(done, depth):
            for j in range(v, min(v + {VL}, lanes)):
                packed[to + k * width + j] = x[at + j * far + k] if j < count else {T}(0)


@njit(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def at_edge(depth, a, at, b, edge, out, to, step, first, rows, columns):
    """A tile of which only a part is in the result."""
    tile(depth, a, at, b, 0, edge, 0, {NR}, 1)
    for r in range(rows):
        for j in range(columns):
            before = {T}(0) if first else out[to + r * step + j]
            out[to + r * step + j] = before + edge[r * {NR} + j]


def {name}(n, ptrs, strides):
    wide_vectors()
    a, b, out, piece, packed, bad = (
        {F}(ptrs, 0), {F}(ptrs, 1), {F}(ptrs, 2), i64(ptrs, 3), {F}(ptrs, 4), i64(ptrs, 5),
    )
    rows, columns, depth, a_far, a_turned, b_far, b_turned = (
        strides[6], strides[7], strides[8], strides[9], strides[10], strides[11], strides[12],
    )
    cut_rows, cut_columns, block_rows, block_depth, look = (
        strides[13], strides[14], strides[15], strides[16], strides[17],
    )
    pieces = (columns + cut_columns - 1) // cut_columns
    top, left = piece[0] // pieces * cut_rows, piece[0] % pieces * cut_columns
    bottom, right = min(rows, top + cut_rows), min(columns, left + cut_columns)
    panel, edge = panel_memory(), edge_memory()
    for i in range(top, bottom, block_rows):
        tall = min(block_rows, bottom - i)
        for k in range(0, depth, block_depth):
            deep, first = min(block_depth, depth - k), 1 if k == 0 else 0
            for r in range(0, tall, {MR}):
                count = min({MR}, tall - r)
                if a_turned:
                    side_by_side(packed, r * deep, {MR}, a, k * a_far + i + r, a_far, deep, count, {MR})
                else:
                    across(packed, r * deep, {MR}, a, (i + r) * a_far + k, a_far, deep, count, {MR}, rows - i - r)
            for j in range(left, right, {NR}):
                count = min({NR}, right - j)
                if b_turned:
                    across(panel, 0, {NR}, b, j * b_far + k, b_far, deep, count, {NR}, count)
                else:
                    side_by_side(panel, 0, {NR}, b, k * b_far + j, b_far, deep, count, {NR})
                for r in range(0, tall, {MR}):
                    to = (i + r) * columns + j
                    if count == {NR} and r + {MR} <= tall:
                        tile(deep, packed, r * deep, panel, 0, out, to, columns, first)
                    else:
                        high = min({MR}, tall - r)
                        at_edge(deep, packed, r * deep, panel, edge, out, to, columns, first, high, count)
    if look:
        words = {I}(ptrs, 2)
        for i in range(top, bottom):
            largest = int{bits}(0)  # of the exponents
            for k in range(i * columns + left, i * columns + right):
                largest = max(largest, int{bits}(words[k] & int{bits}({magnitude})))
            if largest >= {infinity}:
                bad[0] = 1
'''


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Products of stacks of matrices, the stacks broadcast."""
    stack = a.shape[:-2] if a.shape[:-2] == b.shape[:-2] else np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = pool.empty((*stack, a.shape[-2], b.shape[-1]), np.result_type(a, b))
    matmul(a, b, out)
    return out


def matmul(a: np.ndarray, b: np.ndarray, out: np.ndarray, look: bool = False) -> bool | None:
    """Write the products of stacks of matrices to a contiguous `out`.

    With `look`, whether all of it is finite; None: nobody looked.
    """
    rows, columns, depth = *out.shape[-2:], a.shape[-1]
    each = rows * columns * depth
    few = each <= (PARTS * FEW if out.ndim == 2 else FEW)
    tiled = a.dtype is b.dtype and a.dtype.kind == "f" and vector_bytes() >= 32
    if few or each > MANY or min(rows, columns) < NARROW or not tiled:
        _by_blas(a, b, out, each)
        return None
    plan = _plan(out.shape, a.shape, b.shape, a.strides, b.strides, a.dtype, look, config.num_threads())
    if plan is None:
        return matmul(contiguous(a), contiguous(b), out, look)
    bad = np.zeros(1, np.int64)
    plan.job.run(a, b, out, plan.places, pool.empty((plan.room,), a.dtype), bad)
    return not bad[0] if look else None


def _by_blas(a: np.ndarray, b: np.ndarray, out: np.ndarray, each: int) -> None:
    parts = -(-each // FEW) if a.dtype.kind in "fc" else 1
    if parts <= 1:
        np.matmul(a, b, out=out)
    elif parts > PARTS or out.ndim > 2 or min(out.shape) < 2:
        threads.dismiss()
        np.matmul(a, b, out=out)
    elif out.shape[0] >= out.shape[1]:
        for rows in _parts(out.shape[0], parts):
            np.matmul(a[rows], b, out=out[rows])
    else:
        for columns in _parts(out.shape[1], parts):
            np.matmul(a, b[:, columns], out=out[:, columns])


def _parts(length: int, count: int) -> list[slice]:
    return [slice(k * length // count, (k + 1) * length // count) for k in range(count)]


class _Plan(NamedTuple):
    """The job, the numbers of its pieces, and elements of packed rows."""

    job: jobs.Prepared
    places: np.ndarray
    room: int


@lru_cache(maxsize=4096)
def _plan(
    shape: Ints, a_shape: Ints, b_shape: Ints, a_strides: Ints, b_strides: Ints, dtype: np.dtype, look: bool, count: int
) -> _Plan | None:
    """How a product is cut; None where neither the rows nor the columns of an operand's matrices are runs."""
    (*stack, rows, columns), depth, item = shape, a_shape[-1], dtype.itemsize
    left = _layout((rows, depth), a_strides[-2:], item)
    right = _layout((depth, columns), b_strides[-2:], item)
    if left is None or right is None:
        return None
    high, wide = _tile(dtype)
    count = max(1, min(-(-count // max(1, math.prod(stack))), rows * columns * depth // FEW))
    cut_rows, cut_columns = _up(rows, count, high), columns
    if columns >= 4 * rows:  # else in rows, as maps are: a thread finds in its cache what it is to go on with
        cut_rows, cut_columns = rows, _up(columns, count, wide)
    pieces = -(-rows // cut_rows) * -(-columns // cut_columns)
    block_depth = _up(depth, -(-depth // DEPTH), vector_bytes() // item)
    block_rows = min(-(-cut_rows // high) * high, BLOCK_BYTES // (DEPTH * item * high) * high)
    room = block_rows * block_depth + vector_bytes() // item
    packed = [math.prod((*stack[d + 1 :], pieces, room)) * item for d in range(len(stack))]
    inside = [math.prod(shape[d + 1 :]) * item for d in range(len(stack))]
    none = (0,) * len(stack)
    outer = [(*_stacked(s, n, stack), 0) for s, n in ((a_strides, a_shape), (b_strides, b_shape))]
    job = jobs.layout(
        _kernel(dtype), (1, 0, 1, 1), (*stack, pieces), [0] * 6, [0] * 6,
        [*outer, (*inside, 0), (*none, 8), (*packed, room * item), (*none, 0)], [0] * 6,
        (rows, columns, depth, *left, *right, cut_rows, cut_columns, block_rows, block_depth, look),
    )  # fmt: skip
    prepared = jobs.Prepared.of(job, len(stack) + 1, math.prod((*shape, depth)) >= WORTH_WAKING)
    return _Plan(prepared, np.arange(pieces), math.prod((*stack, pieces)) * room)


def _up(length: int, parts: int, unit: int) -> int:
    """Length of a part, in whole units."""
    return math.ceil(math.ceil(length / parts) / unit) * unit


def _layout(shape: Ints, strides: Ints, item: int) -> tuple[int, bool] | None:
    """Elements between rows (between columns, if those are the runs: True)."""
    for turned, (far, near) in enumerate((strides, strides[::-1])):
        if near == item and far % item == 0:
            return far // item, bool(turned)
    return None


def _stacked(strides: Ints, shape: Ints, stack: list[int]) -> Ints:
    """Strides of the axes before a matrix, 0 where it is repeated."""
    missing = len(stack) - (len(shape) - 2)
    return (0,) * missing + tuple(0 if n == 1 else s for s, n in zip(strides[:-2], shape[:-2], strict=True))


def _tile(dtype: np.dtype) -> tuple[int, int]:
    """Rows and columns of a tile: 16 sums and 2 vectors of b in 32 registers, 12 and 2 or 3 in 16."""
    lanes = vector_bytes() // dtype.itemsize
    return (8, 2 * lanes) if vector_bytes() == 64 else (6, 2 * lanes) if lanes > 4 else (4, 3 * lanes)


@cache
def _kernel(dtype: np.dtype) -> int:
    bits, (high, wide), lanes = 8 * dtype.itemsize, _tile(dtype), vector_bytes() // dtype.itemsize
    largest = int(np.array(np.inf, dtype).view(f"i{dtype.itemsize}"))
    name = f"gemm_{NAMES[dtype.name]}"
    source = _SOURCE.format(
        name=name, T=dtype.name, F=NAMES[dtype.name], I=f"i{bits}", bits=bits, MR=high, NR=wide, VL=lanes,
        NV=wide // lanes, DEPTH=DEPTH, magnitude=(1 << (bits - 1)) - 1, infinity=largest,
    )  # fmt: skip
    return kernel_address(name, source)
