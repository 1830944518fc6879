"""Rows combined by row number, without atomics and in the order of the index: what scatters and segments are made of.

Row numbers are sorted stably, so that all updates of a row are a run. A block stages a tile of the sorted updates in
shared memory; its threads walk along short chunks of it and combine a run that lies in a chunk into its row at once. Of
a run that goes beyond the chunk the first or last part is left, at most two per chunk. These parts are again a sorted
sequence: the block goes on with them until two are left, which go to the next launch, with 1/16 of the updates or less.
So no thread has more to do than others, however long a run is, and a sum's order depends on sizes and rows alone.

Up to FEW updates need no sorting: the first thread of each row looks through them for the others.
"""

# Checklist of docs/design/cuda.md: all 15 hold; no atomics; registers <= 56, shared memory <= 40 KB (sm_90).

from __future__ import annotations

import math
from functools import cache

import numpy as np

from numbagrad.kernels.cpu.places import MODES
from numbagrad.kernels.cpu.segment import _COMBINES
from numbagrad.kernels.cuda import sums
from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.copy import contiguous
from numbagrad.kernels.cuda.kernel import THREADS, Kernel, blocks, index_type, kernel, short
from numbagrad.kernels.cuda.places import (
    check,
    division,
    division_types,
    fault,
    imports,
    pick_text,
    quotient_text,
    resolve,
    row_type,
)
from numbagrad.kernels.cuda.sort import argsort
from numbagrad.scalar.render import NAMES

FEW = THREADS  # updates from which on they are sorted
COLUMNS = 32  # of a row that a block takes at most: a warp reads them as one run

_OPERATION = '''@cuda.jit(device=True)
def merge(high, low, other_high, other_low):
    """Two parts of a row combined; `low` is for sums of float32."""
    a, v = high, other_high
    return {T}({combine}), low


@cuda.jit(device=True)
def total(high, low):
    """The row."""
    return high
'''

_FEW_TEXT = '''"""Few updates of {T} combined into rows by an index of {index}: {op}."""

import numpy as np
from numbagrad.kernels.cuda.frontend import {imports}


{operation}

{pick}{quotient}@cuda.jit
def {name}(x, index, out, bad, count, width, width_m, width_s, rows, mode):
    places = cuda.shared.array({few}, {K})
    t = {I}(cuda.threadIdx.x)
    if t < count:
        row = pick(index, t, rows, mode)
        places[t] = {K}(row)
        if row < 0 and mode == {RAISE}:
            bad[0] = 1
    cuda.syncthreads()
    e = {I}({I}(cuda.blockIdx.x) * {I}({few}) + t)
    if e < {I}(count * width):
        k = quotient(e, width, width_m, width_s)
        j = {I}(e - {I}(k * width))
        row = places[k]
        first = row >= 0
        m = {I}(0)
        while first and m < k:
            first = places[m] != row
            m = {I}(m + {I}(1))
        if first:
            high, low = {T}({value}), {T}(0)
            m = {I}(k + {I}(1))
            while m < count:
                if places[m] == row:
                    high, low = merge(high, low, {T}({value}), {T}(0))
                m = {I}(m + {I}(1))
            at = {I}({I}({I}(row) * width) + j)
            high, low = merge(out[at], {T}(0), high, low)
            out[at] = total(high, low)
'''

