"""The device "cuda-emulated": CUDA kernels compiled for the CPU, for tests and for looking for mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np

from numbagrad.kernels.cuda import emulator
from numbagrad.kernels.cuda.buffer import Buffer, Memory
from numbagrad.kernels.cuda.device import Device, Grid
from numbagrad.kernels.cuda.kernel import Kernel


def three(sizes: Grid) -> tuple[int, int, int]:
    """A grid or block in three dimensions."""
    given = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    return (*given, *(1,) * (3 - len(given)))  # type: ignore[return-value]


LIMITS = (2**31 - 1, 65535, 65535)


class EmulatedDevice(Device):
    """Memory is the process's own. Fresh memory is full of nan, so that what is not written shows."""

    name = "cuda-emulated"

    def __init__(self) -> None:
        super().__init__()
        self._compiled: dict[Kernel, emulator.EmulatedKernel] = {}

    def _allocate(self, size: int) -> tuple[int, Any, Any]:
        host = np.empty(size + 256, np.uint8)
        start = -host.ctypes.data % 256
        return host.ctypes.data + start, host, host[start : start + size]

    def _lend(self, owner: Any, size: int, rounded: int) -> Memory:
        owner[2][:] = 0xFF
        return Memory(self, owner[0], size, (owner, rounded), owner[2][:size])

    def _write(self, memory: Memory, address: int, host: np.ndarray) -> None:
        start = address - memory.address
        memory.host[start : start + host.nbytes] = host.reshape(-1).view(np.uint8)

    def _read(self, memory: Memory, address: int, host: np.ndarray) -> None:
        start = address - memory.address
        host.reshape(-1).view(np.uint8)[:] = memory.host[start : start + host.nbytes]

    def _wait(self) -> None:
        pass

    def launch(self, kernel: Kernel, grid: Grid, block: Grid, *args: Any) -> None:
        self.counts["launch"] += 1
        blocks, threads = three(grid), three(block)
        assert all(0 < n <= most for n, most in zip(blocks, LIMITS, strict=True)), f"{kernel.name}: a grid of {blocks}"
        assert 0 < threads[0] * threads[1] * threads[2] <= emulator.MAX_THREADS, f"{kernel.name}: a block of {threads}"
        compiled = self._compiled.get(kernel)
        if compiled is None:
            compiled = emulator.EmulatedKernel(kernel.name, kernel.source, kernel.signature)
            self._compiled[kernel] = compiled
        params = [pointer(a) if isinstance(a, Buffer) else a for a in args]
        memories = {id(a.memory): a.memory.host for a in args if isinstance(a, Buffer)}
        emulator.launch(compiled, blocks, threads, params, list(memories.values()))


def pointer(buffer: Buffer) -> tuple[int, int, int]:
    """Address of a buffer and which elements around it may be touched."""
    before, after = buffer.extent()
    return buffer.address, -before, after
