"""Where an index points, and how kernels take a flat index apart: texts that the kernels of rows share.

The modes are those of kernels/cpu/places.py. A kernel resolves an index where it reads it. With mode "raise" it notes
an index outside in the word that `fault` gives, and the next wait for the device raises.
"""

# Checklist of docs/design/cuda.md: all 15 hold; no shared memory, no atomics; registers <= 24 (sm_90).

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from numbagrad.kernels.cpu import places as cpu
from numbagrad.kernels.cpu.places import MODES
from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.copy import contiguous
from numbagrad.kernels.cuda.kernel import THREADS, Kernel, blocks, index_type, kernel, short
from numbagrad.kernels.cuda.map import magic
from numbagrad.scalar.render import NAMES

_DEVICE = "@cuda.jit(device=True)"
PLACE = cpu.PLACE.replace('@njit(error_model="numpy", _nrt=False)', _DEVICE)

_PICK = '''@cuda.jit(device=True)
def pick(index, k, rows, mode):
    """The row of the k-th index, or -1."""
    row = {read}
    if row < 0 or row >= rows:
        row = elsewhere(row, rows, mode)
    return row


'''

_QUOTIENT = '''@cuda.jit(device=True)
def quotient(i, d, m, s):
    """i // d; {how}."""
    return {formula}


'''

_RESOLVE = '''"""Row numbers of an index of {index} as {K}, -1 for none."""

from numbagrad.kernels.cuda.frontend import {imports}


{pick}@cuda.jit
def {name}(index, out, bad, n, rows, mode):
    k = {I}({I}(cuda.blockIdx.x) * {I}({threads}) + {I}(cuda.threadIdx.x))
    if k < n:
        row = pick(index, k, rows, mode)
        out[k] = {K}(row)
        if row < 0 and mode == {RAISE}:
            bad[0] = 1
'''


def pick_text(index: np.dtype) -> str:
    """The device function `pick` for an index of a type; integers too large for int64 are the largest."""
    read = "int64(index[k])"
    if index == np.uint64:
        read = f"int64(min(index[k], uint64({np.iinfo(np.int64).max})))"
    return PLACE + _PICK.format(read=read)


def quotient_text(index: str) -> str:
    """The device function `quotient`: a division by a number that the host has prepared."""
    if index == "uint32":
        return _QUOTIENT.format(how="a multiplication and a shift", formula="uint32((uint64(i) * m) >> s)")
    return _QUOTIENT.format(how="the large twin simply divides", formula="i // d")


def division(d: int, index: str) -> tuple[int, int, int]:
    """What `quotient` takes for a divisor."""
    return (d, *magic(d)) if index == "uint32" else (d, 0, 0)


def division_types(index: str) -> list[str]:
    """Their types as a signature spells them."""
    return [short(index), "u64", "u64"]


def imports(*names: str) -> str:
    """Names to import from the front-end, `cuda` and what `pick` and `quotient` need among them."""
    return ", ".join(sorted({"cuda", "int64", "uint32", "uint64", *names}))


def fault(op: str, mode: str, like: Buffer) -> Buffer:
    """Where a kernel notes an index outside; only with mode "raise" is it written to."""
    return like.device.fault(op) if mode == "raise" else like


def row_type(rows: int) -> np.dtype:
    """The type of resolved row numbers: half the bytes to sort, if they fit."""
    return np.dtype(np.int32 if index_type(rows) == "uint32" else np.int64)


@cache
def _resolve_kernel(index: np.dtype, out: np.dtype, i: str) -> Kernel:
    name = f"resolve_{NAMES[index.name]}_{NAMES[out.name]}" + ("" if i == "uint32" else "_large")
    text = _RESOLVE.format(
        index=index.name,
        K=out.name,
        I=i,
        name=name,
        pick=pick_text(index),
        imports=imports(out.name, i),
        threads=THREADS,
        RAISE=MODES["raise"],
    )
    signature = [f"{NAMES[index.name]}*", f"{NAMES[out.name]}*", "i64*", short(i), "i64", "i32"]
    return kernel(name, text, signature)


def resolve(index: Buffer, rows: int, mode: str, op: str, dtype: Any = None) -> Buffer:
    """Flat row numbers in [0, rows), -1 for what is dropped, in the type they are sorted in unless another is given."""
    index = contiguous(index)
    found = row_type(rows) if dtype is None else np.dtype(dtype)
    out = index.device.empty((index.size,), found)
    if out.size:
        made = _resolve_kernel(index.dtype, found, index_type(out.size))
        bad = fault(op, mode, index)
        index.device.launch(made, blocks(out.size), THREADS, index, out, bad, out.size, rows, MODES[mode])
    return out


def check(index: Buffer, rows: int, mode: str, op: str) -> None:
    """Find an index outside where rows have no elements, so that no kernel reads them."""
    if mode == "raise" and index.size:
        resolve(index, rows, mode, op)
