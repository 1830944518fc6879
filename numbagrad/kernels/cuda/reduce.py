"""Reductions over any axes of an array of any layout, without atomics: a result depends on sizes alone.

Axes are joined to (outer, n, inner). Where `inner` is 1 the rows lie as runs: 1 to 1024 lanes take one, by its length.
Otherwise neighbouring threads take neighbouring columns, and lanes share the rows. What is too long for the number of
blocks is cut into pieces, whose states a second launch reduces. float32 is summed in pairs (sums.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from numbagrad.kernels.cpu.reduce import ALL, ANY, MAX, MIN, PROD, SUM, Monoid
from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.copy import contiguous
from numbagrad.kernels.cuda.kernel import THREADS, Kernel, index_type, vector_width
from numbagrad.kernels.cuda.reduce_text import MOST, State, arg_state, reduction, state

BOOL = np.dtype(bool)
BLOCKS = 2048  # where a long reduction is cut, it is into about so many blocks in all: two waves of an H200
LONG_ROW, ROW_PIECE = 32768, 8192  # elements of a row from which on it is cut, and of the shortest piece
LONG_COLUMN, COLUMN_PIECE = 32, 16  # the same of a column, for each lane
FEW = 256  # up to so many blocks are given all the threads they can have
PLANS = 4096  # kept at most

Outs = Sequence[tuple[tuple[int, ...], np.dtype]]


class Step(NamedTuple):
    """A launch: its outputs are the next one's operands."""

    kernel: Kernel
    grid: Any
    block: Any
    outs: Outs
    numbers: tuple[int, ...]
    width: int  # elements of a group that may be read at once, or 0


class Plan(NamedTuple):
    """How to reduce arrays of one shape and layout."""

    order: tuple[int, ...] | None  # axes in which to copy the operand first; None: its memory is one run
    halves: bool  # complex numbers are summed as twice as many real ones
    steps: Sequence[Step]
    back: tuple[int, ...] | None = None  # axes of the result, where it is not in order
    simple: bool = False  # one launch, and nothing else to do
    short: bool = False  # and that a row of usual blocks


def _power(n: int) -> int:
    """The smallest power of two that is >= n."""
    return 1 << max(0, n - 1).bit_length()


