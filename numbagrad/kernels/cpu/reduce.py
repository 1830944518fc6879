"""Reductions: one row kernel (a run to one element) and one column kernel (many runs, element by element).

Both keep a block of accumulators in L1 and combine whole blocks, which LLVM vectorises for any monoid without
permission to reorder; the row kernel then folds its block in halves. Results are bitwise the same for any number of
threads: long reductions are cut into chunks of fixed size, whose results are reduced again. float32 is summed in
float64, so its error does not grow with the length at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from numbagrad import config
from numbagrad.kernels.cpu import jobs, pool
from numbagrad.kernels.cpu.compiler import kernel_address
from numbagrad.kernels.cpu.copy import contiguous
from numbagrad.kernels.cpu.launcher import Variant
from numbagrad.scalar.render import NAMES

COLUMNS = 256  # columns a thread takes at a time
LANES = 64  # accumulators of a row: enough for 512-bit vectors and the latency of an addition


class Monoid:
    """What a reduction does: start value, `combine` of accumulator `a` and element `v`, wide accumulator or not."""

    def __init__(self, name: str, start: str, combine: str, wide: bool = False) -> None:
        self.name, self.start, self.combine, self.wide = name, start, combine, wide


SUM = Monoid("sum", "0", "a + v", wide=True)
PROD = Monoid("prod", "1", "a * v", wide=True)
MAX = Monoid("max", "lowest", "a if (a >= v) | (a != a) else v")
MIN = Monoid("min", "highest", "a if (a <= v) | (a != a) else v")
ANY = Monoid("any", "0", "a | v")
ALL = Monoid("all", "1", "a & v")
BYTE = np.dtype(np.uint8)


def _accumulator(monoid: Monoid, source: np.dtype, target: np.dtype) -> np.dtype:
    """Type of partial results: sums of float32 in float64, of integers in the target; any and all in bytes."""
    if monoid in (ANY, ALL):
        return BYTE
    if not monoid.wide:
        return source
    if source.kind in "ui":
        return target
    return np.dtype(np.complex128 if source.kind == "c" else np.float64)


def _start(monoid: Monoid, dtype: np.dtype) -> str:
    if monoid.start == "lowest":
        return "-np.inf" if dtype.kind == "f" else str(np.iinfo(dtype).min)
    if monoid.start == "highest":
        return "np.inf" if dtype.kind == "f" else str(np.iinfo(dtype).max)
    return monoid.start


_HEADER = '''"""{name} of {source} into {target}, {shape}."""

import numpy as np
from numba import {types}
from numbagrad.kernels.cpu.abi import LANE_BLOCK, {pointers}


'''

_ROW = """def {function}(n, ptrs, strides):
    x, out = {source}(ptrs, 0), {target}(ptrs, 1)
    total = {acc}({start})
    whole = n // {lanes}
    if whole > 1:
        acc = {stack}()
        for j in range({lanes}):
            acc[j] = {acc}({start})
        for block in range(whole):
            base = block * {lanes}
            for j in range({lanes}):
                a, v = acc[j], {element}
                acc[j] = {acc}({combine})
        width = {lanes} // 2
        while width > 0:
            for j in range(width):
                a, v = acc[j], acc[j + width]
                acc[j] = {acc}({combine})
            width //= 2
        total = acc[0]
    else:
        whole = 0
    base = whole * {lanes}
    for j in range(n - base):
        a, v = total, {element}
        total = {acc}({combine})
    out[0] = {convert}(total)
"""

_COLUMN = """def {function}(n, ptrs, strides):
    x, out = {source}(ptrs, 0), {target}(ptrs, 1)
    rows, step = strides[2], strides[3]
    acc = {stack}()
    for first in range(0, n, LANE_BLOCK):
        width = min(LANE_BLOCK, n - first)
        for j in range(width):
            acc[j] = {acc}({start})
        fours = rows - rows % 4
        for r in range(0, fours, 4):  # four rows for one load and store of an accumulator
            base = r * step + first
            for j in range(width):
                a, v = acc[j], {element}
                a = {acc}({combine})
                v = {element1}
                a = {acc}({combine})
                v = {element2}
                a = {acc}({combine})
                v = {element3}
                acc[j] = {acc}({combine})
        for r in range(fours, rows):
            base = r * step + first
            for j in range(width):
                a, v = acc[j], {element}
                acc[j] = {acc}({combine})
        for j in range(width):
            out[first + j] = {convert}(acc[j])
