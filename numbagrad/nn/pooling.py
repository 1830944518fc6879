"""Pooling: windows over the spatial axes of (N, *spatial, C), or of any layout by `channel_axis`. Names are flax's.

`strides=None` is 1 along every axis, as in flax (torch's default is the window).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from numbagrad.core.arguments import owned
from numbagrad.core.array import Array
from numbagrad.core.dtypes import FLOATING, float_dtype, real_dtype
from numbagrad.core.errors import message
from numbagrad.lax.windows import Padding, geometry
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy import padding, reductions, searching, shaping
from numbagrad.numpy.halves import in_float32
from numbagrad.numpy.reductions import normalize_axis
from numbagrad.primitives import window as prims
from numbagrad.primitives.window import Axis, Geometry

Ints = int | Sequence[int]  # one number is that number along every spatial axis
Pads = Padding | int
_REDUCTIONS = {"max": prims.window_max, "min": prims.window_min}


def _spatial(op: str, ndim: int, count: int, channel_axis: int | None) -> tuple[int, ...]:
    """The last `count` axes other than the channels'."""
    channel = None if channel_axis is None else normalize_axis(channel_axis, ndim, op)
    axes = [k for k in range(ndim) if k != channel]
    if count > len(axes):
        needed = f"at least {count} axes besides the channels'"
        raise ValueError(message(op, "the window does not fit", f"{count} spatial axes for {ndim} axes", needed))
    return tuple(axes[len(axes) - count :])


def _spread(values: Sequence[Any] | None, axes: Sequence[int], ndim: int, neutral: Any) -> tuple[Any, ...] | None:
    """Spatial parameters as one per axis."""
    if values is None:
        return None
    full = [neutral] * ndim
    for k, v in zip(axes, values):
        full[k] = v
    return tuple(full)


def _number(values: Any) -> bool:
    """Whether this is one number, not a sequence of them."""
    return isinstance(values, (int, float)) or getattr(values, "ndim", None) == 0


def _each(op: str, name: str, values: Any, count: int) -> tuple[Any, ...]:
    """A number for each spatial axis; the entries of a sequence as they are."""
    if _number(values):
        return (values,) * count
    try:
        return tuple(values)
    except TypeError:
        needed = "an integer, or one per spatial axis"
        raise TypeError(message(op, f"{name} is no sequence", repr(values), needed)) from None


def _windows(
    op: str,
    shape: tuple[int, ...],
    window_shape: Ints,
    strides: Ints | None,
    padding: Pads,
    channel_axis: int | None,
    dilation: Ints | None = None,
) -> Geometry:
    sizes = _each(op, "window_shape", window_shape, max(0, len(shape) - 2))
    axes = _spatial(op, len(shape), len(sizes), channel_axis)
    explicit: tuple[Any, ...] | None = None
    if not isinstance(padding, str):
        one = ((padding, padding),) * len(axes)
        explicit = one if _number(padding) else _each(op, "padding", padding, len(axes))
    steps, dilations = (
        None if v is None else _each(op, name, v, len(axes))
        for name, v in (("strides", strides), ("dilation", dilation))
    )
    for name, given in (("strides", steps), ("dilation", dilations), ("padding", explicit)):
        if given is not None and len(given) != len(axes):
            raise ValueError(message(op, f"{name} does not fit the window", given, f"{len(axes)} entries"))
    full = [_spread(v, axes, len(shape), 1) for v in (sizes, steps, dilations)]
    pads: Any = padding if explicit is None else _spread(explicit, axes, len(shape), (0, 0))
    assert full[0] is not None and pads is not None
    return geometry(op, shape, full[0], full[1], pads, None, full[2])


def _ordered(op: str, x: Any) -> None:
    if x.dtype.kind == "c":
        raise TypeError(message(op, "complex numbers have no order", x.dtype, "a real dtype", "Use abs(x)."))


def max_pool(
    inputs: Any,
    window_shape: Ints,
    strides: Ints | None = None,
    padding: Pads = "VALID",
    *,
    dilation: Ints | None = None,
    channel_axis: int | None = -1,
) -> Array:
    """Largest element of every window; padding never wins.

    Shapes: (N, *spatial, C), without N, or with the channels at `channel_axis` (1 for N, C, *spatial); the window
    covers the last axes other than the channels'. strides=None is 1 along each axis. One integer as window,
    strides, padding (both ends) or dilation is that number along every axis but the first and the channels'.
    Derivative: to the first of equal elements in window order, to the first nan.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.nn.max_pool(np.arange(8.0).reshape(1, 2, 4, 1), (2, 2), (2, 2)).ravel()
    Array([5., 7.], dtype=float64)
    """
    x = owned(inputs, "max_pool")
    _ordered("max_pool", x)
    window = _windows("max_pool", x.shape, window_shape, strides, padding, channel_axis, dilation)
    return Array(prims.window_max(x, window=window))


