"""Texts of reductions: what a reduction carries along (its state), and one kernel for rows and one for columns.

A state is one to three numbers, each of a type that a warp can exchange. Both kernels read elements or the states of
an earlier launch, and write results or states, so that a long reduction is cut into pieces, and groups of axes that
are not neighbours are taken one after the other.
"""

# Checklist of docs/design/cuda.md: all 15 hold; no atomics; registers <= 32 (sm_90, float32), <= 54 (all).

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from numbagrad.kernels.cpu.reduce import ALL, ANY, MAX, MIN, PROD, SUM, Monoid
from numbagrad.kernels.cuda import sums
from numbagrad.kernels.cuda.copy import element_type
from numbagrad.kernels.cuda.kernel import Kernel, kernel, short, vector_width
from numbagrad.scalar.render import NAMES

MOST = 1024  # threads of a block at most


class State(NamedTuple):
    """What a reduction carries along. Texts: `take` says how the state s0, s1, ... takes in the elements {x} and {y}
    at the place {i} of the reduced axis, `result` what comes of it; `functions` are the device functions they call.
    """

    name: str
    operands: tuple[np.dtype, ...]
    parts: tuple[str, ...]
    start: tuple[str, ...]
    functions: str
    take: str
    result: str
    target: np.dtype

    @property
    def plain(self) -> bool:
        """Whether elements, states and results are the same thing, so that one kernel serves all."""
        t = element_type(self.target)
        return self.parts == (t,) == tuple(map(element_type, self.operands)) and self.result == f"{t}(s0)"


_MERGE = '''@cuda.jit(device=True)
def merge({arguments}):
    """Both together."""
    return {combined}
'''

# The first of equals; nan is above all, and the first nan counts.
_ARG = '''@cuda.jit(device=True)
def merge(s0, s1, o0, o1):
    """The better one of two (value, place)."""
    better = (o0 {sign} s0) | ((o0 != o0) & (s0 == s0))
    tied = (o0 == s0) | ((o0 != o0) & (s0 != s0))
    return (o0, o1) if better | (tied & (o1 < s1)) else (s0, s1)
'''

# Largest element, and the sum of exponentials relative to it. A nan is never the largest: it shows in the sum.
_EXPONENTIALS = '''@cuda.jit(device=True)
def include({state}, v):
    """The state with the element v: one exponential, whichever is larger."""
    same = v == s0
    e = {T}(1) if same else math.exp(-abs({T}(v - s0)))
    if v > s0:
        {sums} = add({scaled}, {T}(1))
        return v, {sums}
    {sums} = add({sums}, {T}(0) if same and v == {T}(-math.inf) else e)
    return s0, {sums}


@cuda.jit(device=True)
def merge({state}, {other}):
    """Both relative to the larger of their largest elements."""
    largest = o0 if o0 > s0 else s0
    e = {T}(1) if s0 == largest else math.exp({T}(s0 - largest))
    {sums} = {scaled}
    e = {T}(1) if o0 == largest else math.exp({T}(o0 - largest))
    {sums} = combine({sums}, {other_scaled})
    return largest, {sums}


@cuda.jit(device=True)
def logarithm({sums}):
    """log of the sum: what rounding left over counts where the sum is close to 1."""
    return {log}
'''


def carrier(dtype: np.dtype) -> str:
    """The type in which a number is carried along: warps exchange 32 or 64 bits."""
    return "int32" if dtype.kind in "biu" and dtype.itemsize < 4 else dtype.name


def _extreme(name: str, dtype: np.dtype) -> str:
    if dtype.kind == "f":
        return f"{dtype.name}({'-' if name == 'lowest' else ''}math.inf)"
    limits = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return f"{carrier(dtype)}({limits[name == 'highest']})"


