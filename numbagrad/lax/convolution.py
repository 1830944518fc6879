"""Convolutions with every option of XLA's, as in jax.lax."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from numbagrad.core.arguments import promote
from numbagrad.core.array import Array
from numbagrad.core.dtypes import check_dtype
from numbagrad.core.errors import message
from numbagrad.lax.padding import integers, pairs, string_padding
from numbagrad.primitives import conv as products
from numbagrad.primitives.broadcast import reshape_to
from numbagrad.primitives.elementwise import convert
from numbagrad.primitives.layout import transpose
from numbagrad.primitives.slices import getitem

Padding = str | Sequence[tuple[int, int]]


class ConvDimensionNumbers(NamedTuple):
    """Where the axes are. lhs: batch, feature, spatial; rhs: output feature, input feature, spatial; out as lhs."""

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """Axes from letters like ("NHWC", "HWIO", "NHWC"); None is ("NCHW", "OIHW", "NCHW") for any number of axes.

    Errors: ValueError for letters that do not name each axis once, or ranks that differ.

    >>> import numbagrad as ng
    >>> ng.lax.conv_dimension_numbers((1, 8, 8, 3), (5, 5, 3, 4), ("NHWC", "HWIO", "NHWC")).rhs_spec
    (3, 2, 0, 1)
    """
    ndim = len(lhs_shape)
    if len(rhs_shape) != ndim or ndim < 2:
        got = f"lhs {tuple(lhs_shape)}, rhs {tuple(rhs_shape)}"
        step = "A single example needs a batch axis: x[None]."
        raise ValueError(message("conv", "ranks differ", got, "equal ranks of 2 or more", step))
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        if any(sorted(spec) != list(range(ndim)) for spec in dimension_numbers):
            needed = f"permutations of {ndim} axes"
            raise ValueError(message("conv", "dimension numbers do not fit", dimension_numbers, needed))
        return dimension_numbers
    if dimension_numbers is None:
        plain = tuple(range(ndim))
        return ConvDimensionNumbers(plain, plain, plain)
    if len(dimension_numbers) != 3 or not all(isinstance(spec, str) for spec in dimension_numbers):
        needed = "three strings such as ('NHWC', 'HWIO', 'NHWC')"
        raise TypeError(message("conv", "dimension numbers are not letters", dimension_numbers, needed))
    lhs, rhs, out = dimension_numbers
    spatial = [c for c in rhs if c not in "OI"]
    letters = ("NC", "OI", "NC")
    for spec, pair in zip((lhs, rhs, out), letters):
        if sorted(spec) != sorted([*pair, *spatial]) or len(set(spec)) != ndim:
            needed = f"{ndim} letters: {pair[0]}, {pair[1]} and the spatial letters of the rhs"
            raise ValueError(message("conv", "dimension numbers do not name each axis once", repr(spec), needed))
    specs = [tuple(spec.index(c) for c in (*pair, *spatial)) for spec, pair in zip((lhs, rhs, out), letters)]
    return ConvDimensionNumbers(*specs)


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Convolution (correlation: the kernel is not flipped) over any number of spatial axes.

    Shapes: lhs (batch, features, *spatial), rhs (outputs, features / feature_group_count, *kernel), unless
    dimension_numbers say otherwise. Spatial lengths of the result: (dilated and padded length - dilated kernel) //
    stride + 1, at least 0. Padding: "VALID", "SAME", "SAME_LOWER" or (low, high) per axis; the input is dilated
    first, then padded; negative amounts crop. feature_group_count: outputs are split in as many groups, each of which
    sees its own features. batch_group_count: likewise, each of which sees its own part of the batch. `precision` is
    accepted: products are always computed in the dtype itself.
    Dtypes: any number type. Errors: ValueError for shapes, groups, strides or padding that do not fit.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> x, w = np.arange(5.0).reshape(1, 1, 5), np.asarray([[[1.0, 2.0]]])
    >>> ng.lax.conv_general_dilated(x, w, (2,), [(1, 0)])
    Array([[[ 0.,  5., 11.]]], dtype=float64)
    >>> ng.grad(lambda w: ng.lax.conv_general_dilated(x, w, (2,), [(1, 0)]).sum())(w)
    Array([[[4., 6.]]], dtype=float64)
    """
    (x, w), dtype = promote((lhs, rhs), "conv")
    result = dtype if preferred_element_type is None else check_dtype("conv", preferred_element_type)
    wide = np.result_type(dtype, result)  # sums in the wider of the two
    x, w = convert(x, wide), convert(w, wide)
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    x, w = _to(x, numbers.lhs_spec), _to(w, numbers.rhs_spec)
    settings = _settings(x, w, window_strides, padding, lhs_dilation, rhs_dilation)
    groups = _check_groups(x.shape, w.shape, feature_group_count, batch_group_count)
    if x.dtype.kind == "b":
        raise TypeError(message("conv", "not numbers", x.dtype, "a number dtype", "Use x.astype(int)."))
    if batch_group_count > 1:  # groups of the batch are groups of features of a smaller batch
        n = x.shape[0] // batch_group_count
        x = reshape_to(x, (batch_group_count, n, *x.shape[1:]))
        x = transpose(x, axes=(1, 0, *range(2, len(x.shape))))
        x = reshape_to(x, (n, batch_group_count * x.shape[2], *x.shape[3:]))
    out = products.conv(x, w, groups=groups, **settings)
    out = transpose(out, axes=tuple(int(k) for k in np.argsort(numbers.out_spec)))
    return Array(convert(out, result))


