"""Making arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from numbagrad.config import OPENED
from numbagrad.core.arguments import arrays_of, host_value, kind_of, own, owned, together
from numbagrad.core.array import Array
from numbagrad.core.device import chosen, find, foreign, host_bfloat16, move, place_of, placed
from numbagrad.core.dtypes import FLOAT, check_dtype, computed, result_type
from numbagrad.core.errors import message
from numbagrad.numpy import shaping
from numbagrad.numpy.elementwise import call, where
from numbagrad.primitives.elementwise import convert, op

# fmt: off
__all__ = [
    "arange", "array", "asanyarray", "asarray", "ascontiguousarray", "copy", "empty", "empty_like", "eye",
    "from_dlpack", "frombuffer", "fromfunction", "full", "full_like", "geomspace", "identity", "indices",
    "linspace", "logspace", "meshgrid", "ones", "ones_like", "tri", "tril", "triu", "vander", "zeros", "zeros_like",
]
# fmt: on


def asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: bool | None = None, device: Any = None) -> Array:
    """An Array of anything array-like: arrays, numbers, nested lists (of traced values too), DLPack objects.

    A writable NumPy buffer is copied, so that writing to it later changes nothing here; `copy=False` shares it.

    >>> import numbagrad.numpy as np
    >>> np.asarray([[1, 2], [3, 4]], dtype="float32")
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    value = host_value(a, "asarray")
    if dtype is not None:
        value = convert(value, check_dtype("asarray", dtype))
    shares = isinstance(a, Array) or value is a or getattr(value, "base", None) is not None
    if device is not None or (OPENED and value.__class__ is np.ndarray and not isinstance(a, Array)):
        value, before = move(value, chosen(device, "asarray")), value
        shares = shares and value is before
    if copy is False and not shares:
        raise ValueError(
            message("asarray", "cannot be made without a copy", type(a).__name__, "a NumPy array of a supported dtype")
        )
    if copy is None or copy:
        value = own(value, a)
    return Array(value)


def array(a: Any, dtype: Any = None, *, copy: bool = True, ndmin: int = 0, device: Any = None) -> Array:
    """An Array of anything array-like."""
    x = asarray(a, dtype, device=device)
    return x if x.ndim >= ndmin else x.reshape((1,) * (ndmin - x.ndim) + x.shape)


asanyarray = ascontiguousarray = asarray


