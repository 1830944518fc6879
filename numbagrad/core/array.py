"""Array: the user's name for a value, concrete or traced. Values are immutable; assignment rebinds the name.

The operators and methods are attached by numpy/methods.py, which knows the operations; here is only what an
array is: its value, how it becomes other things, and what it refuses.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from numbagrad.core import device as devices
from numbagrad.core.errors import DeviceError, TracerConversionError, message
from numbagrad.core.trace import Box, concrete, device_of

if TYPE_CHECKING:
    from numbagrad.core.array_typing import Methods
else:
    Methods = object


class Array(Methods):
    """An n-dimensional array of numbers on a device. Make one with `numbagrad.numpy.asarray` and friends.

    Shapes: any, 0-d and empty included. Dtypes: bool, all integers, float32/64, complex64/128;
    float16 and bfloat16 (of ml_dtypes), which are computed in float32 and rounded once per operation.

    >>> import numbagrad.numpy as np
    >>> x = np.asarray([1.0, 2.0])
    >>> x[0] = 5.0           # the name x now stands for a new value
    >>> x + 1
    Array([6., 3.], dtype=float64)
    """

    __slots__ = ("__weakref__", "_value")
    __array_priority__ = 1000

    def __init__(self, value: Any) -> None:
        self._value = value

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return self._value.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""
        return self._value.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._value.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._value.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._value.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._value.size * self._value.dtype.itemsize

    @property
    def device(self) -> str:
        """Where the elements are: "cpu", "cuda:0" and so on."""
        return device_of(self._value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(message("len", "a 0-d array has no length", "shape ()", "at least one axis"))
        return self.shape[0]

    def __hash__(self) -> NoReturn:
        raise TypeError(
            message("hash", "arrays are not hashable", repr(self), "a number", "Use x.item() or id(x) as the key.")
        )

    def _concrete(self, what: str, instead: str) -> np.ndarray:
        """The numbers in the host's memory, or the error for a traced value."""
        value = self._buffer(what, instead)
        return value if value.__class__ is np.ndarray else np.asarray(value)

    def _buffer(self, what: str, instead: str) -> Any:
        """The buffer, or the error for a traced value."""
        value = self._value
        if isinstance(value, Box):
            raise TracerConversionError(
                message(
                    what,
                    f"a value traced by `{value.trace.name}` cannot become {what}, its derivative would be lost",
                    f"a traced {self.dtype} array of shape {self.shape}",
                    "a concrete array",
                    instead,
                )
            )
        return value

    def _item(self, what: str) -> Any:
        value = self._concrete(
            what,
            "Keep it an array, use numbagrad.stop_gradient(x) to cut the derivative, or compare (x > 0).",
        )
        if value.size != 1:
            raise TypeError(
                message(what, "only a single element converts", f"shape {self.shape}", "size 1", "Index it first.")
            )
        return value.reshape(()).item()

    def __float__(self) -> float:
        return float(self._item("float"))

    def __int__(self) -> int:
        return int(self._item("int"))

    def __complex__(self) -> complex:
        return complex(self._item("complex"))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.shape:
            raise TypeError(message("index", "not an integer scalar", f"{self.dtype}{list(self.shape)}", "an integer"))
        return int(self._item("index"))

    def __bool__(self) -> bool:
        if self._value.size != 1:
            raise ValueError(
                message(
                    "bool",
                    "the truth of several elements is ambiguous",
                    f"shape {self.shape}",
                    "size 1",
                    "Use .any() or .all().",
                )
            )
        return bool(self._item("bool"))

    def __format__(self, spec: str) -> str:
        if spec and self._value.size == 1 and not isinstance(self._value, Box):
            return format(self._item("format"), spec)
        return format(str(self), spec)

    def __repr__(self) -> str:
        value = self._value
        if isinstance(value, Box):
            return f"Array(<traced by {value.trace.name}>, shape={self.shape}, dtype={self.dtype})"
        text = np.array2string(np.asarray(value), separator=", ", prefix="Array(")
        place = "" if value.__class__ is np.ndarray else f", device={self.device!r}"
        return f"Array({text}, dtype={value.dtype}{place})"

    def __str__(self) -> str:
        return repr(self) if isinstance(self._value, Box) else str(np.asarray(self._value))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        value = self._concrete("a NumPy array", "Use numbagrad.numpy functions inside transformed functions.")
        if dtype is not None and np.dtype(dtype) != value.dtype:
            return value.astype(dtype)
        if copy:
            return value.copy()
        view = value.view(np.ndarray)
        view.flags.writeable = False
        return view

    def __reduce__(self) -> Any:
        value = self._concrete("a pickle", "Pickle it outside the transformed function.")
        host = np.ascontiguousarray(value).reshape(value.shape)
        return (_restore, (host,)) if self._value.__class__ is np.ndarray else (_restore, (host, self.device))

    def __copy__(self) -> Array:
        return Array(self._value)

    def __deepcopy__(self, memo: Any) -> Array:
        return Array(self._value)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, **options: Any) -> Any:
        """DLPack capsule of the buffer (shared; do not write to it)."""
        value = self._buffer("a DLPack capsule", "Export it outside the transformed function.")
        if value.__class__ is np.ndarray and value.dtype.kind != "V":  # NumPy exports no bfloat16
            return value.__dlpack__(stream=stream, max_version=max_version, **options)
        wanted, kept = options.get("dl_device"), options.get("copy") is not True
        if kept and wanted in (None, self.__dlpack_device__()):
            return devices.interop().capsule(value, stream, max_version)
        if wanted is None or wanted[0] == 1:
            return np.asarray(value).__dlpack__(max_version=max_version)
        raise BufferError(message("__dlpack__", "not on that device", wanted, self.__dlpack_device__()))

    def __dlpack_device__(self) -> tuple[int, int]:
        value = concrete(self._value)
        return (1, 0) if value.__class__ is np.ndarray else devices.interop().place(value)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3, of arrays on a GPU."""
        value = concrete(self._value)
        if value.__class__ is np.ndarray or not hasattr(value.device, "number"):
            raise AttributeError(f"an array on {self.device} has no __cuda_array_interface__")
        value = self._buffer("a CUDA array", "Export it outside the transformed function.")
        return devices.interop().interface(value)

    def item(self, *index: int) -> Any:
        """The single element, or the one at an index, as a Python number."""
        if index:
            return self._concrete("a Python number", "Keep it an array.").item(*index)
        return self._item("item")

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return self._concrete("a list", "Keep it an array.").tolist()

    def block_until_ready(self) -> Array:
        """Wait until computed (at once on the CPU), and raise what the device found wrong meanwhile."""
        value = concrete(self._value)
        if value.__class__ is not np.ndarray:
            value.device.synchronize()
        return self


class ViewArray(Array):
    """What basic indexing gives: assigning into it would pass through to another array in NumPy, so it raises."""

    __slots__ = ()


def _restore(buffer: np.ndarray, device: str = devices.CPU) -> Array:
    try:
        return Array(devices.placed(buffer, devices.find(device, "unpickle")))
    except DeviceError as error:  # a model trained on a GPU is opened on a laptop: its numbers are all here
        warnings.warn(f"{error} The array is on the CPU now.", stacklevel=2)
        return Array(buffer)


def is_traced(x: Any) -> bool:
    """Whether x is an Array that some transform watches."""
    return isinstance(x, Array) and isinstance(x._value, Box)


def concrete_array(x: Any) -> np.ndarray:
    """The numbers at the bottom of an Array, traced or not: for decisions that carry no derivative."""
    return np.asarray(concrete(x._value)) if isinstance(x, Array) else np.asarray(x)
