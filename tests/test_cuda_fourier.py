"""The Fourier transform's CUDA kernels: lengths of every kind against NumPy."""

import ctypes
import types

import numpy as onp
import pytest
from cuda_emulated import put

from numbagrad.kernels.cuda import cufft, fourier
from numbagrad.kernels.cuda.emulated_device import EmulatedDevice

pytestmark = pytest.mark.slow  # the table's values are the quick check of these kernels

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


# --- cuFFT


class FakeCufft:
    """Does what the functions of nvmath.bindings.cufft do, on memory of this process."""

    def __init__(self):
        self.plans, self.made, self.ran = {}, 0, 0

    def create(self):
        self.made += 1
        self.plans[self.made] = None
        return self.made

    def destroy(self, plan):
        del self.plans[plan]

    def make_plan_many64(self, plan, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch):
        assert rank == 1
        assert n == inembed == onembed == [idist] == [odist]
        assert istride == ostride == 1
        self.plans[plan] = [n[0], batch, type, None]
        return 0

    def set_stream(self, plan, stream):
        self.plans[plan][3] = stream

    def exec_c2c(self, plan, idata, odata, direction):
        self._run(plan, idata, odata, direction, 41)

    def exec_z2z(self, plan, idata, odata, direction):
        self._run(plan, idata, odata, direction, 105)

    def _run(self, plan, idata, odata, direction, kind):
        n, batch, type, stream = self.plans[plan]
        assert (type, stream) == (kind, 5)
        x, out = (self._at(address, batch, n, kind) for address in (idata, odata))
        out[...] = onp.fft.fft(x) if direction == -1 else onp.fft.ifft(x, norm="forward")
        self.ran += 1

    @staticmethod
    def _at(address, batch, n, kind):
        dtype = onp.dtype("c8" if kind == 41 else "c16")
        held = (ctypes.c_char * (batch * n * dtype.itemsize)).from_address(address)
        return onp.frombuffer(held, dtype).reshape(batch, n)


def test_cufft(monkeypatch):
    fake = FakeCufft()
    monkeypatch.setattr(cufft, "bindings", lambda: fake)
    cufft._present.cache_clear()
    cufft._plan.cache_clear()
    device = EmulatedDevice()
    device.stream = types.SimpleNamespace(handle=5)
    rng = onp.random.default_rng(0)
    for dtype in ("complex64", "complex128"):
        x = (rng.standard_normal((4, 67, 5)) + 1j * rng.standard_normal((4, 67, 5))).astype(dtype)
        for axes in ((1,), (0, 2)):
            for inverse in (False, True):
                want = onp.fft.ifftn(x, axes=axes, norm="forward") if inverse else onp.fft.fftn(x, axes=axes)
                ran = fake.ran
                got = fourier.fourier(device.put(x), axes=axes, inverse=inverse)
                assert fake.ran - ran == len(axes)
                onp.testing.assert_allclose(onp.asarray(got), want, 1e-5, 1e-4 if dtype == "complex64" else 1e-12)
    assert len(fake.plans) == 6  # three lengths in two types, for both directions
    cufft._plan.cache_clear()
    cufft._present.cache_clear()
    assert not fake.plans
