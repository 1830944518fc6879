"""Sorting along an axis, and searching in sorted lines. How: see sort_text.py.

A line of up to 2048 elements takes one launch, and as many of them as there are; longer ones one more for each
doubling. The k largest, for k up to 1024, come out of the k largest of each tile.
"""
# Checklist of docs/design/cuda.md: all 15 hold; no atomics; registers <= 60, no stack (sm_90; int64 indices: 65).

from __future__ import annotations

from functools import cache
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


@cache
def _mask(dtype: np.dtype, descending: bool) -> tuple[int, int]:
    """What turns bits into keys in the order of the elements: whether they are floats, and what is inverted."""
    bits = 8 * dtype.itemsize
    ones = (1 << (64 if bits == 64 else 32)) - 1
    top = 1 << (bits - 1) if dtype.kind == "i" else 0
    return (FLOATING if dtype.kind == "f" else 0), top ^ (ones if descending else 0)


class _Words:
    """What is sorted between launches: words, and their places where those are apart."""

    __slots__ = ("arrays",)

    def __init__(self, device: Any, form: str, bits: int, size: int) -> None:
        word = np.dtype(np.uint64 if bits == 64 or form == "packed" else np.uint32)
        self.arrays = [device.empty((size,), word)]
        if form == "pairs":
            self.arrays.append(device.empty((size,), PLACE))


def _order(rows: Buffer, descending: bool, keep: int, index: Buffer | None, values: Buffer | None) -> None:
    """Sort lines along the last axis: the first `keep` places of each into `index`, elements into `values`."""
    n = rows.shape[-1]
    if not rows.size:
        return
    if n > LONGEST:
        raise ValueError(message("sort", "a row is too long", f"{n} elements", f"at most {LONGEST}"))
    if rows.dtype.kind == "c":
        raise TypeError(message("sort", "complex numbers have no order", rows.dtype, "a real dtype"))
    _Sorting(rows, descending, index, values).run(keep)


class _Sorting:
    """The launches that sort the lines of one buffer."""

    def __init__(self, rows: Buffer, descending: bool, index: Buffer | None, values: Buffer | None) -> None:
        self.device, self.n = rows.device, rows.shape[-1]
        self.bits = 8 * rows.itemsize
        self.x = rows.typed(np.dtype(f"u{rows.itemsize}"))
        self.lines = rows.size // self.n
        self.form = "keys" if index is None else "pairs" if self.bits == 64 else "packed"
        # an array that a launch does not use has to be some buffer
        self.values = self.x if values is None else values.typed(self.x.dtype)
        self.results = [self.values] if index is None else [index, self.values]
        floating, self.mask = _mask(rows.dtype, descending)
        self.flags = floating | (0 if values is None else VALUES)
        self.index = index_type(rows.size)

    def run(self, keep: int) -> None:
        """Tiles, and merge them."""
        count, words = self.n, None
        while count > TILE and keep <= TILE // 2:
            # the first ones of a line are among the first ones of its tiles
            tiles = -(-count // TILE)
            left = (tiles - 1) * keep + min(keep, count - (tiles - 1) * TILE)
            words = self._tiles(words, count, keep, left, False)
            count = left
        if count <= TILE:
            self._tiles(words, count, min(keep, count), min(keep, count), True)
            return
        words = self._tiles(None, count, TILE, count, False)
        run = TILE
        while run < count:
            words = self._merge(words, run, keep if 2 * run >= count else count, 2 * run >= count)
            run *= 2

    def _tiles(self, words: _Words | None, count: int, keep: int, pitch: int, last: bool) -> _Words | None:
        log = min(TILE.bit_length() - 1, (count - 1).bit_length())
        tiles = -(-count // TILE)
        grid = self.lines * tiles if tiles > 1 else -(-self.lines // (TILE >> log))
        out = None if last else _Words(self.device, self.form, self.bits, self.lines * pitch)
        flags = self.flags | (FIRST if words is None else 0) | (LAST if last else 0)
        found = _kernel("tiles", self.form, self.bits, self.index)
        arrays = [self.x, *self._words(words), *self._words(out), *self.results]
        numbers = (self.lines, count, tiles, log, keep, pitch, flags, self.mask)
        self.device.launch(found, grid, THREADS, *arrays, *numbers)
        return out

    def _merge(self, words: _Words | None, run: int, keep: int, last: bool) -> _Words | None:
        tiles = -(-keep // TILE)
        out = None if last else _Words(self.device, self.form, self.bits, self.lines * self.n)
        flags = self.flags | (LAST if last else 0)
        found = _kernel("merge", self.form, self.bits, self.index)
        arrays = [*([] if self.form == "keys" else [self.x]), *self._words(words), *self._words(out), *self.results]
        self.device.launch(found, self.lines * tiles, THREADS, *arrays, self.n, run, tiles, keep, flags, self.mask)
        return out

    def _words(self, words: _Words | None) -> list[Buffer]:
        if words is not None:
            return words.arrays
        return [self.x] * (2 if self.form == "pairs" else 1)


@cache
def _kernel(step: str, form: str, bits: int, index: str) -> Kernel:
    name = f"sort_{step}_{form}_u{bits}" + ("" if index == "uint32" else "_large")
    text = tile_text if step == "tiles" else merge_text
    i, mask = short(index), "u64" if bits == 64 else "u32"
    numbers = [i, i, i, "u32", i, i, "u32", mask] if step == "tiles" else [i, i, i, i, "u32", mask]
    return kernel(name, text(name, form, bits, index), [*parameters(form, bits, step == "tiles")[1], *numbers])


@cache
def _search_kernel(a: np.dtype, b: np.dtype, side: str, index: str) -> Kernel:
    dtype = np.result_type(a, b)
    t = "uint8" if dtype.kind == "b" else dtype.name
    name = f"search_{side}_{NAMES[a.name]}_{NAMES[b.name]}" + ("" if index == "uint32" else "_large")
    names = ", ".join(sorted({"cuda", "int64", t, index}))
    fields = dict(name=name, a=a.name, b=b.name, names=names, I=index, T=t, before=before(dtype.kind, side))
    pointers = [f"{NAMES[d.name]}*" for d in (a, b)]
    return kernel(name, SEARCH.format(**fields), [*pointers, "i64*", short(index), short(index)])
