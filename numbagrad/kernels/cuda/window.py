"""Reductions over sliding windows, and the adjoint of their sum.

One thread an output, which loops over the taps that read an element; consecutive threads own neighbours of the last
axis. Long windows with few outputs: several threads share one's taps and merge what they found. The adjoint gathers,
with the roles of positions and sources exchanged, so there is nothing to add atomically.
"""

# Checklist of docs/design/cuda.md: all 15 hold; no atomics; shared memory <= 8 KB (16 for complex128); registers <= 30,
# of the int64 twins <= 64 (sm_80, sm_90).

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from numbagrad.kernels.cpu.taps import relation
from numbagrad.kernels.cpu.window import _identity as identity_text
from numbagrad.kernels.cuda import conv_axes, sums
from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.copy import contiguous, element_type
from numbagrad.kernels.cuda.kernel import THREADS, Kernel, blocks, kernel, short
from numbagrad.kernels.cuda.places import division, quotient_text
from numbagrad.scalar.render import NAMES

LONG, SHARE = 64, 8  # taps from which on threads share them, and how many at least each takes,
ENOUGH = 1 << 17  # unless there are as many outputs: half of what an H200 keeps in flight
COALESCED = 32  # neighbouring channels that one access should bring

_HEADER = '''"""Window {kind} of {T}{what}."""

import numpy as np
from numbagrad.kernels.cuda.frontend import {names}


'''

_THREAD = """
@cuda.jit
def {name}({parameters}):
    i = {I}(cuda.grid(1))
    if i < n:
{apart}
{start}
{loops}
{store}
"""

_SHARED = """
@cuda.jit
def {name}({parameters}):
{shared}
    me = uint32(cuda.threadIdx.x)
    lane = {I}(me >> shift)  # of the threads that share an output
    lanes = {I}({threads} >> shift)
    i = {I}({I}({I}(cuda.blockIdx.x) << shift) + {I}(me & uint32((1 << shift) - 1)))
{start}
    if i < n:
{apart}
        each = lane
        while each < taps:
{picked}
            each = {I}(each + lanes)
{put}
    cuda.syncthreads()
    # a tree over the lanes: those of one output lie 1 << shift apart
    half = uint32({half})
    while half >= uint32(1 << shift):
        if me < half:
            other = uint32(me + half)
{merge}
        cuda.syncthreads()
        half = uint32(half >> 1)
    if lane == 0 and i < n:
{get}
{store}
"""


def _indent(lines: list[str], depth: int) -> str:
    return "\n".join(" " * 4 * depth + line for line in lines)


class _Words:
    """What a text says of a kind of reduction for its type and index."""

    def __init__(self, kind: str, dtype: np.dtype, routed: bool, index: str) -> None:
        self.kind, self.routed, self.index = kind, routed, index
        self.type = t = element_type(dtype)
        self.sum = kind == "sum"
        self.floating = dtype.kind == "f"
        bottom = identity_text(kind, dtype if dtype.kind != "b" else np.dtype(np.uint8))
        # bytes that are bools: of padding only, the identity of "min" is True
        self.identity = f"{t}({1 if dtype.kind == 'b' and kind == 'min' else bottom})"
        self.none = f"{index}({0xFFFFFFFF if index == 'uint32' else 2**63 - 1})"  # beyond every place

    def better(self, a: str, v: str) -> str:
        sign = ">" if self.kind == "max" else "<"
        return f"{a} == {a} and ({v} {sign} {a} or {v} != {v})" if self.floating else f"{v} {sign} {a}"

    def start(self) -> list[str]:
        if self.sum:
            return [f"high, low = {self.type}(0), {self.type}(0)"]
        return [f"best = {self.identity}", *([f"route = {self.none}"] if self.routed else [])]

    def take(self) -> list[str]:
        """One element more."""
        at = f"x[{self.index}({self.index}({self.index}(base + place) * channels) + channel)]"
        if self.sum:
            return [f"high, low = add(high, low, {at})"]
        if not self.routed:
            return [f"v = {at}", f"if {self.better('best', 'v')}:", "    best = v"]
        # an element equal to the identity still wins an empty place: its route is its own
        wins = f"route == {self.none} or ({self.better('best', 'v')})"
        return [f"v = {at}", f"if {wins}:", "    best, route = v, place"]

    def shared(self) -> list[str]:
        types = {"routes": self.index}
        return [
            f"{array} = cuda.shared.array({THREADS}, {types.get(array, self.type)})" for _, array in self.variables()
        ]

    def variables(self) -> list[tuple[str, str]]:
        if self.sum:
            return [("high", "highs"), ("low", "lows")]
        return [("best", "bests"), *([("route", "routes")] if self.routed else [])]

    def put(self) -> list[str]:
        return [f"{array}[me] = {name}" for name, array in self.variables()]

    def get(self) -> list[str]:
        return [f"{name} = {array}[me]" for name, array in self.variables()]

    def merge(self) -> list[str]:
        """What another thread found, too."""
        if self.sum:
            merged = "merge(highs[me], lows[me], highs[other], lows[other])"
            return [f"high, low = {merged}", "highs[me] = high", "lows[me] = low"]
        lines = ["best, v = bests[me], bests[other]"]
        wins = self.better("best", "v")
        if self.routed:
            lines.append("route, place = routes[me], routes[other]")
            tie = f"not ({self.better('v', 'best')}) and place < route"
            wins = f"place != {self.none} and (route == {self.none} or ({wins}) or ({tie}))"
        lines += [f"if {wins}:", "    bests[me] = v"]
        return [*lines, *(["    routes[me] = place"] if self.routed else [])]

    def store(self) -> list[str]:
        if self.sum:
            return ["out[i] = total(high, low)"]
        return ["out[i] = best", *([f"index[i] = int64(-1) if route == {self.none} else int64(route)"] * self.routed)]


