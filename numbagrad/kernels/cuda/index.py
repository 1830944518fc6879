"""Gathers and scatters of rows. Rows are moved as words of up to 16 bytes, whatever their type; the rest is runs.py."""

# Checklist of docs/design/cuda.md: all 15 hold; no shared memory, no atomics; registers <= 40 (sm_90).

from __future__ import annotations

from functools import cache

import numpy as np

from numbagrad.kernels.cpu.places import MODES
from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.copy import contiguous, copied, copy_into
from numbagrad.kernels.cuda.kernel import THREADS, Kernel, blocks, index_type, kernel, short
from numbagrad.kernels.cuda.places import (
    check,
    division,
    division_types,
    fault,
    imports,
    pick_text,
    quotient_text,
    resolve,
)
from numbagrad.kernels.cuda.runs import Runs, width_of
from numbagrad.kernels.cuda.runs_text import bare
from numbagrad.scalar.render import NAMES

_TAKE = '''"""Rows of words of {bytes} bytes picked by an index of {index}."""

from numbagrad.kernels.cuda.frontend import {imports}


{pick}{quotient}@cuda.jit
def {name}(index, x, out, bad, {fills}, n, width, width_m, width_s, rows, mode):
    # {each} words a thread, {threads} apart: their loads are on the way together
    first = {I}({I}({I}(cuda.blockIdx.x) * {I}({block})) + {I}(cuda.threadIdx.x))
    if {I}(first + {I}({reach})) < n:
{places}
        if {inside}:
{loads}
{stores}
            return
    for step in range({each}):
        i = {I}(first + {I}({I}(step) * {I}({threads})))
        if i < n:
            k = quotient(i, width, width_m, width_s)
            row = pick(index, k, rows, mode)
            if row >= 0:
                at = {I}({I}({I}(row) * width) + {I}(i - {I}(k * width)))
                {one_word}
            else:
                {fill_word}
                if mode == {RAISE}:
                    bad[0] = 1
'''

EACH = 4  # words of a thread


def unit_of(width: int, itemsize: int, *buffers: Buffer) -> int:
    """Bytes of the largest word, up to 16, of which rows of `width` elements consist at the places where they lie."""
    places = width * itemsize | 16
    for b in buffers:
        places |= b.address
    return places & -places


@cache
def _word(unit: int) -> np.dtype:
    return np.dtype(f"u{min(unit, 4 if unit == 16 else 8)}")


@cache
def _take_kernel(unit: int, index: np.dtype, i: str) -> Kernel:
    word, four = _word(unit), unit == 16
    t, n = NAMES[word.name], NAMES[index.name]
    name = f"take_{unit}_{n}" + ("" if i == "uint32" else "_large")
    fills = [f"fill{j}" for j in range(4 if four else 1)]
    fill = f"({', '.join(fills)})" if four else "fill0"
    load = f"load4(x, {i}({{at}} * {i}(4)))" if four else "x[{at}]"
    store = f"store4(out, {i}({{i}} * {i}(4)), {{value}})" if four else "out[{i}] = {value}"
    places, loads, stores = [], [], []
    for u in range(EACH):
        places += [
            f"        i{u} = {i}(first + {i}({u * THREADS}))",
            f"        k{u} = quotient(i{u}, width, width_m, width_s)",
        ]
    for u in range(EACH):
        places.append(f"        row{u} = int64(index[k{u}])")
        at = f"{i}({i}({i}(row{u}) * width) + {i}(i{u} - {i}(k{u} * width)))"
        loads.append(f"            value{u} = {load.format(at=at)}")
        stores.append(f"            {store.format(i=f'i{u}', value=f'value{u}')}")
    text = _TAKE.format(
        name=name,
        bytes=unit,
        index=index.name,
        I=i,
        each=EACH,
        threads=THREADS,
        block=EACH * THREADS,
        reach=(EACH - 1) * THREADS,
        fills=", ".join(fills),
        places="\n".join(places),
        inside=" and ".join(f"0 <= row{u} and row{u} < rows" for u in range(EACH)),
        loads="\n".join(loads),
        stores="\n".join(stores),
        one_word=store.format(i="i", value=load.format(at="at")),
        fill_word=store.format(i="i", value=fill),
        RAISE=MODES["raise"],
        pick=pick_text(index),
        quotient=quotient_text(i),
        imports=imports(word.name, i, *(["load4", "store4"] if four else [])),
    )
    signature = [f"{n}*", f"{t}*", f"{t}*", "i64*", *[t] * len(fills), short(i), *division_types(i), "i64", "i32"]
    return kernel(name, text, signature)


