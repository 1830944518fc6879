"""The Fourier transform's CUDA kernels: lengths of every kind against NumPy."""

import numpy as onp
import pytest
from cuda_emulated import put

from numbagrad.kernels.cuda import fourier

LENGTHS = (1, 2, 3, 4, 5, 8, 12, 16, 17, 30, 49, 60, 61, 64, 67, 96, 101, 134, 210, 256, 331, 512)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("n", LENGTHS)
def test_lengths(n, dtype, inverse):
    rng = onp.random.default_rng(n)
    x = (rng.standard_normal((3, n)) + 1j * rng.standard_normal((3, n))).astype(dtype)
    want = onp.fft.ifft(x, norm="forward") if inverse else onp.fft.fft(x)
    got = onp.asarray(fourier.fourier(put(x)._value, axes=(1,), inverse=inverse))
    assert got.dtype == dtype
    error = onp.linalg.norm(got - want) / onp.linalg.norm(want)
    assert error < 8 * onp.finfo(dtype).eps


def test_axes_and_layouts():
    rng = onp.random.default_rng(0)
    x = rng.standard_normal((4, 6, 5)) + 1j * rng.standard_normal((4, 6, 5))
    for axes in ((0,), (1,), (0, 2), (2, 1, 0), ()):
        got = fourier.fourier(put(x)._value, axes=axes)
        onp.testing.assert_allclose(onp.asarray(got), onp.fft.fftn(x, axes=axes) if axes else x, atol=1e-13)
    turned = put(x.T)._value.view(x.shape, put(x.T)._value.strides[::-1])
    onp.testing.assert_allclose(onp.asarray(fourier.fourier(turned, axes=(1,))), onp.fft.fft(x, axis=1), atol=1e-13)
    assert fourier.fourier(put(x[:0])._value, axes=(0,)).shape == (0, 6, 5)


def test_radices():
    assert fourier.radices(1) == ()
    assert fourier.radices(2**20) == (16, 16, 16, 16, 16)
    assert fourier.radices(67) is None and fourier.radices(2 * 67) is None
    for n in (60, 61, 5040, 1 << 13):
        found = fourier.radices(n)
        assert onp.prod(found) == n


def test_launches():
    x = put(onp.ones((2, 256), "complex64"))._value
    fourier.fourier(x, axes=(1,))
    before = x.device.launches
    fourier.fourier(x, axes=(1,))
    assert x.device.launches - before == 2  # 16 * 16
