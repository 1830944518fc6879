"""NVIDIA GPUs through cuda.core: memory from the driver's stream-ordered pool, launches on the default stream.

numba-cuda's own launcher takes 19 to 41 us a call (measured without a GPU, on a driver that does nothing), cuda.core's
half a microsecond for three pointers and a size. The legacy default stream is the one that PyTorch, CuPy and JAX's
interchange use when nothing else is said, so work that is handed over is in order.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from numbagrad.core.errors import DeviceError, message
from numbagrad.kernels.cuda import cubin
from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.device import Device, Grid
from numbagrad.kernels.cuda.kernel import THREADS, Kernel

CONFIGS = 4096  # launch configurations kept at most


@cache
def count() -> int:
    """Number of GPUs the driver offers; 0 without a driver."""
    try:
        from cuda.bindings import driver
    except ImportError:
        return 0
    try:
        if driver.cuInit(0)[0] != driver.CUresult.CUDA_SUCCESS:
            return 0
        return int(driver.cuDeviceGetCount()[1])
    except RuntimeError:  # no libcuda
        return 0


def _require(number: int) -> None:
    try:
        import cuda.core  # noqa: F401
    except ImportError as error:
        raise DeviceError(
            message("device", "the CUDA packages are not installed", error, "cuda-core and numba-cuda", cubin.STEP)
        ) from None
    have = count()
    if number >= have:
        found = f"{have} GPU{'s' if have != 1 else ''} that the NVIDIA driver offers"
        step = 'Look at nvidia-smi; "cuda-emulated" runs the same kernels on the CPU, slowly.'
        raise DeviceError(message("device", f"there is no cuda:{number}", found, f"at least {number + 1}", step))


class DriverDevice(Device):
    """One GPU."""

    def __init__(self, number: int) -> None:
        super().__init__()
        _require(number)
        from cuda.core import Device as CoreDevice
        from cuda.core import LaunchConfig, ObjectCode, launch

        self.name, self.number = f"cuda:{number}", number
        self._core = CoreDevice(number)
        self._core.set_current()
        self.stream = self._core.default_stream
        major, minor = self._core.compute_capability
        self.arch = f"sm_{major}{minor}"
        self._launch, self._config_class, self._object_code = launch, LaunchConfig, ObjectCode
        self._configs: dict[Any, Any] = {}
        self._rows: dict[int, Any] = {}
        self._handles: dict[Kernel, Any] = {}
        self._keep: list[Any] = []

    def _allocate(self, size: int) -> tuple[int, Any]:
        block = self._core.allocate(size, stream=self.stream)
        return int(block.handle), block

    def _write(self, buffer: Buffer, host: np.ndarray) -> None:
        # from pageable memory the driver has read all of it when this returns
        self._copy("cuMemcpyHtoDAsync", buffer.address, host.ctypes.data, host.nbytes)

    def _read(self, buffer: Buffer, host: np.ndarray) -> None:
        self._copy("cuMemcpyDtoHAsync", host.ctypes.data, buffer.address, host.nbytes)
        self._wait()

    def _copy(self, function: str, to: int, source: int, size: int) -> None:
        from cuda.bindings import driver

        (status,) = getattr(driver, function)(to, source, size, driver.CUstream(int(self.stream.handle)))
        if status != driver.CUresult.CUDA_SUCCESS:
            raise DeviceError(message("copy", f"the driver of {self.name} refused", status.name, "CUDA_SUCCESS"))

    def _wait(self) -> None:
        self.stream.sync()

    def launch(self, kernel: Kernel, grid: Grid, block: Grid, *args: Any) -> None:
        config = self._configs.get((grid, block)) or self._config(grid, block)
        handle = self._handles.get(kernel) or self._load(kernel)
        self.launches += 1
        # integers go as 8 bytes each, of which the kernel reads as many as its parameter has
        self._launch(self.stream, config, handle, *[a.address if a.__class__ is Buffer else a for a in args])

    def run(self, kernel: Kernel, count: int, *args: Any) -> None:
        config = self._rows.get(count) or self._row(count)
        self.launches += 1
        self._launch(self.stream, config, self._handles.get(kernel) or self._load(kernel), *args)

    def _row(self, count: int) -> Any:
        if len(self._rows) > CONFIGS:
            self._rows.clear()
        config = self._rows[count] = self._config_class(grid=count, block=THREADS)
        return config

    def _config(self, grid: Grid, block: Grid) -> Any:
        if len(self._configs) > CONFIGS:
            self._configs.clear()
        config = self._configs[grid, block] = self._config_class(grid=grid, block=block)
        return config

    def _load(self, kernel: Kernel) -> Any:
        code, entry = cubin.cubin(kernel, self.arch)
        module = self._object_code.from_cubin(code)
        handle = module.get_kernel(entry)
        self._keep.append(module)
        self._handles[kernel] = handle
        return handle
