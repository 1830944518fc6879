"""Full NumPy indexing brought to two primitives: basic indexing is `getitem`, integer arrays are `take` of rows.

An index with arrays is split: basic parts first (a view), then the indexed axes are moved to the front and joined,
the arrays become one array of row numbers, rows are taken, and the result's axes are put where NumPy puts them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from numbagrad.core.arguments import host_value, meet_with, own, promote
from numbagrad.core.array import Array, ViewArray
from numbagrad.core.device import place_of
from numbagrad.core.dtypes import FLOATING
from numbagrad.core.errors import TracerConversionError, ViewAssignmentError, message
from numbagrad.core.registry import mixed_devices
from numbagrad.core.trace import Box
from numbagrad.kernels.cpu.places import as_int64
from numbagrad.primitives import index as rows_of
from numbagrad.primitives.broadcast import broadcast_to, reshape_to
from numbagrad.primitives.elementwise import convert, map_op, op
from numbagrad.primitives.layout import transpose
from numbagrad.primitives.segment import segment_prod
from numbagrad.primitives.slices import getitem as basic_getitem
from numbagrad.primitives.slices import setitem as basic_setitem
from numbagrad.scalar import ATOMS, arg

Key = tuple[Any, ...]
_DROPPED = np.iinfo(np.int64).min  # out of range whichever way it is counted
_LARGEST = np.iinfo(np.int64).max


def parse(key: Any, shape: tuple[int, ...], mode: str = "raise", keep: bool = False) -> tuple[Key, bool]:
    """The key as a full tuple of ints, slices, None and int32 or int64 arrays; whether it has arrays.

    `keep`: the arrays will wait on a tape, so those that the caller may write to are copied.
    """
    plain = _plain(key, shape)
    if plain is not None:
        return plain, False
    parts = key if isinstance(key, tuple) else (key,)
    parts = tuple(_part(p, keep) for p in parts)
    used = sum(p.ndim if _is_mask(p) else 1 for p in parts if p is not None and p is not Ellipsis)
    if sum(p is Ellipsis for p in parts) > 1:
        raise IndexError(message("index", "more than one ellipsis", "several '...'", "at most one"))
    if used > len(shape):
        raise IndexError(message("index", "too many indices", f"{used} for shape {shape}", f"at most {len(shape)}"))
    fill = (slice(None),) * (len(shape) - used)
    if any(p is Ellipsis for p in parts):
        at = next(k for k, p in enumerate(parts) if p is Ellipsis)
        parts = (*parts[:at], *fill, *parts[at + 1 :])
    else:
        parts = (*parts, *fill)
    return _expand(parts, shape, mode)


def _plain(key: Any, shape: tuple[int, ...]) -> Key | None:
    """The full key, if it has integers in range, slices of integers and None alone: 0.5 us, where the rest takes 2."""
    parts = key if key.__class__ is tuple else (key,)
    axis, ndim = 0, len(shape)
    for p in parts:
        if p is None:
            continue
        if axis == ndim:
            return None
        if p.__class__ is slice:
            for s in (p.start, p.stop, p.step):
                if s is not None and s.__class__ is not int:
                    return None
        elif p.__class__ is not int or not -shape[axis] <= p < shape[axis]:
            return None
        axis += 1
    return parts if axis == ndim else (*parts, *(slice(None),) * (ndim - axis))


_PLAIN = (int, slice, type(None), type(Ellipsis))


def _is_array(part: Any) -> bool:
    """Whether a part of a key is an index array, on whatever device."""
    return part.__class__ not in _PLAIN and part.__class__ is not _ZeroDimMask


def _is_mask(part: Any) -> bool:
    return _is_array(part) and part.dtype == bool


def as_index(index: Any, wrap: int = 0) -> Any:
    """Integers as int32 or int64 where they are; of those too large the largest, or the remainder by `wrap`."""
    if index.dtype == np.int32 or index.dtype == np.int64:
        return index
    if index.__class__ is np.ndarray:
        return as_int64(index, wrap)
    if index.dtype == np.uint64:
        limit = np.asarray(wrap or _LARGEST, np.uint64)
        index = op("remainder" if wrap else "minimum")(index, limit)
    return convert(index, np.dtype(np.int64))


def _part(part: Any, keep: bool) -> Any:
    """One part of a key as an int, slice, None, Ellipsis, NumPy array or buffer; a mask as a NumPy array."""
    if part is None or part is Ellipsis or part.__class__ is int:
        return part
    if isinstance(part, slice):
        return slice(*(None if s is None else _whole(s) for s in (part.start, part.stop, part.step)))
    if isinstance(part, (bool, np.bool_)):
        return np.asarray(part)
    if isinstance(part, np.integer):
        return int(part)
    value = host_value(part, "index")
    value = own(value, part) if keep else value
    if isinstance(value, Box):
        raise TracerConversionError(
            message("index", "an index is traced", f"a traced {value.dtype}", "integers", "Use stop_gradient(i).")
        )
    if value.dtype.kind not in "biu":
        if value.size == 0 and isinstance(part, (list, tuple)):
            return value.astype(np.int64)
        raise IndexError(message("index", "not an index", value.dtype, "integers, booleans, slices, None or ..."))
    return np.asarray(value) if value.dtype == bool else value  # the shape of the result depends on a mask


def _whole(s: Any) -> int:
    try:
        return s.__index__()
    except (AttributeError, TypeError):
        raise TypeError(message("index", "a slice bound is not an integer", repr(s), "an integer or None")) from None


def _expand(parts: Key, shape: tuple[int, ...], mode: str) -> tuple[Key, bool]:
    """Check integers, turn masks into integer arrays."""
    done: list[Any] = []
    axis, arrays = 0, False
    for p in parts:
        if p is None:
            done.append(p)
        elif _is_array(p):
            arrays = True
            if p.dtype == bool:
                if p.shape != shape[axis : axis + p.ndim]:
                    got = f"shape {p.shape} for axes of {shape[axis : axis + p.ndim]}"
                    raise IndexError(message("index", "a mask does not match the array", got, "equal shapes"))
                done += list(np.nonzero(p)) if p.ndim else [_ZeroDimMask(bool(p))]
                axis += p.ndim
            else:
                done.append(as_index(p, shape[axis] if mode == "wrap" else 0))
                axis += 1
        else:
            if p.__class__ is int and not -shape[axis] <= p < shape[axis]:
                if mode != "raise":  # resolved with the arrays
                    p = p % max(1, shape[axis]) if mode == "wrap" else max(-_LARGEST, min(p, _LARGEST))
                    p, arrays = np.asarray(p, np.int64), True
                    done.append(p)
                    axis += 1
                    continue
                got = f"{p} for axis {axis} of length {shape[axis]}"
                raise IndexError(message("index", "out of range", got, f"{-shape[axis]} to {shape[axis] - 1}"))
            done.append(p)
            axis += 1
    return tuple(done), arrays


class _ZeroDimMask:
    """x[True] and x[False]: a new axis of length 1 or 0."""

    def __init__(self, value: bool) -> None:
        self.value = value


class Gather:
    """An index with arrays, resolved against a shape: how to get to rows and back."""

    def __init__(self, parts: Key, shape: tuple[int, ...], mode: str = "raise") -> None:
        self.mode = mode
        # integers beside arrays are arrays of one element
        parts = tuple(np.asarray(p, np.int64) if p.__class__ is int else p for p in parts)
        parts = tuple(None if isinstance(p, _ZeroDimMask) and p.value else p for p in parts)
        if any(isinstance(p, _ZeroDimMask) for p in parts):
            raise IndexError(message("index", "a 0-d False mask", "False", "an array mask", "Use x[None][:0]."))
        self.basic = tuple(slice(None) if _is_array(p) else p for p in parts)
        # axes of the view after the basic part (None adds one, slices keep one)
        axes = [k for k, p in enumerate(parts) if _is_array(p)]
        arrays = [p for p in parts if _is_array(p)]
        self.view_shape = _sliced_shape(self.basic, shape)
        try:
            self.index_shape = np.broadcast_shapes(*(a.shape for a in arrays))
        except ValueError:
            shapes = " and ".join(str(a.shape) for a in arrays)
            raise IndexError(message("index", "index arrays do not broadcast", shapes, "equal or 1 per axis")) from None
        self.order = (*axes, *(k for k in range(len(self.view_shape)) if k not in axes))
        self.lead = tuple(self.view_shape[k] for k in axes)
        self.rest = tuple(self.view_shape[k] for k in self.order[len(axes) :])
        # one array is resolved where it is used, in the kernels' loops; several become row numbers here
        if len(arrays) == 1:
            self.rows, self.row_mode = arrays[0], mode
        else:
            on_host = all(a.__class__ is np.ndarray for a in arrays)
            self.rows = self._flat(arrays) if on_host else _joined(arrays, self.lead, mode)
            self.row_mode = "fill" if mode == "fill" else "raise"
        adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
        position = axes[0] if adjacent else 0
        n = len(self.index_shape)
        # result of take: index axes, then rest; NumPy puts the index axes where adjacent arrays stood
        self.out_axes = (*range(n, n + position), *range(n), *range(n + position, n + len(self.rest)))

    def _flat(self, arrays: list[np.ndarray]) -> np.ndarray:
        """Row numbers of the joined axes; what mode "fill" drops is out of every range."""
        total = np.zeros(self.index_shape, np.int64)
        dropped = np.zeros(self.index_shape, bool)
        for a, length in zip(arrays, self.lead, strict=True):
            a = a.astype(np.int64, copy=False)
            outside = (a < -length) | (a >= length)
            if outside.any():
                if self.mode == "raise":
                    got = f"{a[outside].flat[0]} for an axis of length {length}"
                    raise IndexError(message("index", "out of range", got, f"{-length} to {length - 1}"))
                dropped = dropped | (outside if self.mode == "fill" else False)
                a = a % length if self.mode == "wrap" and length else np.clip(a, -length, max(0, length - 1))
            total = total * length + np.where(a < 0, a + length, a)
        return np.where(dropped, _DROPPED, total)

    def to_rows(self, x: Any) -> Any:
        """View of x with the indexed axes joined in front."""
        view = x if all(p == slice(None) for p in self.basic) else basic_getitem(x, key=self.basic)
        if self.order != tuple(range(len(self.order))):
            view = transpose(view, axes=self.order)
        return reshape_to(view, (math.prod(self.lead), *self.rest))

    def from_rows(self, rows: Any) -> Any:
        """Axes of the taken rows in NumPy's order."""
        return transpose(rows, axes=self.out_axes) if self.out_axes != tuple(range(len(self.out_axes))) else rows

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of x[key]."""
        whole = (*self.index_shape, *self.rest)
        return tuple(whole[k] for k in self.out_axes)

    def updates(self, value: Any) -> Any:
        """A value of the shape of x[key] as rows."""
        value = value if value.shape == self.out_shape else broadcast_to(value, shape=self.out_shape)
        inverse = tuple(np.argsort(self.out_axes).tolist())
        value = transpose(value, axes=inverse) if inverse != tuple(range(len(inverse))) else value
        return reshape_to(value, (*self.index_shape, *self.rest))

    def back(self, rows: Any, x: Any) -> Any:
        """Undo `to_rows` on changed rows: the whole array again."""
        view = reshape_to(rows, tuple(self.view_shape[k] for k in self.order))
        inverse = tuple(np.argsort(self.order).tolist())
        view = transpose(view, axes=inverse) if inverse != tuple(range(len(inverse))) else view
        if all(p == slice(None) for p in self.basic):
            return view
        return basic_setitem(x, view, key=self.basic)


@cache
def _joining(count: int, mode: str) -> Any:
    """Row numbers from `count` indices and the lengths of their axes, in one kernel; what is out of range stays so."""
    select, either = ATOMS["select"], ATOMS["logical_or"]
    total: Any = None
    wrong: Any = None
    for k in range(count):
        i, n = arg(k), arg(count + k)
        outside = either(i < -n, i >= n)
        if mode == "wrap":
            i = ATOMS["remainder"](i, n)
        elif mode == "clip":
            i = ATOMS["clip"](i, -n, n - 1)
        elif wrong is None:
            wrong = outside
        else:
            wrong = either(wrong, outside)
        i = select(i < 0, i + n, i)
        total = i if total is None else total * n + i
    total = total if wrong is None else select(wrong, _DROPPED, total)
    return map_op(f"rows_{mode}", (total,), 2 * count)


def _joined(arrays: list[Any], lengths: Sequence[int], mode: str) -> Any:
    """`Gather._flat` where some of the arrays are on a device; "raise" is left to the kernel that takes the rows."""
    int64 = np.dtype(np.int64)
    sizes = [np.asarray(max(1, n) if mode == "wrap" else n, int64) for n in lengths]
    return _joining(len(arrays), mode)(*(convert(a, int64) for a in arrays), *sizes)


def _sliced_shape(key: Key, shape: tuple[int, ...]) -> tuple[int, ...]:
    out: list[int] = []
    axis = 0
    for p in key:
        if p is None:
            out.append(1)
            continue
        out.append(len(range(*p.indices(shape[axis]))))
        axis += 1
    return tuple(out)


def _is_row_index(key: Any, value: Any) -> bool:
    """One integer array: the value is its own rows, there is nothing to resolve."""
    return key.__class__ in (Array, np.ndarray) and key.dtype.kind in "iu" and len(value.shape) > 0


def _row_index(key: Any, value: Any, mode: str, keep: bool) -> Any:
    index = _part(key, keep)
    if index.__class__ is not np.ndarray:
        _there(value, [index])
        return as_index(index, value.shape[0] if mode == "wrap" else 0)
    return as_int64(index, value.shape[0] if mode == "wrap" else 0) if index.dtype == np.uint64 else index


def _there(value: Any, parts: Sequence[Any]) -> None:
    """An index on a device needs the array there; one on the CPU goes where the array is."""
    for p in parts:
        if _is_array(p) and p.__class__ is not np.ndarray and place_of(value) is not p.device:
            raise mixed_devices("index", (value, p))


def getitem(x: Array, key: Any) -> Array:
    """x[key] with every kind of index NumPy has."""
    value = x._value
    if key.__class__ is int and value.shape and -value.shape[0] <= key < value.shape[0]:
        return ViewArray(basic_getitem(value, key=(key,)))
    traced = value.__class__ is not np.ndarray
    if _is_row_index(key, value):
        return Array(rows_of.take(value, _row_index(key, value, "raise", traced), mode="raise"))
    parts, arrays = parse(key, value.shape, keep=traced)
    if not arrays:
        return ViewArray(basic_getitem(value, key=parts))
    _there(value, parts)
    gather = Gather(parts, value.shape)
    return Array(gather.from_rows(rows_of.take(gather.to_rows(value), gather.rows, mode=gather.row_mode)))


def setitem(x: Array, key: Any, new: Any) -> None:
    """x[key] = new: the name x is bound to the updated value."""
    if isinstance(x, ViewArray):
        raise ViewAssignmentError(
            message(
                "x[i] = v",
                "x is the result of indexing another array, which would not change",
                f"a view of shape {x.shape}",
                "an array of its own",
                "Assign in one step, x[a, b] = v, or make it independent first, x = x.copy().",
            )
        )
    if not _set_in_place(x, key, new):
        x._value = updated(x._value, key, new, "set")


def _set_in_place(x: Array, key: Any, new: Any) -> bool:
    """Write into the buffer itself if nothing but the name x holds it: n assignments in a loop then cost O(n)."""
    value = x._value
    # references to the buffer: x's, the local name's, the argument's; a view or a tape would be one more
    if sys.getrefcount(value) > 3:
        return False
    if value.__class__ is not np.ndarray:
        return not isinstance(value, Box) and _set_on_device(value, key, new)
    if not value.flags.owndata:
        return False
    update = host_value(new, "x[i] = v")
    parts, arrays = parse(key, value.shape)
    if arrays or update.__class__ is not np.ndarray or not value.flags.writeable:
        return False
    holds("x[i] = v", value.dtype, update.dtype)
    update = convert(promote((x, new), "x[i] = v", value.dtype)[0][1], value.dtype)
    part = value[(*parts, ...)]
    _fits(update.shape, part.shape)
    part[...] = _trim(update, part.shape)
    return True


def _set_on_device(value: Any, key: Any, new: Any) -> bool:
    """The same in a device's memory: what was launched before has read the old elements by then."""
    if value.base is not None or not value.flat:
        return False
    parts, arrays = parse(key, value.shape)
    (update,) = meet_with("x[i] = v", Array(value), new)
    if arrays or isinstance(update, Box):
        return False
    holds("x[i] = v", value.dtype, update.dtype)
    update = convert(promote((Array(value), Array(update)), "x[i] = v", value.dtype)[0][1], value.dtype)
    part = basic_getitem.run((value,), {"key": parts})
    _fits(update.shape, part.shape)
    if part.size:
        from numbagrad.kernels.cuda.copy import copy_into

        copy_into(part, _trim(update, part.shape))
    return True


