"""Convolution of one channel with one (depthwise convolution, signals): every tap is a shifted copy of the plane.

The source plane is laid out once on the stack with its padding, split by residues of the step, so that what a tap
reads for a row of targets is one contiguous run. Planes too large for that are cut into bands along the first axis.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from numbagrad.kernels.cpu import jobs, pool
from numbagrad.kernels.cpu.compiler import kernel_address, vector_bytes
from numbagrad.kernels.cpu.conv_plan import Geometry, Line, lines
from numbagrad.kernels.cpu.copy import contiguous
from numbagrad.kernels.cpu.reduce import reduce_sum
from numbagrad.scalar.render import NAMES

ROOM_BYTES = 128 << 10  # of the stack, for the plane laid out
TAPS = 8  # taps whose products are added up together (weight gradient)
MAX_TAPS = 4096

_HEADER = '''"""{title} of {T}, one channel with one."""

from numba import {T}, njit
from numbagrad.kernels.cpu.abi import {F}, i64, stack_of
from numbagrad.kernels.cpu.vector import {tiles}, move
from numbagrad.scalar.simd import wide_vectors

move_1, move_2, move_any = move({T}, 1), move({T}, 2), move({T}, 0)
room_memory = stack_of({T}, {room})


@njit(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def run(out, to, x, of, step, low, high, count):
    """A run of `count` elements `step` apart, zeros outside of [low, high)."""
    for v in range(0, count, {VL}):
        if step == 1:
            move_1(out, to + v, x, of + v, low - v, high - v, count - v)
        elif step == 2:
            move_2(out, to + v, x, of + 2 * v, low - v, high - v, count - v)
        else:
            move_any(out, to + v, x, of + step * v, low - v, high - v, count - v, step)


@njit(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def lay_out(room, x, source, rows, width, size, step):
    """The rows of the room: source[2 r] is where a source row begins (-1: zeros), source[2 r + 1] its first element."""
    for r in range(rows):
        row, begin = source[2 * r], source[2 * r + 1]
        low = max(0, (step - 1 - begin) // step)
        high = max(0, (size - begin + step - 1) // step) if row >= 0 else 0
        run(room, r * width, x, row + begin, step, low, high, width)


'''

_FORWARD = """tile = correlate_tile({T}, 2)
sums_memory = stack_of({T}, 2 * {VL})


def {name}(n, ptrs, strides):
    wide_vectors()
    x, out, weights = {F}(ptrs, 0), {F}(ptrs, 1), {F}(ptrs, 2)
    source, targets, phases, offsets = i64(ptrs, 3), i64(ptrs, 4), i64(ptrs, 5), i64(ptrs, 6)
    rows, width, size, step, count = strides[7], strides[8], strides[9], strides[10], strides[11]
    room, sums = room_memory(), sums_memory()
    lay_out(room, x, source, rows, width, size, step)
    for p in range(0, 6 * count, 6):
        taps, first, length, period = phases[p], phases[p + 1], phases[p + 2], phases[p + 3]
        for r in range(phases[p + 4], phases[p + 5]):
            of, to = targets[2 * r], targets[2 * r + 1]
            for j in range(0, length, 2 * {VL}):
                tile(taps, weights, first, offsets, first, room, of + j, sums, 0)
                left = length - j
                if period == 1:
                    move_1(out, to + j, sums, 0, 0, left, left)
                    if left > {VL}:
                        move_1(out, to + j + {VL}, sums, {VL}, 0, left - {VL}, left - {VL})
                else:
                    for i in range(min(left, 2 * {VL})):
                        out[to + period * (j + i)] = sums[i]
"""

_WEIGHTS = """tile, lane_total = dot_tile({T}, {taps}), lane_total({T})
row_memory, sums_memory = stack_of({T}, {room}), stack_of({T}, {taps} * {VL})


def {name}(n, ptrs, strides):
    wide_vectors()
    x, g, out = {F}(ptrs, 0), {F}(ptrs, 1), {F}(ptrs, 2)
    source, targets, phases, offsets = i64(ptrs, 3), i64(ptrs, 4), i64(ptrs, 5), i64(ptrs, 6)
    rows, width, size, step, count = strides[7], strides[8], strides[9], strides[10], strides[11]
    room, line, sums = room_memory(), row_memory(), sums_memory()
    lay_out(room, x, source, rows, width, size, step)
    for p in range(0, 6 * count, 6):
        taps, first, length, period = phases[p], phases[p + 1], phases[p + 2], phases[p + 3]
        for t in range(0, taps, {taps}):
            for i in range({taps} * {VL}):
                sums[i] = {T}(0)
            for r in range(phases[p + 4], phases[p + 5] if length > 0 else 0):
                of, to = targets[2 * r], targets[2 * r + 1]
                if period == 1:
                    tile(length, g, to, room, of, offsets, first + t, sums, 0)
                else:
                    run(line, 0, g, to, period, 0, length, length)
                    tile(length, line, 0, room, of, offsets, first + t, sums, 0)
            for i in range(min({taps}, taps - t)):
                out[first + t + i] = lane_total(sums, i * {VL})
