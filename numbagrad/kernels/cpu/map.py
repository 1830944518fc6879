"""Elementwise kernels: one generated loop per expression, types and layout of the inner run.

A layout variant is compiled when first met. Each operand's inner step is 1, 0 (one element for the whole run,
loaded once before the loop) or, in the general variant, anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from numbagrad import config
from numbagrad.core.dtypes import computed
from numbagrad.kernels.cpu import pool
from numbagrad.kernels.cpu.launcher import Variant
from numbagrad.scalar.expr import Expr
from numbagrad.scalar.render import NAMES, Body, loaded, output_dtypes, stored


class MapKernel:
    """An elementwise operation for given operand types. Call it with arrays; it returns an array per output.

    `fast` is the caller's list of ways to skip this class: native functions of the inputs that make the outputs,
    or return None when the inputs are not just what they were made for.
    """

    __slots__ = ("_dtypes", "_fast", "_name", "_outputs", "_variants", "out_dtypes")

    def __init__(
        self, name: str, outputs: tuple[Expr, ...], dtypes: tuple[np.dtype, ...], fast: list[Any] | None = None
    ) -> None:
        self._name, self._outputs, self._dtypes = name, outputs, dtypes
        self._fast = [] if fast is None else fast
        self.out_dtypes = output_dtypes(outputs, dtypes)
        self._variants: dict[tuple[int, ...] | None, Variant] = {}

    def __call__(self, inputs: Sequence[np.ndarray], shape: tuple[int, ...]) -> Sequence[np.ndarray]:
        if not self._variants:
            made = self._first(inputs)
            if made is not None:
                return (made,) if len(self.out_dtypes) == 1 else made
        outs = [pool.empty(shape, d) for d in self.out_dtypes]
        self.write(inputs, outs)
        return outs

    def write(self, inputs: Sequence[np.ndarray], outs: Sequence[np.ndarray]) -> None:
        """Compute into given arrays (which may be among the inputs, at the same place)."""
        if not self._variants:
            self._first(())
        arrays = (*inputs, *outs)
        for variant in list(self._variants.values()):
            done = variant.launch(*arrays)
            if done or (done is None and variant.parallel(*arrays)):
                return
        first = next(iter(self._variants.values()))
        variant = self._variant(first.inner_steps(arrays))
        if not variant.launch(*arrays) and not variant.parallel(*arrays):
            raise AssertionError(f"{self._name}: no kernel for strides {[a.strides for a in arrays]}")

    def _first(self, inputs: Sequence[np.ndarray]) -> Any:
        """Compile the variant that these inputs seem to need and try it."""
        size = max((a.size for a in inputs), default=1)
        steps = [0 if size > 1 and (a.size == 1 or not any(a.strides)) else 1 for a in inputs]
        if 1 not in steps:
            steps = [1] * len(self._dtypes)
        variant = self._variant((*steps, *(1,) * len(self.out_dtypes)))
        return variant.apply(*inputs) if inputs else None

    def _variant(self, steps: tuple[int, ...] | None) -> Variant:
        found = self._variants.get(steps)
        if found is None:
            name, source = render(self._name, self._outputs, self._dtypes, self.out_dtypes, steps)
            dtypes = (*self._dtypes, *self.out_dtypes)
            costly = "scalar.simd" in source or "scalar.functions" in source
            limit = config.PARALLEL_COSTLY if costly else config.PARALLEL_ELEMENTS
            found = self._variants[steps] = Variant(name, source, steps, len(self.out_dtypes), dtypes, limit)
            # only where an input has the outputs' shape can they be made from the inputs alone
            if steps is not None and 1 in steps[: len(self._dtypes)]:
                self._fast.append(found.apply)
        return found


def render(
    title: str,
    outputs: Sequence[Expr],
    dtypes: Sequence[np.dtype],
    out_dtypes: Sequence[np.dtype],
    steps: Sequence[int] | None,
) -> tuple[str, str]:
    """Name and source of a map kernel."""
    body = Body(outputs, [computed(d) for d in dtypes])
    used = [k for k in range(len(dtypes)) if any(e.is_argument and e.value == k for e in body.types)]
    n_in = len(dtypes)
    types = [NAMES[d.name] for d in (*dtypes, *out_dtypes)]
    layout = "any" if steps is None else "".join("s" if s == 0 else "v" for s in steps[:n_in])
    name = re.sub(r"\W+", "_", f"{title}_{'_'.join(dict.fromkeys(types))}_{layout}")[:80]
    pointers = [f"    p{k} = {types[k]}(ptrs, {k})" for k in used]
    pointers += [f"    q{j} = {types[n_in + j]}(ptrs, {n_in + j})" for j in range(len(outputs))]
    scalars = [k for k in used if steps is not None and steps[k] == 0]
    if steps is None:
        pointers += [f"    s{k} = strides[{k}]" for k in used]
        pointers += [f"    s{n_in + j} = strides[{n_in + j}]" for j in range(len(outputs))]
    pointers += [f"    x{k} = {loaded(dtypes[k], f'p{k}[0]')}" for k in scalars]
    at = (lambda k: f"i * s{k}") if steps is None else (lambda k: "i")
    loop = [f"        x{k} = {loaded(dtypes[k], f'p{k}[{at(k)}]')}" for k in used if k not in scalars]
    loop += [f"        {line}" for line in body.lines]
    loop += [f"        q{j}[{at(n_in + j)}] = {stored(out_dtypes[j], result)}" for j, result in enumerate(body.results)]
    formula = ", ".join(map(repr, outputs))
    lines = [
        f'"""{title}: {formula if len(formula) < 400 else formula[:400] + " ..."}',
        "",
        f"{', '.join(types[:n_in])} -> {', '.join(types[n_in:])}; inner steps {layout}.",
        '"""',
        "",
        *_imports(body, types, pointers + loop),
        "",
        *(f"@njit\n{source}\n" for source in body.sources.values()),
        f"def {name}(n, ptrs, strides):",
        *(["    wide_vectors()"] if body.simd else []),
        *pointers,
        "    for i in range(n):",
        *loop,
    ]
    return name, "\n".join(lines) + "\n"


def _imports(body: Body, types: Sequence[str], code: Sequence[str]) -> list[str]:
    text = "\n".join([*body.lines, *body.results, *code])
    numba = sorted(set(re.findall(r"\b(boolean|u?int\d+|float\d+|complex\d+)\(", text)))
    lines = [
        f"import {m}" for m in ("cmath", "math") if f"{m}." in text or any(f"{m}." in s for s in body.sources.values())
    ]
    if "np." in text or any("np." in s for s in body.sources.values()):
        lines.append("import numpy as np")
    if numba:
        lines.append(f"from numba import {', '.join(numba)}")
    if body.sources:
        lines.append("from numba import njit")
    lines.append(f"from numbagrad.kernels.cpu.abi import {', '.join(sorted(set(types)))}")
    if body.functions:
        lines.append(f"from numbagrad.scalar.functions import {', '.join(sorted(body.functions))}")
    halves = sorted(set(re.findall(r"\b(?:\w+_to_float|float_to_\w+)(?=\()", "\n".join(code))))
    if halves:
        lines.append(f"from numbagrad.scalar.half import {', '.join(halves)}")
    if body.simd:
        lines.append(f"from numbagrad.scalar.simd import {', '.join([*sorted(body.simd), 'wide_vectors'])}")
    return lines