def _to(value: Any, spec: tuple[int, ...]) -> Any:
    return value if spec == tuple(range(len(spec))) else transpose(value, axes=spec)


def _settings(
    x: Any, w: Any, strides: Any, padding: Padding, lhs_dilation: Any, rhs_dilation: Any
) -> dict[str, tuple[Any, ...]]:
    """The primitives' parameters, with explicit padding."""
    ndim = len(x.shape) - 2
    s = integers("conv", "window_strides", strides, ndim)
    b, d = integers("conv", "lhs_dilation", lhs_dilation, ndim), integers("conv", "rhs_dilation", rhs_dilation, ndim)
    if isinstance(padding, str):
        lengths = [(n - 1) * k + 1 if n else 0 for n, k in zip(x.shape[2:], b)]
        windows = [(n - 1) * k + 1 for n, k in zip(w.shape[2:], d)]
        pads = string_padding("conv", lengths, windows, s, padding)
    else:
        pads = pairs("conv", padding, ndim)
    return dict(strides=s, padding=pads, lhs_dilation=b, rhs_dilation=d)


def _check_groups(x: tuple[int, ...], w: tuple[int, ...], features: int, batches: int) -> int:
    """The number of groups; errors if the channels do not fit it."""
    features, batches = operator.index(features), operator.index(batches)
    got = f"lhs {x}, rhs {w}, feature_group_count {features}, batch_group_count {batches}"
    if features < 1 or batches < 1 or (features > 1 and batches > 1):
        raise ValueError(message("conv", "group counts do not fit", got, "one of them 1, the other 1 or more"))
    if x[1] != w[1] * features:
        needed = "features of lhs (axis 1) = input features of rhs (axis 1) * feature_group_count"
        step = "Are the axes where dimension_numbers say (default NCHW, OIHW)?"
        raise ValueError(message("conv", "channels do not fit", got, needed, step))
    if w[0] % (features * batches) or x[0] % batches:
        raise ValueError(message("conv", "not divisible in groups", got, "outputs, and the batch, divisible by them"))
    return features * batches


def conv(lhs: Any, rhs: Any, window_strides: Sequence[int], padding: str, precision: Any = None) -> Array:
    """Convolution in NCHW layout with string padding."""
    return conv_general_dilated(lhs, rhs, window_strides, padding, precision=precision)


