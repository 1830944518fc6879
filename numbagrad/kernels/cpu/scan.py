"""Cumulative sums, products, extrema, log-sum-exps and linear recurrences along one axis.

An array is seen as (before, axis, after). `after` > 1: columns abreast, which LLVM vectorises. Rows: a running value
waits for itself (4 cycles an addition), so four rows advance together; a long row of sums is cut into pieces of fixed
size, whose own sums, taken first, are where they start. float32 is accumulated in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from numbagrad.kernels.cpu import jobs, pool, scan_exp
from numbagrad.kernels.cpu.compiler import kernel_address
from numbagrad.kernels.cpu.copy import contiguous
from numbagrad.kernels.cpu.reduce import SUM, reduce_rows
from numbagrad.scalar.render import NAMES

TOGETHER = 4  # rows that advance together: enough for the latency, few enough for the ways of a cache set
PIECE = 1000  # elements of a piece of a long row of sums; not a power of two, which would fall into one cache set
FEW = 16  # elements that make poor vectors
ABREAST = 256  # columns a thread takes at a time


class Scan:
    """What a scan does at element `i`, place `p` of its line: states with start values, and lines of code.

    States are named with `@` in the code: four of each live side by side in the kernel for rows. `{T}` and `{A}` are
    the types of an element and of the accumulator.
    """

    def __init__(
        self, name: str, inputs: Sequence[str], outputs: Sequence[str], states: dict[str, tuple[str, str]], step: str
    ) -> None:
        self.name, self.inputs, self.outputs = name, tuple(inputs), tuple(outputs)
        self.states, self.step = states, step.strip().splitlines()


_EXTREMUM = "take@ = (x[i@] {sign}= m@) & (m@ == m@) | (x[i@] != x[i@])\nm@ = x[i@] if take@ else m@\n"
_SHIFTED = """
v@ = float64(x[i@])
up@ = v@ > m@
e@ = exp_f64(0.0 if v@ == m@ else -abs(v@ - m@))
old@ = s@ * e@ if up@ else s@
new@ = 1.0 if up@ else e@
s@ = old@ + new@
m@ = v@ if up@ else m@
"""
_SUMMED = "out[i@] = {T}(m@ + log_f64(s@))\n"
# nothing but -inf so far has no derivative
_SHARED = "live@ = 0.0 if m@ == -np.inf else 1.0 / s@\nout[i@] = {T}(new@ * live@)\nkept[i@] = {T}(old@ * live@)\n"
_LSE = {"m": ("float64", "-np.inf"), "s": ("float64", "0")}

SCANS = {
    s.name: s
    for s in (
        Scan("cumsum", ["x"], ["out"], {"s": ("{A}", "0")}, "s@ = {A}(s@ + {A}(x[i@]))\nout[i@] = {T}(s@)"),
        Scan("cumprod", ["x"], ["out"], {"s": ("{A}", "1")}, "s@ = {A}(s@ * {A}(x[i@]))\nout[i@] = {T}(s@)"),
        # an exact zero passes nothing on, whatever it is multiplied with
        Scan(
            "linear_recurrence",
            ["x", "b"],
            ["out"],
            {"s": ("{A}", "0")},
            "s@ = {A}(({A}(x[i@]) * s@ if s@ != 0 else {A}(0)) + {A}(b[i@]))\nout[i@] = {T}(s@)",
        ),
        *(
            Scan(f"{name}{route}", ["x"], outputs, {"m": ("{T}", start), **more}, _EXTREMUM.format(sign=sign) + last)
            for name, sign, start in (("cummax", ">", "{lowest}"), ("cummin", "<", "{highest}"))
            for route, outputs, more, last in (
                ("", ["out"], {}, "out[i@] = m@"),
                (
                    "_routed",
                    ["out", "place"],
                    {"w": ("int64", "0")},
                    "w@ = p if take@ else w@\nout[i@] = m@\nplace[i@] = w@",
                ),
            )
        ),
        Scan("cumlogsumexp", ["x"], ["out"], _LSE, _SHIFTED + _SUMMED),
        Scan("cumlogsumexp_weights", ["x"], ["out", "kept"], _LSE, _SHIFTED + _SHARED),
    )
}

_HEADER = '''"""{name} of {source} into {target}, {shape}."""

import numpy as np
from numba import {types}
from numbagrad.kernels.cpu.abi import {pointers}
{simd}

'''

_ROWS = """def {function}(n, ptrs, strides):
    {operands}
    rows, apart, sign = strides[{extras}], strides[{extras} + 1], strides[{extras} + 2]
    first = 0 if sign > 0 else n - 1
    if rows == {together}:
{starts_all}
        for j in range(n):
            p = first + sign * j
{steps_all}
    else:
        for row in range(rows):
{starts_one}
            for j in range(n):
                p = first + sign * j
                i0 = row * apart + p
{steps_one}
"""

_COLUMNS = """def {function}(n, ptrs, strides):
    {operands}
    count, apart, sign = strides[{extras}], strides[{extras} + 1], strides[{extras} + 2]
    first = 0 if sign > 0 else count - 1
{stacks}
    for block in range(0, n, LANE_BLOCK):
        width = min(LANE_BLOCK, n - block)
        for c in range(width):
{fill}
        for j in range(count):
            p = first + sign * j
            base = p * apart + block
            for c in range(width):
                i = base + c
{loads}
{steps}
{stores}
"""


def _indent(lines: Sequence[str], depth: int) -> str:
    return "\n".join("    " * depth + line for line in lines)


class _Text:
    """The source of a scan for its types."""

    def __init__(self, scan: Scan, source: np.dtype, target: np.dtype, acc: np.dtype) -> None:
        limits = ("-np.inf", "np.inf")
        if source.kind in "biu":
            limits = (str(np.iinfo(source).min), str(np.iinfo(source).max))
        self.names = dict(A=acc.name, T=target.name, lowest=limits[0], highest=limits[1])
        self.scan, self.source, self.target = scan, source, target
        kinds = dict.fromkeys(scan.inputs, source) | dict.fromkeys(scan.outputs, target)
        self.kinds = {k: NAMES["int64" if k == "place" else d.name] for k, d in kinds.items()}
        self.states = {k: (t.format(**self.names), s.format(**self.names)) for k, (t, s) in scan.states.items()}

    def step(self, k: object) -> list[str]:
        return [line.format(**self.names).replace("@", str(k)) for line in self.scan.step]

    def starts(self, k: int, line: str) -> list[str]:
        """Of sums where the piece starts, of all else the neutral value."""
        if self.scan.name == "cumsum":
            return [f"s{k} = start[{line} * strides[2]]"]
        return [f"{name}{k} = {kind}({value})" for name, (kind, value) in self.states.items()]

    def render(self, columns: bool) -> tuple[str, str]:
        kinds = dict(self.kinds)
        if self.scan.name == "cumsum" and not columns:
            kinds["start"] = NAMES[self.states["s"][0]]
        pointers = set(kinds.values())
        if columns:
            pointers |= {"LANE_BLOCK", *(f"stack_{NAMES[kind]}" for kind, _ in self.states.values())}
        text = "\n".join(self.step(""))
        simd = ", ".join(f for f in ("exp_f64", "log_f64") if f in text)
        function = f"{self.scan.name}_{'columns' if columns else 'rows'}_{NAMES[self.source.name]}"
        function += f"_{NAMES[self.target.name]}"
        fields = dict(
            name=self.scan.name,
            source=self.source.name,
            target=self.target.name,
            shape="down the rows of a block of columns" if columns else "along rows",
            types=", ".join(sorted({self.target.name, "float64", *(kind for kind, _ in self.states.values())})),
            pointers=", ".join(sorted(pointers)),
            simd=f"from numbagrad.scalar.simd import {simd}\n" if simd else "",
            function=function,
            operands=f"{', '.join(kinds)} = {', '.join(f'{t}(ptrs, {k})' for k, t in enumerate(kinds.values()))}",
            extras=len(kinds),
            together=TOGETHER,
        )
        return function, (_HEADER + (_COLUMNS if columns else _ROWS)).format(
            **fields, **(self._column_code() if columns else self._row_code())
        )

    def _row_code(self) -> dict[str, str]:
        steps = [f"i{k} = {k} * apart + p" for k in range(TOGETHER)]
        return dict(
            starts_all=_indent([s for k in range(TOGETHER) for s in self.starts(k, str(k))], 2),
            steps_all=_indent([*steps, *(s for k in range(TOGETHER) for s in self.step(k))], 3),
            starts_one=_indent(self.starts(0, "row"), 3),
            steps_one=_indent(self.step(0), 4),
        )

    def _column_code(self) -> dict[str, str]:
        return dict(
            stacks=_indent([f"{name}s = stack_{NAMES[kind]}()" for name, (kind, _) in self.states.items()], 1),
            fill=_indent([f"{name}s[c] = {kind}({value})" for name, (kind, value) in self.states.items()], 3),
            loads=_indent([f"{name} = {name}s[c]" for name in self.states], 4),
            steps=_indent(self.step(""), 4),
            stores=_indent([f"{name}s[c] = {name}" for name in self.states], 4),
        )


@cache
def _address(name: str, source: np.dtype, target: np.dtype, acc: np.dtype, columns: bool) -> int:
    if name.startswith("cumlogsumexp") and not columns:
        return kernel_address(*scan_exp.render(name, target))
    return kernel_address(*_Text(SCANS[name], source, target, acc).render(columns))


def _accumulator(source: np.dtype, target: np.dtype) -> np.dtype:
    if target.kind in "biu":
        return target
    return np.dtype(np.complex128 if target.kind == "c" else np.float64)


def _run(name: str, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], axis: int, reverse: bool) -> None:
    """Scan C-ordered arrays of one shape."""
    shape, source, target = inputs[0].shape, inputs[0].dtype, outputs[0].dtype
    n, after = shape[axis], math.prod(shape[axis + 1 :])
    before, sign = math.prod(shape[:axis]), -1 if reverse else 1
    acc = _accumulator(source, target)
    arrays = [*inputs, *outputs]
    if after > 1:
        address = _address(name, source, target, acc, True)
        operands = [(a, (n * after * a.itemsize,), 1) for a in arrays]
        jobs.run(address, after, (before,), operands, (n, after, sign), chunk=ABREAST, work=n)
    elif name == "cumsum" and before < TOGETHER and n >= 2 * TOGETHER * PIECE:
        for x, out in zip(*(a.reshape(before, n) for a in arrays), strict=True):
            _long_sum(x, out, acc, sign)
    else:
        _rows(name, [a.reshape(before, n) for a in arrays], n, before, sign, acc)


def _rows(name: str, arrays: Sequence[np.ndarray], n: int, rows: int, sign: int, acc: np.dtype) -> None:
    """Rows of (rows, n) arrays, as many together as go, then the rest."""
    address = _address(name, arrays[0].dtype, arrays[len(SCANS[name].inputs)].dtype, acc, False)
    whole = rows - rows % TOGETHER
    for first, together, groups in ((0, TOGETHER, whole // TOGETHER), (whole, rows - whole, 1)):
        if groups and together:
            operands: list[jobs.Operand] = [(a[first:], (together * n * a.itemsize,), 1) for a in arrays]
            if name == "cumsum":
                operands.append((np.zeros(1, acc), (0,), 0))
            jobs.run(address, n, (groups,), operands, (together, n, sign), work=4 * together)


def _long_sum(x: np.ndarray, out: np.ndarray, acc: np.dtype, sign: int) -> None:
    """One long row: sums of its pieces, where each piece starts, then all pieces at once."""
    n = x.size
    pieces, rest = divmod(n, PIECE)
    whole = pieces * PIECE
    totals = np.zeros(pieces + 2, acc)  # the sum of piece k, or of the rest, at k + 1
    totals[1:-1] = reduce_rows(SUM, x[:whole].reshape(pieces, PIECE), acc)
    if sign > 0:
        starts = np.cumsum(totals[:-1], dtype=acc)
    else:
        starts = np.zeros(pieces + 1, acc)
        totals[-1:] = reduce_rows(SUM, x[whole:].reshape(1, rest), acc)
        starts[:-1] = np.cumsum(totals[:1:-1], dtype=acc)[::-1]
    address = _address("cumsum", x.dtype, out.dtype, acc, False)
    groups = pieces // TOGETHER
    done = groups * TOGETHER
    for first, n, together, count in (
        (0, PIECE, TOGETHER, groups),
        (done, PIECE, pieces - done, 1),
        (pieces, rest, 1, 1),
    ):
        if n and together and count:
            operands: list[jobs.Operand] = [(a[first * PIECE :], (together * PIECE * a.itemsize,), 1) for a in (x, out)]
            operands.append((starts[first:], (together * acc.itemsize,), 1))
            jobs.run(address, n, (count,), operands, (together, PIECE, sign), work=2 * together)


def _better(shape: tuple[int, ...], axis: int) -> list[int] | None:
    """The order of axes in which vectors are long, if they would be short: of few columns, or of short rows."""
    n, after = shape[axis], math.prod(shape[axis + 1 :])
    others = [k for k in range(len(shape)) if k != axis]
    if 1 < after < FEW <= n:
        return [*others, axis]
    if after == 1 and 1 < n < FEW <= math.prod(shape[:axis]):
        return [axis, *others]
    return None


def _scan(name: str) -> Callable[..., Any]:
    scan = SCANS[name]

    def kernel(*inputs: np.ndarray, axis: int, reverse: bool = False, dtype: np.dtype | None = None) -> Any:
        arrays = [contiguous(x) for x in inputs]
        if arrays[0].dtype.kind == "b":
            arrays = [x.view(np.uint8) for x in arrays]
        target = arrays[0].dtype if dtype is None else dtype
        shape = inputs[0].shape
        if scan.name.startswith("cumlogsumexp") and (order := _better(shape, axis)) is not None:
            moved = [x.transpose(order) for x in arrays]
            found = kernel(*moved, axis=order.index(axis), reverse=reverse)
            back = [order.index(k) for k in range(len(shape))]
            parts = found if isinstance(found, tuple) else (found,)
            done = [contiguous(part.transpose(back)) for part in parts]
            return done[0] if len(done) == 1 else tuple(done)
        outputs = [pool.empty(shape, np.dtype(np.int64) if k == "place" else target) for k in scan.outputs]
        if outputs[0].size:
            _run(name, arrays, outputs, axis, reverse)
        if inputs[0].dtype.kind == "b" and dtype is None:
            outputs[0] = outputs[0].view(bool)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    kernel.__name__ = name
    return kernel


cumsum, cumprod, linear_recurrence = _scan("cumsum"), _scan("cumprod"), _scan("linear_recurrence")
cummax, cummin = _scan("cummax"), _scan("cummin")
cummax_routed, cummin_routed = _scan("cummax_routed"), _scan("cummin_routed")
cumlogsumexp, cumlogsumexp_weights = _scan("cumlogsumexp"), _scan("cumlogsumexp_weights")
