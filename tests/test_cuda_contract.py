"""Matrix products on the emulated CUDA device against the CPU's, and cuBLAS's calls against a stand-in for it."""

import ctypes
import itertools
import types

import numpy as onp
import pytest
from cuda_emulated import DEVICE

from numbagrad.kernels.cpu import contract as cpu
from numbagrad.kernels.cuda import contract, cublas, gemm
from numbagrad.kernels.cuda.devices import find
from numbagrad.kernels.cuda.emulated_device import EmulatedDevice
from numbagrad.testing import tolerance

pytestmark = pytest.mark.slow  # the table's values are the quick check of these kernels

DTYPES = ("float32", "float64", "complex64", "complex128", "int32", "int64", "int8", "uint8", "bool")
device = find(DEVICE)
MATRICES = dict(contract=((1,), (0,)), batch=((), ()))


def group(dtypes):
    return [pytest.param(d, marks=pytest.mark.xdist_group(f"cuda_dot_{d}")) for d in dtypes]


def numbers(dtype, *shape, seed=0):
    rng = onp.random.default_rng([seed, *shape])
    dtype = onp.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.3
    if dtype.kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    found = rng.standard_normal(shape)
    return (found + 1j * rng.standard_normal(shape) if dtype.kind == "c" else found).astype(dtype)


def product(x, y, on=device, **params):
    """The product on the device, and how many launches it took."""
    values = on.put(x), on.put(y)
    before = on.counts["launch"]
    out = contract.dot_general(*values, **params)
    return onp.asarray(out), on.counts["launch"] - before


