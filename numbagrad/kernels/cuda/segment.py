"""Rows combined by segment: sum, prod, max, min, the shares of those that are the extremum, and trees of products.

A segmented reduction is a scatter into what empty segments are, see runs.py.
"""

# Checklist of docs/design/cuda.md: all 15 hold; no shared memory, no atomics; registers <= 32 (sm_90).

from __future__ import annotations

from functools import cache

import numpy as np

from numbagrad.kernels.cpu.places import MODES
from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.copy import contiguous, copy_into
from numbagrad.kernels.cuda.kernel import THREADS, Kernel, blocks, index_type, kernel, short
from numbagrad.kernels.cuda.map import MapKernel
from numbagrad.kernels.cuda.places import division, division_types, imports, pick_text, quotient_text, resolve
from numbagrad.kernels.cuda.runs import Runs, width_of
from numbagrad.kernels.cuda.runs_text import bare, neutral
from numbagrad.kernels.cuda.scan import cumsum
from numbagrad.kernels.cuda.sort import argsort
from numbagrad.scalar import arg
from numbagrad.scalar.atoms import cast
from numbagrad.scalar.render import NAMES

INT = np.dtype(np.int64)
_WIDE = {np.dtype(np.float32): np.dtype(np.float64), np.dtype(np.complex64): np.dtype(np.complex128)}
_NARROW = {wide: narrow for narrow, wide in _WIDE.items()}

_BY_ROW = '''"""Elements of {T} each with that of its segment, by ids of {ids}: {title}."""

import math

import numpy as np
from numbagrad.kernels.cuda.frontend import {imports}


{pick}{quotient}@cuda.jit
def {name}(x, ids, table, out, n, width, width_m, width_s, rows, mode):
    i = {I}({I}({I}(cuda.blockIdx.x) * {I}({threads})) + {I}(cuda.threadIdx.x))
    if i < n:
        k = quotient(i, width, width_m, width_s)
        row = pick(ids, k, rows, mode)
        v = x[i]
        if row >= 0:
            m = table[{I}({I}({I}(row) * width) + {I}(i - {I}(k * width)))]
{inside}
        else:
            y = {T}(0)
        out[i] = y
'''

_SHARES = {
    "hits": "            y = {T}(1) if v == m or (v != v and m != m) else {T}(0)",
    "shares": "            y = {T}(v / m) if v != 0 else {T}(0)",
}

_COUNTS = '''"""How many rows each segment has, and of every level of its tree: half of them, rounded up."""

from numbagrad.kernels.cuda.frontend import cuda, int64


@cuda.jit(device=True)
def before(rows, order, n, row):
    """How many of the sorted rows are smaller."""
    low, high = int64(0), n
    while low < high:
        middle = (low + high) >> 1
        if rows[order[middle]] < row:
            low = middle + 1
        else:
            high = middle
    return low


@cuda.jit
def segment_counts_{k}(rows, order, counts, n, segments, levels):
    s = int64(cuda.blockIdx.x) * {threads} + int64(cuda.threadIdx.x)
    if s < segments:
        count = before(rows, order, n, s + 1) - before(rows, order, n, s)
        for level in range(levels):
            counts[level * segments + s] = count
            count = (count + 1) >> 1
'''

_LEVEL = '''"""One level of trees of products: row numbers of the left factors, and of the right ones; or the results.

`ends` says where each segment ends among this level's products, `below` the same among their factors, which at the
lowest level lie in the order `order`, behind those of no segment.
"""

from numbagrad.kernels.cuda.frontend import cuda, int64


@cuda.jit
def segment_level(order, below, ends, out, n, segments, size, lowest, last, one):
    t = int64(cuda.blockIdx.x) * {threads} + int64(cuda.threadIdx.x)
    if t < size:
        left, right = one, one
        if last != 0:
            start = below[t - 1] if t > 0 else int64(0)
            if start < below[t]:
                left = start
        elif segments > 0 and t < ends[segments - 1]:
            low, high = int64(0), segments - 1  # the first segment that ends behind t
            while low < high:
                middle = (low + high) >> 1
                if ends[middle] > t:
                    high = middle
                else:
                    low = middle + 1
            first = ends[low - 1] if low > 0 else int64(0)
            start = below[low - 1] if low > 0 else int64(0)
            left = start + 2 * (t - first)
            if left + 1 < below[low]:
                right = left + 1
        if lowest != 0:
            dropped = n - below[segments - 1]
            left = order[dropped + left] if left != one else one
            right = order[dropped + right] if right != one else one
        out[t] = left
        if last == 0:
            out[size + t] = right
'''


@cache
def _by_row_kernel(title: str, inside: str, dtype: np.dtype, ids: np.dtype, i: str) -> Kernel:
    t, n = NAMES[dtype.name], NAMES[ids.name]
    name = f"segment_{title}_{t}_{n}" + ("" if i == "uint32" else "_large")
    text = _BY_ROW.format(
        name=name,
        title=title,
        T=dtype.name,
        I=i,
        ids=ids.name,
        inside=inside.format(T=dtype.name),
        threads=THREADS,
        pick=pick_text(ids),
        quotient=quotient_text(i),
        imports=imports(dtype.name, i),
    )
    return kernel(name, text, [f"{t}*", f"{n}*", f"{t}*", f"{t}*", short(i), *division_types(i), "i64", "i32"])