def min_pool(
    inputs: Any,
    window_shape: Ints,
    strides: Ints | None = None,
    padding: Pads = "VALID",
    *,
    dilation: Ints | None = None,
    channel_axis: int | None = -1,
) -> Array:
    """Smallest element of every window; see max_pool."""
    x = owned(inputs, "min_pool")
    _ordered("min_pool", x)
    window = _windows("min_pool", x.shape, window_shape, strides, padding, channel_axis, dilation)
    return Array(prims.window_min(x, window=window))


@in_float32
def avg_pool(
    inputs: Any,
    window_shape: Ints,
    strides: Ints | None = None,
    padding: Pads = "VALID",
    count_include_pad: bool = True,
    *,
    channel_axis: int | None = -1,
) -> Array:
    """Mean of every window; padding counts as zeros, or not at all with count_include_pad=False.

    Shapes and strides: see max_pool. Edge: 0 for a window of padding only. Integers become float64.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.nn.avg_pool(np.ones((1, 3, 1)), (2,), padding="SAME", count_include_pad=False).ravel()
    Array([1., 1., 1.], dtype=float64)
    """
    x = ew.convert_to_float(owned(inputs, "avg_pool"), "avg_pool")
    window = _windows("avg_pool", x.shape, window_shape, strides, padding, channel_axis)
    total = Array(prims.window_sum(x._value, window=window))
    if count_include_pad:
        return total / float(math.prod(a.size for a in window.axes))
    return total / _counts(window, x.dtype)


def _counts(window: Geometry, dtype: np.dtype) -> np.ndarray:
    """Elements that each window reads (1 where there are none), of a shape that broadcasts."""
    counted = Geometry(tuple(a if not a.trivial else Axis(1) for a in window.axes))
    real = real_dtype(float_dtype(dtype))
    return np.maximum(prims.window_sum(np.ones(counted.shape, real), window=counted), real.type(1))


@in_float32
def lp_pool(
    inputs: Any,
    p: float,
    window_shape: Ints,
    strides: Ints | None = None,
    padding: Pads = "VALID",
    *,
    channel_axis: int | None = -1,
) -> Array:
    """(sum of |x|**p)**(1/p) over every window, for a number p > 0; p = inf is the largest |x|.

    Shapes and strides: see max_pool. Derivative: 0 in a window of zeros.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.nn.lp_pool(np.asarray([[3.0], [4.0]]), 2, (2,))
    Array([[5.]], dtype=float64)
    """
    p = float(p)
    if not p > 0:
        raise ValueError(message("lp_pool", "no norm", f"p = {p}", "p > 0"))
    x = ew.convert_to_float(owned(inputs, "lp_pool"), "lp_pool")
    if p == np.inf:
        return max_pool(ew.absolute(x), window_shape, strides, padding, channel_axis=channel_axis)
    window = _windows("lp_pool", x.shape, window_shape, strides, padding, channel_axis)
    if p == 1:
        return Array(prims.window_sum(ew.absolute(x)._value, window=window))
    even = p == int(p) and int(p) % 2 == 0 and x.dtype.kind in FLOATING  # |x|**p is smooth, and |x| is not
    power = x ** int(p) if even else ew.absolute(x) ** p
    total = Array(prims.window_sum(power._value, window=window))
    zero = total == 0
    return ew.where(zero, 0.0, ew.where(zero, 1.0, total) ** (1.0 / p))


# ----------------------------------------------------------------------------------- windows that fit an output


def _adaptive(op: str, inputs: Any, output_size: Ints, channel_axis: int | None) -> tuple[Array, dict[int, int]]:
    """The array, and the output length of each spatial axis that changes."""
    x = Array(owned(inputs, op))
    spatial = max(0, x.ndim - 2)
    sizes = (None,) * spatial if output_size is None else _each(op, "output_size", output_size, spatial)
    axes = _spatial(op, x.ndim, len(sizes), channel_axis)
    try:
        found = {k: x.shape[k] if n is None else operator.index(n) for k, n in zip(axes, sizes)}
    except TypeError:
        needed = "an integer, or an integer or None per spatial axis"
        raise TypeError(message(op, "output_size is not made of integers", repr(output_size), needed)) from None
    for k, n in found.items():
        if n < 0 or (n and not x.shape[k]):
            got = f"{n} for an axis of length {x.shape[k]}"
            raise ValueError(message(op, "no such output size", got, "0 or more, and elements to pool"))
    return x, {k: n for k, n in found.items() if n != x.shape[k]}


