"""A device that runs nothing: only the kernels that work on it would need are made, to compile them ahead of time."""

from __future__ import annotations

from typing import Any

import numpy as np

from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.device import Device, Grid
from numbagrad.kernels.cuda.kernel import Kernel


class RecordingDevice(Device):
    """Addresses without memory; what is read back is zeros. `kernels` are those launched, in order."""

    name = "cuda-recorder"

    def __init__(self) -> None:
        super().__init__()
        self.kernels: dict[Kernel, None] = {}
        self._next = 1 << 20

    def _allocate(self, size: int) -> tuple[int, Any]:
        self._next += size + 256
        address = self._next - self._next % 256
        return address, None

    def _write(self, buffer: Buffer, host: np.ndarray) -> None:
        pass

    def _read(self, buffer: Buffer, host: np.ndarray) -> None:
        host[...] = 0

    def _wait(self) -> None:
        pass

    def launch(self, kernel: Kernel, grid: Grid, block: Grid, *args: Any) -> None:
        self.launches += 1
        self.kernels[kernel] = None

    def run(self, kernel: Kernel, count: int, *args: Any) -> None:
        self.launches += 1
        self.kernels[kernel] = None
