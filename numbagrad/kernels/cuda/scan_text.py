"""Texts of the kernels that scan rows and columns, the same for all scans of scan_state.py."""

# Checklist of docs/design/cuda.md: walked together with scan.py, which says the result.

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from numbagrad.kernels.cuda import sums
from numbagrad.kernels.cuda.copy import element_type
from numbagrad.kernels.cuda.kernel import THREADS, Kernel, kernel, short
from numbagrad.kernels.cuda.scan_state import scan_of
from numbagrad.scalar.render import NAMES

TOGETHER = 4  # elements of a column that are on their way at once
TILE_BYTES = 20 * 1024  # of shared memory for the elements of a block: ten blocks fit on a multiprocessor

_FUNCTIONS = '''
@cuda.jit(device=True)
def start():
    """The state of nothing."""
    return ({starts},)


@cuda.jit(device=True)
def step(s, {inputs}, p):
    """The state with one more element, at place p."""
{step}


@cuda.jit(device=True)
def join(a, b):
    """The state of two neighbouring parts."""
{join}


@cuda.jit(device=True)
def emit(a, b, {inputs}):
    """What is stored of an element, from the states before and after it."""
{emit}

'''

_ACROSS = '''
@cuda.jit(device=True)
def across(own, t, group, {kept}):
    """The states of all before this thread in its group of threads, and of the whole group. Two barriers."""
    lane, warp = uint32(t % 32), uint32(t // 32)
    place = uint32(lane & uint32(group - 1))
    d = uint32(1)
    while d < min(group, uint32(32)):
        other = ({up},)
        if place >= d:
            own = join(other, own)
        d = uint32(2 * d)
    d = uint32(1)
    before = ({up},)
    if place == 0:
        before = start()
    if lane == 31:
{keep}
    cuda.syncthreads()
    whole = start()
    warps = uint32(group // 32)
    if warps > 1:  # the same among the warps of a group; every warp does it for itself
        w = uint32(lane % {warps})
        own = ({kept_w},)
        d = uint32(1)
        while d < warps:
            other = ({up},)
            if uint32(w & uint32(warps - 1)) >= d:
                own = join(other, own)
            d = uint32(2 * d)
        d = uint32(max(warp, uint32(1)) - 1)
        other = ({at},)
        if uint32(warp & uint32(warps - 1)) != 0:
            before = join(other, before)
        d = uint32(warp | uint32(warps - 1))
        whole = ({at},)
    cuda.syncthreads()
    return before, whole

'''

_ROWS = """
@cuda.jit
def {name}({pointers}rows, n, shift, pieces, piece, reverse):
{shared}    t = uint32(cuda.threadIdx.x)
    group = uint32(1 << shift)
    wide = uint32({items} << shift)  # elements of a row at a time
    block = {I}(cuda.blockIdx.x)
    part = {I}(block % pieces)
    row = {I}({I}(block // pieces) * uint32({threads} >> shift))
    first = {I}(part * piece)
    last = {I}(min({I}(first + piece), n))
    carry = start()
{earlier}    done = first
    while done < last:
        for k in range({items}):
            e = uint32(t + {threads} * k)
            r, i = {I}(row + uint32(e >> uint32(shift + {log}))), {I}(done + uint32(e & uint32(wide - 1)))
            at = {I}({I}(r * n) + ({I}({I}(n - 1) - i) if reverse != 0 else i))
            inside = r < rows and i < last
{load}
        for k in range({items}):
            e = uint32(t + {threads} * k)
            slot = uint32(e + uint32(e // 32))
{put}
        cuda.syncthreads()
        begin = {I}(done + uint32({items} * uint32(t & uint32(group - 1))))
        stop = {I}(min({I}(begin + {items}), last))
        i, slot = begin, uint32(uint32({items} * t) + uint32(uint32({items} * t) // 32))
        own = start()
        for k in range({items}):  # unrolled, with conditions: a loop of its own length takes more registers
            if i < stop:
                p = {I}({I}(n - 1) - i) if reverse != 0 else i
                own = step(own, {values}, p)
            i, slot = {I}(i + 1), uint32(slot + 1)
        before, whole = across(own, t, group, {kept})
{final}        carry = join(carry, whole)
        done = {I}(done + wide)
{end}"""

