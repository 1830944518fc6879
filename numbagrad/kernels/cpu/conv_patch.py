"""Convolution as a matrix product that never builds its matrix: patches of the source are packed panel by panel.

A panel is `NR` targets wide and holds what their taps read of some channels (24 KiB, in L1). It is multiplied by the
weights of all target channels in register tiles of MR x NR sums. The weight gradient packs the same panels and
multiplies them by the cotangent instead. Workspace: the stack.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from numbagrad.kernels.cpu import jobs, pool
from numbagrad.kernels.cpu.compiler import kernel_address, vector_bytes
from numbagrad.kernels.cpu.conv_plan import Geometry, Phase, phases, stepping
from numbagrad.kernels.cpu.copy import contiguous
from numbagrad.kernels.cpu.reduce import reduce_sum
from numbagrad.scalar.render import NAMES

PANEL_BYTES = 24 << 10  # forward: with the weights of a tile in L1
DEEP_BYTES, DEEP = 16 << 10, 64  # weight gradient: bytes of a panel, and its width, which is summed over
ROWS = 128  # target channels for which a panel is packed once
PARTS = 8  # partial weight gradients: fixed, so that the result does not depend on the number of threads
ITEM = 4 << 20  # multiplications of one piece
FUSED = 32  # multiplications that take as long as one operation of a map

_HEADER = '''"""{title} of {T}."""

from numba import {T}, njit
from numbagrad.kernels.cpu.abi import {F}, i64, stack_of
from numbagrad.kernels.cpu.vector import move, multiply_tile, turn_tile
from numbagrad.scalar.simd import wide_vectors

move_in, move_out = move({T}, {step}), move({T}, 1)


@njit(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def pack(
    panel, width, x, image, plane, size, step, rows, first, blocks, b, row, j, count, length, outer_taps, last_taps
):
    """What `count` targets from (row, j) on read: a row of the panel for each tap and channel."""
    k, channel, channels = 0, blocks[b + 2], blocks[b + 3]
    for tap in range(blocks[b], blocks[b + 1]):
        outer, last = tap // last_taps, tap % last_taps
        begin = first[last]
        low = max(0, (step - 1 - begin) // step)
        high = max(0, (size - begin + step - 1) // step)
        at, r, start = 0, row, j
        while at < count:
            run = min(length - start, count - at)
            here = rows[r * outer_taps + outer]
            head, tail = low - start, (high - start if here >= 0 else 0)
            here += image + begin + step * start
            for v in range(0, run, {VL}):  # outside: the masks are the same for all channels
                to, of = (k - channel) * width + at + v, here + step * v
                for c in range(channel, channels):
                    move_in(panel, to + c * width, x, of + c * plane, head - v, tail - v, run - v{stepping})
            at, r, start = at + run, r + 1, 0
        k += channels - channel


'''

_FORWARD = '''tile = multiply_tile({T}, {MR}, {NV}, 1, {MR})
panel_memory, sums_memory = stack_of({T}, {panel}), stack_of({T}, {rows} * {NR})


@njit(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def write(out, out_channels, out_plane, starts, period, sums, channel, rows, row, j, count, length):
    """The sums of a panel's targets to where they belong."""
    at, r, start = 0, row, j
    while at < count:
        run = min(length - start, count - at)
        to = starts[r] + period * start
        for o in range(min(rows, out_channels - channel)):
            here, of = (channel + o) * out_plane + to, o * {NR} + at
            if period == 1:
                for v in range(0, run, {VL}):
                    move_out(out, here + v, sums, of + v, 0, run - v, run - v)
            else:
                for i in range(run):
                    out[here + period * i] = sums[of + i]
        at, r, start = at + run, r + 1, 0


