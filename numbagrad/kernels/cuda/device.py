"""What all CUDA devices share: memory, transfers and launches.

All work of a device goes in order onto one stream, so memory can be used again as soon as it is released. Nothing here
waits for the device but `get` and `synchronize`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from numbagrad import config
from numbagrad.core.errors import message
from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.kernel import Kernel

Grid = int | tuple[int, ...]
FAULTS = 64  # operations that can report an index out of range, by name


class Device:
    """What all devices share; a subclass gives memory, copies and launches."""

    platform = "cuda"  # whose kernels it runs, see core/registry.py
    name: str

    def __init__(self) -> None:
        self._free: dict[int, list[Any]] = {}
        self._held = 0
        self.launches = 0
        self._counts = {"allocate": 0, "put": 0, "get": 0, "synchronize": 0}
        self._faults: Buffer | None = None
        self._fault_slots: dict[str, int] = {}
        self._fault_words: dict[str, Buffer] = {}
        self._suspects: set[str] = set()  # operations since the last look that may have met a wrong index

    @property
    def counts(self) -> dict[str, int]:
        """What was asked of the device so far."""
        return {"launch": self.launches, **self._counts}

    # --- what a subclass does

    def _allocate(self, size: int) -> tuple[int, Any]:
        """Address of new memory, and what owns it."""
        raise NotImplementedError

    def _write(self, buffer: Buffer, host: np.ndarray) -> None:
        raise NotImplementedError

    def _read(self, buffer: Buffer, host: np.ndarray) -> None:
        raise NotImplementedError

    def _wait(self) -> None:
        raise NotImplementedError

    def launch(self, kernel: Kernel, grid: Grid, block: Grid, *args: Any) -> None:
        """Run a kernel on a grid of blocks. Arguments: buffers, and numbers (floats as NumPy scalars)."""
        raise NotImplementedError

    def run(self, kernel: Kernel, count: int, *args: Any) -> None:
        """The same for a row of blocks of the usual size, with addresses in place of buffers."""
        raise NotImplementedError

    # --- memory

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Buffer:
        """Uninitialised buffer in C order, from the pool if that has memory of about its size."""
        size = 1
        for n in shape:  # math.prod costs more for the two or three axes there are
            size *= n
        lent = _rounded.get(size * dtype.itemsize) or _round(size * dtype.itemsize)
        free = self._free.get(lent)
        if free:
            try:
                owner = free.pop()
                self._held -= lent
                return Buffer(self, owner[0], shape, dtype, size, None, None, owner, lent)
            except IndexError:  # another thread took it
                pass
        self._counts["allocate"] += 1
        owner = self._allocate(lent)
        return Buffer(self, owner[0], shape, dtype, size, None, None, owner, lent)

    def release(self, owner: Any, lent: int) -> None:
        """Take memory back; called when its last buffer is gone."""
        if self._held + lent <= config.POOL_MAX_BYTES:
            self._held += lent
            try:
                self._free[lent].append(owner)
            except KeyError:
                self._free[lent] = [owner]

    def clear(self) -> None:
        """Give the pool's free memory back."""
        self._free.clear()
        self._held = 0

    def full(self, shape: tuple[int, ...], value: Any, dtype: np.dtype) -> Buffer:
        """A buffer of one value everywhere."""
        from numbagrad.kernels.cuda.copy import filled

        return filled(self, shape, value, dtype)

    def copy(self, buffer: Buffer) -> Buffer:
        """A copy in C order."""
        from numbagrad.kernels.cuda.copy import copied

        return copied(buffer)

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype) -> Buffer:
        """A buffer of zeros of its own."""
        return self.full(shape, 0, dtype)

    # --- transfers

    def put(self, host: Any) -> Buffer:
        """A NumPy array in this device's memory. What is one element over and over stays so."""
        if isinstance(host, Buffer):
            return host if host.device is self else self.put(np.asarray(host))
        if host.size and not any(s for s, n in zip(host.strides, host.shape, strict=True) if n != 1):
            cell = self.full((), host.reshape(-1)[:1].reshape(()), host.dtype)
            return cell.view(host.shape, tuple(0 for _ in host.shape)) if host.ndim else cell
        self._counts["put"] += 1
        out = self.empty(host.shape, host.dtype)
        if host.size:
            self._write(out, np.ascontiguousarray(host))
        return out

    def get(self, buffer: Buffer) -> np.ndarray:
        """The elements as a NumPy array; waits for them."""
        from numbagrad.kernels.cuda.copy import contiguous

        cell = buffer.size and not buffer.flat and not any(buffer.strides)
        source = buffer.view((), ()) if cell else contiguous(buffer)
        host = np.empty(source.shape, source.dtype)
        self._counts["get"] += 1
        if host.size:
            self._read(source, host)
        self._check_faults()
        return np.broadcast_to(host, buffer.shape) if cell else host

    def synchronize(self) -> None:
        """Wait until everything launched is done."""
        self._counts["synchronize"] += 1
        self._wait()
        self._check_faults()

    # --- indices out of range: kernels note them, and the next wait raises

    def fault(self, op: str) -> Buffer:
        """A word that a kernel sets to 1 where it meets an index out of range."""
        self._suspects.add(op)
        found = self._fault_words.get(op)
        if found is None:
            if self._faults is None:
                self._faults = self.full((FAULTS,), 0, np.dtype(np.int64))
            slot = self._fault_slots.setdefault(op, len(self._fault_slots))
            found = self._fault_words[op] = self._faults.view((1,), None, 8 * slot)
        return found

    def _check_faults(self) -> None:
        if not self._suspects:
            return
        faults = self._faults
        assert faults is not None
        suspects, self._suspects = self._suspects, set()
        host = np.empty(FAULTS, np.int64)
        self._read(faults, host)
        wrong = [op for op in suspects if host[self._fault_slots[op]]]
        if wrong:
            self._faults = None
            self._fault_words.clear()
            step = "The result of that call is not to be used. On the CPU the same call says which index."
            raise IndexError(
                message(
                    wrong[0],
                    f"an index is out of range (found on {self.name})",
                    "an index outside",
                    "-n to n - 1",
                    step,
                )
            )


_rounded: dict[int, int] = {}  # sizes of memory met so far, and what is taken for them


def _round(size: int) -> int:
    """Eight sizes per power of two: at most 12 % is wasted, and sizes that differ a little share memory."""
    step = max(512, 1 << max(0, size.bit_length() - 4))
    rounded = max(512, -(-size // step) * step)
    if len(_rounded) < 1 << 16:
        _rounded[size] = rounded
    return rounded
