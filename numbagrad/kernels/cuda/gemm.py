"""Texts of the kernels of matrix products: tiles, dot products, and the sum of split products.

x is (batch, rows, depth) and y (batch, depth, columns) through any non-negative strides; the batch has two axes. A long
depth with few results is cut into pieces, whose sums a second kernel adds in a fixed order.
"""

# Checklist of docs/design/cuda.md: all 15 hold; no atomics; one barrier a tile, in a loop as long for all
# threads of a block, which alternate between two halves of the tiles; registers <= 123.

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from numbagrad.kernels.cuda import sums
from numbagrad.kernels.cuda.copy import element_type
from numbagrad.kernels.cuda.kernel import THREADS, Kernel, kernel, short
from numbagrad.scalar.render import NAMES


@dataclass(frozen=True)
class Tile:
    """A block makes `rows` x `columns` results, `depth` products at a time; a thread `own` x `own` of them."""

    rows: int
    columns: int
    depth: int
    own: int

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.rows * self.columns // self.own**2


TILES = {  # largest first, by bytes of an accumulator: 64 accumulators of 8 bytes would not fit in the registers
    4: (Tile(128, 128, 8, 8), Tile(64, 64, 16, 4), Tile(32, 32, 16, 4)),
    8: (Tile(64, 64, 8, 4), Tile(32, 32, 8, 4)),
    16: (Tile(32, 32, 8, 2),),
}
GROUP = 4  # neighbours a thread owns: one 16-byte access of shared memory for float32
PAD = 4  # elements after a row of a tile: threads along the depth store to different banks, rows stay aligned

_HEADER = '''"""{title}"""

from numbagrad.kernels.cuda.frontend import {names}

'''

_AGAIN = '''
@cuda.jit(device=True)
def again(x, y, x_at, x_step, y_at, y_step, depth, absorbs):
    """One result, in which zeros of x (absorbs & 1) and y (absorbs & 2) are absorbing."""
    high, low = {A}(0), {A}(0)
    done = {I}(0)
    while done < depth:
        a, b = {A}(x[x_at]), {A}(y[y_at])
        if not (((absorbs & 1) != 0 and a == {A}(0)) or ((absorbs & 2) != 0 and b == {A}(0))):
            high, low = add(high, low, {A}(a * b))
        x_at, y_at = {I}(x_at + x_step), {I}(y_at + y_step)
        done = {I}(done + 1)
    return total(high, low)

'''

_FETCH = '''
@cuda.jit(device=True)
def fetch_{operand}(source, kept, at, step, line, line_step, lines, place, place_step, depth):
    """This thread's elements of the next tile of {operand}; zeros beyond the matrix."""
    for s in range({count}):
        inside = {I}(line + {I}(s * line_step)) < lines and {I}(place + {I}(s * place_step)) < depth
        kept[s] = {A}(source[{I}(at + {I}(s * step))]) if inside else {A}(0)

'''

BATCH = "inner, x_outer, x_inner, y_outer, y_inner"
STRIDES = "x_row, x_step, y_step, y_column"

