"""Shapes: reshape, transpose, broadcast, join, split, repeat, roll, flip. Views wherever NumPy has views."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from numbagrad.core.arguments import arrays_of, meet_with, owned, promote, value_of
from numbagrad.core.array import Array
from numbagrad.core.device import beside
from numbagrad.core.dtypes import check_dtype
from numbagrad.core.errors import message
from numbagrad.numpy.reductions import normalize_axes, normalize_axis
from numbagrad.primitives import broadcast as bc
from numbagrad.primitives import index as rows_of
from numbagrad.primitives import join, layout, slices
from numbagrad.primitives.elementwise import convert

# fmt: off
__all__ = [
    "append", "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to",
    "column_stack", "concat", "concatenate", "delete", "dsplit", "dstack", "expand_dims", "flip", "fliplr",
    "flipud", "hsplit", "hstack", "insert", "matrix_transpose", "moveaxis", "permute_dims", "ravel",
    "repeat", "reshape", "resize", "roll", "rollaxis", "rot90", "split", "squeeze", "stack", "swapaxes", "tile",
    "transpose", "trim_zeros", "unstack", "vsplit", "vstack",
]
# fmt: on


def _ints(shape: Any, name: str) -> tuple[int, ...]:
    try:
        return (operator.index(shape),)
    except TypeError:
        pass
    try:
        return tuple(operator.index(n) for n in shape)
    except TypeError:
        raise TypeError(message(name, "not a shape", repr(shape), "an int or a tuple of ints")) from None


def reshape(a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: bool | None = None) -> Array:
    """The same elements under another shape; one length may be -1.

    >>> import numbagrad.numpy as np
    >>> np.reshape(np.arange(6), (2, -1)).shape
    (2, 3)
    """
    value = owned(a, "reshape")
    wanted = _ints(newshape if shape is None else shape, "reshape")
    size = math.prod(value.shape)
    known = math.prod([n for n in wanted if n != -1])
    if wanted.count(-1) == 1 and known and size % known == 0:
        wanted = tuple(size // known if n == -1 else n for n in wanted)
    if math.prod(wanted) != size or any(n < 0 for n in wanted):
        raise ValueError(message("reshape", "sizes differ", f"{value.shape} to {wanted}", f"{size} elements"))
    if order == "F":
        return transpose(reshape(transpose(Array(value)), wanted[::-1]))
    if order not in ("C", "A"):
        raise ValueError(message("reshape", "no such order", repr(order), "'C' or 'F'"))
    return Array(bc.reshape_to(value, wanted))


def ravel(a: Any, order: str = "C") -> Array:
    """All elements in one axis."""
    return reshape(a, (-1,) if value_of(a).size else (0,), order)


def transpose(a: Any, axes: Sequence[int] | None = None) -> Array:
    """Axes in another order (reversed by default)."""
    value = owned(a, "transpose")
    ndim = len(value.shape)
    order = tuple(range(ndim))[::-1] if axes is None else tuple(normalize_axis(k, ndim, "transpose") for k in axes)
    if sorted(order) != list(range(ndim)):
        raise ValueError(message("transpose", "not a permutation of the axes", axes, f"each of 0 to {ndim - 1} once"))
    return Array(layout.transpose(value, axes=order))


permute_dims = transpose


def matrix_transpose(x: Any, /) -> Array:
    """The last two axes swapped."""
    return swapaxes(x, -1, -2)


def swapaxes(a: Any, axis1: int, axis2: int) -> Array:
    """Two axes swapped."""
    ndim = len(value_of(a).shape)
    order = list(range(ndim))
    i, j = normalize_axis(axis1, ndim, "swapaxes"), normalize_axis(axis2, ndim, "swapaxes")
    order[i], order[j] = order[j], order[i]
    return transpose(a, order)


def moveaxis(a: Any, source: Any, destination: Any) -> Array:
    """Axes moved to new places, the others keep their order."""
    ndim = len(value_of(a).shape)
    src = [normalize_axis(k, ndim, "moveaxis") for k in _ints(source, "moveaxis")]
    dst = [normalize_axis(k, ndim, "moveaxis") for k in _ints(destination, "moveaxis")]
    if len(src) != len(dst):
        raise ValueError(
            message("moveaxis", "different numbers of axes", f"{source}, {destination}", "as many of each")
        )
    order = [k for k in range(ndim) if k not in src]
    for d, s in sorted(zip(dst, src, strict=True)):
        order.insert(d, s)
    return transpose(a, order)


def rollaxis(a: Any, axis: int, start: int = 0) -> Array:
    """An axis moved backwards to lie before another."""
    ndim = len(value_of(a).shape)
    k = normalize_axis(axis, ndim, "rollaxis")
    start = start + ndim if start < 0 else start
    return moveaxis(a, k, start - (start > k))


def expand_dims(a: Any, axis: Any) -> Array:
    """New axes of length 1 at the given places of the result."""
    value = owned(a, "expand_dims")
    axes = normalize_axes(
        axis if isinstance(axis, (tuple, list)) else (axis,),
        len(value.shape) + len(_ints(axis, "expand_dims")),
        "expand_dims",
    )
    return Array(bc.expand_axes(value, axes, len(value.shape) + len(axes)))


def squeeze(a: Any, axis: Any = None) -> Array:
    """Axes of length 1 dropped."""
    value = owned(a, "squeeze")
    axes = (
        tuple(k for k, n in enumerate(value.shape) if n == 1)
        if axis is None
        else normalize_axes(axis, len(value.shape), "squeeze")
    )
    if any(value.shape[k] != 1 for k in axes):
        raise ValueError(message("squeeze", "an axis is not of length 1", f"axis {axis} of {value.shape}", "length 1"))
    return Array(bc.reshape_to(value, tuple(n for k, n in enumerate(value.shape) if k not in axes)))


def broadcast_to(a: Any, /, shape: Any) -> Array:
    """Repeated along new and length-1 axes, as a view."""
    value, target = owned(a, "broadcast_to"), _ints(shape, "broadcast_to")
    try:
        fits = np.broadcast_shapes(value.shape, target) == target
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            message("broadcast_to", "shapes do not broadcast", f"{value.shape} to {target}", "equal or 1 per axis")
        )
    return Array(bc.broadcast_to(value, shape=target) if value.shape != target else value)


def broadcast_arrays(*args: Any) -> list[Array]:
    """All with their common shape."""
    arrays = [Array(owned(a, "broadcast_arrays")) for a in args]
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    return [broadcast_to(x, shape) for x in arrays]


def atleast_1d(*xs: Any) -> Any:
    """At least one axis."""
    return _atleast(xs, lambda x: x.reshape(1) if x.ndim == 0 else x)


def atleast_2d(*xs: Any) -> Any:
    """At least two axes, new ones in front."""
    return _atleast(xs, lambda x: x if x.ndim >= 2 else x.reshape(1, -1) if x.size else x.reshape(1, 0))


def atleast_3d(*xs: Any) -> Any:
    """At least three axes."""
    return _atleast(
        xs, lambda x: x if x.ndim >= 3 else expand_dims(x, -1) if x.ndim == 2 else expand_dims(atleast_2d(x), -1)
    )


def _atleast(xs: Sequence[Any], grow: Any) -> Any:
    grown = [grow(Array(owned(x))) for x in xs]
    return grown[0] if len(grown) == 1 else grown


def concatenate(arrays: Any, /, axis: int | None = 0, dtype: Any = None) -> Array:
    """Arrays one after the other along an axis (flat if None)."""
    parts = _parts(arrays)
    if not parts:
        raise ValueError(message("concatenate", "nothing to join", "no arrays", "at least one"))
    if axis is None:
        parts, axis = [ravel(p) for p in arrays_of("concatenate", *parts)], 0
    if len(parts) == 1:
        parts = [Array(owned(parts[0]))]  # the result may be a view
    values, _ = promote(parts, "concatenate", None if dtype is None else check_dtype("concatenate", dtype))
    ndim = len(values[0].shape)
    if ndim == 0:
        raise ValueError(
            message("concatenate", "0-d arrays have no axis", "shape ()", "at least one axis", "Use stack.")
        )
    k = normalize_axis(axis, ndim, "concatenate")
    if len({(*v.shape[:k], *v.shape[k + 1 :]) for v in values}) > 1 or any(len(v.shape) != ndim for v in values):
        shapes = [v.shape for v in values]
        raise ValueError(message("concatenate", "shapes differ off the axis", shapes, f"equal but for axis {k}"))
    return Array(values[0] if len(values) == 1 else join.concatenate(*values, axis=k))


concat = concatenate


def _parts(arrays: Any) -> list[Any]:
    return [arrays[k] for k in range(len(arrays))] if isinstance(arrays, Array) else list(arrays)


def stack(arrays: Any, /, axis: int = 0, dtype: Any = None) -> Array:
    """Arrays of one shape along a new axis."""
    parts = _parts(arrays)
    if not parts:
        raise ValueError(message("stack", "nothing to stack", "no arrays", "at least one"))
    if len(parts) == 1:
        parts = [Array(owned(parts[0]))]
    values, _ = promote(parts, "stack", None if dtype is None else check_dtype("stack", dtype))
    shapes = {v.shape for v in values}
    if len(shapes) > 1:
        raise ValueError(message("stack", "shapes differ", sorted(shapes), "equal shapes"))
    ndim = len(values[0].shape) + 1
    k = normalize_axis(axis, ndim, "stack")
    return concatenate([Array(bc.expand_axes(v, (k,), ndim)) for v in values], k)


def vstack(tup: Any, dtype: Any = None) -> Array:
    """Rows on top of each other."""
    return concatenate([atleast_2d(x) for x in arrays_of("vstack", *_parts(tup))], 0, dtype)


def hstack(tup: Any, dtype: Any = None) -> Array:
    """Side by side along axis 1 (0 for 1-d arrays)."""
    grown = [atleast_1d(x) for x in arrays_of("hstack", *_parts(tup))]
    return concatenate(grown, 0 if grown and grown[0].ndim == 1 else 1, dtype)


def dstack(tup: Any) -> Array:
    """Along axis 2."""
    return concatenate([atleast_3d(x) for x in arrays_of("dstack", *_parts(tup))], 2)


def column_stack(tup: Any) -> Array:
    """1-d arrays as columns, 2-d arrays side by side."""
    arrays = arrays_of("column_stack", *_parts(tup))
    return concatenate([x.reshape(-1, 1) if x.ndim < 2 else x for x in arrays], 1)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Parts along an axis: a number of nearly equal ones, or cut at indices."""
    x = Array(owned(ary))
    k = normalize_axis(axis, x.ndim, "split")
    n = x.shape[k]
    if np.ndim(indices_or_sections) == 0:
        sections = operator.index(indices_or_sections)
        if sections <= 0:
            raise ValueError(message("split", "number of sections", sections, "at least 1"))
        each, extra = divmod(n, sections)
        sizes = [each + 1] * extra + [each] * (sections - extra)
        cuts = [0, *np.cumsum(sizes).tolist()]
    else:
        cuts = [0, *(operator.index(i) for i in indices_or_sections), n]
    lead = (slice(None),) * k
    return [Array(x[(*lead, slice(a, b))]._value) for a, b in itertools.pairwise(cuts)]


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Parts along an axis; a number of sections must divide its length."""
    x = Array(owned(ary))
    if np.ndim(indices_or_sections) == 0:
        n = x.shape[normalize_axis(axis, x.ndim, "split")]
        if n % operator.index(indices_or_sections):
            got, wrong = f"{n} into {indices_or_sections}", "sections do not divide the axis"
            raise ValueError(message("split", wrong, got, "equal parts", "Use array_split."))
    return array_split(x, indices_or_sections, axis)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """split along axis 0."""
    return split(ary, indices_or_sections, 0)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """split along axis 1 (0 for 1-d arrays)."""
    return split(ary, indices_or_sections, 0 if np.ndim(ary) == 1 else 1)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """split along axis 2."""
    return split(ary, indices_or_sections, 2)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis."""
    moved = moveaxis(x, axis, 0)
    return tuple(Array(moved[k]._value) for k in range(moved.shape[0]))


def flip(m: Any, axis: Any = None) -> Array:
    """Elements in reverse order along axes, as a view."""
    value = owned(m, "flip")
    axes = normalize_axes(axis, len(value.shape), "flip")
    key = tuple(slice(None, None, -1) if k in axes else slice(None) for k in range(len(value.shape)))
    return Array(slices.getitem(value, key=key))


def flipud(m: Any) -> Array:
    """flip axis 0."""
    return flip(m, 0)


def fliplr(m: Any) -> Array:
    """flip axis 1."""
    return flip(m, 1)


def rot90(m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Array:
    """Rotated by k quarter turns in the plane of two axes."""
    a, b = (normalize_axis(x, np.ndim(m), "rot90") for x in axes)
    k %= 4
    if k == 0:
        return Array(owned(m))
    if k == 2:
        return flip(m, (a, b))
    return flip(swapaxes(m, a, b), a) if k == 1 else swapaxes(flip(m, a), a, b)


def roll(a: Any, shift: Any, axis: Any = None) -> Array:
    """Elements moved along axes, those pushed out come back at the other end."""
    x = Array(owned(a))
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape)
    axes = _ints(axis, "roll")
    shifts = np.broadcast_to(np.asarray(shift), (len(axes),)) if np.ndim(shift) == 0 else np.asarray(shift)
    if len(axes) == 1 and len(shifts) > 1:
        axes = axes * len(shifts)
    for k, s in zip(axes, shifts.tolist(), strict=True):
        d = normalize_axis(k, x.ndim, "roll")
        n = x.shape[d]
        if n and s % n:
            lead = (slice(None),) * d
            x = concatenate([x[(*lead, slice(n - s % n, None))], x[(*lead, slice(0, n - s % n))]], d)
    return x


