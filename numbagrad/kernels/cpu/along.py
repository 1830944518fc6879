"""Elements along one axis by index. An array is seen as (before, axis, after): lines of the axis, `after` abreast."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from numbagrad import config
from numbagrad.kernels.cpu import jobs, pool
from numbagrad.kernels.cpu.compiler import kernel_address
from numbagrad.kernels.cpu.copy import contiguous, copied
from numbagrad.scalar.render import NAMES

ABREAST = 256  # lines a thread takes at a time
MANY = 1024  # more updates of one element are summed in the wide type
_WIDE = {"float32": np.dtype(np.float64), "complex64": np.dtype(np.complex128)}

_TAKE = '''"""Elements of lines of {t} picked by index; -1 gives 0."""

from numba import {T}
from numbagrad.kernels.cpu.abi import i64, {t}


def {name}(n, ptrs, strides):
    index, x, out = i64(ptrs, 0), {t}(ptrs, 1), {t}(ptrs, 2)
    after = strides[3]
    if after == 1:
        for j in range(n):
            i = index[j]
            out[j] = x[i] if i >= 0 else {T}(0)
    else:
        for j in range(n):
            line = j * after
            for c in range(after):
                i = index[line + c]
                out[line + c] = x[i * after + c] if i >= 0 else {T}(0)
'''

_ADD = '''"""Elements of {t} added into lines by index, in index order; -1 is dropped."""

from numbagrad.kernels.cpu.abi import i64, {t}


def {name}(n, ptrs, strides):
    # one run is a block of lines abreast, of which every element is visited: no two threads meet
    out, index, x = {t}(ptrs, 0), i64(ptrs, 1), {t}(ptrs, 2)
    count, after = strides[3], strides[4]
    for j in range(count):
        line = j * after
        for c in range(n):
            i = index[line + c]
            if i >= 0:
                out[i * after + c] += x[line + c]
'''

_ADD_WIDE = '''"""Elements of {t} added into lines by index in {a}, and rounded once; -1 is dropped."""

from numba import {A}, {T}
from numbagrad.kernels.cpu.abi import i64, {t}, {a}


def {name}(n, ptrs, strides):
    # only what the index names is set up, and read back: the line itself may be far longer
    out, index, x, total = {t}(ptrs, 0), i64(ptrs, 1), {t}(ptrs, 2), {a}(ptrs, 3)
    count, after = strides[4], strides[5]
    for j in range(count):
        line = j * after
        for c in range(n):
            i = index[line + c]
            if i >= 0:
                total[i * after + c] = {A}(out[i * after + c])
    for j in range(count):
        line = j * after
        for c in range(n):
            i = index[line + c]
            if i >= 0:
                total[i * after + c] += {A}(x[line + c])
    for j in range(count):
        line = j * after
        for c in range(n):
            i = index[line + c]
            if i >= 0:
                out[i * after + c] = {T}(total[i * after + c])
'''

_ADD_UNIQUE = '''"""Elements of {t} added into one line by indices without repeats: pieces in any order."""

from numbagrad.kernels.cpu.abi import i64, {t}


def {name}(n, ptrs, strides):
    out, index, x = {t}(ptrs, 0), i64(ptrs, 1), {t}(ptrs, 2)
    for j in range(n):
        i = index[j]
        if i >= 0:
            out[i] += x[j]
'''


@cache
def _kernel(name: str, template: str, dtype: np.dtype) -> int:
    t, wide = NAMES[dtype.name], _WIDE.get(dtype.name, dtype).name
    names = dict(name=f"{name}_{t}", t=t, T=dtype.name, a=NAMES[wide], A=wide)
    return kernel_address(f"{name}_{t}", template.format(**names))


def take_along(
    x: np.ndarray, index: np.ndarray, *, axis: int, unique: bool = False, repeats: int | None = None
) -> np.ndarray:
    """x at the index along the axis; -1 gives 0."""
    if x.dtype.kind == "b":
        return take_along(x.view(np.uint8), index, axis=axis).view(bool)
    out = pool.empty(index.shape, x.dtype)
    before, count, after = _shape(index, axis)
    if out.size == 0:
        return out
    x, index, item = contiguous(x), contiguous(index), x.itemsize
    address = _kernel("take_along", _TAKE, x.dtype)
    line, source = count * after, x.shape[axis] * after
    operands = ((index, (8 * line,), after), (x, (item * source,), 0), (out, (item * line,), after))
    chunk = max(1, config.CHUNK_ELEMENTS // after)
    jobs.run(address, count, (before,), operands, (after,), chunk=chunk, work=after)
    return out


def add_along(
    target: np.ndarray,
    index: np.ndarray,
    updates: np.ndarray,
    *,
    axis: int,
    unique: bool = False,
    repeats: int | None = None,
) -> np.ndarray:
    """Updates added into a copy of the target."""
    return add_along_into(copied(target), index, updates, axis=axis, unique=unique, repeats=repeats)


def add_along_into(
    target: np.ndarray,
    index: np.ndarray,
    updates: np.ndarray,
    *,
    axis: int,
    unique: bool = False,
    repeats: int | None = None,
) -> np.ndarray:
    """Updates added into the target itself, which is in C order.

    Where more than MANY can meet in one element, float32 is summed in float64: 1e6 ones are 1e6, at 1.3 to 2 times
    the time. It depends on shapes alone.
    """
    before, count, after = _shape(index, axis)
    if index.size == 0:
        return target
    if target.dtype.kind == "b":  # whether there is any
        counts, ones = np.zeros(target.shape, np.int64), updates.astype(np.int64)
        counts = add_along_into(counts, index, ones, axis=axis, unique=unique, repeats=repeats)
        return np.logical_or(target, counts, out=target)
    index, updates, item = contiguous(index), contiguous(updates), target.itemsize
    line, wide = count * after, target.shape[axis] * after
    if unique and after == 1:
        line_operands = ((target, (item * wide,), 0), (index, (8 * line,), 1), (updates, (item * line,), 1))
        address = _kernel("add_along_unique", _ADD_UNIQUE, target.dtype)
        jobs.run(address, count, (before,), line_operands, chunk=config.CHUNK_ELEMENTS)
    else:
        operands: list[jobs.Operand] = [
            (target, (item * wide,), 1),
            (index, (8 * line,), 1),
            (updates, (item * line,), 1),
        ]
        met = 1 if unique else count if repeats is None else min(count, repeats)
        summed = _WIDE.get(target.dtype.name) if met > MANY else None
        if summed is not None:
            total = pool.empty((before * wide,), summed)
            operands.append((total, (total.itemsize * wide,), 1))
        address = _kernel("add_along_wide" if summed else "add_along", _ADD_WIDE if summed else _ADD, target.dtype)
        jobs.run(address, after, (before,), operands, (count, after), chunk=ABREAST, work=count)
    return target


def _shape(index: np.ndarray, axis: int) -> tuple[int, int, int]:
    return math.prod(index.shape[:axis]), index.shape[axis], math.prod(index.shape[axis + 1 :])