def by_row(title: str, inside: str, x: Buffer, ids: Buffer, table: Buffer, mode: str) -> Buffer:
    """A function of each element `v` of x and its segment's `m`; 0 for what is dropped. `inside` sets y."""
    out = x.device.empty(x.shape, x.dtype)
    n = out.size
    if n:
        rows, width = table.shape[0], width_of(table.shape)
        i = index_type(n, table.size)
        found = _by_row_kernel(title, inside, x.dtype, ids.dtype, i)
        numbers = (n, *division(width, i), rows, MODES[mode])
        operands = (contiguous(x), contiguous(ids), contiguous(table), out)
        x.device.launch(found, blocks(n), THREADS, *operands, *numbers)
    return out


def combine(op: str, x: Buffer, ids: Runs) -> Buffer:
    """Rows of x combined by segment: (segments, *row)."""
    kind, shape = bare(x.dtype), (ids.rows, *x.shape[ids.index.ndim :])
    if kind != x.dtype:
        op = {"sum": "or", "prod": "and", "max": "or", "min": "and"}[op]
    out = x.device.full(shape, neutral(op, kind), kind)
    ids.into(op, out, contiguous(x).typed(kind), width_of(shape))
    return out.typed(x.dtype)


def segment_sum(x: Buffer, ids: Buffer, *, segments: int, mode: str = "drop") -> Buffer:
    """Sums of the rows of each segment; float32 sums are as good as float64's."""
    return combine("sum", x, Runs(ids, segments, mode, "segment_sum"))


def segment_prod(x: Buffer, ids: Buffer, *, segments: int, mode: str = "drop") -> Buffer:
    """Products of the rows of each segment; of float32 in the range of float64, as on the CPU."""
    wide = _WIDE.get(x.dtype)
    x = x if wide is None else _converted(x, wide)
    found = combine("prod", x, Runs(ids, segments, mode, "segment_prod"))
    return found if wide is None else _converted(found, _NARROW[wide])


def _converted(x: Buffer, dtype: np.dtype) -> Buffer:
    return _caster(x.dtype, dtype)(x.device, (x,), x.shape)[0]


@cache
def _caster(source: np.dtype, target: np.dtype) -> MapKernel:
    return MapKernel("cast", (cast(source, target)(arg(0)),), (source,))


def segment_max(x: Buffer, ids: Buffer, *, segments: int, mode: str = "drop") -> Buffer:
    """Largest of the rows of each segment; nan if one is."""
    return combine("max", x, Runs(ids, segments, mode, "segment_max"))


def segment_min(x: Buffer, ids: Buffer, *, segments: int, mode: str = "drop") -> Buffer:
    """Smallest of the rows of each segment; nan if one is."""
    return combine("min", x, Runs(ids, segments, mode, "segment_min"))


def segment_shares(x: Buffer, ids: Buffer, best: Buffer, *, mode: str = "drop") -> Buffer:
    """Share of each element in its segment's extremum `best`."""
    hits = by_row("hits", _SHARES["hits"], x, ids, best, mode)
    if not hits.size or not best.size:
        return hits
    ties = combine("sum", hits, Runs(ids, best.shape[0], mode, "segment_shares"))
    return by_row("shares", _SHARES["shares"], hits, ids, ties, mode)


@cache
def _counts_kernel(rows: np.dtype) -> Kernel:
    k = NAMES[rows.name]
    signature = [f"{k}*", "i64*", "i64*", "i64", "i64", "i64"]
    return kernel(f"segment_counts_{k}", _COUNTS.format(k=k, threads=THREADS), signature)


@cache
def _level_kernel() -> Kernel:
    signature = ["i64*"] * 4 + ["i64"] * 3 + ["i32", "i32", "i64"]
    return kernel("segment_level", _LEVEL.format(threads=THREADS), signature)


def segment_tree(ids: Buffer, *, segments: int, mode: str, sizes: tuple[int, ...]) -> Buffer:
    """Per level the row numbers of the left factors, then of the right; last the rows of the results.

    Row number `size of the level below` is a row of ones: for what is left over, and to fill up.
    """
    device, n, levels = ids.device, ids.size, len(sizes)
    if not n or not segments:
        out = device.empty((2 * sum(sizes[:-1]) + sizes[-1],), INT)
        for level, one in enumerate((n, *sizes[:-1])):  # nothing but rows of ones
            width = sizes[level] * (1 if level == levels - 1 else 2)
            copy_into(out.view((width,), None, 8 * 2 * sum(sizes[:level])), np.array(one, INT))
        return out
    rows = resolve(ids, segments, mode, "segment_tree")
    order = argsort(rows, axis=0)
    counts = device.empty((levels, segments), INT)
    found = _counts_kernel(rows.dtype)
    device.launch(found, blocks(segments), THREADS, rows, order, counts, n, segments, levels)
    ends = cumsum(counts, axis=1, reverse=False)
    out = device.empty((2 * sum(sizes[:-1]) + sizes[-1],), INT)
    one, at = n, 0
    for level, size in enumerate(sizes):
        last = level == levels - 1
        below = ends.view((segments,), None, 8 * segments * level)
        above = below if last else ends.view((segments,), None, 8 * segments * (level + 1))
        part = out.view((size if last else 2 * size,), None, 8 * at)
        numbers = (n, segments, size, int(level == 0), int(last), one)
        if size:
            device.launch(_level_kernel(), blocks(size), THREADS, order, below, above, part, *numbers)
        one, at = size, at + 2 * size
    return out
