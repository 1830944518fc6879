"""Scans on the emulated CUDA device against the CPU's: lengths around every boundary, pieces, infinities, ties."""

import numpy as onp
import pytest
from cuda_emulated import DEVICE

from numbagrad.kernels.cpu import scan as cpu
from numbagrad.kernels.cuda import scan, scan_text
from numbagrad.kernels.cuda.devices import find
from numbagrad.testing import tolerance

pytestmark = pytest.mark.slow  # the table's values are the quick check of these kernels

device = find(DEVICE)
SUMS = ("cumsum", "cumprod", "linear_recurrence")
ORDERED = ("cummax", "cummin", "cummax_routed", "cummin_routed")
EXPONENTIALS = ("cumlogsumexp", "cumlogsumexp_weights")
NAMES = (*SUMS, *ORDERED, *EXPONENTIALS)


def group(names):
    return [pytest.param(n, marks=pytest.mark.xdist_group(f"cuda_scan_{n}")) for n in names]


def operands(name, dtype, shape, seed=0):
    """Numbers whose running results stay of order one."""
    rng = onp.random.default_rng([seed, *shape])
    dtype = onp.dtype(dtype)
    if dtype.kind in "biu":
        return [rng.integers(0, 2 if dtype.kind == "b" else 7, shape).astype(dtype) for _ in range(arity(name))]
    spread = rng.uniform(-0.22, 0.22, shape) - 0.1 * (name == "linear_recurrence")
    x = onp.exp(spread) * rng.choice([-1.0, 1.0], shape)
    if dtype.kind == "c":
        x = x * onp.exp(1j * rng.uniform(0, 6, shape))
    if name in ORDERED:
        x = rng.integers(-5, 5, shape)  # many ties
    if name in EXPONENTIALS:
        x = rng.normal(0, 3, shape)
    return [x.astype(dtype), (rng.standard_normal(shape)).astype(dtype)][: arity(name)]


def arity(name):
    return 1 + (name == "linear_recurrence")


def outputs(found):
    return [onp.asarray(part) for part in (found if isinstance(found, tuple) else (found,))]


