"""Reductions, softmax and its family on the emulated CUDA device against the CPU's kernels."""

import math
import warnings

import numpy as onp
import pytest
from cuda_emulated import DEVICE

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad.kernels.cpu import composite as cpu_composite
from numbagrad.kernels.cpu import reduce as cpu
from numbagrad.kernels.cpu import rows as cpu_rows
from numbagrad.kernels.cuda import composite, reduce, rows
from numbagrad.kernels.cuda.devices import find
from numbagrad.kernels.cuda.reduce_text import exchange

pytestmark = pytest.mark.slow  # the table's values are the quick check of these kernels

REDUCTIONS = ("sum", "prod", "max", "min", "any", "all")
DTYPES = ("float32", "float64", "complex64", "int8", "uint32", "int64", "bool")
SLOW_DTYPES = ("complex128", "uint16", "int32", "uint64")
F32 = onp.float32


@pytest.fixture(autouse=True)
def fresh_plans():
    """Plans depend on constants that tests change."""
    reduce._plans.clear()
    rows._plans.clear()
    yield
    reduce._plans.clear()
    rows._plans.clear()


def numbers(shape, dtype, seed=0):
    rng = onp.random.default_rng(seed)
    dtype = onp.dtype(dtype)
    if dtype.kind == "b":
        return onp.asarray(rng.random(shape) < 0.9)
    if dtype.kind in "iu":
        return onp.asarray(rng.integers(max(-9, onp.iinfo(dtype).min), 10, shape), dtype)
    x = onp.asarray(rng.standard_normal(shape))
    return onp.asarray(x + 1j * rng.standard_normal(shape) if dtype.kind == "c" else x, dtype)


def launched(function, *args, **params):
    """The result on the host, and how many launches it took."""
    device = find(DEVICE)
    before = device.launches
    out = function(*args, **params)
    count = device.launches - before
    return onp.asarray(out), count


def close(got, want, scale=1.0, **more):
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    single = want.dtype in (onp.float32, onp.complex64)
    if want.dtype.kind in "fc":
        limit = (2e-6 if single else 1e-13) * scale
        onp.testing.assert_allclose(got, want, **{"rtol": limit, "atol": limit, **more})
    else:
        onp.testing.assert_array_equal(got, want)


def compare(name, x, launches=1, **params):
    with onp.errstate(all="ignore"):
        want = getattr(cpu, name)(x, **params)
    got, count = launched(getattr(reduce, name), find(DEVICE).put(x), **params)
    close(got, want, atol=2e-6 * max(1, onp.max(onp.abs(want), initial=0)) if want.dtype.itemsize < 8 else 1e-12)
    assert count == launches


def names_of(dtype):
    more = () if onp.dtype(dtype).kind == "c" else ("argmax", "argmin")
    return [f"reduce_{n}" for n in REDUCTIONS if more or n not in ("max", "min")] + list(more)


def every(x, axes, launches=1):
    for name in names_of(x.dtype):
        if name.startswith("reduce"):
            compare(name, x / 4 if name == "reduce_prod" and x.dtype.kind in "fc" else x, launches, axes=axes)
        elif len(axes) == 1:
            compare(name, x, launches, axis=axes[0])


def marked(quick, slow):
    return [*quick, *(pytest.param(d, marks=pytest.mark.slow) for d in slow)]


@pytest.mark.parametrize("dtype", marked(DTYPES, SLOW_DTYPES))
def test_rows_and_columns(dtype):
    """Every operation in one launch, a type's two kernels at several shapes."""
    for shape, axes in (((70, 37), (1,)), ((37, 7), (0,)), ((3, 300, 2), (1,))):
        every(numbers(shape, dtype), axes)


LENGTHS = (1, 2, 7, 8, 9, 31, 32, 33, 255, 256, 257, 1023, 1025, 4099)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_lengths(dtype):
    for n in LENGTHS:
        x = numbers((3, n), dtype, n)
        for name in ("reduce_sum", "reduce_max"):
            compare(name, x, axes=(1,))
            compare(name, onp.ascontiguousarray(x[:, :300].T), axes=(0,))
        compare("argmax", x, axis=1)
        compare("argmin", onp.ascontiguousarray(x[:, :300].T), axis=0)