def repeat(a: Any, repeats: Any, axis: int | None = None) -> Array:
    """Each element (slice) repeated, by one number or one per element."""
    x = ravel(a) if axis is None else Array(owned(a))
    k = normalize_axis(0 if axis is None else axis, x.ndim, "repeat")
    counts = np.broadcast_to(np.asarray(repeats), (x.shape[k],))
    index = np.repeat(np.arange(x.shape[k]), counts)
    moved = moveaxis(x, k, 0)
    return moveaxis(Array(rows_of.take(moved._value, index, mode="raise")), 0, k)


def tile(a: Any, reps: Any) -> Array:
    """The array repeated as a whole along axes."""
    x, times = Array(owned(a)), _ints(reps, "tile")
    ndim = max(x.ndim, len(times))
    times = (1,) * (ndim - len(times)) + times
    shape = (1,) * (ndim - x.ndim) + x.shape
    spread = broadcast_to(
        x.reshape([m for n in shape for m in (1, n)]), [m for t, n in zip(times, shape, strict=True) for m in (t, n)]
    )
    return reshape(spread, [t * n for t, n in zip(times, shape, strict=True)])


def append(arr: Any, values: Any, axis: int | None = None) -> Array:
    """values after the end of arr."""
    return concatenate([arr, values], axis)


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Array:
    """values before positions of an axis."""
    x = ravel(arr) if axis is None else Array(owned(arr))
    k = normalize_axis(0 if axis is None else axis, x.ndim, "insert")
    n = x.shape[k]
    positions = np.arange(n)[obj] if isinstance(obj, slice) else np.atleast_1d(np.asarray(obj))
    if positions.dtype == bool:
        positions = np.flatnonzero(positions)
    single = np.ndim(obj) == 0 and not isinstance(obj, slice)
    new = Array(convert(meet_with("insert", x, values)[0], x.dtype))
    if single and new.ndim == x.ndim:
        count = new.shape[k]
    else:
        count = len(positions)
        if single and new.ndim and x.ndim > 1:
            new = expand_dims(new, k) if new.ndim == x.ndim - 1 else new
    places = np.where(positions < 0, positions + n, positions)
    places = np.repeat(places, count) if single else places
    order = np.argsort(places, kind="stable")
    at = np.empty(count, np.int64)
    at[order] = np.sort(places) + np.arange(count)
    whole = np.full(n + count, -1)
    whole[at] = n + np.arange(count)
    whole[whole < 0] = np.arange(n)
    new = broadcast_to(new, (*x.shape[:k], count, *x.shape[k + 1 :]))
    return take_axis(concatenate([x, new], k), whole, k)


