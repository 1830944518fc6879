"""CUDA windows against the CPU's: random geometries, ties, nans, padding only, long windows, large indices."""

import math

import numpy as onp
import pytest
from cuda_emulated import DEVICE, put_strided

from numbagrad.kernels.cpu import window as cpu
from numbagrad.kernels.cuda import conv_axes
from numbagrad.kernels.cuda import window as kernels
from numbagrad.kernels.cuda.devices import find
from numbagrad.primitives.window import Axis, Geometry
from numbagrad.testing import tolerance

pytestmark = pytest.mark.slow  # the table's values are the quick check of these kernels

DEVICE = find(DEVICE)
SUMS, EXTREMA = ("window_sum", "window_spread"), ("window_max", "window_min")


@pytest.fixture(autouse=True)
def fresh_plans():
    """Plans of this test's constants only."""
    kernels._plan.cache_clear()
    yield
    kernels._plan.cache_clear()


def geometry(rng, most):
    """Windows along up to three axes, some untouched: any stride, dilation of both sides, padding of either sign."""
    axes = []
    for _ in range(rng.integers(1, 4)):
        if rng.random() < 0.3:
            axes.append(Axis(int(rng.integers(1, 5))))
            continue
        spans = (1, most), (1, most), (1, 5), (-3, 5), (-3, 5), (1, 4), (1, 4)
        axes.append(Axis(*(int(rng.integers(*span)) for span in spans)))
    return Geometry(tuple(axes))


def geometries(seed, count, most=9):
    rng = onp.random.default_rng(seed)
    found = (geometry(rng, most) for _ in range(100 * count))
    fit = [g for g in found if math.prod(g.shape) < 3000 and math.prod(g.out_shape) < 3000]
    return rng, fit[:count]


def numbers(rng, shape, dtype):
    """Few different numbers, so that there are ties; nans and infinities among floats."""
    x = rng.integers(0 if onp.dtype(dtype).kind in "bu" else -3, 4, shape).astype(dtype)
    if x.dtype.kind == "f":
        x[rng.random(shape) < 0.05] = onp.nan
        x[rng.random(shape) < 0.05] = rng.choice([-onp.inf, onp.inf])
    return x


def check(name, x, window, launches=1, put=DEVICE.put):
    """The CPU's result, by so many launches."""
    value = put(x)
    with onp.errstate(all="ignore"):
        want = getattr(cpu, name)(x, window=window)
    before = DEVICE.counts["launch"]
    got = getattr(kernels, name)(value, window=window)
    size = math.prod(window.shape if name == "window_spread" else window.out_shape)
    assert DEVICE.counts["launch"] - before == (launches if size else 0)
    for g, w in zip(*((v if isinstance(v, tuple) else (v,)) for v in (got, want)), strict=True):
        g = onp.asarray(g)
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        if w.dtype.kind in "fc":
            onp.testing.assert_allclose(g, w, **tolerance(w.dtype))
        else:
            onp.testing.assert_array_equal(g, w)


def check_all(rng, window, dtype=onp.float32, put=DEVICE.put, launches=1):
    for name in EXTREMA:
        x = numbers(rng, window.shape, dtype)
        check(name, x, window, launches, put)
        check(f"{name}_routed", x, window, launches, put)
    for name, shape in zip(SUMS, (window.shape, window.out_shape), strict=True):
        x = rng.standard_normal(shape).astype(dtype)
        check(name, x, window, launches, put)


@pytest.mark.parametrize("seed", range(4))
def test_any_geometry(seed):
    """A thread an output."""
    rng, found = geometries(seed, 8)
    for window in found:
        check_all(rng, window)


@pytest.mark.parametrize("seed", range(2))
def test_threads_share_an_output(seed, monkeypatch):
    """Ties and nans are in different threads, then."""
    monkeypatch.setattr(kernels, "LONG", 2)
    monkeypatch.setattr(kernels, "SHARE", 1)
    rng, found = geometries(10 + seed, 6, 14)
    shared = 0
    for window in found:
        plan = kernels._plan("sum", onp.dtype("f4"), window, False, False)
        shared += plan.kernel is not None and plan.kernel.name.endswith("_shared")
        check_all(rng, window)
    assert shared


