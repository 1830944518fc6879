"""Sorting along an axis, and searching in sorted lines. How: see sort_text.py.

A line of up to 2048 elements takes one launch, and as many of them as there are; longer ones one more for each
doubling. The k largest, for k up to 1024, come out of the k largest of each tile.
"""
# Checklist of docs/design/cuda.md: all 15 hold; no atomics; registers <= 60, no stack (sm_90; int64 indices: 65).

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np

from numbagrad.core.errors import message
from numbagrad.kernels.cpu.sort_text import before
from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.copy import contiguous
from numbagrad.kernels.cuda.kernel import THREADS, Kernel, blocks, index_type, kernel, short
from numbagrad.kernels.cuda.sort_text import (
    FIRST,
    FLOATING,
    LAST,
    SEARCH,
    TILE,
    VALUES,
    merge_text,
    parameters,
    tile_text,
)
from numbagrad.scalar.render import NAMES

INDEX = np.dtype(np.int64)
PLACE = np.dtype(np.uint32)
LONGEST = 1 << 32  # elements of a line whose places are 32-bit numbers


def sort(x: Buffer, *, axis: int, descending: bool = False) -> Buffer:
    """Elements in order along an axis, nan last (first if descending)."""
    rows = _last(x, axis)
    out = x.device.empty(rows.shape, x.dtype)
    _order(rows, descending, rows.shape[-1], None, out)
    return _back(out, axis)


def argsort(x: Buffer, *, axis: int, descending: bool = False) -> Buffer:
    """The stable permutation that sorts along an axis."""
    rows = _last(x, axis)
    index = x.device.empty(rows.shape, INDEX)
    _order(rows, descending, rows.shape[-1], index, None)
    return _back(index, axis)


def sort_routed(x: Buffer, *, axis: int, descending: bool = False) -> tuple[Buffer, Buffer]:
    """Sorted elements, and the stable permutation."""
    rows = _last(x, axis)
    index, out = x.device.empty(rows.shape, INDEX), x.device.empty(rows.shape, x.dtype)
    _order(rows, descending, rows.shape[-1], index, out)
    return _back(out, axis), _back(index, axis)


def argpartition(x: Buffer, *, kth: tuple[int, ...], axis: int) -> Buffer:
    """A permutation along an axis with the right elements at the places `kth`: at all places."""
    return argsort(x, axis=axis)


def top_k(x: Buffer, *, k: int) -> Buffer:
    """Places of the k largest of each row, the largest first, equal ones in their order."""
    index = x.device.empty((*x.shape[:-1], k), INDEX)
    if index.size:
        _order(contiguous(x), True, k, index, None)
    return index


def searchsorted(line: Buffer, values: Buffer, *, side: str) -> Buffer:
    """Where values would go into a sorted line."""
    out = values.device.empty(values.shape, INDEX)
    if out.size:
        index = index_type(line.size, out.size)
        found = _search_kernel(line.dtype, values.dtype, side, index)
        line, values = _plain(contiguous(line)), _plain(contiguous(values))
        out.device.launch(found, blocks(out.size), THREADS, line, values, out, line.size, out.size)
    return out


def _last(x: Buffer, axis: int) -> Buffer:
    """In C order with the axis last."""
    axis %= x.ndim
    if axis == x.ndim - 1:
        return contiguous(x)
    return contiguous(_moved(x, (*range(axis), *range(axis + 1, x.ndim), axis)))


def _back(rows: Buffer, axis: int) -> Buffer:
    axis %= rows.ndim
    last = rows.ndim - 1
    return rows if axis == last else contiguous(_moved(rows, (*range(axis), last, *range(axis, last))))


def _moved(x: Buffer, axes: tuple[int, ...]) -> Buffer:
    strides = x.strides
    return x.view(tuple(x.shape[k] for k in axes), tuple(strides[k] for k in axes))


def _plain(x: Buffer) -> Buffer:
    return x.typed(np.dtype(np.uint8)) if x.dtype.kind == "b" else x


