"""Cases of convolution and its two gradients, and what they are in plain NumPy: dilate, pad, one product a tap."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from samples.cases import case, r


def _dilated(x: np.ndarray, steps: tuple[int, ...]) -> np.ndarray:
    lengths = [(n - 1) * k + 1 if n else 0 for n, k in zip(x.shape[2:], steps, strict=True)]
    out = np.zeros([*x.shape[:2], *lengths], x.dtype)
    out[(..., *(slice(None, None, k) for k in steps))] = x
    return out


def _window(length: int, pad: tuple[int, int]) -> tuple[slice, slice, int]:
    """Where an axis lies in its padded form, where that is in the axis, and the padded length."""
    low, high = pad
    total = length + low + high
    start, stop = max(0, -low), min(length, total - low)
    return slice(start + low, max(start, stop) + low), slice(start, max(start, stop)), max(0, total)


class _Form:
    """The trilinear form of a convolution, evaluated tap by tap on the padded, dilated input."""

    def __init__(self, spatial, taps, *, groups, strides, padding, lhs_dilation, rhs_dilation) -> None:
        self.groups, self.lhs_dilation, self.taps, self.spatial = groups, lhs_dilation, taps, spatial
        dilated = [(n - 1) * k + 1 if n else 0 for n, k in zip(spatial, lhs_dilation, strict=True)]
        parts = [_window(n, p) for n, p in zip(dilated, padding, strict=True)]
        self.inside, self.kept, self.padded = zip(*parts, strict=True) if parts else ((), (), ())
        self.dilated = dilated
        extent = [(k - 1) * d + 1 for k, d in zip(taps, rhs_dilation, strict=True)]
        sizes = zip(self.padded, extent, strides, strict=True)
        self.places = tuple(max(0, (n - e) // s + 1) for n, e, s in sizes)
        self.reads = [
            tuple(
                slice(t * d, t * d + (m - 1) * s + 1 if m else t * d, s)
                for t, d, m, s in zip(tap, rhs_dilation, self.places, strides, strict=True)
            )
            for tap in itertools.product(*map(range, taps))
        ]

    def pad(self, x: np.ndarray) -> np.ndarray:
        out = np.zeros((*x.shape[:2], *self.padded), x.dtype)
        out[(..., *self.inside)] = _dilated(x, self.lhs_dilation)[(..., *self.kept)]
        return self.split(out)

    def unpad(self, x: np.ndarray) -> np.ndarray:
        x = x.reshape(x.shape[0], x.shape[1] * x.shape[2], *self.padded)
        out = np.zeros((*x.shape[:2], *self.dilated), x.dtype)
        out[(..., *self.kept)] = x[(..., *self.inside)]
        return out[(..., *(slice(None, None, k) for k in self.lhs_dilation))]

    def split(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(x.shape[0], self.groups, x.shape[1] // self.groups, *x.shape[2:])

    def weights(self, w: np.ndarray) -> np.ndarray:
        return w.reshape(self.groups, w.shape[0] // self.groups, w.shape[1], math.prod(w.shape[2:]))


def conv(x: np.ndarray, w: np.ndarray, **params: Any) -> np.ndarray:
    """Reference convolution."""
    form = _Form(x.shape[2:], w.shape[2:], **params)
    x, w4 = form.pad(x), form.weights(w)
    out = np.zeros((*x.shape[:2], w4.shape[1], *form.places), x.dtype)
    for t, read in enumerate(form.reads):
        out += np.einsum("ngc...,goc->ngo...", x[(..., *read)], w4[..., t])
    return out.reshape(out.shape[0], w.shape[0], *form.places)


def conv_input(g: np.ndarray, w: np.ndarray, *, shape: tuple[int, ...], **params: Any) -> np.ndarray:
    """Reference of what the input receives."""
    form = _Form(shape, w.shape[2:], **params)
    g, w4 = form.split(g), form.weights(w)
    out = np.zeros((*g.shape[:2], w4.shape[2], *form.padded), g.dtype)
    for t, read in enumerate(form.reads):
        out[(..., *read)] += np.einsum("ngo...,goc->ngc...", g, w4[..., t])
    return form.unpad(out)


def conv_weight(x: np.ndarray, g: np.ndarray, *, shape: tuple[int, ...], **params: Any) -> np.ndarray:
    """Reference of what the weights receive."""
    form = _Form(x.shape[2:], shape, **params)
    x, g = form.pad(x), form.split(g)
    per_tap = []
    for read in form.reads:
        seen = x[(..., *read)]
        per_tap.append(
            np.einsum("ngcp,ngop->goc", *(v.reshape(*v.shape[:3], math.prod(v.shape[3:])) for v in (seen, g)))
        )
    out = np.stack(per_tap, -1) if per_tap else np.zeros((x.shape[1], g.shape[2], x.shape[2], 0), x.dtype)
    return out.reshape(out.shape[0] * out.shape[1], out.shape[2], *shape)


# batch, channels of a group, outputs of a group, groups, spatial, taps, strides, padding, lhs and rhs dilation
GEOMETRIES = (
    (2, 3, 4, 1, (7,), (3,), (1,), ((1, 1),), (1,), (1,)),
    (1, 2, 3, 1, (5, 6), (3, 2), (2, 1), ((1, 1), (0, 1)), (1, 1), (1, 1)),
    (2, 1, 1, 3, (6, 5), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), (1, 1)),
    (1, 2, 2, 2, (4, 3), (2, 2), (1, 1), ((-1, -2), (-1, 1)), (3, 2), (1, 1)),
    (1, 2, 1, 1, (9, 8), (2, 2), (2, 3), ((2, -1), (0, 2)), (1, 2), (3, 2)),
    (1, 1, 2, 1, (4, 3, 4), (2, 3, 1), (1, 2, 2), ((1, 0), (1, 1), (0, 0)), (1, 1, 1), (1, 1, 2)),
    (2, 3, 2, 1, (4, 4), (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)),
    (2, 3, 2, 1, (5, 4), (1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1), (1, 1)),
    (1, 1, 1, 1, (9, 1), (4, 1), (1, 1), ((3, 3), (0, 0)), (1, 1), (1, 1)),
    (3, 2, 2, 1, (), (), (), (), (), ()),
    (1, 2, 2, 1, (2,), (3,), (1,), ((0, 0),), (1,), (1,)),
    (0, 2, 2, 1, (4,), (3,), (1,), ((1, 1),), (1,), (1,)),
    (2, 0, 2, 1, (4,), (3,), (1,), ((1, 1),), (1,), (1,)),
    (1, 2, 2, 1, (3,), (0,), (1,), ((1, 1),), (1,), (1,)),
    (1, 1, 1, 2, (3,), (2,), (4,), ((0, 0),), (3,), (1,)),
    (1, 1, 1, 1, (1, 1), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1)),
)


def _cases() -> None:
    for n, c, o, groups, spatial, taps, s, pads, b, d in GEOMETRIES:
        params = dict(groups=groups, strides=s, padding=pads, lhs_dilation=b, rhs_dilation=d)
        x, w = r(n, c * groups, *spatial), r(o * groups, c, *taps, seed=1)
        places = _Form(spatial, taps, **params).places
        g = r(n, o * groups, *places, seed=2)
        case("conv", x, w, reference=lambda x, w, p=params: conv(x, w, **p), **params)
        whole = dict(params, shape=spatial)
        case("conv_input", g, w, reference=lambda g, w, p=whole: conv_input(g, w, **p), **whole)
        whole = dict(params, shape=taps)
        case("conv_weight", x, g, reference=lambda x, g, p=whole: conv_weight(x, g, **p), **whole)
    params = dict(groups=2, strides=(2,), padding=((1, 2),), lhs_dilation=(1,), rhs_dilation=(1,))
    for dtype in (np.float32, complex, np.complex64, np.int64, np.int32):
        order = int(np.dtype(dtype).kind in "fc")
        x, w, g = r(2, 4, 6, dtype=dtype), r(2, 2, 3, dtype=dtype, seed=1), r(2, 2, 4, dtype=dtype, seed=2)
        case("conv", x, w, reference=lambda x, w: conv(x, w, **params), order=order, **params)
        whole = dict(params, shape=(6,))
        case("conv_input", g, w, reference=lambda g, w, p=whole: conv_input(g, w, **p), order=order, **whole)
        whole = dict(params, shape=(3,))
        case("conv_weight", x, g, reference=lambda x, g, p=whole: conv_weight(x, g, **p), order=order, **whole)


_cases()
