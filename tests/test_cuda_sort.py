"""Sorting on the emulated CUDA device: the CPU's order, bit for bit, for every type and on every path."""

import numpy as onp
import pytest

from numbagrad.kernels.cpu import sort as cpu
from numbagrad.kernels.cuda import kernel as cuda_kernel
from numbagrad.kernels.cuda import sort as cuda
from numbagrad.kernels.cuda.devices import find
from numbagrad.kernels.cuda.sort_text import TILE

pytestmark = pytest.mark.slow  # the table's values are the quick check of these kernels

DEVICE = find("cuda-emulated")
DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]
SHORT = [(0,), (3, 0), (1,), (5,), (301, 1), (301, 2), (150, 3), (70, 8), (70, 9), (9, 33), (3, 257)]
# one tile and more than one: two, three with a short last one
LONG = [(1, TILE), (2, TILE + 1), (2 * TILE + 5,)]


def sample(shape, dtype, seed=0):
    """Many ties; every kind of zero and nan; the largest and the smallest numbers."""
    rng = onp.random.default_rng(seed)
    dtype = onp.dtype(dtype)
    if dtype.kind == "f":
        x = onp.asarray(rng.integers(-40, 40, shape) / 4, dtype)
        special = onp.array([onp.nan, -onp.nan, onp.inf, -onp.inf, 0.0, -0.0, onp.finfo(dtype).max], dtype)
        bits = special[:1].view(f"u{dtype.itemsize}") | 5  # a nan of another payload
        special = onp.concatenate([special, bits.view(dtype), -onp.finfo(dtype).smallest_subnormal[None]])
    elif dtype.kind == "b":
        return onp.asarray(rng.random(shape) < 0.5)
    else:
        lowest = 0 if dtype.kind == "u" else -40
        x = onp.asarray(rng.integers(lowest, 40, shape), dtype)
        special = onp.array([onp.iinfo(dtype).max, onp.iinfo(dtype).min, 0], dtype)
    mask = rng.random(shape) < 0.3
    x[mask] = rng.choice(special, mask.sum())
    return x


def launches(function, *args, **params):
    before = DEVICE.counts["launch"]
    found = function(*args, **params)
    return found, DEVICE.counts["launch"] - before


def same(got, want):
    got = onp.asarray(got)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    onp.testing.assert_array_equal(got, want)


def same_bits(got, want):
    assert onp.asarray(got).tobytes() == onp.ascontiguousarray(want).tobytes()


