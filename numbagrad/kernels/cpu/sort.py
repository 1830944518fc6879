"""Sorting rows. NumPy's vector quick sort does the work, of values or of words.

A stable permutation comes from sorting 64-bit words: above, the key (an unsigned image of the element in which -0.0 is
0.0 and every nan is the largest); below, its place. Words are unique, so any sort of them is stable: a million float32
in 6 ms, where a stable argsort takes NumPy 96. A 64-bit key that leaves no room for the place loses low bits; runs of
words that agree in the rest are then put right by the whole keys. One long row is sorted in pieces by as many threads,
and merged.
"""

from __future__ import annotations

import math
import threading
from functools import cache
from itertools import pairwise

import numpy as np

from numbagrad import config
from numbagrad.core.errors import message
from numbagrad.kernels.cpu import jobs, pool, threads
from numbagrad.kernels.cpu.along import take_along
from numbagrad.kernels.cpu.compiler import kernel_address
from numbagrad.kernels.cpu.copy import contiguous, copied
from numbagrad.kernels.cpu.sort_text import KEY_RANGE, MEND, MERGE, PACK, SEARCH, UNPACK, before, key_of
from numbagrad.scalar.render import NAMES

PARALLEL = 1 << 16  # elements from which on another thread pays: it starts in 50 us, and saves 100
WORD = np.dtype(np.uint64)
SMALL = 256  # elements that are sorted before words are made
SELECT = 4096  # elements of a row from which on top_k selects before it sorts


def sort(x: np.ndarray, *, axis: int, descending: bool = False) -> np.ndarray:
    """Elements in order along an axis, nan last (first if descending)."""
    rows = copied(np.moveaxis(x, axis, -1))
    n = x.shape[axis]
    if rows.size:
        rows = _sorted(rows.reshape(-1, n)).reshape(rows.shape)
    rows = rows[..., ::-1] if descending else rows
    return contiguous(np.moveaxis(rows, -1, axis))


def argsort(x: np.ndarray, *, axis: int, descending: bool = False) -> np.ndarray:
    """The stable permutation that sorts along an axis."""
    if x.size <= SMALL:
        return _small(x, axis, descending)
    moved = contiguous(np.moveaxis(x, axis, -1))
    index = pool.empty(moved.shape, np.dtype(np.int64))
    if moved.size:
        n = moved.shape[-1]
        _order(moved.reshape(-1, n), index.reshape(-1, n), descending)
    return contiguous(np.moveaxis(index, -1, axis))