def picked(value: Any, key: Any, mode: str) -> Any:
    """x.at[key].get(mode=...): out-of-range indices clip, wrap or give the fill value."""
    traced = value.__class__ is not np.ndarray
    if _is_row_index(key, value):
        return rows_of.take(value, _row_index(key, value, mode, traced), mode=mode)
    parts, arrays = parse(key, value.shape, mode, keep=traced)
    if not arrays:
        return basic_getitem(value, key=parts)
    _there(value, parts)
    gather = Gather(parts, value.shape, mode)
    return gather.from_rows(rows_of.take(gather.to_rows(value), gather.rows, mode=gather.row_mode))


def updated(value: Any, key: Any, new: Any, how: str, mode: str = "raise") -> Any:
    """The value with the part at a key set to (or combined with) something."""
    holds("x[i] = v" if how == "set" else f"x.at[i].{how}", value.dtype, host_value(new).dtype, fractions=how == "set")
    update = convert(promote((Array(value), new), "x[i] = v", value.dtype)[0][1], value.dtype)
    traced = value.__class__ is not np.ndarray or update.__class__ is not np.ndarray
    if _is_row_index(key, value):
        index = _row_index(key, value, mode, traced)
        return SCATTERS[how](value, index, _as_place(update, (*index.shape, *value.shape[1:])), mode)
    parts, arrays = parse(key, value.shape, mode, keep=traced)
    if arrays:
        _there(value, parts)
        gather = Gather(parts, value.shape, mode)
        _fits(update.shape, gather.out_shape)
        rows = gather.to_rows(value)
        updates = gather.updates(_trim(update, gather.out_shape))
        scatter = SCATTERS[how]
        return gather.back(scatter(rows, gather.rows, updates, gather.row_mode), value)
    part = basic_getitem(value, key=parts)
    update = _as_place(update, part.shape)
    if how != "set":
        update = COMBINE[how](part, update)
    return basic_setitem(value, update, key=parts)


