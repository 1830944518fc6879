"""Kernels of convolutions by tiles: matrix products whose matrices are never built.

A block makes a tile of rows x columns of one phase (conv_tables.py) and group. It brings a few products of each at a
time to shared memory, those of the next tile while it multiplies:

    conv, conv_input   rows: target channels            columns: images x positions   products: depth x taps
    conv_weight        rows: channels of the cotangent  columns: channels x taps      products: images x positions

The texts of what differs are in conv_fetch.py.
"""

# Checklist of docs/design/cuda.md: walked together with conv.py, which says the result.

from __future__ import annotations

from functools import cache

import numpy as np

from numbagrad.kernels.cuda.conv_fetch import Fetch
from numbagrad.kernels.cuda.gemm import GROUP, PAD, Tile, accumulator
from numbagrad.kernels.cuda.kernel import Kernel, kernel, short
from numbagrad.scalar.render import NAMES

_HEADER = '''"""{title} of {T} along {count} axes, by tiles of {BM} x {BN}."""

from numbagrad.kernels.cuda.frontend import {names}


'''

_TILE = """@cuda.jit
def {name}(
    a, b, out, phases, taps, flags, groups, rows, depth, images, row_tiles, column_tiles, pieces, results,
    source_plane, target_plane, {more},
    {axes},
):
    left = cuda.shared.array({left_shared}, {A}, alignment=16)
    right = cuda.shared.array({right_shared}, {A}, alignment=16)
{shared}    sums = cuda.local.array({results}, {A})
    left_next = cuda.local.array({left_count}, {A})
    right_next = cuda.local.array({right_count}, {A})
    u = cuda.local.array({own}, {A})
    v = cuda.local.array({own}, {A})
    t = {I}(cuda.threadIdx.x)
    block = {I}(cuda.blockIdx.x)
    row = {I}({BM} * {I}(block % row_tiles))
    block = {I}(block // row_tiles)
    column = {I}({BN} * {I}(block % column_tiles))
    block = {I}(block // column_tiles)
    part, block = {I}(block % pieces), {I}(block // pieces)
    group, entry = {I}(block % groups), {I}({PHASE} * {I}(block // groups))
    tap_begin, tap_count = {I}(phases[entry]), {I}(phases[entry + 1])
    positions, begin = {I}(phases[entry + 2]), {I}(phases[entry + 3])
    turn, spots = {I}(max(tap_count, {I}(1))), {I}(max(positions, {I}(1)))
{lengths}
    products, columns = {products}, {columns}
    span = {I}({I}({I}(products + {BK_1}) // {BK}) + {I}(pieces - 1))
    span = {I}({BK} * {I}(span // pieces))
    first = {I}(part * span)
    last = {I}(min({I}(first + span), products))
{setup}
    # a warp owns 4 x 8 of the threads' places, so that it reads few different parts of the tiles
    lane, warp = {I}(t % 32), {I}(t // 32)
    across = {I}({group} * {I}({I}(lane % 8) + {I}(8 * {I}(warp % {warps_across}))))
    down = {I}({group} * {I}({I}(lane // 8) + {I}(4 * {I}(warp // {warps_across}))))
    for e in range({results}):
        sums[e] = {A}(0)
{fetch}
    half = {I}(0)
    done = first
    while done < last:
        # into the half that was read before the last barrier
        for s in range({left_count}):
            left[{I}({I}(half * {LH}) + {I}(left_put + {I}(s * {left_jump})))] = left_next[s]
        for s in range({right_count}):
            right[{I}({I}(half * {RH}) + {I}(right_put + {I}(s * {right_jump})))] = right_next[s]
        cuda.syncthreads()
        done = {I}(done + {BK})
        if done < last:
{advance}
{fetch_again}
        for kk in range({BK}):
            for i in range({own}):
                u[i] = left[{I}({I}({I}(half * {LH}) + down) + (kk * {LP} + {left_offset}))]
                v[i] = right[{I}({I}({I}(half * {RH}) + across) + (kk * {RP} + {right_offset}))]
            for i in range({own}):
                for j in range({own}):
                    sums[i * {own} + j] = {A}(sums[i * {own} + j] + u[i] * v[j])
        half = {I}(1 - half)
    row, column = {I}(row + down), {I}(column + across)
    base = {I}(part * results)
    for j in range({own}):
        c = {I}(column + {right_offset_j})
        if c < columns:
{target}
            at = {I}(base + at)
            for i in range({own}):
                r = {I}(row + {left_offset})
                if r < rows:
                    out[{I}(at + {I}(r * {out_row}))] = {O}(sums[i * {own} + j])
{mend}"""

