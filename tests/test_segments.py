"""Reductions over segments against plain NumPy: values, gradients, edges, threads."""

import numpy as onp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from processes import run
from samples.segments import highest, logsumexp, lowest, members, place, reduced, shares, softmax

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad.kernels.cpu import segment as kernels
from numbagrad.testing import check_grads, inner_product_identity, tolerance

pytestmark = pytest.mark.xdist_group("segments")

options = dict(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
quick, slow = settings(max_examples=60, **options), settings(max_examples=700, **options)

INF, NAN = onp.inf, onp.nan
NAMES = ("sum", "prod", "max", "min", "mean", "logsumexp", "softmax")
MODES = {"drop": "drop", "clip": "clamp", "wrap": "wrap", None: "drop", "promise_in_bounds": "drop", "fill": "drop"}


def of(name):
    return getattr(ng.ops, f"segment_{name}")


def value(name, x, ids, segments, mode):
    """What NumPy makes of it, rows first."""
    if name == "softmax":
        return softmax(x, ids, segments, mode)
    f, start = {
        "sum": (lambda v: v.sum(axis=0), 0),
        "prod": (lambda v: v.prod(axis=0), 1),
        "max": (lambda v: v.max(axis=0), lowest(x.dtype)),
        "min": (lambda v: v.min(axis=0), highest(x.dtype)),
        "mean": (lambda v: v.mean(axis=0), 0),
        "logsumexp": (logsumexp, lowest(x.dtype)),
    }[name]
    return reduced(f, start, x, ids, segments, mode)


def gradient(name, x, ids, segments, mode, ct):
    """What the cotangent comes to, row by row."""
    out = onp.zeros(x.shape, x.dtype)
    for s, rows in enumerate(members(ids, segments, mode)):
        v, n = x[rows], len(rows)
        if name == "sum":
            out[rows] = ct[s]
        elif name == "mean":
            out[rows] = ct[s] / max(1, n)
        elif name == "prod":
            for k, row in enumerate(rows):
                out[row] = ct[s] * onp.delete(v, k, 0).prod(axis=0)
        elif n and name == "logsumexp":
            out[rows] = ct[s] * onp.exp(v - logsumexp(v))
        elif n and name == "softmax":
            y = onp.exp(v - logsumexp(v))
            out[rows] = y * (ct[rows] - (ct[rows] * y).sum(axis=0))
    if name in ("max", "min"):
        at = place(ids, segments, mode)
        spread = onp.where((at >= 0).reshape((-1,) + (1,) * (x.ndim - 1)), ct[at] if segments else 0, 0)
        out = shares(x, ids, value(name, x, ids, segments, mode), mode) * spread
    return out


@st.composite
def problems(draw):
    """Rows with ties and zeros, ids of which some are out of range."""
    n, segments = draw(st.integers(0, 9)), draw(st.integers(0, 5))
    rest = draw(st.sampled_from([(), (1,), (3,), (2, 2), (0,)]))
    rng = onp.random.default_rng(draw(st.integers(0, 2**32)))
    x = rng.integers(-2, 3, (n, *rest)).astype(draw(st.sampled_from(["float64", "float32"])))
    low = draw(st.sampled_from([0, -3]))
    ids = rng.integers(low, segments + draw(st.integers(0, 2)) + 1, n)
    ids = ids.astype(draw(st.sampled_from(["int8", "int16", "int32", "int64"])))
    return x, ids, segments, draw(st.sampled_from(list(MODES))), draw(st.integers(0, len(rest))), rng


def check(problem, name):
    x, ids, segments, mode, axis, rng = problem
    how = MODES[mode]
    f = lambda v: of(name)(v, ids, segments, mode=mode, axis=axis)
    data = onp.moveaxis(x, 0, axis)
    got, pull = ng.vjp(f, data)
    want = onp.moveaxis(value(name, x, ids, segments, how), 0, axis)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    onp.testing.assert_allclose(onp.asarray(got), want, **tolerance(x.dtype))
    ct = rng.integers(-2, 3, want.shape).astype(x.dtype)
    want = gradient(name, x, ids, segments, how, onp.moveaxis(ct, axis, 0))
    onp.testing.assert_allclose(onp.asarray(pull(ct)[0]), onp.moveaxis(want, 0, axis), **tolerance(x.dtype))
    if x.dtype == float and x.size:
        inner_product_identity(f, (data,))


@pytest.mark.parametrize("name", NAMES)
@quick
@given(problem=problems())
def test_values_and_gradients(name, problem):
    check(problem, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@slow
@given(problem=problems())
def test_many_values_and_gradients(name, problem):
    check(problem, name)


@pytest.mark.parametrize("name", NAMES)
def test_lengths_and_offsets_are_ids(name):
    x = onp.random.default_rng(0).normal(size=(6, 2))
    want = onp.asarray(of(name)(x, [0, 0, 2, 2, 2, 3], 4))
    onp.testing.assert_array_equal(onp.asarray(of(name)(x, lengths=[2, 0, 3, 1])), want)
    onp.testing.assert_array_equal(onp.asarray(of(name)(x, offsets=np.asarray([0, 2, 2, 5, 6]))), want)
    onp.testing.assert_array_equal(onp.asarray(of(name)(x, lengths=[2, 0, 3, 1], bucket_size=2)), want)


def test_number_of_segments():
    assert ng.ops.segment_sum(onp.ones(3), [0, 3, 3]).tolist() == [1, 0, 0, 2]
    assert ng.ops.segment_sum(onp.ones(0), onp.zeros(0, int)).shape == (0,)
    assert ng.ops.segment_sum(onp.ones(2), [-1, -5]).shape == (0,)
    assert ng.ops.segment_sum(onp.ones(3), lengths=[1, 2], num_segments=3).tolist() == [1, 2, 0]


def test_ids_over_several_axes():
    x, ids = onp.arange(12.0).reshape(3, 2, 2), onp.array([[0, 1], [1, 1], [2, 0]])
    want = [[x[0, 0] + x[2, 1]], [x[0, 1] + x[1, 0] + x[1, 1]], [x[2, 0]]]
    onp.testing.assert_array_equal(onp.asarray(ng.ops.segment_sum(x, ids)), onp.concatenate(want))
    assert ng.ops.segment_softmax(x, ids).shape == x.shape
    turned = x.transpose(2, 0, 1)
    onp.testing.assert_array_equal(onp.asarray(ng.ops.segment_sum(turned, ids, axis=1)), onp.concatenate(want).T)
    onp.testing.assert_array_equal(
        onp.asarray(ng.ops.segment_softmax(turned, ids, axis=1)),
        onp.asarray(ng.ops.segment_softmax(x, ids)).transpose(2, 0, 1),
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_integers(dtype):
    x, ids = onp.array([3, 1, 2, 5], dtype), onp.array([0, 0, 2, 7])
    info = onp.iinfo(dtype)
    for name, want in (
        ("sum", [4, 0, 2]),
        ("prod", [3, 1, 2]),
        ("max", [3, info.min, 2]),
        ("min", [1, info.max, 2]),
    ):
        got = of(name)(x, ids, 3)
        assert got.dtype == x.dtype and got.tolist() == want, name
    assert ng.ops.segment_mean(x, ids, 3).tolist() == [2.0, 0.0, 2.0]
    assert ng.ops.segment_softmax(x, ids, 3).dtype == onp.float64


def test_booleans():
    x, ids = onp.array([True, False, False]), [0, 0, 2]
    assert ng.ops.segment_max(x, ids, 4).tolist() == [True, False, False, False]
    assert ng.ops.segment_min(x, ids, 4).tolist() == [False, True, False, True]
    for name in ("sum", "prod"):
        with pytest.raises(TypeError, match="booleans"):
            of(name)(x, ids)


# --------------------------------------------------------------------------------------------- the contract


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("ct", [3.0, -3.0])
def test_ties_share_whatever_the_sign(name, ct):
    x, ids = onp.array([2.0, 2.0, 2.0, NAN, 7.0, NAN]), onp.array([0, 0, 0, 1, 1, 1])
    got = ng.vjp(lambda v: of(name)(v, ids, 3), x)[1](onp.full(3, ct))[0]
    onp.testing.assert_allclose(onp.asarray(got), [ct / 3] * 3 + [ct / 2, 0, ct / 2])


def test_products_with_zeros_to_third_order():
    ids = onp.array([0, 1, 0, 0, 1, -1])
    x = onp.array([0.0, 0.0, 0.0, 3.0, 5.0, 9.0])
    f = lambda v: np.sum(ng.ops.segment_prod(v, ids, 2))
    onp.testing.assert_array_equal(onp.asarray(ng.grad(f)(x)), [0, 5, 0, 0, 0, 0])
    second, third = onp.zeros((6, 6)), onp.zeros((6, 6, 6))
    second[0, 2] = second[2, 0] = 3
    second[1, 4] = second[4, 1] = 1
    for i, j, k in [(0, 2, 3), (0, 3, 2), (2, 0, 3), (2, 3, 0), (3, 0, 2), (3, 2, 0)]:
        third[i, j, k] = 1
    onp.testing.assert_array_equal(onp.asarray(ng.hessian(f)(x)), second)
    for jacobian in (ng.jacrev, ng.jacfwd):
        onp.testing.assert_array_equal(onp.asarray(jacobian(ng.hessian(f))(x)), third)


def test_products_of_long_segments():
    """Many levels of the tree, and segments of very different lengths."""
    rng = onp.random.default_rng(0)
    ids = rng.integers(0, 5, 300) ** 2
    x = rng.uniform(0.9, 1.1, 300)
    out, pull = ng.vjp(lambda v: ng.ops.segment_prod(v, ids, 17), x)
    onp.testing.assert_allclose(onp.asarray(pull(onp.ones(17))[0]), onp.asarray(out)[ids] / x, rtol=1e-12)


def test_sums_of_exponentials_at_the_edges():
    x = onp.array([-INF, -INF, -INF, 0.0, INF, 0.0, INF, 1e4, 1e4 + 1, 5.0])
    ids = onp.array([0, 0, 1, 1, 2, 2, 2, 3, 3, 9])
    p = 1 / (1 + onp.exp(-1.0))
    want = [0, 0, 0, 1, 0.5, 0, 0.5, 1 - p, p, 0]
    f = lambda v: ng.ops.segment_logsumexp(v, ids, 5)
    onp.testing.assert_allclose(onp.asarray(f(x)), [-INF, 0, INF, 1e4 + 1 - onp.log(p), -INF], rtol=1e-15)
    onp.testing.assert_allclose(onp.asarray(ng.ops.segment_softmax(x, ids, 5)), want, rtol=1e-12)
    onp.testing.assert_allclose(onp.asarray(ng.vjp(f, x)[1](onp.ones(5))[0]), want, rtol=1e-12)
    inner_product_identity(f, (x,))
    inner_product_identity(lambda v: ng.ops.segment_softmax(v, ids, 5), (x,))


@pytest.mark.parametrize("name", NAMES)
def test_nan_stays_in_its_segment(name):
    x, ids = onp.array([1.0, NAN, 2.0, 3.0]), onp.array([0, 0, 1, 1])
    out, pull = ng.vjp(lambda v: of(name)(v, ids, 2), x)
    last = onp.asarray(out)[-1]
    assert onp.isnan(onp.asarray(out)[0]) and onp.isfinite(last)
    assert onp.isfinite(onp.asarray(pull(onp.ones(out.shape))[0])[2:]).all()


@pytest.mark.parametrize("name", NAMES)
def test_zero_is_absorbing(name):
    """A cotangent of 0 for the segment with inf and nan in it."""
    x, ids = onp.array([INF, NAN, 2.0, 3.0]), onp.array([0, 0, 1, 1])
    ct = onp.array([0.0, 0.0, 1.0, 1.0]) if name == "softmax" else onp.array([0.0, 1.0])
    got = onp.asarray(ng.vjp(lambda v: of(name)(v, ids, 2), x)[1](ct)[0])
    assert onp.isfinite(got[2:]).all()
    if name not in ("prod", "softmax"):
        assert (got[:2] == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_third_order_at_large_inputs(name):
    big = 300.0 if name in ("logsumexp", "softmax") else 0.0
    x = onp.random.default_rng(1).normal(size=7) + big
    check_grads(lambda v: of(name)(v, onp.array([0, 2, 2, 0, 2, 1, 1]), 3), (x,), order=3)


# ------------------------------------------------------------------------------------- many rows, threads


@pytest.mark.parametrize("rest", [(), (3,)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
def test_many_rows(dtype, rest):
    """Enough rows for tables of their own."""
    rng = onp.random.default_rng(2)
    n, segments = 50_000, 700
    assert kernels.pieces_of(n, segments) > 1
    x = (rng.normal(size=(n, *rest)) * 50).astype(dtype)
    ids = rng.integers(-5, segments + 5, n).astype("int32")
    at = place(ids, segments, "drop")
    kept, wide = at >= 0, "int32" if dtype == "int32" else "float64"
    for name, ufunc, start in (
        ("sum", onp.add, 0),
        ("max", onp.maximum, lowest(dtype)),
        ("min", onp.minimum, highest(dtype)),
    ):
        want = onp.full((segments, *rest), start, wide)
        ufunc.at(want, at[kept], x[kept].astype(wide))
        got = onp.asarray(of(name)(x, ids, segments))
        onp.testing.assert_allclose(got, want, rtol=1e-6 if dtype == "float32" else 1e-11, atol=1e-9)
        if dtype == "int32":
            continue
        ct = rng.normal(size=want.shape).astype(dtype)
        share = 1 if name == "sum" else (x == got[at]) & kept.reshape((-1,) + (1,) * len(rest))
        spread = onp.where(kept.reshape((-1,) + (1,) * len(rest)), ct[at], 0)
        pulled = ng.vjp(lambda v, name=name: of(name)(v, ids, segments), x)[1](ct)[0]
        onp.testing.assert_array_equal(onp.asarray(pulled), (spread * share).astype(dtype))


@pytest.mark.parametrize("rest", [(), (3,)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_exponentials_of_many_rows(dtype, rest):
    """Blocks with and without ids out of range or infinite rows."""
    rng = onp.random.default_rng(6)
    n, segments = 50_000, 700
    x, ids = (rng.normal(size=(n, *rest)) * 3).astype(dtype), rng.integers(0, segments, n)
    x[20_000:20_005], ids[30_000:30_005], ids[ids == 9] = -INF, -1, 8
    x[ids == 7] = -INF
    at, e = place(ids, segments, "drop"), onp.exp(x.astype(float))
    total = onp.zeros((segments, *rest))
    onp.add.at(total, at[at >= 0], e[at >= 0])
    tight = dict(rtol=1e-5 if dtype == "float32" else 1e-12)
    with onp.errstate(divide="ignore"):
        onp.testing.assert_allclose(
            onp.asarray(ng.ops.segment_logsumexp(x, ids, segments)), onp.log(total), atol=1e-6, **tight
        )
    want = onp.where((at >= 0).reshape((-1,) + (1,) * len(rest)), e / onp.where(total == 0, 1, total)[at], 0)
    onp.testing.assert_allclose(onp.asarray(ng.ops.segment_softmax(x, ids, segments)), want, **tight)


def test_ties_of_many_rows():
    """Counts from several tables."""
    n, segments = 40_000, 3
    x, ids = onp.ones(n, onp.float32), onp.arange(n) % segments
    assert kernels.pieces_of(n, segments) > 1
    got = onp.asarray(ng.grad(lambda v: np.sum(ng.ops.segment_max(v, ids, segments)))(x))
    counts = onp.bincount(ids)
    onp.testing.assert_array_equal(got, (1 / counts.astype(onp.float32))[ids])


def test_no_update_is_lost():
    n = 600_000
    ids = onp.arange(n) % 3
    assert ng.ops.segment_sum(np.ones(n), ids, 3).tolist() == [n / 3] * 3
    assert np.zeros(3).at[ids].add(1.0).tolist() == [n / 3] * 3
    assert ng.grad(lambda t: np.sum(t[ids]))(onp.ones(3)).tolist() == [n / 3] * 3


def test_float32_sums_do_not_lose_terms():
    n = 1 << 20
    got = ng.ops.segment_sum(onp.full(n, 0.1, "float32"), onp.zeros(n, "int32"), 1)
    want = n * float(onp.float32(0.1))
    assert abs(float(got[0]) - want) <= want * 2**-23


THREADS = """
import json, numbagrad as ng, numbagrad.numpy as np, numpy as onp
r = onp.random.default_rng(0)
found = []
for dtype in ("float64", "float32"):
    for shape in ((300_000,), (60_000, 5), (2000, 600)):
        x, ids = r.normal(size=shape).astype(dtype), r.integers(-1, 90, shape[0])
        for name in ("sum", "prod", "max", "logsumexp", "softmax"):
            f = lambda v: np.sum(np.sin(getattr(ng.ops, "segment_" + name)(v, ids, 89)))
            found += [onp.asarray(p).tobytes().hex()[:20000] for p in ng.value_and_grad(f)(x)]
        found.append(onp.asarray(np.zeros((89, *shape[1:])).at[ids].add(x, mode="drop")).tobytes().hex())
import hashlib
print(json.dumps([hashlib.sha256(f.encode()).hexdigest() for f in found]))
"""


def test_the_same_for_any_number_of_threads():
    one, *others = (run(THREADS, NUMBAGRAD_NUM_THREADS=n) for n in (1, 2, 5))
    assert all(other == one for other in others)


# --------------------------------------------------------------------------------------------------- errors

X = onp.ones((4, 2))
WRONG = [
    (dict(), TypeError, "exactly one"),
    (dict(segment_ids=[0] * 4, lengths=[4]), TypeError, "exactly one"),
    (dict(segment_ids=[0.0] * 4), TypeError, "segment_ids are not integers: got float64"),
    (dict(segment_ids=[0, 1]), ValueError, r"segment_ids do not match data: got \(2,\) for data \(4, 2\)"),
    (dict(segment_ids=[[0], [1], [1], [0]]), ValueError, "do not match"),
    (dict(segment_ids=0), ValueError, "do not match"),
    (dict(segment_ids=[0] * 4, num_segments=-1), ValueError, "num_segments"),
    (dict(segment_ids=[0] * 4, num_segments=1.5), TypeError, "float"),
    (dict(segment_ids=[0] * 4, mode="nearest"), ValueError, "no such mode"),
    (dict(segment_ids=[0] * 4, axis=2), ValueError, "axis"),
    (dict(lengths=[1, 2]), ValueError, "lengths do not cover the rows"),
    (dict(lengths=[5, -1]), ValueError, "lengths do not cover the rows"),
    (dict(offsets=[0, 3, 2, 4]), ValueError, "offsets do not cover the rows"),
    (dict(offsets=[1, 4]), ValueError, "offsets do not cover the rows"),
    (dict(offsets=[]), (TypeError, ValueError), "offsets"),
]


@pytest.mark.parametrize(("arguments", "error", "text"), WRONG)
@pytest.mark.parametrize("name", NAMES)
def test_errors(name, arguments, error, text):
    with pytest.raises(error, match=text):
        of(name)(X, **arguments)


def test_errors_of_dtypes():
    for name in ("max", "min", "logsumexp", "softmax"):
        with pytest.raises(TypeError, match="complex"):
            of(name)(X * 1j, [0] * 4)
    with pytest.raises(ValueError, match="no axis"):
        ng.ops.segment_sum(1.0, [0])
    with pytest.raises(TypeError, match="traced"):
        ng.grad(lambda v: np.sum(ng.ops.segment_sum(v, v)))(onp.ones(3))


def test_index_add():
    x, source = onp.zeros((2, 3)), onp.arange(4.0).reshape(2, 2)
    got = ng.ops.index_add(x, 1, [2, -1], source, alpha=2.0)
    assert got.tolist() == [[0, 0, 2], [0, 0, 10]]
    check_grads(lambda a, s: ng.ops.index_add(a, -1, onp.array([2, 2]), s, alpha=3), (x, source), order=2)
    check_grads(lambda a: ng.ops.index_add(x, -1, onp.array([2, 2]), source, alpha=a), (onp.asarray(2.0),), order=2)
    with pytest.raises(IndexError, match="out of range"):
        ng.ops.index_add(x, 1, [2, 3], source)
    with pytest.raises(ValueError, match="source"):
        ng.ops.index_add(x, 0, [1], source)
    with pytest.raises(TypeError, match="index"):
        ng.ops.index_add(x, 1, [1.0, 2.0], source)


@pytest.mark.parametrize("rows, n", [(3, 3), (3, 7), (20000, 7)])
def test_unsigned_ids_stay_large(rows, n):
    ids = onp.array([0, 1, 2**64 - 1] * (rows // 3), onp.uint64)
    for mode, far in (("clip", n - 1), ("wrap", (2**64 - 1) % n), ("drop", None)):
        want = onp.zeros(n)
        for k in (0, 1, far):
            if k is not None:
                want[k] += rows // 3
        assert ng.ops.segment_sum(onp.ones(ids.size), ids, n, mode=mode).tolist() == want.tolist()
