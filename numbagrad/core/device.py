"""Devices by name, moving values between them, and where new arrays go.

A value is on the device of the buffer at its bottom. Operands meet on one device: host data and single numbers go
where the Arrays are, Arrays themselves are moved by the user alone.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from numbagrad.config import OPENED
from numbagrad.core.errors import DeviceError
from numbagrad.core.registry import PRIMITIVES, Linear, mixed_devices
from numbagrad.core.trace import bind, concrete, device_of

ndarray = np.ndarray
CPU = "cpu"


def names() -> list[str]:
    """The CPU, and the GPUs that can be used."""
    return [CPU, *_cuda().available()]


def _cuda() -> Any:
    return importlib.import_module("numbagrad.kernels.cuda.devices")


def find(device: Any, op: str) -> Any:
    """The device of a name (or of another library's device object), None for the CPU; or the user's error."""
    name = str(getattr(device, "name", device))
    if name == CPU:
        return None
    try:
        return OPENED.get(name) or _cuda().find(name)
    except DeviceError as error:
        raise DeviceError(f"{op}: {str(error).removeprefix('device: ')}") from None


# --- moving


def _transfer_transpose(g: Any, x: Any, *, device: str, source: str) -> Any:
    return bind(transfer, (g,), {"device": source, "source": device})


class _Transfer(Linear):
    """A value on another device. Adjoint: the way back.

    Not in the table of primitives: it has no kernel, and its result is not where its operand is.
    """

    def __init__(self) -> None:
        self.name, self.home, self.outputs, self.doc = "device_put", "", 1, "A value on another device."
        self.transpose, self.all_linear, self.linear_in = _transfer_transpose, False, (0,)

    def run(self, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        (x,), name = args, params["device"]
        if name == CPU:
            return x if x.__class__ is ndarray else x.device.get(x)
        return _cuda().find(name).put(x)


transfer = _Transfer()


def move(value: Any, device: Any) -> Any:
    """A value, traced or not, on a device (None: the CPU)."""
    source, name = device_of(value), CPU if device is None else device.name
    return value if source == name else bind(transfer, (value,), {"device": name, "source": source})


def foreign(x: Any, op: str) -> Any:
    """A buffer that shares the memory of another library's array on a GPU; None if it is not on one."""
    if not hasattr(x, "__cuda_array_interface__"):
        ask = getattr(x, "__dlpack_device__", None)
        if ask is None or int(ask()[0]) != 2:  # kDLCUDA
            return None
    return interop().imported(x, op)


def host_bfloat16(x: Any, op: str) -> Any:
    """The memory of another library's bfloat16 array on the CPU; None for anything else."""
    named = str(getattr(x, "dtype", "")).endswith("bfloat16")
    return interop().host_bfloat16(x, op) if named and hasattr(x, "__dlpack__") else None


def interop() -> Any:
    """How memory is shared with other libraries."""
    return importlib.import_module("numbagrad.kernels.cuda.interop")


# --- where new arrays go


class _Inside(threading.local):
    """What the `with` blocks of a thread say, the innermost last."""

    def __init__(self) -> None:
        self.devices: list[Any] = []


_inside = _Inside()
_everywhere: list[Any] = [None]


class default_device:
    """Where new arrays go: creation functions, `asarray` of host data, calls on host data alone, random keys.

    Called, it says so for the whole program; in a `with` statement, for the block (and its thread).

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> with ng.default_device("cpu"):
    ...     np.zeros(3).device
    'cpu'
    """

    __slots__ = ("_before", "_device")

    def __init__(self, device: Any = CPU) -> None:
        self._device = find(CPU if device is None else device, "default_device")
        self._before = _everywhere[0]
        _everywhere[0] = self._device

    def __enter__(self) -> None:
        _everywhere[0] = self._before
        _inside.devices.append(self._device)

    def __exit__(self, *exception: Any) -> None:
        _inside.devices.pop()


def default() -> Any:
    """The device of new arrays, None for the CPU."""
    if not OPENED:
        return None
    inside = _inside.devices
    return inside[-1] if inside else _everywhere[0]


def chosen(device: Any, op: str) -> Any:
    """The device a function is told to make its result on: by its `device=`, else the default."""
    return default() if device is None else find(device, op)


def placed(host: ndarray, device: Any) -> Any:
    """Host data on a device (None: the CPU)."""
    return host if device is None else device.put(host)


def place_of(value: Any) -> Any:
    """The device a value is on, None for the CPU."""
    found = concrete(value)
    return None if found.__class__ is ndarray else found.device


def beside(made: Any, value: Any) -> Any:
    """A buffer made from a value's numbers, on the device of the value."""
    place = place_of(value)
    if place is not None:
        return place.put(made)
    return made if made.__class__ is ndarray else made.device.get(made)


# --- operands


def meet(op: str, *values: Any, numbers: bool = True) -> Sequence[Any]:
    """Operands that are Arrays (None: no operand), on one device: a single number of the CPU's comes to the others.

    `numbers`: one that is not traced may stay, a kernel takes it as it is.
    """
    place = None
    apart = False
    bottoms = [concrete(v) for v in values]
    for b in bottoms:
        if b.__class__ is not ndarray and b is not None:
            if place is not None and b.device is not place:
                raise mixed_devices(op, [v for v in values if v is not None])
            place = b.device
        elif b is not None:
            apart = True
    if place is None or not apart:
        return values
    for b in bottoms:
        if b.__class__ is ndarray and b.shape != ():
            raise mixed_devices(op, [v for v in values if v is not None])
    return [
        move(v, place) if b.__class__ is ndarray and not (numbers and v.__class__ is ndarray) else v
        for v, b in zip(values, bottoms, strict=True)
    ]


def gather(op: str, values: Sequence[Any], arrays: Sequence[bool], numbers: bool = True) -> Sequence[Any]:
    """Operands of any kind on one device: host data goes where the Arrays are, else where new arrays go.

    `arrays` tells which values come from Arrays. `numbers`: single numbers of the host's may stay where they are.
    """
    if True not in arrays:
        place = default()
        return values if place is None else [place.put(v) for v in values]
    met = meet(op, *[v if a else None for v, a in zip(values, arrays, strict=True)], numbers=numbers)
    place = next((b.device for b in map(concrete, met) if b is not None and b.__class__ is not ndarray), None)
    if place is None:
        return values
    return [
        m if a else v if numbers and v.shape == () else place.put(v)
        for m, v, a in zip(met, values, arrays, strict=True)
    ]


def report(op: str, wrong: Any) -> None:
    """Have the next wait for a device raise IndexError if any element of a boolean buffer there holds."""
    if wrong.size:
        axes = tuple(range(len(wrong.shape)))
        held = PRIMITIVES["convert"](PRIMITIVES["reduce_any"](wrong, axes=axes), np.dtype(np.int64))
        word = wrong.device.fault(op)
        PRIMITIVES["add"].run_into(word, PRIMITIVES["reshape"](held, shape=word.shape))