@pytest.mark.parametrize(
    ("shape", "axes", "launches"),
    [
        ((), (), 1),
        ((1,), (0,), 1),
        ((1, 1), (0,), 1),
        ((5, 1, 3), (1,), 1),
        ((5, 1, 3), (), 1),
        ((1, 40, 1), (0, 1, 2), 1),
        ((2, 3, 4, 5), (2, 3), 1),
        ((2, 3, 4, 5), (0, 1), 1),
        ((2, 3, 4, 5), (1, 2), 1),
        ((2, 3, 4, 5), (0, 3), 2),
        ((4, 3, 5, 2, 6), (0, 2, 4), 3),
        ((4, 3, 5, 2, 6), (1, 3), 2),
        ((0, 3), (0,), 1),
        ((3, 0), (1,), 1),
        ((3, 0), (0,), 0),
        ((0,), (0,), 1),
        ((2, 0, 7, 7), (1, 3), 1),
        ((2, 7, 3, 0), (1, 3), 1),
        ((0, 2, 0, 3, 4), (0, 2, 4), 1),
        ((2, 0, 7, 0), (1, 2), 0),
    ],
)
def test_axes(shape, axes, launches):
    for name in ("reduce_sum", "reduce_prod", "reduce_all"):
        for dtype in ("float32", "complex64", "int64"):
            compare(name, numbers(shape, dtype), launches, axes=axes)


def test_empty_axes_apart():
    """What lies between two reduced axes has no elements, and the result has."""
    x = ng.device_put(onp.zeros((2, 0, 7, 7), "float32"), DEVICE)
    for axes in ((1, 3), (1, 2), (0, 1), (0, 1, 3)):
        with onp.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            want = [onp.sum(onp.asarray(x), axes), onp.mean(onp.asarray(x), axes)]
        got = [np.sum(x, axes), np.mean(x, axes)]
        for g, w in zip(got, want, strict=True):
            onp.testing.assert_array_equal(onp.asarray(g), w)
        assert onp.isneginf(onp.asarray(np.logsumexp(x, axes))).all()
        assert onp.isnan(onp.asarray(np.std(x, axes))).all()
    g = ng.grad(lambda b: np.sum(x * b))(ng.device_put(onp.ones((2, 1, 7, 1), "float32"), DEVICE))
    onp.testing.assert_array_equal(onp.asarray(g), onp.zeros((2, 1, 7, 1)))


@pytest.mark.parametrize("columns", [False, True])
def test_few_and_long_ones_take_large_blocks(columns):
    x = numbers((2, 5000), "float32") if not columns else numbers((700, 40), "float32")
    axis = 0 if columns else 1
    for name in ("reduce_sum", "reduce_min"):
        compare(name, x, axes=(axis,))
    compare("argmax", x, axis=axis)


def cut_everything(monkeypatch):
    for name, value in dict(BLOCKS=40, LONG_ROW=64, ROW_PIECE=60, LONG_COLUMN=1, COLUMN_PIECE=1, FEW=0).items():
        monkeypatch.setattr(reduce, name, value)


@pytest.mark.parametrize("dtype", marked(["float32", "float64", "complex64"], ["complex128", "int8", "uint64", "bool"]))
def test_long_ones_are_cut(monkeypatch, dtype):
    """Into pieces, whose states a second launch reduces."""
    cut_everything(monkeypatch)
    for shape, axes in (((3, 777), (1,)), ((777, 3), (0,)), ((2, 520, 2), (1,))):
        x = numbers(shape, dtype)
        for name in names_of(dtype):
            y = x / 4 if name == "reduce_prod" and x.dtype.kind in "fc" else x
            how = {"axes": axes} if name.startswith("reduce") else {"axis": axes[0]}
            with onp.errstate(all="ignore"):
                want = getattr(cpu, name)(y, **how)
            got, count = launched(getattr(reduce, name), find(DEVICE).put(y), **how)
            close(got, want, atol=1e-4 if want.dtype.itemsize < 8 or want.dtype == onp.complex64 else 1e-11)
            assert count == 2


