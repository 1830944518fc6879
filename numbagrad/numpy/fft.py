"""Discrete Fourier transforms, as in numpy.fft, over one axis or several, of real and complex numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from numbagrad.core.arguments import owned
from numbagrad.core.array import Array
from numbagrad.core.dtypes import complex_dtype
from numbagrad.core.errors import message
from numbagrad.numpy import shaping
from numbagrad.numpy.reductions import normalize_axis
from numbagrad.primitives.elementwise import convert, op
from numbagrad.primitives.fourier import fourier
from numbagrad.primitives.slices import embed, getitem

__all__ = ["fft", "fft2", "fftfreq", "fftn", "fftshift", "ifft", "ifft2", "ifftn", "ifftshift", "rfftfreq"]

fftfreq, rfftfreq = np.fft.fftfreq, np.fft.rfftfreq


def _resized(x: Any, axis: int, n: int) -> Any:
    """Cropped, or filled with zeros, to n elements along an axis."""
    have = x.shape[axis]
    lead = (slice(None),) * axis
    if n < have:
        return getitem(x, key=(*lead, slice(0, n)))
    shape = (*x.shape[:axis], n, *x.shape[axis + 1 :])
    return x if n == have else embed(x, shape=shape, key=(*lead, slice(0, have)))


def _transform(name: str, a: Any, sizes: Any, axes: Sequence[int], norm: str | None, inverse: bool) -> Array:
    x = owned(a, name)
    if x.dtype.kind != "c":
        x = convert(x, complex_dtype(x.dtype))
    where = tuple(normalize_axis(axis, len(x.shape), name) for axis in axes)
    for axis, n in zip(where, [x.shape[k] for k in where] if sizes is None else sizes):
        if operator.index(n) < 1:
            raise ValueError(message(name, "no points to transform", n, "1 or more along each axis"))
        x = _resized(x, axis, operator.index(n))
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(message(name, "no such norm", repr(norm), "'backward', 'ortho' or 'forward'"))
    out = fourier(x, axes=where, inverse=inverse)
    count = math.prod(out.shape[k] for k in where)
    power = 0.5 if norm == "ortho" else float(inverse == (norm != "forward"))
    factor = np.asarray(count**-power, out.dtype)
    return Array(op("multiply")(out, factor) if power else out)


def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Sum over j of a[j] exp(-2 pi i j k / n) along an axis, cropped or filled with zeros to n points.

    >>> import numbagrad.numpy as np
    >>> np.fft.fft([1.0, 2.0, 3.0, 4.0])
    Array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], dtype=complex128)
    """
    return _transform("fft", a, None if n is None else (n,), (axis,), norm, False)


def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of fft: with exp(+2 pi i j k / n), divided by n."""
    return _transform("ifft", a, None if n is None else (n,), (axis,), norm, True)


def _several(name: str, a: Any, s: Any, axes: Any, norm: str | None, inverse: bool) -> Array:
    ndim = np.ndim(a) if not isinstance(a, Array) else a.ndim
    if axes is None:
        axes = tuple(range(ndim)) if s is None else tuple(range(ndim - len(s), ndim))
    if s is not None and len(s) != len(axes):
        raise ValueError(message(name, "sizes and axes differ in number", f"{s} and {axes}", "as many of each"))
    return _transform(name, a, s, axes, norm, inverse)


def fftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Array:
    """fft over several axes; all of them if not named."""
    return _several("fftn", a, s, axes, norm, False)


def ifftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Array:
    """The inverse of fftn."""
    return _several("ifftn", a, s, axes, norm, True)


def fft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Array:
    """fft over two axes."""
    return _several("fft2", a, s, axes, norm, False)


def ifft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Array:
    """The inverse of fft2."""
    return _several("ifft2", a, s, axes, norm, True)


def _shift(x: Any, axes: Any, sign: int) -> Array:
    value = Array(owned(x, "fftshift"))
    where = tuple(range(value.ndim)) if axes is None else tuple(np.atleast_1d(axes).tolist())
    moves = [value.shape[k] // 2 if sign > 0 else -(value.shape[k] // 2) for k in where]
    return shaping.roll(value, tuple(moves), where)


def fftshift(x: Any, axes: Any = None) -> Array:
    """The zero frequency in the middle."""
    return _shift(x, axes, 1)


def ifftshift(x: Any, axes: Any = None) -> Array:
    """The inverse of fftshift."""
    return _shift(x, axes, -1)
