"""Elementwise kernels: generated from the expression, the types and how the operands lie in memory.

An operand is one of

    v  one run in C order, as long as the result
    s  a number, passed with the launch: a 0-d value of the host's never has a place on the device
    c  one element in the device's memory
    n  strided: an offset from the element's place, found by multiplications in place of divisions

Runs are read and written 16 bytes at a time where all of them lie at a multiple of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.kernel import LARGE, THREADS, Kernel, blocks, index_type, kernel, short
from numbagrad.kernels.cuda.map_entry import entry
from numbagrad.scalar.expr import Expr
from numbagrad.scalar.render import NAMES, Body, output_dtypes

ndarray = np.ndarray


class MapKernel:
    """An elementwise operation for given operand types. Call it with values; it returns a buffer per output.

    `fast` is the caller's list of ways to skip this class, see map_entry.py.
    """

    __slots__ = ("_dtypes", "_fast", "_kernels", "_name", "_outputs", "_width", "out_dtypes")

    def __init__(
        self, name: str, outputs: tuple[Expr, ...], dtypes: tuple[np.dtype, ...], fast: list[Any] | None = None
    ) -> None:
        self._name, self._outputs, self._dtypes = name, outputs, dtypes
        self._fast = [] if fast is None else fast
        self.out_dtypes = output_dtypes(outputs, dtypes)
        self._kernels: dict[str, Kernel] = {}
        self._width = vector_width((*dtypes, *self.out_dtypes))

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
        width = self._width
        vectors = n // width if width > 1 and not addresses & (16 - 1) else 0
        threads = vectors + n - width * vectors
        device.launch(found, -(-threads // THREADS), THREADS, *arguments, *outs, n, vectors)

    def _flat_kernel(self, layout: str, n: int) -> Kernel:
        index = index_type(n)
        name, source, signature = render_flat(
            self._name, self._outputs, self._dtypes, self.out_dtypes, layout, index, self._width
        )
        made = kernel(name, source, signature)
        if index == "uint32":
            self._kernels[layout] = made
            way = entry(made, layout, self._dtypes, self.out_dtypes, self._width)
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
            made = render_strided(self._name, self._outputs, self._dtypes, self.out_dtypes, layout, len(dims), index)
            found = self._kernels[key] = kernel(*made)
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
    return [np.uint8(value)] if x.dtype.kind == "b" else [value]


def vector_width(dtypes: Sequence[np.dtype]) -> int:
    """Elements that one access of 16 bytes takes of the widest type: 4, 2, or 1 for none."""
    return max(1, min(4, 16 // max(d.itemsize for d in dtypes)))


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
    """What a kernel needs to take a flat index apart: for every axis but the first its length, and how to divide by it."""
    if index == "int64":
        return list(dims[1:])
    return [x for d in dims[1:] for x in (d, *magic(d))]


# --- texts


def parameter_names(layout: str, dtypes: Sequence[np.dtype]) -> tuple[list[str], list[str]]:
    """Names and types of the parameters that hold the inputs."""
    names, kinds = [], []
    for k, (form, dtype) in enumerate(zip(layout, dtypes, strict=True)):
        t = NAMES[dtype.name]
        if form == "s" and dtype.kind == "c":
            half = "f32" if dtype.itemsize == 8 else "f64"
            names += [f"r{k}", f"i{k}"]
            kinds += [half, half]
        elif form == "s":
            names.append(f"p{k}")
            kinds.append(t)
        else:
            names.append(f"p{k}")
            kinds.append(f"{t}*")
    return names, kinds


def read(k: int, form: str, dtype: np.dtype, at: str) -> str:
    """The text of operand k's element."""
    if form == "s" and dtype.kind == "c":
        return f"{dtype.name}(complex(r{k}, i{k}))"
    text = f"p{k}" if form == "s" else f"p{k}[0]" if form == "c" else f"p{k}[{at}]"
    return f"{text} != 0" if dtype.kind == "b" else text