def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
) -> Array:
    """Convolution in NCHW layout with any padding and dilation."""
    return conv_general_dilated(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation)


def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: Padding,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
    output_padding: Sequence[int] | None = None,
) -> Array:
    """Convolution of the input dilated by the strides (fractionally strided, "deconvolution").

    Shapes: "SAME" gives n * stride, "VALID" n * stride + max(kernel - stride, 0); pairs pad the dilated input.
    Layout: dimension_numbers, by default channels last (NHWC, HWIO, NHWC) as in JAX. transpose_kernel: flip the
    kernel and swap its channels, which gives the gradient of the convolution with this kernel.
    output_padding: so many more outputs at the end of each axis.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> x, w = np.ones((1, 2, 1)), np.asarray([1.0, 2.0, 3.0]).reshape(3, 1, 1)
    >>> ng.lax.conv_transpose(x, w, (2,), "VALID").ravel()
    Array([3., 2., 4., 2., 1.], dtype=float64)
    """
    (x, w), _ = promote((lhs, rhs), "conv_transpose")
    ndim = len(x.shape) - 2
    if dimension_numbers is None:
        letters = "".join(chr(ord("a") + k) for k in range(ndim))
        dimension_numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    op = "conv_transpose"
    s, d = integers(op, "strides", strides, ndim), integers(op, "rhs_dilation", rhs_dilation, ndim)
    more = (0,) * ndim if output_padding is None else integers(op, "output_padding", output_padding, ndim, 0)
    if isinstance(padding, str):
        windows = [(w.shape[k] - 1) * r + 1 for k, r in zip(numbers.rhs_spec[2:], d)]
        pads = [_transpose_padding(k, n, padding) for k, n in zip(windows, s)]
    else:
        pads = list(pairs(op, padding, ndim))
    pads = [(low, high + m) for (low, high), m in zip(pads, more)]
    if transpose_kernel:
        spatial = numbers.rhs_spec[2:]
        w = getitem(w, key=tuple(slice(None, None, -1 if k in spatial else 1) for k in range(len(w.shape))))
        out_axis, in_axis = numbers.rhs_spec[:2]
        numbers = numbers._replace(rhs_spec=(in_axis, out_axis, *spatial))
    return conv_general_dilated(
        Array(x), Array(w), (1,) * ndim, pads, s, d, numbers, preferred_element_type=preferred_element_type
    )


def _transpose_padding(window: int, stride: int, padding: str) -> tuple[int, int]:
    """Padding of the dilated input that gives n * stride ("SAME") or all outputs that read anything ("VALID")."""
    mode = padding.upper()
    if mode not in ("SAME", "VALID"):
        raise ValueError(message("conv_transpose", "no such padding", repr(padding), "'SAME', 'VALID' or pairs"))
    if mode == "VALID":
        return window - 1, window + stride - 2 + max(window - stride, 0) - (window - 1)
    total = window + stride - 2
    low = window - 1 if stride > window - 1 else -(-total // 2)
    return low, total - low


def conv_general_dilated_patches(
    lhs: Any,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The patches a convolution would read, as features: channel by channel, taps in C order.

    Shapes: (batch, channels * prod(filter_shape), *places) in the layout of dimension_numbers.
    """
    (x,), dtype = promote((lhs,), "conv_general_dilated_patches")
    ndim = len(x.shape) - 2
    taps = tuple(operator.index(k) for k in filter_shape)
    plain = (2 + ndim) * (0,)
    numbers = conv_dimension_numbers(x.shape, plain, dimension_numbers)
    channels, count = x.shape[numbers.lhs_spec[1]], math.prod(taps)
    picks = np.tile(np.eye(count, dtype=dtype), (channels, 1)).reshape(channels * count, 1, *taps)
    w = np.transpose(picks, np.argsort(numbers.rhs_spec))
    return conv_general_dilated(
        Array(x), w, window_strides, padding, lhs_dilation, rhs_dilation, numbers, channels,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip
