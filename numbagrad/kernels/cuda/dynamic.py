"""Parts of an array whose place is data: starts are read on the device, and moved until the part fits."""

# Checklist of docs/design/cuda.md: all 15 hold; no shared memory, no atomics; registers <= 40 (sm_90).

from __future__ import annotations

from functools import cache

import numpy as np

from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.copy import contiguous, copied
from numbagrad.kernels.cuda.kernel import THREADS, Kernel, blocks, index_type, kernel, short
from numbagrad.kernels.cuda.map import divisors
from numbagrad.kernels.cuda.places import imports, quotient_text
from numbagrad.kernels.cuda.runs_text import bare
from numbagrad.scalar.render import NAMES

_HEAD = '''"""A part of arrays of {T} with {ndim} axes: {title}."""

from numbagrad.kernels.cuda.frontend import {imports}


{quotient}@cuda.jit(device=True)
def begin(starts, axis, length, size):
    """Where the part begins along an axis: a negative start counts from the end."""
    at = starts[axis]
    if at < 0:
        at += length
    most = length - size
    return {I}(0) if at < 0 else {I}(most) if at > most else {I}(at)


'''

_PART = """@cuda.jit
def {name}(x, starts, out, n, {parameters}):
    i = {I}({I}({I}(cuda.blockIdx.x) * {I}({threads})) + {I}(cuda.threadIdx.x))
    if i < n:
        rest, at = i, int64(0)
{places}
        {move}
"""

_WHOLE = """@cuda.jit
def {name}(target, x, starts, out, n, {parameters}):
    i = {I}({I}({I}(cuda.blockIdx.x) * {I}({threads})) + {I}(cuda.threadIdx.x))
    if i < n:
        rest, at, step, inside = i, {I}(0), {I}(1), True
{places}
        value = target[i]
        if inside:
            value = {value}
        out[i] = value
"""


def _parameters(ndim: int, i: str) -> tuple[list[str], list[str]]:
    """Names and types of the numbers: of every axis but the first how to divide by it, then lengths, sizes, strides."""
    names, kinds = [], []
    for axis in range(1, ndim):
        names += [f"d{axis}", f"m{axis}", f"s{axis}"] if i == "uint32" else [f"d{axis}"]
        kinds += ["u32", "u64", "u64"] if i == "uint32" else ["i64"]
    for axis in range(ndim):
        names += [f"length{axis}", f"size{axis}", f"stride{axis}"]
        kinds += ["i64", "i64", "i64"]
    return names, kinds


def _axes(ndim: int, i: str) -> list[tuple[int, list[str]]]:
    """Per axis, from the last one on, the lines that take its place out of the flat index."""
    lines = []
    for axis in range(ndim - 1, -1, -1):
        if axis:
            multiplier = f"m{axis}, s{axis}" if i == "uint32" else "0, 0"
            own = [
                f"whole = quotient(rest, d{axis}, {multiplier})",
                f"place = {i}(rest - {i}(whole * d{axis}))",
                "rest = whole",
            ]
        else:
            own = ["place = rest"]
        own.append(f"first = begin(starts, {axis}, length{axis}, size{axis})")
        lines.append((axis, own))
    return lines


