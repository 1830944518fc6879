"""Gathers and scatters of rows. Scatters run in index order in one thread per block of columns: deterministic."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from numbagrad.kernels.cpu import jobs, pool
from numbagrad.kernels.cpu.compiler import kernel_address
from numbagrad.kernels.cpu.copy import contiguous, copied
from numbagrad.scalar.render import NAMES


def resolve(index: np.ndarray, rows: int, mode: str, op: str) -> np.ndarray:
    """Flat row numbers in [0, rows); -1 for what is to be dropped or filled."""
    flat = np.ascontiguousarray(index.reshape(-1))
    if flat.size == 0:
        return flat
    low, high = flat.min(), flat.max()
    if low >= 0 and high < rows:
        return flat
    if mode == "wrap" and rows:
        return flat % rows
    flat = np.where(flat < 0, flat + rows, flat)
    outside = (flat < 0) | (flat >= rows)
    if outside.any():
        if mode == "raise":
            bad = index.reshape(-1)[np.argmax(outside)]
            raise IndexError(
                f"{op}: index out of range: got {bad} for an axis of length {rows}; needed {-rows} to {rows - 1}."
            )
        if mode == "clip" and rows:
            return np.clip(flat, 0, rows - 1)
        return np.where(outside, -1, flat)
    return flat


_TAKE = '''"""Rows of {t} picked by index; -1 gives the fill value."""

from numbagrad.kernels.cpu.abi import i64, {t}


def {name}(n, ptrs, strides):
    index, x, out, fill = i64(ptrs, 0), {t}(ptrs, 1), {t}(ptrs, 2), {t}(ptrs, 3)
    width = strides[4]
    for i in range(n):
        row = index[i]
        to = i * width
        if row >= 0:
            start = row * width
            for j in range(width):
                out[to + j] = x[start + j]
        else:
            for j in range(width):
                out[to + j] = fill[0]
'''

_SCATTER = '''"""Rows of {t} combined into a target by index, in index order; -1 is dropped."""

from numbagrad.kernels.cpu.abi import i64, {t}


def {name}(n, ptrs, strides):
    # one run is a block of columns, of which every row is visited: no two threads touch the same element
    out, x, index = {t}(ptrs, 0), {t}(ptrs, 1), i64(ptrs, 2)
    count, width = strides[3], strides[4]
    for i in range(count):
        row = index[i]
        if row >= 0:
            to, start = row * width, i * width
            for j in range(n):
                a, v = out[to + j], x[start + j]
                out[to + j] = {combine}
'''


@cache
def _kernel(template: str, name: str, dtype: np.dtype, combine: str = "") -> int:
    t = NAMES[dtype.name]
    name = f"{name}_{t}"
    return kernel_address(name, template.format(name=name, t=t, combine=combine))


def take(x: np.ndarray, index: np.ndarray, *, mode: str = "raise") -> np.ndarray:
    """Rows x[index]; mode "fill" gives nan (0 for other than floats) for what is out of range, "zero" 0."""
    rows = resolve(index, x.shape[0], "fill" if mode == "zero" else mode, "take")
    x = contiguous(x)
    width = math.prod(x.shape[1:])
    out = pool.empty((*index.shape, *x.shape[1:]), x.dtype)
    fill = np.array(np.nan if mode == "fill" and x.dtype.kind in "fc" else 0, x.dtype)
    count = rows.size
    item = x.itemsize
    piece = max(1, (1 << 14) // max(1, width))
    operands = ((rows, (8 * piece,), 1), (x, (0,), 0), (out, (piece * width * item,), 0), (fill, (0,), 0))
    address = _kernel(_TAKE, "take", x.dtype)
    whole = count // piece
    jobs.run(address, piece, (whole,), operands, (width,), work=max(1, width))
    if count % piece:
        done = whole * piece
        rest = ((rows[done:], (0,), 1), (x, (0,), 0), (out.reshape(-1)[done * width :], (0,), 0), (fill, (0,), 0))
        jobs.run(address, count - done, (1,), rest, (width,))
    return out


def _scatter(name: str, combine: str, out: np.ndarray, index: np.ndarray, updates: np.ndarray, mode: str) -> np.ndarray:
    rows = resolve(index, out.shape[0], mode, f"scatter_{name}")
    width = math.prod(out.shape[1:])
    flat = contiguous(updates)
    operands = ((out, (0,), 1), (flat, (0,), 1), (rows, (0,), 0))
    address = _kernel(_SCATTER, f"scatter_{name}", out.dtype, combine)
    if width and rows.size:
        jobs.run(address, width, (1,), operands, (rows.size, width), chunk=256 if rows.size * width > 1 << 16 else 0)
    return out


def scatter_add(target: np.ndarray, index: np.ndarray, updates: np.ndarray, *, mode: str = "raise") -> np.ndarray:
    """Updates added into a copy of the target, in index order."""
    return _scatter("add", "a + v", copied(target), index, updates, mode)


def scatter_add_into(target: np.ndarray, index: np.ndarray, updates: np.ndarray, *, mode: str = "raise") -> np.ndarray:
    """Updates added into the target itself."""
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
    flat = resolve(index, rows, mode, "scatter_set")
    out = np.full(rows, -1, np.int64)
    kept = np.flatnonzero(flat >= 0)
    out[flat[kept]] = kept
    return out
