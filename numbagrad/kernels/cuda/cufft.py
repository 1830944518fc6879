"""cuFFT through nvmath.bindings, where both are installed: transforms of the rows of a buffer, any length."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np

from numbagrad.kernels.cuda.buffer import Buffer

C2C, Z2Z = 41, 105  # cufftType
FORWARD, INVERSE = -1, 1
PLANS = 64  # kept at most: cuFFT holds memory of its own for each


@cache
def bindings() -> Any:
    """The module, or None."""
    try:
        from nvmath.bindings import cufft
    except ImportError:
        return None
    return cufft


def usable(device: Any) -> bool:
    """Whether a device has a stream that cuFFT can work on, and cuFFT is there."""
    return getattr(device, "stream", None) is not None and bindings() is not None and _present()


@cache
def _present() -> bool:
    library = bindings()
    try:
        library.destroy(library.create())
    except RuntimeError:  # the bindings are installed, cuFFT is not
        return False
    return True


class _Plan:
    """cuFFT's plan for rows of one length."""

    def __init__(self, device: Any, n: int, rows: int, kind: int) -> None:
        self.library = bindings()
        self.number = self.library.create()
        self.library.make_plan_many64(self.number, 1, [n], [n], 1, n, [n], 1, n, kind, rows)
        self.library.set_stream(self.number, int(device.stream.handle))

    def __del__(self) -> None:
        if hasattr(self, "number"):
            self.library.destroy(self.number)


_plan = lru_cache(PLANS)(_Plan)


def transform(x: Buffer, n: int, inverse: bool) -> Buffer:
    """Transform of the rows of a buffer (rows, n) in C order."""
    single = x.dtype == np.complex64
    plan = _plan(x.device, n, x.size // n, C2C if single else Z2Z)
    out = x.device.empty(x.shape, x.dtype)
    run = plan.library.exec_c2c if single else plan.library.exec_z2z
    run(plan.number, x.address, out.address, INVERSE if inverse else FORWARD)
    return out
