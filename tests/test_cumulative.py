"""Running sums, products, extrema, log-sum-exps and recurrences against NumPy; edges and higher orders."""

import itertools

import numpy as onp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import lax
from numbagrad.testing import check_grads, inner_product_identity

INF, NAN = onp.inf, onp.nan
shapes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=7)
numbers = st.one_of(st.sampled_from([0.0, 1.0, -1.0]), st.floats(-2, 2, width=32))
edges = st.one_of(st.sampled_from([0.0, -0.0, INF, -INF, NAN, 1.0]), st.floats(-3, 3, width=32))
floats = hnp.arrays(st.sampled_from([onp.float64, onp.float32]), shapes, elements=numbers)
rough = hnp.arrays(st.sampled_from([onp.float64, onp.float32]), shapes, elements=edges)
integers = hnp.arrays(st.sampled_from([onp.int8, onp.uint8, onp.int32, onp.int64, onp.uint64, onp.bool_]), shapes)
WIDE = {"float32": onp.float64, "complex64": onp.complex128}


def close(got, want, scale=1.0):
    """Equal to what the dtype can hold of a few additions of numbers up to `scale`."""
    got, want = onp.asarray(got), onp.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape
    if got.dtype.kind not in "fc":
        onp.testing.assert_array_equal(got, want)
        return
    eps = 16 * onp.finfo(got.dtype).eps
    onp.testing.assert_allclose(got, want, rtol=eps, atol=eps * scale)


def backwards(function, x, axis, reverse):
    return onp.flip(function(onp.flip(x, axis), axis), axis) if reverse else function(x, axis)


@settings(deadline=None)
@given(st.one_of(floats, integers), st.data())
def test_cumsum_and_cumprod(x, data):
    axis = data.draw(st.one_of(st.none(), st.integers(-x.ndim, x.ndim - 1)))
    for name in ("cumsum", "cumprod"):
        for dtype in (None, onp.float32, onp.int16 if x.dtype.kind != "f" else None):
            with onp.errstate(all="ignore"):
                want = getattr(onp, name)(x, axis, dtype)
                exact = getattr(onp, name)(x, axis, WIDE[want.dtype.name]) if want.dtype.name in WIDE else want
                rounded = exact.astype(want.dtype)
            # an error of a sum is one of its largest part
            size = float(onp.abs(exact).max(initial=1)) if name == "cumsum" else 1.0
            close(getattr(np, name)(x, axis, dtype), rounded, size)


