"""Sorting, selection, quantiles, uniqueness and histograms against NumPy, and where their derivatives go."""

import numpy as onp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import lax
from numbagrad.core.errors import ViewAssignmentError
from numbagrad.kernels.cpu import sort as kernels
from numbagrad.testing import check_grads, inner_product_identity

INF, NAN = onp.inf, onp.nan
floats = hnp.arrays(
    st.sampled_from([onp.float64, onp.float32]),
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=9),
    elements=st.one_of(st.sampled_from([0.0, -0.0, 1.0, -1.0, INF, NAN]), st.floats(-4, 4, width=32)),
)
integers = hnp.arrays(
    st.sampled_from([onp.int8, onp.uint8, onp.int32, onp.int64, onp.uint64, onp.bool_]),
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=9),
)


def stable(x, axis=-1, descending=False):
    if not descending:
        return onp.argsort(x, axis, kind="stable")
    return onp.flip(x.shape[axis] - 1 - onp.argsort(onp.flip(x, axis), axis, kind="stable"), axis)


def same(got, want):
    got, want = onp.asarray(got), onp.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape
    onp.testing.assert_array_equal(got, want)


@settings(deadline=None)
@given(st.one_of(floats, integers), st.booleans(), st.data())
def test_sort_and_argsort(x, descending, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    want = stable(x, axis, descending)
    same(np.argsort(x, axis, descending=descending), want)
    same(np.sort(x, axis, descending=descending), onp.take_along_axis(x, want, axis))


@settings(deadline=None)
@given(floats, st.booleans(), st.data())
def test_modes_agree(x, descending, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    inner_product_identity(lambda v: np.sort(v, axis, descending=descending), (x,))


@settings(deadline=None)
@given(st.one_of(floats, integers), st.data())
def test_top_k(x, data):
    k = data.draw(st.integers(0, x.shape[-1]))
    values, index = lax.top_k(x, k)
    want = stable(x, -1, True)[..., :k]
    same(index, want)
    same(values, onp.take_along_axis(x, want, -1))


@pytest.mark.parametrize("threads", ["1", "2", "5"])
@pytest.mark.parametrize("dtype", [onp.float32, onp.float64, onp.int64, onp.uint8])
def test_long_rows(dtype, threads, monkeypatch):
    """Pieces sorted by several threads and merged, selection instead of sorting: the same as of one thread."""
    monkeypatch.setenv("NUMBAGRAD_NUM_THREADS", threads)
    rng = onp.random.default_rng(0)
    for shape in ((400_001,), (3, 150_000), (40, 7000)):
        x = (rng.standard_normal(shape) * 50).astype(dtype)
        if x.dtype.kind == "f":
            x[..., ::17], x[..., 5::1001], x[..., 6::1001] = NAN, 0.0, -0.0
        want = stable(x)
        same(np.argsort(x), want)
        same(np.sort(x), onp.take_along_axis(x, want, -1))
        same(lax.top_k(x, 300)[1], stable(x, -1, True)[..., :300])


NEAR = 2.0**-52  # neighbours of 1.0
HARD = {  # 64-bit keys that do not fit beside their places
    "few high bits": lambda n: onp.where(onp.arange(n) % 3, 1 + onp.arange(n)[::-1] % 8 * NEAR, -1e300),
    "clusters": lambda n: onp.where(onp.arange(n) % 2, 1 + onp.arange(n)[::-1] * NEAR, -1e300 + onp.arange(n) * 1e284),
    "sentinel": lambda n: onp.where(onp.arange(n) % 5, onp.arange(n)[::-1] * 7919 % 1000, onp.iinfo(onp.int64).max),
    "all bits": lambda n: onp.random.default_rng(1).integers(0, 2**64, n, onp.uint64, endpoint=False),
    "equal": lambda n: onp.full(n, 3.0),
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("n", [300, 20_000])
def test_keys_that_lose_bits(name, n):
    x = HARD[name](n)
    for descending in (False, True):
        same(np.argsort(x, descending=descending), stable(x, -1, descending))
    for k in (7, n // 20):
        same(lax.top_k(x, k)[1], stable(x, -1, True)[:k])


def test_hard_keys_take_every_way(monkeypatch):
    """Exact words, words put right, and words given up: each of them is met by the keys above."""
    met = set()
    halves, places = kernels._in_halves, kernels._Words.places
    monkeypatch.setattr(kernels, "_in_halves", lambda keys: met.add("halves") or halves(keys))
    monkeypatch.setattr(kernels._Words, "places", lambda self, *a: met.add(self.exact) or places(self, *a))
    for make in HARD.values():
        np.argsort(make(20_000))
    assert met == {True, False, "halves"}


def test_where_nan_and_zeros_go():
    x = onp.array([1.0, NAN, 0.0, -INF, -0.0, NAN])
    same(np.argsort(x), [3, 2, 4, 0, 1, 5])
    same(np.argsort(x, descending=True), [1, 5, 0, 2, 4, 3])
    same(lax.top_k(x, 3)[1], [1, 5, 0])
    assert onp.signbit(onp.asarray(np.sort(-onp.zeros(3)))).all()


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), max_size=12))
def test_lexsort_and_several_operands(rows):
    keys = onp.array(rows, onp.int64).reshape(-1, 3).T
    same(np.lexsort(keys), onp.lexsort(keys))
    same(np.lexsort(tuple(keys)), onp.lexsort(keys))
    for num_keys in (1, 2, 3):
        order = onp.lexsort(keys[:num_keys][::-1])
        for got, key in zip(lax.sort(tuple(keys), num_keys=num_keys), keys, strict=True):
            same(got, key[order])


def test_values_follow_their_keys():
    keys, values = onp.array([[2, 1, 2], [0, 5, 4]]), onp.arange(6.0).reshape(2, 3)
    for axis in (0, 1, -1):
        order = stable(keys, axis)
        _, got = lax.sort_key_val(keys, values, axis)
        same(got, onp.take_along_axis(values, order, axis))
        check_grads(lambda v, k=axis: lax.sort_key_val(keys, v, k)[1], (values,))
    x = onp.array([3.0, 1.0, 2.0])
    check_grads(lambda v: lax.sort((v, v * v, np.sin(v)), num_keys=2), (x,), order=2)


@settings(deadline=None)
@given(floats, st.data())
def test_partition(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    n = x.shape[axis]
    if n == 0:
        return
    kth = data.draw(st.one_of(st.integers(-n, n - 1), st.lists(st.integers(-n, n - 1), min_size=1, max_size=3)))
    got, ordered = onp.asarray(np.partition(x, kth, axis)), onp.sort(x, axis)
    index = onp.asarray(np.argpartition(x, kth, axis))
    onp.testing.assert_array_equal(onp.take_along_axis(x, index, axis), got)
    onp.testing.assert_array_equal(onp.sort(got, axis), ordered)
    got, ordered = onp.moveaxis(got, axis, 0), onp.moveaxis(ordered, axis, 0)
    for k in onp.atleast_1d(kth) % n:
        onp.testing.assert_array_equal(got[k], ordered[k])
        with onp.errstate(invalid="ignore"):
            assert not (got[:k] > got[k]).any() and not (got[k:] < got[k]).any()
    inner_product_identity(lambda v: np.partition(v, kth, axis), (x,))


@settings(deadline=None)
@given(floats, floats, st.sampled_from(["left", "right"]))
def test_searchsorted(a, v, side):
    line = onp.sort(a.ravel())
    same(np.searchsorted(line, v, side), onp.searchsorted(line, v, side))
    order = onp.argsort(a.ravel(), kind="stable")
    same(np.searchsorted(a.ravel(), v, side, order), onp.searchsorted(a.ravel(), v, side, order))


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_searches_in_blocks(side, threads, monkeypatch):
    monkeypatch.setenv("NUMBAGRAD_NUM_THREADS", threads)
    rng = onp.random.default_rng(0)
    for n in (0, 1, 2, 3, 1000, 1023, 1024):
        for dtype in (onp.float32, onp.float64, onp.int8, onp.uint64, bool):
            line, v = onp.sort((rng.random(n) * 40).astype(dtype)), (rng.random((3, 5000)) * 40).astype(dtype)
            same(np.searchsorted(line, v, side), onp.searchsorted(line, v, side))
    same(np.searchsorted([1, 3], [2.5, NAN], side), [1, 2])


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("bins", [[0.0, 1.0, 2.0], [2.0, 1.0, 1.0, -1.0], [1.0], [1, 1]])
def test_digitize(bins, right):
    x = onp.array([[-3.0, 0.0, 1.0], [1.5, 2.0, NAN]])
    same(np.digitize(x, bins, right), onp.digitize(x, bins, right))


# -------------------------------------------------------------------------------- medians and quantiles

METHODS = [
    *("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf", "averaged_inverted_cdf"),
    *("closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased", "normal_unbiased"),
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [1, 2, 5, 8, 9])
def test_quantiles(method, n):
    rng = onp.random.default_rng(n)
    x = rng.standard_normal((3, n, 2))
    for q in (0, 0.3, 1.0, onp.linspace(0, 1, 21), [[0.25, 0.5]]):
        for axis in (None, 1, (0, 1), -1):
            for keepdims in (False, True):
                options = dict(axis=axis, method=method, keepdims=keepdims)
                got, want = onp.asarray(np.quantile(x, q, **options)), onp.quantile(x, q, **options)
                assert got.shape == want.shape
                # interpolation rounds otherwise
                onp.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-15)
    got = onp.asarray(np.percentile(x, [10, 90], method=method))
    onp.testing.assert_allclose(got, onp.percentile(x, [10, 90], method=method), rtol=1e-14, atol=1e-15)
    if n > 1:
        check_grads(lambda v: np.quantile(v, [0.21, 0.83], axis=1, method=method), (x,), order=1)


def test_quantiles_without_nan():
    rng = onp.random.default_rng(0)
    x = onp.where(rng.random((4, 9)) < 0.4, NAN, rng.standard_normal((4, 9)))
    x[2] = NAN
    q = [0.1, 0.5, 0.9]
    for name in ("nanmedian", "nanquantile", "nanpercentile"):
        args = () if name == "nanmedian" else (q,)
        with pytest.warns(RuntimeWarning):  # NumPy's
            want = getattr(onp, name)(x, *args, axis=1)
        ours = getattr(np, name)
        onp.testing.assert_allclose(onp.asarray(ours(x, *args, axis=1)), want, rtol=1e-13)
        inner_product_identity(lambda v, f=ours, a=args: f(v, *a, axis=1), (x,))
    grad = onp.asarray(ng.grad(lambda v: np.nanmedian(v))(onp.array([NAN, 4.0, 2.0])))
    same(grad, [0.0, 0.5, 0.5])
    same(np.nanmedian([[1, 2], [3, 5]], axis=0), [2.0, 3.5])


def test_quantiles_with_weights():
    rng = onp.random.default_rng(0)
    x, w = rng.standard_normal((3, 7)), rng.integers(0, 3, 7)
    for q in (0, 0.5, [0.2, 1.0]):
        options = dict(axis=1, method="inverted_cdf", weights=w)
        same(np.quantile(x, q, **options), onp.quantile(x, q, **options))
    check_grads(lambda v: np.quantile(v, 0.4, axis=1, method="inverted_cdf", weights=w), (x,), order=1)
    with pytest.raises(ValueError, match="inverted_cdf"):
        np.quantile(x, 0.5, axis=1, weights=w)
    with pytest.raises(ValueError, match="below 0"):
        np.quantile(x, 0.5, axis=1, weights=-w, method="inverted_cdf")


def test_quantile_moves_with_q():
    x = onp.random.default_rng(0).standard_normal(11)
    for method in ("linear", "hazen", "weibull", "median_unbiased", "interpolated_inverted_cdf"):
        check_grads(lambda v, q, m=method: np.quantile(v, q, method=m), (x, onp.array([0.33, 0.71])), order=2)
    assert ng.grad(lambda q: np.quantile(x, q, method="lower"))(0.33) == 0
    slope = onp.sort(x)
    assert onp.isclose(ng.grad(lambda q: np.percentile(x, q))(55.0), (slope[6] - slope[5]) / 10)


MEDIANS = [  # value and gradient, by hand
    ([3, 1, 2], 2, [0, 0, 1]),
    ([4, 1, 3, 9], 3.5, [0.5, 0, 0.5, 0]),
    ([2, 2, 2, 2], 2, [0, 0.5, 0.5, 0]),
    ([1, INF, 2], 2, [0, 0, 1]),
    ([INF, INF, 1, INF], INF, [0.5, 0.5, 0, 0]),
    ([-INF, INF], NAN, [0.5, 0.5]),
    ([1, NAN, 2, NAN], NAN, [0, 0, 0, 1]),
    ([7], 7, [1]),
]


@pytest.mark.parametrize(("x", "value", "grad"), MEDIANS)
def test_median(x, value, grad):
    x = onp.array(x, float)
    same(np.median(x), float(value))
    same(ng.grad(np.median)(x), onp.array(grad, float))
    inner_product_identity(np.median, (x,))


def test_median_orders_and_shapes():
    x = onp.random.default_rng(0).standard_normal((3, 4, 5))
    for axis in (None, 0, (0, 2), (0, 1, 2)):
        got, want = np.median(x, axis, keepdims=True), onp.median(x, axis, keepdims=True)
        onp.testing.assert_allclose(onp.asarray(got), want, rtol=1e-15, atol=1e-16)
    check_grads(lambda v: np.median(np.sin(v), 1), (x,), order=3)
    same(np.median(onp.array([1, 2, 4, 9], onp.int32)), 3.0)
    same(np.median(onp.array([1, 2], onp.float32)), onp.float32(1.5))
    assert onp.isnan(np.median([]).item()) and np.median(onp.zeros((2, 0)), 1).shape == (2,)


# --------------------------------------------------------------------------------------- unique, histograms


@settings(deadline=None)
@given(st.one_of(floats, integers), st.booleans(), st.data())
def test_unique(x, equal_nan, data):
    axis = data.draw(st.one_of(st.none(), st.integers(-x.ndim, x.ndim - 1)))
    if x.size == 0 and axis is not None:
        return
    options = dict(axis=axis, equal_nan=equal_nan)
    for got, want in zip(np.unique(x, True, True, True, **options), onp.unique(x, True, True, True, **options)):
        same(got, want)
    same(np.unique(x, **options), onp.unique(x, **options))


def test_unique_of_the_array_standard():
    x = onp.array([2.0, NAN, 1.0, 2.0, NAN])
    for name in ("unique_all", "unique_counts", "unique_inverse"):
        got, want = getattr(np, name)(x), getattr(onp, name)(x)
        assert got._fields == want._fields
        for g, w in zip(got, want, strict=True):
            same(g, w)
    same(np.unique_values(x), onp.sort(onp.unique_values(x)))


def test_unique_of_a_size():
    values, index, counts = np.unique([3.0, 1.0, 1.0], True, return_counts=True, size=4)
    same(values, [1.0, 3.0, 1.0, 1.0])
    same(index, [1, 0, 1, 1])
    same(counts, [2, 1, 0, 0])
    same(np.unique([3, 1, 1], size=3, fill_value=9), [1, 3, 9])
    same(np.unique([3, 1, 2], size=2), [1, 2])
    with pytest.raises(ValueError, match="fill_value"):
        np.unique([], size=2)
    grad = ng.grad(lambda v: np.sum(np.unique(v, size=4) ** 2))(onp.array([3.0, 1.0, 1.0]))
    same(grad, [6.0, 6.0, 0.0])


@settings(deadline=None)
@given(st.lists(st.integers(0, 6), max_size=9), st.integers(0, 9))
def test_bincount(numbers, minlength):
    x = onp.array(numbers, onp.int64)
    w = onp.random.default_rng(0).standard_normal(x.size)
    same(np.bincount(x, minlength=minlength), onp.bincount(x, minlength=minlength))
    onp.testing.assert_allclose(onp.asarray(np.bincount(x, w, minlength)), onp.bincount(x, w, minlength), atol=1e-15)
    same(np.bincount(x, length=3), onp.bincount(x, minlength=3)[:3])
    onp.testing.assert_allclose(onp.asarray(np.bincount(x, w, length=3)), onp.bincount(x, w, 3)[:3], atol=1e-15)
    if x.size:
        inner_product_identity(lambda v: np.bincount(x, v, length=4), (w,))


@pytest.mark.parametrize("bins", [4, [0.0, 1.0, 1.5, 2.0], "auto", 1])
@pytest.mark.parametrize("density", [None, True])
def test_histogram(bins, density):
    rng = onp.random.default_rng(0)
    x, w = onp.append(rng.uniform(-1, 3, 40), [0.0, 1.0, 1.5, 2.0, 3.0]), rng.uniform(0.5, 1.5, 45)
    for given_range in (None, (0.0, 2.0)):
        for weights in (None, w) if bins != "auto" else (None,):
            options = dict(bins=bins, range=given_range, density=density)
            got, want = np.histogram(x, weights=weights, **options), onp.histogram(x, weights=weights, **options)
            onp.testing.assert_allclose(onp.asarray(got[0]), want[0], rtol=1e-13)
            assert onp.asarray(got[0]).dtype == want[0].dtype
            same(got[1], want[1])
            same(np.histogram_bin_edges(x, bins, given_range), onp.histogram_bin_edges(x, bins, given_range))
    if bins not in ("auto", 1):  # the density of one bin never changes
        check_grads(lambda v: np.histogram(x, bins, density=density, weights=v)[0], (w,), order=2)


def test_histograms_of_points():
    rng = onp.random.default_rng(0)
    points, w = rng.standard_normal((50, 3)), rng.uniform(0.5, 1.5, 50)
    for bins in (3, [2, 3, [-1.0, 0.0, 1.0]]):
        for options in ({}, {"density": True}, {"weights": w}, {"weights": w, "density": True}):
            got, want = np.histogramdd(points, bins, **options), onp.histogramdd(points, bins, **options)
            onp.testing.assert_allclose(onp.asarray(got[0]), want[0], rtol=1e-13)
            for g, e in zip(got[1], want[1], strict=True):
                same(g, e)
    for bins in (4, [3, 5], onp.linspace(-2, 2, 6)):
        got, want = np.histogram2d(*points.T[:2], bins), onp.histogram2d(*points.T[:2], bins)
        for g, e in zip(got, want, strict=True):
            same(g, e)
    check_grads(lambda v: np.histogram2d(points[:, 0], points[:, 1], 3, weights=v)[0], (w,), order=1)


# ------------------------------------------------------------------------------------- methods and refusals


def test_methods():
    x = np.asarray([3.0, 1.0, 2.0])
    y = x
    z = x.copy()
    assert z.sort() is None
    same(z, [1.0, 2.0, 3.0])
    same(y, [3.0, 1.0, 2.0])
    z.sort(descending=True)
    same(z, [3.0, 2.0, 1.0])
    z.partition(0)
    assert z[0] == 1.0
    same(x.argsort(), [1, 2, 0])
    assert x.argpartition(0)[0] == 1
    same(np.sort(x).searchsorted(2.5), 2)
    with pytest.raises(ViewAssignmentError, match="copy"):
        x[:2].sort()
    same(onp.sort(x), [1.0, 2.0, 3.0])
    assert isinstance(onp.median(x), ng.Array)


REFUSED = [
    (lambda: np.sort(onp.ones(2, complex)), TypeError, "no order"),
    (lambda: np.median(onp.ones(2, complex)), TypeError, "no order"),
    (lambda: lax.top_k(onp.ones(2, complex), 1), TypeError, "no order"),
    (lambda: np.sort(onp.ones(3), 1), onp.exceptions.AxisError, "axis out of range"),
    (lambda: np.sort(onp.ones(())), onp.exceptions.AxisError, "no axis"),
    (lambda: np.sort(onp.ones(3), kind="bogus"), ValueError, "no such kind"),
    (lambda: np.sort(onp.ones(3), order="x"), ValueError, "fields"),
    (lambda: np.partition(onp.ones(3), 3), ValueError, "out of range"),
    (lambda: np.partition(onp.ones(3), 1.0), TypeError, "integer"),
    (lambda: lax.top_k(onp.ones(3), 4), ValueError, "out of range"),
    (lambda: lax.sort((onp.ones(3), onp.ones(2))), ValueError, "shapes"),
    (lambda: lax.sort((onp.ones(3),), num_keys=2), ValueError, "keys"),
    (lambda: np.lexsort(()), ValueError, "do not match"),
    (lambda: np.searchsorted(onp.ones((2, 2)), 1.0), ValueError, "line"),
    (lambda: np.searchsorted(onp.ones(2), 1.0, "middle"), ValueError, "no such side"),
    (lambda: np.searchsorted(onp.ones(2), 1.0, sorter=[0]), ValueError, "sorter"),
    (lambda: np.digitize(1.0, [0.0, 2.0, 1.0]), ValueError, "monotonic"),
    (lambda: np.quantile(onp.ones(3), 1.5), ValueError, "0 to 1"),
    (lambda: np.percentile(onp.ones(3), 101), ValueError, "0 to 100"),
    (lambda: np.quantile(onp.ones(3), 0.5, method="bogus"), ValueError, "no such method"),
    (lambda: np.bincount([-1]), ValueError, "negative"),
    (lambda: np.bincount([0.5]), TypeError, "integers"),
    (lambda: np.bincount([0, 1], [1.0]), ValueError, "weights"),
    (lambda: np.histogram([0.0, 1.0], weights=[1.0]), ValueError, "weights"),
]


@pytest.mark.parametrize(("call", "error", "match"), REFUSED)
def test_refusals(call, error, match):
    with pytest.raises(error, match=match):
        call()


@settings(deadline=None)
@given(floats)
def test_integer_results_have_no_derivative(x):
    value, pull = ng.vjp(lambda v: np.sum(v * np.argsort(v, -1).astype(v.dtype)), x)
    same(pull(onp.ones((), value.dtype))[0], onp.argsort(x, -1, kind="stable").astype(x.dtype))


def test_numpy_integers_and_arrays_are_bins_and_ranges():
    x = onp.array([0.5, 1.0, 2.5])
    for n in (onp.int64(3), onp.array(3), np.asarray(3)):
        same(np.histogram(x, n)[0], onp.histogram(x, 3)[0])
        same(np.histogram2d(x, x, n)[0], onp.histogram2d(x, x, 3)[0])
        same(np.histogramdd(onp.stack([x, x], 1), n)[0], onp.histogramdd(onp.stack([x, x], 1), 3)[0])
    same(np.histogram(x, 2, range=np.asarray([0.0, 3.0]))[1], onp.histogram(x, 2, range=(0.0, 3.0))[1])
    same(np.histogram(x, 2, range=[np.asarray(0.0), 3.0])[1], onp.histogram(x, 2, range=(0.0, 3.0))[1])
    got = np.histogram2d(x, x, 2, range=np.asarray([[0.0, 3.0], [1.0, 2.0]]))
    for g, w in zip(got, onp.histogram2d(x, x, 2, range=[[0, 3], [1, 2]]), strict=True):
        same(g, w)


def test_histograms_of_complex_weights():
    x, w = onp.array([0.5, 1.0, 2.5]), onp.array([1j, 2, 3 - 1j])
    for density in (False, True):
        for got, want in zip(np.histogram(x, 2, weights=w, density=density), onp.histogram(x, 2, None, density, w)):
            onp.testing.assert_allclose(onp.asarray(got), want)
    check_grads(lambda w: np.histogram(x, 2, weights=w)[0], (w,), order=2)


def test_partition_at_no_place():
    x = onp.array([[3.0, 1.0], [0.0, 2.0]])
    for axis in (0, 1, None):
        same(np.partition(x, [], axis), onp.partition(x, onp.array([], int), axis))
        same(np.argpartition(x, [], axis), onp.argpartition(x, onp.array([], int), axis))


MISUSED = [
    (lambda: np.unique([1.0, 2.0], size=-1), ValueError, "unique: .*got -1; needed 0 or more"),
    (lambda: np.unique([1.0, 2.0], size=1.5), TypeError, "unique: .*got 1.5; needed"),
    (lambda: np.bincount([0, 1], length=-1), ValueError, "bincount: .*length=-1; needed"),
    (lambda: np.bincount([0, 1], minlength=-1), ValueError, "bincount: .*minlength=-1.*; needed"),
    (lambda: np.histogram([1.0, 2.0], 0), ValueError, "histogram: .*got 0; needed at least 1"),
    (lambda: np.histogram([1.0, 2.0], 2.5), TypeError, "histogram: .*got 2.5; needed"),
    (lambda: np.histogram([1.0, 2.0], "best"), ValueError, "histogram: .*'best'; needed auto"),
    (lambda: np.histogram([1.0, 2.0], [2.0, 1.0]), ValueError, "histogram: edges decrease: got .*; needed"),
    (lambda: np.histogram([1.0, 2.0], onp.ones((2, 2))), ValueError, "histogram: .*got .*; needed one axis"),
    (lambda: np.histogram([1.0, 2.0], 2, range=(0, NAN)), ValueError, "histogram: range: got .*; needed finite"),
    (lambda: np.histogram([1.0, 2.0], 2, range=(2, 0)), ValueError, "histogram: range: got .*; needed finite"),
    (lambda: np.histogram([1.0, NAN], 2), ValueError, "histogram: .*got nan.*; needed finite"),
    (lambda: np.histogram_bin_edges([1.0, 2.0], 0), ValueError, "histogram_bin_edges: .*got 0; needed"),
    (lambda: np.histogramdd(onp.ones((3, 2)), 0), ValueError, "histogramdd: .*got 0; needed"),
    (lambda: np.histogramdd(onp.ones((3, 2)), [3]), ValueError, "histogramdd: .*got 1 bins"),
    (lambda: np.histogramdd(onp.ones((3, 2)), [3, [2.0, 1.0]]), ValueError, "histogramdd: edges decrease"),
    (lambda: np.histogramdd(onp.ones((3, 2)), 2, [(0, NAN), None]), ValueError, "histogramdd: range"),
    (lambda: lax.top_k(onp.ones(3), 2.0), TypeError, "top_k: .*got 2.0; needed"),
    (lambda: lax.top_k(onp.float64(1), 1), ValueError, "top_k: no axis"),
    (lambda: lax.sort(onp.float64(1)), ValueError, "sort: no axis"),
    (lambda: lax.sort((onp.float64(1),)), ValueError, "sort: no axis"),
    (lambda: np.sort(onp.float64(1)), ValueError, "sort: no axis"),
    (lambda: np.partition(onp.float64(1), 0), ValueError, "partition: no axis"),
]


@pytest.mark.parametrize("number", range(len(MISUSED)))
def test_refused_in_one_form(number):
    call, error, text = MISUSED[number]
    with pytest.raises(error, match=text):
        call()