def test_large_sizes(monkeypatch):
    """The kernels with 64-bit indices."""
    monkeypatch.setattr(reduce, "index_type", lambda *sizes: "int64")
    monkeypatch.setattr(rows, "index_type", lambda *sizes: "int64")
    x = numbers((5, 261), "float32")
    for axes in ((0,), (1,)):
        compare("reduce_sum", x, axes=axes)
        compare("argmax", x, axis=axes[0])
    check_rows("softmax", (x,), 1)
    monkeypatch.setattr(rows, "_slots", lambda *_: 0)
    rows._plans.clear()
    check_rows("log_softmax", (x,), 2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nan_infinities_and_ties(dtype):
    rng = onp.random.default_rng(1)
    values = onp.array([onp.nan, onp.inf, -onp.inf, 0.0, 1.0, 1.0, 1.0], dtype)
    x = rng.choice(values, (60, 45), p=[0.01, 0.02, 0.02, 0.35, 0.2, 0.2, 0.2])
    x[0], x[1], x[2], x[3, :] = -onp.inf, onp.inf, onp.nan, 2.0
    for y, axis in ((x, 1), (onp.ascontiguousarray(x.T), 0)):
        for name in ("reduce_max", "reduce_min", "reduce_any", "reduce_all", "reduce_sum"):
            compare(name, y, axes=(axis,))
        compare("argmax", y, axis=axis)
        compare("argmin", y, axis=axis)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_extreme_integers(dtype):
    low, high = onp.iinfo(dtype).min, onp.iinfo(dtype).max
    for row in ([low] * 40, [high] * 40, [low, high] * 20, [high - 1, high, low + 1] * 13):
        x = onp.array([row, row[::-1]], dtype)
        for name in ("reduce_max", "reduce_min"):
            compare(name, x, axes=(1,))
        compare("argmax", x, axis=1)
        compare("argmin", x, axis=1)


@pytest.mark.parametrize(
    ("source", "target"),
    [("int8", "int64"), ("uint8", "uint64"), ("bool", "int64"), ("int32", "float32"), ("int64", "int32"),
     ("int16", "float64"), ("float32", "float64"), ("float64", "float32"), ("complex64", "complex128")],
)  # fmt: skip
def test_other_results(source, target):
    x = numbers((6, 77), source)
    for axes in ((0,), (1,)):
        compare("reduce_sum", x, axes=axes, dtype=onp.dtype(target))
        compare("reduce_prod", x[:2, :2], 1, axes=axes, dtype=onp.dtype(target))


def test_layouts():
    """What lies in memory in one run in any order of axes is read as it lies; the rest is copied first."""
    x = numbers((6, 10, 7), "float32")
    device = find(DEVICE)
    for order in ((2, 0, 1), (0, 2, 1), (2, 1, 0), (1, 0, 2)):
        base = device.put(x)
        moved = base.view(tuple(x.shape[k] for k in order), tuple(base.strides[k] for k in order))
        for axes in ((0,), (1,), (2,), (0, 2)):
            got, count = launched(reduce.reduce_sum, moved, axes=axes)
            close(got, cpu.reduce_sum(x.transpose(order), axes=axes))
            assert count <= 2
        got, count = launched(reduce.argmax, moved, axis=1)
        close(got, cpu.argmax(x.transpose(order), axis=1))
        assert count == 1
    base = device.put(x)
    for view, same in (
        (base.view((6, 5, 7), (base.strides[0], 2 * base.strides[1], base.strides[2])), x[:, ::2]),
        (base.view((6, 10, 7), (-base.strides[0], *base.strides[1:]), 5 * base.strides[0]), x[::-1]),
        (base.view((4, 6, 10, 7), (0, *base.strides)), onp.broadcast_to(x, (4, 6, 10, 7))),
    ):
        for axes in ((0,), (1,), (0, 1)):
            got, count = launched(reduce.reduce_sum, view, axes=axes)
            close(got, cpu.reduce_sum(same, axes=axes))
            assert count == 2


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "complex64"])
def test_a_result_does_not_depend_on_the_address(dtype):
    device = find(DEVICE)
    x = numbers((5 * 301 + 3,), dtype)
    base = device.put(x)
    for offset in range(4):
        view = base.view((5, 301), None, offset * x.itemsize)
        part = device.put(x[offset : offset + 5 * 301].reshape(5, 301))
        onp.testing.assert_array_equal(
            onp.asarray(reduce.reduce_sum(view, axes=(1,))), onp.asarray(reduce.reduce_sum(part, axes=(1,)))
        )


