"""Matrix products: by tiles, result by result, or by cuBLAS where it is installed.

What a product does follows from shapes, strides and types alone, and is kept: a plan. Matrices are read through their
strides, so a transposed operand needs no copy.
"""

# Checklist of docs/design/cuda.md: all 15 hold.

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from numbagrad.kernels.cuda import cublas, gemm
from numbagrad.kernels.cuda.buffer import Buffer, contiguous_strides
from numbagrad.kernels.cuda.copy import copied
from numbagrad.kernels.cuda.gemm import TILES, Tile, accumulator
from numbagrad.kernels.cuda.kernel import THREADS, Kernel, blocks, index_type

Axes = tuple[int, ...]
Strides = tuple[int, ...]

BUSY = 128  # blocks from which on a GPU has enough to do: an H200 has 132 multiprocessors
SPLIT_BLOCKS = 512  # blocks that a product cut along its depth aims at
SHORTEST = 256  # products of a piece of a tile
FEW = 64  # results of a matrix from which on tiles pay
PIECES = 1024  # of a sum of products, at most
SERIAL = 32  # pieces that one thread adds up


def dot_general(
    x: Buffer, y: Buffer, *, contract: tuple[Axes, Axes], batch: tuple[Axes, Axes], absorbs: Axes = ()
) -> Buffer:
    """Result axes: batch, free of x, free of y."""
    plan = _plan(x.dtype, x.shape, x.strides, y.dtype, y.shape, y.strides, contract, batch, absorbs)
    device = x.device
    out = device.empty(plan.shape, plan.dtype)
    if not out.size:
        return out
    if plan.depth == 0:
        return device.zeros(plan.shape, plan.dtype)
    if plan.x_order is not None:
        x = copied(x.view(*_ordered(x.shape, x.strides, plan.x_order)))
    if plan.y_order is not None:
        y = copied(y.view(*_ordered(y.shape, y.strides, plan.y_order)))
    if plan.library is not None and cublas.usable(device):
        cublas.product(device, x, y, out, plan.library)
        if plan.mend is not None:
            device.launch(plan.mend, blocks(out.size), THREADS, x, y, out, out, *plan.mend_arguments)
        return out
    if plan.last is None:
        device.launch(plan.kernel, plan.grid, plan.block, x, y, out, *plan.arguments)
        return out
    parts = device.empty((plan.pieces, out.size), plan.acc)
    device.launch(plan.kernel, plan.grid, plan.block, x, y, parts, *plan.arguments)
    device.launch(plan.last, plan.last_grid, THREADS, x, y, parts, out, *plan.last_arguments)
    return out


class Plan:
    """How a product is done. `x_order`: the axes' order in which an operand has to be copied first, or None."""

    shape: tuple[int, ...]
    dtype: np.dtype
    acc: np.dtype
    depth: int
    x_order: Axes | None
    y_order: Axes | None
    kernel: Kernel
    grid: Any
    block: int
    arguments: tuple[int, ...]
    pieces: int
    last: Kernel | None
    last_grid: int
    last_arguments: tuple[int, ...]
    library: cublas.Call | None
    mend: Kernel | None
    mend_arguments: tuple[int, ...]


