"""Convolution, its input gradient and its weight gradient: which kernel for which shapes.

    few target channels, or few products      conv_direct.py: a thread a result
    few weights of a group                    conv_direct.py: threads share a result of the weight gradient
    anything else                             conv_tile.py: tiles of a matrix product

Many products for few results are cut into parts, which a second launch adds in order. What is chosen depends on sizes
only. Zeros of the operands `absorbs` are absorbing: a kernel computes what is not finite again, without them.
"""

# Checklist of docs/design/cuda.md: all 15 hold; no atomics, no spills; registers (sm_80, sm_90): tiles <= 123, others
# <= 44; int64 twins <= 197, with which one block of 256 threads still fits on a multiprocessor.

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from numbagrad.kernels.cpu.conv import _geometry
from numbagrad.kernels.cpu.conv_plan import Axis, Geometry
from numbagrad.kernels.cpu.taps import Relation, relation
from numbagrad.kernels.cuda import conv_axes, conv_direct, conv_tables, conv_tile
from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.copy import contiguous
from numbagrad.kernels.cuda.gemm import TILES, Tile, accumulator
from numbagrad.kernels.cuda.kernel import THREADS, Kernel, blocks
from numbagrad.kernels.cuda.places import division

Shape = tuple[int, ...]
FEW_TARGETS = 8  # target channels of a group below which most of a tile would be idle
FEW, SHORT = 1 << 20, 1024  # products of all results, and of one, up to which a thread a result is as fast
IDLE = 1 / 8  # part of a tile of weights that is used, below which threads share results instead
FULL = 528  # blocks of 256 threads that keep an H200 busy: four for each multiprocessor
LONG = 8192  # products that one part adds up at most: what float32 sums lose grows with it
PIECE, MOST_PIECES = 128, 512  # products of a part at least, and parts at most
SHARE = 16  # products at least for each of the threads that share a result
SPEED = {128: 1.0, 64: 0.6, 32: 0.3}  # of tiles, about, by their rows
RESIDENT = {128: FULL // 2, 64: FULL, 32: 2 * FULL}  # blocks that their registers leave room for, likewise


class _Plan(NamedTuple):
    """The launches of a convolution: everything but the operands."""

    shape: Shape
    kernel: Kernel | None = None  # None: the result is empty, or zeros
    grid: Any = 0
    threads: int = THREADS
    tables: tuple[Buffer, ...] = ()
    arguments: tuple[int, ...] = ()  # those after `flags`, or around it: see `_run`
    counts: tuple[int, ...] = ()  # those before it
    pieces: int = 1
    finish: Kernel | None = None


class _Sizes(NamedTuple):
    """Of one of the three products."""

    device: Any
    dtype: np.dtype
    geometry: Geometry
    images: int
    backward: bool
    shape: Shape


def conv(
    x: Buffer,
    w: Buffer,
    *,
    groups: int,
    strides: Shape,
    padding: Any,
    lhs_dilation: Shape,
    rhs_dilation: Shape,
    absorbs: Shape = (),
) -> Buffer:
    """Outputs (batch, outputs, *places)."""
    settings = strides, padding, lhs_dilation, rhs_dilation
    return _run(_plan("conv", x.device, x.dtype, x.shape, w.shape, None, groups, *settings), x, w, absorbs)


def conv_input(
    g: Buffer,
    w: Buffer,
    *,
    shape: Shape,
    groups: int,
    strides: Shape,
    padding: Any,
    lhs_dilation: Shape,
    rhs_dilation: Shape,
    absorbs: Shape = (),
) -> Buffer:
    """What inputs of spatial shape `shape` receive from cotangents of the outputs."""
    settings = strides, padding, lhs_dilation, rhs_dilation
    return _run(_plan("conv_input", g.device, g.dtype, g.shape, w.shape, shape, groups, *settings), g, w, absorbs)


def conv_weight(
    x: Buffer,
    g: Buffer,
    *,
    shape: Shape,
    groups: int,
    strides: Shape,
    padding: Any,
    lhs_dilation: Shape,
    rhs_dilation: Shape,
    absorbs: Shape = (),
) -> Buffer:
    """What weights with `shape` taps receive from cotangents of the outputs."""
    settings = strides, padding, lhs_dilation, rhs_dilation
    return _run(_plan("conv_weight", x.device, x.dtype, x.shape, g.shape, shape, groups, *settings), x, g, absorbs)


def _run(plan: _Plan, a: Buffer, b: Buffer, absorbs: Shape) -> Buffer:
    device, dtype = a.device, a.dtype
    if plan.kernel is None:
        return device.zeros(plan.shape, dtype)
    out = target = device.empty(plan.shape, dtype)
    if plan.pieces > 1:
        target = device.empty((plan.pieces, out.size), accumulator(dtype))
    flags = 0
    for k in absorbs:
        flags |= 1 << k
    a, b = contiguous(a), contiguous(b)
    device.launch(
        plan.kernel, plan.grid, plan.threads, a, b, target, *plan.tables, *plan.counts, flags, *plan.arguments
    )
    if plan.finish is not None:
        device.launch(plan.finish, blocks(out.size), THREADS, target, out, out.size, plan.pieces)
    return out


@lru_cache(maxsize=1024)
def _plan(
    which: str,
    device: Any,
    dtype: np.dtype,
    a: Shape,
    b: Shape,
    shape: Shape | None,
    groups: int,
    strides: Shape,
    padding: Any,
    lhs_dilation: Shape,
    rhs_dilation: Shape,
) -> _Plan:
    settings = dict(strides=strides, padding=padding, lhs_dilation=lhs_dilation, rhs_dilation=rhs_dilation)
    if shape is None:  # it is the result's: of conv that follows from the operands
        channels, outputs = b[1], b[0] // groups
        geometry = _geometry(a[2:], b[2:], channels, outputs, groups, settings)
        out = (a[0], groups * outputs, *geometry.out_shape)
    elif which == "conv_weight":
        channels, outputs = a[1] // groups, b[1] // groups
        geometry = _geometry(a[2:], shape, channels, outputs, groups, settings)
        out = (groups * outputs, channels, *shape)
    else:
        channels, outputs = b[1], b[0] // groups
        geometry = _geometry(shape, b[2:], channels, outputs, groups, settings)
        out = (a[0], groups * channels, *shape)
    sizes = _Sizes(device, dtype, _fewer_axes(geometry), a[0], which == "conv_input", out)
    if 0 in out or math.prod(a) == 0 or math.prod(b) == 0:
        return _Plan(out)
    return _weight(sizes) if which == "conv_weight" else _project(sizes)


def _fewer_axes(geometry: Geometry) -> Geometry:
    """The same places along fewer axes: a kernel takes them apart."""
    if geometry.pointwise and geometry.axes:
        n = math.prod(geometry.in_shape)
        return Geometry((Axis(n, n, 1, 1, 0, 1, 1),), geometry.groups, geometry.inputs, geometry.outputs)
    return geometry.squeezed()


# --- conv and conv_input


def _project(s: _Sizes) -> _Plan:
    g = s.geometry
    rows, depth = (g.inputs, g.outputs) if s.backward else (g.outputs, g.inputs)
    taps = math.prod(g.tap_shape)
    places = math.prod(s.shape[2:])
    steps = (taps, g.inputs * taps) if s.backward else (g.inputs * taps, taps)  # of weights: by row, by depth
    weights = (g.outputs * g.inputs * taps, *steps)
    relations = [relation(axis, s.backward) for axis in g.axes]
    results = s.images * g.groups * rows * places
    products = depth * math.prod(conv_axes.most_taps(r) for r in relations)
    few = results * products <= FEW and products <= SHORT
    if few or (rows < FEW_TARGETS and (products <= 2 * PIECE or results >= FULL * THREADS)):
        return _project_direct(s, relations, rows, depth, results, products, weights)
    return _tile(s, relations, False, rows, s.images * places, products, weights)


def _project_direct(
    s: _Sizes, relations: list[Relation], rows: int, depth: int, results: int, products: int, weights: Shape
) -> _Plan:
    plain = conv_axes.is_plain(relations)
    source = s.images * s.geometry.groups * depth * math.prod(r.sources for r in relations)
    large = conv_axes.needs_large(relations, results + THREADS, source, s.geometry.groups * weights[0], products)
    index = "int64" if large else "uint32"
    arguments = [*division(s.geometry.groups, index), *division(rows, index), depth, *weights]
    for r in relations:
        arguments += [*division(r.positions, index), *conv_axes.arguments(r, plain, index)]
    made = conv_direct.project_kernel(s.dtype, len(relations), plain, products > SHORT, index)
    return _Plan(s.shape, made, blocks(results), arguments=tuple(arguments), counts=(results,))


# --- conv_weight


def _weight(s: _Sizes) -> _Plan:
    g = s.geometry
    relations = [relation(axis, False) for axis in g.axes]
    exchanged = [Relation(r.taps, r.sources, r.positions, r.e, r.a, r.c, r.m) for r in relations]
    counts = [conv_axes.most_taps(r) for r in exchanged]
    taps = math.prod(g.tap_shape)
    products = s.images * math.prod(counts)
    results = math.prod(s.shape)
    columns = g.inputs * taps
    used = max(_used(tile, g.outputs, columns) for tile in _tiles(s.dtype))
    if results * products <= FEW or used < IDLE:
        return _weight_direct(s, exchanged, counts, results, products)
    return _tile(s, relations, True, g.outputs, columns, products, (taps,))


def _weight_direct(s: _Sizes, relations: list[Relation], counts: list[int], results: int, products: int) -> _Plan:
    g = s.geometry
    most = min(THREADS, products // SHARE, -(-FULL * THREADS // results))
    lanes = 1 << max(0, most.bit_length() - 1)
    width = THREADS // lanes
    grid = blocks(results, width)
    pieces = _pieces(grid, FULL, products, SHARE * THREADS, products)
    span = -(-products // pieces)
    plain = conv_axes.is_plain(relations)
    planes = s.images * g.groups * max(
        g.inputs * math.prod(r.sources for r in relations), g.outputs * math.prod(r.taps for r in relations)
    )  # fmt: skip
    large = conv_axes.needs_large(relations, planes, products + span + THREADS, pieces * results + THREADS)
    index = "int64" if large else "uint32"
    arguments = [width.bit_length() - 1, span, products, g.groups]
    arguments += [*division(g.outputs, index), *division(g.inputs, index)]
    for r, n in zip(relations, counts, strict=True):
        arguments += [*division(r.positions, index), *conv_axes.arguments(r, plain, index), *division(n, index)]
    made = conv_direct.weight_kernel(s.dtype, pieces > 1, len(relations), plain, index)
    finish = conv_direct.finish_kernel(s.dtype, index) if pieces > 1 else None
    return _Plan(
        s.shape, made, (grid, pieces), arguments=tuple(arguments), counts=(results,), pieces=pieces, finish=finish
    )


# --- tiles


def _tiles(dtype: np.dtype) -> tuple[Tile, ...]:
    return TILES[accumulator(dtype).itemsize]


def _used(tile: Tile, rows: int, columns: int) -> float:
    """The part of the tiles that is results."""
    padded = blocks(rows, tile.rows) * tile.rows * blocks(columns, tile.columns) * tile.columns
    return rows * columns / padded


def _pieces(grid: int, full: int, products: int, least: int, most: int) -> int:
    """Parts of the products: as many as `full` blocks can take at once, none too long."""
    wanted = max(min(full // grid, products // least), -(-products // most))
    return max(1, min(wanted, MOST_PIECES))


def _tile(
    s: _Sizes, relations: list[Relation], weight: bool, rows: int, columns: int, products: int, weights: Shape
) -> _Plan:
    """`columns` and `products`: of all phases, and the most of one."""
    g = s.geometry
    found = conv_tables.tables(g, s.backward, weight)
    phases = len(found.phases)
    widest = int(found.phases[:, 1].max()) * g.inputs if weight else int(found.phases[:, 2].max()) * s.images
    best, grid, pieces = None, 0, 1
    score = -1.0
    for tile in _tiles(s.dtype):
        count = phases * g.groups * blocks(rows, tile.rows) * blocks(widest, tile.columns)
        full = RESIDENT[tile.rows]
        parts = _pieces(count, full, products, PIECE, LONG)
        here = _used(tile, rows, widest) * SPEED[tile.rows] * min(1.0, count * parts / full)
        if here > score:
            best, grid, pieces, score = tile, count * parts, parts, here
    assert best is not None
    results = math.prod(s.shape)
    sources, targets = (g.out_shape, g.in_shape) if s.backward else (g.in_shape, g.out_shape)
    source, target = math.prod(sources), math.prod(targets)
    depth = g.outputs if s.backward else g.inputs
    planes = s.images * g.groups * max(g.inputs, g.outputs) * max(source, target)
    total = g.groups * g.inputs * g.outputs * math.prod(g.tap_shape)
    edge = products + best.depth * (pieces + 1), widest + best.columns, rows + best.rows
    large = conv_axes.needs_large(relations, planes, pieces * results, total, conv_tables.biggest(found), *edge)
    index = "int64" if large else "uint32"
    arguments = [g.groups, rows, depth, s.images, blocks(rows, best.rows), blocks(widest, best.columns), pieces]
    arguments += [results, source, target, *weights]
    for axis in found.axes:
        arguments += axis
    made = conv_tile.tile_kernel(best, s.dtype, pieces > 1, len(relations), weight, index)
    finish = conv_direct.finish_kernel(s.dtype, index) if pieces > 1 else None
    tables = conv_tables.on_device(s.device, g, s.backward, weight, index)
    return _Plan(s.shape, made, grid, best.threads, tables, arguments=tuple(arguments), pieces=pieces, finish=finish)
