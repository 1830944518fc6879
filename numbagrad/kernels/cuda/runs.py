"""Rows combined by row number, without atomics and in the order of the index: what scatters and segments are made of.

Row numbers are sorted stably, so that all updates of a row are a run. A block stages a tile of the sorted updates in
shared memory; its threads walk along short chunks of it and combine a run that lies in a chunk into its row at once. Of
a run that goes beyond the chunk the first or last part is left, at most two per chunk. These parts are again a sorted
sequence: the block goes on with them until two are left, which go to the next launch, with 1/16 of the updates or less.
So no thread has more to do than others, however long a run is, and a sum's order depends on sizes and rows alone.

Up to FEW updates need no sorting: the first thread of each row looks through them for the others.
"""

# Checklist of docs/design/cuda.md: all 15 hold; no atomics; registers <= 48 (sm_90; large twins <= 96).

from __future__ import annotations

import math

from numbagrad.kernels.cpu.places import MODES
from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.copy import contiguous
from numbagrad.kernels.cuda.kernel import THREADS, blocks, index_type
from numbagrad.kernels.cuda.places import check, division, fault, resolve, row_type
from numbagrad.kernels.cuda.runs_text import FEW, LAST_WINS, few_kernel, in_pairs, last_kernel, staged, tiles_kernel
from numbagrad.kernels.cuda.sort import argsort

COLUMNS = 32  # of a row that a block takes at most: a warp reads them as one run; there must be two lanes or more


class Runs:
    """An index resolved, and sorted if it is long, to combine updates by: `into` may be called several times."""

    def __init__(self, index: Buffer, rows: int, mode: str, name: str) -> None:
        self.index, self.rows, self.mode, self.name = contiguous(index), rows, mode, name
        self.count = index.size
        if self.count > FEW:
            self.places = resolve(self.index, rows, mode, name)
            self.order = argsort(self.places, axis=0)

    def into(self, op: str, out: Buffer, x: Buffer, width: int) -> None:
        """Rows of x combined into the rows of `out`, both in C order: sum, prod, max, min, or, and, set, number."""
        if out.size == 0 or self.count == 0:
            check(self.index, self.rows, self.mode, self.name)
            return
        x = contiguous(x)
        device, key = out.device, row_type(self.rows)
        i = index_type(out.size, self.count * width)
        if self.count <= FEW:
            few = few_kernel(op, out.dtype, self.index.dtype, key, i)
            bad = fault(self.name, self.mode, self.index)
            numbers = (self.count, *division(width, i), self.rows, MODES[self.mode])
            device.launch(few, blocks(self.count * width, FEW), FEW, x, self.index, out, bad, *numbers)
        elif op in LAST_WINS:
            last = last_kernel(op, out.dtype, key, i)
            grid = blocks(self.count * width)
            device.launch(last, grid, THREADS, x, self.places, self.order, out, self.count, *division(width, i))
        else:
            combine_sorted(op, out, x, self.places, self.order, width)


def combine_sorted(
    op: str,
    out: Buffer,
    x: Buffer,
    rows: Buffer,
    order: Buffer,
    width: int,
    line: tuple[int, int, int] | None = None,
) -> None:
    """Updates combined into rows, level by level.

    `order` names updates of a line in the order of their rows. `line` is (updates of a line, lines abreast, rows of a
    line), where there is more than one.
    """
    n, device, dtype = order.size, out.device, out.dtype
    count, after, lines = line or (n, 1, 0)
    i, key = index_type(out.size, x.size, n), rows.dtype
    made = tiles_kernel(op, dtype, key, i)
    shift = (min(COLUMNS, width) - 1).bit_length()
    positions = (THREADS >> shift) * staged(op, dtype, key)
    column_blocks = blocks(width, 1 << shift)
    divisions = (*division(count, i), *division(after, i), lines)
    low, level = x, 0
    while True:
        tiles = blocks(n, positions)
        next_x, next_low, next_rows = x, low, rows
        if tiles > 1:
            next_x, next_rows = device.empty((2 * tiles * width,), dtype), device.empty((2 * tiles,), key)
            next_low = device.empty((2 * tiles * width,), dtype) if in_pairs(op, dtype) else next_x
        numbers = (n, width, shift, column_blocks, level, *divisions)
        grid = tiles * column_blocks
        device.launch(made, grid, THREADS, x, low, rows, order, out, next_x, next_low, next_rows, *numbers)
        if tiles == 1:
            return
        x, low, rows, n, level = next_x, next_low, next_rows, 2 * tiles, 1


def width_of(shape: tuple[int, ...]) -> int:
    """Elements of a row."""
    return math.prod(shape[1:])
