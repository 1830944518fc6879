"""Integers, choices and permutations."""

from __future__ import annotations

import math
import operator
from functools import cache
from typing import Any

import numpy as np

from numbagrad.core.arguments import host_value
from numbagrad.core.array import Array, concrete_array
from numbagrad.core.device import beside
from numbagrad.core.dtypes import INEXACT, check_dtype, float_dtype
from numbagrad.core.errors import message
from numbagrad.core.trace import Box
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy import reductions, shaping
from numbagrad.primitives import index as rows_of
from numbagrad.primitives.broadcast import reshape_to
from numbagrad.primitives.elementwise import MapOp, convert, map_op
from numbagrad.primitives.random_bits import random_order
from numbagrad.primitives.slices import getitem
from numbagrad.primitives.sort import argsort, searchsorted
from numbagrad.random.continuous import gumbel, uniform
from numbagrad.random.keys import key_of, raw_bits, shape_of, split
from numbagrad.scalar import ATOMS, Expr, arg
from numbagrad.scalar.atoms import cast

U64 = np.dtype(np.uint64)
_LOW = 0xFFFFFFFF


def _high_product(a: Expr, b: Expr) -> Expr:
    """High 64 bits of the product of two 64-bit integers, by halves."""
    shift, mask = ATOMS["right_shift"], ATOMS["bitwise_and"]
    a1, a0, b1, b0 = shift(a, 32), mask(a, _LOW), shift(b, 32), mask(b, _LOW)
    middle = a1 * b0 + shift(a0 * b0, 32)
    other = a0 * b1 + mask(middle, _LOW)
    return a1 * b1 + shift(middle, 32) + shift(other, 32)


@cache
def _scale_op(dtype: np.dtype) -> MapOp:
    """low + floor(x * span / 2**128) for 128 random bits x = (first, second); span 0 stands for 2**64."""
    first, second, low, span = (arg(k) for k in range(4))
    lower = first * span
    carry = cast(np.dtype(bool), U64)((lower + _high_product(second, span)) < lower)
    offset = ATOMS["select"](ATOMS["equal"](span, 0), first, _high_product(first, span) + carry)
    return map_op("random_integer", (cast(U64, dtype)(low + offset),), 4)


def _wrapped(bound: Any, dtype: np.dtype, op: str) -> tuple[np.ndarray, Any]:
    """A bound modulo 2**64, and itself for comparisons (a Python number, or an integer array)."""
    try:
        number = operator.index(bound)
        return np.asarray(number % 2**64, U64), number
    except TypeError:
        pass
    values = concrete_array(bound) if isinstance(bound, Array) else host_value(bound, op)
    if values.dtype.kind not in "iu":
        raise TypeError(message(op, "a bound is not an integer", values.dtype, "integers"))
    return values.astype(U64), values


def _extreme(bound: Any, choose: Any) -> int:
    """Smallest or largest of a bound, as a Python integer: NumPy's have no 2**64."""
    return choose(bound.ravel().tolist(), default=0) if isinstance(bound, np.ndarray) else bound