@cache
def _fill_words(dtype: np.dtype, unit: int, nan: bool) -> tuple[np.generic, ...]:
    """The words of what an index outside gives."""
    element = np.array(np.nan if nan else 0, dtype)
    row = np.frombuffer(element.tobytes() * (16 // dtype.itemsize), _word(unit))
    return tuple(row[: 4 if unit == 16 else 1])


def take(x: Buffer, index: Buffer, *, mode: str = "raise") -> Buffer:
    """Rows x[index]; out of range by mode, see places.py."""
    device, rows, width = x.device, x.shape[0], width_of(x.shape)
    out = device.empty((*index.shape, *x.shape[1:]), x.dtype)
    if not out.size:
        check(index, rows, mode, "take")
        return out
    x, index = contiguous(x), contiguous(index)
    unit = unit_of(width, x.itemsize, x, out)
    nan = mode == "fill" and x.dtype.kind in "fc"
    if nan and unit < x.itemsize:
        unit, x = x.itemsize, x.copy()  # a view of another's memory that is not aligned
    fills = _fill_words(x.dtype, unit, nan)
    width = width * x.itemsize // unit
    n = index.size * width
    i = index_type(n, rows * width)
    bad = fault("take", mode, index)
    numbers = (n, *division(width, i), rows, MODES[mode])
    found = _take_kernel(unit, index.dtype, i)
    device.launch(found, blocks(n, EACH * THREADS), THREADS, index, x, out, bad, *fills, *numbers)
    return out


def _scatter(name: str, op: str, out: Buffer, index: Buffer, updates: Buffer, mode: str) -> Buffer:
    rows, width = out.shape[0], width_of(out.shape)
    target = out if out.flat else copied(out)
    kind = bare(out.dtype)
    if kind != out.dtype:
        op = {"sum": "or", "max": "or", "min": "and"}.get(op, op)
    Runs(index, rows, mode, f"scatter_{name}").into(op, target.typed(kind), contiguous(updates).typed(kind), width)
    if target is not out:
        copy_into(out, target)
    return out


def scatter_add(target: Buffer, index: Buffer, updates: Buffer, *, mode: str = "raise") -> Buffer:
    """Updates added into a copy of the target."""
    return scatter_add_into(copied(target), index, updates, mode=mode)


def scatter_add_into(target: Buffer, index: Buffer, updates: Buffer, *, mode: str = "raise") -> Buffer:
    """Updates added into the target itself; float32 sums are as good as float64's."""
    return _scatter("add", "sum", target, index, updates, mode)


def scatter_set(target: Buffer, index: Buffer, updates: Buffer, *, mode: str = "raise") -> Buffer:
    """Updates written into a copy of the target; the last one wins."""
    out, updates = copied(target), contiguous(updates)
    rows, width = out.shape[0], width_of(out.shape)
    unit = min(8, unit_of(width, out.itemsize, out, updates)) if out.size else out.itemsize
    whole, parts = _as_words(out, unit), _as_words(updates, unit)
    Runs(index, rows, mode, "scatter_set").into("set", whole, parts, width * out.itemsize // unit)
    return out


def _as_words(x: Buffer, unit: int) -> Buffer:
    """Elements in C order as one run of words."""
    return x.view((x.nbytes // unit,), None).typed(_word(unit))


def scatter_max(target: Buffer, index: Buffer, updates: Buffer, *, mode: str = "raise") -> Buffer:
    """The larger of the target and the updates that go there; nan wins."""
    return _scatter("max", "max", copied(target), index, updates, mode)


def scatter_min(target: Buffer, index: Buffer, updates: Buffer, *, mode: str = "raise") -> Buffer:
    """The smaller of the target and the updates that go there; nan wins."""
    return _scatter("min", "min", copied(target), index, updates, mode)


def flat_rows(index: Buffer, *, rows: int, mode: str = "raise") -> Buffer:
    """Row numbers, -1 for what is dropped."""
    return resolve(index, rows, mode, "scatter", np.int64)


def last_writer(index: Buffer, *, rows: int, mode: str = "raise") -> Buffer:
    """Position of the last update of each row, -1 where there is none."""
    out = index.device.full((rows,), -1, np.dtype(np.int64))
    Runs(index, rows, mode, "scatter_set").into("number", out, out, 1)
    return out
