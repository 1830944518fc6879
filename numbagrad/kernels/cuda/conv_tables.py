"""Tables of a convolution for tiles: its results fall into phases that the same taps read.

Positions start + period * j of an axis read source first[tap] + step * j (kernels/cpu/conv_plan.py). A phase is a row

    first row in the table of taps, number of taps, number of positions, place of the first position, size of each axis

and a tap a row

    number in the weights, place of the source that position 0 reads, that source along each axis

A block works on one phase, so it never multiplies what strides or dilation leave out.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from numbagrad.kernels.cpu.conv_plan import Geometry, lines
from numbagrad.kernels.cuda.buffer import Buffer, contiguous_strides


class Tables(NamedTuple):
    """The two tables, and what all phases share: along each axis sources, step, strides of source and position."""

    phases: np.ndarray
    taps: np.ndarray
    axes: tuple[tuple[int, int, int, int], ...]


def tables(geometry: Geometry, backward: bool, by_tap: bool) -> Tables:
    """`by_tap`: results are the weights', so that taps which read nothing need a phase and positions need none."""
    source, target = (geometry.out_shape, geometry.in_shape) if backward else (geometry.in_shape, geometry.out_shape)
    along, across = contiguous_strides(source, 1), contiguous_strides(target, 1)
    strides = contiguous_strides(geometry.tap_shape, 1)
    count = len(source)
    phases, taps = [], [np.zeros((0, 2 + count), np.int64)]
    rows = 0
    per_axis = [lines(axis, backward) for axis in geometry.axes]
    for choice in itertools.product(*per_axis):
        reads = math.prod(len(line.taps) for line in choice)
        if by_tap and reads == 0:
            continue
        grids = np.meshgrid(*(np.arange(len(line.taps)) for line in choice), indexing="ij")
        found = np.zeros((reads, 2 + count), np.int64)
        for k, (line, grid) in enumerate(zip(choice, grids, strict=True)):
            at = grid.reshape(-1)
            first = np.array(line.first, np.int64)[at]
            found[:, 0] += np.array(line.taps, np.int64)[at] * strides[k]
            found[:, 1] += first * along[k]
            found[:, 2 + k] = first
        sizes = [line.size for line in choice]
        start = sum(line.start * s for line, s in zip(choice, across, strict=True))
        phases.append([rows, reads, math.prod(sizes), start, *sizes])
        taps.append(found)
        rows += reads
    if by_tap:
        unread = np.setdiff1d(np.arange(math.prod(geometry.tap_shape)), np.concatenate(taps)[:, 0])
        if len(unread):
            phases.append([rows, len(unread), 0, 0, *[0] * count])
            taps.append(np.pad(unread[:, None], ((0, 0), (0, 1 + count))))
    shared = tuple(
        (n, every[0].step if every else 0, s, every[0].period * t if every else 0)
        for n, every, s, t in zip(source, per_axis, along, across, strict=True)
    )
    return Tables(np.array(phases, np.int64).reshape(-1, 4 + count), np.concatenate(taps), shared)


def biggest(found: Tables) -> int:
    """The largest number in the tables, which decides on the type of indices."""
    return max((int(np.abs(t).max()) for t in (found.phases, found.taps) if t.size), default=0)


@lru_cache(maxsize=512)
def on_device(device: Any, geometry: Geometry, backward: bool, by_tap: bool, index: str) -> tuple[Buffer, Buffer]:
    """Both tables in a device's memory, once per geometry."""
    found = tables(geometry, backward, by_tap)
    dtype = np.int32 if index == "uint32" else np.int64
    return device.put(found.phases.astype(dtype).reshape(-1)), device.put(found.taps.astype(dtype).reshape(-1))
