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
from numbagrad.kernels.cpu.conv_plan import Geometry, Line, lines, stepping
from numbagrad.kernels.cpu.copy import contiguous
from numbagrad.kernels.cpu.reduce import reduce_sum
from numbagrad.scalar.render import NAMES

ROOM_BYTES = 128 << 10  # of the stack, for the plane laid out
TAPS = 9  # taps whose products are added up together (weight gradient)
MAX_TAPS = 4096

_HEADER = '''"""{title} of {T}, one channel with one."""

from numba import {T}, njit
from numbagrad.kernels.cpu.abi import {F}, i64, stack_of
from numbagrad.kernels.cpu.vector import {tiles}, move
from numbagrad.scalar.simd import wide_vectors

move_in, move_out, move_any = move({T}, {step}), move({T}, 1), move({T}, 0)
room_memory = stack_of({T}, {room})


@njit(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def lay_out(room, x, source, rows, first, residues, width, size, step):
    """The rows of the room. source[r] is where a source row begins (-1: zeros), which is split by `residues`."""
    for k in range(residues):
        begin = first[k]
        low = max(0, (step - 1 - begin) // step)
        high = max(0, (size - begin + step - 1) // step)
        for v in range(0, width, {VL}):  # outside: the masks are the same for all rows
            for r in range(rows):
                to, row = (r * residues + k) * width + v, source[r]
                if row >= 0:
                    move_in(room, to, x, row + begin + step * v, low - v, high - v, width - v{stepping})
                else:
                    move_out(room, to, x, 0, 0, 0, width - v)


'''

_FORWARD = """tile, weave_out = correlate_tile({T}, 2), weave({T})
sums_memory = stack_of({T}, 4 * {VL})


def {name}(n, ptrs, strides):
    wide_vectors()
    x, out, weights = {F}(ptrs, 0), {F}(ptrs, 1), {F}(ptrs, 2)
    source, begins, targets, phases, offsets = i64(ptrs, 3), i64(ptrs, 4), i64(ptrs, 5), i64(ptrs, 6), i64(ptrs, 7)
    rows, residues, width = strides[8], strides[9], strides[10]
    size, step, count = strides[11], strides[12], strides[13]
    room, sums = room_memory(), sums_memory()
    lay_out(room, x, source, rows, begins, residues, width, size, step)
    for p in range(0, 7 * count, 7):
        taps, first, length, period = phases[p], phases[p + 1], phases[p + 2], phases[p + 3]
        if phases[p + 6] == 0:
            for r in range(phases[p + 4], phases[p + 5]):
                of, to = targets[2 * r], targets[2 * r + 1]
                for j in range(0, length, 2 * {VL}):
                    tile(taps, weights, first, offsets, first, room, of + j, sums, 0)
                    left = length - j
                    if period == 1:
                        move_out(out, to + j, sums, 0, 0, left, left)
                        if left > {VL}:
                            move_out(out, to + j + {VL}, sums, {VL}, 0, left - {VL}, left - {VL})
                    else:
                        for i in range(min(left, 2 * {VL})):
                            out[to + period * (j + i)] = sums[i]
        elif phases[p + 6] == 1:  # every other target is the next phase's
            taps1, first1, total = phases[p + 7], phases[p + 8], length + phases[p + 9]
            for r in range(phases[p + 4], phases[p + 5]):
                of, to, of1 = targets[2 * r], targets[2 * r + 1], targets[2 * (r - phases[p + 4] + phases[p + 11])]
                for j in range(0, length, 2 * {VL}):
                    tile(taps, weights, first, offsets, first, room, of + j, sums, 0)
                    tile(taps1, weights, first1, offsets, first1, room, of1 + j, sums, 2 * {VL})
                    left = total - 2 * j
                    weave_out(out, to + 2 * j, sums, 0, sums, 2 * {VL}, left)
                    if left > 2 * {VL}:
                        weave_out(out, to + 2 * j + 2 * {VL}, sums, {VL}, sums, 3 * {VL}, left - 2 * {VL})
"""

_WEIGHTS = """tile, lane_total = dot_tile({T}, {taps}), lane_total({T})
row_memory, sums_memory = stack_of({T}, {room}), stack_of({T}, {taps} * {VL})


def {name}(n, ptrs, strides):
    wide_vectors()
    x, g, out = {F}(ptrs, 0), {F}(ptrs, 1), {F}(ptrs, 2)
    source, begins, targets, phases, offsets = i64(ptrs, 3), i64(ptrs, 4), i64(ptrs, 5), i64(ptrs, 6), i64(ptrs, 7)
    rows, residues, width = strides[8], strides[9], strides[10]
    size, step, count = strides[11], strides[12], strides[13]
    room, line, sums = room_memory(), row_memory(), sums_memory()
    lay_out(room, x, source, rows, begins, residues, width, size, step)
    for p in range(0, 7 * count, 7):
        taps, first, length, period = phases[p], phases[p + 1], phases[p + 2], phases[p + 3]
        for t in range(0, taps, {taps}):
            for i in range({taps} * {VL}):
                sums[i] = {T}(0)
            for r in range(phases[p + 4], phases[p + 5] if length > 0 else 0):
                of, to = targets[2 * r], targets[2 * r + 1]
                if period == 1:
                    tile(length, g, to, room, of, offsets, first + t, sums, 0)
                else:
                    for v in range(0, length, {VL}):
                        move_any(line, v, g, to + period * v, 0, length - v, length - v, period)
                    tile(length, line, 0, room, of, offsets, first + t, sums, 0)
            for i in range(min({taps}, taps - t)):
                out[first + t + i] = lane_total(sums, i * {VL})
"""


