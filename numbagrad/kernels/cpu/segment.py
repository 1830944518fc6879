"""Rows combined by segment: sum, prod, max, min, and the shares of those that are the extremum.

The rows are cut into a fixed number of pieces, and every piece combines its rows into a table of its own; the tables
are then combined in the order of the pieces. No two threads share a table, and nothing depends on their number. float32
is accumulated in float64. Where a table would be large against the rows there is one piece, and threads take columns.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from numbagrad.kernels.cpu import jobs, pool
from numbagrad.kernels.cpu.compiler import kernel_address
from numbagrad.kernels.cpu.copy import contiguous
from numbagrad.kernels.cpu.places import MODES, PLACE, readable, refuse
from numbagrad.scalar.render import NAMES

PIECES = 8
COLUMNS = 256  # a thread takes at a time where there is one piece

_HEADER = '''"""{doc}"""

from numba import int64, njit{types}
from numbagrad.kernels.cpu.abi import {pointers}


'''

# A run is one piece of the rows and a block of n columns.
_COMBINE = """def {name}(n, ptrs, strides):
    table, x, ids, piece, bad = {A}(ptrs, 0), {t}(ptrs, 1), {i}(ptrs, 2), i64(ptrs, 3), i64(ptrs, 4)
    count, size, width, rows, mode = strides[5], strides[6], strides[7], strides[8], strides[9]
    first = piece[0] * size
    last = min(count, first + size)
    if width == 1:
        for r in range(rows):
            table[r] = {T}({start})
        base = first
        while base < last:
            stop = min(base + 512, last)
            outside = 0
            for k in range(base, stop):
                r = int64(ids[k])
                outside |= r | (rows - 1 - r)  # its sign
            if outside >= 0:
                whole = base + (stop - base) // {unroll} * {unroll}
                for k in range(base, whole, {unroll}):
{unrolled}
                for k in range(whole, stop):
                    r = ids[k]
                    a, v = table[r], {T}(x[k])
                    table[r] = {combine}
            else:
                for k in range(base, stop):
                    r = int64(ids[k])
                    if not ((r >= 0) & (r < rows)):
                        r = elsewhere(r, rows, mode)
                        if r < 0:
                            bad[0] = 1
                            continue
                    a, v = table[r], {T}(x[k])
                    table[r] = {combine}
            base = stop
    else:
        for r in range(rows):
            for j in range(n):
                table[r * width + j] = {T}({start})
        for k in range(first, last):
            r = int64(ids[k])
            if not ((r >= 0) & (r < rows)):
                r = elsewhere(r, rows, mode)
                if r < 0:
                    bad[0] = 1
                    continue
            to, start = r * width, k * width
            for j in range(n):
                a, v = table[to + j], {T}(x[start + j])
                table[to + j] = {combine}
"""

UNROLL = 4  # what is added is loaded before anything is stored, which might be it: a fifth faster
_LOADS = "                    r{j}, v{j} = ids[k + {j}], {T}(x[k + {j}])"
_STORES = """                    a, v = table[r{j}], v{j}
                    table[r{j}] = {combine}"""

_TABLES = """def {name}(n, ptrs, strides):
    table, out = {A}(ptrs, 0), {t}(ptrs, 1)
    pieces, size = strides[2], strides[3]
    for r in range(n):
        a = table[r]
        for p in range(1, pieces):
            v = table[p * size + r]
            a = {combine}
        out[r] = {O}(a)
"""

_SHARES = """def {name}(n, ptrs, strides):
    # 1 where an element is its segment's extremum, and how many are
    table, x, ids, piece, best, out = i64(ptrs, 0), {t}(ptrs, 1), {i}(ptrs, 2), i64(ptrs, 3), {t}(ptrs, 4), {t}(ptrs, 5)
    count, size, width, rows, mode = strides[6], strides[7], strides[8], strides[9], strides[10]
    first = piece[0] * size
    last = min(count, first + size)
    for r in range(rows):
        for j in range(n):
            table[r * width + j] = 0
    if width == 1:
        for k in range(first, last):
            r = int64(ids[k])
            if not ((r >= 0) & (r < rows)):
                r = elsewhere(r, rows, mode)
                if r < 0:
                    out[k] = {T}(0)
                    continue
            v, m = x[k], best[r]
            out[k] = {T}(0)
            if (v < m) | (v > m):  # nearly all
                continue
            if (v == m) | ((v != v) & (m != m)):
                out[k] = {T}(1)
                table[r] += 1
        return
    for k in range(first, last):
        r = int64(ids[k])
        if not ((r >= 0) & (r < rows)):
            r = elsewhere(r, rows, mode)
        to, start = r * width, k * width
        for j in range(n):
            hit = False
            if r >= 0:
                v, m = x[start + j], best[to + j]
                hit = (v == m) | ((v != v) & (m != m))
            out[start + j] = {T}(1) if hit else {T}(0)
            if hit:
                table[to + j] += 1
