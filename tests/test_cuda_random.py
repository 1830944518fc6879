"""Random numbers on the emulated CUDA device: the CPU's stream."""

import numpy as onp
import pytest

import numbagrad as ng
from numbagrad import random
from numbagrad.kernels.cpu import random_bits as cpu
from numbagrad.kernels.cuda import kernel as cuda_kernel
from numbagrad.kernels.cuda import random_bits as cuda
from numbagrad.kernels.cuda.devices import find

pytestmark = pytest.mark.slow  # the table's values are the quick check of these kernels

DEVICE = find("cuda-emulated")
KEY = onp.array([3, 0xDEADBEEF], onp.uint32)
SHAPES = [(), (0,), (1,), (31,), (257,), (3, 500)]
OFFSETS = [0, 2**32 - 200, 2**64 - 100]  # where a word of the counter overflows, and where the counter wraps


def put(x, dtype=None):
    return DEVICE.put(onp.asarray(x, dtype))


def launches(function, *args, **params):
    before = DEVICE.counts["launch"]
    found = function(*args, **params)
    return found, DEVICE.counts["launch"] - before


def same(got, want):
    got = onp.asarray(got)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    onp.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("shape", SHAPES)
def test_bits(shape, offset):
    first = onp.asarray(offset, onp.uint64)
    size = onp.prod(shape, dtype=int)
    for name in ("uint32", "uint64"):
        by = dict(shape=shape, dtype=onp.dtype(name))
        found, used = launches(cuda.random_bits, put(KEY), put(first), **by)
        same(found, cpu.random_bits(KEY, first, **by))
    found, used = launches(cuda.random_pairs, key := put(KEY), start := put(first), shape=shape)
    same(found, cpu.random_pairs(KEY, first, shape=shape))
    assert used == (1 if size else 0)
    same(key, KEY)
    same(start, first)


def test_strided_key():
    keys = onp.arange(8, dtype=onp.uint32)
    first = onp.asarray(5, onp.uint64)
    found = cuda.random_pairs(put(keys).view((2,), (12,)), put(first), shape=(9,))
    same(found, cpu.random_pairs(keys[[0, 3]], first, shape=(9,)))


@pytest.mark.parametrize("shape", [(0,), (1,), (7, 33), (2500,)])
def test_order(shape):
    found, used = launches(cuda.random_order, put(KEY), shape=shape)
    same(found, cpu.random_order(KEY, shape=shape))
    assert used == {0: 0, 2500: 3}.get(shape[-1], 2)


PARAMETERS = onp.concatenate([onp.exp(onp.linspace(-6, 8, 294)), [0, -1, onp.nan, onp.inf, -onp.inf, 1]])


def test_gamma():
    a = onp.random.default_rng(0).permutation(PARAMETERS)
    for shape in ((300,), (2, 300), (0,)):
        given = a if shape[-1] else a[:0]
        found, used = launches(cuda.random_gamma, put(KEY), put(given), shape=shape)
        want = cpu.random_gamma(KEY, given, shape=shape)
        onp.testing.assert_allclose(onp.asarray(found), want, rtol=1e-11, atol=1e-13)
        assert used == (len(shape) if want.size else 0)  # parameters to be spread are a copy


def test_poisson():
    rate = onp.random.default_rng(0).permutation(PARAMETERS[onp.isfinite(PARAMETERS) | onp.isnan(PARAMETERS)])
    for shape in ((298,), (2, 298)):
        found, used = launches(cuda.random_poisson, put(KEY), put(rate), shape=shape)
        same(found, cpu.random_poisson(KEY, rate, shape=shape))
        assert used == len(shape)


def test_one_parameter_for_all():
    """One number is read by every thread, whatever its type; nothing is spread or converted first."""
    for dtype in ("float64", "float32", "int32", "bool"):
        rate = put(3 if dtype != "bool" else True, dtype)
        found, used = launches(cuda.random_poisson, put(KEY), rate, shape=(3, 50))
        same(found, cpu.random_poisson(KEY, onp.asarray(rate), shape=(3, 50)))
        assert used == 1
    found = cuda.random_gamma(put(KEY), put([0.5], "float64"), shape=(50,))
    onp.testing.assert_allclose(onp.asarray(found), cpu.random_gamma(KEY, onp.asarray(0.5), shape=(50,)), rtol=1e-11)


def test_64_bit_indices(monkeypatch):
    """The kernels for 2**31 elements and more."""
    monkeypatch.setattr(cuda_kernel, "LARGE", 1)
    first = onp.asarray(9, onp.uint64)
    same(cuda.random_pairs(put(KEY), put(first), shape=(300,)), cpu.random_pairs(KEY, first, shape=(300,)))
    by = dict(shape=(300,), dtype=onp.dtype(onp.uint32))
    same(cuda.random_bits(put(KEY), put(first), **by), cpu.random_bits(KEY, first, **by))
    rate = onp.linspace(0, 30, 300)
    same(cuda.random_poisson(put(KEY), put(rate), shape=(300,)), cpu.random_poisson(KEY, rate, shape=(300,)))


def test_keys_of_the_library():
    """A key made on the host and brought along draws what it draws on the CPU."""
    key = random.key(7)
    there = ng.device_put(key, "cuda-emulated")
    same(random.bits(there, (5, 7)), onp.asarray(random.bits(key, (5, 7))))
    same(random.split(there, 3), onp.asarray(random.split(key, 3)))
    same(random.permutation(there, 20), onp.asarray(random.permutation(key, 20)))