@dataclass(frozen=True)
class Layout:
    """Tables of a convolution of single planes, for all bands.

    source (band, outer row of the room: where its source row begins, or -1), begins (band, residue of the last axis:
    the first element read), targets (row of targets, 2: place in the room, place in the target plane), phases (band,
    phase, 7: taps, first tap, length, period, rows of targets from, to, and 1 or 2 for the first and second of a pair
    whose targets alternate), offsets of the taps in the room, padded by TAPS, and their numbers in the weights.
    """

    source: np.ndarray
    begins: np.ndarray
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
    phases: list[list[list[int]]] = [[] for _ in begins]
    offsets: list[int] = []
    numbers: list[int] = []
    outer: tuple[Line, ...] | None = None  # of the phase before
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
            phases[b].append([len(offsets) - first, first, length, choice[-1].period, at, at + len(rows), 0])
            if outer == choice[:-1]:
                _pair(phases[b], choice[-1])
        outer = choice[:-1]
    return Layout(
        np.array([rows for rows, _ in table], np.int64),
        np.array([first for _, first in table], np.int64),
        np.concatenate([np.zeros((0, 2), np.int64), *targets]).astype(np.int64),
        np.array(phases, np.int64).reshape(len(begins), -1, 7),
        np.array(offsets + [0] * TAPS, np.int64),
        np.array(numbers, np.int64),
        spreads[-1].length(counts[-1]),
        spreads[-1].step,
    )


def _pair(phases: list[list[int]], line: Line) -> None:
    """The last phase is the second of a pair: its targets lie between those of the one before, in the same rows."""
    if line.period == 2 and line.start == 1:
        phases[-2][6], phases[-1][6] = 1, 2


def _strides(shape: list[int]) -> list[int]:
    return [math.prod(shape[k + 1 :]) for k in range(len(shape))]


def _source_rows(
    spreads: list[_Spread], counts: list[int], source: tuple[int, ...], begin: int
) -> tuple[np.ndarray, np.ndarray]:
    """For each outer row of the room where its source row begins, or -1; for each residue the first element read."""
    begins = [begin, *[0] * (len(spreads) - 1)]
    places, valid = np.zeros((), np.int64), np.ones((), bool)
    for s, c, n, b in zip(spreads[:-1], counts, source, begins):
        read = s.reads(c, b)
        places = places[..., None] * n + read
        valid = valid[..., None] & (read >= 0) & (read < n)
    last = spreads[-1]
    firsts = np.array(last.residues) + last.step * (last.low + begins[-1])
    return np.where(valid, places * source[-1], -1).reshape(-1), firsts


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
def _kernel(weights: bool, dtype: np.dtype, step: int) -> int:
    kind, lanes = NAMES[dtype.name], vector_bytes() // dtype.itemsize
    name = f"conv_plane_{'weights_' if weights else ''}{step}_{kind}"
    tiles = "dot_tile, lane_total" if weights else "correlate_tile, weave"
    title = "Weight gradient" if weights else "Convolution"
    names = dict(T=dtype.name, F=kind, VL=lanes, room=ROOM_BYTES // dtype.itemsize, taps=TAPS, name=name)
    text = (_HEADER + (_WEIGHTS if weights else _FORWARD)).format(tiles=tiles, title=title, **names, **stepping(step))
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
        _run(False, (*arrays, (packed, (0, packed.strides[0], 0), 1)), tables, (n, groups), size)
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
        _run(True, (*arrays, (sums, sums.strides[:3], 1)), tables, (n, groups), geometry.in_shape[-1])
        np.add.at(out.T, tables.numbers, reduce_sum(sums, axes=(0, 2)).T)  # a tap may serve several phases
    return out


def _run(weights: bool, arrays: tuple, tables: Layout, outer: tuple[int, int], size: int) -> None:
    source, begins, phases = tables.source, tables.begins, tables.phases
    none = (0, 0, 0)
    operands = (
        *arrays,
        (source, (0, 0, source.strides[0]), 1),
        (begins, (0, 0, begins.strides[0]), 1),
        (tables.targets, none, 1),
        (phases, (0, 0, phases.strides[0]), 1),
        (tables.offsets, none, 1),
    )
    rows, residues = source.shape[1], begins.shape[1]
    extras = (rows, residues, tables.width, size, tables.step, phases.shape[1])
    work = max(1, len(tables.numbers) // 2)
    address = _kernel(weights, arrays[0][0].dtype, min(tables.step, 3))
    jobs.run(address, rows * residues * tables.width, (*outer, phases.shape[0]), operands, extras, work=work)
