"""Kernels under Numba's CUDA simulator: plain Python, one thread of the system per CUDA thread. Run as a script.

Slow (some 10 ms a barrier and block) and without shuffles, but written by others: a second opinion on what the
kernels mean. Prints what it has compared.
"""

from __future__ import annotations

import os

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"

import math
import sys
import types
import warnings
from typing import Any

import numpy as onp
from numba import cuda

from numbagrad.kernels.cuda import emulator
from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.emulated_device import EmulatedDevice, memory_of, root_of, three
from numbagrad.kernels.cuda.kernel import Kernel
from numbagrad.scalar import functions, gpu

warnings.simplefilter("ignore")  # NumPy's integers warn where a kernel's wrap


def _vectors(width: int) -> tuple[Any, Any]:
    def load(p: Any, i: Any) -> Any:
        return tuple(p[int(i) + k] for k in range(width))

    def store(p: Any, i: Any, values: Any) -> None:
        for k, v in enumerate(values):
            p[int(i) + k] = v

    return load, store


def frontend() -> types.ModuleType:
    """What kernels import, for the simulator."""
    module = types.ModuleType("simulated_frontend")
    for name in "uint8 uint16 uint32 uint64 int8 int16 int32 int64 float32 float64 complex64 complex128".split():
        setattr(module, name, getattr(onp, name))
    module.boolean = bool
    module.cuda = cuda
    for width in (2, 4):
        load, store = _vectors(width)
        setattr(module, f"load{width}", load)
        setattr(module, f"store{width}", store)
    module.exp2, module.cbrt = onp.exp2, onp.cbrt
    module.round_down, module.round_up = math.floor, math.ceil
    for home in (gpu, functions):
        for name, found in vars(home).items():
            if hasattr(found, "py_func") and not hasattr(module, name):
                setattr(module, name, found.py_func)
    return module


class Pointer:
    """An address into a buffer's memory: indices count from it, backwards too."""

    def __init__(self, buffer: Buffer, dtype: str) -> None:
        root = root_of(buffer)
        self.items = memory_of(root).view(dtype)
        self.start = (buffer.address - root.address) // buffer.itemsize

    def _place(self, i: Any) -> int:
        k = self.start + int(i)
        assert 0 <= k < self.items.size, f"index {i} is outside"
        return k

    def __getitem__(self, i: Any) -> Any:
        return self.items[self._place(i)]

    def __setitem__(self, i: Any, value: Any) -> None:
        self.items[self._place(i)] = value


class SimulatedDevice(EmulatedDevice):
    """The emulated device with the simulator in place of compiled code."""

    name = "cuda-simulated"

    def launch(self, kernel: Kernel, grid: Any, block: Any, *args: Any) -> None:
        space: dict[str, Any] = {"__name__": kernel.name}
        exec(compile(kernel.source, f"<{kernel.name}>", "exec"), space)
        function = space[kernel.name]
        given = [
            Pointer(a, emulator.TYPES[kind.rstrip("*")])
            if isinstance(a, Buffer)
            else onp.dtype(emulator.TYPES[kind]).type(a)
            for a, kind in zip(args, kernel.signature, strict=True)
        ]
        function[three(grid), three(block)](*given)


def compare(name: str, got: Any, want: Any) -> None:
    onp.testing.assert_allclose(onp.asarray(got), want, rtol=1e-5, atol=1e-6, err_msg=name)
    print("same", name)


def main() -> None:
    sys.modules["numbagrad.kernels.cuda.frontend"] = frontend()
    import numbagrad as ng
    import numbagrad.numpy as np
    from numbagrad import lax
    from numbagrad.core.array import Array

    device = SimulatedDevice()
    rng = onp.random.default_rng(0)

    def put(x: Any) -> Array:
        return Array(device.put(onp.asarray(x)))

    x, y = rng.standard_normal((2, 5, 7)).astype("float32")
    compare("vectors", np.tanh(put(x)) * put(y), onp.tanh(x) * y)
    compare("strided", put(x)[:, ::2] + put(y)[::-1, ::2], x[:, ::2] + y[::-1, ::2])
    square = rng.standard_normal((33, 34)).astype("float32")
    compare("transposed copy", put(square).T.reshape(-1), square.T.reshape(-1))
    compare("gradient", ng.grad(lambda a: np.tanh(a * 2.0)[0])(put(x[0])), [2 / onp.cosh(2 * x[0, 0]) ** 2, *[0] * 6])
    index = onp.array([3, 0, 3, 4])
    compare("take", put(x)[put(index)], x[index])
    compare("pool", lax.reduce_window(put(x), -onp.inf, lax.max, (2, 2), (1, 1), "VALID"), pool(x))
    compare("searchsorted", np.searchsorted(put(onp.sort(x[0])), put(y[0])), onp.searchsorted(onp.sort(x[0]), y[0]))


def pool(x: onp.ndarray) -> onp.ndarray:
    parts = [x[i : x.shape[0] - 1 + i, j : x.shape[1] - 1 + j] for i in (0, 1) for j in (0, 1)]
    return onp.maximum.reduce(parts)


if __name__ == "__main__":
    main()
