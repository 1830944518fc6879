"""Which place a tap of a window reads: tables of an axis or of several, once per geometry.

Position p, tap t reads source q iff  p * a + t * e + c == q * m.  Forwards positions are windows and sources elements;
the adjoint has the roles exchanged, and is the same loop over other tables.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

BLOCK = 512  # accumulators of a planar loop: the stack memory of abi.LANE_BLOCK
CHANNEL_BLOCK = 4096  # elements of neighbouring positions that a loop along the channels takes at a time


class Relation(NamedTuple):
    """One axis: numbers of positions, sources and taps, and the coefficients of the equation."""

    positions: int
    sources: int
    taps: int
    a: int
    e: int
    c: int
    m: int


def relation(axis: Any, adjoint: bool) -> Relation:
    """Of a window along an axis: o * stride + t * dilation - low == i * base."""
    if adjoint:
        return Relation(axis.n, axis.outputs, axis.size, axis.base, -axis.dilation, axis.low, axis.stride)
    return Relation(axis.outputs, axis.n, axis.size, axis.stride, axis.dilation, -axis.low, axis.base)


def table(r: Relation) -> np.ndarray:
    """Source per position and tap, -1 for none."""
    value = np.arange(r.positions)[:, None] * r.a + np.arange(r.taps) * r.e + r.c
    source = value // r.m
    return np.where((value % r.m == 0) & (source >= 0) & (source < r.sources), source, -1)


def progressions(r: Relation) -> tuple[np.ndarray, int, int]:
    """Per tap (first position, number of positions, first source); steps of position and of source."""
    common = math.gcd(r.a, r.m)
    step, hop = r.m // common, r.a // common
    rows = np.zeros((r.taps, 3), np.int64)
    inverse = pow(hop, -1, step) if step > 1 else 0
    for t in range(r.taps):
        shift = t * r.e + r.c
        if shift % common:
            continue
        p = (-(shift // common) * inverse) % step if step > 1 else 0
        q = (p * r.a + shift) // r.m
        skip = max(0, -(q // hop))
        p, q = p + skip * step, q + skip * hop
        count = min(-((p - r.positions) // step), -((q - r.sources) // hop))
        if count > 0:
            rows[t] = p, count, q
    return rows, step, hop


class Plan(NamedTuple):
    """Tables and sizes. The outer axes are one: per position a list of the rows of the last axis that it reads."""

    batch: int
    places: int  # sources of the block
    outputs: int  # positions of the block
    channels: int
    begins: np.ndarray  # of the lists in `rows`, and the end of the last
    rows: np.ndarray  # offsets of rows
    line: int  # positions of the last axis
    taps: np.ndarray  # (taps, 4): see `planar`
    phases: int
    step: int
    hop: int
    starts: np.ndarray  # first position of every block of the last axis
    whole: int  # positions of a block


def _crossed(begins: np.ndarray, rows: np.ndarray, found: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The lists of more outer axes: those of the axes so far, and a table of the next."""
    old, new = np.diff(begins), (found >= 0).sum(1)
    flat, at = found[found >= 0], np.concatenate([[0], np.cumsum(new)])
    counts = (old[:, None] * new).reshape(-1)
    ends = np.concatenate([[0], np.cumsum(counts)])
    position = np.repeat(np.arange(len(counts)), counts)
    before, here = np.divmod(position, max(1, len(new)))
    i, j = np.divmod(np.arange(ends[-1]) - ends[position], np.maximum(1, new[here]))
    return ends, rows[begins[before] + i] * width + flat[at[here] + j]


@lru_cache(maxsize=512)
def plan(geometry: Any, adjoint: bool, planar: bool) -> Plan:
    """The tables of a geometry.

    Planar loops accumulate the positions p of a block in the order (p % phases, p // phases), `phases` being the step
    of positions, so that a tap's are neighbours; taps are (phase, first p // phases, number, first source). Where
    there are more phases than a block has room for, positions keep their order and are `step` apart.
    """
    *outer, last = (relation(axis, adjoint) for axis in geometry.middle)
    begins, rows = np.arange(2), np.zeros(1, np.int64)
    for r in outer:
        begins, rows = _crossed(begins, rows, table(r), r.sources)
    rows = rows * last.sources
    found, step, hop = progressions(last)
    phases = step if not planar or step <= BLOCK // 8 else 1
    first = found[:, 0]
    taps = np.stack([first % phases, first // phases, found[:, 1], found[:, 2]], 1)
    batch, places, channels = geometry.flat_out if adjoint else geometry.flat
    outputs = geometry.flat[1] if adjoint else geometry.flat_out[1]
    whole = BLOCK - BLOCK % phases if planar else max(1, CHANNEL_BLOCK // max(1, channels))
    whole = max(1, min(whole, last.positions))
    starts = np.arange(0, last.positions, whole)
    tables = begins, rows, last.positions, taps
    return Plan(batch, places, outputs, channels, *tables, phases, step // phases, hop, starts, whole)