def test_sums_of_float32_are_as_good_as_those_of_float64(monkeypatch):
    x = numbers((3, 4000), "float32", 5) * 10.0 ** numbers((3, 4000), "float32", 6)
    x = x.astype(F32)
    x[:, ::2] = -x[:, 1::2] * F32(1.0000001)  # most of it cancels
    exact = onp.array([math.fsum(row.tolist()) for row in x])
    for cut in (False, True):
        if cut:
            cut_everything(monkeypatch)
            reduce._plans.clear()
        got, _ = launched(reduce.reduce_sum, find(DEVICE).put(x), axes=(1,))
        onp.testing.assert_allclose(got, exact, rtol=1e-6)


def test_products_of_float32_have_the_range_of_float64():
    x = onp.array([[1e30, 1e30, 1e-30, 1e-30], [1e-30, 1e-30, 1e30, 1e30]], F32)
    got, _ = launched(reduce.reduce_prod, find(DEVICE).put(x), axes=(1,))
    onp.testing.assert_allclose(got, [1, 1], rtol=1e-6)


def test_reduce_rows():
    x = numbers((4, 100), "float32")
    got, count = launched(reduce.reduce_rows, cpu.SUM, find(DEVICE).put(x))
    close(got, cpu.reduce_rows(cpu.SUM, x, x.dtype))
    assert count == 1


def test_complex_views_are_not_copied():
    x = numbers((8, 6), "complex64")
    base = find(DEVICE).put(x)
    got, count = launched(reduce.reduce_sum, base.view((6, 8), base.strides[::-1]), axes=(1,))
    close(got, cpu.reduce_sum(x, axes=(0,)))
    assert count == 1


def power_of_two(n):
    return n & (n - 1) == 0