def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = int) -> Array:
    """Integers from minval to maxval - 1, all equally likely to within 2**-64; the bounds may be arrays.

    Errors: ValueError for maxval <= minval, OverflowError for a range that the dtype cannot hold.

    >>> import numbagrad as ng
    >>> ng.random.randint(ng.random.key(0), (5,), 0, 10)
    Array([4, 2, 9, 5, 5], dtype=int64)
    """
    target = check_dtype("randint", dtype)
    if target.kind not in "iu":
        raise TypeError(message("randint", "not an integer dtype", target, "an integer dtype", "Use uniform."))
    low, low_exact = _wrapped(minval, target, "randint")
    high, high_exact = _wrapped(maxval, target, "randint")
    if not np.all(low_exact < high_exact):
        raise ValueError(message("randint", "no integer in the range", f"[{minval}, {maxval})", "minval < maxval"))
    limits = np.iinfo(target)
    if _extreme(low_exact, min) < limits.min or _extreme(high_exact, max) > int(limits.max) + 1:
        raise OverflowError(message("randint", f"the range does not fit in {target}", f"[{minval}, {maxval})", limits))
    span = np.asarray(high - low)
    full = shape_of(shape, "randint")
    if np.broadcast_shapes(full, span.shape) != full:
        raise ValueError(message("randint", "the bounds do not fit the shape", f"{span.shape}, {full}", "a broadcast"))
    key = key_of(key, "randint", *(b._value for b in (minval, maxval) if isinstance(b, Array) and b.ndim))
    if np.all(span <= 2**32) and np.all(span != 0):  # one word has 32 bits to spare
        return Array(_scale_op(target)(raw_bits(key, full, 64), np.zeros((), U64), low, span))
    first, second = split(Array(key))
    return Array(_scale_op(target)(raw_bits(first._value, full, 64), raw_bits(second._value, full, 64), low, span))


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None) -> Array:
    """True with probability p.

    >>> import numbagrad as ng
    >>> ng.random.bernoulli(ng.random.key(0), 0.5, (3,))
    Array([ True,  True, False], dtype=bool)
    """
    chance = ew.convert_to_float(Array(host_value(p, "bernoulli")), "bernoulli")
    key = Array(key_of(key, "bernoulli", *([chance._value] if isinstance(p, Array) else [])))
    drawn = uniform(key, chance.shape if shape is None else shape, chance.dtype)
    return drawn < (chance if isinstance(p, Array) else chance._value)


def rademacher(key: Any, shape: Any = (), dtype: Any = int) -> Array:
    """-1 or 1, equally likely."""
    signs = raw_bits(key_of(key, "rademacher"), shape_of(shape, "rademacher"), 32)
    return Array(convert(_sign_op()(signs), check_dtype("rademacher", dtype)))


@cache
def _sign_op() -> MapOp:
    bit = cast(np.dtype(np.uint32), np.dtype(np.int64))(ATOMS["bitwise_and"](arg(0), 1))
    return map_op("random_sign", (bit + bit - 1,), 1)