def element(body: Body, used: Sequence[int]) -> list[str]:
    """The device function that computes one element of every output."""
    results = ", ".join(body.results)
    lines = [f"    {line}" for line in body.lines]
    return [
        *(f"@cuda.jit(device=True)\n{source}\n" for source in body.sources.values()),
        "@cuda.jit(device=True)",
        f"def element({', '.join(f'x{k}' for k in used)}):",
        *lines,
        f"    return {results if len(body.results) == 1 else f'({results})'}",
    ]


def header(
    title: str, outputs: Sequence[Expr], dtypes: Sequence[np.dtype], out_dtypes: Sequence[np.dtype], layout: str
) -> str:
    """The docstring of a kernel's file."""
    formula = ", ".join(map(repr, outputs))
    formula = formula if len(formula) < 400 else formula[:400] + " ..."
    types = f"{', '.join(d.name for d in dtypes)} -> {', '.join(d.name for d in out_dtypes)}"
    return f'"""{title}: {formula}\n\n{types}; operands {layout}.\n"""\n'


_TYPE_NAMES = re.compile(r"\b(u?int\d+|float\d+|complex\d+|boolean)\(")


def imports(body: Body, text: str, more: Sequence[str] = ()) -> list[str]:
    """Import lines for a kernel's text."""
    sources = "\n".join([text, *body.sources.values()])
    lines = [f"import {m}" for m in ("cmath", "math") if f"{m}." in sources]
    if "np." in sources:
        lines.append("import numpy as np")
    names = {"cuda", *_TYPE_NAMES.findall(sources), *body.functions, *more}
    if "boolean" in names:
        names.remove("boolean")
        lines.append("from numba import boolean")
    lines.append(f"from numbagrad.kernels.cuda.frontend import {', '.join(sorted(names))}")
    return lines


def _used(body: Body, count: int) -> list[int]:
    arguments = {e.value for e in body.types if e.is_argument}
    return [k for k in range(count) if k in arguments]


def render_flat(
    title: str,
    outputs: Sequence[Expr],
    dtypes: Sequence[np.dtype],
    out_dtypes: Sequence[np.dtype],
    layout: str,
    index: str,
    width: int,
) -> tuple[str, str, list[str]]:
    """Name, text and signature of the kernel for runs, numbers and single elements."""
    body = Body(outputs, dtypes, "math")
    used = _used(body, len(dtypes))
    names, kinds = parameter_names(layout, dtypes)
    quantities = [f"q{j}" for j in range(len(outputs))]
    signature = [*kinds, *(f"{NAMES[d.name]}*" for d in out_dtypes), short(index), short(index)]
    name = kernel_name(title, dtypes, out_dtypes, layout + ("" if index == "uint32" else "_large"))
    fixed = [f"    x{k} = {read(k, layout[k], dtypes[k], '')}" for k in used if layout[k] != "v"]
    runs = [k for k in used if layout[k] == "v"]
    vector: list[str] = []
    if width > 1:
        vector = ["    if i < vectors:", f"        j = {index}({width} * i)"]
        vector += [f"        a{k} = load{width}(p{k}, j)" for k in runs]
        for lane in range(width):
            operands = [
                (f"a{k}[{lane}]" + (" != 0" if dtypes[k].kind == "b" else "")) if layout[k] == "v" else f"x{k}"
                for k in used
            ]
            vector.append(f"        y{lane} = element({', '.join(operands)})")
        for j in range(len(outputs)):
            part = "" if len(outputs) == 1 else f"[{j}]"
            vector.append(f"        store{width}(q{j}, j, ({', '.join(f'y{lane}{part}' for lane in range(width))}))")
        vector.append("        return")
    lines = [
        "@cuda.jit",
        f"def {name}({', '.join([*names, *quantities, 'n', 'vectors'])}):",
        f"    i = {index}(cuda.grid(1))",
        *fixed,
        *vector,
        f"    i = {index}(i + {width - 1} * vectors)" if width > 1 else f"    i = {index}(i)",
        "    if i < n:",
        *(f"        x{k} = {read(k, 'v', dtypes[k], 'i')}" for k in runs),
        f"        y = element({', '.join(f'x{k}' for k in used)})",
        *(f"        q{j}[i] = y{'' if len(outputs) == 1 else f'[{j}]'}" for j in range(len(outputs))),
    ]
    code = "\n".join([*element(body, used), "", "", *lines]) + "\n"
    more = [f"load{width}", f"store{width}"] if width > 1 else []
    head = header(title, outputs, dtypes, out_dtypes, layout)
    return name, "\n".join([head, *imports(body, code, more), "", "", code]), signature