def _parameters(t: str, routed: bool, count: int, plain: bool, shared: bool, index: str) -> list[tuple[str, str]]:
    """Names and types, in the order of the arguments of `_plan`."""
    given = [("x", f"{t}*"), ("out", f"{t}*"), *([("index", "i64*")] if routed else []), ("n", short(index))]
    given += conv_axes.divisor("channels", index)
    for k in range(count):
        given += [*conv_axes.divisor(f"outputs{k}", index), *conv_axes.parameters(k, plain, index)]
    if shared:
        given += [("shift", "u32"), ("taps", short(index))]
        for k in range(count):
            given += conv_axes.divisor(f"counts{k}", index)
    return given


def _apart(count: int, plain: bool, index: str) -> list[str]:
    """Lines from the output i to where its taps begin."""
    names, lengths = [*_of("p", count), "channel"], [*_of("outputs", count), "channels"]
    lines = conv_axes.take_apart("i", names, lengths, "batch", index)
    lines += [conv_axes.begin(k, plain, index) for k in range(count)]
    return [*lines, f"base = {index}(batch * {conv_axes.product(_of('n', count), index)})"]


def _picked(w: _Words, count: int, plain: bool, index: str) -> list[str]:
    """Lines that take the element of tap `each`, if there is one."""
    lines = conv_axes.take_apart("each", _of("j", count)[1:], _of("counts", count)[1:], "j0", index)
    lines += [*conv_axes.pick(count, plain, index), "if there:"]
    lines.append(f"    place = {conv_axes.flat(_of('r', count), _of('n', count), index)}")
    return [*lines, *("    " + line for line in w.take())]


@cache
def _kernel(kind: str, dtype: np.dtype, routed: bool, count: int, plain: bool, shared: bool, index: str) -> Kernel:
    """A thread an output, or several (`shared`)."""
    w = _Words(kind, dtype, routed, index)
    t = NAMES[dtype.name] if dtype.kind != "b" else "u8"
    given = _parameters(t, routed, count, plain, shared, index)
    apart = _indent(_apart(count, plain, index), 2)
    parts = [kind, "routed" if routed else "", t, f"{count}", "" if plain else "phases", "shared" if shared else ""]
    name = "window_" + "_".join(p for p in parts if p) + ("" if index == "uint32" else "_large")
    fields = dict(name=name, parameters=", ".join(p for p, _ in given), I=index, T=w.type, kind=kind)
    if shared:
        body = _SHARED.format(
            threads=THREADS, half=THREADS // 2, shared=_indent(w.shared(), 1), start=_indent(w.start(), 1), apart=apart,
            picked=_indent(_picked(w, count, plain, index), 3), put=_indent(w.put(), 1), merge=_indent(w.merge(), 3),
            get=_indent(w.get(), 2), store=_indent(w.store(), 2), **fields,
        )  # fmt: skip
    else:
        loops = conv_axes.nest(count, plain, index, w.take())
        body = _THREAD.format(
            apart=apart, start=_indent(w.start(), 2), loops=_indent(loops, 2), store=_indent(w.store(), 2), **fields
        )
    text = sums.text(dtype) + "\n\n" if w.sum else ""
    text += quotient_text(index) + conv_axes.helpers(plain, index) + body.lstrip("\n")
    what = ", several threads an output" if shared else ""
    used = sorted({"cuda", "int64", "uint32", "uint64", index, w.type})
    head = _HEADER.format(what=what, names=", ".join(used), **fields)
    return kernel(name, head + text, [kind for _, kind in given])


