"""Which source element each target element of a convolution reads, as tables for the kernels.

Padding, cropping, strides and both dilations are the one equation of taps.py. The convolution runs over outputs and
looks up inputs, its input gradient runs over inputs and looks up outputs; neither computes a padding for the other.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from numbagrad.kernels.cpu.taps import relation


class Axis(NamedTuple):
    """One spatial axis of a convolution: lengths, and the coefficients of the equation (base: lhs_dilation)."""

    n: int
    outputs: int
    size: int
    stride: int
    low: int
    base: int
    dilation: int

    @property
    def trivial(self) -> bool:
        """Of length 1, read by the one tap."""
        return self.n == self.outputs == self.size == 1 and self.low == 0


class Line(NamedTuple):
    """Targets start + period * j of one axis, j < size; tap `taps[m]` reads source `first[m] + step * j`."""

    start: int
    period: int
    size: int
    step: int
    taps: tuple[int, ...]
    first: tuple[int, ...]


@cache
def lines(axis: Axis, backward: bool) -> tuple[Line, ...]:
    """The targets of an axis in classes that are read by the same taps."""
    r = relation(axis, backward)
    period = r.m // math.gcd(r.m, r.a)
    found = []
    for start in range(min(period, r.positions)):
        numerators = [start * r.a + t * r.e + r.c for t in range(r.taps)]
        used = [t for t in range(r.taps) if numerators[t] % r.m == 0]
        first = tuple(numerators[t] // r.m for t in used)
        count = -(-(r.positions - start) // period)
        found.append(Line(start, period, count, period * r.a // r.m, tuple(used), first))
    return tuple(found)


@dataclass(frozen=True)
class Geometry:
    """Sizes of a convolution: spatial axes, groups and channels of a group."""

    axes: tuple[Axis, ...]
    groups: int
    inputs: int
    outputs: int

    def squeezed(self) -> Geometry:
        """Without axes of length 1; at least one axis stays."""
        kept = tuple(a for a in self.axes if not a.trivial) or (Axis(1, 1, 1, 1, 0, 1, 1),)
        return Geometry(kept, self.groups, self.inputs, self.outputs)

    @property
    def in_shape(self) -> tuple[int, ...]:
        return tuple(a.n for a in self.axes)

    @property
    def out_shape(self) -> tuple[int, ...]:
        return tuple(a.outputs for a in self.axes)

    @property
    def tap_shape(self) -> tuple[int, ...]:
        return tuple(a.size for a in self.axes)

    @property
    def pointwise(self) -> bool:
        """A matrix product over the channels."""
        plain = all(a.size == a.stride == a.base == 1 and a.low == 0 for a in self.axes)
        return plain and self.in_shape == self.out_shape


@dataclass(frozen=True)
class Phase:
    """Targets with the same taps. A row is a run of `length` targets along the last axis.

    rows[r, t] is the place in the source plane of the source row that outer tap t reads, or -1; row r begins at
    starts[r] in the target plane; its targets are `period` apart. Last tap u reads source first[u] + step * j of
    that row. taps[t, u] is the number of the tap in the weights.
    """

    rows: np.ndarray
    starts: np.ndarray
    first: np.ndarray
    taps: np.ndarray
    length: int
    step: int
    period: int


@cache
def phases(geometry: Geometry, backward: bool) -> tuple[Phase, ...]:
    """All targets; those that no tap reads have a phase without taps."""
    source, target = geometry.out_shape, geometry.in_shape
    if not backward:
        source, target = target, source
    found = []
    for choice in itertools.product(*(lines(a, backward) for a in geometry.axes)):
        outer, last = choice[:-1], choice[-1]
        # (row axis by axis, then tap axis by axis) from one pair of axes each
        places, valid = np.zeros((), np.int64), np.ones((), bool)
        for line, n in zip(outer, source[:-1], strict=True):
            read = np.arange(line.size)[:, None] * line.step + np.array(line.first, np.int64)[None, :]
            places = _outer(places, n) + read
            valid = _outer(valid, 1) & (read >= 0) & (read < n)
        order = [*range(0, places.ndim, 2), *range(1, places.ndim, 2)]
        counts = math.prod(line.size for line in outer)
        outer_taps = math.prod(len(line.taps) for line in outer)
        table = np.where(valid, places * source[-1], -1).transpose(order).reshape(counts, outer_taps)
        starts = np.zeros((), np.int64)
        for line, n in zip(outer, target[:-1], strict=True):
            starts = starts[..., None] * n + line.start + line.period * np.arange(line.size)
        starts = starts * target[-1] + last.start
        numbers = np.zeros((), np.int64)
        for line, k in zip(choice, geometry.tap_shape, strict=True):
            numbers = numbers[..., None] * k + np.array(line.taps, np.int64)
        found.append(
            Phase(
                np.ascontiguousarray(table),
                starts.reshape(-1),
                np.array(last.first, np.int64),
                numbers.reshape(outer_taps, len(last.taps)),
                last.size,
                last.step,
                last.period,
            )
        )
    return tuple(found)


def _outer(values: np.ndarray, factor: int) -> np.ndarray:
    return values[..., None, None] * factor


def stepping(step: int) -> dict[str, Any]:
    """How a kernel reads runs of its source: side by side, every other element, or (3) any step."""
    return dict(step=step, stepping="") if step < 3 else dict(step=0, stepping=", step")
