"""Operations that are a view of the same memory, or one copy."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.copy import copied, copy_into
from numbagrad.kernels.cuda.map import MapKernel
from numbagrad.scalar import ATOMS, arg

Key = tuple[Any, ...]


def broadcast_to(x: Buffer, *, shape: tuple[int, ...]) -> Buffer:
    """View with step 0 along new and length-1 axes."""
    extra = len(shape) - x.ndim
    steps = (0 if n == 1 else s for n, s in zip(x.shape, x.strides, strict=True))
    return x.view(shape, (0,) * extra + tuple(steps))


def reshape(x: Buffer, *, shape: tuple[int, ...]) -> Buffer:
    """View where the layout allows, else a copy in C order."""
    if x.flat:
        return x.view(shape, None)
    strides = regrouped(x.shape, x.strides, shape)
    return copied(x).view(shape, None) if strides is None else x.view(shape, strides)


def regrouped(shape: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides of the same elements in C order under a new shape; None if no strides give them."""
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    if any(n == 0 for n in shape):
        return (0,) * len(new)
    steps, k = [], 0  # k: of the old axes, how many are used up
    j = 0
    while j < len(new):
        if new[j] == 1:
            steps.append(0)
            j += 1
            continue
        # the fewest old and new axes from here on that hold the same elements
        have, want, first, start = old[k][0], new[j], k, j
        while have != want:
            if have < want:
                k += 1
                have *= old[k][0]
            else:
                j += 1
                want *= new[j]
        group = old[first : k + 1]
        if any(a[1] != b[0] * b[1] for a, b in pairwise(group)):
            return None
        step, inner = group[-1][1], []
        for n in reversed(new[start : j + 1]):
            inner.append(step)
            step *= n
        steps += reversed(inner)
        k, j = k + 1, j + 1
    return tuple(steps)


def transpose(x: Buffer, *, axes: tuple[int, ...]) -> Buffer:
    """View with permuted axes."""
    strides = x.strides
    return x.view(tuple(x.shape[k] for k in axes), tuple(strides[k] for k in axes))


def diagonal(x: Buffer) -> Buffer:
    """View of the diagonals of the last two axes."""
    strides = x.strides
    return x.view(x.shape[:-1], (*strides[:-2], strides[-1] + strides[-2]))


def embed_diagonal(x: Buffer) -> Buffer:
    """New matrices with the rows on their diagonals."""
    n = x.shape[-1]
    out = x.zeros((*x.shape, n), x.dtype)
    copy_into(diagonal(out), x)
    return out


def getitem(x: Buffer, *, key: Key) -> Buffer:
    """View by integers, slices, None and an ellipsis."""
    used = sum(part is not None and part is not Ellipsis for part in key)
    fill = (slice(None),) * (x.ndim - used)
    at = next((k for k, part in enumerate(key) if part is Ellipsis), len(key))
    parts = (*key[:at], *fill, *key[at + 1 :])
    shape, strides, offset, axis = [], [], 0, 0
    own = x.strides
    for part in parts:
        if part is None:
            shape.append(1)
            strides.append(0)
            continue
        n, step = x.shape[axis], own[axis]
        axis += 1
        if isinstance(part, slice):
            start, _, stride = part.indices(n)
            length = len(range(*part.indices(n)))
            shape.append(length)
            strides.append(step * stride)
            offset += start * step if length else 0
        else:
            offset += (part + n if part < 0 else part) * step
    return x.view(tuple(shape), tuple(strides), offset if math.prod(shape) else 0)


def embed(x: Buffer, *, shape: tuple[int, ...], key: Key) -> Buffer:
    """Zeros with x at the key."""
    out = x.zeros(shape, x.dtype)
    copy_into(getitem(out, key=key), x)
    return out


def add_at(target: Buffer, x: Buffer, *, key: Key) -> Buffer:
    """Copy with x added at the key."""
    return add_into(copied(target), x, key=key)


_adders: dict[np.dtype, MapKernel] = {}


def adder(dtype: np.dtype) -> MapKernel:
    """The sum of two operands of a type."""
    found = _adders.get(dtype)
    if found is None:
        found = _adders[dtype] = MapKernel("add", (ATOMS["add"](arg(0), arg(1)),), (dtype, dtype))
    return found


def add_into(target: Buffer, x: Buffer, *, key: Key) -> Buffer:
    """x added at the key, in place."""
    part = getitem(target, key=key)
    adder(target.dtype).write(target.device, (part, x), (part,))
    return target


def setitem(target: Buffer, x: Buffer, *, key: Key) -> Buffer:
    """Copy with the part at the key replaced."""
    out = copied(target)
    copy_into(getitem(out, key=key), x)
    return out


def concatenate(*parts: Buffer, axis: int) -> Buffer:
    """One array with the parts one after the other: a launch for each."""
    first = parts[0]
    length = sum(p.shape[axis] for p in parts)
    shape = (*first.shape[:axis], length, *first.shape[axis + 1 :])
    out = first.device.empty(shape, first.dtype)
    start = 0
    for part in parts:
        stop = start + part.shape[axis]
        copy_into(getitem(out, key=(*(slice(None),) * axis, slice(start, stop))), part)
        start = stop
    return out


def identity(x: Buffer) -> Buffer:
    """The same buffer."""
    return x