def check(x, descending, count, axis=-1):
    """All three functions; `count` launches each."""
    buffer, by = DEVICE.put(x), dict(axis=axis, descending=descending)
    want = cpu.argsort(x, **by)
    index, used = launches(cuda.argsort, buffer, **by)
    same(index, want)
    values, used_by_sort = launches(cuda.sort, buffer, **by)
    same(values, cpu.sort(x, **by))
    # a permutation of the bits: no zero loses its sign, no nan its payload
    bits = [onp.sort(onp.asarray(v).view(f"u{x.itemsize}"), axis) for v in (values, x)]
    onp.testing.assert_array_equal(*bits)
    (routed, places), used_by_both = launches(cuda.sort_routed, buffer, **by)
    same(places, want)
    same_bits(routed, onp.take_along_axis(x, want, axis))
    moved = axis % x.ndim != x.ndim - 1  # lines are copied together, and each result back
    assert (used, used_by_sort, used_by_both) == (count, count, count + moved)
    same_bits(buffer, x)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_short_lines(dtype, descending):
    for seed, shape in enumerate(SHORT):
        check(sample(shape, dtype, seed), descending, 1 if 0 not in shape else 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_long_lines(dtype):
    for seed, (shape, count) in enumerate(zip(LONG, (1, 2, 3), strict=True)):
        check(sample(shape, dtype, seed), bool(seed % 2), count)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_unequal_elements(dtype):
    """Runs that interleave, and runs of which one is before the other."""
    rng = onp.random.default_rng(1)
    for x in (rng.standard_normal(3 * TILE + 100), onp.arange(2 * TILE + 7.0), -onp.arange(2 * TILE + 7.0)):
        check(x.astype(dtype), False, 3)


def test_many_passes():
    x = sample((9 * TILE + 1,), "int32")
    for function in (cuda.argsort, cuda.sort):
        found, used = launches(function, DEVICE.put(x), axis=0)
        same(found, getattr(cpu, function.__name__)(x, axis=0))
        assert used == 5  # tiles, and runs of 1, 2, 4 and 8 of them merged


@pytest.mark.parametrize("axis", [0, 1, -2, -1])
def test_axes(axis):
    x = sample((5, 40, 3), "float32")
    found, used = launches(cuda.argsort, DEVICE.put(x), axis=axis)
    same(found, cpu.argsort(x, axis=axis))
    assert used == (1 if axis == -1 else 3)
    check(x, True, used, axis)


def test_strided_operands():
    x = sample((6, 50), "float64")
    buffer = DEVICE.put(x)
    views = {
        "transposed": (buffer.view((50, 6), (8, 400)), x.T),
        "reversed": (buffer.view((6, 50), (400, -8), 49 * 8), x[:, ::-1]),
        "step": (buffer.view((6, 25), (400, 16)), x[:, ::2]),
        "spread": (buffer.view((4, 6, 50), (0, 400, 8)), onp.broadcast_to(x, (4, 6, 50))),
    }
    for view, want in views.values():
        same(cuda.argsort(view, axis=-1), cpu.argsort(want, axis=-1))
        same(cuda.sort(view, axis=0), cpu.sort(want, axis=0))


@pytest.mark.parametrize(("shape", "k", "count"), [
    ((7, 40), 3, 1), ((7, 40), 40, 1), ((3, TILE), 5, 1), ((2, TILE + 1), 1, 2), ((2, 3 * TILE + 9), 9, 2),
    ((4 * TILE + 3,), TILE // 2, 4), ((2 * TILE + 3,), TILE // 2 + 1, 3), ((2 * TILE + 3,), 2 * TILE + 3, 3),
    ((0, 5), 2, 0), ((4, 5), 0, 0), ((20 * TILE,), TILE // 4, 4),
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_top_k(shape, k, count, dtype):
    x = sample(shape, dtype)
    found, used = launches(cuda.top_k, DEVICE.put(x), k=k)
    same(found, cpu.top_k(x, k=k))
    assert used == count


@pytest.mark.parametrize("axis", [0, 1])
def test_argpartition(axis):
    x = sample((30, 41), "float32")
    kth = (3, 17)
    index = onp.asarray(cuda.argpartition(DEVICE.put(x), kth=kth, axis=axis))
    onp.testing.assert_array_equal(onp.sort(index, axis), onp.sort(onp.argsort(x, axis), axis))
    found, want = onp.take_along_axis(x, index, axis), onp.sort(x, axis)
    onp.testing.assert_array_equal(onp.take(found, kth, axis), onp.take(want, kth, axis))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("a", "b"), [
    *((d, d) for d in DTYPES), ("float32", "float64"), ("int64", "uint64"), ("int8", "float32"), ("bool", "int32"),
])  # fmt: skip
def test_searchsorted(a, b, side):
    for n, shape in ((0, (3,)), (1, (40,)), (2, ()), (31, (9, 7)), (64, (300,)), (1000, (257,)), (5, (0,))):
        line, values = onp.sort(sample((n,), a)), sample(shape, b, 1)
        found, used = launches(cuda.searchsorted, DEVICE.put(line), DEVICE.put(values), side=side)
        same(found, cpu.searchsorted(line, values, side=side))
        assert used == (1 if values.size else 0)


def test_searchsorted_strided():
    line, values = onp.sort(sample((60,), "float32")), sample((5, 8), "float32")
    spread, turned = DEVICE.put(onp.repeat(line, 2)).view((60,), (8,)), DEVICE.put(values).view((8, 5), (4, 32))
    same(cuda.searchsorted(spread, turned, side="left"), cpu.searchsorted(line, values.T, side="left"))


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_64_bit_indices(dtype, monkeypatch):
    """The kernels for 2**31 elements and more."""
    monkeypatch.setattr(cuda_kernel, "LARGE", 1)
    check(sample((2, TILE + 9), dtype), True, 2)
    check(sample((30, 50), dtype), False, 1)
    x = sample((2 * TILE,), dtype)
    same(cuda.top_k(DEVICE.put(x), k=7), cpu.top_k(x, k=7))
    line = onp.sort(sample((40,), dtype))
    same(cuda.searchsorted(DEVICE.put(line), DEVICE.put(x), side="left"), cpu.searchsorted(line, x, side="left"))


def test_complex_numbers_have_no_order():
    with pytest.raises(TypeError, match="complex numbers have no order"):
        cuda.argsort(DEVICE.put(onp.ones(3, complex)), axis=0)
