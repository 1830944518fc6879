"""The texts of elementwise kernels: one for runs, one for strided operands. Layouts are explained in map.py."""

# Checklist of docs/design/cuda.md: all 15 hold; no shared memory, no barriers, no atomics; registers <= 48 (sm_90,
# float32; most 10 to 22), 7 but for the functions that cancel in float32.

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from numbagrad.core.dtypes import computed, is_half
from numbagrad.kernels.cuda.kernel import Kernel, kernel, short, vector_width
from numbagrad.scalar.expr import Expr
from numbagrad.scalar.render import NAMES, Body, loaded, output_dtypes, stored

_TYPE_NAMES = re.compile(r"\b(u?int\d+|float\d+|complex\d+|boolean)\(")


class MapText:
    """An elementwise operation for given operand types, ready to be written down for any layout."""

    def __init__(self, title: str, outputs: Sequence[Expr], dtypes: Sequence[np.dtype]) -> None:
        self.title, self.outputs, self.dtypes = title, outputs, dtypes
        self.out_dtypes = output_dtypes(outputs, dtypes)
        self.body = Body(outputs, [computed(d) for d in dtypes], "math")
        arguments = {e.value for e in self.body.types if e.is_argument}
        self.used = [k for k in range(len(dtypes)) if k in arguments]
        self.results = [f"q{j}" for j in range(len(outputs))]
        self.width = self._vector_width()

    def _vector_width(self) -> int:
        """Elements of one access: 16 bytes of the widest type; one where they would only make a long program longer."""
        body = self.body
        long = len(body.lines) > 32 or body.sources or body.functions & {"polygamma", "sinc_derivative"}
        return 1 if long else vector_width((*self.dtypes, *self.out_dtypes))

    def runs(self, layout: str, index: str) -> Kernel:
        """The kernel for runs, numbers and single elements."""
        names, kinds = self._parameters(layout)
        width, large = self.width, "" if index == "uint32" else "_large"
        name = self._name(layout + large)
        moving = [k for k in self.used if layout[k] == "v"]
        lines = [
            "@cuda.jit",
            f"def {name}({', '.join([*names, *self.results, 'n', 'vectors'])}):",
            f"    i = {index}(cuda.grid(1))",
            *(f"    x{k} = {self._read(k, layout[k], '')}" for k in self.used if layout[k] != "v"),
            *(self._vector_part(layout, index) if width > 1 else []),
            "    if i < n:",
            *(f"        x{k} = {self._read(k, 'v', 'i')}" for k in moving),
            f"        y = element({', '.join(f'x{k}' for k in self.used)})",
            *(
                f"        {q}[i] = {stored(self.out_dtypes[j], f'y{self._part(j)}')}"
                for j, q in enumerate(self.results)
            ),
        ]
        more = [f"load{width}", f"store{width}"] if width > 1 else []
        signature = [*kinds, *(f"{NAMES[d.name]}*" for d in self.out_dtypes), short(index), short(index)]
        return kernel(name, self._file(lines, layout, more), signature)

    def _vector_part(self, layout: str, index: str) -> list[str]:
        """Statements for the threads that take `width` neighbours."""
        width = self.width
        lines = ["    if i < vectors:", f"        j = {index}({width} * i)"]
        lines += [f"        a{k} = load{width}(p{k}, j)" for k in self.used if layout[k] == "v"]
        for lane in range(width):
            operands = [self._lane(k, lane) if layout[k] == "v" else f"x{k}" for k in self.used]
            lines.append(f"        y{lane} = element({', '.join(operands)})")
        for j, q in enumerate(self.results):
            lanes = ", ".join(stored(self.out_dtypes[j], f"y{lane}{self._part(j)}") for lane in range(width))
            lines.append(f"        store{width}({q}, j, ({lanes}))")
        return [*lines, "        return", f"    i = {index}(i + {width - 1} * vectors)"]

    def strided(self, layout: str, ndim: int, index: str) -> Kernel:
        """The kernel for strided operands: the flat index is taken apart into one per axis."""
        names, kinds = self._parameters(layout)
        parameters = [*names, *self.results, "n"]
        signature = [*kinds, *(f"{NAMES[d.name]}*" for d in self.out_dtypes), short(index)]
        apart = ["    rest = i"]
        for axis in range(ndim - 1, 0, -1):
            whole = f"rest // d{axis}" if index == "int64" else f"uint32((uint64(rest) * m{axis}) >> s{axis})"
            apart += [
                f"    whole = {whole}",
                f"    i{axis} = {index}(rest - {index}(whole * d{axis}))",
                "    rest = whole",
            ]
        for axis in range(1, ndim):
            parameters += [f"d{axis}"] if index == "int64" else [f"d{axis}", f"m{axis}", f"s{axis}"]
            signature += ["i64"] if index == "int64" else ["u32", "u64", "u64"]
        at = {}
        for p in (*(f"p{k}" for k, form in enumerate(layout) if form == "n"), *self.results):
            parameters += [f"{p}_{axis}" for axis in range(ndim)]
            signature += ["i64"] * ndim
            at[p] = " + ".join(f"int64(i{axis}) * {p}_{axis}" for axis in range(ndim))
        name = self._name(f"{layout}{ndim}" + ("" if index == "uint32" else "_large"))
        lines = [
            "@cuda.jit",
            f"def {name}({', '.join(parameters)}):",
            f"    i = {index}(cuda.grid(1))",
            "    if i >= n:",
            "        return",
            *apart,
            "    i0 = rest",
            *(f"    x{k} = {self._read(k, layout[k], at.get(f'p{k}', ''))}" for k in self.used),
            f"    y = element({', '.join(f'x{k}' for k in self.used)})",
            *(
                f"    {q}[{at[q]}] = {stored(self.out_dtypes[j], f'y{self._part(j)}')}"
                for j, q in enumerate(self.results)
            ),
        ]
        return kernel(name, self._file(lines, f"{layout}, {ndim} axes"), signature)

    # --- pieces of a text

    def _parameters(self, layout: str) -> tuple[list[str], list[str]]:
        """Names and types of the parameters that hold the inputs."""
        names, kinds = [], []
        for k, (form, dtype) in enumerate(zip(layout, self.dtypes, strict=True)):
            t = NAMES[dtype.name]
            if form == "s" and dtype.kind == "c":
                names += [f"r{k}", f"i{k}_"]
                kinds += ["f32" if dtype.itemsize == 8 else "f64"] * 2
            else:
                names.append(f"p{k}")
                kinds.append(f"{t}*" if form != "s" else "f32" if is_half(dtype) else t)
        return names, kinds

    def _read(self, k: int, form: str, at: str) -> str:
        """Operand k's element."""
        dtype = self.dtypes[k]
        if form == "s" and dtype.kind == "c":
            return f"{dtype.name}(complex(r{k}, i{k}_))"
        text = f"p{k}" if form == "s" else f"p{k}[0]" if form == "c" else f"p{k}[{at}]"
        return text if form == "s" and is_half(dtype) else loaded(dtype, text)

    def _lane(self, k: int, lane: int) -> str:
        return loaded(self.dtypes[k], f"a{k}[{lane}]")

    def _part(self, j: int) -> str:
        return "" if len(self.outputs) == 1 else f"[{j}]"

    def _name(self, layout: str) -> str:
        types = "_".join(dict.fromkeys(NAMES[d.name] for d in (*self.dtypes, *self.out_dtypes)))
        return re.sub(r"\W+", "_", f"{self.title[:50]}_{types}_{layout}")[:80]

    def _file(self, lines: Sequence[str], layout: str, more: Sequence[str] = ()) -> str:
        """The whole text: what it computes, imports, the function of one element, the kernel."""
        body, formula = self.body, ", ".join(map(repr, self.outputs))
        results = ", ".join(body.results)
        element = [
            *(f"@cuda.jit(device=True)\n{source}\n" for source in body.sources.values()),
            "@cuda.jit(device=True)",
            f"def element({', '.join(f'x{k}' for k in self.used)}):",
            *(f"    {line}" for line in body.lines),
            f"    return {results if len(body.results) == 1 else f'({results})'}",
        ]
        code = "\n".join([*element, "", "", *lines]) + "\n"
        types = f"{', '.join(d.name for d in self.dtypes)} -> {', '.join(d.name for d in self.out_dtypes)}"
        formula = formula if len(formula) < 400 else formula[:400] + " ..."
        head = f'"""{self.title}: {formula}\n\n{types}; operands {layout}.\n"""\n'
        return "\n".join([head, *self._imports(code, more), "", "", code])

    def _imports(self, code: str, more: Sequence[str]) -> list[str]:
        lines = [f"import {m}" for m in ("cmath", "math") if f"{m}." in code]
        lines += ["import numpy as np"] if "np." in code else []
        names = {"cuda", *_TYPE_NAMES.findall(code), *self.body.functions, *more}
        names |= set(re.findall(r"\b(?:\w+_to_float|float_to_\w+)(?=\()", code))
        return [*lines, f"from numbagrad.kernels.cuda.frontend import {', '.join(sorted(names))}"]
