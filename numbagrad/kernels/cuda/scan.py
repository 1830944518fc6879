"""Cumulative sums, products, extrema, log-sum-exps and linear recurrences along one axis.

An array is seen as (before, axis, after). Rows (after = 1) are scanned by groups of 1 to 256 threads, columns by one
thread each. Where that leaves a GPU idle, the axis is cut into pieces: one launch finds their states, a second scans
every piece from the states of those before it.
"""

# Checklist of docs/design/cuda.md: all 15 hold.

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.copy import contiguous, copied
from numbagrad.kernels.cuda.kernel import THREADS, Kernel, blocks, index_type
from numbagrad.kernels.cuda.scan_state import scan_of
from numbagrad.kernels.cuda.scan_text import (
    PIECES,
    TOTALS,
    WHOLE,
    columns_kernel,
    items_of,
    rows_kernel,
    word_types,
)

BUSY = 264  # blocks of rows from which on the axis is not cut: two for each multiprocessor of an H200
BUSY_COLUMNS = 1 << 15  # the same for threads of columns
SHORTEST = 64  # elements of a piece of a column
NARROW = 16  # columns abreast from which on a warp reads whole lines of memory


class _Plan:
    """How a scan of a shape is done: the last launch, and the one before it if the axis is cut."""

    totals: Kernel | None
    totals_shape: tuple[int, ...]
    totals_types: tuple[np.dtype, ...]
    kernel: Kernel
    grid: int
    arguments: tuple[int, ...]


@lru_cache(maxsize=4096)
def _plan(name: str, source: np.dtype, dtype: np.dtype, shape: tuple[int, ...], axis: int, reverse: bool) -> _Plan:
    plan = _Plan()
    n, after, before = shape[axis], math.prod(shape[axis + 1 :]), math.prod(shape[:axis])
    index = index_type(before * n * after)
    make = rows_kernel if after == 1 else columns_kernel
    pieces = 1
    if after == 1:
        items = items_of(name, dtype)
        shift = min(8, max(0, -(-n // items) - 1).bit_length())
        wide = items << shift
        if before < BUSY and n >= 4 * wide:
            pieces = min(-(-2 * BUSY // before), n // (2 * wide))
    elif before * after < BUSY_COLUMNS and n >= 2 * SHORTEST:
        # every thread takes the states of all pieces before its own, so there are not too many
        wide, pieces = 1, min(BUSY_COLUMNS // (before * after), n // SHORTEST, math.isqrt(n), 128)
    else:
        wide = 1
    piece = -(-n // max(1, pieces))
    piece = -(-piece // wide) * wide
    pieces = -(-n // piece)
    plan.totals = make(name, source, dtype, index, TOTALS) if pieces > 1 else None
    plan.totals_shape, plan.totals_types = (before * pieces * after,), word_types(name, dtype, index)
    plan.kernel = make(name, source, dtype, index, PIECES if pieces > 1 else WHOLE)
    if after == 1:
        plan.grid = blocks(before, THREADS >> shift) * pieces
        plan.arguments = (before, n, shift, pieces, piece, int(reverse))
    else:
        plan.grid = blocks(before * pieces * after)
        plan.arguments = (before * pieces * after, n, after, pieces, piece, int(reverse))
    return plan


def _narrow(shape: tuple[int, ...], axis: int) -> bool:
    """Whether columns are so few that rows of the transposed array are better."""
    after = math.prod(shape[axis + 1 :])
    return 1 < after < NARROW and shape[axis] * after > 4 * NARROW


def _run(
    name: str, arrays: Sequence[Buffer], outputs: Sequence[Buffer], target: np.dtype, axis: int, reverse: bool
) -> None:
    """Scan arrays in C order."""
    first = arrays[0]
    device, plan = first.device, _plan(name, first.dtype, target, first.shape, axis, reverse)
    if plan.totals is None:
        device.launch(plan.kernel, plan.grid, THREADS, *arrays, *outputs, *plan.arguments)
        return
    totals = [device.empty(plan.totals_shape, t) for t in plan.totals_types]
    device.launch(plan.totals, plan.grid, THREADS, *arrays, *totals, *plan.arguments)
    device.launch(plan.kernel, plan.grid, THREADS, *arrays, *outputs, *totals, *plan.arguments)


def _scan(name: str) -> Callable[..., Any]:
    names = scan_of(name, np.dtype(np.float64)).outputs

    def kernel(*inputs: Buffer, axis: int, reverse: bool = False, dtype: np.dtype | None = None) -> Any:
        x = inputs[0]
        shape, size = x.shape, x.size
        if size and _narrow(shape, axis):
            return _transposed(kernel, inputs, axis, reverse=reverse, dtype=dtype)
        arrays = [contiguous(a) for a in inputs]
        if x.dtype.kind == "b":
            arrays = [a.typed(np.dtype(np.uint8)) for a in arrays]
        target = np.dtype(arrays[0].dtype if dtype is None else dtype)
        outputs = [x.device.empty(shape, np.dtype(np.int64) if k == "place" else target) for k in names]
        if size:
            _run(name, arrays, outputs, target, axis, reverse)
        if x.dtype.kind == "b" and dtype is None:
            outputs[0] = outputs[0].typed(np.dtype(bool))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    kernel.__name__ = name
    return kernel


def _transposed(kernel: Callable[..., Any], inputs: Sequence[Buffer], axis: int, **how: Any) -> Any:
    """The scan with its axis moved to the end, and back."""
    ndim = inputs[0].ndim
    order = [*(k for k in range(ndim) if k != axis), axis]
    back = [order.index(k) for k in range(ndim)]
    found = kernel(*(_permuted(x, order) for x in inputs), axis=ndim - 1, **how)
    if isinstance(found, tuple):
        return tuple(copied(_permuted(part, back)) for part in found)
    return copied(_permuted(found, back))


def _permuted(x: Buffer, order: Sequence[int]) -> Buffer:
    return x.view(tuple(x.shape[k] for k in order), tuple(x.strides[k] for k in order))


cumsum, cumprod, linear_recurrence = _scan("cumsum"), _scan("cumprod"), _scan("linear_recurrence")
cummax, cummin = _scan("cummax"), _scan("cummin")
cummax_routed, cummin_routed = _scan("cummax_routed"), _scan("cummin_routed")
cumlogsumexp, cumlogsumexp_weights = _scan("cumlogsumexp"), _scan("cumlogsumexp_weights")