_FINAL = """        s = join(carry, before)
        i, slot = begin, uint32(uint32({items} * t) + uint32(uint32({items} * t) // 32))
        for k in range({items}):
            if i < stop:
                p = {I}({I}(n - 1) - i) if reverse != 0 else i
                after = step(s, {values}, p)
                found = emit(s, after, {values})
{keep}
                s = after
            i, slot = {I}(i + 1), uint32(slot + 1)
        cuda.syncthreads()
        for k in range({items}):
            e = uint32(t + {threads} * k)
            r, i = {I}(row + uint32(e >> uint32(shift + {log}))), {I}(done + uint32(e & uint32(wide - 1)))
            if r < rows and i < last:
                at = {I}({I}(r * n) + ({I}({I}(n - 1) - i) if reverse != 0 else i))
                slot = uint32(e + uint32(e // 32))
{store}
"""

_EARLIER_ROWS = """    if part != 0:  # the states of the pieces before, a run of them for every thread
        each = {I}({I}({I}(part + {threads}) - 1) // {threads})
        i = {I}(t * each)
        stop = {I}(min({I}(i + each), part))
        own = start()
        while i < stop:
            at = {I}({I}(row * pieces) + i)
            own = join(own, ({totals},))
            i = {I}(i + 1)
        before, carry = across(own, t, uint32({threads}), {kept})
"""

_COLUMNS = """
@cuda.jit
def {name}({pointers}count, n, after, pieces, piece, reverse):
    i = {I}({I}({I}(cuda.blockIdx.x) * {threads}) + {I}(cuda.threadIdx.x))
    if i >= count:
        return
    column, line = {I}(i % after), {I}(i // after)
    part, line = {I}(line % pieces), {I}(line // pieces)
    base = {I}({I}({I}(line * n) * after) + column)
    first = {I}(part * piece)
    last = {I}(min({I}(first + piece), n))
    s = start()
{earlier}    i = first
    while {I}(i + {more}) < last:  # {together} elements on their way at once
{load_all}
{steps_all}
        i = {I}(i + {together})
    while i < last:
{load_one}
{steps_one}
        i = {I}(i + 1)
{end}"""

_EARLIER_COLUMNS = """    i = {I}(0)
    while i < part:  # the states of the pieces before
        at = {I}({I}({I}({I}(line * pieces) + i) * after) + column)
        s = join(s, ({totals},))
        i = {I}(i + 1)
"""

WHOLE, TOTALS, PIECES = "", "_totals", "_pieces"  # one pass; of two passes the first and the second


def shuffled(how: str, value: str, dtype: str) -> str:
    """Text: the value that another thread has: `how` with d. Warps exchange signed integers and floats."""
    found = np.dtype(dtype)
    if found.kind == "c":
        halves = ", ".join(f"cuda.{how}(0xFFFFFFFF, {value}.{p}, d)" for p in ("real", "imag"))
        return f"{dtype}(complex({halves}))"
    if found.kind == "f" or dtype in ("int32", "int64"):
        return f"cuda.{how}(0xFFFFFFFF, {value}, d)"
    wide = "int64" if found.itemsize == 8 else "int32"
    return f"{dtype}(cuda.{how}(0xFFFFFFFF, {wide}({value}), d))"


