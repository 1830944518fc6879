"""Elements along one axis by index. An array is seen as (before, axis, after): lines of the axis, `after` abreast.

Adding needs no order where no two updates meet. Short lines are added by one thread each, in order; of longer ones the
updates are sorted line by line, and each element's combined as in runs.py.
"""

# Checklist of docs/design/cuda.md: all 15 hold; no shared memory, no atomics; registers <= 32 (sm_90).

from __future__ import annotations

import math
from functools import cache

import numpy as np

from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.copy import contiguous, copied, copy_into
from numbagrad.kernels.cuda.kernel import THREADS, Kernel, blocks, index_type, kernel, short
from numbagrad.kernels.cuda.places import division, division_types, imports, quotient_text, resolve, row_type
from numbagrad.kernels.cuda.runs import combine_sorted
from numbagrad.kernels.cuda.runs_text import bare
from numbagrad.kernels.cuda.sort import argsort
from numbagrad.scalar.render import NAMES

SHORT = 32  # updates of a line that one thread adds

_TAKE = '''"""Elements of lines of {T} picked by index; -1 gives 0."""

from numbagrad.kernels.cuda.frontend import {imports}


{quotient}@cuda.jit
def {name}(x, index, out, n, inner, inner_m, inner_s, after, after_m, after_s, outer):
    i = {I}({I}({I}(cuda.blockIdx.x) * {I}({threads})) + {I}(cuda.threadIdx.x))
    if i < n:
        picked = index[i]
        value = {T}(0)
        if picked >= 0:
            before = quotient(i, inner, inner_m, inner_s)
            beside = {I}(i - {I}(quotient(i, after, after_m, after_s) * after))
            value = x[{I}({I}(before * outer) + {I}({I}({I}(picked) * after) + beside))]
        out[i] = value
'''

_ADD = '''"""Elements of {T} added into lines by index; -1 is dropped.

A thread adds `steps` updates of one line in order, or a single one where no two meet.
"""

from numbagrad.kernels.cuda.frontend import {imports}


{quotient}@cuda.jit
def {name}(out, index, x, n, group, group_m, group_s, after, after_m, after_s, steps, inner, outer):
    i = {I}({I}({I}(cuda.blockIdx.x) * {I}({threads})) + {I}(cuda.threadIdx.x))
    if i < n:
        before = quotient(i, group, group_m, group_s)
        beside = {I}(i - {I}(quotient(i, after, after_m, after_s) * after))
        q = {I}({I}(before * inner) + {I}(i - {I}(before * group)))
        line = {I}({I}(before * outer) + beside)
        for _ in range(steps):
            picked = index[q]
            if picked >= 0:
                at = {I}(line + {I}({I}(picked) * after))
                out[at] = {T}({sum})
            q = {I}(q + after)
'''


@cache
def _kernel(name: str, template: str, dtype: np.dtype, index: np.dtype, i: str) -> Kernel:
    t, k = NAMES[dtype.name], NAMES[index.name]
    full = f"{name}_{t}" + ("" if i == "uint32" else "_large")
    text = template.format(
        name=full,
        T=dtype.name,
        I=i,
        threads=THREADS,
        quotient=quotient_text(i),
        imports=imports(dtype.name, i),
        sum="out[at] | x[q]" if name == "or_along" else "out[at] + x[q]",
    )
    pointers = [f"{t}*", f"{k}*", f"{t}*"]
    counts = [short(i)] * (3 if template is _ADD else 1)
    return kernel(full, text, [*pointers, short(i), *division_types(i), *division_types(i), *counts])


def _moved_as(dtype: np.dtype) -> np.dtype:
    """The type that moves elements of a type."""
    return dtype if dtype.itemsize == 16 else np.dtype(f"u{dtype.itemsize}")


def _shape(index: Buffer, axis: int) -> tuple[int, int, int]:
    return math.prod(index.shape[:axis]), index.shape[axis], math.prod(index.shape[axis + 1 :])


def take_along(x: Buffer, index: Buffer, *, axis: int, unique: bool = False, repeats: int | None = None) -> Buffer:
    """x at the index along the axis; -1 gives 0."""
    out = x.device.empty(index.shape, x.dtype)
    n = out.size
    if n:
        kind, (_, count, after) = _moved_as(x.dtype), _shape(index, axis)
        i = index_type(n, x.size)
        x, index = contiguous(x), contiguous(index)
        numbers = (n, *division(count * after, i), *division(after, i), x.shape[axis] * after)
        found = _kernel("take_along", _TAKE, kind, index.dtype, i)
        x.device.launch(found, blocks(n), THREADS, x, index, out, *numbers)
    return out


def add_along(
    target: Buffer, index: Buffer, updates: Buffer, *, axis: int, unique: bool = False, repeats: int | None = None
) -> Buffer:
    """Updates added into a copy of the target."""
    return add_along_into(copied(target), index, updates, axis=axis, unique=unique, repeats=repeats)


def add_along_into(
    target: Buffer, index: Buffer, updates: Buffer, *, axis: int, unique: bool = False, repeats: int | None = None
) -> Buffer:
    """Updates added into the target itself."""
    if index.size == 0:
        return target
    out = target if target.flat else copied(target)
    count = index.shape[axis]
    met = 1 if unique else count if repeats is None else min(count, repeats)
    if met == 1 or count <= SHORT:
        _add(out, index, updates, axis, met)
    else:
        _add_sorted(out, index, updates, axis)
    if out is not target:
        copy_into(target, out)
    return target


def _add(out: Buffer, index: Buffer, updates: Buffer, axis: int, met: int) -> None:
    """A thread adds one update, or all of a line."""
    before, count, after = _shape(index, axis)
    inner, kind = count * after, bare(out.dtype)
    group, steps = (inner, 1) if met == 1 else (after, count)
    n = before * group
    i = index_type(out.size, index.size)
    name = "add_along" if kind == out.dtype else "or_along"
    found = _kernel(name, _ADD, kind, index.dtype, i)
    numbers = (n, *division(group, i), *division(after, i), steps, inner, out.shape[axis] * after)
    out.device.launch(found, blocks(n), THREADS, out, contiguous(index), contiguous(updates), *numbers)


def _add_sorted(out: Buffer, index: Buffer, updates: Buffer, axis: int) -> None:
    """Updates sorted line by line, then combined."""
    before, count, after = _shape(index, axis)
    # of the type that places in the whole array have
    rows = resolve(index, out.shape[axis], "drop", "add_along", row_type(out.size))
    step = rows.itemsize
    lines = rows.view((before, after, count), (count * after * step, step, after * step))
    order = argsort(lines, axis=2)
    kind = bare(out.dtype)
    op = "sum" if kind == out.dtype else "or"
    line = (count, after, out.shape[axis])
    combine_sorted(op, out.typed(kind), contiguous(updates).typed(kind), rows, order, 1, line)