@cache
def _kernel(title: str, dtype: np.dtype, ndim: int, i: str) -> Kernel:
    t = NAMES[dtype.name]
    name = f"dynamic_{title}_{t}_{ndim}" + ("" if i == "uint32" else "_large")
    whole, plus = title in ("update", "add", "or"), "|" if title.startswith("or") else "+"
    names, kinds = _parameters(ndim, i)
    places = []
    for axis, own in _axes(ndim, i):
        places += own
        if whole:
            # below the first place the difference is huge
            places += [
                f"place = {i}(place - first)",
                f"inside = inside and place >= 0 and place < size{axis}",
                f"at = {i}(at + {i}(place * step))",
                f"step = {i}(step * {i}(size{axis}))",
            ]
        else:
            places.append(f"at += int64({i}(place + first)) * stride{axis}")
    moves = {
        "slice": "out[i] = x[at]",
        "add_into": f"x[at] = {dtype.name}(x[at] + out[i])",
        "or_into": f"x[at] = {dtype.name}(x[at] | out[i])",
    }
    text = (_HEAD + (_WHOLE if whole else _PART)).format(
        name=name,
        title=title,
        T=dtype.name,
        I=i,
        ndim=ndim,
        threads=THREADS,
        quotient=quotient_text(i),
        imports=imports(dtype.name, i),
        parameters=", ".join(names),
        places="\n".join(f"        {line}" for line in places),
        move=moves.get(title),
        value="x[at]" if title == "update" else f"{dtype.name}(value {plus} x[at])",
    )
    pointers = [f"{t}*", f"{t}*", "i64*", f"{t}*"] if whole else [f"{t}*", "i64*", f"{t}*"]
    return kernel(name, text, [*pointers, short(i), *kinds])


def _numbers(whole: Buffer, divided: tuple[int, ...], sizes: tuple[int, ...], i: str) -> list[int]:
    found = divisors(divided, i)
    for length, size, stride in zip(whole.shape, sizes, whole.strides, strict=True):
        found += (length, size, stride // whole.itemsize)
    return found


def _moved_as(dtype: np.dtype) -> np.dtype:
    return dtype if dtype.itemsize == 16 else np.dtype(f"u{dtype.itemsize}")


def _part(title: str, dtype: np.dtype, whole: Buffer, starts: Buffer, part: Buffer) -> None:
    """A thread per element of the part."""
    i = index_type(whole.size, part.size)
    found = _kernel(title, dtype, whole.ndim, i)
    numbers = _numbers(whole, part.shape, part.shape, i)
    whole.device.launch(found, blocks(part.size), THREADS, whole, contiguous(starts), part, part.size, *numbers)


def dynamic_slice(x: Buffer, starts: Buffer, *, sizes: tuple[int, ...]) -> Buffer:
    """Copy of the part."""
    if not sizes:
        return copied(x)
    out = x.device.empty(sizes, x.dtype)
    if out.size:
        _part("slice", _moved_as(x.dtype), x, starts, out)
    return out


def _replaced(title: str, dtype: np.dtype, target: Buffer, x: Buffer, starts: Buffer) -> Buffer:
    """A thread per element of the target."""
    out = target.device.empty(target.shape, target.dtype)
    if out.size:
        target, i = contiguous(target), index_type(out.size)
        found = _kernel(title, dtype, target.ndim, i)
        numbers = _numbers(target, target.shape, x.shape, i)
        operands = (target, contiguous(x), contiguous(starts), out)
        target.device.launch(found, blocks(out.size), THREADS, *operands, out.size, *numbers)
    return out


def dynamic_update_slice(target: Buffer, x: Buffer, starts: Buffer) -> Buffer:
    """Copy with the part replaced."""
    if not target.shape:
        return copied(x)
    return _replaced("update", _moved_as(target.dtype), target, x, starts)


def dynamic_add_slice(target: Buffer, x: Buffer, starts: Buffer) -> Buffer:
    """Copy with x added to the part."""
    if not target.shape:
        return dynamic_add_slice_into(copied(target), x, starts)
    kind = bare(target.dtype)
    return _replaced("add" if kind == target.dtype else "or", kind, target, x, starts)


def dynamic_add_slice_into(target: Buffer, x: Buffer, starts: Buffer) -> Buffer:
    """x added to the part, in place."""
    if x.size:
        kind, whole, part = bare(target.dtype), target, contiguous(x)
        if not target.shape:
            whole, part = target.view((1,), None), part.view((1,), None)
            starts = target.device.zeros((1,), np.dtype(np.int64))
        _part("add_into" if kind == target.dtype else "or_into", kind, whole, starts, part)
    return target
