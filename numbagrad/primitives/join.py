"""Concatenation and padding, with getitem as adjoint."""

from __future__ import annotations

from typing import Any

from numbagrad.core.registry import Linear
from numbagrad.primitives.slices import getitem


def _concatenate_transpose(g: Any, *parts: Any, axis: int) -> list[Any]:
    cotangents, start = [], 0
    for part in parts:
        stop = start + part.shape[axis]
        cotangents.append(getitem(g, key=(slice(None),) * axis + (slice(start, stop),)))
        start = stop
    return cotangents


concatenate = Linear(
    "concatenate",
    "views:concatenate",
    _concatenate_transpose,
    linear_in=None,
    doc="Arrays one after the other along an existing axis. Adjoint: the slices.",
)