"""


@dataclass(frozen=True)
class Layout:
    """Tables of a convolution of single planes, for all bands.

    source (band, row of the room, 2), targets (row of targets, 2: place in the room, place in the target plane),
    phases (band, phase, 6: taps, first tap, length, period, rows of targets from, to), offsets of the taps in the
    room, padded by TAPS, and their numbers in the weights.
    """

    source: np.ndarray
    targets: np.ndarray
    phases: np.ndarray
    offsets: np.ndarray
    numbers: np.ndarray
    width: int
    step: int


class _Spread:
    """How one axis lies in the room: for each residue of the step, targets' reads side by side."""

    def __init__(self, axis_lines: tuple[Line, ...]) -> None:
        self.step = axis_lines[0].step if axis_lines else 1
        reads = [f for line in axis_lines for f in line.first]
        self.residues = sorted({f % self.step for f in reads}) or [0]
        shifts = [f // self.step for f in reads] or [0]
        self.low, self.reach = min(shifts), max(shifts) - min(shifts)
        self.targets = max((line.size for line in axis_lines), default=0)

    def length(self, targets: int) -> int:
        return targets + self.reach

    def reads(self, targets: int, begin: int) -> np.ndarray:
        """Source positions along the axis, from target `begin` on."""
        u = np.arange(self.length(targets)) + self.low + begin
        return (np.array(self.residues)[:, None] + self.step * u).reshape(-1)

    def place(self, first: int, targets: int) -> int:
        """Where in the axis a tap that reads source `first` for target 0 finds it."""
        return self.residues.index(first % self.step) * self.length(targets) + first // self.step - self.low


@cache
def layout(geometry: Geometry, backward: bool, room: int) -> Layout | None:
    """The tables, or None if not even one row of targets fits into the room."""
    each = [lines(axis, backward) for axis in geometry.axes]
    spreads = [_Spread(axis_lines) for axis_lines in each]
    source = geometry.out_shape if backward else geometry.in_shape
    target = geometry.in_shape if backward else geometry.out_shape
    if 0 in (*source, *target):
        return None
    taps = sum(math.prod(len(line.taps) for line in choice) for choice in itertools.product(*each))
    beyond = math.prod(len(s.residues) * s.length(s.targets) for s in spreads[1:])
    band = room // (beyond * len(spreads[0].residues)) - spreads[0].reach
    if band < 1 or taps > MAX_TAPS:
        return None
    band = -(-spreads[0].targets // -(-spreads[0].targets // band))  # bands of equal size
    begins = range(0, spreads[0].targets, band)
    counts = [band, *(s.targets for s in spreads[1:])]
    strides = _strides([len(s.residues) * s.length(c) for s, c in zip(spreads, counts)])
    table = [_source_rows(spreads, counts, source, begin) for begin in begins]
    targets: list[np.ndarray] = []
    phases: list[list[tuple[int, ...]]] = [[] for _ in begins]
    offsets: list[int] = []
    numbers: list[int] = []
    for choice in itertools.product(*each):
        reads = itertools.product(*(zip(line.taps, line.first) for line in choice))
        first = len(offsets)
        if any(not line.taps for line in choice):
            continue
        for read in reads:
            places = [s.place(f, c) for s, (_, f), c in zip(spreads, read, counts)]
            offsets.append(sum(p * stride for p, stride in zip(places, strides)))
            numbers.append(int(np.ravel_multi_index([t for t, _ in read], geometry.tap_shape)))
        for b, begin in enumerate(begins):
            rows, length = _target_rows(choice, target, strides, begin, band)
            at = sum(len(t) for t in targets)
            targets.append(rows)
            phases[b].append((len(offsets) - first, first, length, choice[-1].period, at, at + len(rows)))
    return Layout(
        np.array(table, np.int64),
        np.concatenate([np.zeros((0, 2), np.int64), *targets]).astype(np.int64),
        np.array(phases, np.int64).reshape(len(begins), -1, 6),
        np.array(offsets + [0] * TAPS, np.int64),
        np.array(numbers, np.int64),
        spreads[-1].length(counts[-1]),
        spreads[-1].step,
    )


def _strides(shape: list[int]) -> list[int]:
    return [math.prod(shape[k + 1 :]) for k in range(len(shape))]


def _source_rows(spreads: list[_Spread], counts: list[int], source: tuple[int, ...], begin: int) -> np.ndarray:
    """For each row of the room: where its source row begins or -1, and its first element of that row."""
    begins = [begin, *[0] * (len(spreads) - 1)]
    places, valid = np.zeros((), np.int64), np.ones((), bool)
    for s, c, n, b in zip(spreads[:-1], counts, source, begins):
        read = s.reads(c, b)
        places = places[..., None] * n + read
        valid = valid[..., None] & (read >= 0) & (read < n)
    last = spreads[-1]
    firsts = np.array(last.residues) + last.step * (last.low + begins[-1])
    rows = np.where(valid, places * source[-1], -1)[..., None]
    return np.stack(np.broadcast_arrays(rows, firsts), -1).reshape(-1, 2)


def _target_rows(
    choice: tuple[Line, ...], target: tuple[int, ...], strides: list[int], begin: int, band: int
) -> tuple[np.ndarray, int]:
    """Rows of targets of one phase in a band, and their length."""
    limits = [max(0, min(band, choice[0].size - begin)), *(line.size for line in choice[1:])]
    begins = [begin, *[0] * (len(choice) - 1)]
    of, to = np.zeros((), np.int64), np.zeros((), np.int64)
    for line, n, stride, count, b in zip(choice[:-1], target, strides, limits, begins):
        j = np.arange(count)
        of = of[..., None] + j * stride
        to = to[..., None] * n + line.start + line.period * (j + b)
    last = choice[-1]
    to = to * target[-1] + last.start + last.period * begins[-1]
    return np.stack([of.reshape(-1), to.reshape(-1)], 1), limits[-1]


def room_elements(dtype: np.dtype) -> int:
    """Elements the room holds, without the vectors read past its end."""
    return ROOM_BYTES // dtype.itemsize - 4 * vector_bytes() // dtype.itemsize


@cache
def _kernel(weights: bool, dtype: np.dtype) -> int:
    kind, lanes = NAMES[dtype.name], vector_bytes() // dtype.itemsize
    name = f"conv_plane_{'weights_' if weights else ''}{kind}"
    tiles = "dot_tile, lane_total" if weights else "correlate_tile"
    title = "Weight gradient" if weights else "Convolution"
    names = dict(T=dtype.name, F=kind, VL=lanes, room=ROOM_BYTES // dtype.itemsize, taps=TAPS, name=name)
    text = (_HEADER + (_WEIGHTS if weights else _FORWARD)).format(tiles=tiles, title=title, **names)
    return kernel_address(name, text)


def project(x: np.ndarray, w: np.ndarray, geometry: Geometry, tables: Layout, backward: bool) -> np.ndarray:
    """Target planes (N, G, places) from source planes (N, G, places) and weights (G, taps)."""
    n, groups, plane = x.shape
    target = math.prod(geometry.in_shape if backward else geometry.out_shape)
    out = pool.empty((n, groups, target), x.dtype)
    packed = contiguous(w[:, tables.numbers])
    if tables.phases.shape[1] < math.prod(len(lines(axis, backward)) for axis in geometry.axes):
        out[...] = 0  # targets that no tap reads
    item = x.itemsize
    arrays = ((x, (groups * plane * item, plane * item, 0), 1), (out, (groups * target * item, target * item, 0), 1))
    if len(tables.numbers):
        size = (geometry.out_shape if backward else geometry.in_shape)[-1]
        _run(_kernel(False, x.dtype), (*arrays, (packed, (0, packed.strides[0], 0), 1)), tables, (n, groups), size)
    return out


def weights(x: np.ndarray, g: np.ndarray, geometry: Geometry, tables: Layout) -> np.ndarray:
    """Weight gradient (G, taps) from source planes x and cotangent planes g."""
    n, groups, plane = x.shape
    target, bands, taps = g.shape[2], tables.phases.shape[0], len(tables.numbers)
    out = np.zeros((groups, math.prod(geometry.tap_shape)), x.dtype)
    if taps and n:
        sums = np.zeros((n, groups, bands, taps), x.dtype)
        item = x.itemsize
        arrays = ((x, (groups * plane * item, plane * item, 0), 1), (g, (groups * target * item, target * item, 0), 1))
        _run(_kernel(True, x.dtype), (*arrays, (sums, sums.strides[:3], 1)), tables, (n, groups), geometry.in_shape[-1])
        np.add.at(out.T, tables.numbers, reduce_sum(sums, axes=(0, 2)).T)  # a tap may serve several phases
    return out


def _run(address: int, arrays: tuple, tables: Layout, outer: tuple[int, int], size: int) -> None:
    source, targets, phases, offsets = tables.source, tables.targets, tables.phases, tables.offsets
    none = (0, 0, 0)
    operands = (
        *arrays,
        (source, (0, 0, source.strides[0]), 1),
        (targets, none, 1),
        (phases, (0, 0, phases.strides[0]), 1),
        (offsets, none, 1),
    )
    extras = (source.shape[1], tables.width, size, tables.step, phases.shape[1])
    work = max(1, len(tables.numbers) // 2)
    jobs.run(address, source.shape[1] * tables.width, (*outer, phases.shape[0]), operands, extras, work=work)
