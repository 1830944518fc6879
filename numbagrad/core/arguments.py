"""What a user passes becomes values: arrays, NumPy arrays, scalars, nested lists of all of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from numbagrad.config import OPENED
from numbagrad.core import device as devices
from numbagrad.core.array import Array
from numbagrad.core.dtypes import DEFAULTS, SCALARS, SUPPORTED, check_dtype, promote_pair, single_of
from numbagrad.core.errors import message
from numbagrad.core.registry import PRIMITIVES
from numbagrad.core.trace import Box

ndarray = np.ndarray
_cells: dict[Any, ndarray] = {}


def scalar_cell(number: Any, dtype: np.dtype) -> ndarray:
    """A Python number as a 0-d buffer (kept: literals in user code come back at every call)."""
    key = (number, number.__class__, dtype)
    cell = _cells.get(key)
    if cell is None or number == 0:  # 0.0 and -0.0 are one key
        cell = np.array(single_of(number) if dtype.kind == "V" else number, dtype)
        if len(_cells) > 4096:
            _cells.clear()
        _cells[key] = cell
    return cell


def from_numpy(x: ndarray, op: str) -> ndarray:
    """A NumPy array as a buffer: supported dtype, native byte order, aligned; shared where possible."""
    if x.dtype not in SUPPORTED or not x.flags.aligned:
        dtype = check_dtype(op, x.dtype)
        x = x.astype(dtype, copy=not x.flags.aligned or x.dtype is not dtype)
    if x.__class__ is not ndarray:
        if isinstance(x, np.ma.MaskedArray):
            raise TypeError(
                message(op, "masked arrays are not supported", "a masked array", "x.filled(...) or where()")
            )
        x = x.view(ndarray)
    if any(s % x.itemsize for s in x.strides):
        x = x.copy()
    return x


def value_of(x: Any, op: str = "asarray") -> Any:
    """The value of anything array-like; of host data where new arrays go. NumPy buffers are shared, see `own`."""
    if isinstance(x, Array):
        return x._value
    value = host_value(x, op)
    return devices.placed(value, devices.default()) if OPENED and value.__class__ is ndarray else value


def host_value(x: Any, op: str = "asarray") -> Any:
    """The value of anything array-like; host data stays where it is."""
    if isinstance(x, Array):
        return x._value
    kind = x.__class__
    if kind in SCALARS:
        return scalar_cell(x, _default(x, op))
    if kind is ndarray:
        return from_numpy(x, op)
    if isinstance(x, (list, tuple)):
        return _from_sequence(x, op)
    if isinstance(x, (np.generic, ndarray)):
        return from_numpy(np.asarray(x), op)
    if isinstance(x, Box) or getattr(x, "level", None) == 0:  # a value already
        return x
    return _from_other(x, op)


def _default(x: Any, op: str) -> np.dtype:
    if x.__class__ is int and not -(2**63) <= x < 2**63:
        if 0 <= x < 2**64:
            return np.dtype(np.uint64)
        raise OverflowError(message(op, "the integer does not fit in 64 bits", x, "-2**63 to 2**64 - 1"))
    return DEFAULTS[x.__class__]


def _from_other(x: Any, op: str) -> Any:
    """Objects with one of the array protocols, ranges, subclasses of numbers; else the user's error."""
    if isinstance(x, (bool, int, float, complex)):
        return np.asarray(x)
    if isinstance(x, range):
        return np.asarray(x, np.int64)
    shared = devices.foreign(x, op)
    if shared is None:
        shared = devices.host_bfloat16(x, op)
    if shared is not None:
        return shared
    if hasattr(x, "__array__") or hasattr(x, "__array_interface__"):
        return from_numpy(np.asarray(x), op)
    if hasattr(x, "__dlpack__"):
        return from_numpy(np.from_dlpack(x), op)
    raise TypeError(
        message(op, "not an array", f"{type(x).__name__} ({x!r})"[:120], "an array, a number, or nested lists of them")
    )


def _from_sequence(x: Sequence[Any], op: str) -> Any:
    """Nested lists; with traced values inside they are stacked by primitives."""
    if any(_holds_array(e) for e in x):
        values, _ = promote(list(x), op)
        shapes = {v.shape for v in values}
        if len(shapes) > 1:
            raise ValueError(
                message(op, "nested sequences have different shapes", sorted(shapes), "equal shapes", "Pad or index.")
            )
        shape = (1, *values[0].shape)
        rows = [PRIMITIVES["reshape"](v, shape=shape) for v in values]
        return PRIMITIVES["concatenate"](*rows, axis=0)
    try:
        made = np.array(x)
    except ValueError as error:
        raise ValueError(message(op, "nested sequences have different shapes", error, "equal shapes")) from None
    if made.dtype == object:
        raise TypeError(message(op, "elements are not numbers", f"{x!r}"[:120], "numbers"))
    if made.size == 0 and made.dtype == np.float64:
        return made
    return from_numpy(made, op)