def _numbers(monoid: Monoid, source: np.dtype, target: np.dtype) -> np.dtype:
    """Type of a sum's or product's state: the target's, floating numbers no narrower than they come.

    Products of float32 are taken in float64: no pair of float32 has its range, without which 1e30 * 1e30 * 1e-30 would
    be inf. One conversion and one multiplication an element hide behind its way from memory.
    """
    if source.kind in "biu" and target.kind in "biu":
        return target
    found = np.result_type(source, target) if source.kind in "fc" else target
    if monoid is PROD:
        return np.dtype(np.complex128 if found.kind == "c" else np.float64)
    return found


@cache
def state(monoid: Monoid, source: np.dtype, target: np.dtype) -> State:
    """The state of a reduction of real or complex elements (sums of complex numbers are taken by halves)."""
    name = f"{monoid.name}_{NAMES[source.name]}_{NAMES[target.name]}"
    if monoid in (ANY, ALL):
        zero = f"{element_type(source)}(0)"
        value = "{x} != " + zero
        if source.kind == "c":
            half = f"float{source.itemsize * 4}(0)"
            value = f"({{x}}.real != {half}) | ({{x}}.imag != {half})"
        return _single(name, monoid, source, target, "uint32", f"uint32({monoid.start})", f"uint32({value})")
    if monoid in (MAX, MIN):
        t = carrier(source)
        return _single(name, monoid, source, target, t, _extreme(monoid.start, source), f"{t}({{x}})")
    kind = _numbers(monoid, source, target)
    if kind.kind == "c":
        return _complex_product(name, source, target)
    t = carrier(kind)
    if monoid is SUM and kind == np.float32:
        take, result = "add(s0, s1, float32({x}))", f"{element_type(target)}(total(s0, s1))"
        zero = "float32(0)"
        return State(name, (source,), (t, t), (zero, zero), sums.text(kind), take, result, target)
    return _single(name, monoid, source, target, t, f"{t}({monoid.start})", f"{t}({{x}})")


def _single(name: str, monoid: Monoid, source: np.dtype, target: np.dtype, t: str, start: str, value: str) -> State:
    functions = _MERGE.format(arguments="a, v", combined=f"{t}({monoid.combine})")
    result = f"{element_type(target)}(s0)"
    return State(name, (source,), (t,), (start,), functions, f"merge(s0, {value})", result, target)


def _complex_product(name: str, source: np.dtype, target: np.dtype) -> State:
    functions = _MERGE.format(arguments="s0, s1, o0, o1", combined="s0 * o0 - s1 * o1, s0 * o1 + s1 * o0")
    take = "merge(s0, s1, float64({x}.real), float64({x}.imag))"
    start = ("float64(1)", "float64(0)")
    return State(name, (source,), ("float64",) * 2, start, functions, take, f"{target.name}(complex(s0, s1))", target)


@cache
def arg_state(monoid: Monoid, source: np.dtype, index: str) -> State:
    """The state of argmax (of MAX) or argmin: the value and its place, in a signed type wide enough."""
    place = "int32" if index == "uint32" else "int64"
    t = carrier(source)
    functions = _ARG.format(sign=">" if monoid is MAX else "<")
    name = f"arg{monoid.name}_{NAMES[source.name]}" + ("" if index == "uint32" else "_large")
    start = (_extreme(monoid.start, source), f"{place}({np.iinfo(place).max})")
    take = f"merge(s0, s1, {t}({{x}}), {place}({{i}}))"
    return State(name, (source,), (t, place), start, functions, take, "int64(s1)", np.dtype(np.int64))


@cache
def exponential_state(dtype: np.dtype) -> State:
    """The state of logsumexp: the largest element, and the sum of exponentials relative to it."""
    t, pair = dtype.name, dtype == np.float32
    parts = ("s1, s2", "s1 * e, s2 * e", "o1 * e, o2 * e") if pair else ("s1", "s1 * e", "o1 * e")
    addition = sums.text(dtype).replace("def merge(", "def combine(") if pair else _single_sum(t)
    log = "math.log(s1) + (s2 / s1 if s1 > float32(0) else s2)" if pair else "math.log(s1)"
    functions = addition + "\n\n" + _EXPONENTIALS.format(
        T=t, sums=parts[0], scaled=parts[1], other_scaled=parts[2], log=log,
        state="s0, " + parts[0], other="o0, " + parts[0].replace("s", "o"),
    )  # fmt: skip
    start = (_extreme("lowest", dtype), *[f"{t}(0)"] * (1 + pair))
    name = f"logsumexp_{NAMES[t]}"
    state = "s0, " + parts[0]
    result = f"{t}(s0 + logarithm({parts[0]}))"
    return State(name, (dtype,), (t,) * (2 + pair), start, functions, f"include({state}, {{x}})", result, dtype)