def copy(a: Any) -> Array:
    """The same values under a name of its own."""
    return Array(owned(a, "copy"))


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Array:
    """The bytes of a buffer as a 1-d array (copied)."""
    return _new(np.frombuffer(buffer, check_dtype("frombuffer", dtype), count, offset).copy(), None, "frombuffer")


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An Array from any object with the DLPack protocol, sharing its memory unless `copy` or another device is asked.

    A GPU's array stays there. Errors: ValueError for copy=False where it must be copied.
    """
    shared = foreign(x, "from_dlpack")
    if shared is None:
        shared = host_bfloat16(x, "from_dlpack")
        shared = np.from_dlpack(x) if shared is None else shared
        shared = owned(shared.copy() if copy else shared, "from_dlpack")
    elif copy:
        shared = shared.copy()
    moved = shared if device is None else move(shared, find(device, "from_dlpack"))
    if copy is False and moved is not shared:
        got = f"device={device!r}"
        raise ValueError(message("from_dlpack", "cannot be made without a copy", got, "the device it is on"))
    return Array(moved)


def _new(host: np.ndarray, device: Any, name: str) -> Array:
    """A new array of what was made on the host."""
    return Array(placed(host, chosen(device, name)))


def _shape(shape: Any, name: str) -> tuple[int, ...]:
    found = shaping._ints(shape, name)
    if any(n < 0 for n in found):
        raise ValueError(message(name, "negative length", found, "lengths >= 0"))
    return found


def zeros(shape: Any, dtype: Any = float, *, device: Any = None) -> Array:
    """All 0."""
    return _filled(shape, 0, dtype, device, "zeros")


def ones(shape: Any, dtype: Any = float, *, device: Any = None) -> Array:
    """All 1."""
    return _filled(shape, 1, dtype, device, "ones")


def _filled(shape: Any, number: int, dtype: Any, device: Any, name: str) -> Array:
    found, kind, place = _shape(shape, name), check_dtype(name, FLOAT if dtype is None else dtype), chosen(device, name)
    if place is not None:
        return Array(place.full(found, number, kind))
    return Array(np.zeros(found, kind) if number == 0 else np.ones(found, kind))


def empty(shape: Any, dtype: Any = float, *, device: Any = None) -> Array:
    """Zeros: arrays cannot be written to, so uninitialised memory would be of no use."""
    return zeros(shape, dtype, device=device)


def full(shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Array:
    """All one value, which may be traced and of any shape that broadcasts."""
    value = host_value(fill_value, "full")
    value = value if dtype is None else convert(value, check_dtype("full", dtype))
    if device is not None or (OPENED and not isinstance(fill_value, Array)):
        place = chosen(device, "full")
        if place is not None and value.__class__ is np.ndarray and value.shape == ():
            return Array(place.full(_shape(shape, "full"), value, value.dtype))
        value = move(value, place)
    if value.__class__ is np.ndarray:
        return Array(np.full(_shape(shape, "full"), value, value.dtype))
    return shaping.broadcast_to(Array(value), _shape(shape, "full"))


def _like(name: str, make: Any, doc: str) -> Any:
    def function(a: Any, *args: Any, dtype: Any = None, shape: Any = None, device: Any = None) -> Array:
        value = host_value(a, name)
        if device is None and isinstance(a, Array):
            device = a.device
        return make(value.shape if shape is None else shape, *args, dtype or value.dtype, device=device)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


zeros_like = _like("zeros_like", zeros, "All 0, of an array's shape and dtype.")
ones_like = _like("ones_like", ones, "All 1, of an array's shape and dtype.")
empty_like = _like("empty_like", zeros, "Zeros of an array's shape and dtype.")
full_like = _like("full_like", full, "All one value, of an array's shape and dtype.")


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: Any = None) -> Array:
    """start, start + step, ... below stop; concrete numbers."""
    bounds = [_number(v) for v in ((0, start, step) if stop is None else (start, stop, step))]
    if bounds[2] == 0:
        raise ValueError(message("arange", "step is 0", bounds, "a step other than 0"))
    made = np.arange(*bounds, dtype=None if dtype is None else check_dtype("arange", dtype))
    return _new(made, device, "arange")


def _number(x: Any) -> Any:
    return x.item() if isinstance(x, (Array, np.ndarray)) else x


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """num values evenly from start to stop, differentiable in both.

    Dtypes: the common one of the ends, integers as float64.
    """
    ends = [own(host_value(x, "linspace"), x) for x in (start, stop)]
    if device is not None:
        ends = [move(v, find(device, "linspace")) for v in ends]
    elif OPENED:
        ends = together("linspace", (start, stop), ends, False)
    common = result_type([float, *(kind_of(x, v) for x, v in zip((start, stop), ends, strict=True))])
    a, b = (Array(convert(v, computed(common))) for v in ends)
    steps = num - 1 if endpoint else num
    weight = np.arange(num) / steps if steps > 0 else np.zeros(num)
    shape = np.broadcast_shapes(a.shape, b.shape)
    w = weight.reshape((num,) + (1,) * len(shape))
    # both ends exact: the last weight is 1 and the first 0
    line = a * (1.0 - w).astype(a.dtype) + b * w.astype(a.dtype)
    if dtype is None:
        line = Array(convert(line._value, common))
    if dtype is not None:
        target = check_dtype("linspace", dtype)
        line = Array(convert((line if target.kind not in "iu" else call("floor", line))._value, target))
    line = shaping.moveaxis(line, 0, axis) if axis else line
    step = (b - a) / (steps if steps else np.nan)
    return (line, Array(convert(step._value, common))) if retstep else line


def logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None) -> Array:
    """base ** linspace(start, stop, num)."""
    first, last, radix = arrays_of("logspace", start, stop, base)
    made = radix ** linspace(first, last, num, endpoint)
    return made if dtype is None else made.astype(dtype)


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None) -> Array:
    """num values from start to stop in geometric progression (both positive)."""
    a, b = (call("log", x) for x in arrays_of("geomspace", start, stop))
    made = call("exp", linspace(a, b, num, endpoint))
    return made if dtype is None else made.astype(dtype)


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = float, *, device: Any = None) -> Array:
    """1 on a diagonal, 0 elsewhere."""
    kind, place = check_dtype("eye", FLOAT if dtype is None else dtype), chosen(device, "eye")
    if place is None:
        return Array(np.eye(N, M, k, kind))
    return Array(convert(_diagonals(N, N if M is None else M, k, "equal", place), kind))


def identity(n: int, dtype: Any = float) -> Array:
    """The square identity matrix."""
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = float, *, device: Any = None) -> Array:
    """1 at and below a diagonal."""
    kind, place = check_dtype("tri", dtype), chosen(device, "tri")
    if place is None:
        return Array(np.tri(N, M, k, kind))
    return Array(convert(_diagonals(N, N if M is None else M, k, "less_equal", place), kind))


def _diagonals(rows: int, columns: int, k: int, relation: str, place: Any) -> Any:
    """Where j - k equals (or is at most) i, made on the device from two lines."""
    i, j = np.arange(rows).reshape(rows, 1), np.arange(columns) - k
    return op(relation)(placed(j, place), placed(i, place))


def _below(x: Array, k: int) -> Any:
    (rows, columns), place = x.shape[-2:], place_of(x._value)
    return np.tri(rows, columns, k, bool) if place is None else _diagonals(rows, columns, k, "less_equal", place)


def tril(m: Any, k: int = 0) -> Array:
    """Zero above a diagonal."""
    x = Array(owned(m))
    return where(Array(_below(x, k)), x, np.zeros((), x.dtype))


def triu(m: Any, k: int = 0) -> Array:
    """Zero below a diagonal."""
    x = Array(owned(m))
    return where(Array(_below(x, k - 1)), np.zeros((), x.dtype), x)


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Array]:
    """Coordinate arrays from coordinate vectors."""
    if indexing not in ("xy", "ij"):
        raise ValueError(message("meshgrid", "no such indexing", repr(indexing), "'xy' or 'ij'"))
    n = len(xi)
    lines = []
    for k, x in enumerate(xi):
        axis = 1 - k if indexing == "xy" and n > 1 and k < 2 else k
        lines.append(shaping.ravel(x).reshape([-1 if d == axis else 1 for d in range(n)]))
    return lines if sparse else shaping.broadcast_arrays(*lines) if lines else []


def indices(dimensions: Sequence[int], dtype: Any = int) -> Array:
    """Index of every element along every axis."""
    return _new(np.indices(tuple(dimensions), check_dtype("indices", dtype)), None, "indices")


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Array:
    """Powers of x in columns."""
    v = Array(owned(x))
    powers = np.arange(v.size if N is None else N)
    return v[:, None] ** (powers if increasing else powers[::-1])


def fromfunction(function: Any, shape: Sequence[int], *, dtype: Any = float, **kwargs: Any) -> Any:
    """The function of the index arrays."""
    found = np.indices(tuple(shape), check_dtype("fromfunction", dtype))
    return function(*(_new(i, None, "fromfunction") for i in found), **kwargs)
