"""Buffer: an array in a device's memory, immutable to its users; views share memory and keep it alive.

A buffer stands where a NumPy array stands on the CPU: it is a value that primitives take and give. Reading it
(`numpy.asarray`, `item`) waits for the device; nothing else does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Byte strides of C order."""
    strides, step = [], itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


class Buffer:
    """Elements of a dtype from an address on, `strides` bytes apart. `flat`: they are one run in C order.

    `base` is the buffer whose memory this is a view of. Without one the memory is its own: `owner` is what the device
    lent it, `lent` how many bytes, and they go back to the device's pool with the buffer. (One object for both: an
    eager operation has 3 us in all, and making an object of a class in Python takes 0.25.)
    """

    __slots__ = (
        "__weakref__",
        "_strides",
        "address",
        "base",
        "device",
        "dtype",
        "flat",
        "lent",
        "owner",
        "shape",
        "size",
    )
    level = 0  # no transform watches it
    __array_priority__ = 2000

    def __init__(
        self,
        device: Any,
        address: int,
        shape: tuple[int, ...],
        dtype: np.dtype,
        size: int,
        strides: tuple[int, ...] | None = None,
        base: Any = None,
        owner: Any = None,
        lent: int = 0,
    ) -> None:
        self.device, self.address, self.shape, self.dtype, self.size = device, address, shape, dtype, size
        self._strides, self.base, self.owner, self.lent = strides, base, owner, lent
        self.flat = strides is None

    def __del__(self) -> None:
        if self.lent:
            self.device.release(self.owner, self.lent)

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis."""
        return contiguous_strides(self.shape, self.dtype.itemsize) if self._strides is None else self._strides

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    def view(self, shape: tuple[int, ...], strides: tuple[int, ...] | None, offset: int = 0) -> Buffer:
        """The same memory under another shape; strides None: in C order, which the caller knows."""
        size = math.prod(shape)
        if strides is not None and is_flat(shape, strides, self.dtype.itemsize):
            strides = None
        base = self if self.base is None else self.base
        return Buffer(self.device, self.address + offset, shape, self.dtype, size, strides, base)

    def typed(self, dtype: np.dtype) -> Buffer:
        """The same bytes as elements of another type of the same size."""
        base = self if self.base is None else self.base
        return Buffer(self.device, self.address, self.shape, np.dtype(dtype), self.size, self._strides, base)

    def extent(self) -> tuple[int, int]:
        """How many elements of the memory lie before the address, and from it on."""
        root = self.base if isinstance(self.base, Buffer) else self
        before = (self.address - root.address) // self.dtype.itemsize
        after = (root.address + root.nbytes - self.address) // self.dtype.itemsize
        return before, after

    def copy(self) -> Buffer:
        """A copy in C order."""
        return self.device.copy(self)

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype) -> Buffer:
        """New zeros on the same device."""
        return self.device.zeros(shape, dtype)

    def put(self, host: np.ndarray) -> Buffer:
        """A NumPy array on the same device."""
        return self.device.put(host)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = self.device.get(self)
        return found if dtype is None else found.astype(dtype, copy=False)

    def item(self) -> Any:
        """The single element as a Python number."""
        return self.device.get(self).item()

    def __repr__(self) -> str:
        return f"<buffer {self.dtype}{list(self.shape)} on {self.device.name}>"


def is_flat(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Whether elements are one run in C order; axes of length 1 do not count, empty arrays are."""
    step = itemsize
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        if n == 0:
            return True
        if n != 1 and s != step:
            return False
        step *= n
    return True