@pytest.mark.parametrize("n", [1, 5, 31, 1000, 4097, 32769, 10**6, 2**31 - 1, 2**33])
@pytest.mark.parametrize("rows_", [1, 3, 255, 1000, 10**5, 2**31 - 1])
def test_shapes_of_launches(rows_, n):
    """Every element in one piece, within the limits of a grid, and enough blocks for a large array."""
    lanes, pieces, size = reduce.rows_shape(rows_, n, 8)
    assert power_of_two(lanes) and 1 <= lanes <= 1024
    assert (pieces - 1) * size < n <= pieces * size
    assert pieces <= 2 * reduce.BLOCKS
    assert pieces == 1 or rows_shape_is_final(rows_, pieces)
    if rows_ * n > 1 << 26:
        assert rows_ * pieces * lanes >= 1 << 17
    for inner in (2, 3, 32, 33, 1000):
        across, lanes, pieces, size = reduce.columns_shape(rows_ * inner, n, inner, 32)
        assert power_of_two(lanes) and power_of_two(across) and across * lanes in (256, 1024)
        assert (pieces - 1) * size < n <= pieces * size
        assert pieces <= 4096
        if rows_ * inner * n > 1 << 26 and n > 64:
            assert min(across, rows_ * inner) * -(-rows_ * inner // across) * lanes * pieces >= 1 << 15


def rows_shape_is_final(rows_, pieces):
    return reduce.rows_shape(rows_, pieces, 4)[1] == 1


def test_exchanges_of_unsigned_numbers_go_as_signed_ones():
    assert exchange("down", "uint64", "o0", "s0", "d") == "o0 = uint64(cuda.shfl_down_sync(0xFFFFFFFF, int64(s0), d))"
    assert exchange("xor", "float32", "o0", "s0", "d") == "o0 = cuda.shfl_xor_sync(0xFFFFFFFF, s0, d)"


# ------------------------------------------------------------------------------------------------- rows

UNARY = ("softmax", "log_softmax")
BINARY = ("softmax_pull", "log_softmax_push", "log_softmax_pull")


def check_rows(name, operands, launches):
    with onp.errstate(all="ignore"):
        want = getattr(cpu_rows, name)(*operands)
    got, count = launched(getattr(rows, name), *[find(DEVICE).put(x) for x in operands])
    close(got, want)
    assert count == launches


def operands_of(name, shape, dtype):
    x = 3 * numbers(shape, dtype, 1)
    with onp.errstate(all="ignore"):
        if name in UNARY:
            if x.ndim == 2 and x.shape[0] >= 6 and x.shape[1] >= 5:
                x[0], x[1, 2], x[1, 4], x[2, 3] = -onp.inf, onp.inf, onp.inf, onp.nan
                x[3, 0], x[4, 1], x[4, 2], x[5] = -onp.inf, onp.inf, onp.nan, onp.inf
            return (x,)
        g = numbers(shape, dtype, 2)
        g[..., ::3] = 0
        y = cpu_rows.log_softmax(x) if name != "softmax_pull" else cpu_rows.softmax(x)
        if x.size > 3:
            y[..., 0] = onp.inf if name != "log_softmax_pull" else y[..., 0]  # against an exact 0 of g
            if name == "softmax_pull":
                y[..., 0] = 0.25
    return g, y


SHAPES = ((3,), (5, 1), (70, 5), (9, 33), (7, 129), (2, 3, 40), (1, 1025), (2, 2500))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", UNARY + BINARY)
def test_rows(name, dtype):
    for shape in SHAPES:
        check_rows(name, operands_of(name, shape, dtype), 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", UNARY + BINARY)
def test_long_rows(monkeypatch, name, dtype):
    """Reduced first, then written: by whole rows, and in pieces."""
    monkeypatch.setattr(rows, "_slots", lambda *_: 0)
    monkeypatch.setattr(rows, "PIECE", 1100)
    for shape in ((1,), (9, 33), (6, 1300), (1, 2200)):
        check_rows(name, operands_of(name, shape, dtype), 2)
    cut_everything(monkeypatch)
    rows._plans.clear()
    check_rows(name, operands_of(name, (2, 900), dtype), 3)


def test_rows_of_any_layout():
    x = numbers((12, 40), "float32")
    base = find(DEVICE).put(x)
    got, count = launched(rows.softmax, base.view((40, 12), base.strides[::-1]))
    close(got, cpu_rows.softmax(onp.ascontiguousarray(x.T)))
    assert count == 2
    assert launched(rows.softmax, find(DEVICE).put(onp.empty((0, 4), F32)))[1] == 0
    assert launched(rows.softmax, find(DEVICE).put(onp.empty((4, 0), F32)))[1] == 0


def test_log_softmax_close_to_zero():
    """log of a sum that is barely above 1 keeps its leading digits in float32."""
    x = onp.array([[0.0, -20.0, -25.0]], F32)
    exact = -onp.log1p(onp.exp(-20.0) + onp.exp(-25.0))
    got, _ = launched(rows.log_softmax, find(DEVICE).put(x))
    onp.testing.assert_allclose(got[0, 0], exact, rtol=1e-5)
    got, _ = launched(composite.logsumexp, find(DEVICE).put(x), axes=(1,))
    onp.testing.assert_allclose(got[0], -exact, rtol=1e-5)


# ------------------------------------------------------------------------------------------------- logsumexp


def check_logsumexp(x, axes, launches):
    with onp.errstate(all="ignore"):
        want = cpu_composite.logsumexp(x, axes=axes)
    got, count = launched(composite.logsumexp, find(DEVICE).put(x), axes=axes)
    close(got, want)
    assert count == launches


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logsumexp(monkeypatch, dtype):
    (x,) = operands_of("softmax", (9, 133), dtype)
    for y, axis in ((x, 1), (onp.ascontiguousarray(x.T), 0)):
        check_logsumexp(y, (axis,), 1)
    x = numbers((4, 3, 5, 6), dtype)
    for axes, launches in (((0, 1, 2, 3), 1), ((0, 2), 2), ((1, 3), 2), ((), 1), ((1, 2), 1)):
        check_logsumexp(x, axes, launches)
    check_logsumexp(onp.array([1e3, 1e3, -1e3], dtype), (0,), 1)
    check_logsumexp(onp.empty((3, 0), dtype), (1,), 1)
    check_logsumexp(onp.empty((3, 0), dtype), (0,), 0)
    cut_everything(monkeypatch)
    reduce._plans.clear()
    (x,) = operands_of("softmax", (7, 600), dtype)
    check_logsumexp(x, (1,), 2)
    check_logsumexp(onp.ascontiguousarray(x.T), (0,), 2)
