"""Shapes, slices, products and reductions under their XLA names."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numbagrad.core.arguments import arrays_of, owned, promote, value_of
from numbagrad.core.array import Array
from numbagrad.core.device import beside
from numbagrad.core.dtypes import check_dtype
from numbagrad.core.errors import message
from numbagrad.core.tree import tree_map
from numbagrad.numpy import creation, products, reductions, shaping
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy.reductions import normalize_axis
from numbagrad.primitives import barrier, slices
from numbagrad.primitives import contract as products_of
from numbagrad.primitives.elementwise import convert


def stop_gradient(x: Any) -> Any:
    """x (any pytree) as a constant: the value passes, the derivative is zero.

    >>> import numbagrad as ng
    >>> ng.grad(lambda x: x * ng.lax.stop_gradient(x))(3.0)
    Array(3., dtype=float64)
    """
    return tree_map(_stop, x)


def _stop(x: Any) -> Any:
    if isinstance(x, Array):
        return Array(barrier.stop_gradient(x._value))
    return Array(owned(x)) if isinstance(x, np.ndarray) else x


def broadcast(operand: Any, sizes: Sequence[int]) -> Array:
    """New axes of the given sizes in front."""
    x = Array(owned(operand, "broadcast"))
    return shaping.broadcast_to(x, (*sizes, *x.shape))


def broadcast_in_dim(operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Array:
    """To a shape, with axis k of the operand at broadcast_dimensions[k].

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.lax.broadcast_in_dim(np.arange(2), (2, 3), (0,))
    Array([[0, 0, 0],
           [1, 1, 1]], dtype=int64)
    """
    x = Array(owned(operand, "broadcast_in_dim"))
    places = [operator.index(k) for k in broadcast_dimensions]
    if len(places) != x.ndim or places != sorted(set(places)) or any(not 0 <= k < len(shape) for k in places):
        wanted = f"{x.ndim} increasing axes below {len(shape)}"
        raise ValueError(message("broadcast_in_dim", "not a place for each axis", tuple(places), wanted))
    wide = [1] * len(shape)
    for k, n in zip(places, x.shape, strict=True):
        wide[k] = n
    return shaping.broadcast_to(shaping.reshape(x, wide), shape)


def reshape(operand: Any, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None) -> Array:
    """The same elements under another shape, after a permutation of the axes if `dimensions` is given."""
    x = operand if dimensions is None else shaping.transpose(operand, dimensions)
    return shaping.reshape(x, new_sizes)


def transpose(operand: Any, permutation: Sequence[int]) -> Array:
    """Axes in another order."""
    return shaping.transpose(operand, permutation)


def rev(operand: Any, dimensions: Sequence[int]) -> Array:
    """Elements in reverse order along axes."""
    return shaping.flip(operand, tuple(dimensions))


def squeeze(array: Any, dimensions: Sequence[int]) -> Array:
    """Axes of length 1 dropped."""
    return shaping.squeeze(array, tuple(dimensions))


def expand_dims(array: Any, dimensions: Sequence[int]) -> Array:
    """New axes of length 1 at places of the result."""
    return shaping.expand_dims(array, tuple(dimensions))


def concatenate(operands: Sequence[Any], dimension: int) -> Array:
    """Arrays one after the other along an axis."""
    return shaping.concatenate(operands, dimension)


def slice(
    operand: Any, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None
) -> Array:
    """Elements from start to below limit along every axis; out of range raises.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.lax.slice(np.arange(10), (2,), (9,), (3,))
    Array([2, 5, 8], dtype=int64)
    """
    value = owned(operand, "slice")
    steps = [1] * len(value.shape) if strides is None else [operator.index(s) for s in strides]
    starts, limits = map(operator.index, start_indices), map(operator.index, limit_indices)
    parts = list(zip(starts, limits, steps))
    fits = len(parts) == len(value.shape) == len(steps) and all(
        0 <= a <= b <= n and s > 0 for (a, b, s), n in zip(parts, value.shape)
    )
    if not fits:
        got = f"{tuple(start_indices)} to {tuple(limit_indices)} by {tuple(steps)} of shape {value.shape}"
        raise ValueError(message("slice", "not a part of the array", got, "0 <= start <= limit <= length, stride > 0"))
    return Array(slices.getitem(value, key=tuple(builtins.slice(a, b, s) for a, b, s in parts)))


def slice_in_dim(
    operand: Any, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0
) -> Array:
    """slice along one axis, with negative indices counted from the end."""
    value = owned(operand, "slice_in_dim")
    k = normalize_axis(axis, len(value.shape), "slice_in_dim")
    start, limit, step = builtins.slice(start_index, limit_index, stride).indices(value.shape[k])
    key = tuple(builtins.slice(start, limit, step) if d == k else builtins.slice(None) for d in range(len(value.shape)))
    return Array(slices.getitem(value, key=key))


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Array:
    """(low, high, interior) elements of padding_value around and between, per axis; negative amounts crop.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.lax.pad(np.asarray([1.0, 2.0]), 0.0, [(1, -1, 2)])
    Array([0., 1., 0., 0.], dtype=float64)
    """
    (x, fill), _ = promote((operand, padding_value), "pad")
    config = [tuple(map(operator.index, c)) for c in padding_config]
    if len(config) != len(x.shape) or any(c[2] < 0 for c in config) or fill.shape != ():
        raise ValueError(message("pad", "not a padding", padding_config, f"{len(x.shape)} triples and a scalar"))
    spread = [0 if n == 0 else (n - 1) * (i + 1) + 1 for n, (_, _, i) in zip(x.shape, config)]
    lows, highs = [max(0, lo) for lo, _, _ in config], [max(0, hi) for _, hi, _ in config]
    full = tuple(lo + n + hi for lo, n, hi in zip(lows, spread, highs))
    key = tuple(builtins.slice(lo, lo + n, i + 1) for lo, n, (_, _, i) in zip(lows, spread, config))
    every = beside(np.broadcast_to(np.ones((), bool), x.shape), x)
    held = slices.embed.run((every,), {"shape": full, "key": key})
    out = ew.where(held, Array(slices.embed(x, shape=full, key=key)), Array(fill))
    crop = tuple(builtins.slice(max(0, -lo), max(max(0, -lo), n - max(0, -hi))) for n, (lo, hi, _) in zip(full, config))
    return Array(slices.getitem(out._value, key=crop)) if any(lo < 0 or hi < 0 for lo, hi, _ in config) else out


def dot(lhs: Any, rhs: Any) -> Array:
    """Product of vectors and matrices: the last axis of lhs with the first of rhs."""
    x, y = arrays_of("dot", lhs, rhs)
    if x.ndim not in (1, 2) or y.ndim not in (1, 2):
        raise TypeError(message("dot", "not vectors or matrices", f"{x.shape} and {y.shape}", "1 or 2 axes each"))
    return products.tensordot(x, y, 1)


def batch_matmul(lhs: Any, rhs: Any) -> Array:
    """Matrix products over equal leading axes."""
    return products.matmul(lhs, rhs)


def _axes(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    return tuple(normalize_axis(k, ndim, "dot_general") for k in axes)


def dot_general(lhs: Any, rhs: Any, dimension_numbers: Any, preferred_element_type: Any = None) -> Array:
    """Sum of products over contracted axes.

    dimension_numbers: ((lhs contracted, rhs contracted), (lhs batch, rhs batch)).
    Shapes: batch axes, then the free axes of lhs, then those of rhs.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.lax.dot_general(np.ones((5, 2, 3)), np.ones((5, 3, 4)), (((2,), (1,)), ((0,), (0,)))).shape
    (5, 2, 4)
    """
    (x, y), _ = promote((lhs, rhs), "dot_general")
    pairs = [tuple(_axes(axes, len(v.shape)) for axes, v in zip(group, (x, y))) for group in dimension_numbers]
    for a, b in pairs:
        if [x.shape[k] for k in a] != [y.shape[k] for k in b]:
            got = f"{x.shape} and {y.shape} over {a}, {b}"
            raise ValueError(message("dot_general", "lengths differ", got, "equal lengths"))
    (contract_x, contract_y), batch = pairs
    order = sorted(range(len(contract_x)), key=contract_x.__getitem__)
    contract = (tuple(contract_x[k] for k in order), tuple(contract_y[k] for k in order))
    out = products_of.dot_general(x, y, contract=contract, batch=tuple(batch))
    if preferred_element_type is not None:
        out = convert(out, check_dtype("dot_general", preferred_element_type))
    return Array(out)


def iota(dtype: Any, size: int) -> Array:
    """0 to size - 1."""
    return creation.arange(size, dtype=check_dtype("iota", dtype))


def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int) -> Array:
    """The index along one axis, in a shape."""
    line = np.arange(shape[dimension]).astype(check_dtype("broadcasted_iota", dtype))
    return broadcast_in_dim(line, shape, (dimension % len(shape),))


def full(shape: Sequence[int], fill_value: Any, dtype: Any = None) -> Array:
    """All one value."""
    return creation.full(shape, fill_value, dtype)


def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> Array:
    """All one value, of an array's shape and dtype."""
    return creation.full_like(x, fill_value, dtype=dtype, shape=shape)