_TILES = '''"""Sorted updates of {T} combined into rows: {op}. A launch does one level, see kernels/cuda/runs.py.

At level 0, `order` names the updates in sorted order, line by line, and `rows` their rows; an update is {T} of `width`
columns. At later levels `x`, `low` and `rows` are what the level before has left.
"""

import numpy as np
from numbagrad.kernels.cuda.frontend import {imports}


{operation}

{quotient}@cuda.jit(device=True)
def padded(e, pad):
    """A place in shared memory: threads that walk along chunks side by side are on different banks."""
    return {I}(e + {I}((e >> {I}(5)) * pad))


@cuda.jit(device=True)
def update(rows, order, p, level, count, count_m, count_s, after, after_m, after_s, lines):
    """Which update is the p-th, and its row."""
    if level > 0:
        return p, rows[p]
    line = quotient(p, count, count_m, count_s)
    before = quotient(line, after, after_m, after_s)
    beside = {I}(line - {I}(before * after))
    q = {I}({I}({I}({I}(before * count) + {I}(order[p])) * after) + beside)
    row = rows[q]
    if row >= 0:
        row = {K}({I}({I}({I}(before * lines) + {I}(row)) * after) + beside)
    return q, row


@cuda.jit
def {name}(
    x, low, rows, order, out, next_x, next_low, next_rows, n, width, shift, column_blocks, level,
    count, count_m, count_s, after, after_m, after_s, lines,
):
    values = cuda.shared.array({room}, {T})
{shared_lows}    keys = cuda.shared.array({key_room}, {K})
    t = {I}(cuda.threadIdx.x)
    columns = {I}({I}(1) << shift)
    lanes = {I}({I}({threads}) >> shift)
    lane, column = {I}(t >> shift), {I}(t & {I}(columns - {I}(1)))
    pad = {I}(0) if columns > 8 else columns
    positions = {I}(lanes * {I}({each}))
    tile = {I}({I}(cuda.blockIdx.x) // column_blocks)
    j = {I}({I}({I}({I}(cuda.blockIdx.x) - {I}(tile * column_blocks)) << shift) + column)
    start = {I}(tile * positions)
    previous, following = {K}(-1), {K}(-1)
    if start > 0:
        previous = update(
            rows, order, {I}(start - {I}(1)), level, count, count_m, count_s, after, after_m, after_s, lines
        )[1]
    if {I}(start + positions) < n:
        following = update(
            rows, order, {I}(start + positions), level, count, count_m, count_s, after, after_m, after_s, lines
        )[1]

    # all loads before the first store
{loads}
{stores}
    cuda.syncthreads()

    m, walk_shift = positions, {I}({each_shift})
    while m > 2:
        walkers = {I}({I}(m + {I}({I}({I}(1) << walk_shift) - {I}(1))) >> walk_shift)
        first_row, last_row = {K}(-1), {K}(-1)
        first_high, first_low, last_high, last_low = {T}({start}), {T}(0), {T}({start}), {T}(0)
        if lane < walkers:
            p = {I}(lane << walk_shift)
            stop = {I}({I}(lane + {I}(1)) << walk_shift)
            stop = m if stop > m else stop
            row = keys[padded(p, {I}(1))]
            before = previous
            if p > 0:
                before = keys[padded({I}(p - {I}(1)), {I}(1))]
            behind = following
            if stop < m:
                behind = keys[padded(stop, {I}(1))]
            began = before == row  # in another chunk
            high, rest = {T}({start}), {T}(0)
            while p < stop:
                key = keys[padded(p, {I}(1))]
                if key != row:
                    # the run ends here
                    if began:
                        first_row, first_high, first_low = row, high, rest
                    elif row >= 0 and j < width:
                        at = {I}({I}({I}(row) * width) + j)
                        whole, error = merge(out[at], {T}(0), high, rest)
                        out[at] = total(whole, error)
                    began, row, high, rest = False, key, {T}({start}), {T}(0)
                e = padded({I}({I}(p << shift) + column), pad)
                high, rest = merge(high, rest, values[e], {low_of_e})
                p = {I}(p + {I}(1))
            if began:
                first_row, first_high, first_low = row, high, rest
                if behind == row:
                    last_row = row  # the run goes on; nothing of it is left to add
            elif behind == row:
                last_row, last_high, last_low = row, high, rest
            elif row >= 0 and j < width:
                at = {I}({I}({I}(row) * width) + j)
                whole, error = merge(out[at], {T}(0), high, rest)
                out[at] = total(whole, error)
        cuda.syncthreads()
        if lane < walkers:
            p = {I}(lane + lane)
            e = padded({I}({I}(p << shift) + column), pad)
            values[e] = first_high
{store_first_low}            e = padded({I}({I}({I}(p + {I}(1)) << shift) + column), pad)
            values[e] = last_high
{store_last_low}            if column == 0:
                keys[padded(p, {I}(1))] = first_row
                keys[padded({I}(p + {I}(1)), {I}(1))] = last_row
        cuda.syncthreads()
        m, walk_shift = {I}(walkers + walkers), {I}(3)

    if positions < n and lane < 2:
        e, at = padded({I}({I}(lane << shift) + column), pad), {I}({I}(tile + tile) + lane)
        if j == 0:
            next_rows[at] = keys[lane]
        if j < width:
            at = {I}({I}(at * width) + j)
            next_x[at] = values[e]
{next_lows}'''

