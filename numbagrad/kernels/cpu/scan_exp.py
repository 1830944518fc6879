"""Cumulative log-sum-exp of rows, in blocks: only the running maximum and the running sum are one after the other;
exponentials and logarithms of a block are taken at once, in vectors."""

from __future__ import annotations

import numpy as np

from numbagrad.scalar.render import NAMES

_SOURCE = '''"""{name} of rows of {T}."""

import numpy as np
from numba import {types}
from numbagrad.kernels.cpu.abi import LANE_BLOCK, {t}, stack_f64
from numbagrad.scalar.simd import {simd}


def {function}(n, ptrs, strides):
    {operands}
    rows, apart, sign = strides[{count}], strides[{count} + 1], strides[{count} + 2]
    top, new, old = stack_f64(), stack_f64(), stack_f64()
    for row in range(rows):
        start = row * apart + (0 if sign > 0 else n - 1)
        m, before, s = -np.inf, -np.inf, 0.0
        for block in range(0, n, LANE_BLOCK):
            width = min(LANE_BLOCK, n - block)
            at = start + sign * block
            for j in range(width):
                v = float64(x[at + sign * j])
                new[j] = 0.0 if v == m else -abs(v - m)
                m = v if v > m else m
                top[j] = m
            for j in range(width):
                new[j] = exp_f64(new[j])
            for j in range(width):
                e = new[j]
                if top[j] > before:
                    old[j], new[j] = s * e, 1.0
                else:
                    old[j] = s
                s = old[j] + new[j]
                before = top[j]
            for j in range(width):
{last}
'''

_LAST = {
    "cumlogsumexp": ["out[at + sign * j] = {T}(top[j] + log_f64(old[j] + new[j]))"],
    # nothing but -inf so far has no derivative
    "cumlogsumexp_weights": [
        "live = 0.0 if top[j] == -np.inf else 1.0 / (old[j] + new[j])",
        "out[at + sign * j] = {T}(new[j] * live)",
        "kept[at + sign * j] = {T}(old[j] * live)",
    ],
}


def render(name: str, dtype: np.dtype) -> tuple[str, str]:
    """Name and source of the kernel."""
    t = NAMES[dtype.name]
    operands = ("x", "out", "kept")[: 2 if name == "cumlogsumexp" else 3]
    places = f"{', '.join(operands)} = {', '.join(f'{t}(ptrs, {k})' for k in range(len(operands)))}"
    return f"{name}_rows_{t}", _SOURCE.format(
        name=name,
        function=f"{name}_rows_{t}",
        T=dtype.name,
        t=t,
        types=", ".join(sorted({"float64", dtype.name})),
        simd="exp_f64, log_f64" if name == "cumlogsumexp" else "exp_f64",
        operands=places,
        count=len(operands),
        last="\n".join(" " * 16 + line.format(T=dtype.name) for line in _LAST[name]),
    )
