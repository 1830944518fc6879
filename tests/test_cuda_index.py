"""Gathers, scatters, segments and moving slices on the emulated CUDA device, against the CPU's kernels.

The table has small cases of every mode. Here are many updates, which are sorted and combined by tiles.
"""

import numpy as onp
import pytest
from cuda_emulated import DEVICE

from numbagrad.kernels.cpu import along as cpu_along
from numbagrad.kernels.cpu import dynamic as cpu_dynamic
from numbagrad.kernels.cpu import index as cpu_index
from numbagrad.kernels.cpu import segment as cpu_segment
from numbagrad.kernels.cpu import segment_exp as cpu_segment_exp
from numbagrad.kernels.cuda import along, dynamic, index, places, runs, segment, segment_exp
from numbagrad.kernels.cuda.device import find
from numbagrad.testing import tolerance

DTYPES = ("float32", "float64", "complex64", "complex128", "int32", "int64", "uint8", "int8")
device = find(DEVICE)


def numbers(dtype, shape, seed=0):
    rng = onp.random.default_rng([seed, *shape])
    dtype = onp.dtype(dtype)
    if dtype.kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    found = rng.standard_normal(shape)
    return (found + 1j * rng.standard_normal(shape) if dtype.kind == "c" else found).astype(dtype)


def compare(got, want, scale=1.0):
    got = onp.asarray(got)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    onp.testing.assert_allclose(got, want, **tolerance(want.dtype, scale))


def launches(call, *args, **params):
    device.fault("take")  # the first call makes the words
    before = device.counts["launch"]
    found = call(*args, **params)
    return found, device.counts["launch"] - before


def rows_of(kind, count, rows, seed=1):
    """Row numbers: how they are spread over the rows decides how long the runs are."""
    rng = onp.random.default_rng([seed, count, rows])
    if kind == "one":
        return onp.full(count, rows // 2)
    if kind == "skewed":
        return onp.minimum(rng.geometric(0.4, count) - 1, rows - 1)
    if kind == "halves":  # two runs, and rows of single updates between them
        return onp.sort(onp.where(onp.arange(count) % 7 == 0, rng.integers(0, rows, count), rows // 2))
    if kind == "outside":
        return rng.integers(-2 * rows, 2 * rows, count)
    return rng.integers(0, rows, count)


KINDS = ("even", "one", "skewed", "halves", "outside")


# ------------------------------------------------------------------------------------------- take


@pytest.mark.parametrize("dtype", [*DTYPES, "bool", "int16"])
@pytest.mark.parametrize("rest", [(), (3,), (2, 4), (16,)])
def test_take(dtype, rest):
    x = numbers(dtype, (13, *rest))
    for count in (1, 31, 257, 1100):
        i = rows_of("even", count, 13) - 3
        got, n = launches(index.take, device.put(x), device.put(i))
        assert n == 1
        compare(got, cpu_index.take(x, i))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("mode", ["drop", "clamp", "wrap", "clip", "fill", "zero"])
def test_take_index(kind, mode):
    x = numbers("complex128", (5, 2))
    limits = onp.iinfo(kind)
    i = onp.array([[0, 4, 5, 9], [limits.max, limits.min, 2, 1]], onp.dtype(kind))
    compare(index.take(device.put(x), device.put(i), mode=mode), cpu_index.take(x, i, mode=mode))
    i = onp.resize(i, 1200).reshape(3, 400)
    compare(index.take(device.put(x), device.put(i), mode=mode), cpu_index.take(x, i, mode=mode))
    got = places.resolve(device.put(i), 5, mode, "flat_rows", onp.int64)
    compare(got, cpu_index.flat_rows(i, rows=5, mode=mode))


def test_take_of_views():
    x = numbers("float32", (6, 40))
    i = onp.array([3, 0, 3])
    got, n = launches(index.take, device.put(x).view((40, 6), (4, 160)), device.put(i))
    assert n == 2
    compare(got, x.T[i])
    part = device.put(x).view((6, 3), (160, 4), 4)
    compare(index.take(part, device.put(i)), x[:, 1:4][i])
    line = device.put(onp.arange(9, dtype=onp.float32)).view((8,), None, 4)  # lies at a multiple of 4 bytes only
    compare(index.take(line.view((2, 4), None), device.put(onp.array([1, 0]))), onp.arange(1, 9.0, dtype="f4").reshape(2, 4)[::-1])
    double = device.put(onp.arange(9.0)).view((4, 2), None, 8).view((4, 2), None)
    compare(index.take(double, device.put(onp.array([1, 7])), mode="fill"), onp.array([[3.0, 4], [onp.nan, onp.nan]]))


@pytest.mark.parametrize("call", [
    lambda x, i: index.take(x, i),
    lambda x, i: index.take(x.view((5, 0), None), i),
    lambda x, i: index.scatter_add(x, i, x.view(i.shape, tuple(0 for _ in i.shape))),
    lambda x, i: index.scatter_set(x.view((5, 0), None), i, x.view((*i.shape, 0), None)),
    lambda x, i: index.last_writer(i, rows=5),
    lambda x, i: index.flat_rows(i, rows=5),
])  # fmt: skip
@pytest.mark.parametrize("count", [3, 400])
def test_outside_raises(call, count):
    device.synchronize()
    x = device.put(numbers("float64", (5,)))
    call(x, device.put(onp.full(count, -5)))
    device.synchronize()
    call(x, device.put(onp.append(onp.zeros(count, int), 5)))
    with pytest.raises(IndexError, match="out of range"):
        device.synchronize()


# ------------------------------------------------------------------------------------------- scatters


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["scatter_add", "scatter_set", "scatter_max", "scatter_min"])
def test_scatter(name, dtype):
    if onp.dtype(dtype).kind == "c" and name[-3:] in ("max", "min"):
        pytest.skip("not ordered")
    function, want = getattr(index, name), getattr(cpu_index, name)
    for width, count in ((1, 700), (3, 256), (3, 257), (40, 300)):
        target, updates = numbers(dtype, (11, width)), numbers(dtype, (count, width), 1)
        for kind in ("skewed", "outside"):
            i = rows_of(kind, count, 11)
            got = function(device.put(target), device.put(i), device.put(updates), mode="drop")
            compare(got, want(target, i, updates, mode="drop"), 4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [1, 2, 5, 33])
def test_runs(kind, width):
    """Runs within a chunk, over chunks, over blocks and over levels."""
    rows, count = 37, 5000 if width == 1 else 1500
    i, x = rows_of(kind, count, rows), numbers("int32", (count, width))
    want = onp.zeros((rows, width), onp.int32)
    kept = (i >= 0) & (i < rows)
    onp.add.at(want, i[kept], x[kept])
    found = index.scatter_add(device.zeros((rows, width), x.dtype), device.put(i), device.put(x), mode="drop")
    compare(found, want)
    moved = onp.where(i < 0, -1, i) * 1000  # more rows than updates
    large = device.zeros((37000, width), x.dtype)
    assert index.scatter_add_into(large, device.put(moved), device.put(x), mode="drop") is large
    compare(onp.asarray(large)[::1000], want)
    assert not (onp.asarray(large).sum() - want.sum())


def test_many_levels(monkeypatch):
    """A block of few lanes: three levels and more."""
    monkeypatch.setattr(runs, "COLUMNS", 128)
    x = numbers("int64", (3000, 200))
    for kind in ("even", "one", "halves"):
        i = rows_of(kind, 3000, 9)
        compare(segment.segment_sum(device.put(x), device.put(i), segments=9), cpu_segment.segment_sum(x, i, segments=9))