def holds(name: str, dtype: np.dtype, update: np.dtype, fractions: bool = True) -> None:
    """Refuse an update of which an array of this dtype would drop the imaginary part, or (unless `fractions`) what
    comes after the point, as x[i] = v does in NumPy."""
    if update.kind == "c" and dtype.kind != "c":
        wanted, step = f"a real update for {dtype}", "Convert one of them with .astype or take .real."
        raise TypeError(message(name, "the imaginary part would be lost", f"{dtype}, {update}", wanted, step))
    if not fractions and update.kind in FLOATING and dtype.kind in "biu":
        wanted, step = f"integers for {dtype}", "Convert one of them with .astype."
        raise TypeError(message(name, "what follows the point would be lost", f"{dtype}, {update}", wanted, step))


def _fits(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    trimmed = shape[max(0, len(shape) - len(target)) :]
    extra = shape[: max(0, len(shape) - len(target))]
    ok = all(n == 1 for n in extra) and all(a in (1, b) for a, b in zip(trimmed[::-1], target[::-1], strict=False))
    if not ok:
        raise ValueError(message("x[i] = v", "the value does not fit the place", shape, f"broadcastable to {target}"))


def _as_place(update: Any, target: tuple[int, ...]) -> Any:
    """An update in the shape of the place it goes to."""
    if update.shape == target:
        return update
    _fits(update.shape, target)
    update = _trim(update, target)
    return update if update.shape == target else broadcast_to(update, shape=target)


def _trim(update: Any, target: tuple[int, ...]) -> Any:
    extra = len(update.shape) - len(target)
    return reshape_to(update, update.shape[extra:]) if extra > 0 else update


def _multiply_rows(rows: Any, index: np.ndarray, updates: Any, mode: str) -> Any:
    """Rows multiplied by updates. Those of one row are multiplied up first, by an operation whose derivative is
    exact with zeros and at any order."""
    factors = segment_prod(updates, index, segments=rows.shape[0], mode=mode)
    return op("multiply")(rows, factors)


SCATTERS: dict[str, Any] = {
    "set": lambda rows, index, updates, mode: rows_of.scatter_set(rows, index, updates, mode=mode),
    "add": lambda rows, index, updates, mode: rows_of.scatter_add(rows, index, updates, mode=mode),
    "max": lambda rows, index, updates, mode: rows_of.scatter_max(rows, index, updates, mode=mode),
    "min": lambda rows, index, updates, mode: rows_of.scatter_min(rows, index, updates, mode=mode),
    "multiply": _multiply_rows,
}
COMBINE: dict[str, Any] = {
    "add": op("add"),
    "multiply": op("multiply"),
    "min": op("minimum"),
    "max": op("maximum"),
}