def rows_shape(rows: int, n: int, group: int) -> tuple[int, int, int]:
    """(lanes of a row, pieces, elements of a piece); `group`: what a lane reads at once."""
    size = n
    if n > LONG_ROW and rows < BLOCKS // 2:
        pieces = min(-(-BLOCKS // rows), -(-n // ROW_PIECE))
        size = -(-n // (64 * pieces)) * 64
    pieces = -(-n // size) if n else 1
    tasks = rows * pieces
    most = 32 if size <= 1024 and tasks * 32 >= THREADS * FEW else THREADS
    if size > 16 * THREADS and tasks <= FEW:
        most = MOST
    return min(_power(-(-size // group)), most), pieces, size


def columns_shape(count: int, n: int, inner: int, least: int) -> tuple[int, int, int, int]:
    """(columns of a block, lanes, pieces, rows of a piece) for `count` results; `least` neighbours are read at once."""
    across = min(_power(inner), least)
    lanes = min(THREADS // across, _power(-(-n // 4)))
    across = THREADS // lanes
    blocks = -(-count // across)
    pieces = 1
    if n > LONG_COLUMN * lanes and blocks < BLOCKS // 4:
        if n <= LONG_COLUMN * (MOST // across) and blocks <= FEW:
            lanes = MOST // across
        else:
            pieces = min(-(-BLOCKS // blocks), -(-n // (COLUMN_PIECE * lanes)))
    size = -(-n // pieces) if n else 1
    return across, lanes, -(-n // size) if n else 1, size


def _steps(s: State, outer: int, n: int, inner: int, states: bool, outs: Outs | None, second: bool) -> list[Step]:
    """Reduce (outer, n, inner) of elements or states to results `outs`, or to states."""
    count = outer * inner
    index = index_type(outer * n * inner)
    states = states and not s.plain
    width = vector_width(s.operands) if not states and len(s.operands) == 1 else 1
    grid: Any
    block: Any
    if inner == 1:
        lanes, pieces, size = rows_shape(outer, n, width * (2 if width * s.operands[0].itemsize >= 16 else 4))
        pieces, size = (1, n) if second else (pieces, size)
        block = max(THREADS, lanes)
        grid = -(-outer * pieces * lanes // block)
        numbers = (outer * pieces, n, pieces, max(1, size), lanes.bit_length() - 1)
        width = width if width > 1 else 0
    else:
        across, lanes, pieces, size = columns_shape(count, n, inner, 8 if second else 32)
        pieces, size = (1, n) if second else (pieces, size)
        grid, block = (-(-count // across), pieces), (across, lanes)
        numbers = (count, n, inner, pieces, max(1, size))
        width = 0
    to_states = pieces > 1 or outs is None
    made = reduction(s, inner > 1, states, to_states, index)
    if pieces == 1:
        outs = _state_outs(s, count) if outs is None else outs
        return [Step(made, grid, block, outs, numbers, width)]
    first = Step(made, grid, block, _state_outs(s, count * pieces), numbers, width)
    return [first, *_steps(s, outer, pieces, inner, True, outs, True)]


def _state_outs(s: State, count: int) -> Outs:
    return [((count,), np.dtype(t)) for t in s.parts]


def merge(groups: Sequence[tuple[bool, int]]) -> list[tuple[bool, int]]:
    """Join neighbours of (reduced?, size) that are both reduced or both kept; lengths of 1 do not count."""
    merged: list[tuple[bool, int]] = []
    for reduced, size in groups:
        if size == 1:
            continue
        if merged and merged[-1][0] == reduced:
            merged[-1] = (reduced, merged[-1][1] * size)
        else:
            merged.append((reduced, size))
    return merged


def steps(s: State, groups: Sequence[tuple[bool, int]], outs: Outs | None) -> list[Step]:
    """Reduce alternating runs of kept and reduced axes, the longest first, to `outs` or (None) to states."""
    found: list[Step] = []
    if (True, 0) in groups:  # nothing to reduce: in one launch, as one between two would have no block to run
        groups = [(True, 0), *(g for g in groups if not g[0])]
    groups = merge(groups)
    while True:
        lengths = [size if reduced else -1 for reduced, size in groups]
        k = lengths.index(max(lengths)) if max(lengths, default=-1) >= 0 else len(groups)
        n = groups[k][1] if k < len(groups) else 1
        outer = math.prod(size for _, size in groups[:k])
        inner = math.prod(size for _, size in groups[k + 1 :])
        last = sum(length >= 0 for length in lengths) <= 1
        found += _steps(s, outer, n, inner, bool(found), outs if last else None, False)
        if last:
            return found
        groups = merge([g for j, g in enumerate(groups) if j != k])


def _is_run(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    step = itemsize
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and stride != step:
            return False
        step *= n
    return True


def plan(s: State, x: Buffer, axes: Sequence[int], halves: bool) -> Plan:
    """How to reduce an operand: in the order of its memory, so that a transposed one needs no copy."""
    ndim = x.ndim
    order = list(range(ndim))
    if not x.flat:
        strides = x.strides
        order.sort(key=lambda a: -abs(strides[a]) if x.shape[a] != 1 else 0)
        if not _is_run([x.shape[a] for a in order], [strides[a] for a in order], x.itemsize):
            order = [a for a in range(ndim) if a not in axes] + list(axes)
    run = x.flat or _is_run([x.shape[a] for a in order], [x.strides[a] for a in order], x.itemsize)
    kept = [a for a in order if a not in axes]
    groups = [(a in axes, x.shape[a]) for a in order]
    shape = tuple(x.shape[a] for a in kept)
    outs = [((*shape, 2) if halves else shape, s.target)]
    made = steps(s, [*groups, (False, 2)] if halves else groups, outs)
    back = None if kept == sorted(kept) else tuple(kept.index(a) for a in sorted(kept))
    simple = run and not halves and back is None and len(made) == 1
    short = simple and made[0].grid.__class__ is int and made[0].block == THREADS
    return Plan(None if run else tuple(order), halves, made, back, simple, short)


def half_of(dtype: np.dtype) -> np.dtype:
    """The type of a complex number's parts."""
    return np.dtype(f"float{dtype.itemsize * 4}")


def _retyped(x: Buffer, shape: tuple[int, ...], dtype: np.dtype, size: int) -> Buffer:
    return Buffer(x.device, x.address, shape, dtype, size, None, x if x.base is None else x.base)


def run(p: Plan, *operands: Buffer) -> Sequence[Buffer]:
    """Launch a plan's steps; the last one's outputs, in the order of memory."""
    first = operands[0]
    device = first.device
    if p.order is not None:
        strides = first.strides
        shape = tuple(first.shape[a] for a in p.order)
        first = contiguous(first.view(shape, tuple(strides[a] for a in p.order)))
        operands = (first, *operands[1:])
    if p.halves:
        operands = (_retyped(first, (2 * first.size,), half_of(first.dtype), 2 * first.size),)
    buffers: Sequence[Buffer] = operands
    for kernel, grid, block, outs, numbers, width in p.steps:
        made = [device.empty(shape, dtype) for shape, dtype in outs]
        if width:
            shift = buffers[0].address // buffers[0].dtype.itemsize % width
            device.launch(kernel, grid, block, *buffers, *made, *numbers, shift)
        else:
            device.launch(kernel, grid, block, *buffers, *made, *numbers)
        buffers = made
    return buffers


_plans: dict[Any, Plan] = {}


def _key(name: str, x: Buffer, axes: tuple[int, ...], target: np.dtype | None) -> Any:
    return name, x.shape, None if x.flat else x.strides, x.dtype, axes, target


def _run_short(p: Plan, x: Buffer) -> Buffer:
    """A plan of one row of usual blocks."""
    kernel, grid, _, outs, numbers, width = p.steps[0]
    device, address = x.device, x.address
    out = device.empty(*outs[0])
    if width:
        device.run(kernel, grid, address, out.address, *numbers, address // x.dtype.itemsize % width)
    else:
        device.run(kernel, grid, address, out.address, *numbers)
    return out


def by_state(
    name: str, x: Buffer, axes: tuple[int, ...], target: np.dtype | None, make: Callable[..., State], *given: Any
) -> Buffer:
    """Reduce any axes of a buffer of any layout by the state `make(*given)`, for which name, types and target stand.

    The result has the remaining axes in their order. A state of real numbers sums complex ones by halves.
    """
    key = _key(name, x, axes, target)
    found = _plans.get(key)
    if found is None:
        made = make(*given)
        shape = tuple(n for a, n in enumerate(x.shape) if a not in axes)
        if 0 in shape:
            return x.device.empty(shape, made.target if target is None else target)
        if len(_plans) >= PLANS:
            _plans.clear()
        found = _plans[key] = plan(made, x, axes, x.dtype.kind == "c" and made.operands[0].kind != "c")
    if found.simple:
        kernel, grid, block, outs, numbers, width = found.steps[0]
        out = x.device.empty(*outs[0])
        if width:
            x.device.launch(kernel, grid, block, x, out, *numbers, x.address // x.dtype.itemsize % width)
        else:
            x.device.launch(kernel, grid, block, x, out, *numbers)
        return out
    (out,) = run(found, x)
    if found.halves:
        out = _retyped(out, out.shape[:-1], np.dtype(f"complex{16 * out.itemsize}"), out.size // 2)
    if found.back is not None:
        strides = out.strides
        out = out.view(tuple(out.shape[k] for k in found.back), tuple(strides[k] for k in found.back))
    return out


def _monoid_state(monoid: Monoid, source: np.dtype, target: np.dtype) -> State:
    halves = monoid is SUM and source.kind == "c"
    return state(monoid, half_of(source), half_of(target)) if halves else state(monoid, source, target)


def reduce(monoid: Monoid, x: Buffer, axes: tuple[int, ...], target: np.dtype) -> Buffer:
    """Reduce any axes of a buffer of any layout; the result has the remaining axes in their order."""
    return by_state(monoid.name, x, axes, target, _monoid_state, monoid, x.dtype, target)


def reduce_rows(monoid: Monoid, x: Buffer, target: np.dtype | None = None) -> Buffer:
    """Reduce the last axis of a (rows, n) buffer."""
    return reduce(monoid, x, (1,), x.dtype if target is None else target)


def _reducer(monoid: Monoid) -> Callable[..., Buffer]:
    logical, name = monoid in (ANY, ALL), f"reduce_{monoid.name}"

    def kernel(x: Buffer, *, axes: tuple[int, ...], dtype: np.dtype | None = None) -> Buffer:
        short = name, x.shape, x.dtype, axes, dtype  # found before all else: 0.5 us less
        found = _plans.get(short) if x.flat else None
        if found is not None:
            return _run_short(found, x)
        target = BOOL if logical else x.dtype if dtype is None else dtype
        out = by_state(monoid.name, x, axes, target, _monoid_state, monoid, x.dtype, target)
        made = _plans.get(_key(monoid.name, x, axes, target))
        if made is not None and made.short and x.flat:
            _plans[short] = made
        return out

    kernel.__name__ = name
    return kernel


reduce_sum, reduce_prod = _reducer(SUM), _reducer(PROD)
reduce_max, reduce_min = _reducer(MAX), _reducer(MIN)
reduce_any, reduce_all = _reducer(ANY), _reducer(ALL)


def _arg_state(monoid: Monoid, x: Buffer) -> State:
    return arg_state(monoid, x.dtype, index_type(x.size))


def _arg_reducer(monoid: Monoid) -> Callable[..., Buffer]:
    name = f"arg{monoid.name}"

    def kernel(x: Buffer, *, axis: int) -> Buffer:
        return by_state(name, x, (axis,), None, _arg_state, monoid, x)

    kernel.__name__ = name
    return kernel


argmax, argmin = _arg_reducer(MAX), _arg_reducer(MIN)
