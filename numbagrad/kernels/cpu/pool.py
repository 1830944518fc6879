"""Memory for results. Large arrays are recycled: a fresh 32 MB costs more in page faults than the arithmetic on it."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from numbagrad import config

_free: dict[int, list[np.ndarray]] = {}
_held = 0
_lock = threading.Lock()


class _Memory(np.ndarray):
    """Bytes that own themselves. Of a class of its own: NumPy replaces the base of a new view by the base's base
    wherever that is a plain array, and so would let go of the lease while the memory is in use."""


class _Lease(np.ndarray):
    """Bytes on loan; when the last array on them is gone they return to the pool."""

    def __del__(self) -> None:
        global _held
        owner = self.base
        # the module's names may be gone while the interpreter shuts down
        if owner is None or _free is None or _held + owner.size > config.POOL_MAX_BYTES:
            return
        _held += owner.size
        _free.setdefault(owner.size, []).append(owner)


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Uninitialised C-contiguous array."""
    size = math.prod(shape) * dtype.itemsize
    if size < config.POOL_MIN_BYTES:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, _lease(size))  # type: ignore[arg-type]


def _lease(size: int) -> Any:
    global _held
    # eight sizes per power of two: at most 12% is wasted, and sizes that differ a little share buffers
    step = max(1 << 12, 1 << (size.bit_length() - 4))
    size = -(-size // step) * step
    try:
        owner = _free[size].pop()
        _held -= size
    except (KeyError, IndexError):
        owner = _Memory((size,), np.uint8)
    return owner.view(_Lease)


def clear() -> None:
    """Give the pool's free memory back to the system."""
    global _held
    with _lock:
        _free.clear()
        _held = 0