_TILE = """
@cuda.jit
def {name}(
    x, y, out, rows, columns, depth, piece, pieces, row_tiles, column_tiles, batches,
    {BATCH},
    {STRIDES},
    x_along, y_along, absorbs,
):
    x_tile = cuda.shared.array({x_shared}, {A}, alignment=16)
    y_tile = cuda.shared.array({y_shared}, {A}, alignment=16)
    sums = cuda.local.array({results}, {A})
    x_next = cuda.local.array({x_count}, {A})
    y_next = cuda.local.array({y_count}, {A})
    a = cuda.local.array({own}, {A})
    b = cuda.local.array({own}, {A})
    t = uint32(cuda.threadIdx.x)
    block = {I}(cuda.blockIdx.x)
    column = {I}({BN} * {I}(block % column_tiles))
    block = {I}(block // column_tiles)
    row = {I}({BM} * {I}(block % row_tiles))
    block = {I}(block // row_tiles)
    part, batch = {I}(block % pieces), {I}(block // pieces)
    outer, within = {I}(batch // inner), {I}(batch % inner)
    first = {I}(part * piece)
    left = {I}(min({I}(depth - first), piece))
    # what this thread brings along: neighbours in memory go to neighbouring threads, whichever way the matrix lies
    if x_along != 0:
        x_own, x_place, x_lines, x_places = uint32(t // {BK}), uint32(t % {BK}), uint32({threads} // {BK}), uint32(0)
    else:
        x_own, x_place, x_lines, x_places = uint32(t % {BM}), uint32(t // {BM}), uint32(0), uint32({threads} // {BM})
    if y_along != 0:
        y_own, y_place, y_lines, y_places = uint32(t // {BK}), uint32(t % {BK}), uint32({threads} // {BK}), uint32(0)
    else:
        y_own, y_place, y_lines, y_places = uint32(t % {BN}), uint32(t // {BN}), uint32(0), uint32({threads} // {BN})
    x_line, y_line = {I}(x_own + row), {I}(y_own + column)
    x_base = {I}({I}(outer * x_outer) + {I}(within * x_inner))
    y_base = {I}({I}(outer * y_outer) + {I}(within * y_inner))
    x_at = {I}({I}(x_base + {I}(x_line * x_row)) + {I}({I}(first + x_place) * x_step))
    y_at = {I}({I}(y_base + {I}(y_line * y_column)) + {I}({I}(first + y_place) * y_step))
    x_jump = {I}({I}(x_lines * x_row) + {I}(x_places * x_step))
    y_jump = {I}({I}(y_lines * y_column) + {I}(y_places * y_step))
    x_put, y_put = uint32(uint32(x_place * {XP}) + x_own), uint32(uint32(y_place * {YP}) + y_own)
    x_puts, y_puts = uint32(uint32(x_places * {XP}) + x_lines), uint32(uint32(y_places * {YP}) + y_lines)
    # a warp owns 4 x 8 of the threads' places, so that it reads few different parts of the tiles
    lane, warp = uint32(t % 32), uint32(t // 32)
    across = uint32(uint32(lane % 8) + uint32(8 * uint32(warp % {warps_across})))
    down = uint32(uint32(lane // 8) + uint32(4 * uint32(warp // {warps_across})))
    for e in range({results}):
        sums[e] = {A}(0)
    fetch_x(x, x_next, x_at, x_jump, x_line, x_lines, rows, x_place, x_places, left)
    fetch_y(y, y_next, y_at, y_jump, y_line, y_lines, columns, y_place, y_places, left)
    half = uint32(0)
    done = {I}(0)
    while done < left:
        # into the half that was read before the last barrier
        for s in range({x_count}):
            x_tile[uint32(uint32(half * {XH}) + uint32(x_put + uint32(s * x_puts)))] = x_next[s]
        for s in range({y_count}):
            y_tile[uint32(uint32(half * {YH}) + uint32(y_put + uint32(s * y_puts)))] = y_next[s]
        cuda.syncthreads()
        done = {I}(done + {BK})
        if done < left:
            x_at, y_at = {I}(x_at + {I}({BK} * x_step)), {I}(y_at + {I}({BK} * y_step))
            rest = {I}(left - done)
            fetch_x(x, x_next, x_at, x_jump, x_line, x_lines, rows, x_place, x_places, rest)
            fetch_y(y, y_next, y_at, y_jump, y_line, y_lines, columns, y_place, y_places, rest)
        for kk in range({BK}):
            for i in range({own}):
                a[i] = x_tile[uint32(uint32(uint32(half * {XH}) + uint32({group} * down)) + {x_offset})]
                b[i] = y_tile[uint32(uint32(uint32(half * {YH}) + uint32({group} * across)) + {y_offset})]
            for i in range({own}):
                for j in range({own}):
                    sums[i * {own} + j] = {fma}
        half = uint32(1 - half)
    base = {I}({I}({I}(part * batches) + batch) * {I}(rows * columns))
    row, column = {I}(row + {I}({group} * down)), {I}(column + {I}({group} * across))
{store}{mend}"""

_STORE_ELEMENTS = """    for i in range({own}):
        for j in range({own}):
            r, c = {I}(row + {I}({i_offset})), {I}(column + {I}({j_offset}))
            if r < rows and c < columns:
                out[{I}({I}(base + {I}(r * columns)) + c)] = {O}({result})
"""