def items_of(name: str, dtype: np.dtype) -> int:
    """Elements of a thread at a time."""
    scan = scan_of(name, dtype)
    held = dtype.itemsize * max(len(scan.inputs), len(scan.outputs)) * THREADS
    return max(2, min(4, 1 << (TILE_BYTES // held).bit_length() - 1))


class _Text:
    """A kernel's text."""

    def __init__(self, name: str, source: np.dtype, dtype: np.dtype, index: str, mode: str) -> None:
        self.scan = scan_of(name, dtype)
        self.title, self.mode, self.source, self.dtype = name, mode, source, dtype
        self.limit = 1 << 28  # of exponents: sums of three stay below 2**31
        self.fields: dict[str, Any] = dict(T=element_type(dtype), I=index, threads=THREADS)
        self.words = [(t.format(**self.fields), s) for t, s in self.scan.words]
        self.place = {k: index if k == "place" else element_type(dtype) for k in self.scan.outputs}

    def functions(self) -> str:
        scan, fields = self.scan, dict(self.fields, limit=self.limit)
        helpers = [sums.text(self.dtype)] if scan.sums else []
        helpers += [h.format(**fields) for h in scan.helpers]
        own = _FUNCTIONS.format(
            starts=", ".join(f"{t}({s})" for t, s in self.words),
            inputs=", ".join(scan.inputs),
            step=scan.step.format(**fields),
            join=scan.join.format(**fields),
            emit=scan.emit.format(**fields),
        )
        return "\n\n".join(["", *helpers]) + "\n" + own

    def pointers(self) -> tuple[str, list[str]]:
        """Parameters that are pointers, and their types."""
        kinds = dict.fromkeys(self.scan.inputs, self.source.name)
        if self.mode != TOTALS:
            kinds |= {k: "int64" if k == "place" else self.dtype.name for k in self.scan.outputs}
        if self.mode != WHOLE:
            kinds |= {f"total{k}": t for k, (t, _) in enumerate(self.words)}
        return "".join(f"{k}, " for k in kinds), [f"{NAMES[t]}*" for t in kinds.values()]

    def totals(self) -> str:
        return ", ".join(f"total{k}[at]" for k in range(len(self.words)))

    def exchanged(self, how: str) -> str:
        return ", ".join(shuffled(how, f"own[{k}]", kind) for k, (kind, _) in enumerate(self.words))

    def store_totals(self, value: str, depth: int) -> str:
        return "".join(f"{' ' * depth}total{k}[at] = {value}[{k}]\n" for k in range(len(self.words)))

    def wrap(self, title: str, name: str, text: str, counts: int) -> Kernel:
        _, kinds = self.pointers()
        names = {"cuda", "uint32", "int32", self.fields["I"], self.fields["T"], *(t for t, _ in self.words)}
        head = f'"""{self.title} of {self.source.name}, {self.dtype.name}: {title}."""\n\nimport math\n\n'
        head += f"from numbagrad.kernels.cuda.frontend import {', '.join(sorted(names | {'int64'}))}\n"
        return kernel(name, head + text, [*kinds, *[short(self.fields["I"])] * (counts - 1), "u32"])

    def name(self, shape: str) -> str:
        types = "_".join(dict.fromkeys((NAMES[self.source.name], NAMES[self.dtype.name])))
        return f"{self.title}_{shape}{self.mode}_{types}{'' if self.fields['I'] == 'uint32' else '_large'}"

    def rows(self, items: int) -> Kernel:
        scan, words = self.scan, self.words
        size, t = THREADS * items * 33 // 32, self.fields["T"]
        tiles = {f"{k}_tile": t for k in scan.inputs}
        slots = [f"{k}_tile" for k in scan.inputs]  # outputs take the place of inputs of their type
        for k in scan.outputs[1:] if self.mode != TOTALS else ():
            tiles[f"{k}_tile"] = self.place[k]
        slots = [slots[0], *(f"{k}_tile" for k in scan.outputs[1:])]
        shared = [f"{k} = cuda.shared.array({size}, {kind})" for k, kind in tiles.items()]
        shared += [f"kept{k} = cuda.shared.array({THREADS // 32}, {kind})" for k, (kind, _) in enumerate(words)]
        shared += [f"{k}_next = cuda.local.array({items}, {t})" for k in scan.inputs]
        kept = ", ".join(f"kept{k}" for k in range(len(words)))
        values = ", ".join(f"{k}_tile[slot]" for k in scan.inputs)
        fields = dict(
            self.fields, items=items, log=items.bit_length() - 1, values=values, kept=kept, totals=self.totals()
        )
        across = _ACROSS.format(
            kept=kept,
            up=self.exchanged("shfl_up_sync"),
            at=self.exchanged("shfl_sync"),
            warps=THREADS // 32,
            keep="\n".join(f"        kept{k}[warp] = own[{k}]" for k in range(len(words))),
            kept_w=", ".join(f"kept{k}[w]" for k in range(len(words))),
        )
        final = end = ""
        if self.mode == TOTALS:
            end = "    if t == 0:\n        at = {I}({I}(row * pieces) + part)\n".format(**fields)
            end += self.store_totals("carry", 8)
        else:
            final = _FINAL.format(
                **fields,
                keep="\n".join(f"{' ' * 16}{slot}[slot] = found[{k}]" for k, slot in enumerate(slots)),
                store="\n".join(
                    f"{' ' * 16}{k}[at] = {'int64(' if k == 'place' else '('}{slot}[slot])"
                    for k, slot in zip(scan.outputs, slots, strict=True)
                ),
            )
        name = self.name("rows")
        text = _ROWS.format(
            name=name,
            pointers=self.pointers()[0],
            shared="".join(f"    {line}\n" for line in shared),
            earlier=_EARLIER_ROWS.format(**fields) if self.mode == PIECES else "",
            load="\n".join(f"            {k}_next[k] = {t}({k}[at]) if inside else {t}(0)" for k in scan.inputs),
            put="\n".join(f"            {k}_tile[slot] = {k}_next[k]" for k in scan.inputs),
            final=final,
            end=end,
            **fields,
        )
        return self.wrap("rows", name, self.functions() + across + "\n" + text, 6)

    def columns(self) -> Kernel:
        scan, fields, t = self.scan, dict(self.fields, totals=self.totals()), self.fields["T"]

        def load(k: int) -> list[str]:
            place = "i" if k == 0 else "{I}(i + {k})".format(k=k, **self.fields)
            lines = [
                f"p{k} = {place}",
                f"p{k} = {{I}}({{I}}(n - 1) - p{k}) if reverse != 0 else p{k}".format(**self.fields),
                f"at{k} = {{I}}(base + {{I}}(p{k} * after))".format(**self.fields),
            ]
            return [*lines, *(f"{v}{k} = {t}({v}[at{k}])" for v in scan.inputs)]

        def steps(k: int) -> list[str]:
            values = ", ".join(f"{v}{k}" for v in scan.inputs)
            lines = [f"b = step(s, {values}, p{k})"]
            if self.mode != TOTALS:
                lines.append(f"found = emit(s, b, {values})")
                for j, o in enumerate(scan.outputs):
                    lines.append(f"{o}[at{k}] = " + (f"int64(found[{j}])" if o == "place" else f"found[{j}]"))
            return [*lines, "s = b"]

        def text(lines: Sequence[str]) -> str:
            return "\n".join(f"        {line}" for line in lines)

        end = ""
        if self.mode == TOTALS:
            end = "    at = {I}({I}({I}({I}(line * pieces) + part) * after) + column)\n".format(**fields)
            end += self.store_totals("s", 4)
        name = self.name("columns")
        code = _COLUMNS.format(
            name=name,
            pointers=self.pointers()[0],
            earlier=_EARLIER_COLUMNS.format(**fields) if self.mode == PIECES else "",
            more=TOGETHER - 1,
            together=TOGETHER,
            load_all=text([line for k in range(TOGETHER) for line in load(k)]),
            steps_all=text([line for k in range(TOGETHER) for line in steps(k)]),
            load_one=text(load(0)),
            steps_one=text(steps(0)),
            end=end,
            **fields,
        )
        return self.wrap("columns", name, self.functions() + "\n" + code, 6)


@cache
def rows_kernel(name: str, source: np.dtype, dtype: np.dtype, index: str, mode: str) -> Kernel:
    """The scan along rows by groups of threads; `mode` is WHOLE, TOTALS or PIECES."""
    return _Text(name, source, dtype, index, mode).rows(items_of(name, dtype))


@cache
def columns_kernel(name: str, source: np.dtype, dtype: np.dtype, index: str, mode: str) -> Kernel:
    """The scan along columns by single threads."""
    return _Text(name, source, dtype, index, mode).columns()


@cache
def word_types(name: str, dtype: np.dtype, index: str) -> tuple[np.dtype, ...]:
    """Types of the words of a state."""
    return tuple(np.dtype(t.format(T=element_type(dtype), I=index)) for t, _ in scan_of(name, dtype).words)