def kernel_name(title: str, dtypes: Sequence[np.dtype], out_dtypes: Sequence[np.dtype], layout: str) -> str:
    """A name for a kernel and its files."""
    types = "_".join(dict.fromkeys(NAMES[d.name] for d in (*dtypes, *out_dtypes)))
    return re.sub(r"\W+", "_", f"{title[:50]}_{types}_{layout}")[:80]


def render_strided(
    title: str,
    outputs: Sequence[Expr],
    dtypes: Sequence[np.dtype],
    out_dtypes: Sequence[np.dtype],
    layout: str,
    ndim: int,
    index: str,
) -> tuple[str, str, list[str]]:
    """The same for strided operands: the flat index is taken apart into one per axis."""
    body = Body(outputs, dtypes, "math")
    used = _used(body, len(dtypes))
    names, kinds = parameter_names(layout, dtypes)
    moving = [f"p{k}" for k, form in enumerate(layout) if form == "n"]
    quantities = [f"q{j}" for j in range(len(outputs))]
    signature = [*kinds, *(f"{NAMES[d.name]}*" for d in out_dtypes), short(index)]
    parameters = [*names, *quantities, "n"]
    take_apart: list[str] = ["    rest = i"]
    for axis in range(ndim - 1, 0, -1):
        if index == "uint32":
            take_apart.append(f"    whole = uint32((uint64(rest) * m{axis}) >> s{axis})")
        else:
            take_apart.append(f"    whole = rest // d{axis}")
        take_apart += [f"    i{axis}_ = {index}(rest - {index}(whole * d{axis}))", "    rest = whole"]
    take_apart.append("    i0_ = rest")
    for axis in range(1, ndim):
        parameters += [f"d{axis}", f"m{axis}", f"s{axis}"] if index == "uint32" else [f"d{axis}"]
        signature += ["u32", "u64", "u64"] if index == "uint32" else ["i64"]
    for p in (*moving, *quantities):
        parameters += [f"{p}_{axis}" for axis in range(ndim)]
        signature += ["i64"] * ndim
    offsets = {p: " + ".join(f"int64(i{axis}_) * {p}_{axis}" for axis in range(ndim)) for p in (*moving, *quantities)}
    name = kernel_name(title, dtypes, out_dtypes, f"{layout}{ndim}" + ("" if index == "uint32" else "_large"))
    lines = [
        "@cuda.jit",
        f"def {name}({', '.join(parameters)}):",
        f"    i = {index}(cuda.grid(1))",
        "    if i >= n:",
        "        return",
        *take_apart,
        *(f"    x{k} = {read(k, layout[k], dtypes[k], offsets.get(f'p{k}', ''))}" for k in used),
        f"    y = element({', '.join(f'x{k}' for k in used)})",
        *(f"    q{j}[{offsets[f'q{j}']}] = y{'' if len(outputs) == 1 else f'[{j}]'}" for j in range(len(outputs))),
    ]
    code = "\n".join([*element(body, used), "", "", *lines]) + "\n"
    head = header(title, outputs, dtypes, out_dtypes, f"{layout}, {ndim} axes")
    return name, "\n".join([head, *imports(body, code), "", "", code]), signature
