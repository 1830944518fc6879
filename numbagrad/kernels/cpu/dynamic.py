"""Parts of an array whose place is data: starts are moved until the part fits."""

from __future__ import annotations

import numpy as np

from numbagrad.kernels.cpu.copy import copied
from numbagrad.kernels.cpu.views import getitem


def _part(shape: tuple[int, ...], starts: np.ndarray, sizes: tuple[int, ...]) -> tuple[slice, ...]:
    places = zip(starts.tolist(), shape, sizes, strict=True)
    begins = [max(0, min(s + n if s < 0 else s, n - w)) for s, n, w in places]
    return tuple(slice(b, b + w) for b, w in zip(begins, sizes, strict=True))


def dynamic_slice(x: np.ndarray, starts: np.ndarray, *, sizes: tuple[int, ...]) -> np.ndarray:
    """View of the part."""
    return getitem(x, key=_part(x.shape, starts, sizes))


def dynamic_update_slice(target: np.ndarray, x: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Copy with the part replaced."""
    out = copied(target)
    out[_part(target.shape, starts, x.shape)] = x
    return out


def dynamic_add_slice(target: np.ndarray, x: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Copy with x added to the part."""
    return dynamic_add_slice_into(copied(target), x, starts)


def dynamic_add_slice_into(target: np.ndarray, x: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """x added to the part, in place."""
    part = getitem(target, key=_part(target.shape, starts, x.shape))
    np.add(part, x, out=part)
    return target