def delete(arr: Any, obj: Any, axis: int | None = None) -> Array:
    """Without the elements (slices) at positions of an axis."""
    x = ravel(arr) if axis is None else Array(owned(arr))
    k = normalize_axis(0 if axis is None else axis, x.ndim, "delete")
    return take_axis(x, np.delete(np.arange(x.shape[k]), obj), k)


def take_axis(x: Array, index: np.ndarray, axis: int) -> Array:
    """Slices of an axis by integer positions."""
    return moveaxis(Array(rows_of.take(moveaxis(x, axis, 0)._value, index, mode="raise")), 0, axis)


def resize(a: Any, new_shape: Any) -> Array:
    """Another shape, repeating the elements as often as needed."""
    flat, shape = ravel(a), _ints(new_shape, "resize")
    size = math.prod(shape)
    if flat.size == 0:
        return Array(beside(np.zeros(shape, flat.dtype), flat._value))
    return reshape(take_axis(flat, np.arange(size) % flat.size, 0), shape)


def trim_zeros(filt: Any, trim: str = "fb") -> Array:
    """Without leading ("f") and trailing ("b") zeros."""
    x = Array(owned(filt))
    held = np.flatnonzero(np.asarray(x._concrete("indices", "Trim outside the function.")))
    start = held[0] if held.size and "f" in trim.lower() else (x.size if not held.size else 0)
    stop = held[-1] + 1 if held.size and "b" in trim.lower() else x.size
    return Array(x[int(start) : int(stop)]._value)