"""

_DIVIDE = """def {name}(n, ptrs, strides):
    # shares of those that are several
    ids, share, ties = {i}(ptrs, 0), {t}(ptrs, 1), i64(ptrs, 2)
    width, rows, mode = strides[3], strides[4], strides[5]
    for k in range(n):
        r = int64(ids[k])
        if not ((r >= 0) & (r < rows)):
            r = elsewhere(r, rows, mode)
        for j in range(width):
            if share[k * width + j] != 0:
                share[k * width + j] = {T}(1) / {T}(ties[r * width + j])
"""

_ORDER = """def {name}(n, ptrs, strides):
    # counting sort: rows in the order of their segments; those that are dropped are left out
    ids, order, starts = {i}(ptrs, 0), i64(ptrs, 1), i64(ptrs, 2)
    rows, mode = strides[3], strides[4]
    for r in range(rows + 2):
        starts[r] = 0
    for k in range(n):
        r = int64(ids[k])
        if not ((r >= 0) & (r < rows)):
            r = elsewhere(r, rows, mode)
        starts[r + 2 if r >= 0 else 0] += 1
    starts[0] = 0
    for r in range(2, rows + 2):
        starts[r] += starts[r - 1]
    for k in range(n):
        r = int64(ids[k])
        if not ((r >= 0) & (r < rows)):
            r = elsewhere(r, rows, mode)
        if r >= 0:
            order[starts[r + 1]] = k
            starts[r + 1] += 1
