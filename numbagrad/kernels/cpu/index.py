"""Gathers and scatters of rows. Scatters are deterministic: in index order within a thread's columns, or by pieces as
in segment.py where the updates are many against the rows."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from numbagrad.kernels.cpu import jobs, pool, segment
from numbagrad.kernels.cpu.compiler import kernel_address
from numbagrad.kernels.cpu.copy import contiguous, copied
from numbagrad.kernels.cpu.places import MODES, PLACE, readable, refuse, resolve
from numbagrad.scalar.render import NAMES

SMALL = 512  # elements that NumPy has copied before a kernel is called

_TAKE = '''"""Rows of {t} picked by index."""

from numba import int64, njit
from numbagrad.kernels.cpu.abi import {pointers}


{place}def {name}(n, ptrs, strides):
    index, x, out, fill, bad = {i}(ptrs, 0), {t}(ptrs, 1), {t}(ptrs, 2), {t}(ptrs, 3), i64(ptrs, 4)
    width, rows, mode = strides[5], strides[6], strides[7]
    base = 0
    while base < n:
        # blocks without an index to resolve, nearly all, have a loop without branches
        stop = min(base + 512, n)
        outside = 0
        for k in range(base, stop):
            row = int64(index[k])
            outside |= row | (rows - 1 - row)  # its sign
        if (outside >= 0) & (width == 1):
            for k in range(base, stop):
                out[k] = x[index[k]]
        else:
            for k in range(base, stop):
                row = int64(index[k])
                if not ((row >= 0) & (row < rows)):
                    row = elsewhere(row, rows, mode)
                to, start = k * width, row * width
                if row >= 0:
                    for j in range(width):
                        out[to + j] = x[start + j]
                else:
                    bad[0] = 1
                    for j in range(width):
                        out[to + j] = fill[0]
        base = stop
'''

_SCATTER = '''"""Rows of {t} combined into a target by index, in index order."""

from numba import int64, njit
from numbagrad.kernels.cpu.abi import {pointers}


{place}def {name}(n, ptrs, strides):
    # one run is a block of columns, of which every row is visited: no two threads touch the same element
    out, x, index, bad = {t}(ptrs, 0), {t}(ptrs, 1), {i}(ptrs, 2), i64(ptrs, 3)
    count, width, rows, mode = strides[4], strides[5], strides[6], strides[7]
    for k in range(count):
        row = int64(index[k])
        if not ((row >= 0) & (row < rows)):
            row = elsewhere(row, rows, mode)
            if row < 0:
                bad[0] = 1
                continue
        to, start = row * width, k * width
        for j in range(n):
            a, v = out[to + j], x[start + j]
            out[to + j] = {combine}
'''


@cache
def _kernel(template: str, name: str, dtype: np.dtype, index: np.dtype, combine: str = "") -> int:
    t, i = NAMES[dtype.name], NAMES[index.name]
    name = f"{name}_{t}_{i}"
    names = dict(name=name, t=t, i=i, combine=combine, place=PLACE, pointers=", ".join(sorted({t, i, "i64"})))
    return kernel_address(name, template.format(**names))


def take(x: np.ndarray, index: np.ndarray, *, mode: str = "raise") -> np.ndarray:
    """Rows x[index]; out of range by mode, see places.py."""
    if x.dtype.kind == "b":
        return take(x.view(np.uint8), index, mode=mode).view(bool)
    rows, width = x.shape[0], math.prod(x.shape[1:])
    if mode == "raise" and 0 < index.size * width <= SMALL:
        try:
            return np.asarray(np.take(x, index, axis=0))
        except IndexError:
            refuse("take", index, rows)
    x, flat = contiguous(x), readable(index)
    out = pool.empty((*index.shape, *x.shape[1:]), x.dtype)
    fill = np.array(np.nan if mode == "fill" and x.dtype.kind in "fc" else 0, x.dtype)
    bad = np.zeros(1, np.int64)
    if flat.size and (out.size or mode == "raise"):
        operands = ((flat, (0,), 1), (x, (0,), 0), (out, (0,), width), (fill, (0,), 0), (bad, (0,), 0))
        chunk = max(1, (1 << 15) // max(1, width))
        address = _kernel(_TAKE, "take", x.dtype, flat.dtype)
        jobs.run(address, flat.size, (1,), operands, (width, rows, MODES[mode]), chunk=chunk, work=max(1, width))
    _check("take", index, rows, mode, width, bad)
    return out


def _scatter(name: str, combine: str, out: np.ndarray, index: np.ndarray, updates: np.ndarray, mode: str) -> np.ndarray:
    flat, updates = readable(index), contiguous(updates)
    rows, width = out.shape[0], math.prod(out.shape[1:])
    bad = np.zeros(1, np.int64)
    if flat.size and width:
        operands = ((out, (0,), 1), (updates, (0,), 1), (flat, (0,), 0), (bad, (0,), 0))
        address = _kernel(_SCATTER, f"scatter_{name}", out.dtype, flat.dtype, combine)
        chunk = 256 if flat.size * width > 1 << 16 else 0
        extras = (flat.size, width, rows, MODES[mode])
        jobs.run(address, width, (1,), operands, extras, chunk=chunk, work=max(1, flat.size))
    _check(f"scatter_{name}", index, rows, mode, width, bad)
    return out


def _check(op: str, index: np.ndarray, rows: int, mode: str, width: int, bad: np.ndarray) -> None:
    """The IndexError of mode "raise"; rows without elements have had no loop."""
    if mode == "raise" and (bad[0] or (width == 0 and (resolve(index, rows, "fill", op) < 0).any())):
        refuse(op, index, rows)


def scatter_add(target: np.ndarray, index: np.ndarray, updates: np.ndarray, *, mode: str = "raise") -> np.ndarray:
    """Updates added into a copy of the target."""
    return scatter_add_into(copied(target), index, updates, mode=mode)


def scatter_add_into(target: np.ndarray, index: np.ndarray, updates: np.ndarray, *, mode: str = "raise") -> np.ndarray:
    """Updates added into the target itself; of booleans, whether there is any."""
    if target.dtype.kind == "b":
        return _scatter("or", "a | v", target, index, updates, mode)
    rows = target.shape[0] if target.ndim else 0
    if segment.pieces_of(index.size, rows) > 1:
        target += segment.combine("sum", updates, index, rows, mode)
        return target
    return _scatter("add", "a + v", target, index, updates, mode)


def scatter_set(target: np.ndarray, index: np.ndarray, updates: np.ndarray, *, mode: str = "raise") -> np.ndarray:
    """Updates written into a copy of the target; the last one wins."""
    return _scatter("set", "v", copied(target), index, updates, mode)


def scatter_max(target: np.ndarray, index: np.ndarray, updates: np.ndarray, *, mode: str = "raise") -> np.ndarray:
    """The larger of the target and the updates that go there; nan wins."""
    return _scatter("max", "a if (a >= v) | (a != a) else v", copied(target), index, updates, mode)


def scatter_min(target: np.ndarray, index: np.ndarray, updates: np.ndarray, *, mode: str = "raise") -> np.ndarray:
    """The smaller of the target and the updates that go there; nan wins."""
    return _scatter("min", "a if (a <= v) | (a != a) else v", copied(target), index, updates, mode)


def flat_rows(index: np.ndarray, *, rows: int, mode: str = "raise") -> np.ndarray:
    """Row numbers, -1 for what is dropped."""
    return resolve(index, rows, mode, "scatter")


def last_writer(index: np.ndarray, *, rows: int, mode: str = "raise") -> np.ndarray:
    """Position of the last update of each row, -1 where there is none."""
    out, number = np.full(rows, -1, np.int64), np.arange(index.size).reshape(index.shape)
    return _scatter("set", "v", out, index, number, mode)