def _single_sum(t: str) -> str:
    return "\n\n".join(
        f'@cuda.jit(device=True)\ndef {name}(a, v):\n    """The sum."""\n    return {t}(a + v)\n'
        for name in ("add", "combine")
    )


# --- kernels

_HEADER = '''"""{name}: {operands} to {target}, {form}.

Read: {reads}; written: {writes}.
"""

{imports}


{functions}

'''

_ROWS = """@cuda.jit
def {name}({pointers}, tasks, n, pieces, size, lane_bits{shift}):
{shared}
    thread = uint32(cuda.threadIdx.x)
    lanes = uint32(uint32(1) << lane_bits)
    lane = uint32(thread & uint32(lanes - 1))
    task = {I}({I}({I}(cuda.blockIdx.x) * {I}(cuda.blockDim.x >> lane_bits)) + {I}(thread >> lane_bits))
{start}
    if task < tasks:
        row = {I}(task // pieces)
        first = {I}({I}(task - {I}(row * pieces)) * size)
        count = {I}(min({I}(n - first), size))
        base = {I}({I}(row * n) + first)
{loop}
    # lanes at a distance of d, then the warps of a row
    d = uint32(uint32(min(lanes, uint32(32))) >> 1)
    while d > 0:
{shuffles}
        {state} = merge({state}, {other})
        d = uint32(d >> 1)
    if lanes > 32:
        warp = uint32(thread >> 5)
        if uint32(thread & 31) == 0:
{to_shared}
        cuda.syncthreads()
        if lane == 0:
            k = uint32(1)
            while k < uint32(lanes >> 5):
                {state} = merge({state}, {from_shared})
                k = uint32(k + 1)
    if lane == 0 and task < tasks:
{write}
"""

_COLUMNS = """@cuda.jit
def {name}({pointers}, results, n, inner, pieces, size):
{shared}
    column, lane = uint32(cuda.threadIdx.x), uint32(cuda.threadIdx.y)
    across, lanes = uint32(cuda.blockDim.x), uint32(cuda.blockDim.y)
    thread = uint32(uint32(lane * across) + column)
    at = {I}({I}({I}(cuda.blockIdx.x) * across) + column)
    piece = {I}(cuda.blockIdx.y)
    outer = {I}(at // inner)
    place = {I}(at - {I}(outer * inner))
{start}
    if at < results:
        first = {I}(piece * size)
        last = {I}(first + {I}(min({I}(n - first), size)))
        r = {I}(first + lane)
        j0 = {I}({I}({I}({I}(outer * n) + r) * inner) + place)
        step = {I}(lanes * inner)
        while {I}(r + {I}({unroll_1} * lanes)) < last:
{loads}
{takes}
            r = {I}(r + {I}({unroll} * lanes))
            j0 = {I}(j0 + {I}({unroll} * step))
        while r < last:
            {take_one}
            r = {I}(r + lanes)
            j0 = {I}(j0 + step)
    if lanes > 1:
{to_shared}
        d = uint32(lanes >> 1)
        while d > 0:
            cuda.syncthreads()
            if lane < d:
                k = uint32(thread + uint32(d * across))
                {state} = merge({state}, {from_shared})
{to_shared_deeper}
            d = uint32(d >> 1)
    if lane == 0 and at < results:
        task = {I}({I}({I}({I}(outer * pieces) + piece) * inner) + place)
{write}
"""