@settings(deadline=None)
@given(rough, st.booleans(), st.data())
def test_extrema(x, reverse, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    for ours, theirs in ((lax.cummax, onp.maximum), (lax.cummin, onp.minimum)):
        close(ours(x, axis, reverse), backwards(theirs.accumulate, x, axis, reverse))
        inner_product_identity(lambda v, f=ours: f(v, axis, reverse), (x,))


@settings(deadline=None)
@given(rough, st.booleans(), st.data())
def test_cumlogsumexp(x, reverse, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    with onp.errstate(invalid="ignore"):
        want = backwards(onp.logaddexp.accumulate, x.astype(float), axis, reverse)
    close(lax.cumlogsumexp(x, axis, reverse), want.astype(x.dtype))
    inner_product_identity(lambda v: lax.cumlogsumexp(v, axis, reverse), (x,))


@settings(deadline=None)
@given(floats, st.booleans(), st.data())
def test_modes_agree(x, reverse, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    for f in (lax.cumsum, lax.cumprod, lambda v, *a: lax.linear_recurrence(v, np.cos(v), *a)):
        inner_product_identity(lambda v, f=f: f(v, axis, reverse), (x,))


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("dtype", [onp.float32, onp.float64, onp.complex64, onp.int8])
def test_long_rows(dtype, threads, monkeypatch):
    """Pieces that start where the one before ends: bitwise the same for any number of threads."""
    monkeypatch.setenv("NUMBAGRAD_NUM_THREADS", threads)
    rng = onp.random.default_rng(0)
    for shape, axis in (((8000,), 0), ((8001,), 0), ((123_457,), 0), ((3, 9001), 1), ((9000, 2), 0), ((5, 9000), 1)):
        x = (rng.standard_normal(shape) * 9).astype(dtype)
        for reverse in (False, True):
            exact = x.astype(WIDE.get(x.dtype.name, x.dtype))
            want = backwards(lambda v, k: onp.cumsum(v, k, v.dtype), exact, axis, reverse).astype(dtype)
            got = onp.asarray(lax.cumsum(x, axis, reverse))
            size = float(onp.abs(want).max())
            close(got, want, 1 if x.dtype.kind == "i" else 30 * size)
            monkeypatch.setenv("NUMBAGRAD_NUM_THREADS", "2")
            onp.testing.assert_array_equal(got, onp.asarray(lax.cumsum(x, axis, reverse)))
            monkeypatch.setenv("NUMBAGRAD_NUM_THREADS", threads)
        if x.dtype.kind != "c":
            close(lax.cummax(x, axis), onp.maximum.accumulate(x, axis))


def test_float32_sums_are_exact_to_rounding():
    x = onp.random.default_rng(0).random(1_000_003).astype(onp.float32)
    exact = onp.cumsum(x.astype(float))
    # half a unit in the last place of the result: it was summed in float64
    assert (onp.abs(onp.asarray(np.cumsum(x)) - exact) <= 0.5001 * onp.spacing(exact.astype(onp.float32))).all()


def test_long_log_sums():
    """Blocks of the kernel, rising maxima, and no overflow."""
    for x in (onp.linspace(-800, 800, 1500), onp.linspace(800, -800, 1500), onp.full(1500, 1e4), onp.full(3, -1e4)):
        for reverse in (False, True):
            want = backwards(onp.logaddexp.accumulate, x, 0, reverse)
            # an error of the logarithm's argument of 1500 roundings
            onp.testing.assert_allclose(onp.asarray(lax.cumlogsumexp(x, 0, reverse)), want, rtol=1e-13, atol=1e-12)
    wide = onp.random.default_rng(0).standard_normal((1300, 3)) * 50
    close(lax.cumlogsumexp(wide), onp.logaddexp.accumulate(wide, 0), 100)
    for shape, axis in (((600, 2), 0), ((600, 3), 1), ((2, 600, 3), 1), ((2, 3, 600), 0)):  # vectors the other way
        x = onp.random.default_rng(0).standard_normal(shape)
        for reverse in (False, True):
            want = backwards(onp.logaddexp.accumulate, x, axis, reverse)
            onp.testing.assert_allclose(onp.asarray(lax.cumlogsumexp(x, axis, reverse)), want, rtol=1e-12, atol=1e-13)
        inner_product_identity(lambda v, k=axis: lax.cumlogsumexp(v, k), (x,))
    y = onp.random.default_rng(1).standard_normal(1300).astype(onp.float32) + 1e4
    gradient = onp.asarray(ng.grad(lambda v: lax.cumlogsumexp(v)[-1])(y.astype(onp.float32)))
    share = onp.exp((y - y.max()).astype(float))
    # of weights relative to the maximum, although the sum itself is only known to 1e-3
    onp.testing.assert_allclose(gradient, share / share.sum(), rtol=1e-4)


# -------------------------------------------------------------------------------------- derivatives by hand


@pytest.mark.parametrize("zeros", list(itertools.product([0, 1], repeat=4)))
def test_cumprod_is_exact_with_zeros(zeros):
    x = onp.where(zeros, 0.0, [2.0, -3.0, 0.5, 4.0])
    check_grads(lambda v: np.cumprod(v), (x,), order=3)
    check_grads(lambda v: lax.cumprod(v, reverse=True), (x,), order=2)
    weights = onp.array([1.0, 10.0, 100.0, 1000.0])
    by_hand = [
        sum(weights[k] * onp.prod([x[j] for j in range(k + 1) if j != i]) for k in range(i, 4)) for i in range(4)
    ]
    onp.testing.assert_array_equal(onp.asarray(ng.grad(lambda v: np.sum(np.cumprod(v) * weights))(x)), by_hand)


ROUTES = [  # function, operand, gradient of the sum of its results weighted 1, 10, 100 ...
    (lax.cummax, [1, 1, 2], [1, 10, 100]),
    (lax.cummax, [2, 1, 2], [11, 0, 100]),
    (lax.cummax, [3, 1, 2], [111, 0, 0]),
    (lax.cummax, [1, NAN, 5, NAN], [1, 110, 0, 1000]),
    (lax.cummax, [-INF, -INF], [1, 10]),
    (lax.cummax, [0.0, -0.0], [1, 10]),
    (lax.cummin, [1, 1, 2], [1, 110, 0]),
    (lax.cummin, [NAN, 1, 0], [111, 0, 0]),
    (lambda v: lax.cummax(v, reverse=True), [2, 1, 2], [1, 0, 110]),
    (lambda v: lax.cummin(v, reverse=True), [1, 1, 2], [1, 10, 100]),
    (lax.cumlogsumexp, [-INF, -INF], [0, 0]),
    (lax.cumlogsumexp, [-INF, 0], [0, 10]),
    (lax.cumlogsumexp, [INF, 0, INF], [1 + 10 + 50, 0, 50]),
    (lax.cumlogsumexp, [0, INF, 1], [1, 110, 0]),
    (lax.cumlogsumexp, [0, 0], [6, 5]),
    (np.cumsum, [1, NAN, 1], [111, 110, 100]),
]


@pytest.mark.parametrize(("function", "x", "grad"), ROUTES)
def test_where_derivatives_go(function, x, grad):
    x = onp.array(x, float)
    weights = 10.0 ** onp.arange(x.size)
    got = onp.asarray(ng.vjp(function, x)[1](weights)[0])
    onp.testing.assert_allclose(got, grad, rtol=1e-14)
    inner_product_identity(function, (x,))


@pytest.mark.parametrize("reverse", [False, True])
def test_higher_orders(reverse):
    x = onp.random.default_rng(0).standard_normal((3, 4))
    for f in (lax.cumprod, lax.cumlogsumexp, lax.cummax, lambda v, *a: lax.linear_recurrence(v, np.sin(v), *a)):
        for axis in (0, 1):
            check_grads(lambda v, f=f, k=axis: f(v, k, reverse), (x,), order=3)


def test_zero_is_absorbing():
    """A running product that is 0 passes no inf or nan back, nor does a zero cotangent."""
    x = onp.array([0.0, INF, NAN])
    for reverse in (False, True):
        still = lambda v, r=reverse: lax.linear_recurrence(v, onp.zeros(3), reverse=r)
        assert ng.grad(lambda v, f=still: np.sum(f(v)))(x).tolist() == [0, 0, 0]
        assert ng.jvp(still, (x,), (onp.ones(3),))[1].tolist() == [0, 0, 0]
    assert ng.grad(lambda v: np.cumprod(v)[0])(onp.array([2.0, INF, NAN])).tolist() == [1, 0, 0]
    assert ng.grad(lambda v: lax.cumlogsumexp(v)[0])(onp.array([2.0, INF, NAN])).tolist() == [1, 0, 0]


# ------------------------------------------------------------------------------------------ linear recurrence


def recurrence(a, b):
    y = onp.zeros(b.shape)
    for k in range(len(b)):
        y[k] = b[k] + (a[k] * y[k - 1] if k else 0)
    return y


@pytest.mark.parametrize("shape", [(6,), (5, 1), (5, 3), (4, 2, 3), (1, 2), (0,), (9, 300)])
def test_recurrence(shape):
    rng = onp.random.default_rng(0)
    a, b = rng.uniform(-1, 1, shape), rng.standard_normal(shape)
    for axis in range(len(shape)):
        for reverse in (False, True):
            move = lambda v, k=axis, r=reverse: onp.flip(onp.moveaxis(v, k, 0), 0) if r else onp.moveaxis(v, k, 0)
            got = move(onp.asarray(lax.linear_recurrence(a, b, axis, reverse)))
            onp.testing.assert_allclose(got, recurrence(move(a), move(b)), rtol=1e-13, atol=1e-14)


def test_recurrence_broadcasts_and_promotes():
    b = onp.array([[1, 2], [3, 4]])
    got = lax.linear_recurrence(0.5, b, axis=0)
    assert got.tolist() == [[1.0, 2.0], [3.5, 5.0]] and got.dtype == onp.float64
    assert lax.linear_recurrence(onp.float32(0.5), onp.ones(3, onp.float32)).dtype == onp.float32
    check_grads(lambda d: lax.linear_recurrence(d, onp.ones((2, 4)), axis=1), (0.7,), order=3)
    check_grads(lambda d: lax.linear_recurrence(d, b * 1.0, axis=-1), (onp.array([[0.7], [0.2]]),), order=2)
    z = onp.array([1 + 1j, 0.5j, 2.0])
    check_grads(lambda a, b: lax.linear_recurrence(a, b), (z, z[::-1]), order=2)


# ----------------------------------------------------------------------------------- NumPy's other names


def test_names_that_ignore_nan():
    x = onp.array([[1.0, NAN, 2.0], [NAN, 3.0, 4.0]])
    for name in ("nancumsum", "nancumprod"):
        for axis in (None, 0, 1):
            close(getattr(np, name)(x, axis), getattr(onp, name)(x, axis))
        inner_product_identity(getattr(np, name), (x,))
    close(np.nancumsum([1, 2]), onp.array([1, 3]))


def test_names_of_the_array_standard():
    x = onp.arange(1, 7).reshape(2, 3)
    for name in ("cumulative_sum", "cumulative_prod"):
        for options in (dict(axis=0), dict(axis=-1, include_initial=True), dict(axis=1, dtype=onp.float32)):
            close(getattr(np, name)(x, **options), getattr(onp, name)(x, **options))
        close(getattr(np, name)(x[0], include_initial=True), getattr(onp, name)(x[0], include_initial=True))
        with pytest.raises(ValueError, match="axis must be named"):
            getattr(np, name)(x)
    check_grads(lambda v: np.cumulative_prod(v, include_initial=True), (onp.array([2.0, 3.0]),))


def test_numbers_empties_and_out():
    close(np.cumsum(3.0), onp.cumsum(3.0))
    close(np.cumprod(onp.zeros((0, 2))), onp.zeros(0))
    out = np.zeros(3)
    assert np.cumsum([1, 2, 3], out=out) is out and out.tolist() == [1, 3, 6]
    x = np.asarray([[1.0, 2.0], [3.0, 4.0]])
    close(x.cumsum(), onp.array([1.0, 3, 6, 10]))
    close(x.cumprod(0), onp.array([[1.0, 2], [3, 8]]))
    assert isinstance(onp.cumsum(x), ng.Array)
    close(np.cumsum([True, True], dtype=bool), onp.cumsum([True, True], dtype=bool))
    close(np.cumprod([True, False, True], dtype=bool), onp.cumprod([True, False, True], dtype=bool))


UFUNCS = list(
    itertools.product(["add", "multiply", "maximum", "minimum"], [onp.float64, onp.float32, onp.int8, onp.uint16])
)


@pytest.mark.parametrize(("name", "dtype"), [*UFUNCS, ("logaddexp", onp.float64), ("logaddexp", onp.float32)])
def test_methods_of_ufuncs(name, dtype):
    """np.add.accumulate(x) and np.add.reduce(x), called here or through NumPy."""
    x = onp.array([[1, 5, 2], [4, 0, 3]], dtype)
    ours, theirs = getattr(np, name), getattr(onp, name)
    for axis in (0, 1, -1):
        want = theirs.accumulate(x, axis)
        close(ours.accumulate(x, axis), want)
        got = theirs.accumulate(np.asarray(x), axis=axis)
        assert isinstance(got, ng.Array)
        close(got, want)
        close(ours.reduce(x, axis), theirs.reduce(x, axis))
        close(theirs.reduce(np.asarray(x), axis=axis, keepdims=True), theirs.reduce(x, axis=axis, keepdims=True))
    close(ours.reduce(x), theirs.reduce(x))
    close(ours.accumulate(x, dtype=onp.float64), theirs.accumulate(x, dtype=onp.float64))
    if onp.dtype(dtype).kind == "f":
        check_grads(lambda v: theirs.accumulate(v, axis=1), (onp.array([[0.5, 1.5, 2.5], [4.5, 3.5, 1.5]]),), order=2)


def test_methods_of_logical_ufuncs():
    x = onp.array([[True, False], [True, True]])
    for name in ("logical_and", "logical_or"):
        close(getattr(np, name).reduce(x, 1), getattr(onp, name).reduce(x, 1))
        close(getattr(onp, name).reduce(np.asarray(x), axis=0), getattr(onp, name).reduce(x, axis=0))


REFUSED = [
    (lambda: np.cumsum(onp.ones(3), 1), onp.exceptions.AxisError, "axis out of range"),
    (lambda: np.cumsum(3.0, 1), onp.exceptions.AxisError, "axis out of range"),
    (lambda: lax.cumsum(3.0), ValueError, "no axis"),
    (lambda: lax.cumsum(onp.ones(2, bool)), TypeError, "truth"),
    (lambda: lax.cummax(onp.ones(2, complex)), TypeError, "no order"),
    (lambda: lax.cumlogsumexp(onp.ones(2, complex)), TypeError, "no order"),
    (lambda: lax.cummax(1.0), ValueError, "no axis"),
    (lambda: lax.linear_recurrence(onp.ones(3), onp.ones(2)), ValueError, "broadcast"),
    (lambda: lax.linear_recurrence(1.0, 1.0), ValueError, "no axis"),
    (lambda: np.cumulative_sum(1.0), ValueError, "axis"),
    (lambda: np.add.accumulate(1.0), TypeError, "a number"),
]


@pytest.mark.parametrize(("call", "error", "match"), REFUSED)
def test_refusals(call, error, match):
    with pytest.raises(error, match=match):
        call()