_LAST_TEXT = '''"""Of the sorted updates of each row the last one, {T} of `width` columns, written."""

from numbagrad.kernels.cuda.frontend import {imports}


{quotient}@cuda.jit
def {name}(x, rows, order, out, n, width, width_m, width_s):
    e = {I}({I}(cuda.blockIdx.x) * {I}({threads}) + {I}(cuda.threadIdx.x))
    if e < {I}(n * width):
        p = quotient(e, width, width_m, width_s)
        j = {I}(e - {I}(p * width))
        m = {I}(order[p])
        row = rows[m]
        last = row >= 0
        if last and {I}(p + {I}(1)) < n:
            last = rows[order[{I}(p + {I}(1))]] != row
        if last:
            out[{I}({I}({I}(row) * width) + j)] = {value}
'''

_VALUE = {"number": "{T}(m)"}  # of update m in column j, where it is no element of x
_SET = ("set", "number")  # operations of which the last update wins


def bare(dtype: np.dtype) -> np.dtype:
    """The type in which a kernel computes: bytes for bools."""
    return np.dtype(np.uint8) if dtype.kind == "b" else dtype


def _in_pairs(op: str, dtype: np.dtype) -> bool:
    return op == "sum" and dtype.name in ("float32", "complex64")


def _operation(op: str, dtype: np.dtype) -> str:
    if op == "sum":
        return sums.text(dtype)
    combine = {"or": "a | v", "and": "a & v", **dict.fromkeys(_SET, "v")}.get(op) or _COMBINES[op]
    return _OPERATION.format(T=dtype.name, combine=combine)


def neutral(op: str, dtype: np.dtype) -> float:
    """What an empty row is."""
    if op in ("max", "min"):
        if dtype.kind == "f":
            return -np.inf if op == "max" else np.inf
        info = np.iinfo(dtype)
        return int(info.min if op == "max" else info.max)
    return 1 if op in ("prod", "and") else 0


def _value(op: str, index: str, t: str) -> str:
    x = "x[{I}({I}(m * width) + j)]"
    return _VALUE.get(op, x).format(I=index, T=t)


@cache
def _few_kernel(op: str, dtype: np.dtype, index: np.dtype, key: np.dtype, i: str) -> Kernel:
    t, n = NAMES[dtype.name], NAMES[index.name]
    name = f"few_{op}_{t}_{n}" + ("" if i == "uint32" else "_large")
    text = _FEW_TEXT.format(
        name=name,
        op=op,
        T=dtype.name,
        K=key.name,
        I=i,
        index=index.name,
        few=FEW,
        operation=_operation(op, dtype),
        pick=pick_text(index),
        quotient=quotient_text(i),
        value=_value(op, i, dtype.name),
        imports=imports(dtype.name, key.name, i),
        RAISE=MODES["raise"],
    )
    signature = [f"{t}*", f"{n}*", f"{t}*", "i64*", short(i), *division_types(i), "i64", "i32"]
    return kernel(name, text, signature)


def _each(op: str, dtype: np.dtype, key: np.dtype) -> int:
    """Updates that a thread stages: as many as leave room for several blocks in the shared memory."""
    return 8 if dtype.itemsize * (1 + _in_pairs(op, dtype)) + key.itemsize <= 16 else 4


@cache
def _tiles_kernel(op: str, dtype: np.dtype, key: np.dtype, i: str) -> Kernel:
    t, k, each, pairs = NAMES[dtype.name], NAMES[key.name], _each(op, dtype, key), _in_pairs(op, dtype)
    name = f"runs_{op}_{t}_{k}" + ("" if i == "uint32" else "_large")
    start, positions = repr(neutral(op, dtype)).replace("inf", "np.inf"), THREADS * each
    room = positions + 8 * positions // 32
    loads, stores = _staging(each, pairs, dtype.name, key.name, i, start)
    text = _TILES.format(
        name=name,
        op=op,
        T=dtype.name,
        K=key.name,
        I=i,
        operation=_operation(op, dtype),
        quotient=quotient_text(i),
        imports=imports(dtype.name, key.name, i),
        threads=THREADS,
        each=each,
        each_shift=each.bit_length() - 1,
        start=start,
        room=room,
        key_room=positions + positions // 32,
        shared_lows=f"    lows = cuda.shared.array({room}, {dtype.name})\n" if pairs else "",
        low_of_e="lows[e]" if pairs else f"{dtype.name}(0)",
        store_first_low="            lows[e] = first_low\n" if pairs else "",
        store_last_low="            lows[e] = last_low\n" if pairs else "",
        next_lows="            next_low[at] = lows[e]\n" if pairs else "",
        loads=loads,
        stores=stores,
    )
    pointers = [f"{t}*", f"{t}*", f"{k}*", "i64*", f"{t}*", f"{t}*", f"{t}*", f"{k}*"]
    numbers = [short(i)] * 4 + ["i32", *division_types(i), *division_types(i), short(i)]
    return kernel(name, text, [*pointers, *numbers])


