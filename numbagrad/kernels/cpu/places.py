"""Where an index points: row numbers are resolved inside the loops that use them, so that a range check costs no pass.

Modes, by what becomes of an index outside of the rows:

    drop   dropped (a scatter) or zero (a gather); negative ones, too
    clamp  the nearest row; negative ones: row 0
    wrap   modulo the rows
    raise  negative ones count from the end, then IndexError
    clip   negative ones count from the end, then the nearest row
    fill   negative ones count from the end, then as drop (gathers: nan, or 0 for integers)
    zero   as fill, with zeros
"""

from __future__ import annotations

import numpy as np

from numbagrad.kernels.cpu.copy import contiguous

MODES = {"drop": 0, "clamp": 1, "wrap": 2, "raise": 3, "clip": 4, "fill": 5, "zero": 5}

# The row of an index that is not in [0, rows), or -1.
PLACE = """@njit(error_model="numpy", _nrt=False)
def elsewhere(row, rows, mode):
    if rows == 0:
        return -1
    if mode == 2:
        row = row % rows
        return row + rows if row < 0 else row
    if (mode >= 3) & (row < 0):
        row += rows
    if (row >= 0) & (row < rows):
        return row
    if (mode == 1) | (mode == 4):
        return 0 if row < 0 else rows - 1
    return -1


"""


def readable(index: np.ndarray) -> np.ndarray:
    """An index as the loops read it: in C order, int32 or int64."""
    if index.dtype != np.int32 and index.dtype != np.int64:
        index = as_int64(index)
    return contiguous(index)


def as_int64(index: np.ndarray, wrap: int = 0) -> np.ndarray:
    """Integers as int64; of those too large the largest, or (`wrap`: the number of rows) the remainder."""
    if index.dtype == np.uint64:
        index = index % np.uint64(wrap) if wrap else np.minimum(index, np.uint64(np.iinfo(np.int64).max))
    return index.astype(np.int64, copy=False)


def refuse(op: str, index: np.ndarray, rows: int) -> None:
    """The IndexError of mode "raise"."""
    flat = index.reshape(-1)
    bad = flat[np.argmax((flat < -rows) | (flat >= rows))]
    raise IndexError(f"{op}: index out of range: got {bad} for an axis of length {rows}; needed {-rows} to {rows - 1}.")


def resolve(index: np.ndarray, rows: int, mode: str, op: str) -> np.ndarray:
    """Flat row numbers in [0, rows), -1 for what is dropped: for code that is no loop."""
    flat = readable(index.reshape(-1)).astype(np.int64, copy=False)
    if flat.size == 0 or (flat.min() >= 0 and flat.max() < rows):
        return flat
    if rows == 0:
        if mode == "raise":
            refuse(op, index, rows)
        return np.full(flat.shape, -1)
    if mode == "wrap":
        return flat % rows
    if MODES[mode] >= MODES["raise"]:
        flat = np.where(flat < 0, flat + rows, flat)
    if mode in ("clamp", "clip"):
        return np.clip(flat, 0, rows - 1)
    outside = (flat < 0) | (flat >= rows)
    if mode == "raise" and outside.any():
        refuse(op, index, rows)
    return np.where(outside, -1, flat)
