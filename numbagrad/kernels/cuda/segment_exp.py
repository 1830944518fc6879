"""softmax and logsumexp of segments: the exponentials above each segment's largest, summed and shared."""

# Checklist of docs/design/cuda.md: all 15 hold; no shared memory, no atomics; registers <= 32 (sm_90).

from __future__ import annotations

from functools import cache

import numpy as np

from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.map import MapKernel
from numbagrad.kernels.cuda.runs import Runs
from numbagrad.kernels.cuda.segment import by_row, combine
from numbagrad.scalar import ATOMS, arg

# of several +inf each counts 1, a row that is dropped 0
_EXP = """            if math.fabs(m) == {T}(np.inf):
                y = {T}(1) if v == m and m > 0 else {T}(0)
            else:
                y = math.exp({T}(v - m))"""
_SHARE = "            y = {T}(0) if m == 0 else {T}(v / m)"


@cache
def _closed(dtype: np.dtype) -> MapKernel:
    total, largest = arg(0), arg(1)
    finite = ATOMS["isfinite"](largest)
    return MapKernel("segment_log", (ATOMS["select"](finite, ATOMS["log"](total) + largest, largest),), (dtype, dtype))


def _exponentials(x: Buffer, ids: Runs) -> tuple[Buffer, Buffer]:
    """The exponentials above each segment's largest, and the largest."""
    best = combine("max", x, ids)
    return by_row("exp", _EXP, x, ids.index, best, ids.mode), best


def segment_softmax(x: Buffer, ids: Buffer, *, segments: int, mode: str = "drop") -> Buffer:
    """Each row's share of the exponentials of its segment; 0 for what is dropped, and where all are -inf."""
    runs = Runs(ids, segments, mode, "segment_softmax")
    terms, _ = _exponentials(x, runs)
    return by_row("share", _SHARE, terms, runs.index, combine("sum", terms, runs), mode)


def segment_logsumexp(x: Buffer, ids: Buffer, *, segments: int, mode: str = "drop") -> Buffer:
    """log of the sum of the exponentials of each segment; -inf for an empty one."""
    runs = Runs(ids, segments, mode, "segment_logsumexp")
    terms, best = _exponentials(x, runs)
    (out,) = _closed(x.dtype)(x.device, (combine("sum", terms, runs), best), best.shape)
    return out