def _take(x: Array, index: Any, axis: int) -> Array:
    return shaping.moveaxis(Array(rows_of.take(shaping.moveaxis(x, axis, 0)._value, index, mode="raise")), 0, axis)


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Array:
    """The numbers 0 to x - 1, or the slices of an array along an axis, in random order.

    `independent` orders every row of the axis anew. Differentiable in an array x.

    >>> import numbagrad as ng
    >>> ng.random.permutation(ng.random.key(0), 5)
    Array([1, 0, 4, 3, 2], dtype=int64)
    """
    value = host_value(x, "permutation")
    key = key_of(key, "permutation", *([value] if isinstance(x, Array) and x.ndim else []))
    if value.shape == ():
        if value.dtype.kind not in "iu":
            raise TypeError(message("permutation", "not an integer or an array", value.dtype, "an integer or an array"))
        return Array(random_order(key, shape=(int(concrete_array(Array(value))),)))
    value = beside(value, key) if not isinstance(x, Array) and value.__class__ is np.ndarray else value
    k = reductions.normalize_axis(axis, len(value.shape), "permutation")
    n = value.shape[k]
    if not independent or len(value.shape) == 1:
        return _take(Array(value), random_order(key, shape=(n,)), k)
    rows = shaping.moveaxis(Array(value), k, -1)
    starts = (np.arange(rows.size // max(1, n)) * n).reshape((*rows.shape[:-1], 1))
    index = Array(random_order(key, shape=rows.shape)) + starts
    return shaping.moveaxis(Array(rows_of.take(shaping.ravel(rows)._value, index._value, mode="raise")), -1, k)


def choice(key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0) -> Array:
    """Random numbers below `a`, or random slices of an array `a` along an axis, with probabilities p.

    Differentiable in an array a; the choice itself has no derivative.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.random.choice(ng.random.key(0), np.asarray([10.0, 20.0, 30.0]), (4,))
    Array([20., 10., 30., 20.], dtype=float64)
    """
    value = host_value(a, "choice")
    key = key_of(key, "choice", *([value] if isinstance(a, Array) and a.ndim else []))
    k = 0 if value.shape == () else reductions.normalize_axis(axis, len(value.shape), "choice")
    n = int(concrete_array(Array(value))) if value.shape == () else value.shape[k]
    full = shape_of(shape, "choice")
    size = math.prod(full)
    if n <= 0 and size:
        raise ValueError(message("choice", "nothing to choose from", f"{n} elements", "at least one"))
    if not replace and size > n:
        raise ValueError(message("choice", "more than there are without replacement", f"{size} of {n}", f"at most {n}"))
    if p is None:
        order = None if replace else random_order(key, shape=(n,))
        index = randint(Array(key), full, 0, max(n, 1))._value if order is None else _first(order, size, full)
    else:
        index = _weighted(key, _weights(p, n), full, size, replace)
    if value.shape == ():
        return Array(index)
    value = beside(value, key) if not isinstance(a, Array) and value.__class__ is np.ndarray else value
    rows = _take(Array(value), reshape_to(index, (size,)), k)
    return rows.reshape(value.shape[:k] + full + value.shape[k + 1 :])


def _weights(p: Any, n: int) -> np.ndarray:
    weights = np.asarray(concrete_array(p), np.float64)
    if weights.shape != (n,) or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
        wanted = f"{n} numbers >= 0, not all 0"
        raise ValueError(message("choice", "not probabilities", f"p of shape {weights.shape}", wanted))
    return weights


def _first(order: Any, size: int, full: tuple[int, ...]) -> Any:
    return reshape_to(getitem(order, key=(slice(0, size),)), full)


def _weighted(key: Any, weights: np.ndarray, full: tuple[int, ...], size: int, replace: bool) -> Any:
    if not replace:
        if size > np.count_nonzero(weights):
            got = f"{size} of {np.count_nonzero(weights)}"
            raise ValueError(message("choice", "too few elements of positive probability", got, f"at least {size}"))
        with np.errstate(divide="ignore"):
            score = gumbel(Array(key), weights.shape) + np.log(weights)
        return _first(argsort((-score)._value, axis=0), size, full)
    sums = np.cumsum(weights)
    drawn = uniform(Array(key), full) * float(sums[-1])
    last = int(np.flatnonzero(weights)[-1])  # rounding must not pick what has no probability
    return ew.call("minimum", Array(searchsorted(sums, drawn._value, side="right")), last)._value


def categorical(key: Any, logits: Any, axis: int = -1, shape: Any = None) -> Array:
    """Class numbers with probabilities softmax(logits) along an axis, by the Gumbel maximum.

    Shapes: `shape` may put axes in front of the batch shape (that of logits without the axis).

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.random.categorical(ng.random.key(0), np.asarray([-np.inf, 0.0, -np.inf]), shape=(3,))
    Array([1, 1, 1], dtype=int64)
    """
    value = host_value(logits, "categorical")
    key = key_of(key, "categorical", *([value] if isinstance(logits, Array) else []))
    value = beside(value, key) if not isinstance(logits, Array) and value.__class__ is np.ndarray else value
    scores = Array(convert(value, float_dtype(value.dtype)))
    k = reductions.normalize_axis(axis, scores.ndim, "categorical")
    batch = scores.shape[:k] + scores.shape[k + 1 :]
    full = batch if shape is None else shape_of(shape, "categorical")
    if len(full) < len(batch) or np.broadcast_shapes(full, batch) != full:
        raise ValueError(message("categorical", "shape does not end in the batch shape", full, f"(..., {batch})"))
    front = full[: len(full) - len(batch)]
    rest = full[len(front) :]
    noise = gumbel(Array(key), (*front, *rest[:k], scores.shape[k], *rest[k:]), scores.dtype)
    return reductions.argmax(noise + scores, axis=k + len(front))


def constant_parameter(x: Any, op: str) -> Any:
    """The value of a parameter that the sample has no derivative in, or the user's error if one is asked for."""
    value = host_value(x, op)
    if isinstance(value, Box) and value.dtype.kind in INEXACT:
        raise TypeError(
            message(
                op,
                "samples have no derivative in this parameter",
                f"a traced {value.dtype}",
                "a constant",
                "Use stop_gradient(parameter), or a distribution made from uniform or normal.",
            )
        )
    return convert(value, np.dtype(np.float64))
