"""Fourier transforms against NumPy's, and their derivatives."""

import numpy as onp
import pytest

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad.testing import check_grads

RNG = onp.random.default_rng(0)


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("n", [None, 3, 8])
@pytest.mark.parametrize("name", ["fft", "ifft"])
def test_values_and_derivatives(name, n, norm):
    for x in (RNG.normal(size=(2, 5)), RNG.normal(size=(2, 5)) + 1j * RNG.normal(size=(2, 5))):
        for axis in (0, -1):
            want = getattr(onp.fft, name)(x, n, axis, norm)
            got = getattr(np.fft, name)(x, n, axis, norm)
            assert got.dtype == want.dtype
            onp.testing.assert_allclose(onp.asarray(got), want, atol=1e-13)
    check_grads(lambda x: np.abs(getattr(np.fft, name)(x, n, -1, norm)) ** 2, [np.asarray(RNG.normal(size=(2, 5)))])


def test_several_axes_and_shifts():
    x = RNG.normal(size=(3, 4, 5)) + 1j
    for name in ("fftn", "ifftn", "fft2", "ifft2"):
        onp.testing.assert_allclose(onp.asarray(getattr(np.fft, name)(x)), getattr(onp.fft, name)(x), atol=1e-12)
    onp.testing.assert_allclose(onp.asarray(np.fft.fftn(x, (2, 7))), onp.fft.fftn(x, (2, 7), (1, 2)), atol=1e-12)
    for name in ("fftshift", "ifftshift"):
        onp.testing.assert_array_equal(onp.asarray(getattr(np.fft, name)(x, 1)), getattr(onp.fft, name)(x, 1))
        onp.testing.assert_array_equal(onp.asarray(getattr(np.fft, name)(x)), getattr(onp.fft, name)(x))
    assert np.fft.fft(RNG.normal(size=4).astype(onp.float32)).dtype == onp.complex64


def test_a_filter_differentiates():
    """A derivative by Fourier transform, and the gradient of its energy."""
    c = RNG.normal(size=8)
    f = lambda x: (np.real(np.fft.ifft(np.fft.fft(x) * onp.exp(1j * c))) ** 2).sum()
    check_grads(f, [np.asarray(RNG.normal(size=8))], order=3)
    assert ng.grad(f)(onp.ones(8)).dtype == onp.float64


def test_errors():
    with pytest.raises(ValueError, match="no points"):
        np.fft.fft([1.0], 0)
    with pytest.raises(ValueError, match="no such norm"):
        np.fft.fft([1.0], norm="sideways")
