"""Reductions over sliding windows, and the adjoint of their sum.

Two loops for every rank: planar (no channels: along the last windowed axis) and channels (along the channels). Both
keep a block of accumulators in L1 and let the taps pass over it in window order; what a tap reads is in tables
(taps.py), so padding, of either sign, costs no test of an element.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from numbagrad.kernels.cpu import jobs, pool, taps
from numbagrad.kernels.cpu.compiler import kernel_address
from numbagrad.kernels.cpu.copy import contiguous
from numbagrad.scalar.render import NAMES

FEW_CHANNELS = 8  # fewer fill no vector: they are brought to the front

# Lines that end in #+ are there only if the route is wanted.
_PLANAR = '''"""Window {kind} of {T}, along the last axis."""

import numpy as np
from numba import {types}
from numbagrad.kernels.cpu.abi import {pointers}


def {function}(n, ptrs, strides):
    x, out = {t}(ptrs, 0), {t}(ptrs, 1)
    index = i64(ptrs, 6)  #+
    lists, rows, taps, start = i64(ptrs, 2), i64(ptrs, 3), i64(ptrs, 4), i64(ptrs, 5)
    line, inner, phases = strides[{k}], strides[{k} + 1], strides[{k} + 2]
    step, hop = strides[{k} + 3], strides[{k} + 4]
    width = min(n, line - start[0])
    lanes = (width + phases - 1) // phases
    low = start[0] // phases
    acc = stack_{a}()
    best = stack_{i}()  #+
    for j in range(lanes * phases):
        acc[j] = {A}({identity})
        best[j] = -1  #+
    for r in range(lists[0], lists[1]):
        row = rows[r]
        for tap in range(inner):
            at = taps[4 * tap + 1] - low
            first = max(0, ({step} - 1 - at) // {step})
            last = min(taps[4 * tap + 2], (lanes - at + {step} - 1) // {step})
            to = taps[4 * tap] * lanes + at
            source = row + taps[4 * tap + 3]
            for j in range(first, last):
                v, a = {A}(x[source + j * {hop}]), acc[to + j * {step}]
                b = best[to + j * {step}]  #+
                wins = {wins}  #+
                best[to + j * {step}] = {I}(source + j * {hop}) if wins else b  #+
                acc[to + j * {step}] = {A}({combine})
    if phases == 1:
        for j in range(width):
            out[j] = {T}(acc[j])
            index[j] = best[j]  #+
    elif phases == 2:
        for j in range(width // 2):
            out[2 * j] = {T}(acc[j])
            out[2 * j + 1] = {T}(acc[lanes + j])
            index[2 * j] = best[j]  #+
            index[2 * j + 1] = best[lanes + j]  #+
        if width % 2 == 1:
            out[width - 1] = {T}(acc[lanes - 1])
            index[width - 1] = best[lanes - 1]  #+
    else:
        for phase in range(phases):
            for j in range((width - phase + phases - 1) // phases):
                out[j * phases + phase] = {T}(acc[phase * lanes + j])
                index[j * phases + phase] = best[phase * lanes + j]  #+
'''

_CHANNELS = '''"""Window {kind} of {T}, along the channels."""

import numpy as np
from numba import {types}
from numbagrad.kernels.cpu.abi import LANE_BLOCK, {pointers}


def {function}(n, ptrs, strides):
    x, out = {t}(ptrs, 0), {t}(ptrs, 1)
    index = i64(ptrs, 6)  #+
    lists, rows, taps, start = i64(ptrs, 2), i64(ptrs, 3), i64(ptrs, 4), i64(ptrs, 5)
    line, inner, phases = strides[{k}], strides[{k} + 1], strides[{k} + 2]
    hop, channels = strides[{k} + 4], strides[{k} + 5]
    acc = stack_{a}()
    best = stack_{i}()  #+
    for p in range(min(n, line - start[0])):
        phase, at = (start[0] + p) % phases, (start[0] + p) // phases
        for c in range(0, channels, LANE_BLOCK):
            width = min(LANE_BLOCK, channels - c)
            for k in range(width):
                acc[k] = {A}({identity})
                best[k] = -1  #+
            for r in range(lists[0], lists[1]):
                for tap in range(inner):
                    j = at - taps[4 * tap + 1]
                    if (taps[4 * tap] == phase) & (j >= 0) & (j < taps[4 * tap + 2]):
                        place = rows[r] + taps[4 * tap + 3] + j * hop
                        source = place * channels + c
                        here = {I}(place)  #+
                        for k in range(width):
                            v, a = {A}(x[source + k]), acc[k]
                            b = best[k]  #+
                            wins = {wins}  #+
                            best[k] = here if wins else b  #+
                            acc[k] = {A}({combine})
            to = p * channels + c
            for k in range(width):
                out[to + k] = {T}(acc[k])
                index[to + k] = best[k]  #+
'''

_WIDE = {"float32": "float64", "complex64": "complex128"}


def _combine(kind: str, floating: bool, routed: bool) -> tuple[str, str]:
    """New accumulator from `a` and the element `v`, and whether the element wins: the first nan does."""
    if kind == "sum":
        return "a + v", ""
    sign = ">" if kind == "max" else "<"
    better = f"(a == a) & ((v {sign} a) | (v != v))" if floating else f"v {sign} a"
    # an element equal to the identity still wins an empty place: its route is its own
    return ("v if wins else a" if routed else f"v if ({better}) else a"), f"(b < 0) | ({better})"


def _identity(kind: str, dtype: np.dtype) -> str:
    if kind == "sum":
        return "0"
    lowest = kind == "max"
    if dtype.kind == "f":
        return "-np.inf" if lowest else "np.inf"
    return str(np.iinfo(dtype).min if lowest else np.iinfo(dtype).max)


@cache
def _kernel(kind: str, dtype: np.dtype, routed: str, planar: bool, step: str, hop: str) -> int:
    """`routed`: type of the route's accumulators, or none; `step` and `hop`: "1", "2", or their own names."""
    wide = _WIDE.get(dtype.name, dtype.name) if kind == "sum" else dtype.name
    t, a = NAMES[dtype.name], NAMES[wide]
    route = NAMES[routed] if routed else "i32"
    parts = [kind, "routed" if routed else "", "planes" if planar else "channels", t, *(s for s in (step, hop) if s)]
    function = "window_" + "_".join(p for p in parts if p)
    combine, wins = _combine(kind, dtype.kind == "f", bool(routed))
    names = dict(
        kind=kind,
        function=function,
        t=t,
        a=a,
        i=route,
        T=dtype.name,
        A=wide,
        I=routed,
        types=", ".join(sorted({dtype.name, wide, *([routed] if routed else [])})),
        pointers=", ".join(sorted({"i64", t, f"stack_{a}", *([f"stack_{route}"] if routed else [])})),
        k=7 if routed else 6,
        identity=_identity(kind, dtype),
        step=step,
        hop=hop,
        combine=combine,
        wins=wins,
    )
    template = _PLANAR if planar else _CHANNELS
    kept = [line for line in template.splitlines() if routed or not line.endswith("#+")]
    return kernel_address(function, "\n".join(line.removesuffix("  #+") for line in kept).format(**names) + "\n")


