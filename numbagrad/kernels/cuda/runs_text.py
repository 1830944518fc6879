"""Texts of the kernels that combine rows, see runs.py: few updates, tiles of sorted ones, and the last of each row.

At level 0 a tile's updates are named by `order`; later levels go on with what the blocks before have left, in place.
"""

# Checklist of docs/design/cuda.md: walked together with runs.py, which says the result.

from __future__ import annotations

from functools import cache

import numpy as np

from numbagrad.kernels.cpu.places import MODES
from numbagrad.kernels.cpu.segment import _COMBINES
from numbagrad.kernels.cuda import sums
from numbagrad.kernels.cuda.kernel import THREADS, Kernel, kernel, short
from numbagrad.kernels.cuda.places import division_types, imports, pick_text, quotient_text
from numbagrad.scalar.render import NAMES

FEW = THREADS  # updates from which on they are sorted

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
def lines_of(p, count, count_m, count_s, after, after_m, after_s):
    """Which line the p-th update is of: how many blocks of lines abreast lie before it, and its place abreast."""
    line = quotient(p, count, count_m, count_s)
    before = quotient(line, after, after_m, after_s)
    return before, {I}(line - {I}(before * after))


@cuda.jit(device=True)
def update(order, p, count, count_m, count_s, after, after_m, after_s):
    """Which update is the p-th."""
    before, beside = lines_of(p, count, count_m, count_s, after, after_m, after_s)
    return {I}({I}({I}({I}(before * count) + {I}(order[p])) * after) + beside)


@cuda.jit(device=True)
def row_of(row, p, count, count_m, count_s, after, after_m, after_s, lines):
    """The row among those of all lines."""
    before, beside = lines_of(p, count, count_m, count_s, after, after_m, after_s)
    return {K}({I}({I}({I}(before * lines) + {I}(row)) * after) + beside) if row >= 0 else {K}(-1)


@cuda.jit(device=True)
def key_of(rows, order, p, level, count, count_m, count_s, after, after_m, after_s, lines):
    """The row of the p-th update."""
    if level > 0:
        return rows[p]
    row = rows[update(order, p, count, count_m, count_s, after, after_m, after_s)]
    return row_of(row, p, count, count_m, count_s, after, after_m, after_s, lines)


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
        p = {I}(start - {I}(1))
        previous = key_of(rows, order, p, level, count, count_m, count_s, after, after_m, after_s, lines)
    if {I}(start + positions) < n:
        p = {I}(start + positions)
        following = key_of(rows, order, p, level, count, count_m, count_s, after, after_m, after_s, lines)

    # all loads before the first store, and without branches: beyond the end and the last column is something, unused
    inside = j if j < width else {I}(width - {I}(1))
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
LAST_WINS = ("set", "number")  # operations of which the last update wins


def bare(dtype: np.dtype) -> np.dtype:
    """The type in which a kernel computes: bytes for bools."""
    return np.dtype(np.uint8) if dtype.kind == "b" else dtype


def in_pairs(op: str, dtype: np.dtype) -> bool:
    return op == "sum" and dtype.name in ("float32", "complex64")


def _operation(op: str, dtype: np.dtype) -> str:
    if op == "sum":
        return sums.text(dtype)
    combine = {"or": "a | v", "and": "a & v", **dict.fromkeys(LAST_WINS, "v")}.get(op) or _COMBINES[op]
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
def few_kernel(op: str, dtype: np.dtype, index: np.dtype, key: np.dtype, i: str) -> Kernel:
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


def staged(op: str, dtype: np.dtype, key: np.dtype) -> int:
    """Updates that a thread stages: as many as leave room for several blocks in the shared memory."""
    return 8 if dtype.itemsize * (1 + in_pairs(op, dtype)) + key.itemsize <= 16 else 4


@cache
def tiles_kernel(op: str, dtype: np.dtype, key: np.dtype, i: str) -> Kernel:
    t, k, each, pairs = NAMES[dtype.name], NAMES[key.name], staged(op, dtype, key), in_pairs(op, dtype)
    name = f"runs_{op}_{t}_{k}" + ("" if i == "uint32" else "_large")
    start, positions = repr(neutral(op, dtype)).replace("inf", "np.inf"), THREADS * each
    room = positions + 8 * positions // 32
    loads, stores = _staging(each, pairs, dtype.name, key.name, i)
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


def _staging(each: int, pairs: bool, t: str, k: str, i: str) -> tuple[str, str]:
    """Lines that load what a thread stages, and lines that store it."""
    line = "count, count_m, count_s, after, after_m, after_s"
    units = range(each)
    loads = []
    for u in units:
        loads += [
            f"    p{u} = {i}({i}(start + lane) + {i}(lanes * {i}({u})))",
            f"    q{u} = p{u} if p{u} < n else {i}(n - {i}(1))",
        ]
    loads.append("    if level > 0:")
    loads += [f"        key{u} = rows[q{u}]" for u in units]
    loads.append("    else:")
    loads += [f"        at{u} = update(order, q{u}, {line})" for u in units]
    loads += [f"        row{u} = rows[at{u}]" for u in units]
    loads += [f"        key{u}, q{u} = row_of(row{u}, q{u}, {line}, lines), at{u}" for u in units]
    loads += [f"    value{u} = x[{i}({i}(q{u} * width) + inside)]" for u in units]
    if pairs:
        loads.append(f"    {' = '.join(f'low{u}' for u in units)} = {t}(0)")
        loads.append("    if level > 0:")
        loads += [f"        low{u} = low[{i}({i}(q{u} * width) + inside)]" for u in units]
    stores = []
    for u in units:
        stores += [
            f"    p = {i}(lane + {i}(lanes * {i}({u})))",
            f"    e = padded({i}({i}(p << shift) + column), pad)",
            f"    values[e] = value{u}",
            *([f"    lows[e] = low{u}"] if pairs else []),
            "    if column == 0:",
            f"        keys[padded(p, {i}(1))] = key{u} if p{u} < n else {k}(-1)",
        ]
    return "\n".join(loads), "\n".join(stores)


@cache
def last_kernel(op: str, dtype: np.dtype, key: np.dtype, i: str) -> Kernel:
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
