"""Convolution, its input gradient and its weight gradient: which kernel for which shapes and types.

    one channel with one, few taps    conv_plane: shifted copies of the plane
    1 x 1, plain                      a matrix product
    anything else                     conv_patch: patches packed into L1, register tiles
    complex                           four real ones
    integers, few multiplications     patches by NumPy, one matrix product: nothing to compile

Arrays: input (batch, channels, *spatial), weights (outputs, channels of a group, *taps), all seen by group as
(batch, group, channels, places) and (group, outputs, channels, taps).
"""

from __future__ import annotations

import itertools
import math
from functools import cache, wraps
from typing import Any

import numpy as np

from numbagrad.kernels.cpu import conv_patch, conv_plane, gemm
from numbagrad.kernels.cpu.absorbing import product
from numbagrad.kernels.cpu.conv_plan import Axis, Geometry
from numbagrad.kernels.cpu.copy import contiguous
from numbagrad.kernels.cpu.taps import progressions, relation

Shape = tuple[int, ...]
FEW, FEW_TAPS = 1 << 20, 32  # multiplications, and taps, up to which NumPy's copies and BLAS take no longer


def _geometry(spatial: Shape, taps: Shape, channels: int, outputs: int, groups: int, settings: dict) -> Geometry:
    axes = []
    padding, strides = settings["padding"], settings["strides"]
    for n, k, s, (low, high), b, d in zip(
        spatial, taps, strides, padding, settings["lhs_dilation"], settings["rhs_dilation"]
    ):
        length = ((n - 1) * b + 1 if n else 0) + low + high
        axes.append(Axis(n, max(0, (length - (k - 1) * d - 1) // s + 1), k, s, low, b, d))
    return Geometry(tuple(axes), groups, channels, outputs)


def _absorbing(function: Any) -> Any:
    """The kernel of one of the three products, with the parameter `absorbs`."""

    @wraps(function)
    def kernel(a: np.ndarray, b: np.ndarray, *, absorbs: tuple[int, ...] = (), **params: Any) -> np.ndarray:
        return product(lambda u, v: function(u, v, **params), a, b, absorbs)

    return kernel


@_absorbing
def conv(x: np.ndarray, w: np.ndarray, *, groups: int, **settings: Any) -> np.ndarray:
    """Outputs (batch, outputs, *places)."""
    geometry = _geometry(x.shape[2:], w.shape[2:], w.shape[1], w.shape[0] // groups, groups, settings)
    shape = (x.shape[0], w.shape[0], *geometry.out_shape)
    if x.dtype.kind == "c":
        return _complex(conv, x, w, groups=groups, **settings)
    return _project(_channels(x, groups), _by_group(w, groups), geometry, False).reshape(shape)


@_absorbing
def conv_input(g: np.ndarray, w: np.ndarray, *, shape: Shape, groups: int, **settings: Any) -> np.ndarray:
    """What inputs of spatial shape `shape` receive from cotangents of the outputs."""
    geometry = _geometry(shape, w.shape[2:], w.shape[1], w.shape[0] // groups, groups, settings)
    if g.dtype.kind == "c":
        return _complex(conv_input, g, w, shape=shape, groups=groups, **settings)
    out = _project(_channels(g, groups), _by_group(w, groups), geometry, True)
    return out.reshape((g.shape[0], groups * w.shape[1], *shape))


@_absorbing
def conv_weight(x: np.ndarray, g: np.ndarray, *, shape: Shape, groups: int, **settings: Any) -> np.ndarray:
    """What weights with `shape` taps receive from cotangents of the outputs."""
    channels, outputs = x.shape[1] // groups, g.shape[1] // groups
    geometry = _geometry(x.shape[2:], shape, channels, outputs, groups, settings)
    if x.dtype.kind == "c":
        return _complex(conv_weight, x, g, shape=shape, groups=groups, **settings)
    out = _weights(_channels(x, groups), _channels(g, groups), geometry)
    return out.reshape((groups * outputs, channels, *shape))


def _channels(x: np.ndarray, groups: int) -> np.ndarray:
    places = math.prod(x.shape[2:])
    return contiguous(x).reshape(x.shape[0], groups, x.shape[1] // groups, places)


def _by_group(w: np.ndarray, groups: int) -> np.ndarray:
    return contiguous(w).reshape(groups, w.shape[0] // groups, w.shape[1], math.prod(w.shape[2:]))


def _is_small(batch: int, geometry: Geometry) -> bool:
    taps = math.prod(geometry.tap_shape)
    products = batch * geometry.groups * geometry.inputs * geometry.outputs * taps * math.prod(geometry.out_shape)
    return products <= FEW and taps <= FEW_TAPS


def _project(x: np.ndarray, w: np.ndarray, geometry: Geometry, backward: bool) -> np.ndarray:
    """Targets from sources, either way."""
    if x.dtype.kind != "f" or _is_small(x.shape[0], geometry):
        return _project_small(x, w, geometry, backward)
    if backward:
        w = w.swapaxes(1, 2)
    if geometry.pointwise:
        return gemm.product(w[..., 0], x)
    geometry = geometry.squeezed()
    if geometry.inputs == geometry.outputs == 1:
        tables = conv_plane.layout(geometry, backward, conv_plane.room_elements(x.dtype))
        if tables is not None:
            return conv_plane.project(x[:, :, 0], w[:, 0, 0], geometry, tables, backward)
    return conv_patch.project(x, w, geometry, backward)


def _weights(x: np.ndarray, g: np.ndarray, geometry: Geometry) -> np.ndarray:
    if x.dtype.kind != "f" or _is_small(x.shape[0], geometry):
        return _weights_small(x, g, geometry)
    if geometry.pointwise:
        return _pointwise_weights(x, g)[..., None]
    geometry = geometry.squeezed()
    if geometry.inputs == geometry.outputs == 1:
        tables = conv_plane.layout(geometry, False, conv_plane.room_elements(x.dtype))
        if tables is not None:
            return conv_plane.weights(x[:, :, 0], g[:, :, 0], geometry, tables)
    return conv_patch.weights(x, g, geometry)


def _pointwise_weights(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Sum over the batch of g x^T, image by image where all at once would take more memory than the images."""
    n, groups, channels, _ = x.shape
    if n * groups * g.shape[2] * channels <= max(x.size, g.size):
        return np.add.reduce(gemm.product(g, x.swapaxes(2, 3)), 0)
    out = np.zeros((groups, g.shape[2], channels), x.dtype)
    for image in range(n):
        out += gemm.product(g[image], x[image].swapaxes(1, 2))
    return out


# --- complex numbers; integers and small operands


def _complex(function: Any, a: np.ndarray, b: np.ndarray, **settings: Any) -> np.ndarray:
    """A product of complex operands from products of their parts."""
    parts = [[np.ascontiguousarray(v.real), np.ascontiguousarray(v.imag)] for v in (a, b)]
    (ar, ai), (br, bi) = parts
    real = function(ar, br, **settings) - function(ai, bi, **settings)
    out = np.empty(real.shape, a.dtype)
    out.real = real
    out.imag = function(ar, bi, **settings) + function(ai, br, **settings)
    return out


@cache
def _taps(geometry: Geometry) -> list[tuple[Any, Any]]:
    """For each tap the inputs it reads and the outputs it serves."""
    by_axis = []
    for axis in geometry.axes:
        rows, step, hop = progressions(relation(axis, False))
        by_axis.append([(_run(q, count, hop), _run(p, count, step)) for p, count, q in rows.tolist()])
    return [tuple(zip(*tap)) or ((), ()) for tap in itertools.product(*by_axis)]  # type: ignore[misc]


def _run(first: int, count: int, step: int) -> slice:
    return slice(first, first + (count - 1) * step + 1, step) if count else slice(0, 0)


def _patches(x: np.ndarray, geometry: Geometry) -> np.ndarray:
    """What each output reads: (batch, group, channels * taps, outputs)."""
    x = x.reshape(*x.shape[:3], *geometry.in_shape)
    taps = _taps(geometry)
    found = np.zeros((*x.shape[:3], len(taps), *geometry.out_shape), x.dtype)
    for k, (reads, serves) in enumerate(taps):
        found[:, :, :, k][(..., *serves)] = x[(..., *reads)]
    return found.reshape(*x.shape[:2], x.shape[2] * len(taps), math.prod(geometry.out_shape))


def _project_small(x: np.ndarray, w: np.ndarray, geometry: Geometry, backward: bool) -> np.ndarray:
    """As `_project`; w is (G, outputs, channels, taps) either way."""
    flat = w.reshape(*w.shape[:2], w.shape[2] * w.shape[3])
    if not backward:
        return gemm.product(flat, _patches(x, geometry))
    received = gemm.product(flat.swapaxes(1, 2), x)
    received = received.reshape(*x.shape[:2], w.shape[2], w.shape[3], *geometry.out_shape)
    out = np.zeros((*x.shape[:2], w.shape[2], *geometry.in_shape), x.dtype)
    for k, (reads, serves) in enumerate(_taps(geometry)):
        out[(..., *reads)] += received[:, :, :, k][(..., *serves)]
    return out


def _weights_small(x: np.ndarray, g: np.ndarray, geometry: Geometry) -> np.ndarray:
    per_image = gemm.product(g, _patches(x, geometry).swapaxes(2, 3))
    return np.add.reduce(per_image, 0, dtype=x.dtype)