def _ordered(shape: Sequence[int], strides: Sequence[int], order: Axes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(shape[k] for k in order), tuple(strides[k] for k in order)


class _Side:
    """One operand: its axes in three groups, and how they lie."""

    def __init__(self, dtype: np.dtype, shape: Axes, strides: Strides, batch: Axes, contract: Axes) -> None:
        self.shape, self.strides, self.item = shape, strides, dtype.itemsize
        self.batch, self.contract = batch, contract
        self.free = tuple(k for k in range(len(shape)) if k not in contract and k not in batch)
        # strides are counted in elements and unsigned
        self.readable = all(s >= 0 and s % self.item == 0 for s, n in zip(strides, shape, strict=True) if n != 1)

    def step(self, axes: Sequence[int]) -> int | None:
        """Bytes from one element of some axes, taken as one, to the next; None if they are not one."""
        found = merged([self.shape[k] for k in axes], [[self.strides[k] for k in axes]])
        return None if len(found) > 1 else found[0][1][0]

    def copy(self, contract: Axes) -> tuple[Axes, _Side]:
        """The order of axes in which a copy is readable, and the copy."""
        order = (*self.batch, *self.free, *contract)
        shape = tuple(self.shape[k] for k in order)
        place = {k: j for j, k in enumerate(order)}
        moved = [tuple(place[k] for k in axes) for axes in (self.batch, contract)]
        dtype = np.dtype(f"V{self.item}")
        return order, _Side(dtype, shape, contiguous_strides(shape, self.item), *moved)


def merged(shape: Sequence[int], rows: Sequence[Sequence[int]]) -> list[tuple[int, list[int]]]:
    """Axes as (length, strides of every operand), neighbours that are one run in all operands merged."""
    found: list[tuple[int, list[int]]] = []
    for axis, n in enumerate(shape):
        steps = [row[axis] for row in rows]
        if n == 1:
            continue
        if found and all(a == n * b for a, b in zip(found[-1][1], steps, strict=True)):
            found[-1] = found[-1][0] * n, steps
        else:
            found.append((n, steps))
    return found or [(1, [0] * len(rows))]


def _batches(x: _Side, y: _Side) -> list[tuple[int, list[int]]]:
    return merged([x.shape[k] for k in x.batch], [[s.strides[k] for k in s.batch] for s in (x, y)])


def _layout(x: _Side, y: _Side) -> tuple[Axes | None, Axes | None, _Side, _Side]:
    """Both operands readable as batches of matrices: which have to be copied, and what they are then."""
    pairs = list(zip(x.contract, y.contract, strict=True))
    orders = [sorted(pairs, key=lambda p, s=s, k=k: -s.strides[p[k]]) for k, s in enumerate((x, y))]  # type: ignore[misc]
    best: tuple[Axes | None, Axes | None, _Side, _Side] | None = None
    for order in (pairs, *orders):
        axes = tuple(p[0] for p in order), tuple(p[1] for p in order)
        found: list[Any] = []
        for side, contract in zip((x, y), axes, strict=True):
            good = side.readable and side.step(side.free) is not None and side.step(contract) is not None
            kept = _Side(np.dtype(f"V{side.item}"), side.shape, side.strides, side.batch, contract)
            found.append((None, kept) if good else side.copy(contract))
        if best is None or sum(f[0] is not None for f in found) < sum(b is not None for b in best[:2]):
            best = found[0][0], found[1][0], found[0][1], found[1][1]
    assert best is not None
    x_order, y_order, x, y = best
    for all_of_them in (False, True):  # a copy's batch is one run
        if len(_batches(x, y)) > 2 and x_order is None and (all_of_them or x.step(x.batch) is None):
            x_order, x = x.copy(x.contract)
        if len(_batches(x, y)) > 2 and y_order is None and (all_of_them or y.step(y.batch) is None):
            y_order, y = y.copy(y.contract)
    return x_order, y_order, x, y


@lru_cache(maxsize=4096)
def _plan(
    x_dtype: np.dtype,
    x_shape: Axes,
    x_strides: Strides,
    y_dtype: np.dtype,
    y_shape: Axes,
    y_strides: Strides,
    contract: tuple[Axes, Axes],
    batch: tuple[Axes, Axes],
    absorbs: Axes,
) -> Plan:
    plan = Plan()
    plan.dtype = np.result_type(x_dtype, y_dtype)
    plan.acc = accumulator(plan.dtype)
    plan.last = plan.library = plan.mend = None
    x = _Side(x_dtype, x_shape, x_strides, batch[0], contract[0])
    y = _Side(y_dtype, y_shape, y_strides, batch[1], contract[1])
    lengths = [[side.shape[k] for k in axes] for side, axes in ((x, x.batch), (x, x.free), (y, y.free))]
    plan.shape = tuple(n for group in lengths for n in group)
    plan.depth = math.prod(x_shape[k] for k in x.contract)
    if math.prod(plan.shape) == 0 or plan.depth == 0:
        return plan
    plan.x_order, plan.y_order, x, y = _layout(x, y)
    problem = Problem(x, y, [math.prod(group) for group in lengths], plan.depth)
    mask = (1 * (0 in absorbs) + 2 * (1 in absorbs)) if plan.dtype.kind in "fc" else 0
    types = x_dtype, y_dtype, plan.dtype
    tile = None if problem.thin else problem.tile(TILES.get(plan.acc.itemsize, TILES[8]))
    if tile is None:
        _by_dots(plan, problem, types, mask)
    else:
        _by_tiles(plan, problem, types, mask, tile)
    if x_dtype == y_dtype:
        plan.library = cublas.call(problem, plan.dtype)
    if plan.library is not None and mask:
        # the "sum" of one piece, which takes results that are not finite again
        index = index_type(*problem.reach, problem.results)
        plan.mend = gemm.finish_kernel(1, types, plan.acc, index)
        plan.mend_arguments = problem.finish_arguments(1, mask)
    return plan


class Problem:
    """A batch of products of matrices; strides in elements."""

    def __init__(self, x: _Side, y: _Side, sizes: Sequence[int], depth: int) -> None:
        self.batches, self.rows, self.columns = sizes
        self.depth = depth
        self.results = math.prod(sizes)
        found = _batches(x, y)
        found = [(1, [0, 0])] * (2 - len(found)) + found
        self.inner = found[1][0]
        self.steps = [s // side.item for side, k in ((x, 0), (y, 1)) for s in (found[0][1][k], found[1][1][k])]
        sides = ((x, x.free), (x, x.contract), (y, y.contract), (y, y.free))
        self.x_row, self.x_step, self.y_step, self.y_column = (
            (side.step(axes) or 0) // side.item for side, axes in sides
        )
        self.reach = [1 + sum((n - 1) * s for n, s in zip(side.shape, side.strides, strict=True)) // side.item
                      for side in (x, y)]  # fmt: skip

    @property
    def thin(self) -> bool:
        """Whether tiles would be mostly empty: matrices by vectors, and tiny ones."""
        return self.rows == 1 or self.columns == 1 or self.rows * self.columns <= FEW

    def tile(self, tiles: Sequence[Tile]) -> Tile:
        """The largest tile that gives a GPU enough to do and does not lie half outside the matrix."""
        for tile in tiles[:-1]:
            full = -(-self.rows // tile.rows) * tile.rows * -(-self.columns // tile.columns) * tile.columns
            count = self.tiles(tile) * max(1, min(16, self.depth // (2 * SHORTEST)))
            if count >= BUSY and 2 * full <= 3 * self.rows * self.columns:
                return tile
        return tiles[-1]

    def tiles(self, tile: Tile) -> int:
        """How many there are."""
        return self.batches * -(-self.rows // tile.rows) * -(-self.columns // tile.columns)

    @property
    def layout(self) -> tuple[int, ...]:
        """Arguments of every kernel: the batch, then the strides."""
        return (self.inner, *self.steps, self.x_row, self.x_step, self.y_step, self.y_column)

    def finish_arguments(self, pieces: int, mask: int) -> tuple[int, ...]:
        """Of the kernel that adds up pieces."""
        return (self.results, pieces, self.rows, self.columns, self.depth, *self.layout, mask)

    @property
    def lanes(self) -> int:
        """Threads a result, where tiles do not pay: neighbouring threads read neighbours in memory."""
        step, line = (self.x_step, self.x_row) if self.rows >= self.columns else (self.y_step, self.y_column)
        single = self.rows == self.columns == 1
        if self.depth < 32 or (step > line and not (single and (step == 1 or self.batches == 1))):
            return 1
        return THREADS if self.depth > 2048 and self.results * 32 < THREADS * BUSY else 32


def _split(plan: Plan, problem: Problem, types: gemm.Types, index: str, mask: int, pieces: int) -> None:
    """Sums of pieces first, then their sum."""
    plan.pieces = pieces
    lanes = 1 if pieces <= SERIAL else 32
    plan.last = gemm.finish_kernel(lanes, types, plan.acc, index)
    plan.last_grid = blocks(problem.results * lanes)
    plan.last_arguments = problem.finish_arguments(pieces, mask)


def _pieces(depth: int, wanted: int, shortest: int, multiple: int) -> tuple[int, int]:
    """Number and length of the pieces of a depth."""
    length = -(-depth // max(1, min(wanted, depth // shortest)))
    length = -(-length // multiple) * multiple
    return -(-depth // length), length


def _by_tiles(plan: Plan, problem: Problem, types: gemm.Types, mask: int, tile: Tile) -> None:
    count = problem.tiles(tile)
    pieces, length = _pieces(problem.depth, SPLIT_BLOCKS // count if count < SPLIT_BLOCKS // 2 else 1,
                             SHORTEST, tile.depth)  # fmt: skip
    index = index_type(*problem.reach, pieces * problem.results)
    x, y, out = types
    if pieces > 1:
        _split(plan, problem, types, index, mask, pieces)
        out, mask = plan.acc, 0
    plan.kernel = gemm.tile_kernel(tile, (x, y, out), plan.acc, index)
    plan.grid, plan.block = count * pieces, tile.threads
    plan.arguments = (
        *(problem.rows, problem.columns, problem.depth, length, pieces),
        *(-(-problem.rows // tile.rows), -(-problem.columns // tile.columns), problem.batches),
        *problem.layout,
        *(int(problem.x_step < problem.x_row), int(problem.y_step < problem.y_column), mask),
    )


def _by_dots(plan: Plan, problem: Problem, types: gemm.Types, mask: int) -> None:
    lanes = problem.lanes
    count = blocks(problem.results * lanes)
    pieces, length = _pieces(problem.depth, max(1, min(PIECES // count, PIECES)), 64 if lanes == 1 else 32 * lanes, 4)
    index = index_type(*problem.reach, pieces * problem.results, problem.results * lanes)
    x, y, out = types
    if pieces > 1:
        _split(plan, problem, types, index, mask, pieces)
        out, mask = plan.acc, 0
    plan.kernel = gemm.dots_kernel(lanes, (x, y, out), plan.acc, index)
    plan.grid, plan.block = (count, pieces), THREADS
    plan.arguments = (
        *(problem.results, problem.rows, problem.columns, problem.depth, length),
        *problem.layout,
        mask,
    )