def _order(rows: Buffer, descending: bool, keep: int, index: Buffer | None, values: Buffer | None) -> None:
    """Sort lines along the last axis: the first `keep` places of each into `index`, elements into `values`."""
    if not rows.size:
        return
    n, device = rows.shape[-1], rows.device
    form, word, steps = _plan(rows.dtype, rows.size // n, n, keep, descending, index is not None, values is not None)
    # an array that a launch does not use has to be some buffer
    nothing = [rows] * (2 if form == "pairs" else 1)
    results = [rows if values is None else values] if index is None else [index, rows if values is None else values]
    words = nothing
    for found, grid, size, numbers in steps:
        out = nothing
        if size:
            out = [device.empty((size,), word)]
            if form == "pairs":
                out.append(device.empty((size,), PLACE))
        device.launch(found, grid, THREADS, rows, *words, *out, *results, *numbers)
        words = out


# A launch: kernel, blocks, words that it leaves behind (none if it is the last), numbers.
Step = tuple[Kernel, int, int, tuple[int, ...]]


@lru_cache(4096)
def _plan(
    dtype: np.dtype, lines: int, n: int, keep: int, descending: bool, indexed: bool, valued: bool
) -> tuple[str, np.dtype, list[Step]]:
    """What is sorted (see sort_text.py), the type of its words, and the launches."""
    if n > LONGEST:
        raise ValueError(message("sort", "a row is too long", f"{n} elements", f"at most {LONGEST}"))
    if dtype.kind == "c":
        raise TypeError(message("sort", "complex numbers have no order", dtype, "a real dtype"))
    bits = 8 * dtype.itemsize
    form = "keys" if not indexed else "pairs" if bits == 64 else "packed"
    word = np.dtype(np.uint64 if bits == 64 or form == "packed" else np.uint32)
    top = 1 << (bits - 1) if dtype.kind == "i" else 0
    mask: Any = top ^ ((1 << (64 if bits == 64 else 32)) - 1 if descending else 0)
    mask = np.uint64(mask) if bits == 64 else mask
    flags = (FLOATING if dtype.kind == "f" else 0) | (VALUES if valued else 0)
    index = index_type(lines * n)
    return form, word, _steps(form, bits, index, lines, n, keep, flags, mask)


def _steps(form: str, bits: int, index: str, lines: int, n: int, keep: int, flags: int, mask: Any) -> list[Step]:
    """Sort tiles; leave the first ones of each while `keep` are few, else merge them."""
    steps: list[Step] = []
    count, tiles_kernel = n, _kernel("tiles", form, bits, index)
    while True:
        tiles = -(-count // TILE)
        few = keep <= TILE // 2 or tiles == 1
        kept = min(keep if few else TILE, count)
        # the first ones of a line are among the first ones of its tiles
        left = (tiles - 1) * kept + min(kept, count - (tiles - 1) * TILE)
        log = min(TILE.bit_length() - 1, (count - 1).bit_length())
        grid = lines * tiles if tiles > 1 else -(-lines // (TILE >> log))
        now = flags | (0 if steps else FIRST) | (LAST if tiles == 1 else 0)
        numbers = (lines, count, tiles, log, kept, left, now, mask)
        steps.append((tiles_kernel, grid, 0 if tiles == 1 else lines * left, numbers))
        if tiles == 1:
            return steps
        if not few:
            break
        count = left
    run = TILE
    while run < n:
        last = 2 * run >= n
        kept = keep if last else n
        tiles = -(-kept // TILE)
        merging = (n, run, tiles, kept, flags | (LAST if last else 0), mask)
        steps.append((_kernel("merge", form, bits, index), lines * tiles, 0 if last else lines * n, merging))
        run *= 2
    return steps


@cache
def _kernel(step: str, form: str, bits: int, index: str) -> Kernel:
    name = f"sort_{step}_{form}_u{bits}" + ("" if index == "uint32" else "_large")
    text = tile_text if step == "tiles" else merge_text
    i, mask = short(index), "u64" if bits == 64 else "u32"
    numbers = [i, i, i, "u32", i, i, "u32", mask] if step == "tiles" else [i, i, i, i, "u32", mask]
    return kernel(name, text(name, form, bits, index), [*parameters(form, bits)[1], *numbers])


@cache
def _search_kernel(a: np.dtype, b: np.dtype, side: str, index: str) -> Kernel:
    dtype = np.result_type(a, b)
    t = "uint8" if dtype.kind == "b" else dtype.name
    name = f"search_{side}_{NAMES[a.name]}_{NAMES[b.name]}" + ("" if index == "uint32" else "_large")
    names = ", ".join(sorted({"cuda", "int64", t, index}))
    fields = dict(name=name, a=a.name, b=b.name, names=names, I=index, T=t, before=before(dtype.kind, side))
    pointers = [f"{NAMES[d.name]}*" for d in (a, b)]
    return kernel(name, SEARCH.format(**fields), [*pointers, "i64*", short(index), short(index)])
