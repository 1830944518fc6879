"""The discrete Fourier transform over axes, unnormalised: cuFFT where it is installed, else own kernels.

Those are passes of small radices; other lengths become a convolution.

A row of length n = r1 r2 ... goes through one pass for each radix (Stockham's order, which needs no reordering). With
L the product of the radices so far, after a pass A[l, k] is the transform, at frequency l, of the L elements of the row
that lie n/L apart from k on. A pass of radix r therefore makes

    A'[l, k] = sum over q < r of  w(Lr)^(l q) A[l mod L, k + q M],   M = n / (L r),

a thread for each element of A'. Lengths with a prime factor above 61 become a cyclic convolution of a power of two
(Bluestein 1970). Roots of unity are computed on the host in float64 and kept on the device.
"""

# Checklist of docs/design/cuda.md: all 15 hold; no shared memory, no barriers; registers <= 40 (sm_90, complex64).

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np

from numbagrad.kernels.cuda import cufft
from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.copy import contiguous
from numbagrad.kernels.cuda.kernel import THREADS, Kernel, blocks, index_type, kernel, short
from numbagrad.scalar.render import NAMES

LARGEST_RADIX = 16  # of composite ones: a pass costs so many multiplications an element, and saves others
LARGEST_PRIME = 61  # beyond, the convolution is cheaper
PLANS = 256  # tables of roots kept at most

_PASS = '''"""One pass of a Fourier transform of rows of {T}."""

from numbagrad.kernels.cuda.frontend import cuda, {T}, {I}


@cuda.jit
def {name}(x, roots, out, total, n, radix, before, step):
    # before: L, step: M, roots: of order n
    at = {I}(cuda.grid(1))
    if at < total:
        row = {I}(at // n)
        place = {I}(at - {I}(row * n))
        l = {I}(place // step)
        k = {I}(place - {I}(l * step))
        start = {I}({I}(row * n) + {I}({I}({I}(l % before) * radix) * step) + k)
        turn = {I}({I}(l * step) % n)  # of the root that one more q turns by
        root = {I}(0)
        s = {T}(0)
        for q in range(radix):
            s += x[{I}(start + {I}(q * step))] * roots[root]
            root = {I}(root + turn)
            if root >= n:
                root = {I}(root - n)
        out[at] = s
'''

_MODULATE = '''"""Rows of {T} times a row of factors, cut or continued by zeros."""

from numbagrad.kernels.cuda.frontend import cuda, {T}, {I}


@cuda.jit
def {name}(x, factors, out, total, width, length):
    # x has rows of `width` elements, out of `length`
    at = {I}(cuda.grid(1))
    if at < total:
        row = {I}(at // length)
        k = {I}(at - {I}(row * length))
        value = {T}(0)
        if k < width:
            value = x[{I}(row * width) + k] * factors[k]
        out[at] = value
'''


@cache
def _kernel(text: str, title: str, dtype: np.dtype, numbers: int, index: str) -> Kernel:
    t = NAMES[dtype.name]
    name = f"fourier_{title}_{t}" + ("" if index == "uint32" else "_large")
    signature = [f"{t}*"] * 3 + [short(index)] * numbers
    return kernel(name, text.format(name=name, T=dtype.name, I=index), signature)


@cache
def radices(n: int) -> tuple[int, ...] | None:
    """Factors of n of moderate size, the largest first; None if it has a large prime."""
    primes, rest, p = [], n, 2
    while rest > 1:
        while rest % p == 0:
            primes.append(p)
            rest //= p
        p += 1
        if p > LARGEST_PRIME and rest > 1:
            return None
    found: list[int] = []
    for p in sorted(primes, reverse=True):
        fit = next((k for k, r in enumerate(found) if r * p <= LARGEST_RADIX), None)
        if fit is None:
            found.append(p)
        else:
            found[fit] *= p
    return tuple(sorted(found, reverse=True))


def _on(device: Any, values: np.ndarray, dtype: np.dtype) -> Buffer:
    return device.put(values.astype(dtype))


@lru_cache(PLANS)
def _roots(device: Any, n: int, dtype: np.dtype, inverse: bool) -> Buffer:
    """exp(-+ 2 pi i k / n)."""
    sign = 1 if inverse else -1
    return _on(device, np.exp(sign * 2j * np.pi * np.arange(n) / n), dtype)


@lru_cache(PLANS)
def _chirp(device: Any, n: int, dtype: np.dtype, inverse: bool) -> tuple[int, Buffer, Buffer, Buffer]:
    """Length of the convolution, exp(-+ pi i k^2 / n), the same with the convolution's factor, and its transform."""
    length = 1 << (2 * n - 2).bit_length()
    sign = 1 if inverse else -1
    chirp = np.exp(sign * 1j * np.pi * (np.arange(n, dtype=np.int64) ** 2 % (2 * n)) / n)
    row = np.zeros(length, complex)
    row[:n] = chirp.conj()
    row[length - n + 1 :] = chirp.conj()[:0:-1]
    return length, _on(device, chirp, dtype), _on(device, chirp / length, dtype), _on(device, np.fft.fft(row), dtype)


def _modulated(x: Buffer, factors: Buffer, rows: int, width: int, length: int) -> Buffer:
    out = x.device.empty((rows, length), x.dtype)
    found = _kernel(_MODULATE, "modulate", x.dtype, 3, index_type(out.size))
    x.device.launch(found, blocks(out.size), THREADS, x, factors, out, out.size, width, length)
    return out


def _rows(x: Buffer, n: int, inverse: bool) -> Buffer:
    """Transform of the rows of a buffer (rows, n) in C order."""
    if cufft.usable(x.device):
        return cufft.transform(x, n, inverse)
    device, factors = x.device, radices(n)
    if factors is None:
        length, chirp, last, transform = _chirp(device, n, x.dtype, inverse)
        rows = x.size // n
        padded = _rows(_modulated(x, chirp, rows, n, length), length, False)
        product = _rows(_modulated(padded, transform, rows, length, length), length, True)
        return _modulated_cut(product, last, rows, length, n)
    roots, before = _roots(device, n, x.dtype, inverse), 1
    found = _kernel(_PASS, "pass", x.dtype, 5, index_type(x.size))
    for radix in factors:
        out = device.empty(x.shape, x.dtype)
        step = n // (before * radix)
        device.launch(found, blocks(x.size), THREADS, x, roots, out, x.size, n, radix, before, step)
        x, before = out, before * radix
    return x


def _modulated_cut(x: Buffer, factors: Buffer, rows: int, length: int, n: int) -> Buffer:
    """The first n elements of rows of `length`, times factors."""
    return _modulated(contiguous(x.view((rows, n), (length * x.itemsize, x.itemsize))), factors, rows, n, n)


def fourier(x: Buffer, *, axes: tuple[int, ...], inverse: bool = False) -> Buffer:
    """The transform over axes, one after the other."""
    for axis in axes:
        n = x.shape[axis]
        if not x.size or n == 1:
            continue
        order = (*(k for k in range(x.ndim) if k != axis), axis)
        strides = x.strides
        rows = contiguous(x.view(tuple(x.shape[k] for k in order), tuple(strides[k] for k in order)))
        done = _rows(rows.view((rows.size // n, n), None), n, inverse).view(rows.shape, None)
        strides = done.strides
        back = [order.index(k) for k in range(x.ndim)]
        x = done.view(tuple(done.shape[k] for k in back), tuple(strides[k] for k in back))
    return x
