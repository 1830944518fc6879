"""pad: an array widened at both ends of each axis, or cropped."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from numbagrad.core.arguments import meet_with, owned
from numbagrad.core.array import Array
from numbagrad.core.errors import message
from numbagrad.numpy.shaping import broadcast_to, concatenate, moveaxis
from numbagrad.primitives import index as rows_of
from numbagrad.primitives import slices
from numbagrad.primitives.elementwise import convert

__all__ = ["pad"]


def _pairs(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        table = {k % ndim: np.broadcast_to(np.asarray(v), (2,)) for k, v in pad_width.items()}
        rows = np.array([table.get(k, np.zeros(2, int)) for k in range(ndim)]).reshape(ndim, 2)
    else:
        rows = np.broadcast_to(np.asarray(pad_width), (ndim, 2))
    return [(operator.index(a), operator.index(b)) for a, b in rows.tolist()]


_PAD_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def pad(
    array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0, reflect_type: str = "even"
) -> Array:
    """Widened at both ends of each axis; modes constant, edge, reflect, symmetric, wrap. Negative amounts crop.

    Derivative: of what was copied; zero to what was cropped.
    """
    x = Array(owned(array, "pad"))
    if mode not in _PAD_MODES or reflect_type != "even":
        raise ValueError(message("pad", "no such mode", f"{mode!r} {reflect_type!r}", f"one of {_PAD_MODES}"))
    pairs = _pairs(pad_width, x.ndim)
    crop = tuple(slice(max(0, -a), n - max(0, -b)) for n, (a, b) in zip(x.shape, pairs, strict=True))
    x = Array(slices.getitem(x._value, key=crop))
    pairs = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if mode != "constant":
        return _pad_by_index(x, pairs, mode)
    fills = _fills(constant_values, x.ndim)
    for k, ((before, after), (low, high)) in enumerate(zip(pairs, fills, strict=True)):
        parts = [x]
        if before:
            parts.insert(0, _block(low, before, x, k))
        if after:
            parts.append(_block(high, after, x, k))
        x = concatenate(parts, k) if len(parts) > 1 else x
    return x


def _depth(values: Any) -> int:
    if isinstance(values, (tuple, list)):
        return 1 + (_depth(values[0]) if values else 0)
    return getattr(values, "ndim", 0)


def _fills(values: Any, ndim: int) -> list[Any]:
    """Pairs of numbers, one an axis, from what broadcasts to them. NumPy itself cannot look into traced values."""
    levels = _depth(values)
    rows = [[values]] if levels == 0 else [list(values)] if levels == 1 else [list(row) for row in values]
    pairs = [row * 2 if len(row) == 1 else row for row in rows]
    return pairs * ndim if len(pairs) == 1 else pairs


def _block(fill: Any, amount: int, x: Array, axis: int) -> Array:
    shape = (*x.shape[:axis], amount, *x.shape[axis + 1 :])
    return broadcast_to(Array(convert(meet_with("pad", x, fill)[0], x.dtype)), shape)


def _pad_by_index(x: Array, pairs: list[tuple[int, int]], mode: str) -> Array:
    """Modes that copy elements: NumPy pads the positions, and rows are taken by them."""
    for k, (before, after) in enumerate(pairs):
        if before or after:
            if x.shape[k] == 0:
                raise ValueError(
                    message("pad", f"mode {mode!r} needs something to copy", f"axis {k} of length 0", "length >= 1")
                )
            index = np.pad(np.arange(x.shape[k]), (before, after), mode=mode)  # type: ignore[call-overload]
            x = moveaxis(Array(rows_of.take(moveaxis(x, k, 0)._value, index, mode="raise")), 0, k)
    return x