_STORE_VECTORS = """    if columns % 4 == 0:
        for i in range({own}):
            for j in range(0, {own}, 4):
                r, c = {I}(row + {I}({i_offset})), {I}(column + {I}({j_offset}))
                at = i * {own} + j
                if r < rows and c < columns:
                    values = (sums[at], sums[at + 1], sums[at + 2], sums[at + 3])
                    store4(out, {I}({I}(base + {I}(r * columns)) + c), values)
    else:
"""

_MEND = """    if absorbs != 0:
        wrong = uint32(0)
        for e in range({results}):
            wrong = wrong if sums[e] - sums[e] == {A}(0) else uint32(1)
        e = uint32(0)
        while e < uint32({results} * wrong):
            i, j = uint32(e // {own}), uint32(e % {own})
            r, c = {I}(row + {I}({i_offset})), {I}(column + {I}({j_offset}))
            if r < rows and c < columns:
                at = {I}({I}(base + {I}(r * columns)) + c)
                value = out[at]
                if not (value - value == {A}(0)):
                    x_at, y_at = {I}(x_base + {I}(r * x_row)), {I}(y_base + {I}(c * y_column))
                    out[at] = again(x, y, x_at, x_step, y_at, y_step, depth, absorbs)
            e = uint32(e + 1)
"""

_PLACE = """    column, row = {I}(result % columns), {I}(result // columns)
    row, batch = {I}(row % rows), {I}(row // rows)
    outer, within = {I}(batch // inner), {I}(batch % inner)
    x_at = {I}({I}({I}(outer * x_outer) + {I}(within * x_inner)) + {I}(row * x_row))
    y_at = {I}({I}({I}(outer * y_outer) + {I}(within * y_inner)) + {I}(column * y_column))
"""

_DOTS = """
@cuda.jit
def {name}(
    x, y, out, results, rows, columns, depth, piece,
    {BATCH},
    {STRIDES},
    absorbs,
):
{shared}    t = {I}(cuda.threadIdx.x)
    lane = {I}(t % {lanes})
    own = {I}({I}({I}(cuda.blockIdx.x) * {per_block}) + {I}(t // {lanes}))
    result = {I}(min(own, {I}(results - 1)))  # threads without a result go along to the barriers
    part = {I}(cuda.blockIdx.y)
{place}    first = {I}(part * piece)
    left = {I}(min({I}(depth - first), piece))
    x_go, y_go = {I}({lanes} * x_step), {I}({lanes} * y_step)
    i, j = {I}(x_at + {I}({I}(first + lane) * x_step)), {I}(y_at + {I}({I}(first + lane) * y_step))
    s0, s1, s2, s3 = {A}(0), {A}(0), {A}(0), {A}(0)
    done = lane
    while {I}(done + {three}) < left:  # four loads of each on their way at once
        i1, j1 = {I}(i + x_go), {I}(j + y_go)
        i2, j2 = {I}(i1 + x_go), {I}(j1 + y_go)
        i3, j3 = {I}(i2 + x_go), {I}(j2 + y_go)
        a0, a1, a2, a3 = {A}(x[i]), {A}(x[i1]), {A}(x[i2]), {A}(x[i3])
        b0, b1, b2, b3 = {A}(y[j]), {A}(y[j1]), {A}(y[j2]), {A}(y[j3])
        s0, s1, s2, s3 = {fma0}, {fma1}, {fma2}, {fma3}
        i, j = {I}(i3 + x_go), {I}(j3 + y_go)
        done = {I}(done + {four})
    while done < left:
        a0, b0 = {A}(x[i]), {A}(y[j])
        s0 = {fma0}
        i, j = {I}(i + x_go), {I}(j + y_go)
        done = {I}(done + {lanes})
    s = {sum4}
{reduce}    if lane == 0 and own < results:
{mend}        out[{I}({I}(part * results) + own)] = {O}({result})
"""