def _small(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """NumPy's stable sort; of the reversed elements if descending, so that equal ones keep their order."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    index = np.argsort(np.flip(x, axis), axis, kind="stable")
    return np.ascontiguousarray(np.flip(x.shape[axis] - 1 - index, axis))


def sort_routed(x: np.ndarray, *, axis: int, descending: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Sorted elements, and the stable permutation."""
    index = argsort(x, axis=axis, descending=descending)
    return take_along(x, index, axis=axis), index


def argpartition(x: np.ndarray, *, kth: tuple[int, ...], axis: int) -> np.ndarray:
    """A permutation along an axis with the right elements at the places `kth`."""
    return np.ascontiguousarray(np.argpartition(x, kth, axis=axis))


def searchsorted(line: np.ndarray, values: np.ndarray, *, side: str) -> np.ndarray:
    """Where values would go into a sorted line."""
    dtype = np.result_type(line, values)
    line, x = (contiguous(a.astype(dtype, copy=False)) for a in (line, values))
    if dtype.kind == "b":
        line, x, dtype = line.view(np.uint8), x.view(np.uint8), np.dtype(np.uint8)
    out = pool.empty(x.shape, np.dtype(np.int64))
    operands = ((line, (0,), 0), (x, (0,), 1), (out, (0,), 1))
    if out.size:
        chunk = config.CHUNK_ELEMENTS // 8
        jobs.run(_search_kernel(dtype, side), x.size, (1,), operands, (line.size,), chunk=chunk)
    return out


def top_k(x: np.ndarray, *, k: int) -> np.ndarray:
    """Places of the k largest of each row, the largest first, equal ones in their order."""
    rows = contiguous(x).reshape(math.prod(x.shape[:-1]), x.shape[-1])
    out = np.empty((len(rows), k), np.int64)
    n = rows.shape[1]
    if out.size == 0:
        return out.reshape(*x.shape[:-1], k)
    if n < SELECT or 8 * k > n:
        index = np.empty(rows.shape, np.int64)
        _order(rows, index, True)
        out[...] = index[:, :k]
        return out.reshape(*x.shape[:-1], k)
    for line, first in zip(rows, out, strict=True):
        least = np.partition(line, n - k)[n - k]
        place = np.flatnonzero(~(line < least))  # those that may be among the first k, nans included
        index = np.empty((1, place.size), np.int64)
        _order(line[place][None], index, True)
        first[:] = place[index[0, :k]]
    return out.reshape(*x.shape[:-1], k)


def _order(rows: np.ndarray, index: np.ndarray, descending: bool) -> None:
    words = _Words(rows, descending)
    words.places(_sorted(words.words), rows, index)


class _Words:
    """Keys and places of (rows, n) elements, packed."""

    def __init__(self, rows: np.ndarray, descending: bool) -> None:
        n = rows.shape[1]
        self.bits = 8 * rows.itemsize
        self.source = np.dtype(f"u{rows.itemsize}")
        self.kind = "u" if rows.dtype.kind == "b" else rows.dtype.kind
        self.flip = (1 << self.bits) - 1 if descending else 0
        self.place_bits = max(1, (n - 1).bit_length()) if self.bits == 64 else 32
        if n > 1 << 32:
            raise ValueError(message("sort", "a row is too long", f"{n} elements", f"at most {1 << 32}"))
        self.mask = np.uint64((1 << self.place_bits) - 1)
        self.base, self.lead, self.exact = 0, 32, True
        if self.bits == 64:
            low, high = self._range(rows)
            self.base = low
            spread = (high - low).bit_length()
            self.lead, self.exact = 64 - max(1, spread), spread + self.place_bits <= 64
        self.words = pool.empty(rows.shape, WORD)
        bits = rows.view(self.source)
        size = n * rows.itemsize
        extras = (self.flip, self.base, self.lead, int(self.mask), bits.ctypes.data, n)
        operands = ((bits, (size,), 1), (self.words, (8 * n,), 1))
        chunk = config.CHUNK_ELEMENTS
        jobs.run(_kernel("pack", self.kind, self.bits), n, (len(rows),), operands, _signed(*extras), chunk=chunk)

    def _range(self, rows: np.ndarray) -> tuple[int, int]:
        """Smallest and largest key of all elements."""
        flat = rows.view(self.source).reshape(-1)
        n, chunk = flat.size, config.CHUNK_ELEMENTS
        found = np.empty((-(-n // chunk), 2), WORD)
        for first, length, count in ((0, chunk, n // chunk), (n - n % chunk, n % chunk, 1)):
            if length and count:
                part, out = flat[first:], found[first // chunk :]
                operands = ((part, (8 * length,), 1), (out, (16,), 0))
                jobs.run(_kernel("key_range", self.kind, self.bits), length, (count,), operands, _signed(self.flip))
        return int(found[:, 0].min()), int(found[:, 1].max())

    def places(self, words: np.ndarray, rows: np.ndarray, index: np.ndarray) -> None:
        """The places in sorted words, stable by the whole keys."""
        n = words.shape[1]
        outer = (len(words),)
        operands = ((words, (8 * n,), 1), (index, (8 * n,), 1))
        extras = _signed(int(self.mask), self.flip)
        if self.exact:
            jobs.run(_kernel("unpack", "u", 64), n, outer, operands, extras, chunk=config.CHUNK_ELEMENTS)
            return
        failed = np.zeros(len(words), np.int64)
        bits = rows.view(self.source)
        more = ((bits, (8 * n,), 1), (failed, (8,), 0))
        jobs.run(_kernel("mend", self.kind, self.bits), n, outer, (*operands, *more), extras)
        for row in np.flatnonzero(failed):  # many keys that differ in their last bits only
            index[row] = _in_halves(_keys(rows[row], self.flip))


def _keys(x: np.ndarray, flip: int) -> np.ndarray:
    """Keys of 64-bit elements, as in sort_text."""
    bits, top = x.view(WORD), np.uint64(1 << 63)
    if x.dtype.kind == "i":
        bits = bits ^ top
    elif x.dtype.kind == "f":
        bits = np.where(x == 0, np.uint64(0), bits)
        bits = np.where(bits & top, ~bits, bits | top)
        bits = np.where(np.isnan(x), ~np.uint64(0), bits)
    return bits ^ np.uint64(flip)


def _in_halves(keys: np.ndarray) -> np.ndarray:
    """The stable permutation of 64-bit keys: by their lower half, then by the upper."""
    place, half = np.arange(keys.size, dtype=WORD), np.uint64(32)
    mask = np.uint64((1 << 32) - 1)
    first = np.sort((keys << half) | place) & mask
    return first[np.sort((keys[first] & ~mask) | place) & mask].astype(np.int64)


def _signed(*words: int) -> list[int]:
    """The same 64 bits as numbers of a job's words."""
    return [w - (1 << 64) if w >= 1 << 63 else w for w in words]


@cache
def _kernel(name: str, kind: str, bits: int) -> int:
    function = f"{name}_{kind}{bits}"
    text = {"pack": PACK, "key_range": KEY_RANGE, "unpack": UNPACK, "mend": MEND}[name]
    fields = dict(name=function, key=key_of(kind, bits), kind=kind, bits=bits, item=bits // 8)
    u = f"u{bits}"
    fields |= dict(u=u, pointers=", ".join(sorted({u, "u64"})))
    return kernel_address(function, text.format(**fields))


@cache
def _merge_kernel(dtype: np.dtype) -> int:
    t = NAMES[dtype.name]
    return kernel_address(f"merge_{t}", MERGE.format(name=f"merge_{t}", t=t))


@cache
def _search_kernel(dtype: np.dtype, side: str) -> int:
    t = NAMES[dtype.name]
    name, pointers = f"search_{side}_{t}", ", ".join(sorted({"i64", t}))
    return kernel_address(name, SEARCH.format(name=name, t=t, pointers=pointers, before=before(dtype.kind, side)))


# ---------------------------------------------------------------------------- plain sorting, by several threads


def _sorted(rows: np.ndarray) -> np.ndarray:
    """Sort (rows, n) in place, or into another buffer."""
    count = min(config.num_threads(), rows.size // PARALLEL)
    if count < 2:
        rows.sort(axis=-1)
        return rows
    threads.dismiss()
    if len(rows) >= count:
        _together([rows[k * len(rows) // count : (k + 1) * len(rows) // count] for k in range(count)])
        return rows
    pieces = 1 << min(3, (count // len(rows)).bit_length() - 1)
    if pieces < 2:
        _together([rows[k : k + 1] for k in range(len(rows))])
        return rows
    n = rows.shape[1]
    cuts = [k * n // pieces for k in range(pieces + 1)]
    _together([row[a:b] for row in rows for a, b in pairwise(cuts)])
    if rows.dtype.kind == "b":
        return _merged(rows.view(np.uint8), cuts).view(bool)
    return _merged(rows, cuts)


def _together(parts: list[np.ndarray]) -> None:
    helpers = [threading.Thread(target=part.sort, args=(-1,)) for part in parts[1:]]
    for helper in helpers:
        helper.start()
    parts[0].sort(-1)
    for helper in helpers:
        helper.join()


def _merged(rows: np.ndarray, cuts: list[int]) -> np.ndarray:
    """Merge the sorted pieces of each row, pair by pair."""
    address, item = _merge_kernel(rows.dtype), rows.itemsize
    while len(cuts) > 2:
        out = pool.empty(rows.shape, rows.dtype)
        for row, target in zip(rows, out, strict=True):
            for a, b, c in zip(cuts[:-2:2], cuts[1:-1:2], cuts[2::2], strict=True):
                left, right, part = row[a:b], row[b:c], target[a:c]
                operands = ((left, (0,), 0), (right, (0,), 0), (part, ((c - a) * item,), 1))
                extras = (b - a, c - b, part.ctypes.data, item)
                jobs.run(address, c - a, (1,), operands, extras, chunk=config.CHUNK_ELEMENTS)
        rows, cuts = out, cuts[::2]
    return rows
