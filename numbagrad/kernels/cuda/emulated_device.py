"""The device "cuda-emulated": CUDA kernels compiled for the CPU, for tests and for looking for mistakes."""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from numbagrad.kernels.cuda import emulator
from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.device import Device, Grid
from numbagrad.kernels.cuda.kernel import THREADS, Kernel


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
        self._live: WeakValueDictionary[int, Buffer] = WeakValueDictionary()  # by address, for `run`

    def _allocate(self, size: int) -> tuple[int, Any]:
        host = np.empty(size + 256, np.uint8)
        start = -host.ctypes.data % 256
        return host.ctypes.data + start, host[start : start + size]

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Buffer:
        out = super().empty(shape, dtype)
        out.owner[1][:] = 0xFF
        self._live[out.address] = out
        return out

    def _write(self, buffer: Buffer, host: np.ndarray) -> None:
        memory_of(buffer)[: host.nbytes] = host.reshape(-1).view(np.uint8)

    def _read(self, buffer: Buffer, host: np.ndarray) -> None:
        host.reshape(-1).view(np.uint8)[:] = memory_of(buffer)[: host.nbytes]

    def _wait(self) -> None:
        pass

    def launch(self, kernel: Kernel, grid: Grid, block: Grid, *args: Any) -> None:
        self.launches += 1
        blocks, threads = three(grid), three(block)
        assert all(0 < n <= most for n, most in zip(blocks, LIMITS, strict=True)), f"{kernel.name}: a grid of {blocks}"
        assert 0 < threads[0] * threads[1] * threads[2] <= emulator.MAX_THREADS, f"{kernel.name}: a block of {threads}"
        compiled = self._compiled.get(kernel)
        if compiled is None:
            compiled = emulator.EmulatedKernel(kernel.name, kernel.source, kernel.signature)
            self._compiled[kernel] = compiled
        pairs = zip(args, kernel.signature, strict=True)
        params = [pointer(a, kind) if isinstance(a, Buffer) else a for a, kind in pairs]
        roots = {id(root): root for root in (root_of(a) for a in args if isinstance(a, Buffer))}
        emulator.launch(compiled, blocks, threads, params, [memory_of(root) for root in roots.values()])

    def run(self, kernel: Kernel, count: int, *args: Any) -> None:
        given = [self._at(a) if t.endswith("*") else a for a, t in zip(args, kernel.signature, strict=True)]
        self.launch(kernel, count, THREADS, *given)

    def _at(self, address: int) -> Buffer:
        """What of the device's memory lies from an address on."""
        for root in list(self._live.values()):
            if root.address <= address < root.address + max(1, root.nbytes):
                return root.view(root.shape, None, address - root.address)
        raise AssertionError(f"{address:#x} is no address on {self.name}")


def root_of(buffer: Buffer) -> Buffer:
    """The buffer that owns the memory."""
    return buffer if buffer.base is None else buffer.base


def memory_of(buffer: Buffer) -> np.ndarray:
    """The bytes from a buffer's address to the end of the memory that was asked for."""
    root = root_of(buffer)
    return root.owner[1][buffer.address - root.address : root.nbytes]


def pointer(buffer: Buffer, kind: str) -> tuple[int, int, int]:
    """Address of a buffer and which elements around it may be touched, in the kernel's type: it may be another."""
    before, after = buffer.extent()
    item, own = np.dtype(emulator.TYPES[kind.rstrip("*")]).itemsize, buffer.itemsize
    return buffer.address, -(before * own // item), after * own // item


def number(kernel: Kernel, value: Any, kind: str) -> Any:
    """A launch's number, if a real launch would pass it rightly: 8 bytes of an int, 8 of a float."""
    fits = not isinstance(value, int) or (kind[0] != "f" and -(2**63) <= value < 2**63)
    typed = not isinstance(value, float) or isinstance(value, np.floating) or kind == "f64"
    assert fits and typed, f"{kernel.name}: {value!r} does not go as {kind}: got {type(value)}; needed a NumPy scalar"
    return value