"""

_STARTS = {
    "sum": lambda dtype: "0",
    "prod": lambda dtype: "1",
    "max": lambda dtype: _limit(dtype, largest=False),
    "min": lambda dtype: _limit(dtype, largest=True),
}
_COMBINES = {
    "sum": "a + v",
    "prod": "a * v",
    "max": "a if (a >= v) | (a != a) else v",
    "min": "a if (a <= v) | (a != a) else v",
}


def _limit(dtype: np.dtype, *, largest: bool) -> str:
    if dtype.kind == "f":
        return "np.inf" if largest else "-np.inf"
    info = np.iinfo(dtype)
    return str(info.max if largest else info.min)


@cache
def _kernel(template: str, name: str, dtype: np.dtype, ids: np.dtype, table: np.dtype, op: str) -> int:
    t, i, a = NAMES[dtype.name], NAMES[ids.name], NAMES[table.name]
    function = f"{name}_{t}_{i}"
    start, combine = (_STARTS[op](dtype), _COMBINES[op]) if op else ("", "")
    wide = table.name if template is _COMBINE else dtype.name
    lines = [line.format(j=j, T=wide, combine=combine) for line in (_LOADS, _STORES) for j in range(UNROLL)]
    names = dict(name=function, t=t, i=i, A=a, T=wide, O=dtype.name, start=start, combine=combine)
    names |= dict(unroll=str(UNROLL), unrolled="\n".join(lines))
    types = "".join(f", {n}" for n in sorted({wide, dtype.name} - {"int64"})) + "\nimport numpy as np"
    doc = f"Rows of {dtype.name} by segments of {ids.name}: {name}."
    header = _HEADER.format(doc=doc, types=types, pointers=", ".join(sorted({t, i, a, "i64"})))
    return kernel_address(function, header + PLACE + template.format(**names))


def pieces_of(count: int, rows: int) -> int:
    """Fixed by the shapes alone."""
    return max(1, min(PIECES, count // max(1, 4 * rows), count >> 13))


def _by_piece(
    address: int,
    table: np.ndarray,
    x: np.ndarray,
    ids: np.ndarray,
    mode: str,
    others: tuple[tuple[np.ndarray, int], ...],
) -> None:
    """Run a kernel on every piece of the rows; `table` is (pieces, rows, width), others have a step per column."""
    pieces, rows, width = table.shape
    count = ids.size
    size = -(-count // pieces)
    number = np.arange(pieces)
    operands = [(table, (rows * width * table.itemsize,), 1), (x, (0,), 1), (ids, (0,), 0), (number, (8,), 0)]
    operands += [(a, (0,), step) for a, step in others]
    extras = (count, size, width, rows, MODES[mode])
    chunk = COLUMNS if pieces == 1 and count * width > 1 << 16 else 0
    jobs.run(address, width, (pieces,), operands, extras, chunk=chunk, work=max(1, size))


def _joined(op: str, table: np.ndarray, out: np.ndarray) -> None:
    """Tables combined in the order of the pieces."""
    pieces, size = table.shape[0], out.size
    address = _kernel(_TABLES, f"segment_tables_{op}", out.dtype, np.dtype(np.int64), table.dtype, op)
    jobs.run(address, size, (1,), ((table, (0,), 1), (out, (0,), 1)), (pieces, size), chunk=1 << 12, work=pieces)


def combine(op: str, x: np.ndarray, ids: np.ndarray, segments: int, mode: str) -> np.ndarray:
    """Rows of x combined by segment: (segments, *row)."""
    out = pool.empty((segments, *x.shape[ids.ndim :]), x.dtype)
    width = math.prod(out.shape[1:])
    if out.size == 0:
        return out
    x, ids = contiguous(x), readable(ids)
    wide = np.dtype({"float32": np.float64, "complex64": np.complex128}.get(x.dtype.name, x.dtype))
    wide = wide if op in ("sum", "prod") else x.dtype
    pieces = pieces_of(ids.size, segments)
    direct = pieces == 1 and wide == x.dtype
    table = (out if direct else pool.empty((pieces, *out.shape), wide)).reshape(pieces, segments, width)
    bad = np.zeros(1, np.int64)
    _by_piece(_kernel(_COMBINE, f"segment_{op}", x.dtype, ids.dtype, wide, op), table, x, ids, mode, ((bad, 0),))
    if mode == "raise" and bad[0]:
        refuse(f"segment_{op}", ids, segments)
    if not direct:
        _joined(op, table, out)
    return out


def segment_sum(x: np.ndarray, ids: np.ndarray, *, segments: int, mode: str = "drop") -> np.ndarray:
    """Sums of the rows of each segment; float32 is accumulated in float64."""
    return combine("sum", x, ids, segments, mode)


def segment_prod(x: np.ndarray, ids: np.ndarray, *, segments: int, mode: str = "drop") -> np.ndarray:
    """Products of the rows of each segment."""
    return combine("prod", x, ids, segments, mode)


def segment_max(x: np.ndarray, ids: np.ndarray, *, segments: int, mode: str = "drop") -> np.ndarray:
    """Largest of the rows of each segment; nan if one is."""
    return combine("max", x, ids, segments, mode)


def segment_min(x: np.ndarray, ids: np.ndarray, *, segments: int, mode: str = "drop") -> np.ndarray:
    """Smallest of the rows of each segment; nan if one is."""
    return combine("min", x, ids, segments, mode)


def segment_shares(x: np.ndarray, ids: np.ndarray, best: np.ndarray, *, mode: str = "drop") -> np.ndarray:
    """Share of each element in its segment's extremum `best`."""
    out = pool.empty(x.shape, x.dtype)
    segments, width = best.shape[0], math.prod(best.shape[1:])
    if out.size == 0 or segments == 0:
        out[...] = 0
        return out
    x, ids, best = contiguous(x), readable(ids), contiguous(best)
    table = pool.empty((pieces_of(ids.size, segments), segments, width), np.dtype(np.int64))
    _by_piece(
        _kernel(_SHARES, "segment_shares", x.dtype, ids.dtype, table.dtype, ""),
        table,
        x,
        ids,
        mode,
        ((best, 1), (out, 1)),
    )
    ties = table.sum(axis=0) if table.shape[0] > 1 else table[0]
    if ties.max() > 1:
        address = _kernel(_DIVIDE, "segment_divide", x.dtype, ids.dtype, table.dtype, "")
        operands = ((ids, (0,), 1), (out, (0,), width), (ties, (0,), 0))
        chunk = max(1, (1 << 15) // width)
        jobs.run(address, ids.size, (1,), operands, (width, segments, MODES[mode]), chunk=chunk, work=width)
    return out


def by_segment(ids: np.ndarray, segments: int, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers in the order of their segments, and where each segment starts (one more than there are)."""
    ids = readable(ids)
    order, starts = np.empty(ids.size, np.int64), np.empty(segments + 2, np.int64)
    address = _kernel(_ORDER, "segment_order", np.dtype(np.int64), ids.dtype, np.dtype(np.int64), "")
    operands = ((ids, (0,), 1), (order, (0,), 1), (starts, (0,), 0))
    jobs.run(address, ids.size, (1,), operands, (segments, MODES[mode]))
    return order[: starts[segments]], starts[: segments + 1]


def segment_tree(ids: np.ndarray, *, segments: int, mode: str, sizes: tuple[int, ...]) -> np.ndarray:
    """Per level the row numbers of the left factors, then of the right; last the rows of the results.

    Row number `size of the level below` is a row of ones: for what is left over, and to fill up.
    """
    rows, starts = by_segment(ids, segments, mode)
    counts, one, parts = np.diff(starts), ids.size, []
    for size in sizes[:-1]:
        halves = (counts + 1) // 2
        begins = np.concatenate(([0], np.cumsum(halves)))
        total = int(begins[-1])
        owner = np.repeat(np.arange(segments), halves)
        pair = 2 * (np.arange(total) - begins[owner])
        left = starts[owner] + pair
        factors = np.full((2, size), one)
        factors[0, :total] = rows[left]
        paired = np.flatnonzero(pair + 1 < counts[owner])
        factors[1, paired] = rows[left[paired] + 1]
        parts.append(factors.reshape(-1))
        rows, starts, counts, one = np.arange(total), begins, halves, size
    last = np.full(segments, one)
    some = np.flatnonzero(counts)
    last[some] = rows[starts[some]]
    return np.concatenate([*parts, last])
