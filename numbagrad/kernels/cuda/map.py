"""Elementwise kernels: generated from the expression, the types and how the operands lie in memory.

An operand is one of

    v  one run in C order, as long as the result
    s  a number, passed with the launch: a 0-d value of the host's never has a place on the device
    c  one element in the device's memory
    n  strided: an offset from the element's place, found by multiplications in place of divisions

Runs are read and written 16 bytes at a time where all of them lie at a multiple of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from numbagrad.core.dtypes import is_half
from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.kernel import LARGE, THREADS, Kernel, blocks, index_type
from numbagrad.kernels.cuda.map_entry import entry
from numbagrad.kernels.cuda.map_text import MapText
from numbagrad.scalar.expr import Expr

ndarray = np.ndarray


class MapKernel:
    """An elementwise operation for given operand types. Call it with values; it returns a buffer per output.

    `fast` is the caller's list of ways to skip this class, see map_entry.py.
    """

    __slots__ = ("_fast", "_kernels", "_text", "out_dtypes")

    def __init__(
        self, name: str, outputs: tuple[Expr, ...], dtypes: tuple[np.dtype, ...], fast: list[Any] | None = None
    ) -> None:
        self._text = MapText(name, outputs, dtypes)
        self.out_dtypes = self._text.out_dtypes
        self._fast = [] if fast is None else fast
        self._kernels: dict[str, Kernel] = {}

    def __call__(self, device: Any, inputs: Sequence[Any], shape: tuple[int, ...]) -> list[Buffer]:
        outs = [device.empty(shape, d) for d in self.out_dtypes]
        self.write(device, inputs, outs)
        return outs

    def write(self, device: Any, inputs: Sequence[Any], outs: Sequence[Buffer]) -> None:
        """Compute into given buffers of one shape (which may be among the inputs, at the same place)."""
        first = outs[0]
        shape, n = first.shape, first.size
        if not n:
            return
        layout, arguments, addresses = "", [], 0
        for a in inputs:
            if a.__class__ is ndarray:
                if a.size == 1:
                    layout += "s"
                    arguments += _number(a)
                    continue
                a = device.put(a)
            if a.flat and a.shape == shape:
                layout += "v"
                addresses |= a.address
            elif a.size == 1 or not any(a.strides):
                layout += "c"
            else:
                return self._strided(device, inputs, outs)
            arguments.append(a)
        for out in outs:
            if not out.flat:
                return self._strided(device, inputs, outs)
            addresses |= out.address
        found = self._kernels.get(layout) if n < LARGE else None
        if found is None:
            found = self._flat_kernel(layout, n)
        width = self._text.width
        vectors = n // width if width > 1 and not addresses & (16 - 1) else 0
        threads = vectors + n - width * vectors
        device.launch(found, -(-threads // THREADS), THREADS, *arguments, *outs, n, vectors)

    def _flat_kernel(self, layout: str, n: int) -> Kernel:
        text, index = self._text, index_type(n)
        made = text.runs(layout, index)
        if index == "uint32":
            self._kernels[layout] = made
            way = entry(made, layout, text.dtypes, text.out_dtypes, text.width)
            if way is not None:
                self._fast.append(way)
        return made

    def _strided(self, device: Any, inputs: Sequence[Any], outs: Sequence[Buffer]) -> None:
        values: list[Any] = []
        layout = ""
        for a in inputs:
            if a.__class__ is ndarray and a.size == 1:
                layout += "s"
                values.append(a)
                continue
            a = device.put(a) if a.__class__ is ndarray else a
            values.append(a)
            layout += "c" if a.size == 1 or not any(a.strides) else "n"
        shape = outs[0].shape
        moving = [v for v, k in zip(values, layout, strict=True) if k == "n"]
        dims, strides = collapse(shape, [*(broadcast_strides(v, shape) for v in moving), *(o.strides for o in outs)])
        index = index_type(outs[0].size)
        key = f"{layout}{len(dims)}{index}"
        found = self._kernels.get(key)
        if found is None:
            found = self._kernels[key] = self._text.strided(layout, len(dims), index)
        arguments: list[Any] = []
        for v, k in zip(values, layout, strict=True):
            arguments += _number(v) if k == "s" else [v]
        items = [v.itemsize for v in (*moving, *outs)]
        steps = [s // item for row, item in zip(strides, items, strict=True) for s in row]
        n = outs[0].size
        device.launch(found, blocks(n), THREADS, *arguments, *outs, n, *divisors(dims, index), *steps)


def _number(x: np.ndarray) -> list[Any]:
    """A host value as launch arguments: a complex one as two."""
    value = x.reshape(())[()]
    if x.dtype.kind == "c":
        return [value.real, value.imag]
    if is_half(x.dtype):
        return [np.float32(value)]
    return [np.uint8(value)] if x.dtype.kind == "b" else [value]


def broadcast_strides(x: Buffer, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Byte strides of x along the axes of a shape it broadcasts to."""
    own = tuple(0 if n == 1 else s for n, s in zip(x.shape, x.strides, strict=True))
    return (0,) * (len(shape) - len(own)) + own


def collapse(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Axes sorted by the last operand's strides, without those of length 1, neighbours merged where all are one run."""
    axes = [k for k, n in enumerate(shape) if n != 1]
    axes.sort(key=lambda k: -abs(strides[-1][k]))
    dims: list[int] = []
    kept: list[list[int]] = [[] for _ in strides]
    for k in axes:
        if dims and all(row[-1] == shape[k] * s[k] for row, s in zip(kept, strides, strict=True)):
            dims[-1] *= shape[k]
            for row, s in zip(kept, strides, strict=True):
                row[-1] = s[k]
        else:
            dims.append(shape[k])
            for row, s in zip(kept, strides, strict=True):
                row.append(s[k])
    if not dims:
        return [1], [[0] for _ in strides]
    return dims, kept


@cache
def magic(d: int) -> tuple[int, int]:
    """(m, s) with n // d == (n * m) >> s for all n below 2**31 (Granlund and Montgomery 1994)."""
    bits = 31 + (d - 1).bit_length()
    return (1 << bits) // d + 1, bits


def divisors(dims: Sequence[int], index: str) -> list[int]:
    """What takes a flat index apart: for every axis but the first its length, and how to divide by it."""
    if index == "int64":
        return list(dims[1:])
    return [x for d in dims[1:] for x in (d, *magic(d))]