"""


@cache
def _kernel(monoid: Monoid, source: np.dtype, target: np.dtype, column: bool) -> tuple[str, str]:
    """Name and source of a reduction kernel."""
    acc = _accumulator(monoid, source, target)
    acc_name, source_name, target_name = NAMES[acc.name], NAMES[source.name], NAMES[target.name]
    function = f"{monoid.name}_{'columns' if column else 'rows'}_{source_name}_{target_name}"
    element = f"{acc.name}(x[base + j] != 0)" if monoid in (ANY, ALL) else f"{acc.name}(x[base + j])"
    later = {f"element{k}": element.replace("base + j", f"base + {k} * step + j") for k in (1, 2, 3)}
    text = (_HEADER + (_COLUMN if column else _ROW)).format(
        name=monoid.name,
        shape="over the rows of a block of columns" if column else "over one row",
        function=function,
        lanes=LANES,
        types=", ".join(sorted({d.name for d in (acc, target)})),
        pointers=", ".join(sorted({source_name, target_name, f"stack_{acc_name}"})),
        source=source_name,
        target=target_name,
        acc=acc.name,
        element=element,
        **later,
        stack=f"stack_{acc_name}",
        start=_start(monoid, acc),
        combine=monoid.combine,
        convert=target.name,
    )
    return function, text


@cache
def _address(monoid: Monoid, source: np.dtype, target: np.dtype, column: bool) -> int:
    return kernel_address(*_kernel(monoid, source, target, column))


@cache
def _small(monoid: Monoid, source: np.dtype, target: np.dtype) -> Any:
    """Native `(x, out)`: reduce the trailing axes of a small contiguous array; None if it is not one."""
    function, text = _kernel(monoid, source, target, False)
    return Variant(function, text, (1, 0), 1, (source, target), limit=config.CHUNK_ELEMENTS).reduce


def reduce_rows(monoid: Monoid, x: np.ndarray, target: np.dtype) -> np.ndarray:
    """Reduce the last axis of a C-contiguous (rows, n) array."""
    rows, n = x.shape
    chunk = config.CHUNK_ELEMENTS
    if n > chunk and rows:
        whole = n // chunk
        wide = _accumulator(monoid, x.dtype, target)
        partial = np.empty((rows, whole + (n % chunk > 0)), wide)
        _rows(monoid, x, partial, (rows, whole), chunk, 0, 0)
        if n % chunk:
            _rows(monoid, x, partial, (rows, 1), n % chunk, whole * chunk, whole)
        return reduce_rows(monoid, partial, target)
    out = pool.empty((rows,), target)
    _rows(monoid, x, out[:, None], (rows, 1), n, 0, 0)
    return out


def _rows(monoid: Monoid, x: np.ndarray, out: np.ndarray, outer: tuple[int, int], n: int, at: int, column: int) -> None:
    address = _address(monoid, x.dtype, out.dtype, False)
    source = (x[:, at:], (x.strides[0], n * x.itemsize), 1)
    target = (out[:, column:], (out.strides[0], out.itemsize), 0)
    jobs.run(address, n, outer, (source, target))


def reduce_columns(monoid: Monoid, x: np.ndarray, target: np.dtype) -> np.ndarray:
    """Reduce the middle axis of a C-contiguous (outer, rows, columns) array."""
    outer, rows, columns = x.shape
    height = _height(columns)
    if rows > 2 * height and outer * columns:
        whole = rows // height
        wide = _accumulator(monoid, x.dtype, target)
        partial = np.empty((outer, whole + (rows % height > 0), columns), wide)
        _columns(monoid, x, partial, (outer, whole), height, 0, 0)
        if rows % height:
            _columns(monoid, x, partial, (outer, 1), rows % height, whole * height, whole)
        return reduce_columns(monoid, partial, target)
    out = pool.empty((outer, columns), target)
    _columns(monoid, x, out[:, None], (outer, 1), rows, 0, 0)
    return out


def _columns(
    monoid: Monoid, x: np.ndarray, out: np.ndarray, outer: tuple[int, int], rows: int, at: int, row: int
) -> None:
    address = _address(monoid, x.dtype, out.dtype, True)
    columns = x.shape[2]
    source = (x[:, at:], (x.strides[0], rows * x.strides[1]), 1)
    target = (out[:, row:], (out.strides[0], out.strides[1]), 1)
    jobs.run(address, columns, outer, (source, target), (rows, columns), chunk=COLUMNS, work=max(1, rows))


@lru_cache(maxsize=4096)
def _column_plan(
    monoid: Monoid, shape: tuple[int, ...], reduced: int, source: np.dtype, target: np.dtype
) -> jobs.Prepared | None:
    """The job that reduces the leading axes of an array in C order, if it is one job."""
    rows, columns = math.prod(shape[:reduced]), math.prod(shape[reduced:])
    if rows > 2 * _height(columns) or rows * columns == 0:
        return None
    cut, wake = jobs.cut_for(columns, (), COLUMNS, rows)
    items = [source.itemsize, target.itemsize]
    job = jobs.layout(_address(monoid, source, target, True), cut, (), [0, 0], [1, 1], [(), ()], items, (rows, columns))
    return jobs.Prepared.of(job, 0, wake)


def _height(columns: int) -> int:
    """Rows that are combined at a time."""
    return max(64, 4 * config.CHUNK_ELEMENTS // max(1, columns))


def _memory_order(x: np.ndarray) -> list[int]:
    return sorted(range(x.ndim), key=lambda axis: (-abs(x.strides[axis]), axis))


def reduce(monoid: Monoid, x: np.ndarray, axes: Sequence[int], target: np.dtype) -> np.ndarray:
    """Reduce any axes of an array of any layout; the result has the remaining axes in their order."""
    kept_shape = tuple(n for a, n in enumerate(x.shape) if a not in axes)
    long = [a for a in range(x.ndim) if x.shape[a] != 1]
    axes = [k for k, a in enumerate(long) if a in axes]
    x = x.reshape([x.shape[a] for a in long]) if len(long) < x.ndim else x
    order = _memory_order(x)
    if not x.transpose(order).flags.c_contiguous:
        order = [a for a in range(x.ndim) if a not in axes] + axes
    flat = contiguous(x.transpose(order))
    result = _reduce_groups(monoid, flat, _merge([(a in axes, x.shape[a]) for a in order]), target)
    kept = [a for a in order if a not in axes]
    result = result.reshape([x.shape[a] for a in kept])
    return result.transpose([kept.index(a) for a in sorted(kept)]).reshape(kept_shape)


def _merge(groups: Sequence[tuple[bool, int]]) -> list[tuple[bool, int]]:
    """Join neighbours of (reduced?, size) that are both reduced or both kept."""
    merged: list[tuple[bool, int]] = []
    for reduced, size in groups:
        if merged and merged[-1][0] == reduced:
            merged[-1] = (reduced, merged[-1][1] * size)
        else:
            merged.append((reduced, size))
    return merged


def _reduce_groups(monoid: Monoid, flat: np.ndarray, groups: list[tuple[bool, int]], target: np.dtype) -> np.ndarray:
    """Reduce alternating runs of kept and reduced axes, the innermost first."""
    if not any(reduced for reduced, _ in groups):
        groups = [*groups, (True, 1)]
    while True:
        last = len(groups) - 1 if groups[-1][0] else len(groups) - 2
        final = sum(reduced for reduced, _ in groups) == 1
        wide = target if final else _accumulator(monoid, flat.dtype, target)
        before = math.prod(size for _, size in groups[:last])
        if last == len(groups) - 1:
            flat = reduce_rows(monoid, flat.reshape(before, groups[last][1]), wide)
        else:
            flat = reduce_columns(monoid, flat.reshape(before, groups[last][1], groups[-1][1]), wide)
        groups = _merge([g for k, g in enumerate(groups) if k != last])
        if final:
            return flat


def _reducer(monoid: Monoid) -> Callable[..., np.ndarray]:
    def kernel(x: np.ndarray, *, axes: tuple[int, ...], dtype: np.dtype | None = None) -> np.ndarray:
        target = x.dtype if dtype is None else dtype
        if monoid in (ANY, ALL):
            target = np.dtype(bool)
        if x.dtype.kind == "b":
            x = x.view(np.uint8)
        if target.kind == "b":
            return _of(monoid, x, axes, BYTE).view(bool)
        return _of(monoid, x, axes, target)

    kernel.__name__ = f"reduce_{monoid.name}"
    return kernel


def _of(monoid: Monoid, x: np.ndarray, axes: tuple[int, ...], target: np.dtype) -> np.ndarray:
    """The shortest way for the layout."""
    kept = x.ndim - len(axes)
    if axes == tuple(range(kept, x.ndim)):
        out = np.empty(x.shape[:kept], target)
        if _small(monoid, x.dtype, target)(x, out):
            return out
    if len(axes) < x.ndim and axes == tuple(range(len(axes))) and x.flags.c_contiguous:
        kept_shape = x.shape[len(axes) :]
        plan = _column_plan(monoid, x.shape, len(axes), x.dtype, target)
        if plan is not None:
            out = np.empty(kept_shape, target)
            plan.run(x, out)
            return out
        block = x.reshape(1, math.prod(x.shape[: len(axes)]), math.prod(kept_shape))
        return reduce_columns(monoid, block, target).reshape(kept_shape)
    return reduce(monoid, x, axes, target)


reduce_sum, reduce_prod = _reducer(SUM), _reducer(PROD)
reduce_max, reduce_min = _reducer(MAX), _reducer(MIN)
reduce_any, reduce_all = _reducer(ANY), _reducer(ALL)


_ARG = '''"""Index of the first {name} of a row of {source}; the first nan counts as one."""

from numbagrad.kernels.cpu.abi import {pointers}


def {function}(n, ptrs, strides):
    # the value is known (operand 1): blocks are tested for it whole, then one block is searched
    x, best, out = {source}(ptrs, 0), {source}(ptrs, 1), i64(ptrs, 2)
    m = best[0]
    base = 0
    while base < n:
        width = min({lanes}, n - base)
        hits = 0
        for j in range(width):
            v = x[base + j]
            hits += 1 if (v == m) | ((v != v) & (m != m)) else 0
        if hits > 0:
            for j in range(width):
                v = x[base + j]
                if (v == m) | ((v != v) & (m != m)):
                    out[0] = base + j
                    return
        base += width
'''


@cache
def _arg_kernel(name: str, source: np.dtype) -> int:
    source_name = NAMES[source.name]
    function = f"arg{name}_{source_name}"
    pointers = ", ".join(sorted({"i64", source_name}))
    text = _ARG.format(name=name, source=source_name, function=function, lanes=4 * LANES, pointers=pointers)
    return kernel_address(function, text)


def _arg_reducer(name: str) -> Callable[..., np.ndarray]:
    def kernel(x: np.ndarray, *, axis: int) -> np.ndarray:
        last = axis == x.ndim - 1
        rows = contiguous(x if last else x.transpose(*[k for k in range(x.ndim) if k != axis], axis))
        rows = rows.view(np.uint8) if rows.dtype.kind == "b" else rows
        out = np.empty(rows.shape[:-1], np.int64)
        n = rows.shape[-1]
        monoid, best = MAX if name == "max" else MIN, np.empty(out.shape, rows.dtype)
        if not _small(monoid, rows.dtype, rows.dtype)(rows, best):
            best = reduce_rows(monoid, rows.reshape(out.size, n), rows.dtype)
        operands = ((rows, (n * rows.itemsize,), 1), (best, (rows.itemsize,), 0), (out, (8,), 0))
        jobs.run(_arg_kernel(name, rows.dtype), n, (out.size,), operands)
        return out

    kernel.__name__ = f"arg{name}"
    return kernel


argmax, argmin = _arg_reducer("max"), _arg_reducer("min")