_FINISH = """
@cuda.jit
def {name}(
    x, y, parts, out, results, pieces, rows, columns, depth,
    {BATCH},
    {STRIDES},
    absorbs,
):
    t = {I}(cuda.threadIdx.x)
    lane = {I}(t % {lanes})
    own = {I}({I}({I}(cuda.blockIdx.x) * {per_block}) + {I}(t // {lanes}))
    result = {I}(min(own, {I}(results - 1)))  # threads without a result go along to the shuffles
    s, low = {A}(0), {A}(0)
    part = lane
    while part < pieces:
        s, low = {add}
        part = {I}(part + {lanes})
    s = {total}
{reduce}    if lane == 0 and own < results:
{mend}        out[own] = {O}({result})
"""

_BLOCK = """    if t % 32 == 0:
        kept[t // 32] = s
    cuda.syncthreads()
    s = kept[0]
    for w in range(1, {warps}):
        o = kept[w]
        s = {sum}
"""


def accumulator(dtype: np.dtype) -> np.dtype:
    """The type products are added up in. Integers wrap, so signed ones serve all: warps can exchange those."""
    if dtype.kind in "biu":
        return np.dtype(np.int64 if dtype.itemsize == 8 else np.int32)
    return dtype


class _Words:
    """What a text says for its types."""

    def __init__(self, types: tuple[np.dtype, np.dtype, np.dtype], acc: np.dtype, index: str) -> None:
        self.x, self.y, self.out = types
        self.acc, self.index = acc, index
        self.boolean = self.x.kind == self.y.kind == "b"  # "or" of "and"
        self.fields = dict(
            A=acc.name, O=element_type(self.out), I=index, BATCH=BATCH, STRIDES=STRIDES, group=GROUP
        )  # fmt: skip

    def fma(self, s: str, a: str, b: str) -> str:
        return f"{s} | ({a} & {b})" if self.boolean else f"{self.acc.name}({s} + {a} * {b})"

    def sum(self, a: str, b: str) -> str:
        return f"{a} | {b}" if self.boolean else f"{self.acc.name}({a} + {b})"

    def result(self, s: str) -> str:
        return f"{s} != 0" if self.out.kind == "b" else s

    def down(self, d: int) -> str:
        """The value of the thread d lanes on: complex numbers go as two."""
        if self.acc.kind != "c":
            return f"cuda.shfl_down_sync(0xFFFFFFFF, s, {d})"
        halves = ", ".join(f"cuda.shfl_down_sync(0xFFFFFFFF, s.{p}, {d})" for p in ("real", "imag"))
        return f"{self.acc.name}(complex({halves}))"

    def warp(self) -> str:
        """The sum over a warp, for its first thread."""
        return "".join(f"    s = {self.sum('s', self.down(d))}\n" for d in (16, 8, 4, 2, 1))

    def mend(self, depth: str = "        ") -> str:
        if self.acc.kind not in "fc":
            return ""
        return (
            f"{depth}if absorbs != 0 and not (s - s == {self.acc.name}(0)):\n"
            f"{depth}    s = again(x, y, x_at, x_step, y_at, y_step, depth, absorbs)\n"
        )

    def helpers(self) -> str:
        again = _AGAIN.format(**self.fields) if self.acc.kind in "fc" else ""
        return f"\n{sums.text(self.acc)}\n{again}"

    def header(self, title: str, text: str, *more: str) -> str:
        names = {"cuda", "uint32", self.acc.name, element_type(self.out), self.index, *more}
        x, y, out = self.x.name, self.y.name, self.out.name
        return _HEADER.format(title=f"{title}: {x} times {y}, {out}.", names=", ".join(sorted(names))) + text

    def name(self, title: str) -> str:
        types = dict.fromkeys(NAMES[d.name] for d in (self.x, self.y, self.out))
        return f"{title}_{'_'.join(types)}{'' if self.index == 'uint32' else '_large'}"

    def pointers(self, *dtypes: np.dtype) -> list[str]:
        return [f"{NAMES[d.name]}*" for d in dtypes]


Types = tuple[np.dtype, np.dtype, np.dtype]


