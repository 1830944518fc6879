"""Operations that are a view of the same buffer, or one copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from numbagrad.kernels.cpu.copy import copied

Key = tuple[Any, ...]


def broadcast_to(x: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    """Read-only view with step 0 along new and length-1 axes."""
    extra = len(shape) - x.ndim
    steps = [s if n != 1 else 0 for s, n in zip(x.strides, x.shape, strict=True)]
    return (
        np.ndarray(shape, x.dtype, x, 0, (0,) * extra + tuple(steps))
        if x.flags.c_contiguous
        else np.broadcast_to(x, shape)
    )


def reshape(x: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    """View where the layout allows, else a copy in C order."""
    return x.reshape(shape) if x.flags.c_contiguous else _reshape(x, shape)


def _reshape(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    try:
        return np.reshape(x, shape, copy=False)
    except ValueError:
        return copied(x).reshape(shape)


def transpose(x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
    """View with permuted axes."""
    return x.transpose(axes)


def diagonal(x: np.ndarray) -> np.ndarray:
    """View of the diagonals of the last two axes."""
    return np.diagonal(x, axis1=-2, axis2=-1)


def embed_diagonal(x: np.ndarray) -> np.ndarray:
    """New matrices with the rows on their diagonals."""
    n = x.shape[-1]
    out = np.zeros((*x.shape, n), x.dtype)
    np.einsum("...ii->...i", out)[...] = x
    return out


def getitem(x: np.ndarray, *, key: Key) -> np.ndarray:
    """View; the ellipsis keeps NumPy from making a scalar of a single element."""
    return x[key] if Ellipsis in key else x[(*key, ...)]


def embed(x: np.ndarray, *, shape: tuple[int, ...], key: Key) -> np.ndarray:
    """Zeros with x at the key."""
    out = np.zeros(shape, x.dtype)
    out[key] = x
    return out


def add_at(target: np.ndarray, x: np.ndarray, *, key: Key) -> np.ndarray:
    """Copy with x added at the key."""
    return add_into(target.copy(), x, key=key)


def add_into(target: np.ndarray, x: np.ndarray, *, key: Key) -> np.ndarray:
    """x added at the key, in place."""
    part = getitem(target, key=key)
    np.add(part, x, out=part)
    return target


def setitem(target: np.ndarray, x: np.ndarray, *, key: Key) -> np.ndarray:
    """Copy with the part at the key replaced."""
    out = copied(target)
    out[key] = x
    return out


def concatenate(*parts: np.ndarray, axis: int) -> np.ndarray:
    """One array with the parts one after the other."""
    return np.concatenate(parts, axis)


def identity(x: np.ndarray) -> np.ndarray:
    """The same buffer."""
    return x
