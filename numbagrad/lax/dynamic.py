"""Slices whose place is data, under their XLA names. Starts are moved until the slice fits."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from numbagrad.core.arguments import arrays_of, host_value, owned, promote, value_of
from numbagrad.core.array import Array
from numbagrad.core.device import place_of
from numbagrad.core.errors import message
from numbagrad.core.registry import mixed_devices
from numbagrad.kernels.cpu.places import as_int64
from numbagrad.lax.scatter import GatherDimensionNumbers, gather
from numbagrad.numpy import shaping
from numbagrad.numpy.indexing import as_index, holds
from numbagrad.numpy.reductions import normalize_axis
from numbagrad.numpy.shaping import stack
from numbagrad.primitives import dynamic
from numbagrad.primitives.broadcast import reshape_to
from numbagrad.primitives.elementwise import convert
from numbagrad.primitives.join import concatenate


def _starts(name: str, starts: Any, ndim: int, x: Any) -> Any:
    """One start per axis as an int64 vector; on the device of x if one of them is."""
    if not isinstance(starts, (list, tuple)) and host_value(starts, name).shape == ():
        raise TypeError(message(name, "start_indices is no sequence", repr(starts), "one start per axis"))
    parts = starts if isinstance(starts, (list, tuple)) else [Array(host_value(starts, name))]
    plain = [Array(host_value(p, name))._buffer("an index", "Use stop_gradient(i).") for p in parts]
    if any(p.dtype.kind not in "iu" for p in plain if p.size):
        raise TypeError(message(name, "a start is not an integer", [str(p.dtype) for p in plain], "integers"))
    if all(p.__class__ is np.ndarray for p in plain):
        flat = np.concatenate([as_int64(p).reshape(-1) for p in plain]) if plain else np.zeros(0, np.int64)
    else:
        if any(p.__class__ is not np.ndarray and p.device is not place_of(x) for p in plain):
            raise mixed_devices(name, (x, *plain))
        lines = [reshape_to(convert(as_index(p), np.dtype(np.int64)), (p.size,)) for p in plain]
        flat = concatenate(*lines, axis=0) if len(lines) > 1 else lines[0]
    if flat.size != ndim:
        raise ValueError(message(name, "numbers of starts and axes differ", f"{flat.size}, {ndim}", "one per axis"))
    return flat


def dynamic_slice(
    operand: Any, start_indices: Any, slice_sizes: Sequence[int], *, allow_negative_indices: Any = True
) -> Array:
    """The part of an array of slice_sizes at start_indices (one per axis; integers or arrays).

    Edge: a negative start counts from the end; then it is moved until the slice fits.
    Errors: ValueError for a slice larger than the array.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.lax.dynamic_slice(np.arange(5), (4,), (2,))
    Array([3, 4], dtype=int64)
    """
    x = owned(operand, "dynamic_slice")
    try:
        sizes = tuple(map(operator.index, slice_sizes))
    except TypeError:
        wanted = "an integer per axis"
        raise TypeError(message("dynamic_slice", "slice_sizes", repr(slice_sizes), wanted)) from None
    if len(sizes) != len(x.shape) or any(not 0 <= w <= n for w, n in zip(sizes, x.shape, strict=True)):
        raise ValueError(
            message("dynamic_slice", "not a part of the array", f"{sizes} of {x.shape}", "at most its shape")
        )
    return Array(dynamic.dynamic_slice(x, _starts("dynamic_slice", start_indices, len(sizes), x), sizes=sizes))


def dynamic_update_slice(operand: Any, update: Any, start_indices: Any, *, allow_negative_indices: Any = True) -> Array:
    """A copy of the operand with the part at start_indices replaced; starts as for dynamic_slice.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.lax.dynamic_update_slice(np.zeros(4), np.ones(2), (3,))
    Array([0., 0., 1., 1.], dtype=float64)
    """
    name = "dynamic_update_slice"
    dtype = value_of(operand, name).dtype
    holds(name, dtype, host_value(update, name).dtype)
    (x, new), _ = promote((operand, update), name, dtype)
    if len(new.shape) != len(x.shape) or any(w > n for w, n in zip(new.shape, x.shape, strict=True)):
        raise ValueError(message(name, "the update does not fit", f"{new.shape} into {x.shape}", "at most its shape"))
    return Array(dynamic.dynamic_update_slice(x, new, _starts(name, start_indices, len(x.shape), x)))


def _along(name: str, start: Any, axis: int, ndim: int) -> tuple[int, list[Any]]:
    k = normalize_axis(axis, ndim, name)
    return k, [start if d == k else 0 for d in range(ndim)]


def dynamic_slice_in_dim(
    operand: Any, start_index: Any, slice_size: int, axis: int = 0, *, allow_negative_indices: bool = True
) -> Array:
    """dynamic_slice along one axis."""
    shape = value_of(operand, "dynamic_slice_in_dim").shape
    k, starts = _along("dynamic_slice_in_dim", start_index, axis, len(shape))
    return dynamic_slice(operand, starts, [slice_size if d == k else n for d, n in enumerate(shape)])


def dynamic_index_in_dim(
    operand: Any, index: Any, axis: int = 0, keepdims: bool = True, *, allow_negative_indices: bool = True
) -> Array:
    """The slice of length 1 at an index of an axis, which is dropped without keepdims."""
    part = dynamic_slice_in_dim(operand, index, 1, axis)
    return part if keepdims else shaping.squeeze(part, axis)


def dynamic_update_slice_in_dim(
    operand: Any, update: Any, start_index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """dynamic_update_slice along one axis."""
    ndim = len(value_of(operand, "dynamic_update_slice_in_dim").shape)
    return dynamic_update_slice(operand, update, _along("dynamic_update_slice_in_dim", start_index, axis, ndim)[1])


def dynamic_update_index_in_dim(
    operand: Any, update: Any, index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """A copy with the slice at an index of an axis replaced; the update may lack that axis."""
    ndim = len(value_of(operand, "dynamic_update_index_in_dim").shape)
    new = arrays_of("dynamic_update_index_in_dim", operand, update)[1]._value
    if len(new.shape) == ndim - 1:
        k = normalize_axis(axis, ndim, "dynamic_update_index_in_dim")
        new = reshape_to(new, (*new.shape[:k], 1, *new.shape[k:]))
    return dynamic_update_slice_in_dim(operand, Array(new), index, axis)


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """The slice at an index of an axis; out of range raises."""
    shape = value_of(operand, "index_in_dim").shape
    k, i = normalize_axis(axis, len(shape), "index_in_dim"), operator.index(index)
    if not -shape[k] <= i < shape[k]:
        got = f"{i} for axis {k} of length {shape[k]}"
        raise IndexError(message("index_in_dim", "out of range", got, f"{-shape[k]} to {shape[k] - 1}"))
    return dynamic_index_in_dim(operand, i, k, keepdims)


def index_take(src: Any, idxs: Any, axes: Sequence[int]) -> Array:
    """Slices at the indices idxs[k] (vectors of one length) of the axes; indices count modulo the lengths.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.lax.index_take(np.arange(6).reshape(2, 3), ([0, 1], [2, -1]), (0, 1))
    Array([2, 5], dtype=int64)
    """
    x = owned(src, "index_take")
    places = tuple(normalize_axis(k, len(x.shape), "index_take") for k in axes)
    plain = [Array(host_value(i, "index_take"))._buffer("an index", "Use stop_gradient(i).") for i in idxs]
    if len(plain) != len(places) or any(p.ndim != 1 for p in plain):
        got = f"{[p.shape for p in plain]} for {len(places)} axes"
        raise ValueError(message("index_take", "not an index vector per axis", got, "vectors of one length"))
    if any(p.dtype.kind not in "iu" for p in plain if p.size):
        raise TypeError(message("index_take", "not integers", [str(p.dtype) for p in plain], "integers"))
    lengths = [max(1, x.shape[k]) for k in places]
    index: Any
    if all(p.__class__ is np.ndarray for p in plain):
        index = np.stack([as_int64(p, n) % n for p, n in zip(plain, lengths, strict=True)], axis=-1)
    else:
        lines = [Array(p) % np.asarray(n, p.dtype) for p, n in zip(plain, lengths, strict=True)]
        index = stack([line.astype(np.int64) for line in lines], axis=-1)
    rest = len(x.shape) - len(places)
    numbers = GatherDimensionNumbers(tuple(range(1, rest + 1)), tuple(sorted(places)), places)
    return gather(Array(x), index, numbers, [1 if k in places else n for k, n in enumerate(x.shape)])
