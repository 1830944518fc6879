"""Convolution of signals, as NumPy and SciPy define it, brought to the primitive of images."""

from __future__ import annotations

from typing import Any

from numbagrad.core.arguments import promote
from numbagrad.core.array import Array
from numbagrad.core.errors import message
from numbagrad.numpy import elementwise as ew
from numbagrad.primitives import conv as products
from numbagrad.primitives.broadcast import reshape_to
from numbagrad.primitives.slices import getitem

__all__ = ["convolve", "correlate"]


def correlate_full(x: Any, w: Any, pads: tuple[tuple[int, int], ...]) -> Any:
    """sum over t of x[y + t - low] * w[t], values of any equal rank."""
    ndim = len(x.shape)
    ones = (1,) * ndim
    x, w = reshape_to(x, (1, 1, *x.shape)), reshape_to(w, (1, 1, *w.shape))
    out = products.conv(x, w, groups=1, strides=ones, padding=pads, lhs_dilation=ones, rhs_dilation=ones)
    return reshape_to(out, out.shape[2:])


def flip(x: Any) -> Any:
    """Every axis backwards."""
    return getitem(x, key=(slice(None, None, -1),) * len(x.shape))


def _operands(a: Any, v: Any, op: str) -> tuple[Any, Any]:
    (x, w), _ = promote((a, v), op)
    x, w = (reshape_to(k, (1,)) if k.shape == () else k for k in (x, w))
    if len(x.shape) != 1 or len(w.shape) != 1:
        got = f"{x.shape} and {w.shape}"
        raise ValueError(message(op, "not signals", got, "one axis each", "scipy.signal.convolve takes more."))
    if 0 in (*x.shape, *w.shape):
        raise ValueError(message(op, "a signal is empty", f"{x.shape} and {w.shape}", "at least one element each"))
    if x.dtype.kind == "b":
        raise TypeError(message(op, "not numbers", x.dtype, "a number dtype", "Use x.astype(int)."))
    return x, w


def _pads(n: int, k: int, mode: Any, op: str) -> tuple[int, int]:
    """Zeros before and after the longer signal. "same" keeps its length, with the odd one out at the start."""
    modes = {0: "valid", 1: "same", 2: "full", "v": "valid", "s": "same", "f": "full"}
    name = modes.get(mode, mode)
    if name == "full":
        return k - 1, k - 1
    if name == "valid":
        return 0, 0
    if name != "same":
        raise ValueError(message(op, "no such mode", repr(mode), "'full', 'same' or 'valid'"))
    return k // 2, k - 1 - k // 2


def convolve(a: Any, v: Any, mode: str = "full") -> Array:
    """Discrete convolution of two signals: sum over k of a[k] * v[n - k].

    Shapes: with N >= K the lengths, "full" N + K - 1, "same" N, "valid" N - K + 1.
    Errors: ValueError for empty signals, or more than one axis.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> np.convolve([1.0, 2.0, 3.0], [0.0, 1.0, 0.5])
    Array([0. , 1. , 2.5, 4. , 1.5], dtype=float64)
    >>> ng.grad(lambda v: np.convolve([1.0, 2.0, 3.0], v, "valid").sum())(np.asarray([0.0, 1.0]))
    Array([5., 3.], dtype=float64)
    """
    x, w = _operands(a, v, "convolve")
    if w.shape[0] > x.shape[0]:
        x, w = w, x
    n, k = x.shape[0], w.shape[0]
    low, high = _pads(n, k, mode, "convolve")
    return Array(correlate_full(x, flip(w), ((low, high),)))


def correlate(a: Any, v: Any, mode: str = "valid") -> Array:
    """Cross-correlation of two signals: sum over k of a[n + k] * conj(v[k]).

    Shapes: as convolve.

    >>> import numbagrad.numpy as np
    >>> np.correlate([1.0, 2.0, 3.0], [0.0, 1.0, 0.5], "same")
    Array([2. , 3.5, 3. ], dtype=float64)
    """
    x, w = _operands(a, v, "correlate")
    w = ew.conj(Array(w))._value
    swap = w.shape[0] > x.shape[0]
    n, k = x.shape[0], w.shape[0]
    if swap:  # the roles change: the result runs backwards
        low, high = _pads(k, n, mode, "correlate")
        return Array(flip(correlate_full(w, x, ((low, high),))))
    return Array(correlate_full(x, w, (_pads(n, k, mode, "correlate"),)))
