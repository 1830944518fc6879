"""Cases of reductions over windows, and a plain reference: every window's elements by padding, cropping and slicing."""

from __future__ import annotations

from typing import Any

import numpy as np

from numbagrad.primitives.window import Axis, Geometry
from samples.cases import case, r


def sources(axes: Any) -> np.ndarray:
    """Flat index of the element that each window (leading axes) reads by each tap (last axis), -1 for padding."""
    found = np.arange(int(np.prod([a[0] for a in axes]))).reshape([a[0] for a in axes])
    for k, (n, size, stride, low, high, base, dilation) in enumerate(axes):
        line = np.moveaxis(found, 2 * k, 0)  # axes done are (outputs, taps) each
        wide = np.full(((n - 1) * base + 1 if n else 0, *line.shape[1:]), -1)
        wide[::base] = line
        rim = [(max(0, low), max(0, high))] + [(0, 0)] * (line.ndim - 1)
        wide = np.pad(wide, rim, constant_values=-1)
        wide = wide[max(0, -low) : max(0, len(wide) - max(0, -high))]
        outputs = max(0, (len(wide) - (size - 1) * dilation - 1) // stride + 1)
        rows = np.arange(outputs)[:, None] * stride + np.arange(size) * dilation
        found = np.moveaxis(wide[rows], (0, 1), (2 * k, 2 * k + 1))
    order = (*range(0, found.ndim, 2), *range(1, found.ndim, 2))
    shape = found.shape[::2]
    return found.transpose(order).reshape(*shape, int(np.prod(found.shape[1::2])))


def elements(x: np.ndarray, axes: Any, identity: Any) -> tuple[np.ndarray, np.ndarray]:
    """What the windows read, and which of it is there."""
    table = sources(axes)
    flat = np.append(x.reshape(-1), np.asarray(identity, x.dtype))
    return flat[np.where(table >= 0, table, -1)], table >= 0


def extremum(x: np.ndarray, axes: Any, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Value and flat source of every window's extremum: the first of ties, the first nan; -1 for padding only."""
    if x.dtype.kind == "f":
        lowest, highest = -np.inf, np.inf
    elif x.dtype.kind == "b":
        lowest, highest = False, True
    else:
        lowest, highest = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    values, there = elements(x, axes, lowest if kind == "max" else highest)
    best = (np.max if kind == "max" else np.min)(values, -1, keepdims=True)
    hits = there & ((values == best) | (np.isnan(values) if x.dtype.kind == "f" else False))
    place = np.argmax(hits, -1)
    source = np.take_along_axis(sources(axes), place[..., None], -1)[..., 0]
    return best[..., 0], np.where(hits.any(-1), source, -1)


def summed(x: np.ndarray, axes: Any) -> np.ndarray:
    """Sum over every window."""
    return np.sum(elements(x, axes, 0)[0], -1, dtype=x.dtype)


def spread(g: np.ndarray, axes: Any) -> np.ndarray:
    """Each window's number added to every element it reads."""
    table = sources(axes)
    out = np.zeros(int(np.prod([a[0] for a in axes])) + 1, g.dtype)
    np.add.at(out, table, g[..., None])  # padding is the last
    return out[:-1].reshape([a[0] for a in axes])


def routed(x: np.ndarray, window: Geometry, kind: str) -> np.ndarray:
    """Value and index in the windowed block, as one array."""
    value, source = extremum(x, window.axes, kind)
    own = np.ascontiguousarray(np.broadcast_to(np.arange(window.flat[1])[None, :, None], window.flat)).reshape(-1)
    return np.asarray((value, np.where(source >= 0, np.append(own, 0)[source], -1)))


AXES = (
    (Axis(5, 2),),
    (Axis(8, 3, 2, 1, 1),),
    (Axis(4, 2, 1, 0, 0, 3, 2),),
    (Axis(7, 2, 3, -1, 2, 2),),
    (Axis(2), Axis(3), Axis(6, 3, 2, 0, 1), Axis(5, 3, 2, 1, 1)),
    (Axis(2), Axis(4, 2, 2), Axis(5, 2, 1, -1, 1), Axis(9)),
    (Axis(4, 2, 3), Axis(3), Axis(5, 3, 1, 1, 1), Axis(2)),
    (Axis(3, 2), Axis(1), Axis(3, 2, 2, 1, 0, 2), Axis(4, 2, 1, 2, 2, 1, 2)),
    (Axis(3), Axis(2)),
    (Axis(2), Axis(0, 2, 1, 1, 1)),
    (Axis(3, 4), Axis(2)),
    (Axis(0), Axis(3, 2)),
    (),
)


def _cases() -> None:
    for axes in AXES:
        window = Geometry(axes)
        x, g = r(*window.shape), r(*window.out_shape, seed=1)
        case("window_sum", x, reference=lambda x, a=axes: summed(x, a), window=window)
        case("window_spread", g, reference=lambda g, a=axes: spread(g, a), window=window)
        for kind in ("max", "min"):
            plain = lambda x, a=axes, k=kind: extremum(x, a, k)[0]
            order = 2 * int(np.all(np.isfinite(plain(x))))  # of padding only: no differences of inf
            case(f"window_{kind}", x, reference=plain, window=window, order=order)
            both = lambda x, w=window, k=kind: routed(x, w, k)
            case(f"window_{kind}_routed", x, reference=both, window=window, order=order)
    window = Geometry(AXES[4])
    for dtype in (np.float32, complex, np.complex64, np.int32, np.uint8):
        x, order = r(*window.shape, dtype=dtype), int(np.dtype(dtype).kind in "fc")
        g = r(*window.out_shape, dtype=dtype)
        case("window_sum", x, reference=lambda x: summed(x, AXES[4]), window=window, order=order)
        case("window_spread", g, reference=lambda g: spread(g, AXES[4]), window=window, order=order)
    for dtype in (np.float32, np.int32, np.uint8, bool):
        x, order = r(*window.shape, dtype=dtype), int(dtype is np.float32)
        for kind in ("max", "min"):
            plain = lambda x, k=kind: extremum(x, AXES[4], k)[0]
            case(f"window_{kind}", x, reference=plain, window=window, order=order)
            both = lambda x, k=kind: routed(x, window, k)
            case(f"window_{kind}_routed", x, reference=both, window=window, order=order)


_cases()
