"""Convolution and correlation of arrays with any number of axes, as in scipy.signal."""

from __future__ import annotations

from typing import Any

import numpy as np

from numbagrad.core.arguments import promote
from numbagrad.core.array import Array
from numbagrad.core.device import beside
from numbagrad.core.errors import message
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy import padding, shaping
from numbagrad.numpy.convolution import correlate_full, flip
from numbagrad.primitives.elementwise import op as map_of
from numbagrad.primitives.slices import getitem

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "correlation_lags", "fftconvolve", "oaconvolve"]

_multiply = map_of("multiply")


def correlation_lags(in1_len: int, in2_len: int, mode: str = "full") -> np.ndarray:
    """The lag of each element of a correlation of two signals."""
    from scipy.signal import correlation_lags as lags  # half a second to import

    return lags(in1_len, in2_len, mode)


def _operands(in1: Any, in2: Any, op: str) -> tuple[Any, Any]:
    (x, w), _ = promote((in1, in2), op)
    if len(x.shape) != len(w.shape):
        raise ValueError(message(op, "numbers of axes differ", f"{x.shape} and {w.shape}", "as many axes"))
    if x.dtype.kind == "b":
        raise TypeError(message(op, "not numbers", x.dtype, "a number dtype", "Use x.astype(int)."))
    return x, w


def _centred(full: Any, shape: tuple[int, ...]) -> Any:
    """The middle part of that shape."""
    starts = [(n - m) // 2 for n, m in zip(full.shape, shape)]
    return getitem(full, key=tuple(slice(a, a + m) for a, m in zip(starts, shape)))


def _correlate(x: Any, w: Any, mode: str, op: str) -> Any:
    """Correlation of values (w not conjugated), cut as the mode says."""
    if mode not in ("full", "same", "valid"):
        raise ValueError(message(op, "no such mode", repr(mode), "'full', 'same' or 'valid'"))
    if x.shape == ():
        return _multiply(x, w)
    if 0 in (*x.shape, *w.shape):
        return beside(np.zeros(0, x.dtype), x) if mode == "full" else getitem(x, key=(slice(0, 0),) * len(x.shape))
    if mode == "valid":
        bigger = all(n >= k for n, k in zip(x.shape, w.shape))
        if not bigger and not all(n <= k for n, k in zip(x.shape, w.shape)):
            got = f"{x.shape} and {w.shape}"
            needed = "one operand at least as long as the other along every axis"
            raise ValueError(message(op, "neither fits into the other", got, needed))
        if not bigger:
            return flip(correlate_full(w, x, ((0, 0),) * len(x.shape)))
        return correlate_full(x, w, ((0, 0),) * len(x.shape))
    pads = tuple((k - 1, k - 1) for k in w.shape)
    full = correlate_full(x, w, pads)
    return full if mode == "full" else _centred(full, x.shape)


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Array:
    """Convolution over all axes. `method` is accepted: sums are always computed directly, without the FFT's rounding.

    Shapes: "full" n + k - 1 along each axis, "same" that of in1, "valid" where the smaller lies inside the larger.
    Errors: ValueError for ranks that differ, or "valid" of operands neither of which fits into the other.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> from numbagrad.scipy import signal
    >>> signal.convolve(np.asarray([[1.0, 2.0]]), np.asarray([[3.0], [4.0]]))
    Array([[3., 6.],
           [4., 8.]], dtype=float64)
    """
    x, w = _operands(in1, in2, "convolve")
    return Array(_correlate(x, flip(w), mode, "convolve"))


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Array:
    """Convolution over all axes, or over some of them with equal (or length-1) others."""
    if axes is None:
        return convolve(in1, in2, mode)
    x, w = _operands(in1, in2, "fftconvolve")
    ndim = len(x.shape)
    chosen = sorted(a % ndim for a in (axes if isinstance(axes, (list, tuple)) else [axes]))
    others = [k for k in range(ndim) if k not in chosen]
    lead = tuple(max(x.shape[k], w.shape[k]) for k in others)
    if any(x.shape[k] != w.shape[k] and 1 not in (x.shape[k], w.shape[k]) for k in others):
        got = f"{x.shape} and {w.shape} over axes {tuple(chosen)}"
        raise ValueError(message("fftconvolve", "other axes differ", got, "equal lengths, or 1"))
    rows = []
    for v in (x, w):
        moved = shaping.transpose(Array(v), (*others, *chosen))
        wide = shaping.broadcast_to(moved, (*lead, *(v.shape[k] for k in chosen)))
        rows.append(shaping.reshape(wide, (-1, *(v.shape[k] for k in chosen))))
    made = [convolve(a, b, mode) for a, b in zip(*rows)]
    out = shaping.reshape(shaping.stack(made), (*lead, *made[0].shape))
    order = [*others, *chosen]
    return shaping.transpose(out, [order.index(k) for k in range(ndim)])


def oaconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Array:
    """fftconvolve under the name of SciPy's overlap-add method."""
    return fftconvolve(in1, in2, mode, axes)


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Array:
    """Cross-correlation over all axes: sum over k of in1[n + k] * conj(in2[k]). Shapes as convolve.

    >>> from numbagrad.scipy import signal
    >>> signal.correlate([1.0, 2.0, 3.0], [0.0, 1.0, 0.5])
    Array([0.5, 2. , 3.5, 3. , 0. ], dtype=float64)
    """
    x, w = _operands(in1, in2, "correlate")
    return Array(_correlate(x, ew.conj(Array(w))._value, mode, "correlate"))


_PAD_MODES = {"fill": "constant", "pad": "constant", "wrap": "wrap", "circular": "wrap"}
_PAD_MODES |= {"symm": "symmetric", "symmetric": "symmetric"}


def _two_axes(in1: Any, in2: Any, mode: str, boundary: str, fillvalue: Any, op: str, flipped: bool) -> Array:
    x, w = _operands(in1, in2, op)
    if len(x.shape) != 2:
        raise ValueError(message(op, "not two axes", f"{x.shape} and {w.shape}", "2 axes each", f"Use {op[:-2]}."))
    if boundary not in _PAD_MODES:
        raise ValueError(message(op, "no such boundary", repr(boundary), "'fill', 'wrap' or 'symm'"))
    w = flip(w) if flipped else ew.conj(Array(w))._value
    if mode == "valid" or 0 in (*x.shape, *w.shape):
        return Array(_correlate(x, w, mode, op))
    pads = [(k - 1, k - 1) for k in w.shape]
    options = {"constant_values": fillvalue} if _PAD_MODES[boundary] == "constant" else {}
    padded = padding.pad(Array(x), pads, mode=_PAD_MODES[boundary], **options)
    full = correlate_full(padded._value, w, ((0, 0), (0, 0)))
    if mode == "full":
        return Array(full)
    starts = [(k - 1) // 2 if flipped else k // 2 for k in w.shape]  # of an even kernel SciPy takes the other middle
    return Array(getitem(full, key=tuple(slice(a, a + n) for a, n in zip(starts, x.shape))))


def convolve2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Array:
    """Convolution of two matrices with a boundary: fillvalue ("fill"), periodic ("wrap") or mirrored ("symm")."""
    return _two_axes(in1, in2, mode, boundary, fillvalue, "convolve2d", True)


def correlate2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Array:
    """Cross-correlation of two matrices; boundaries as convolve2d."""
    return _two_axes(in1, in2, mode, boundary, fillvalue, "correlate2d", False)
