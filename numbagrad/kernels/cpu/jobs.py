"""Run a kernel over the rows of arrays that Python has already laid out (see layout.py for the job's words)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from numbagrad import config
from numbagrad.kernels.cpu import threads

Operand = tuple[np.ndarray, Sequence[int], int]  # array, byte stride per outer axis, inner step in elements


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
    rows = math.prod(outer)
    if rows == 0:
        return
    splits = -(-n // chunk) if chunk and n > chunk else 1
    batch = 1 if splits > 1 else max(1, config.CHUNK_ELEMENTS // max(1, n * work))
    if splits == 1 and rows * n * work <= config.PARALLEL_COSTLY:
        batch = rows  # not worth waking a worker
    pieces = splits * -(-rows // batch)
    words = [0, 0, 0, pieces, address, len(operands), len(extras), n, chunk, splits, batch, rows, len(outer), *outer]
    words += [threads.address_of(a) for a, _, _ in operands]
    words += [step for _, _, step in operands]
    words += extras
    for axis in range(len(outer)):
        words += [strides[axis] for _, strides, _ in operands]
    words += [step * a.itemsize for a, _, step in operands]
    threads.run(np.array(words, np.int64))