_NAMES = re.compile(r"\b(cuda|u?int(?:8|16|32|64)|float(?:32|64)|complex(?:64|128)|(?:load|store)[24])\b")


def imports(code: str) -> str:
    """Import lines for a kernel's text."""
    names = sorted(set(_NAMES.findall(re.sub(r'"{3}(?s:.*?)"{3}|#.*', "", code))))
    head = "import math\n\n" if "math." in code else ""
    return f"{head}from numbagrad.kernels.cuda.frontend import {', '.join(names)}"


def exchange(way: str, t: str, to: str, value: str, d: str) -> str:
    """The line of a warp's exchange of numbers of a type: unsigned ones go as signed ones."""
    bare = f"cuda.shfl_{way}_sync(0xFFFFFFFF, {t.removeprefix('u')}({value}), {d})"
    return f"{to} = {t}({bare})" if t[0] == "u" else f"{to} = {bare.replace(f'{t}({value})', value)}"


def _indent(lines: Sequence[str], depth: int) -> str:
    return "\n".join(" " * depth + line for line in lines)


class _Reading:
    """How a kernel takes in elements, or the states of an earlier launch."""

    def __init__(self, s: State, states: bool) -> None:
        count = len(s.parts)
        self.state = ", ".join(f"s{k}" for k in range(count))
        self.names = [f"p{k}" for k in range(count)] if states else ["x", "y"][: len(s.operands)]
        self.kinds = list(s.parts) if states else [element_type(d) for d in s.operands]
        self.text = f"merge({self.state}, {', '.join('{' + n + '}' for n in self.names)})" if states else s.take
        self.places = "{i}" in self.text
        self.width = 1 if states or len(self.names) > 1 else vector_width(s.operands)
        narrow = max(np.dtype(k).itemsize for k in self.kinds)
        self.unroll = (
            2 if self.width * narrow * len(self.names) >= 16 else 4
        )  # of some 32 bytes on their way to each thread

    def take(self, values: Sequence[str], place: str) -> str:
        """The line that takes in one element."""
        fields = dict(zip(self.names, values, strict=True))
        return f"{self.state} = {self.text.format(**fields, i=place)}"

    def at(self, place: str) -> list[str]:
        return [f"{n}[{place}]" for n in self.names]


def _row_loop(reading: _Reading, index: str) -> list[str]:
    """Groups of `width` neighbours, dealt out to the lanes. Where a group does not lie at a multiple of its size,
    its elements are read one by one, in the same order: a result depends on no address."""
    w, unroll, lines = reading.width, reading.unroll, []
    lines.append(f"groups = {index}(count // {w})" if w > 1 else "groups = count")
    if w > 1:
        lines.append(f"whole = {index}({index}(base + shift) & {w - 1}) == 0")
    lines.append(f"g = {index}(lane)")
    for many in (unroll, 1):
        ahead = f"{index}(g + {index}({many - 1} * lanes))" if many > 1 else "g"
        lines.append(f"while {ahead} < groups:")
        inside = [f"i0 = {index}({w} * g)" if w > 1 else "i0 = g"]
        inside += [f"i{k} = {index}(i{k - 1} + {index}({w} * lanes))" for k in range(1, many)]
        inside += [f"j{k} = {index}(base + i{k})" for k in range(many)]
        if w > 1:
            inside.append("if whole:")
            inside += [f"    v{k} = load{w}(x, j{k})" for k in range(many)]
            inside.append("else:")
            for k in range(many):
                items = ", ".join(f"x[j{k} + {e}]" if e else f"x[j{k}]" for e in range(w))
                inside.append(f"    v{k} = ({items})")
            for k in range(many):
                inside += [reading.take([f"v{k}[{e}]"], f"first + i{k} + {e}") for e in range(w)]
        else:
            inside += [f"{n}{k} = {n}[j{k}]" for k in range(many) for n in reading.names]
            inside += [reading.take([f"{n}{k}" for n in reading.names], f"first + i{k}") for k in range(many)]
        inside.append(f"g = {index}(g + {index}({many} * lanes))" if many > 1 else f"g = {index}(g + lanes)")
        lines += [f"    {line}" for line in inside]
    if w > 1:
        lines += [f"i0 = {index}({index}({w} * groups) + lane)", "while i0 < count:"]
        lines += [f"    {reading.take(['x[base + i0]'], 'first + i0')}", f"    i0 = {index}(i0 + lanes)"]
    return lines