def _holds_array(x: Any) -> bool:
    return isinstance(x, (Array, Box)) or (isinstance(x, (list, tuple)) and any(map(_holds_array, x)))


def kind_of(x: Any, value: Any) -> Any:
    """What counts in promotion: a weak Python scalar type, or the dtype."""
    return x.__class__ if x.__class__ in SCALARS else value.dtype


def promote(xs: Sequence[Any], op: str, dtype: np.dtype | None = None) -> tuple[list[Any], np.dtype]:
    """Values of one common dtype (NEP 50: Python scalars are weak)."""
    found: Any = [x._value for x in xs if isinstance(x, Array)]
    if dtype is None and found and len(found) == len(xs):  # most often there is nothing to do
        first = found[0].dtype
        for v in found:
            if v.dtype is not first or (OPENED and v.__class__ is not ndarray):
                break
        else:
            return found, first
    values = [None if x.__class__ in SCALARS else host_value(x, op) for x in xs]
    if dtype is None:
        common: Any = None
        for x, v in zip(xs, values, strict=True):
            kind = x.__class__ if v is None else v.dtype
            common = kind if common is None else promote_pair(common, kind)
        dtype = DEFAULTS.get(common, common)
        if dtype == np.int64 and all(v is None for v in values):
            dtype = np.result_type(*(_default(x, op) for x in xs))
    traced = any(isinstance(v, Box) for v in values)
    found = [_as(x, v, dtype, traced, op) for x, v in zip(xs, values, strict=True)]
    return (together(op, xs, found) if OPENED else found), dtype


def together(op: str, xs: Sequence[Any], values: Sequence[Any], numbers: bool = True) -> Any:
    """The values of operands on one device; `numbers`: single ones of the host's may stay there."""
    place, here, loose = None, False, False
    for x, v in zip(xs, values, strict=True):  # most often there is nothing to do: find that out first
        if v.__class__ is ndarray:
            if isinstance(x, Array):
                here = True
            elif v.shape or not numbers:
                loose = True
        elif v.level or (place is not None and v.device is not place):
            break
        else:
            place = v.device
    else:
        if here if place is None else not (here or loose):
            return values
    arrays = [isinstance(x, Array) or v.__class__ is not ndarray for x, v in zip(xs, values, strict=True)]
    return devices.gather(op, values, arrays, numbers)


def selected(op: str, selectors: Sequence[Any], xs: Sequence[Any], values: Sequence[Any]) -> tuple[Any, Any]:
    """Selectors (masks, numbers of cases) and what they select from on one device; those of the CPU's go along."""
    if not OPENED:
        return selectors, values
    arrays = [isinstance(x, Array) or isinstance(v, Box) for x, v in zip(xs, values, strict=True)]
    there = [devices.place_of(s) is not None for s in selectors]
    found = devices.gather(op, [*selectors, *values], [*there, *arrays])
    return found[: len(there)], found[len(there) :]


def arrays_of(op: str, *xs: Any) -> list[Array]:
    """Operands as Arrays on one device, each in its own dtype."""
    values: Any = [own(host_value(x, op), x) for x in xs]
    return [Array(v) for v in (together(op, xs, values, False) if OPENED else values)]


def meet_with(op: str, x: Array, *others: Any) -> list[Any]:
    """The values of further operands on the device of an array, or the user's error."""
    values = [host_value(other, op) for other in others]
    return list(together(op, (x, *others), (x._value, *values), False)[1:]) if OPENED else values


def _as(x: Any, value: Any, dtype: np.dtype, traced: bool, op: str) -> Any:
    if value is None:
        return _scalar_as(x, dtype, op)
    if value.dtype != dtype:
        return PRIMITIVES["convert"](value, dtype)
    return own(value, x) if traced else value  # it will wait on the tape, the caller may write to it meanwhile


def _scalar_as(x: Any, dtype: np.dtype, op: str) -> ndarray:
    try:
        return scalar_cell(x, dtype)
    except OverflowError:
        raise OverflowError(message(op, f"the integer does not fit in {dtype}", x, "a number in its range")) from None


def own(value: Any, x: Any) -> Any:
    """The value, copied if it is the caller's own writable NumPy buffer: for what outlives the call."""
    if value.__class__ is ndarray and not isinstance(x, Array) and value.flags.writeable:
        shares = x.__class__ is not list and x.__class__ is not tuple and x.__class__ not in SCALARS
        return value.copy(order="K") if shares else value
    return value


def owned(x: Any, op: str = "asarray") -> Any:
    """The value, for results that may be views of it and for residuals."""
    return own(value_of(x, op), x)
