"""broadcast_to and its adjoint, the sum over axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from numbagrad.core.registry import Linear
from numbagrad.primitives.elementwise import convert


def _broadcast_transpose(g: Any, x: Any, *, shape: tuple[int, ...]) -> Any:
    extra = len(shape) - len(x.shape)
    axes = tuple(k for k in range(len(shape)) if k < extra or x.shape[k - extra] != shape[k])
    summed = reduce_sum(g, axes=axes) if axes else g
    return reshape_to(summed, x.shape)


broadcast_to = Linear(
    "broadcast_to",
    "views:broadcast_to",
    _broadcast_transpose,
    doc="Repeat a value along new or length-1 axes, as a view. Adjoint: the sum over those axes.",
)


def _sum_transpose(g: Any, x: Any, *, axes: tuple[int, ...], dtype: np.dtype | None = None) -> Any:
    kept = tuple(1 if k in axes else n for k, n in enumerate(x.shape))
    g = convert(g, x.dtype)
    return broadcast_to(reshape_to(g, kept), shape=x.shape)


reduce_sum = Linear(
    "reduce_sum",
    "reduce:reduce_sum",
    _sum_transpose,
    doc="Sum over axes (which are removed). float32 is accumulated in float64. Adjoint: broadcast.",
)


def _reshape_transpose(g: Any, x: Any, *, shape: tuple[int, ...]) -> Any:
    return reshape_to(g, x.shape)


reshape = Linear(
    "reshape",
    "views:reshape",
    _reshape_transpose,
    doc="The same elements in C order under another shape; a view where the layout allows. Adjoint: reshape back.",
)


def reshape_to(x: Any, shape: tuple[int, ...]) -> Any:
    """reshape, unless the shape is already right."""
    return x if x.shape == shape else reshape(x, shape=shape)


def expand_axes(x: Any, axes: tuple[int, ...], ndim: int) -> Any:
    """Put length-1 axes where a reduction over `axes` removed them."""
    sizes = iter(x.shape)
    return reshape_to(x, tuple(1 if k in axes else next(sizes) for k in range(ndim)))


def count(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    """Number of elements a reduction over `axes` takes together."""
    return math.prod(shape[a] for a in axes)