def _reduce(kind: str, x: np.ndarray, window: Any, adjoint: bool = False, routed: bool = False) -> Any:
    batch, places, channels = window.flat_out if adjoint else window.flat
    outputs = (window.flat if adjoint else window.flat_out)[1]
    shape = window.shape if adjoint else window.out_shape
    x = contiguous(x)
    if 1 < channels < FEW_CHANNELS:
        planes = contiguous(x.reshape(batch, places, channels).transpose(0, 2, 1))
        found = _launch(kind, planes, window, adjoint, routed, batch * channels, 1)
        back = [contiguous(y.reshape(batch, channels, outputs).transpose(0, 2, 1)) for y in found]
        return [y.reshape(shape) for y in back]
    return [y.reshape(shape) for y in _launch(kind, x, window, adjoint, routed, batch, channels)]


def _launch(
    kind: str, x: np.ndarray, window: Any, adjoint: bool, routed: bool, batch: int, channels: int
) -> list[np.ndarray]:
    planar = channels == 1
    size = (batch * (window.flat if adjoint else window.flat_out)[1] * channels,)
    found = [pool.empty(size, x.dtype)] + ([pool.empty(size, np.dtype(np.int64))] if routed else [])
    if size == (0,):
        return found
    plan = taps.plan(window, adjoint, planar)
    whole, starts = plan.whole, plan.starts
    lines, inner, item = len(plan.begins) - 1, len(plan.taps), x.itemsize
    none = (0, 0, 0)
    operands = [
        (x, (plan.places * channels * item, 0, 0), 1),
        (found[0], _steps(plan.outputs, plan.line, whole, channels * item), 1),
        (plan.begins, (0, 8, 0), 0),
        (plan.rows, none, 0),
        (plan.taps, none, 0),
        (starts, (0, 0, 8), 0),
    ]
    if routed:
        operands.append((found[1], _steps(plan.outputs, plan.line, whole, channels * 8), 1))
    extras = (plan.line, inner, plan.phases, plan.step, plan.hop, channels)
    step = "" if not planar else "1" if plan.step == 1 else "step"
    hop = "" if not planar else str(plan.hop) if plan.hop in (1, 2) else "hop"
    route = "" if not routed else "int32" if plan.places < 1 << 31 else "int64"
    address = _kernel(kind, x.dtype, route, planar, step, hop)
    jobs.run(
        address,
        whole,
        (batch, lines, len(starts)),
        operands,
        extras,
        work=max(1, inner * len(plan.rows) * channels // lines),
    )
    return found


def _steps(outputs: int, line: int, whole: int, item: int) -> tuple[int, int, int]:
    return outputs * item, line * item, whole * item


def _sum(adjoint: bool) -> Callable[..., np.ndarray]:
    def kernel(x: np.ndarray, *, window: Any) -> np.ndarray:
        return _reduce("sum", x, window, adjoint)[0]

    kernel.__name__ = "window_spread" if adjoint else "window_sum"
    return kernel


def _extremum(kind: str, routed: bool) -> Callable[..., Any]:
    def kernel(x: np.ndarray, *, window: Any) -> Any:
        if x.dtype.kind == "b":
            # bytes: of padding only, the identity is 0 or 255, which is no boolean
            found = _reduce(kind, x.view(np.uint8), window, False, routed)
            found[0] = np.asarray(found[0] != 0)
        else:
            found = _reduce(kind, x, window, False, routed)
        return tuple(found) if routed else found[0]

    kernel.__name__ = f"window_{kind}{'_routed' if routed else ''}"
    return kernel


window_sum, window_spread = _sum(False), _sum(True)
window_max, window_min = _extremum("max", False), _extremum("min", False)
window_max_routed, window_min_routed = _extremum("max", True), _extremum("min", True)