@cache
def tile_kernel(tile: Tile, types: Types, acc: np.dtype, index: str) -> Kernel:
    """Products by tiles. With pieces, `out` is of the accumulator's type: (pieces, batch, rows, columns)."""
    w = _Words(types, acc, index)
    bm, bn, bk, own, threads = tile.rows, tile.columns, tile.depth, tile.own, tile.threads
    group = min(GROUP, own)
    xp, yp = bm + PAD, bn + PAD

    def offset(i: str, block: int) -> str:
        return f"{i} // {group} * {group * (block // own)} + {i} % {group}"

    fields = dict(
        w.fields, BM=bm, BN=bn, BK=bk, XP=xp, YP=yp, XH=bk * xp, YH=bk * yp, own=own, threads=threads, group=group,
        results=own * own, x_shared=2 * bk * xp, y_shared=2 * bk * yp, warps_across=bn // own // 8,
        x_count=bm * bk // threads, y_count=bn * bk // threads,
        x_offset=f"(kk * {xp} + {offset('i', bm)})", y_offset=f"(kk * {yp} + {offset('i', bn)})",
        i_offset=offset("i", bm), j_offset=offset("j", bn),
        fma=w.fma(f"sums[i * {own} + j]", "a[i]", "b[j]"), result=w.result(f"sums[i * {own} + j]"),
    )  # fmt: skip
    name = w.name(f"gemm_{bm}x{bn}")
    store = _STORE_ELEMENTS
    vectors = group == 4 and types[2].itemsize == 4 == acc.itemsize
    if vectors:
        store = _STORE_VECTORS + "".join(f"    {line}\n" for line in _STORE_ELEMENTS.splitlines())
    store = store.format(**fields)
    mend = _MEND.format(**fields) if acc.kind in "fc" else ""
    count = dict(x=fields["x_count"], y=fields["y_count"])
    text = w.helpers()
    text += "\n".join(_FETCH.format(operand=k, count=count[k], **w.fields) for k in "xy")
    text += "\n" + _TILE.format(name=name, store=store, mend=mend, **fields)
    title = f"Products by tiles of {bm} x {bn}"
    signature = [*w.pointers(*types), *[short(index)] * 17, *["u32"] * 3]
    return kernel(name, w.header(title, text, *(["store4"] if vectors else [])), signature)


@cache
def dots_kernel(lanes: int, types: Types, acc: np.dtype, index: str) -> Kernel:
    """Products result by result, each by `lanes` threads (1, 32 or a block). With pieces as above."""
    w = _Words(types, acc, index)
    block = _BLOCK.format(warps=THREADS // 32, sum=w.sum("s", "o"))
    name = w.name(f"dots_{lanes}")
    text = _DOTS.format(
        name=name,
        lanes=lanes,
        three=3 * lanes,
        four=4 * lanes,
        per_block=THREADS // lanes,
        shared=f"    kept = cuda.shared.array({THREADS // 32}, {acc.name})\n" if lanes > 32 else "",
        place=_PLACE.format(**w.fields),
        sum4=w.sum(w.sum("s0", "s1"), w.sum("s2", "s3")),
        reduce="" if lanes == 1 else w.warp() + (block if lanes > 32 else ""),
        mend=w.mend(),
        result=w.result("s"),
        **{f"fma{k}": w.fma(f"s{k}", f"a{k}", f"b{k}") for k in range(4)},
        **w.fields,
    )
    signature = [*w.pointers(*types), *[short(index)] * 14, "u32"]
    return kernel(name, w.header(f"Products by {lanes} threads a result", w.helpers() + "\n" + text), signature)


@cache
def finish_kernel(lanes: int, types: Types, acc: np.dtype, index: str) -> Kernel:
    """Adds up the pieces' sums: `lanes` threads (1 or 32) a result."""
    w = _Words(types, acc, index)
    piece = f"parts[{index}({index}(part * results) + result)]"
    name = w.name(f"split_{lanes}")
    mend = ""
    if acc.kind in "fc":
        mend = "".join(f"    {line}\n" for line in _PLACE.format(**w.fields).splitlines()) + w.mend()
    text = _FINISH.format(
        name=name,
        lanes=lanes,
        per_block=THREADS // lanes,
        add=f"s | {piece}, low" if w.boolean else f"add(s, low, {piece})",
        total="s" if w.boolean else "total(s, low)",
        reduce=w.warp() if lanes > 1 else "",
        mend=mend,
        result=w.result("s"),
        **w.fields,
    )
    x, y, out = types
    signature = [*w.pointers(x, y, acc, out), *[short(index)] * 14, "u32"]
    return kernel(name, w.header("The sum of split products", w.helpers() + "\n" + text), signature)