def test_large_indices(monkeypatch):
    """The twin for 2**31 elements and more, on few."""
    monkeypatch.setattr(conv_axes, "LARGE", 1)
    rng, found = geometries(20, 4)
    for window in found:
        check_all(rng, window)
    monkeypatch.setattr(kernels, "LONG", 2)
    monkeypatch.setattr(kernels, "SHARE", 1)
    kernels._plan.cache_clear()
    check_all(rng, Geometry((Axis(3), Axis(20, 17, 2, 3, 1), Axis(3))))


def test_large_sizes_have_large_indices():
    name = lambda *axes: kernels._plan("sum", onp.dtype("f4"), Geometry(axes), False, False).kernel.name
    assert name(Axis(1 << 20, 2), Axis(1 << 10)).endswith("sum_f32_1")
    assert name(Axis(1 << 21, 2), Axis(1 << 10)).endswith("_large")
    assert name(Axis(1 << 20, 2, 1, 0, 0, 1 << 12, 1 << 12)).endswith("_large")  # few elements, far apart


@pytest.mark.parametrize(
    "window",
    [
        Geometry((Axis(2), Axis(40, 9, 4, 4, 4), Axis(33))),  # channels last
        Geometry((Axis(2), Axis(12, 8, 8), Axis(12, 9, 1, 4, 4), Axis(40))),  # shared, with channels
        Geometry((Axis(1100, 1000, 1),)),  # long
        Geometry((Axis(3), Axis(2000, 2000))),  # whole rows
        Geometry((Axis(900, 3, 2),)),  # more than one block
        Geometry((Axis(2), Axis(31, 2, 2), Axis(32, 2, 2))),  # pooling
        Geometry((Axis(4, 1, 1, 3, 3),)),  # some of padding only
        Geometry((Axis(600, 500, 300, 0, 0, 1, 2), Axis(2))),
    ],
    ids=str,
)
def test_shapes_of_all_kinds(window):
    check_all(onp.random.default_rng(3), window)


def test_long_windows_are_shared():
    plan = kernels._plan("sum", onp.dtype("f4"), Geometry((Axis(3), Axis(4096, 4096))), False, False)
    assert plan.kernel.name.endswith("_shared")
    assert plan.grid == 3
    many = kernels._plan("sum", onp.dtype("f4"), Geometry((Axis(1 << 17), Axis(100, 100))), False, False)
    assert not many.kernel.name.endswith("_shared")


@pytest.mark.parametrize("dtype", ["float64", "int32", "int8", "uint8", "int64", "bool", "complex64", "complex128"])
def test_dtypes(dtype, monkeypatch):
    rng = onp.random.default_rng(4)
    for window in (Geometry((Axis(2), Axis(9, 3, 2, 1, 1), Axis(5, 3, 1, 3, 3))), Geometry((Axis(90, 80),))):
        if onp.dtype(dtype).kind != "c":
            for name in EXTREMA:
                x = numbers(rng, window.shape, dtype)
                check(name, x, window)
                check(f"{name}_routed", x, window)
        if dtype != "bool":
            for name, shape in zip(SUMS, (window.shape, window.out_shape), strict=True):
                x = numbers(rng, shape, "int8").astype(dtype) if dtype[0] in "iu" else rng.standard_normal(shape)
                check(name, x.astype(dtype), window)


def test_float32_sums_lose_nothing():
    """1e8 + 1 - 1e8, and a long sum to the last bit or two."""
    x = onp.array([1e8, 1, -1e8, 3], onp.float32)
    got = kernels.window_sum(DEVICE.put(x), window=Geometry((Axis(4, 4),)))
    assert float(onp.asarray(got)[0]) == 4
    x = onp.random.default_rng(0).standard_normal(4000).astype(onp.float32) + 1000
    got = kernels.window_sum(DEVICE.put(x), window=Geometry((Axis(4000, 4000),)))
    onp.testing.assert_allclose(onp.asarray(got), [x.astype(float).sum()], rtol=1e-7)


@pytest.mark.parametrize("layout", ["step", "reverse", "fortran"])
def test_strided_operands(layout):
    """Copied first: one launch more."""
    window = Geometry((Axis(4, 2), Axis(6, 3, 1, 1, 1), Axis(3)))
    check_all(onp.random.default_rng(5), window, put=lambda x: put_strided(x, layout)._value, launches=2)


def test_empty():
    rng = onp.random.default_rng(6)
    for axes in ((Axis(0, 2, 1, 1, 1),), (Axis(3, 4),), (Axis(0), Axis(3, 2)), (Axis(2), Axis(0, 1, 1, 2, 2))):
        check_all(rng, Geometry(axes))