def _staging(each: int, pairs: bool, t: str, k: str, i: str, start: str) -> tuple[str, str]:
    """Lines that load what a thread stages, and lines that store it."""
    line = "count, count_m, count_s, after, after_m, after_s, lines"
    loads, stores = [], []
    for u in range(each):
        loads += [
            f"    p = {i}({i}(start + lane) + {i}(lanes * {i}({u})))",
            f"    q{u}, key{u}, value{u}, low{u} = p, {k}(-1), {t}({start}), {t}(0)",
            "    if p < n:",
            f"        q{u}, key{u} = update(rows, order, p, level, {line})",
        ]
    for u in range(each):
        loads += [
            f"    if key{u} >= 0 and j < width:",
            f"        value{u} = x[{i}({i}(q{u} * width) + j)]",
        ]
        if pairs:
            loads += ["        if level > 0:", f"            low{u} = low[{i}({i}(q{u} * width) + j)]"]
    for u in range(each):
        stores += [
            f"    p = {i}(lane + {i}(lanes * {i}({u})))",
            f"    e = padded({i}({i}(p << shift) + column), pad)",
            f"    values[e] = value{u}",
            *([f"    lows[e] = low{u}"] if pairs else []),
            "    if column == 0:",
            f"        keys[padded(p, {i}(1))] = key{u}",
        ]
    return "\n".join(loads), "\n".join(stores)


@cache
def _last_kernel(op: str, dtype: np.dtype, key: np.dtype, i: str) -> Kernel:
    t, k = NAMES[dtype.name], NAMES[key.name]
    name = f"last_{op}_{t}" + ("" if i == "uint32" else "_large")
    text = _LAST_TEXT.format(
        name=name,
        T=dtype.name,
        I=i,
        quotient=quotient_text(i),
        value=_value(op, i, dtype.name),
        imports=imports(dtype.name, i),
        threads=THREADS,
    )
    return kernel(name, text, [f"{t}*", f"{k}*", "i64*", f"{t}*", short(i), *division_types(i)])


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
            few = _few_kernel(op, out.dtype, self.index.dtype, key, i)
            bad = fault(self.name, self.mode, self.index)
            numbers = (self.count, *division(width, i), self.rows, MODES[self.mode])
            device.launch(few, blocks(self.count * width, FEW), FEW, x, self.index, out, bad, *numbers)
        elif op in _SET:
            last = _last_kernel(op, out.dtype, key, i)
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
    made = _tiles_kernel(op, dtype, key, i)
    shift = (min(COLUMNS, width) - 1).bit_length()
    positions = (THREADS >> shift) * _each(op, dtype, key)
    column_blocks = blocks(width, 1 << shift)
    divisions = (*division(count, i), *division(after, i), lines)
    low, level = x, 0
    while True:
        tiles = blocks(n, positions)
        next_x, next_low, next_rows = x, low, rows
        if tiles > 1:
            next_x, next_rows = device.empty((2 * tiles * width,), dtype), device.empty((2 * tiles,), key)
            next_low = device.empty((2 * tiles * width,), dtype) if _in_pairs(op, dtype) else next_x
        numbers = (n, width, shift, column_blocks, level, *divisions)
        grid = tiles * column_blocks
        device.launch(made, grid, THREADS, x, low, rows, order, out, next_x, next_low, next_rows, *numbers)
        if tiles == 1:
            return
        x, low, rows, n, level = next_x, next_low, next_rows, 2 * tiles, 1


def width_of(shape: tuple[int, ...]) -> int:
    """Elements of a row."""
    return math.prod(shape[1:])
