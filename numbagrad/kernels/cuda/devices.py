"""CUDA devices by name: opened when first asked for, then kept."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache

from numbagrad.config import OPENED
from numbagrad.core.errors import DeviceError, message
from numbagrad.kernels.cuda.device import Device

_lock = threading.Lock()


def find(name: str) -> Device:
    """The device of a name: "cuda" (the first), "cuda:1", "cuda-emulated"."""
    if name == "cuda":
        name = "cuda:0"
    found = OPENED.get(name)
    if found is None:
        with _lock:
            found = OPENED.get(name) or OPENED.setdefault(name, _open(name))
    return found


def _open(name: str) -> Device:
    if name == "cuda-emulated":
        from numbagrad.kernels.cuda.emulated_device import EmulatedDevice

        return EmulatedDevice()
    number = name.removeprefix("cuda:")
    if not number.isdecimal():
        known = '"cpu", "cuda", "cuda:1" and so on, "cuda-emulated"'
        raise DeviceError(message("device", "there is no such device", repr(name), known))
    from numbagrad.kernels.cuda.driver import DriverDevice

    return DriverDevice(int(number))


@cache
def _names() -> tuple[str, ...]:
    try:
        from numbagrad.kernels.cuda.driver import count
    except ImportError:
        return ()
    return tuple(f"cuda:{k}" for k in range(count()))


def available() -> Sequence[str]:
    """Names of the NVIDIA GPUs that can be used."""
    return _names()