_MEND = """    if flags != 0:
        wrong = uint32(0)
        for e in range({results}):
            wrong = wrong if sums[e] - sums[e] == {A}(0) else uint32(1)
        e = uint32(0)
        while e < uint32({results} * wrong):
            i, j = uint32(e // {own}), uint32(e % {own})
            r, c = {I}(row + {I}({left_offset})), {I}(column + {I}({right_offset_j}))
            if r < rows and c < columns:
{target}
                at = {I}({I}(base + at) + {I}(r * {out_row}))
                value = out[at]
                if not (value - value == {A}(0)):
                    value = {A}(0)
                    k = first
                    while k < last:
{operands}
                        k = {I}(k + 1)
                    out[at] = value
            e = uint32(e + 1)
"""


def _offset(i: str, own: int, block: int) -> str:
    """Where in a tile a thread's i-th row or column lies, from its first on."""
    group = min(GROUP, own)
    return f"({i} // {group} * {group * (block // own)} + {i} % {group})"


@cache
def tile_kernel(tile: Tile, dtype: np.dtype, split: bool, count: int, weight: bool, index: str) -> Kernel:
    """conv and conv_input, or conv_weight. `split`: `out` is of the accumulator's type, a part after the other."""
    acc = accumulator(dtype)
    out = acc if split else dtype
    f = Fetch(tile, acc.name, count, weight, index)
    lp, rp = tile.rows + PAD, tile.columns + PAD
    name = _name(tile, dtype, split, count, weight, index)
    fields = dict(
        f.fields, name=name, T=dtype.name, O=out.name, LP=lp, RP=rp,
        LH=tile.depth * lp, RH=tile.depth * rp, left_shared=2 * tile.depth * lp, right_shared=2 * tile.depth * rp,
        results=tile.own**2, own=tile.own, group=min(GROUP, tile.own), warps_across=tile.columns // tile.own // 8,
        left_offset=_offset("i", tile.own, tile.rows), right_offset=_offset("i", tile.own, tile.columns),
        right_offset_j=_offset("j", tile.own, tile.columns), BK_1=tile.depth - 1,
        title="Weight gradient" if weight else "Convolution",
    )  # fmt: skip
    mend = ""
    if acc.kind in "fc":
        mend = _MEND.format(target=f.target(4), operands=f.operands(6), **fields)
    text = f.helpers() + _TILE.format(
        more=", ".join(f.more), axes=", ".join(f.axes), shared=f.shared(), lengths=f.lengths(), setup=f.setup(),
        fetch=f.fetch(1), fetch_again=f.fetch(3), advance=f.advance(3), target=f.target(3), mend=mend, **fields,
    )  # fmt: skip
    names = ", ".join(sorted({"cuda", "uint32", index, acc.name, out.name}))
    t, i, table = NAMES[dtype.name], short(index), "i32*" if index == "uint32" else "i64*"
    signature = [f"{t}*", f"{t}*", f"{NAMES[out.name]}*", table, table, "u32", *[i] * (10 + len(f.more) + len(f.axes))]
    return kernel(name, _HEADER.format(names=names, **fields) + text, signature)


def _name(tile: Tile, dtype: np.dtype, split: bool, count: int, weight: bool, index: str) -> str:
    parts = ["conv_weight" if weight else "conv", f"{tile.rows}x{tile.columns}", NAMES[dtype.name], str(count)]
    return "_".join([*parts, *["split"] * split, *["large"] * (index != "uint32")])