def compare(got, x, y, **params):
    absorbs = params.pop("absorbs", ())
    if x.dtype.kind == y.dtype.kind == "b":
        want = cpu.dot_general(x.astype(int), y.astype(int), **params) > 0
    else:
        with onp.errstate(all="ignore"):
            want = onp.asarray(cpu.dot_general(x, y, absorbs=absorbs, **params))
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    depth = max(1, x.size // max(1, x.size and want.size))
    size = onp.abs(want[onp.isfinite(want)]).max(initial=1)
    limits = tolerance(want.dtype, 1)
    onp.testing.assert_allclose(got, want, limits["rtol"], limits["atol"] * max(size, depth**0.5))


def tiled(monkeypatch, tile):
    """Products by one tile, whatever their size."""
    monkeypatch.setattr(contract, "TILES", dict.fromkeys(gemm.TILES, (tile,)))
    monkeypatch.setattr(contract, "FEW", 0)
    contract._plan.cache_clear()


@pytest.fixture(autouse=True)
def fresh_plans():
    contract._plan.cache_clear()
    yield
    contract._plan.cache_clear()


# --- sizes and types

SIZES = (
    (9, 8, 1), (32, 32, 16), (33, 31, 17), (1, 70, 33), (65, 1, 40), (1, 1, 300), (5, 3, 4), (40, 20, 100),
)  # fmt: skip


@pytest.mark.parametrize("dtype", group(DTYPES))
def test_every_type(dtype):
    for m, n, k in SIZES:
        x, y = numbers(dtype, m, k), numbers(dtype, k, n, seed=1)
        got, launches = product(x, y, **MATRICES)
        assert launches == 1
        compare(got, x, y, **MATRICES)


@pytest.mark.parametrize("dtype", group(["float32", "complex128"]))
@pytest.mark.parametrize("k", [0, 1, 7, 8, 9, 15, 16, 17, 31, 33])
def test_every_depth(dtype, k):
    for m, n in ((20, 33), (1, 3), (1, 1)):
        x, y = numbers(dtype, m, k), numbers(dtype, k, n, seed=1)
        compare(product(x, y, **MATRICES)[0], x, y, **MATRICES)


def test_empty():
    for m, n, k in ((0, 3, 4), (3, 0, 4), (0, 0, 0)):
        got, launches = product(numbers("float32", m, k), numbers("float32", k, n), **MATRICES)
        assert got.shape == (m, n)
        assert launches == 0


@pytest.mark.parametrize("dtype", group(["float32", "float64", "complex64", "int32", "bool"]))
def test_every_tile(dtype, monkeypatch):
    acc = gemm.accumulator(onp.dtype(dtype))
    for tile in gemm.TILES[acc.itemsize]:
        tiled(monkeypatch, tile)
        for m, n, k in ((tile.rows + 1, tile.columns + 3, 2 * tile.depth + 1), (3, 4, tile.depth)):
            x, y = numbers(dtype, m, k), numbers(dtype, k, n, seed=1)
            compare(product(x, y, **MATRICES)[0], x, y, **MATRICES)


def test_mixed_types():
    for one, two in (("int32", "float64"), ("float32", "complex64"), ("bool", "int32")):
        x, y = numbers(one, 20, 11), numbers(two, 11, 9, seed=1)
        compare(product(x, y, **MATRICES)[0], x, y, **MATRICES)


def test_every_truth_counts():
    """256 truths wrap around in a byte."""
    for n in (1, 20):
        got, _ = product(onp.ones((30, 256), bool), onp.ones((256, n), bool), **MATRICES)
        assert got.all()


# --- how operands lie

LAYOUTS = ("plain", "transposed", "step", "reverse", "broadcast", "offset")


def laid(x, layout):
    """The same numbers on the device, lying as the layout says."""
    if layout == "plain":
        return device.put(x)
    if layout == "transposed":
        value = device.put(onp.ascontiguousarray(x.T))
        return value.view(x.shape, value.strides[::-1])
    if layout == "step":
        value = device.put(onp.repeat(x, 2, -1))
        return value.view(x.shape, (*value.strides[:-1], 2 * x.itemsize))
    if layout == "reverse":
        value = device.put(onp.ascontiguousarray(x[::-1]))
        return value.view(x.shape, (-value.strides[0], value.strides[1]), value.strides[0] * (len(x) - 1))
    value = device.put(onp.concatenate([x[:1], x]))
    return value.view(x.shape, value.strides, value.strides[0])


@pytest.mark.parametrize("layouts", list(itertools.product(LAYOUTS, LAYOUTS)))
def test_every_layout(layouts):
    for m, n, k in ((17, 40, 35), (1, 40, 33), (40, 1, 33)):
        x, y = numbers("float32", m, k), numbers("float32", k, n, seed=1)
        if layouts[0] == "broadcast":
            x = onp.repeat(x[:1], m, 0)
        if layouts[1] == "broadcast":
            y = onp.repeat(y[:1], k, 0)
        values = [
            device.put(v[:1]).view(v.shape, (0, v.itemsize)) if how == "broadcast" else laid(v, how)
            for v, how in zip((x, y), layouts, strict=True)
        ]
        before = device.counts["launch"]
        got = contract.dot_general(*values, **MATRICES)
        copies = sum(how == "reverse" and v.shape[0] > 1 for v, how in zip((x, y), layouts, strict=True))
        assert device.counts["launch"] - before == 1 + copies
        compare(onp.asarray(got), x, y, **MATRICES)


AXES = [  # shapes, contracted axes, batch axes, launches
    ((3, 4, 5), (5, 6), ((2,), (0,)), ((), ()), 1),
    ((3, 9, 5), (3, 5, 8), ((2,), (1,)), ((0,), (0,)), 1),
    ((9, 3, 5), (5, 8, 3), ((2,), (0,)), ((1,), (2,)), 1),
    ((2, 12, 3, 8), (2, 11, 3, 8), ((3,), (3,)), ((0, 2), (0, 2)), 1),  # attention, heads in the middle
    ((2, 3, 4, 5), (4, 5, 6), ((2, 3), (0, 1)), ((), ()), 1),
    ((2, 3, 4, 5), (5, 4, 6), ((2, 3), (1, 0)), ((), ()), 2),
    ((4, 3, 5), (3, 4, 6), ((1,), (0,)), ((0,), (1,)), 1),
    ((2, 7, 3, 7), (5, 7), ((1,), (1,)), ((), ()), 2),  # the free axes of x do not lie as one
    ((2, 3, 4, 2, 9), (4, 2, 3, 2, 9), ((4,), (4,)), ((0, 1, 2, 3), (1, 2, 0, 3)), 2),
    ((6,), (6,), ((0,), (0,)), ((), ()), 1),
    ((6,), (7,), ((), ()), ((), ()), 1),
    ((6, 2), (6, 2), ((1,), (1,)), ((0,), (0,)), 1),
    ((5, 4), (5, 4), ((), ()), ((0, 1), (0, 1)), 1),
    ((), (3,), ((), ()), ((), ()), 1),
    ((1, 300, 1), (300, 1), ((1,), (0,)), ((), ()), 1),
]


@pytest.mark.parametrize("case", AXES, ids=str)
def test_axes(case):
    x_shape, y_shape, contracted, batch, launches = case
    for dtype in ("float64", "float32"):
        x, y = numbers(dtype, *x_shape), numbers(dtype, *y_shape, seed=1)
        params = dict(contract=contracted, batch=batch)
        got, found = product(x, y, **params)
        compare(got, x, y, **params)
        assert found == launches


# --- a long depth in pieces


@pytest.mark.parametrize("dtype", group(["float32", "complex128", "int8", "bool", "uint8"]))
def test_pieces(dtype, monkeypatch):
    monkeypatch.setattr(contract, "SHORTEST", 32)
    for m, n, k in ((20, 33, 100), (8, 9, 1500)):
        x, y = numbers(dtype, m, k), numbers(dtype, k, n, seed=1)
        got, launches = product(x, y, **MATRICES)
        assert launches == 2
        compare(got, x, y, **MATRICES)


@pytest.mark.parametrize("dtype", group(["float32", "complex64", "int32"]))
def test_pieces_of_dots(dtype):
    for m, n, k, transposed in ((1, 1, 20001, False), (3, 1, 17001, False), (1, 70, 400, False), (1, 7, 17000, True)):
        x, y = numbers(dtype, m, k), numbers(dtype, k, n, seed=1)
        value = laid(y, "transposed" if transposed else "plain")
        before = device.counts["launch"]
        got = contract.dot_general(device.put(x), value, **MATRICES)
        assert device.counts["launch"] - before == 2
        compare(onp.asarray(got), x, y, **MATRICES)


def test_sums_are_accurate():
    """A long product of float32 is as good as short sums: no chain of additions is long."""
    x = numbers("float32", 1, 60000)
    y = numbers("float32", 60000, 1, seed=1)
    want = x.astype(float) @ y.astype(float)
    got, _ = product(x, y, **MATRICES)
    assert abs(got - want) < 2e-7 * onp.sqrt(x.astype(float) ** 2 @ y.astype(float) ** 2) * 4


def test_the_plan_follows_from_sizes():
    """Tiles are large where there are many; thin and tiny products are sums."""
    single = onp.dtype(onp.float32)

    def chosen(m, n, k, batch=1):
        shapes = (batch, m, k), (batch, k, n)
        strides = [tuple(4 * s for s in (a * b, b, 1)) for _, a, b in shapes]
        plan = contract._plan(
            single, shapes[0], strides[0], single, shapes[1], strides[1], ((2,), (1,)), ((0,), (0,)), ()
        )
        return plan.kernel.name, plan.grid, plan.last is not None

    assert chosen(4096, 4096, 4096) == ("gemm_128x128_f32", 1024, False)
    assert chosen(1024, 1024, 1024) == ("gemm_128x128_f32", 64 * 4, True)
    assert chosen(256, 256, 256)[0] == "gemm_32x32_f32"
    assert chosen(64, 64, 64, 1000) == ("gemm_64x64_f32", 1000, False)
    assert chosen(33, 33, 1 << 20) == ("gemm_32x32_f32", 4 * 128, True)
    assert chosen(4, 4, 4, 1 << 20)[0] == "dots_1_f32"
    assert chosen(4096, 1, 4096) == ("dots_32_f32", (512, 2), True)
    assert chosen(1, 4096, 4096)[0] == "dots_1_f32"
    assert chosen(1, 1, 1 << 26) == ("dots_256_f32", (1, 1024), True)
    assert chosen(70000, 70000, 16)[0] == "gemm_128x128_f32_large"
    assert chosen(40, 40, 40, 200000)[1] == 200000 * 4  # no axis of the grid but the first has a batch


@pytest.mark.parametrize("count", [1, 32])
def test_large_indices(count, monkeypatch):
    """The same kernels with 64-bit indices."""
    monkeypatch.setattr(contract, "index_type", lambda *sizes: "int64")
    monkeypatch.setattr(contract, "SHORTEST", 16)
    for m, n, k in ((20, 33, 40), (1, 1, 20001), (1, 40, 9)):
        x, y = numbers("float32", m, k), numbers("float32", k, n, seed=1)
        compare(product(x, y, **MATRICES)[0], x, y, **MATRICES)


# --- absorbing zeros


@pytest.mark.parametrize("dtype", group(["float32", "float64", "complex64", "complex128"]))
@pytest.mark.parametrize("absorbs", [(), (0,), (1,), (0, 1)])
def test_absorbing_zeros(dtype, absorbs, monkeypatch):
    for m, n, k, shortest in (
        (20, 33, 18, 256),
        (20, 33, 100, 32),
        (1, 40, 30, 256),
        (40, 1, 30, 256),
        (1, 1, 17000, 256),
    ):
        monkeypatch.setattr(contract, "SHORTEST", shortest)
        contract._plan.cache_clear()
        x, y = numbers(dtype, m, k), numbers(dtype, k, n, seed=1)
        x[:, 2], y[3 % k, :] = 0, 0
        x[m // 2, 3], y[2, n // 2] = onp.inf, onp.nan
        x[0, 5], y[5, 0] = onp.inf, 1
        y[7, -1] = onp.inf
        x[1 if m > 1 else 0, 7] = 0
        expected = 2 if shortest == 32 or k == 17000 else 1
        got, launches = product(x, y, absorbs=absorbs, **MATRICES)
        assert launches == expected
        with onp.errstate(all="ignore"):
            terms = x[:, :, None] * y[None]
            if 0 in absorbs:
                terms = onp.where(x[:, :, None] == 0, 0, terms)
            if 1 in absorbs:
                terms = onp.where(y[None] == 0, 0, terms)
            want = terms.sum(1)
        finite = onp.isfinite(want)
        onp.testing.assert_array_equal(onp.isfinite(got), finite)
        onp.testing.assert_allclose(got[finite], want[finite], 1e-3 if want.dtype.itemsize < 8 else 1e-4)
        if absorbs and onp.dtype(dtype).kind == "f":
            onp.testing.assert_array_equal(onp.isnan(got), onp.isnan(want))


@pytest.mark.parametrize("absorbs", [(0,), (1,), (0, 1)])
def test_absorbing_zeros_like_the_cpu(absorbs):
    """Where all that is not finite meets zeros, which is what the rule is for."""
    x, y = numbers("float64", 20, 18), numbers("float64", 18, 33, seed=1)
    if 0 in absorbs:
        x[:, 2], y[2, 5], y[2, 6] = 0, onp.inf, onp.nan
    if 1 in absorbs:
        y[3], x[4, 3], x[5, 3] = 0, onp.inf, onp.nan
    got, _ = product(x, y, absorbs=absorbs, **MATRICES)
    assert onp.isfinite(got).all()
    compare(got, x, y, absorbs=absorbs, **MATRICES)


# --- cuBLAS


class FakeCublas:
    """Does what the functions of nvmath.bindings.cublas do, on memory of this process."""

    def __init__(self):
        self.calls = []

    def create(self):
        return 77

    def set_stream(self, handle, stream):
        assert (handle, stream) == (77, 5)

    def gemm_ex(self, handle, transa, transb, m, n, k, alpha, a, atype, lda, b, btype, ldb, beta, c, ctype, ldc, *how):
        one = [a, atype, lda, 0], [b, btype, ldb, 0], [c, ctype, ldc, 0]
        self._run("gemm_ex", handle, transa, transb, m, n, k, alpha, beta, *one, 1, *how)

    def gemm_strided_batched_ex(
        self, handle, transa, transb, m, n, k, alpha, a, atype, lda, stride_a, b, btype, ldb, stride_b,
        beta, c, ctype, ldc, stride_c, batch_count, compute_type, algo,
    ):  # fmt: skip
        one = [a, atype, lda, stride_a], [b, btype, ldb, stride_b], [c, ctype, ldc, stride_c]
        self._run("batched", handle, transa, transb, m, n, k, alpha, beta, *one, batch_count, compute_type, algo)

    def _run(self, name, handle, transa, transb, m, n, k, alpha, beta, a, b, c, count, compute, algo):
        self.calls.append((name, compute))
        assert handle == 77
        assert algo == -1
        dtype = onp.dtype({0: "f4", 1: "f8", 4: "c8", 5: "c16"}[a[1]])
        assert compute in {"f4": (68, 77), "c8": (68,), "f8": (70,), "c16": (70,)}[dtype.str[1:]]
        assert self._matrix(alpha, dtype, 1, 1, 1) == 1
        assert self._matrix(beta, dtype, 1, 1, 1) == 0
        for j in range(count):
            shapes = [(m, k), (k, m)], [(k, n), (n, k)]
            at = [v[0] + j * v[3] * dtype.itemsize for v in (a, b, c)]
            left = self._matrix(at[0], dtype, a[2], *shapes[0][transa])
            right = self._matrix(at[1], dtype, b[2], *shapes[1][transb])
            found = (left.T if transa else left) @ (right.T if transb else right)
            self._matrix(at[2], dtype, c[2], m, n)[...] = found

    @staticmethod
    def _matrix(address, dtype, leading, rows, columns):
        """A matrix whose columns are `leading` elements apart."""
        assert leading >= max(1, rows)
        count = (columns - 1) * leading + rows
        flat = onp.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(address), dtype)
        flat = flat.view()
        return onp.lib.stride_tricks.as_strided(flat, (rows, columns), (dtype.itemsize, leading * dtype.itemsize))


@pytest.fixture
def library(monkeypatch):
    """A device of its own with a stream, and the stand-in."""
    fake = FakeCublas()
    monkeypatch.setattr(cublas, "bindings", lambda: fake)
    own = EmulatedDevice()
    own.stream = types.SimpleNamespace(handle=5)
    return fake, own


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_cublas(dtype, library):
    fake, own = library
    for x_shape, y_shape, contracted, batch, calls in (
        ((20, 11), (11, 30), ((1,), (0,)), ((), ()), 1),
        ((11, 20), (30, 11), ((0,), (1,)), ((), ()), 1),
        ((20, 1), (1, 30), ((1,), (0,)), ((), ()), 1),
        ((1, 20), (30, 1), ((0,), (1,)), ((), ()), 1),
        ((7, 20, 11), (7, 11, 30), ((2,), (1,)), ((0,), (0,)), 1),
        ((20, 7, 11), (11, 7, 30), ((2,), (0,)), ((1,), (1,)), 1),
        ((2, 12, 3, 8), (2, 11, 3, 8), ((3,), (3,)), ((0, 2), (0, 2)), 2),
        ((5, 12, 3, 8), (5, 11, 3, 8), ((3,), (3,)), ((0, 2), (0, 2)), 3),
    ):
        x, y = numbers(dtype, *x_shape), numbers(dtype, *y_shape, seed=1)
        params = dict(contract=contracted, batch=batch)
        fake.calls.clear()
        got, launches = product(x, y, own, **params)
        compare(got, x, y, **params)
        assert (len(fake.calls), launches) == (calls, 0)


def test_cublas_is_for_what_it_can_read(library):
    fake, own = library
    x, y = numbers("float32", 20, 11), numbers("float32", 11, 30, seed=1)
    wide = own.put(onp.repeat(x, 2, -1))
    stepped = wide.view(x.shape, (wide.strides[0], 2 * x.itemsize))
    constant = own.put(x[:1]).view(x.shape, (0, 4))
    for value, want in ((stepped, x), (constant, onp.repeat(x[:1], 20, 0))):
        got = contract.dot_general(value, own.put(y), **MATRICES)
        onp.testing.assert_allclose(onp.asarray(got), want @ y, 1e-4, 1e-5)
    product(numbers("int32", 20, 11), numbers("int32", 11, 30), own, **MATRICES)
    product(numbers("float32", 1, 11), numbers("float32", 11, 30), own, **MATRICES)
    assert not fake.calls
    part = own.put(onp.concatenate([x, x], 1)).view(x.shape, (88, 4))  # a part of longer rows
    onp.testing.assert_allclose(onp.asarray(contract.dot_general(part, own.put(y), **MATRICES)), x @ y, 1e-4, 1e-5)
    assert fake.calls == [("gemm_ex", cublas.COMPUTE_32F)]


def test_tensor_cores_are_asked_for(library, monkeypatch):
    fake, own = library
    monkeypatch.setattr("numbagrad.config.TF32", True)
    for dtype, compute in (("float32", 77), ("float64", 70), ("complex64", 68)):
        product(numbers(dtype, 20, 11), numbers(dtype, 11, 30), own, **MATRICES)
        assert fake.calls.pop() == ("gemm_ex", compute)


def test_zeros_absorb_after_cublas(library):
    fake, own = library
    x, y = numbers("float32", 20, 11), numbers("float32", 11, 30, seed=1)
    x[:, 2], y[2, 4], y[2, 5] = 0, onp.inf, onp.nan
    got, launches = product(x, y, own, absorbs=(0,), **MATRICES)
    assert (len(fake.calls), launches) == (1, 1)
    compare(got, x, y, absorbs=(0,), **MATRICES)


def test_without_the_library(monkeypatch):
    """The bindings without cuBLAS itself: the own kernels."""

    def create():
        raise RuntimeError("cublas is not found")

    monkeypatch.setattr(cublas, "bindings", lambda: types.SimpleNamespace(create=create))
    own = EmulatedDevice()
    own.stream = types.SimpleNamespace(handle=5)
    x, y = numbers("float32", 20, 11), numbers("float32", 11, 30, seed=1)
    got, launches = product(x, y, own, **MATRICES)
    compare(got, x, y, **MATRICES)
    assert launches == 1