def _of(letter: str, count: int) -> list[str]:
    return [f"{letter}{k}" for k in range(count)]


class _Plan(NamedTuple):
    """A launch: everything but the buffers."""

    shape: tuple[int, ...]
    kernel: Kernel | None  # None: nothing to compute
    grid: int
    arguments: tuple[int, ...]


@lru_cache(maxsize=1024)
def _plan(kind: str, dtype: np.dtype, window: Any, adjoint: bool, routed: bool) -> _Plan:
    relations = [relation(axis, adjoint) for axis in window.middle]
    shape = window.shape if adjoint else window.out_shape
    channels = window.channels
    n = window.batch * math.prod(r.positions for r in relations) * channels
    if n == 0:
        return _Plan(shape, None, 0, ())
    sources = window.batch * math.prod(r.sources for r in relations) * channels
    counts = [conv_axes.most_taps(r) for r in relations]
    lanes = _lanes(math.prod(counts), n, channels)
    large = conv_axes.needs_large(relations, n + THREADS, sources, math.prod(counts) + THREADS)
    index = "int64" if large else "uint32"
    plain = conv_axes.is_plain(relations)
    arguments = [n, *division(channels, index)]
    for r in relations:
        arguments += [*division(r.positions, index), *conv_axes.arguments(r, plain, index)]
    grid = blocks(n)
    if lanes > 1:
        width = THREADS // lanes
        arguments += [width.bit_length() - 1, math.prod(counts)]
        for c in counts:
            arguments += division(max(1, c), index)
        grid = blocks(n, width)
    made = _kernel(kind, dtype, routed, len(relations), plain, lanes > 1, index)
    return _Plan(shape, made, grid, tuple(arguments))


def _lanes(taps: int, outputs: int, channels: int) -> int:
    """Threads for an output: a power of two, of sizes only, so that the order of a sum is always the same."""
    if taps < LONG or outputs >= ENOUGH:
        return 1
    most = min(taps // SHARE, -(-2 * ENOUGH // outputs), THREADS // COALESCED if channels >= COALESCED else THREADS)
    return 1 << max(0, min(THREADS, most).bit_length() - 1)


def _reduce(kind: str, x: Buffer, window: Any, adjoint: bool = False, routed: bool = False) -> Any:
    plan = _plan(kind, x.dtype, window, adjoint, routed)
    device = x.device
    out = device.empty(plan.shape, x.dtype)
    if not routed:
        if plan.kernel is not None:
            device.launch(plan.kernel, plan.grid, THREADS, contiguous(x), out, *plan.arguments)
        return out
    index = device.empty(plan.shape, np.dtype(np.int64))
    if plan.kernel is not None:
        device.launch(plan.kernel, plan.grid, THREADS, contiguous(x), out, index, *plan.arguments)
    return out, index


def _sum(adjoint: bool) -> Callable[..., Buffer]:
    def kernel(x: Buffer, *, window: Any) -> Buffer:
        return _reduce("sum", x, window, adjoint)

    kernel.__name__ = "window_spread" if adjoint else "window_sum"
    return kernel


def _extremum(kind: str, routed: bool) -> Callable[..., Any]:
    def kernel(x: Buffer, *, window: Any) -> Any:
        return _reduce(kind, x, window, False, routed)

    kernel.__name__ = f"window_{kind}{'_routed' if routed else ''}"
    return kernel


window_sum, window_spread = _sum(False), _sum(True)
window_max, window_min = _extremum("max", False), _extremum("min", False)
window_max_routed, window_min_routed = _extremum("max", True), _extremum("min", True)