def _reduction(name: str, function: Any) -> Callable[..., Array]:
    def reduction(operand: Any, axes: Sequence[int]) -> Array:
        return function(operand, tuple(axes))

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = function.__doc__.partition("\n")[0]
    return reduction


def _same_type_sum(function: Any) -> Any:
    def reduce(operand: Any, axes: tuple[int, ...]) -> Array:
        value = value_of(operand)
        return function(Array(value), axes, value.dtype)

    reduce.__doc__ = function.__doc__
    return reduce


reduce_sum = _reduction("reduce_sum", _same_type_sum(reductions.sum))
reduce_prod = _reduction("reduce_prod", _same_type_sum(reductions.prod))
reduce_max = _reduction("reduce_max", reductions.max)
reduce_min = _reduction("reduce_min", reductions.min)
reduce_and = _reduction("reduce_and", reductions.all)
reduce_or = _reduction("reduce_or", reductions.any)


def argmax(operand: Any, axis: int, index_dtype: Any = int) -> Array:
    """Index of the first maximum along an axis; the first nan counts as one."""
    return reductions.argmax(operand, axis).astype(index_dtype)


def argmin(operand: Any, axis: int, index_dtype: Any = int) -> Array:
    """Index of the first minimum along an axis; the first nan counts as one."""
    return reductions.argmin(operand, axis).astype(index_dtype)