def {name}(n, ptrs, strides):
    wide_vectors()
    x, out, weights, first_panel = {F}(ptrs, 0), {F}(ptrs, 1), {F}(ptrs, 2), i64(ptrs, 3)
    rows, starts, first, blocks = i64(ptrs, 4), i64(ptrs, 5), i64(ptrs, 6), i64(ptrs, 7)
    plane, size, step, outer_taps, last_taps = strides[8], strides[9], strides[10], strides[11], strides[12]
    columns, length, period, out_channels, out_plane = strides[13], strides[14], strides[15], strides[16], strides[17]
    n_blocks, depth, group = strides[18], strides[19], strides[20]
    panel, sums = panel_memory(), sums_memory()
    for p in range(first_panel[0], min(first_panel[0] + group, (columns + {NR} - 1) // {NR})):
        column = p * {NR}
        count, row, j = min({NR}, columns - column), column // length, column % length
        for channel in range(0, out_channels, {rows}):
            tiles = (min({rows}, out_channels - channel) + {MR} - 1) // {MR}
            for i in range(tiles * {MR} * {NR}):
                sums[i] = {T}(0)
            for b in range(0, 6 * n_blocks, 6):
                pack(
                    panel, {NR}, x, 0, plane, size, step, rows, first, blocks, b,
                    row, j, count, length, outer_taps, last_taps,
                )
                deep = (blocks[b + 1] - blocks[b]) * (blocks[b + 3] - blocks[b + 2])
                for t in range(tiles):
                    at = ((channel // {MR} + t) * depth + blocks[b + 4]) * {MR}
                    tile(deep, weights, at, panel, 0, {NR}, sums, t * {MR} * {NR}, {NR})
            write(out, out_channels, out_plane, starts, period, sums, channel, tiles * {MR}, row, j, count, length)
'''

_WEIGHTS = '''tile, square = multiply_tile({T}, {MR}, {NV}, {deep}, 1), turn_tile({T})
panel_memory, across_memory = stack_of({T}, {panel}), stack_of({T}, {deep} * {OW})


@njit(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def turn(across, g, image, channels, plane, starts, period, row, j, count, length):
    """The cotangents of a panel's targets, channels side by side."""
    at, r, start = 0, row, j
    while at < count:
        run = min(length - start, count - at)
        of = image + starts[r] + period * start
        done, squares = 0, 0
        if period == 1:
            done, squares = run - run % {VL}, channels - channels % {VL}
            for c in range(0, squares, {VL}):
                for i in range(0, done, {VL}):
                    square(across, (at + i) * {OW} + c, {OW}, g, c * plane + of + i, plane)
        for c in range(channels):
            for i in range(done if c < squares else 0, run):
                across[(at + i) * {OW} + c] = g[c * plane + of + period * i]
        at, r, start = at + run, r + 1, 0


def {name}(n, ptrs, strides):
    wide_vectors()
    x, g, sums, part = {F}(ptrs, 0), {F}(ptrs, 1), {F}(ptrs, 2), i64(ptrs, 3)
    rows, starts, first, blocks = i64(ptrs, 4), i64(ptrs, 5), i64(ptrs, 6), i64(ptrs, 7)
    channels_here = i64(ptrs, 8)
    plane, size, step, outer_taps, last_taps = strides[9], strides[10], strides[11], strides[12], strides[13]
    columns, length, period, g_plane, image, g_image = (
        strides[14], strides[15], strides[16], strides[17], strides[18], strides[19],
    )
    n_blocks, depth = strides[20], strides[21]
    panel, across = panel_memory(), across_memory()
    for i in range(depth * {OW}):
        sums[i] = {T}(0)
    for i in range({deep} * {OW}):
        across[i] = {T}(0)
    panels = (columns + {deep} - 1) // {deep}
    for p in range(part[0], part[1]):
        column = (p % panels) * {deep}
        count, row, j = min({deep}, columns - column), column // length, column % length
        turn(across, g, (p // panels) * g_image, channels_here[0], g_plane, starts, period, row, j, count, length)
        for b in range(0, 6 * n_blocks, 6):
            pack(
                panel, {deep}, x, (p // panels) * image, plane, size, step, rows, first, blocks, b,
                row, j, count, length, outer_taps, last_taps,
            )
            deep = (blocks[b + 1] - blocks[b]) * (blocks[b + 3] - blocks[b + 2])
            for r in range(0, deep, {MR}):
                for o in range(0, {OW}, {NR}):
                    tile(count, panel, r * {deep}, across, o, {OW}, sums, (blocks[b + 5] + r) * {OW} + o, {OW})
'''


@cache
def _tile_rows() -> int:
    """Rows of a register tile two vectors wide: 16 registers hold 12 sums, 32 of them 16."""
    return 6 if vector_bytes() == 32 else 8


def _blocks(depth: int, channels: int, taps: int, padded: int) -> np.ndarray:
    """Rows of the product cut into panels: (first tap, last, first channel, last, first row, the same when each
    block's rows are padded to a multiple)."""
    found, row, wide = [], 0, 0
    for tap in range(0, taps, max(1, depth // channels)):
        last = min(taps, tap + max(1, depth // channels))
        for channel in range(0, channels, depth):
            end = min(channels, channel + depth)
            count = (last - tap) * (end - channel)
            found.append((tap, last, channel, end, row, wide))
            row, wide = row + count, wide + -(-count // padded) * padded
    return np.array([*found, (0, 0, 0, 0, row, wide)], np.int64)


@cache
def _forward_kernel(dtype: np.dtype, rows: int, step: int) -> int:
    kind, lanes = NAMES[dtype.name], vector_bytes() // dtype.itemsize
    panel = PANEL_BYTES // dtype.itemsize
    name = f"conv_patches_{rows}_{step}_{kind}"
    sizes = dict(MR=rows, NV=2, NR=2 * lanes, VL=lanes, rows=ROWS // rows * rows, panel=panel + 2 * lanes)
    text = (_HEADER + _FORWARD).format(
        T=dtype.name, F=kind, name=name, title="Convolution by patches", **sizes, **stepping(step)
    )
    return kernel_address(name, text)


@cache
def _weight_kernel(dtype: np.dtype, vectors: int, across: int, step: int) -> int:
    kind, lanes = NAMES[dtype.name], vector_bytes() // dtype.itemsize
    rows, panel = _tile_rows(), DEEP_BYTES // dtype.itemsize
    name = f"conv_weights_{vectors}_{across}_{step}_{kind}"
    sizes = dict(MR=rows, NV=vectors, NR=vectors * lanes, VL=lanes, OW=across, deep=DEEP, panel=panel + rows * DEEP)
    text = (_HEADER + _WEIGHTS).format(
        T=dtype.name, F=kind, name=name, title="Weight gradient by patches", **sizes, **stepping(step)
    )
    return kernel_address(name, text)


def project(x: np.ndarray, w: np.ndarray, geometry: Geometry, backward: bool) -> np.ndarray:
    """Targets (N, G, channels, places) from sources of that form and weights (G, targets, sources, taps)."""
    target = geometry.in_shape if backward else geometry.out_shape
    n, groups, channels, _ = x.shape
    out = pool.empty((n, groups, w.shape[1], math.prod(target)), x.dtype)
    found = phases(geometry, backward)
    if any(p.taps.size == 0 for p in found) or channels == 0:
        out[...] = 0
    for phase in found:
        if phase.taps.size and out.size and channels:
            _project_phase(x, w, out, phase, (geometry.out_shape if backward else geometry.in_shape)[-1])
    return out


def _project_phase(x: np.ndarray, w: np.ndarray, out: np.ndarray, phase: Phase, size: int) -> None:
    n, groups, channels, plane = x.shape
    out_channels, out_plane = out.shape[2:]
    item, lanes = x.itemsize, vector_bytes() // x.itemsize
    rows = 4 if out_channels <= 4 else _tile_rows()
    taps = phase.taps.size
    blocks = _blocks(PANEL_BYTES // item // (2 * lanes), channels, taps, 1)
    depth = int(blocks[-1, 4])
    packed = _packed_weights(w, phase.taps.reshape(-1), rows)
    columns = phase.rows.shape[0] * phase.length
    panels = -(-columns // (2 * lanes))
    group = max(1, ITEM // (depth * out_channels * 2 * lanes))
    starts = np.arange(0, panels, group)
    operands = (
        (x, (groups * channels * plane * item, channels * plane * item, 0), 1),
        (out, (groups * out_channels * out_plane * item, out_channels * out_plane * item, 0), 1),
        (packed, (0, packed.strides[0], 0), 1),
        (starts, (0, 0, 8), 1),
        *((table, (0, 0, 0), 1) for table in (phase.rows, phase.starts, phase.first, blocks)),
    )
    outer_taps, last_taps = phase.taps.shape
    extras = [plane, size, phase.step, outer_taps, last_taps, columns, phase.length, phase.period]
    extras += [out_channels, out_plane, len(blocks) - 1, depth, group]
    work = max(1, min(group, panels) * depth * out_channels // FUSED)
    jobs.run(
        _forward_kernel(x.dtype, rows, min(phase.step, 3)),
        2 * lanes,
        (n, groups, len(starts)),
        operands,
        extras,
        work=work,
    )


def _packed_weights(w: np.ndarray, taps: np.ndarray, rows: int) -> np.ndarray:
    """(group, tile, row of the product (tap, channel), row of the tile), with zeros for rows that are not there."""
    groups, targets, sources, count = w.shape
    if len(taps) != count:
        w = w[..., taps]
    short = -targets % rows
    if short:
        w = np.concatenate([w, np.zeros((groups, short, sources, len(taps)), w.dtype)], 1)
    w = w.reshape(groups, (targets + short) // rows, rows, sources, len(taps)).transpose(0, 1, 4, 3, 2)
    return contiguous(w)


def weights(x: np.ndarray, g: np.ndarray, geometry: Geometry) -> np.ndarray:
    """Weight gradient (G, targets, sources, taps) from sources x and cotangents g, both (N, G, channels, places)."""
    taps = math.prod(geometry.tap_shape)
    out = np.zeros((x.shape[1], g.shape[2], x.shape[2], taps), x.dtype)
    for phase in phases(geometry, False):
        if phase.taps.size and x.size and g.size:
            _weights_phase(x, g, out, phase, geometry.in_shape[-1])
    return out


def _weights_phase(x: np.ndarray, g: np.ndarray, out: np.ndarray, phase: Phase, size: int) -> None:
    n, groups, channels, plane = x.shape
    out_channels, out_plane = g.shape[2:]
    item, lanes = x.itemsize, vector_bytes() // x.itemsize
    vectors, across = (1, lanes) if out_channels <= lanes else (2, 2 * lanes * (1 + (out_channels > 2 * lanes)))
    blocks = _blocks(DEEP_BYTES // item // DEEP, channels, phase.taps.size, _tile_rows())
    depth = int(blocks[-1, 5])
    columns = phase.rows.shape[0] * phase.length
    total = n * -(-columns // DEEP)
    tops = np.arange(0, out_channels, across)
    spare = max(x.size, g.size, 1 << 16) // (groups * depth * across * len(tops))  # partial results, no larger than x
    parts = max(1, min(PARTS, total, spare))
    bounds = np.linspace(0, total, parts + 1).astype(np.int64)
    ranges = np.stack([bounds[:-1], bounds[1:]], 1)
    sums = pool.empty((parts, groups, len(tops), depth, across), x.dtype)
    here = np.minimum(across, out_channels - tops)
    none = (0, 0, 0)
    operands = (
        (x, (0, channels * plane * item, 0), 1),
        (g, (0, out_channels * out_plane * item, across * out_plane * item), 1),
        (sums, sums.strides[:3], 1),
        (ranges, (16, 0, 0), 1),
        *((table, none, 1) for table in (phase.rows, phase.starts, phase.first, blocks)),
        (here, (0, 0, 8), 1),
    )
    outer_taps, last_taps = phase.taps.shape
    extras = [plane, size, phase.step, outer_taps, last_taps, columns, phase.length, phase.period]
    extras += [out_plane, groups * channels * plane, groups * out_channels * out_plane, len(blocks) - 1, depth]
    address = _weight_kernel(x.dtype, vectors, across, min(phase.step, 3))
    jobs.run(address, DEEP, (parts, groups, len(tops)), operands, extras, work=1 << 20)
    _add_taps(out, reduce_sum(sums, axes=(0,)), blocks, phase)


def _add_taps(out: np.ndarray, sums: np.ndarray, blocks: np.ndarray, phase: Phase) -> None:
    """Sums (group, top, padded row, channel across) added to their places."""
    groups, targets, sources, _ = out.shape
    rows = np.concatenate([b[5] + np.arange((b[1] - b[0]) * (b[3] - b[2])) for b in blocks[:-1]])
    found = sums[:, :, rows].reshape(groups, sums.shape[1], phase.taps.size, sources, sums.shape[3])
    found = found.transpose(0, 1, 4, 3, 2).reshape(groups, -1, sources, phase.taps.size)[:, :targets]
    out[..., phase.taps.reshape(-1)] += found