def _blocks(x: Array, sizes: dict[int, int]) -> Geometry | None:
    """The windows, where lengths divide and all are alike."""
    if any(n == 0 or x.shape[k] % n for k, n in sizes.items()):
        return None
    steps = [x.shape[k] // sizes[k] if k in sizes else 1 for k in range(x.ndim)]
    return Geometry(tuple(Axis(n, s, s) for n, s in zip(x.shape, steps)))


def _cells(n: int, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    """First index and length of each cell: from floor(i n / outputs) to ceil((i + 1) n / outputs)."""
    i = np.arange(outputs)
    first = i * n // max(1, outputs)
    return first, -(-(i + 1) * n // max(1, outputs)) - first


@in_float32
def adaptive_avg_pool(inputs: Any, output_size: Ints, *, channel_axis: int | None = -1) -> Array:
    """Means over cells that divide every spatial axis into output_size parts, which overlap where they must.

    output_size: one number per spatial axis (None keeps it), or one for all. Cell i of n elements goes from
    floor(i n / size) to ceil((i + 1) n / size), as in torch. Shapes: see max_pool.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.nn.adaptive_avg_pool(np.arange(5.0).reshape(1, 5, 1), 2).ravel()
    Array([1., 3.], dtype=float64)
    """
    x, sizes = _adaptive("adaptive_avg_pool", inputs, output_size, channel_axis)
    x = ew.convert_to_float(x, "adaptive_avg_pool")
    blocks = _blocks(x, sizes)
    if blocks is not None:
        return Array(prims.window_sum(x._value, window=blocks)) / float(math.prod(a.size for a in blocks.axes))
    for k, outputs in reversed(sizes.items()):
        n = x.shape[k]
        first, lengths = _cells(n, outputs)
        index = first[:, None] + np.arange(lengths.max(initial=1))
        index = np.where(index < (first + lengths)[:, None], index, n)
        rim = [(0, int(k == d)) for d in range(x.ndim)]
        rows = searching.take(padding.pad(x, rim), index, axis=k)  # n: the zero behind the end
        column = lengths.reshape((outputs,) + (1,) * (x.ndim - k - 1)).astype(np.abs(np.zeros((), x.dtype)).dtype)
        x = reductions.sum(rows, k + 1) / column
    return x


def adaptive_max_pool(inputs: Any, output_size: Ints, *, channel_axis: int | None = -1) -> Array:
    """Largest element of cells that divide every spatial axis into output_size parts; see adaptive_avg_pool.

    Derivative: to the first of equal elements, as in max_pool.
    """
    x, sizes = _adaptive("adaptive_max_pool", inputs, output_size, channel_axis)
    _ordered("adaptive_max_pool", x)
    blocks = _blocks(x, sizes)
    if blocks is not None:
        return Array(prims.window_max(x._value, window=blocks))
    for k, outputs in reversed(sizes.items()):
        first, lengths = _cells(x.shape[k], outputs)
        wide = int(lengths.max(initial=1))
        index = first[:, None] + np.minimum(np.arange(wide), lengths[:, None] - 1)  # the last one again
        rows = searching.take(x, index.reshape(-1), axis=k)
        axes = tuple(Axis(n, wide, wide) if d == k else Axis(n) for d, n in enumerate(rows.shape))
        x = Array(prims.window_max(rows._value, window=Geometry(axes)))
    return x


def _global_axes(op: str, ndim: int, channel_axis: int) -> tuple[int, ...]:
    """All but the first and the channels'."""
    channel = normalize_axis(channel_axis, ndim, op) if ndim else 0
    return tuple(k for k in range(1, ndim) if k != channel)


@in_float32
def global_avg_pool(inputs: Any, *, keepdims: bool = False, channel_axis: int = -1) -> Array:
    """Mean over all axes other than the first and the channels'."""
    x = Array(owned(inputs, "global_avg_pool"))
    return reductions.mean(x, _global_axes("global_avg_pool", x.ndim, channel_axis), keepdims=keepdims)


def global_max_pool(inputs: Any, *, keepdims: bool = False, channel_axis: int = -1) -> Array:
    """Largest element over all axes other than the first and the channels'; derivative as in max_pool.

    Errors: ValueError if there is no element.
    """
    x = Array(owned(inputs, "global_max_pool"))
    _ordered("global_max_pool", x)
    axes = _global_axes("global_max_pool", x.ndim, channel_axis)
    if any(x.shape[k] == 0 for k in axes):
        raise ValueError(message("global_max_pool", "no elements", x.shape, "at least one along each spatial axis"))
    window = Geometry(tuple(Axis(n, n if k in axes else 1) for k, n in enumerate(x.shape)))
    out = Array(prims.window_max(x._value, window=window))
    return out if keepdims else shaping.squeeze(out, axes)


__all__ = [
    "adaptive_avg_pool", "adaptive_max_pool", "avg_pool", "global_avg_pool", "global_max_pool", "lp_pool", "max_pool",
    "min_pool",
]  # fmt: skip