@cache
def reduction(s: State, columns: bool, from_states: bool, to_states: bool, index: str) -> Kernel:
    """The kernel of rows or columns: from elements or states, to results or states."""
    if s.plain:
        from_states = to_states = False
    reading = _Reading(s, from_states)
    count = len(s.parts)
    shared = MOST if columns else MOST // 32
    outputs = [f"q{k}" for k in range(count)] if to_states else ["out"]
    targets = list(s.parts) if to_states else [element_type(s.target)]
    written = [f"{q}[task] = s{k}" for k, q in enumerate(outputs)] if to_states else [f"out[task] = {s.result}"]
    vectors = reading.width > 1 and not columns
    where = "thread" if columns else "warp"
    to_shared = [f"shared{k}[{where}] = s{k}" for k in range(count)]
    name = f"{s.name}_{'columns' if columns else 'rows'}"
    name += ("_from_states" if from_states else "") + ("_to_states" if to_states else "")
    name += "" if index == "uint32" else "_large_sizes"
    fields: dict[str, Any] = dict(
        name=name,
        I=index,
        pointers=", ".join([*reading.names, *outputs]),
        shift=", shift" if vectors else "",
        shared=_indent([f"shared{k} = cuda.shared.array({shared}, {t})" for k, t in enumerate(s.parts)], 4),
        start=_indent([f"s{k} = {text}" for k, text in enumerate(s.start)], 4),
        state=reading.state,
        other=", ".join(f"o{k}" for k in range(count)),
        shuffles=_indent([exchange("down", t, f"o{k}", f"s{k}", "d") for k, t in enumerate(s.parts)], 8),
        from_shared=", ".join(f"shared{k}[{'k' if columns else 'warp + k'}]" for k in range(count)),
        to_shared=_indent(to_shared, 8 if columns else 12),
        to_shared_deeper=_indent(to_shared, 16),
        write=_indent(written, 8),
    )
    if columns:
        fields |= _column_fields(reading, index)
    else:
        fields["loop"] = _indent(_row_loop(reading, index), 8)
    code = (_COLUMNS if columns else _ROWS).format(**fields)
    head = _HEADER.format(
        name=s.name,
        operands=", ".join(d.name for d in s.operands),
        target=s.target.name,
        form="the middle axis of (outer, n, inner)" if columns else "the last axis of (rows, n)",
        reads="states" if from_states else "elements",
        writes="states" if to_states else "results",
        imports=imports(s.functions + code),
        functions=s.functions,
    )
    numbers = 5 + vectors
    kinds = [f"{NAMES[t]}*" for t in (*reading.kinds, *targets)]
    return kernel(name, head + code, [*kinds, *[short(index)] * numbers])


def _column_fields(reading: _Reading, index: str) -> dict[str, Any]:
    unroll = 8 if max(np.dtype(k).itemsize for k in reading.kinds) < 4 else 4
    loads, takes = [], []
    for k in range(unroll):
        if k:
            loads.append(f"j{k} = {index}(j{k - 1} + step)")
    for k in range(unroll):
        loads += [f"{n}{k} = {n}[j{k}]" for n in reading.names]
        takes.append(reading.take([f"{n}{k}" for n in reading.names], f"r + {k} * lanes" if k else "r"))
    return dict(
        loads=_indent(loads, 12),
        takes=_indent(takes, 12),
        take_one=reading.take(reading.at("j0"), "r"),
        unroll=unroll,
        unroll_1=unroll - 1,
    )
