"""Finding and picking elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from numbagrad.core.arguments import arrays_of, host_value, meet_with, own, owned, promote, selected
from numbagrad.core.array import Array
from numbagrad.core.device import beside, default, place_of, placed, report
from numbagrad.core.dtypes import INEXACT, computed, promote_pair
from numbagrad.core.errors import message
from numbagrad.core.registry import mixed_devices
from numbagrad.core.trace import Box
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy import shaping
from numbagrad.numpy.indexing import as_index
from numbagrad.numpy.order import searchsorted, sort
from numbagrad.numpy.reductions import normalize_axis
from numbagrad.primitives import along
from numbagrad.primitives import index as rows_of
from numbagrad.primitives.broadcast import reshape_to
from numbagrad.primitives.elementwise import convert

# fmt: off
__all__ = [
    "argwhere", "choose", "compress", "diag_indices", "extract", "flatnonzero", "isin", "ix_", "nonzero",
    "piecewise", "place", "put", "put_along_axis", "putmask", "ravel_multi_index", "select", "take",
    "take_along_axis", "tril_indices", "triu_indices", "unravel_index",
]
# fmt: on


def _numbers(x: Any, what: str) -> np.ndarray:
    """The concrete numbers, of types that NumPy can order: the shape of a result depends on them."""
    found = Array(host_value(x))._concrete(what, "Do it outside the function, or on stop_gradient(x).")
    return found.astype(computed(found.dtype), copy=False)


def _beside(made: np.ndarray, x: Any) -> Array:
    """A result found on the host where the operand is, or where new arrays go."""
    place = place_of(x._value) if isinstance(x, Array) else default()
    return Array(placed(np.asarray(made), place))


def nonzero(a: Any) -> tuple[Array, ...]:
    """Indices of the nonzero elements, one array per axis. Needs concrete values."""
    found = np.nonzero(np.atleast_1d(_numbers(a, "indices")))
    return tuple(_beside(i, a) for i in found)


def flatnonzero(a: Any) -> Array:
    """Indices of the nonzero elements of the flat array."""
    return nonzero(shaping.ravel(a))[0]


def argwhere(a: Any) -> Array:
    """Indices of the nonzero elements, one row each."""
    return _beside(np.argwhere(_numbers(a, "indices")), a)


_MODES = {m: m for m in ("raise", "wrap", "clip", "fill")} | {
    "none": "raise",
    "promise_in_bounds": "raise",
    "drop": "fill",
    "fill_or_drop": "fill",
}


def _mode(name: str, mode: Any) -> str:
    """A mode by its name here, or by JAX's (a string or an enumeration's member)."""
    found = _MODES.get(str(getattr(mode, "name", mode)).lower())
    if found is None:
        raise ValueError(message(name, "no such mode", repr(mode), "'raise', 'wrap', 'clip' or 'fill'"))
    return found


def _index(name: str, indices: Any, x: Array, wrap: int = 0) -> Any:
    """Concrete integers, of too large ones the remainder by `wrap`; a copy of the caller's own where x has a tape.

    Those on a device stay there, as a buffer.
    """
    value = host_value(indices, name)
    value = own(value, indices) if isinstance(x._value, Box) else value
    index = Array(value)._buffer("an index", "Do it outside the function, or on stop_gradient(x).")
    if index.dtype.kind not in "biu" and index.size:
        raise TypeError(message(name, "indices are not integers", index.dtype, "an integer dtype"))
    if index.__class__ is not np.ndarray and index.device is not place_of(x._value):
        raise mixed_devices(name, (x._value, index))
    return as_index(index, wrap)


def _filled(found: Array, inside: Any, fill_value: Any) -> Array:
    """nan (0 for integers), or the fill value, where an index was out of range."""
    if fill_value is None:
        fill_value = np.nan if found.dtype.kind in INEXACT else 0
    return ew.where(inside, found, np.asarray(fill_value).astype(found.dtype))


def take(
    a: Any,
    indices: Any,
    axis: int | None = None,
    out: Any = None,
    mode: Any = "raise",
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Array:
    """Elements (slices of an axis) by integer index; modes raise, wrap, clip, fill (nan, or 0 for integers).

    >>> import numbagrad.numpy as np
    >>> np.take(np.asarray([4.0, 5.0]), [1, 0, 1])
    Array([5., 4., 5.], dtype=float64)
    """
    x = shaping.ravel(a) if axis is None else Array(owned(a, "take"))
    k = normalize_axis(0 if axis is None else axis, x.ndim, "take")
    how = _mode("take", mode)
    index = _index("take", indices, x, x.shape[k] if how == "wrap" else 0)
    moved = shaping.moveaxis(x, k, 0)
    # NumPy's clip does not count negative indices from the end
    taken = rows_of.take(moved._value, index, mode="clamp" if how == "clip" else how)
    order = (*range(index.ndim, index.ndim + k), *range(index.ndim), *range(index.ndim + k, x.ndim - 1 + index.ndim))
    found = shaping.transpose(Array(taken), order)
    if how == "fill" and fill_value is not None:
        at = Array(index)
        inside = (at >= -x.shape[k]) & (at < x.shape[k])
        found = _filled(found, inside.reshape(inside.shape + (1,) * (x.ndim - 1 - k)), fill_value)
    return ew.store(found, out, "take")


def _resolved(name: str, index: Any, n: int, axis: int, mode: str) -> tuple[Any, Any]:
    """Places in [0, n), -1 for none; and, if there is one of these, which are places."""
    if index.__class__ is not np.ndarray:
        return _resolved_there(name, Array(index), n, mode)
    if index.size == 0 or (index.min() >= 0 and index.max() < n):
        return index, None
    if mode == "wrap":
        return index % max(1, n), None
    places = np.where(index < 0, index + n, index)
    if mode == "clip" and n:
        return np.clip(places, 0, n - 1), None
    inside = (places >= 0) & (places < n)
    if inside.all():
        return places, None
    if mode == "raise":
        bad = f"{index[~inside].flat[0]} for axis {axis} of length {n}"
        raise IndexError(message(name, "index out of range", bad, f"{-n} to {n - 1}"))
    return np.where(inside, places, -1), inside


def _resolved_there(name: str, index: Array, n: int, mode: str) -> tuple[Any, Any]:
    """The same on a device, without waiting for it: what is out of range is found out later."""
    if mode == "wrap":
        return (index % max(1, n))._value, None
    places = ew.where(index < 0, index + n, index)
    if mode == "clip" and n:
        return ew.clip(places, 0, n - 1)._value, None
    inside = (places >= 0) & (places < n)
    if mode == "raise":
        report(name, (~inside)._value)
    return ew.where(inside, places, -1)._value, None if mode == "raise" else inside


def _along(name: str, x: Array, indices: Any, axis: int, mode: str) -> tuple[Any, Any]:
    """Places along an axis, broadcast against the array off it; -1 for none, and where there are some."""
    index = _index(name, indices, x, x.shape[axis] if mode == "wrap" else 0)
    if index.ndim != x.ndim:
        raise ValueError(message(name, "numbers of axes differ", f"{index.shape}, {x.shape}", "as many axes"))
    index, inside = _resolved(name, convert(index, np.dtype(np.int64)), x.shape[axis], axis, mode)
    try:
        shape = np.broadcast_shapes(index.shape, tuple(1 if k == axis else d for k, d in enumerate(x.shape)))
    except ValueError:
        wanted = f"equal or 1 off axis {axis}"
        raise ValueError(message(name, "shapes do not broadcast", f"{index.shape}, {x.shape}", wanted)) from None
    return shaping.broadcast_to(Array(index), shape)._value, inside


def take_along_axis(
    arr: Any,
    indices: Any,
    axis: int | None = -1,
    mode: Any = "raise",
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """Elements by an index array that matches the array off the axis (and broadcasts).

    Modes for what is out of range: raise, wrap, clip, fill (nan, or 0 for integers).

    >>> import numbagrad.numpy as np
    >>> np.take_along_axis(np.asarray([[3.0, 1.0, 2.0]]), np.asarray([[1, 2, 0]]), 1)
    Array([[1., 2., 3.]], dtype=float64)
    """
    x = shaping.ravel(arr) if axis is None else Array(owned(arr, "take_along_axis"))
    how = _mode("take_along_axis", mode)
    k = normalize_axis(0 if axis is None else axis, x.ndim, "take_along_axis")
    index, inside = _along("take_along_axis", x, indices, k, how)
    lines = shaping.broadcast_to(x, (*index.shape[:k], x.shape[k], *index.shape[k + 1 :]))
    found = Array(along.take_along(lines._value, index, axis=k))
    return found if inside is None else _filled(found, inside, fill_value)


def _new_array(name: str, inplace: bool) -> None:
    if inplace:
        raise ValueError(
            message(name, "arrays are not changed in place", "inplace=True", "inplace=False", "Use x = f(x).")
        )


def _put(x: Array, elements: Any, values: Any) -> Array:
    """A copy with elements, by flat number, replaced; -1 is dropped."""
    flat = shaping.ravel(x)
    new = convert(meet_with("put", x, values)[0], x.dtype)
    elements = reshape_to(elements, (elements.size,))
    made = rows_of.scatter_set(flat._value, elements, reshape_to(new, (new.size,)), mode="drop")
    return shaping.reshape(Array(made), x.shape)


def put_along_axis(
    arr: Any, indices: Any, values: Any, axis: int | None, inplace: bool = False, *, mode: Any = None
) -> Array:
    """A copy with elements replaced by an index array that matches it off the axis; of repeated ones the last wins.

    Modes for what is out of range: raise, wrap, clip, drop.

    >>> import numbagrad.numpy as np
    >>> np.put_along_axis(np.zeros((1, 3)), np.asarray([[2, 0]]), np.asarray([[5.0, 6.0]]), 1)
    Array([[6., 0., 5.]], dtype=float64)
    """
    _new_array("put_along_axis", inplace)
    x, new = arrays_of("put_along_axis", arr, values)
    if axis is None:
        return put_along_axis(shaping.ravel(x), indices, new, 0, mode=mode).reshape(x.shape)
    k = normalize_axis(axis, x.ndim, "put_along_axis")
    index, _ = _along("put_along_axis", x, indices, k, _mode("put_along_axis", mode))
    if any(n != m for d, (n, m) in enumerate(zip(index.shape, x.shape, strict=True)) if d != k):
        raise ValueError(
            message("put_along_axis", "shapes do not match", f"{index.shape}, {x.shape}", "equal off the axis")
        )
    elements = _flat_numbers(index, x.shape, k) if x.size else index
    return _put(x, elements, shaping.broadcast_to(new, index.shape))


def _flat_numbers(index: Any, shape: tuple[int, ...], axis: int) -> Any:
    """Numbers in the flat array of places along an axis; -1 for none."""
    if index.__class__ is np.ndarray:
        number = np.arange(math.prod(shape)).reshape(shape)
        return np.where(index < 0, -1, np.take_along_axis(number, np.maximum(index, 0), axis))
    at = Array(index)
    total = at * math.prod(shape[axis + 1 :])
    for d, n in enumerate(shape):
        if d != axis:
            line = np.arange(n) * math.prod(shape[d + 1 :])
            total = total + line.reshape([-1 if d == e else 1 for e in range(len(shape))])
    return ew.where(at < 0, -1, total)._value


def _cycled(name: str, values: Any, count: int) -> Array:
    """The first `count` of endlessly repeated values."""
    flat = shaping.ravel(values)
    if flat.size == 0 and count:
        raise ValueError(message(name, "no values", "an empty array", "one at least"))
    return take(flat, np.arange(count) % max(1, flat.size), 0)


def put(a: Any, ind: Any, v: Any, mode: Any = "raise", *, inplace: bool = False) -> Array:
    """A copy with elements, by flat index, replaced by values that are repeated as needed.

    >>> import numbagrad.numpy as np
    >>> np.put(np.zeros((2, 2)), [0, 3], 7.0)
    Array([[7., 0.],
           [0., 7.]], dtype=float64)
    """
    _new_array("put", inplace)
    x, new = arrays_of("put", a, v)
    how = _mode("put", mode)
    index = _index("put", ind, x, x.size if how == "wrap" else 0)
    index = reshape_to(index, (index.size,)).copy()  # may wait on the tape of x or v
    elements = rows_of.flat_rows.run((index,), {"rows": x.size, "mode": "clamp" if how == "clip" else how})
    return _put(x, elements, _cycled("put", new, index.size))


def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = False) -> Array:
    """A copy with the elements where the mask holds replaced, in order, by values that are repeated as needed."""
    _new_array("place", inplace)
    x, new = arrays_of("place", arr, vals)
    x, elements = _held("place", mask, x)
    if np.shape(mask) != x.shape:
        raise ValueError(message("place", "shapes differ", f"{np.shape(mask)}, {x.shape}", "equal shapes"))
    return _put(x, elements, _cycled("place", new, elements.size))


def putmask(a: Any, mask: Any, values: Any) -> Array:
    """A copy with x.flat[k] = values.flat[k] (repeated as needed) where the mask holds."""
    x, new = arrays_of("putmask", a, values)
    if np.shape(mask) != x.shape:
        raise ValueError(message("putmask", "shapes differ", f"{np.shape(mask)}, {x.shape}", "equal shapes"))
    chosen = shaping.reshape(_cycled("putmask", new, x.size), x.shape)
    return Array(convert(ew.where(mask, chosen.astype(x.dtype), x)._value, x.dtype))


def compress(condition: Any, a: Any, axis: int | None = None) -> Array:
    """Slices of an axis where a condition holds."""
    a, kept = _held("compress", condition, a)
    return take(a, kept, axis)


def extract(condition: Any, arr: Any) -> Array:
    """Elements where a condition holds."""
    arr, kept = _held("extract", condition, arr)
    return take(arr, kept)


def _held(name: str, condition: Any, a: Any) -> tuple[Any, np.ndarray]:
    """An array, and where a flat condition holds."""
    mask = host_value(condition, name)
    if place_of(mask) is not None:
        if isinstance(a, Array) and place_of(a._value) is not place_of(mask):
            raise mixed_devices(name, (mask, a._value))
        a = a if isinstance(a, Array) else Array(beside(host_value(a, name), mask))
    return a, np.flatnonzero(_numbers(Array(mask), "indices"))


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Array:
    """Per element the choice of the first condition that holds, else the default."""
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError(
            message("select", "conditions and choices", f"{len(condlist)}, {len(choicelist)}", "as many of each")
        )
    cases = [*choicelist, default]
    values, _ = promote(cases, "select")
    conditions, values = selected("select", [own(host_value(c, "select"), c) for c in condlist], cases, values)
    result = Array(values[-1])
    for condition, choice in zip(conditions[::-1], values[-2::-1], strict=True):
        result = ew.where(Array(condition), Array(choice), result)
    return result


def choose(a: Any, choices: Sequence[Any], out: Any = None, mode: str = "raise") -> Array:
    """Per element the choice of that number; modes raise, wrap, clip."""
    number, n = Array(host_value(a, "choose")), len(choices)
    if mode == "raise":
        wrong = (number < 0) | (number >= n)
        if place_of(number._value) is not None:
            report("choose", wrong._value)
        elif _numbers(wrong, "an index").any():
            raise ValueError(message("choose", "no such choice", number, f"0 to {n - 1}"))
    number = number % n if mode == "wrap" else ew.clip(number, 0, n - 1)
    values, _ = promote(list(choices), "choose")
    (chosen,), values = selected("choose", (number._value,), choices, values)
    chosen, result = Array(chosen), Array(values[-1])
    for k in range(n - 2, -1, -1):
        result = ew.where(chosen == k, Array(values[k]), result)
    shape = np.broadcast_shapes(number.shape, result.shape)
    return ew.store(shaping.broadcast_to(result, shape), out, "choose")


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kwargs: Any) -> Array:
    """Per element the function (or constant) of the last condition that holds; one more function for the rest."""
    v = Array(owned(x))
    conditions = (
        [condlist]
        if np.ndim(condlist) == np.ndim(v._value) and not isinstance(condlist, (list, tuple))
        else list(condlist)
    )
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ValueError(
            message(
                "piecewise", "functions and conditions", f"{len(functions)}, {len(conditions)}", "as many, or one more"
            )
        )
    result = v * 0
    if len(functions) == len(conditions) + 1:
        rest = functions.pop()
        result = rest(v, *args, **kwargs) if callable(rest) else result + rest
    for condition, f in zip(conditions, functions, strict=True):
        result = ew.where(condition, f(v, *args, **kwargs) if callable(f) else f, result)
    return result


def unravel_index(indices: Any, shape: Sequence[int]) -> tuple[Array, ...]:
    """Flat indices as one index array per axis."""
    return tuple(_beside(i, indices) for i in np.unravel_index(_numbers(indices, "an index"), tuple(shape)))


def ravel_multi_index(multi_index: Sequence[Any], dims: Sequence[int], mode: str = "raise") -> Array:
    """Index arrays as flat indices."""
    parts = tuple(np.asarray(_numbers(i, "an index")) for i in multi_index)
    return _beside(np.ravel_multi_index(parts, tuple(dims), mode), multi_index[0])  # type: ignore[call-overload]


def isin(element: Any, test_elements: Any, invert: bool = False) -> Array:
    """Whether elements are among others."""
    if default() is not None or any(place_of(v) is not None for v in map(host_value, (element, test_elements))):
        x, among = arrays_of("isin", element, test_elements)
        return _isin_sorted(x, among, invert)
    found = np.isin(_numbers(element, "a set test"), _numbers(test_elements, "a set test"), invert=invert)
    return _beside(found, element)


def _isin_sorted(x: Array, among: Array, invert: bool) -> Array:
    """The same by a binary search in the sorted others, wherever they are."""
    dtype = promote_pair(x.dtype, among.dtype)
    x, line = x.astype(dtype), sort(shaping.ravel(among.astype(dtype)))
    if line.size == 0:
        return Array(beside(np.full(x.shape, invert), x._value))
    at = searchsorted(line, x)
    found = take(line, at, mode="clip") == x
    return ~found if invert else found


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """Index arrays of the main diagonal."""
    return (_beside(np.arange(n), None),) * ndim


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, ...]:
    """Index arrays at and below a diagonal."""
    return tuple(_beside(i, None) for i in np.tril_indices(n, k, m))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, ...]:
    """Index arrays at and above a diagonal."""
    return tuple(_beside(i, None) for i in np.triu_indices(n, k, m))


def ix_(*args: Any) -> tuple[Array, ...]:
    """Index arrays of an open mesh."""
    return tuple(_beside(i, a) for i, a in zip(np.ix_(*(_numbers(a, "an index") for a in args)), args, strict=True))
