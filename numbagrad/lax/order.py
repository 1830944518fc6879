"""Sorting and running results under their XLA names, and linear recurrences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from numbagrad.core.arguments import arrays_of, owned, promote, value_of
from numbagrad.core.array import Array
from numbagrad.core.dtypes import float_dtype
from numbagrad.core.errors import message
from numbagrad.numpy import cumulative as cum
from numbagrad.numpy import shaping
from numbagrad.numpy.order import axis_of, ordered, permutation, whole
from numbagrad.numpy.reductions import normalize_axis
from numbagrad.primitives import cumulative as running
from numbagrad.primitives import sort as prims
from numbagrad.primitives.along import take_along
from numbagrad.primitives.elementwise import convert


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Sorted along an axis; several operands are put in the order of the first `num_keys`, the first counting first.

    Edge: nan is last, equal elements keep their order. Derivative: of every operand, along the permutation.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.lax.sort((np.asarray([2, 1, 2]), np.asarray([0.5, 1.5, 0.0])), num_keys=2)
    (Array([1, 2, 2], dtype=int64), Array([1.5, 0. , 0.5], dtype=float64))
    """
    if not isinstance(operand, (list, tuple)):
        value = ordered(operand, "sort")
        return Array(prims.sort(value, axis=axis_of(dimension, len(value.shape), "sort")))
    values = [x._value for x in arrays_of("sort", *operand)]
    if not 1 <= num_keys <= len(values):
        raise ValueError(message("sort", "number of keys", num_keys, f"1 to {len(values)}, the number of operands"))
    if len({v.shape for v in values}) > 1:
        raise ValueError(message("sort", "operands have different shapes", [v.shape for v in values], "one shape"))
    keys = [ordered(Array(v), "sort") for v in values[:num_keys]]
    k = axis_of(dimension, len(values[0].shape), "sort")
    index = permutation(keys, k)
    return tuple(Array(take_along(v, index, axis=k, unique=True)) for v in values)


def sort_key_val(keys: Any, values: Any, dimension: int = -1, is_stable: bool = True) -> tuple[Array, Array]:
    """Keys in order along an axis, and the values in the order of the keys."""
    found: tuple[Array, Array] = sort((keys, values), dimension, is_stable, 1)
    return found


def top_k(operand: Any, k: int, *, axis: int = -1) -> tuple[Array, Array]:
    """The k largest along an axis, the largest first, and where they are.

    Edge: of equal elements the first comes first; nan counts as largest. Derivative: of the values, to where they are.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.lax.top_k(np.asarray([1.0, 3.0, 2.0, 3.0]), 2)
    (Array([3., 3.], dtype=float64), Array([1, 3], dtype=int64))
    """
    value = ordered(Array(owned(operand, "top_k")), "top_k")
    place = axis_of(axis, len(value.shape), "top_k")
    wanted, n = whole(k, "top_k", "k"), value.shape[place]
    if not 0 <= wanted <= n:
        raise ValueError(message("top_k", "k out of range", k, f"0 to {n}, the length of the axis"))
    rows = shaping.moveaxis(Array(value), place, -1)._value
    index = prims.top_k(rows, k=wanted)
    index = shaping.moveaxis(Array(index), -1, place)._value
    return Array(take_along(value, index, axis=place, unique=True)), Array(index)


def _same_type(name: str, primitive: Any, doc: str) -> Callable[..., Array]:
    def function(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
        value = value_of(operand, name)
        if value.shape == ():
            raise ValueError(message(name, "no axis to run along", "shape ()", "at least one axis"))
        if value.dtype.kind == "b":
            raise TypeError(message(name, "truth values", "bool", "a number type", "Convert with .astype(int)."))
        k = normalize_axis(axis, len(value.shape), name)
        return Array(cum.accumulate(primitive, value, k, value.dtype, bool(reverse)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


cumsum = _same_type(
    "cumsum", running.cumsum, "Sum of the elements so far along an axis, from the end if `reverse`, in the same dtype."
)
cumprod = _same_type(
    "cumprod",
    running.cumprod,
    "Product of the elements so far along an axis, from the end if `reverse`; its derivative is exact with zeros.",
)


def _running(name: str, primitive: Any, doc: str) -> Callable[..., Array]:
    def function(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
        return cum.running(name, primitive, operand, axis, bool(reverse))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


cummax = _running(
    "cummax",
    running.cummax,
    """Largest element so far along an axis, from the end if `reverse`; nan after a nan.

    Derivative: to the latest of equals, after a nan to the latest nan.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.grad(lambda x: ng.lax.cummax(x).sum())(np.asarray([2.0, 1.0, 2.0]))
    Array([2., 0., 1.], dtype=float64)
    """,
)
cummin = _running(
    "cummin", running.cummin, "Smallest element so far along an axis, from the end if `reverse`; nan after a nan."
)
cumlogsumexp = _running(
    "cumlogsumexp",
    running.cumlogsumexp,
    """log(sum(exp(x))) of the elements so far along an axis, from the end if `reverse`, without overflow.

    Edge: only -inf so far has derivative 0; the +inf so far share all of it.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.lax.cumlogsumexp(np.asarray([1000.0, 1000.0]))
    Array([1000.        , 1000.69314718], dtype=float64)
    """,
)


def linear_recurrence(a: Any, b: Any, axis: int = 0, reverse: bool = False) -> Array:
    """y[i] = a[i] * y[i-1] + b[i] along an axis, starting from 0; from the end if `reverse`.

    Autoregressive filters, moving averages with decay, discounted returns (`reverse`), gates of recurrent networks:
    in one pass, and so are all its derivatives. `a` and `b` broadcast. Edge: an exact zero passes nothing on, even
    where `a` is inf or nan.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> rewards = np.asarray([0.0, 0.0, 1.0])
    >>> ng.lax.linear_recurrence(0.5, rewards, reverse=True)
    Array([0.25, 0.5 , 1.  ], dtype=float64)
    """
    name = "linear_recurrence"
    (x, y), common = promote((a, b), name)
    dtype = float_dtype(common)
    arrays = [Array(convert(owned(Array(v), name), dtype)) for v in (x, y)]
    try:
        shape = np.broadcast_shapes(arrays[0].shape, arrays[1].shape)
    except ValueError:
        got = f"{arrays[0].shape} and {arrays[1].shape}"
        raise ValueError(message(name, "shapes do not broadcast", got, "equal or 1 in each axis")) from None
    if shape == ():
        raise ValueError(message(name, "no axis to run along", "shape ()", "at least one axis"))
    x, y = (shaping.broadcast_to(v, shape)._value for v in arrays)
    return Array(running.linear_recurrence(x, y, axis=normalize_axis(axis, len(shape), name), reverse=bool(reverse)))
