"""Run a kernel over the rows of arrays that Python has already laid out (see layout.py for the job's words)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from numbagrad import config
from numbagrad.kernels.cpu import threads
from numbagrad.kernels.cpu.layout import J_BODY, MAX_SPANS

Operand = tuple[np.ndarray, Sequence[int], int]  # array, byte stride per outer axis, inner step in elements


_COUNTERS = [0] * MAX_SPANS


def run(
    address: int,
    n: int,
    outer: Sequence[int],
    operands: Sequence[Operand],
    extras: Sequence[int] = (),
    *,
    chunk: int = 0,
    work: int = 1,
) -> None:
    """Call the kernel on every row of `n` elements below the outer axes.

    `chunk` > 0 allows a row to be cut into pieces of that many elements. `work` is the cost of one element
    in elementary operations, for deciding how many short rows make a piece.
    """
    if math.prod(outer) == 0:
        return
    data = [threads.address_of(a) for a, _, _ in operands]
    steps = [step for _, _, step in operands]
    strides = [s for _, s, _ in operands]
    inner = [step * a.itemsize for a, _, step in operands]
    cut, wake = cut_for(n, outer, chunk, work)
    threads.run(layout(address, cut, outer, data, steps, strides, inner, extras), wake)


def cut_for(n: int, outer: Sequence[int], chunk: int = 0, work: int = 1) -> tuple[tuple[int, int, int, int], bool]:
    """How rows are cut into pieces, see `layout`, and whether they are worth waking a worker."""
    rows = math.prod(outer)
    splits = -(-n // chunk) if chunk and n > chunk else 1
    batch = 1 if splits > 1 else max(1, config.CHUNK_ELEMENTS // max(1, n * work))
    total = rows * n * work
    if splits == 1 and total <= config.PARALLEL_COSTLY // config.AWAKE:
        batch = rows  # not worth another thread
    return (n, chunk, splits, batch), total > config.PARALLEL_COSTLY


def layout(
    address: int,
    cut: tuple[int, int, int, int],
    outer: Sequence[int],
    data: Sequence[int],
    steps: Sequence[int],
    strides: Sequence[Sequence[int]],
    inner: Sequence[int],
    extras: Sequence[int] = (),
) -> np.ndarray:
    """A job: per operand its address, inner step in elements, strides of the outer axes and inner stride in bytes.

    `cut` is the elements of a row, of a piece of one, the pieces of a row, and the rows of a piece.
    """
    rows = math.prod(outer)
    n, chunk, splits, batch = cut
    pieces = splits * -(-rows // batch)
    words = [0, 0, pieces, address, len(data), len(extras), n, chunk, splits, batch, rows, len(outer), 1, *_COUNTERS]
    words += [*outer, *data, *steps, *extras]
    for axis in range(len(outer)):
        words += [s[axis] for s in strides]
    words += inner
    return np.array(words, np.int64)


class Prepared(NamedTuple):
    """A job for arrays of one layout, which gets their addresses when it is run."""

    job: np.ndarray
    first: int  # place of the first operand's address
    wake: bool

    @classmethod
    def of(cls, job: np.ndarray, ndim: int, wake: bool) -> Prepared:
        """From a job over `ndim` outer axes."""
        return cls(job, J_BODY + ndim, wake)

    def run(self, *arrays: np.ndarray) -> None:
        """Run it on arrays of that layout."""
        job = self.job.copy()
        for k, x in enumerate(arrays, self.first):
            job[k] = threads.address_of(x)
        threads.run(job, self.wake)