def compare(name, args, launches=None, scale=1.0, **params):
    values = [device.put(a) if isinstance(a, onp.ndarray) else a for a in args]
    before = device.counts["launch"]
    found = getattr(scan, name)(*values, **params)
    taken = device.counts["launch"] - before
    with onp.errstate(all="ignore"):
        want = outputs(getattr(cpu, name)(*[onp.asarray(a) for a in args], **params))
    for g, w in zip(outputs(found), want, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        limits = tolerance(w.dtype, scale)
        if w.dtype.kind in "fc":
            limits["atol"] *= max(1.0, onp.abs(w[onp.isfinite(w)]).max(initial=0))
        onp.testing.assert_allclose(g, w, **limits)
    if launches is not None:
        assert taken == launches
    return found


WIDE = 256 * 4  # elements of a row of float32 that a block takes at a time
LENGTHS = (1, 2, 3, 4, 5, 31, 32, 33, 127, 128, 129, 255, 257, WIDE - 1, WIDE, WIDE + 1, 2 * WIDE + 7)


@pytest.mark.parametrize("name", group(NAMES))
def test_rows_of_every_length(name):
    for k, n in enumerate(LENGTHS):
        rows = max(1, min(300, 2000 // n)) + k % 2
        args = operands(name, "float32", (rows, n))
        compare(name, args, 1, 4, axis=1, reverse=bool(k % 2))


@pytest.mark.parametrize("name", group(NAMES))
def test_columns_of_every_length(name):
    for k, n in enumerate((1, 2, 3, 4, 5, 8, 33, 127)):
        shape = (2, n, (1, 2, 17, 40)[k % 4] + 16 * (n * 15 > 64))
        compare(name, operands(name, "float32", shape), 1, 4, axis=1, reverse=bool(k % 2))


def supported(name):
    if name in EXPONENTIALS:
        return ("float32", "float64")
    if name in ORDERED:
        return ("float64", "int32", "int64", "int8", "uint8", "uint16", "uint32", "uint64", "bool")
    return ("float64", "complex64", "complex128", "int32", "int64", "int8", "uint8", "uint32", "uint64")


@pytest.mark.parametrize("name", group(NAMES))
def test_every_type(name):
    for dtype in supported(name):
        for shape, axis in (((3, 300), 1), ((5, 6, 20), 1)):
            compare(name, operands(name, dtype, shape), 1, 4, axis=axis)


@pytest.mark.parametrize("target", ["float32", "float64", "int64", "int32", "complex64"])
def test_sums_of_another_type(target):
    for source in ("bool", "int32", "float32"):
        if source == "float32" and target in ("int64", "int32"):
            continue
        for shape, axis in (((3, 300), 1), ((5, 6, 20), 1)):
            compare("cumsum", operands("cumsum", source, shape), 1, axis=axis, dtype=onp.dtype(target))
            compare("cumprod", operands("cumprod", source, shape), 1, axis=axis, dtype=onp.dtype(target))


@pytest.mark.parametrize("name", group(NAMES))
@pytest.mark.parametrize("reverse", [False, True])
def test_few_long_rows_in_pieces(name, reverse):
    for shape in ((1, 9 * WIDE + 5), (3, 6 * WIDE)):
        compare(name, operands(name, "float32", shape), 2, 16, axis=1, reverse=reverse)


@pytest.mark.parametrize("name", group(NAMES))
def test_long_columns_in_pieces(name):
    for k, n in enumerate((128, 700)):
        compare(name, operands(name, "float32", (2, n, 17)), 2, 16, axis=1, reverse=bool(k))


@pytest.mark.parametrize("name", group(["linear_recurrence", "cummax_routed"]))
def test_many_pieces(name, monkeypatch):
    """More pieces than threads in a block."""
    monkeypatch.setattr(scan, "rows_kernel", small_rows)
    monkeypatch.setattr(scan, "items_of", lambda name, dtype: 2)
    monkeypatch.setattr(scan, "BUSY", 300)
    scan._plan.cache_clear()
    compare(name, operands(name, "float64", (1, 270 * 2 * 512)), 2, 1e4 if name in SUMS else 64, axis=1)
    scan._plan.cache_clear()


def small_rows(name, source, dtype, index, mode):
    return scan_text._Text(name, source, dtype, index, mode).rows(2)


def test_narrow_columns_are_transposed():
    for name in ("cumsum", "linear_recurrence", "cummax_routed"):
        for shape, axis in (((500, 3), 0), ((2, 40, 2, 2), 1)):
            args = operands(name, "float32", shape)
            copies = len(args) + 1 + (name == "cummax_routed")
            found = compare(name, args, 1 + copies, 4, axis=axis)
            assert all(part.flat for part in (found if isinstance(found, tuple) else (found,)))


@pytest.mark.parametrize("name", group(NAMES))
def test_strided_operands(name):
    for shape, axis in (((7, 40), 1), ((7, 40), 0), ((40, 7), 1)):
        values = [device.put(onp.ascontiguousarray(a.T)) for a in operands(name, "float64", shape)]
        values = [v.view(shape, v.strides[::-1]) for v in values]
        compare(name, values, 1 + len(values), axis=axis)


def test_empty():
    for name in NAMES:
        for shape, axis in (((0, 3), 0), ((3, 0), 1), ((0, 3), 1)):
            compare(name, operands(name, "float32", shape), 0, axis=axis)


@pytest.mark.parametrize("mode", ["", "_totals"])
def test_large_indices(mode, monkeypatch):
    monkeypatch.setattr(scan, "index_type", lambda *sizes: "int64")
    scan._plan.cache_clear()
    n = 5 * WIDE if mode else 300
    for name in ("cumsum", "cummin_routed"):
        compare(name, operands(name, "float32", (2, n)), 2 if mode else 1, 4, axis=1, reverse=True)
    compare("cumsum", operands("cumsum", "float32", (n, 20)), 2, 4, axis=0)
    scan._plan.cache_clear()


# --- numbers that are none


@pytest.mark.parametrize("name", group((*ORDERED, *EXPONENTIALS)))
def test_infinities_and_nan(name):
    rng = onp.random.default_rng(5)
    for dtype in ("float32", "float64"):
        x = rng.normal(0, 3, (40, 60)).astype(dtype)
        x[rng.random(x.shape) < 0.05] = onp.inf
        x[rng.random(x.shape) < 0.1] = -onp.inf
        x[rng.random(x.shape) < 0.01] = onp.nan
        x[:5] = -onp.inf
        x[5], x[6, ::2], x[7, 20:] = onp.inf, -onp.inf, -onp.inf
        x[8:12] = onp.nan
        x[12:16] = [[0.0], [-0.0], [onp.inf], [3]]
        for reverse in (False, True):
            compare(name, [x], 1, axis=1, reverse=reverse)
            compare(name, [x], 1, axis=0, reverse=reverse)


@pytest.mark.parametrize("name", group(ORDERED))
def test_ties_go_to_the_latest(name):
    x = onp.zeros((3, 2 * WIDE + 9), "float32")
    x[1, 5], x[1, WIDE + 3] = onp.nan, onp.nan
    x[2, ::3] = -0.0
    for reverse in (False, True):
        compare(name, [x], 1, axis=1, reverse=reverse)
        compare(name, [x[:, :20].T.copy()], axis=0, reverse=reverse)


def test_sums_of_infinities():
    x = onp.ones((5, 300), "float32")
    x[1, 7], x[2, [9, 200]], x[3, 4], x[3, 250], x[4, 100] = onp.inf, onp.inf, onp.inf, -onp.inf, onp.nan
    for dtype in ("float32", "float64"):
        compare("cumsum", [x.astype(dtype)], axis=1)
        compare("cumsum", [x.T.astype(dtype).copy()], axis=0)


def test_sums_of_float32_are_as_good_as_float64():
    x = onp.random.default_rng(0).uniform(0, 1, (1, 70000)).astype("float32")
    for axis, y in ((1, x), (0, onp.repeat(x[0, :3000, None], 20, 1))):
        got = onp.asarray(scan.cumsum(device.put(y), axis=axis))
        exact = onp.cumsum(y.astype(float), axis)
        assert (onp.abs(got - exact) <= 6.1e-8 * exact).all()


def test_exponentials_of_many_are_accurate():
    """Sums of float32 carry their rounding errors along."""
    x = onp.random.default_rng(0).uniform(-1, 1, (3000, 20)).astype("float32")
    got = onp.asarray(scan.cumlogsumexp(device.put(x), axis=0))
    exact = onp.log(onp.cumsum(onp.exp(x.astype(float)), 0))
    assert (onp.abs(got - exact) <= 4e-7 * onp.maximum(1, onp.abs(exact))).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_products_do_not_overflow_in_parts(dtype):
    """A part of a product may be out of the type's range while the running product is in it."""
    big = {"float32": 1e30, "float64": 1e300, "complex64": 1e30}[dtype]
    x = onp.full((4, 400), 1, dtype)
    x[0, :20] = 1 / big, *[1] * 19
    x[0, 100:102], x[0, 200:202] = big**0.5, big**0.5  # back up to big
    x[1, 0], x[1, 64:128] = 0, big  # nothing times a part that overflows
    x[2, 0:2], x[2, 300:302] = big**0.5, 1 / big**0.5
    x[3, 8:16] = big**0.25
    x[3, 40:48] = 1 / big**0.25
    compare("cumprod", [x[:2]], 1, 4, axis=1)
    exact = onp.cumprod(x.astype(complex if dtype == "complex64" else onp.longdouble), 1)
    got = onp.asarray(scan.cumprod(device.put(x), axis=1))
    inside = onp.abs(exact) < onp.finfo(dtype).max
    onp.testing.assert_allclose(got[inside], exact[inside].astype(got.dtype), 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_products_of_subnormal_numbers(dtype):
    """Nothing is lost before the product is in the type's range again."""
    tiny = float(onp.finfo(dtype).smallest_subnormal)
    x = onp.array([[1, 5 * tiny, 1, 1], [3e4, 3 * tiny, float(onp.finfo(dtype).max), 2]], dtype)
    got = onp.asarray(scan.cumprod(device.put(x), axis=1))
    exact = onp.cumprod(x.astype(onp.clongdouble if dtype == "complex128" else onp.longdouble), 1)
    onp.testing.assert_allclose(got, exact.astype(dtype), 4e-7 if dtype == "float32" else 1e-15)
    assert got[0, 1] == x[0, 1]


def test_what_overflows_on_the_way_comes_back():
    """As if exponents had no limits: one by one, infinity would stay."""
    x = onp.array([1e200, 1e200, 1e-200, 0.0])
    onp.testing.assert_allclose(onp.asarray(scan.cumprod(device.put(x), axis=0)), [1e200, onp.inf, 1e200, 0])


def test_products_of_signs_and_nan():
    x = onp.array([[1.0, -2, 0, -3, 5], [0, onp.inf, 1, 1, 1], [onp.nan, 0, 1, 2, 3], [onp.inf, -1, 2, 0, 1]])
    for dtype in ("float32", "float64"):
        compare("cumprod", [x.astype(dtype)], axis=1)
        compare("cumprod", [x.T.astype(dtype).copy()], axis=0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_an_exact_zero_passes_nothing_on(dtype):
    rng = onp.random.default_rng(3)
    a, b = rng.uniform(0.5, 1, (6, 400)).astype(dtype), rng.standard_normal((6, 400)).astype(dtype)
    b[0, :100], a[0, 20:90] = 0, onp.inf  # nothing so far
    b[1, :300], a[1, 1:3] = 0, onp.nan
    a[2, 50], b[2, 50:60], a[2, 55] = 0, 0, onp.inf  # what there was ends at a zero
    a[3, 70] = onp.inf  # an infinity stays one
    b[4] = 0
    a[4] = onp.nan
    a[5, 100:200] = 1e20 if dtype == "float32" else 1e200  # a part that overflows, after nothing
    b[5, :200] = 0
    for axis, x, y in ((1, a, b), (0, a.T.copy(), b.T.copy())):
        for reverse in (False, True):
            got = onp.asarray(scan.linear_recurrence(device.put(x), device.put(y), axis=axis, reverse=reverse))
            with onp.errstate(all="ignore"):
                want = cpu.linear_recurrence(x, y, axis=axis, reverse=reverse)
            finite = onp.isfinite(want)  # among parts that run side by side, an infinity may turn into nan
            onp.testing.assert_array_equal(onp.isfinite(got), finite)
            onp.testing.assert_allclose(got[finite], want[finite], **tolerance(want.dtype, 4))


def test_the_plan_follows_from_sizes():
    single = onp.dtype(onp.float32)

    def chosen(shape, axis):
        plan = scan._plan("cumsum", single, single, shape, axis, False)
        return plan.kernel.name, plan.grid, plan.totals is not None

    assert chosen((100000, 4), 1) == ("cumsum_rows_f32", 100000 // 256 + 1, False)
    assert chosen((100000, 128), 1) == ("cumsum_rows_f32", 100000 // 8, False)
    assert chosen((500, 10**5), 1) == ("cumsum_rows_f32", 500, False)
    assert chosen((1, 2**26), 1) == ("cumsum_rows_pieces_f32", 525, True)
    assert chosen((1000, 4096), 0)[0] == "cumsum_columns_pieces_f32"
    assert chosen((100, 10, 4096), 1) == ("cumsum_columns_f32", 1600, False)
    assert chosen((2**16, 2**15 + 1), 1)[0] == "cumsum_rows_f32_large"
