"""Sharing memory with other libraries: `__cuda_array_interface__` (version 3) and DLPack, both ways.

All work here is on the legacy default stream, which both protocols name 1; who uses another one is waited for.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from numbagrad.core.dtypes import bfloat16, check_dtype
from numbagrad.core.errors import DeviceError, message
from numbagrad.kernels.cuda.buffer import Buffer, is_flat
from numbagrad.kernels.cuda.devices import find

CPU, CUDA = 1, 2  # device types of DLPack
STREAM = 1
_CODES = {"i": 0, "u": 1, "f": 2, "V": 4, "c": 5, "b": 6}  # V: bfloat16


def interface(buffer: Buffer) -> dict[str, Any]:
    """The `__cuda_array_interface__` of a buffer."""
    if buffer.dtype.kind == "V":
        raise AttributeError("__cuda_array_interface__ has no name for bfloat16: use DLPack")
    return {
        "shape": buffer.shape,
        "typestr": buffer.dtype.str,
        "data": (buffer.address if buffer.size else 0, False),
        "strides": None if buffer.flat else buffer.strides,
        "version": 3,
        "stream": STREAM,
    }


# --- from other libraries


def imported(x: Any, op: str) -> Buffer:
    """The memory of another library's object, which is kept alive."""
    if not hasattr(x, "__cuda_array_interface__"):
        return _from_dlpack(x, op)
    given = x.__cuda_array_interface__
    if given.get("mask") is not None:
        raise TypeError(message(op, "masked arrays are not supported", "a mask", "an array without one"))
    dtype, address = np.dtype(given["typestr"]), given["data"][0]
    _wait_for(given.get("stream"))
    return shared(f"cuda:{_ordinal(address)}", address, tuple(given["shape"]), dtype, given.get("strides"), x, op)


def _from_dlpack(x: Any, op: str) -> Buffer:
    from cuda.core.utils import StridedMemoryView

    view = StridedMemoryView.from_dlpack(x, stream_ptr=STREAM)
    strides = None if view.strides is None else tuple(s * view.dtype.itemsize for s in view.strides)
    return shared(f"cuda:{view.device_id}", view.ptr, tuple(view.shape), view.dtype, strides, view, op)


def shared(
    name: str, address: int, shape: tuple[int, ...], dtype: np.dtype, strides: Any, keeper: Any, op: str
) -> Buffer:
    """A buffer in memory that is not ours, alive as long as `keeper` is."""
    if check_dtype(op, dtype) != dtype:
        raise TypeError(message(op, "foreign byte order", dtype, "the machine's own"))
    if strides is not None:
        if any(s % dtype.itemsize for s in strides):
            raise ValueError(message(op, "elements do not lie at multiples of their size", strides, "other strides"))
        strides = None if is_flat(shape, strides, dtype.itemsize) else tuple(strides)
    return Buffer(find(name), address, shape, dtype, math.prod(shape), strides, keeper)


def _driver() -> Any:
    from cuda.bindings import driver

    return driver


def _ordinal(address: int) -> int:
    """Number of the GPU that memory is on."""
    if not address:  # an empty array
        return 0
    driver = _driver()
    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    status, number = driver.cuPointerGetAttribute(attribute, address)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise DeviceError(message("asarray", "no GPU knows the memory", status.name, "memory of a GPU"))
    return int(number)


def _wait_for(stream: int | None) -> None:
    """Until a producer's stream has done its work; nothing for ours, whose work is in order."""
    if stream not in (None, STREAM):
        _driver().cuStreamSynchronize(_driver().CUstream(stream))


def host_bfloat16(x: Any, op: str) -> np.ndarray:
    """The memory of another library's bfloat16 array on the CPU, which NumPy does not take."""
    given = x.__dlpack__()  # nobody consumes it: the memory lives as long as the capsule does
    address = _api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(given, b"dltensor")
    tensor = _Managed.from_address(address).tensor
    if (tensor.code, tensor.bits, tensor.device_type) != (_CODES["V"], 16, CPU):
        raise TypeError(message(op, "not bfloat16 on the CPU", f"{type(x).__name__} of {x.dtype}", "its own dtype"))
    shape = tuple(tensor.shape[: tensor.ndim])
    steps = tensor.strides[: tensor.ndim] if tensor.strides else None
    if 0 in shape:
        return np.empty(shape, bfloat16(op))
    count = 1 + sum((n - 1) * s for n, s in zip(shape, steps, strict=True)) if steps else math.prod(shape)
    memory = (ctypes.c_uint16 * count).from_address(tensor.data + tensor.byte_offset)
    memory.keeper = given
    strides = None if steps is None else tuple(2 * s for s in steps)
    return np.ndarray(shape, bfloat16(op), memory, 0, strides)


# --- to other libraries, by DLPack


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_alive: dict[int, Any] = {}  # what capsules and their consumers hold, by address of the managed tensor


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _delete(managed: int) -> None:
    _alive.pop(managed, None)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _destroy(capsule: int) -> None:
    """Called with a capsule that goes: one that nobody took is still ours."""
    for name in (b"dltensor", b"dltensor_versioned"):
        if _api("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(capsule, name):
            _alive.pop(_api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(capsule, name))


def _api(name: str, result: Any, *parameters: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *parameters)((name, ctypes.pythonapi))


def place(buffer: Any) -> tuple[int, int]:
    """DLPack's device of a buffer; the emulated device's memory is the CPU's."""
    number = getattr(getattr(buffer, "device", None), "number", None)
    return (CPU, 0) if number is None else (CUDA, number)


def capsule(buffer: Any, stream: Any = None, max_version: Any = None) -> Any:
    """A DLPack capsule that shares the memory of a buffer (or NumPy array) and keeps it alive."""
    on_host = isinstance(buffer, np.ndarray)
    if not on_host and stream not in (None, -1, 0, STREAM):
        buffer.device.synchronize()
    n = len(buffer.shape)
    sizes = (ctypes.c_int64 * max(n, 1))(*buffer.shape)
    steps = (ctypes.c_int64 * max(n, 1))(*(s // buffer.itemsize for s in buffer.strides))
    kind, number = place(buffer)
    bits = 8 * buffer.itemsize
    address = buffer.ctypes.data if on_host else buffer.address
    tensor = _Tensor(address, kind, number, n, _CODES[buffer.dtype.kind], bits, 1, sizes, steps, 0)
    delete = ctypes.cast(_delete, ctypes.c_void_p)
    versioned = max_version is not None and max_version[0] >= 1
    managed = _Versioned(1, 0, None, delete, 0, tensor) if versioned else _Managed(tensor, None, delete)
    address = ctypes.addressof(managed)
    _alive[address] = (managed, sizes, steps, buffer)
    new = _api("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(address, b"dltensor_versioned" if versioned else b"dltensor", ctypes.cast(_destroy, ctypes.c_void_p))
