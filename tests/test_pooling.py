"""Pooling of layers: against windows taken by NumPy, torch's cells, ties, zeros, three orders."""

import functools

import numpy as onp
import pytest
from samples.windows import elements

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import nn
from numbagrad.primitives.window import Axis
from numbagrad.testing import check_grads, inner_product_identity

INF, NAN = onp.inf, onp.nan


@pytest.fixture
def rng():
    """The same numbers for every test, whichever ran before it."""
    return onp.random.default_rng(7)


def pooled(x, size, stride, pads, fold, identity):
    """Windows over the axes between the first and the last."""
    axes = (
        Axis(x.shape[0]),
        *(Axis(n, k, s, *p) for n, k, s, p in zip(x.shape[1:], size, stride, pads)),
        Axis(x.shape[-1]),
    )
    values, there = elements(x, axes, identity)
    return fold(values, there)


@pytest.mark.parametrize("channel_axis", [-1, 1, 3])
def test_pools(channel_axis, rng):
    x = rng.standard_normal((2, 6, 5, 3))
    size, stride, pads = (3, 2), (2, 1), ((1, 1), (0, 1))
    given = onp.moveaxis(x, -1, channel_axis)
    back = lambda y: onp.moveaxis(onp.asarray(y), channel_axis, -1)
    options = dict(channel_axis=channel_axis)
    reference = functools.partial(pooled, x, size, stride, pads)
    mean = lambda v, there: v.sum(-1) / there.sum(-1)
    close = functools.partial(onp.testing.assert_allclose, rtol=1e-13)
    close(back(nn.max_pool(given, size, stride, pads, **options)), reference(lambda v, _: v.max(-1), -INF))
    close(back(nn.min_pool(given, size, stride, pads, **options)), reference(lambda v, _: v.min(-1), INF))
    close(back(nn.avg_pool(given, size, stride, pads, **options)), reference(lambda v, _: v.mean(-1), 0))
    close(back(nn.avg_pool(given, size, stride, pads, False, **options)), reference(mean, 0))
    for p in (1, 2, 3, 2.5):
        norm = lambda v, _, p=p: (abs(v) ** p).sum(-1) ** (1 / p)
        close(back(nn.lp_pool(given, p, size, stride, pads, **options)), reference(norm, 0))
    close(back(nn.lp_pool(given, INF, size, stride, pads, **options)), reference(lambda v, _: abs(v).max(-1), 0))
    close(back(nn.global_avg_pool(given, keepdims=True, **options)), x.mean((1, 2), keepdims=True))
    close(nn.global_max_pool(given, **options), x.max((1, 2)))


def test_defaults_and_unbatched(rng):
    x = rng.standard_normal((6, 3))
    onp.testing.assert_array_equal(nn.max_pool(x, (2,)), onp.maximum(x[1:], x[:-1]))
    onp.testing.assert_array_equal(nn.max_pool(x, (2,), dilation=(3,)), onp.maximum(x[3:], x[:-3]))
    onp.testing.assert_array_equal(nn.max_pool(x, (2, 2), channel_axis=None).shape, (5, 2))
    assert nn.max_pool(x, (3,), (2,), "SAME").shape == (3, 3)
    ints = nn.avg_pool(onp.arange(6).reshape(6, 1), (2,), (2,))
    assert ints.dtype == onp.float64 and ints.ravel().tolist() == [0.5, 2.5, 4.5]
    assert nn.max_pool(onp.arange(6).reshape(6, 1), (2,), (2,)).dtype == onp.int64
    onp.testing.assert_allclose(nn.avg_pool(x * (1 + 1j), (2,)), nn.avg_pool(x, (2,)) * (1 + 1j))
    assert nn.avg_pool(x, (2,), padding=((2, 0),), count_include_pad=False)[0].tolist() == [0, 0, 0]


def adaptive(x, sizes, fold):
    for k, m in enumerate(sizes, 1):
        n = x.shape[k]
        cells = [onp.moveaxis(x, k, 0)[i * n // m : -(-(i + 1) * n // m)] for i in range(m)]
        x = onp.moveaxis(onp.stack([fold(c, 0) for c in cells]), 0, k) if m else x[:, :0] if k == 1 else x[:, :, :0]
    return x


@pytest.mark.parametrize("sizes", [(2, 3), (3, 2), (4, 5), (7, 9), (6, 0), (1, 1)])
def test_adaptive_pools(sizes, rng):
    x = rng.permutation(180).reshape(2, 6, 5, 3) / 50.0  # no two nearer than the step of differences
    onp.testing.assert_allclose(nn.adaptive_avg_pool(x, sizes), adaptive(x, sizes, onp.mean), rtol=1e-13)
    onp.testing.assert_array_equal(nn.adaptive_max_pool(x, sizes), adaptive(x, sizes, onp.max))
    check_grads(lambda x: nn.adaptive_avg_pool(x, sizes), (x,), order=1)
    check_grads(lambda x: nn.adaptive_max_pool(x, sizes), (x,), order=1)
    single = nn.adaptive_avg_pool(x.astype(onp.float32), sizes)
    assert single.dtype == onp.float32
    assert nn.adaptive_max_pool(x, (None, 2)).shape == (2, 6, 2, 3)


def test_an_adaptive_mean_keeps_nan_in_its_cells():
    x = onp.array([1.0, NAN, 3.0, 4.0, INF])[None, :, None]
    onp.testing.assert_array_equal(nn.adaptive_avg_pool(x, 3).ravel(), [NAN, NAN, INF])


def test_ties_of_adaptive_and_global_pools_go_to_the_first():
    x = onp.ones((1, 5, 5, 1))
    want = onp.zeros((5, 5))
    want[onp.ix_([0, 1, 3], [0, 1, 3])] = 1
    assert ng.grad(lambda x: np.sum(nn.adaptive_max_pool(x, 3)))(x)[0, :, :, 0].tolist() == want.tolist()
    assert ng.grad(lambda x: np.sum(nn.global_max_pool(x)))(x).ravel().tolist() == [1.0] + [0.0] * 24


POOLS = {
    "max": lambda x: nn.max_pool(x, (2, 2), (2, 1), "SAME"),
    "avg": lambda x: nn.avg_pool(x, (2, 2), (2, 1), "SAME", False),
    "lp 2": lambda x: nn.lp_pool(x, 2, (2, 2), (2, 1), "SAME"),
    "lp 3": lambda x: nn.lp_pool(x, 3, (2, 2), (2, 1), "SAME"),
    "global": lambda x: nn.global_avg_pool(x) * nn.global_max_pool(x),
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("order", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_derivatives_of_pools(name, order, rng):
    f = POOLS[name]
    x = rng.uniform(0.5, 2.0, (1, 4, 3, 2)) * rng.choice([-1.0, 1.0], (1, 4, 3, 2))
    check_grads(lambda x: f(x) ** 2 * x[:, :1, :1], (x,), order=order)


@pytest.mark.parametrize("p", [1, 1.5, 2, 3, INF])
def test_norm_of_zeros(p):
    x = onp.array([0.0, 0.0, 3.0, 0.0, 0.0])[:, None]
    f = lambda x: np.sum(nn.lp_pool(x, p, (2,)))
    # a power and its root: a few roundings
    onp.testing.assert_allclose(ng.grad(f)(x).ravel(), [0, 0, 2, 0, 0], rtol=1e-14, atol=0)
    assert onp.isfinite(onp.asarray(ng.jvp(f, (x,), (onp.ones_like(x),))[1]))
    assert onp.isnan(onp.asarray(nn.lp_pool(onp.array([[NAN], [0.0]]), p, (2,)))).all()


def test_modes_agree_where_nothing_is_smooth():
    for x in ([1.0, 1.0, 1.0, 1.0], [NAN, 1.0, NAN, 2.0], [-INF, -INF, 0.0, INF]):
        for f in (POOLS["max"], lambda x: nn.min_pool(x, (3, 1), (1, 1), "SAME")):
            inner_product_identity(lambda x, f=f: f(x[None, :, None, None]), (onp.array(x),))


def test_one_integer_is_that_of_every_spatial_axis():
    x = onp.random.default_rng(0).normal(size=(2, 6, 8, 3))
    for pool in (nn.max_pool, nn.min_pool, nn.avg_pool, lambda x, *a: nn.lp_pool(x, 3, *a)):
        want = pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))
        for one in (pool(x, 3, 2, 1), pool(x, onp.int64(3), onp.array(2), onp.int64(1))):
            onp.testing.assert_array_equal(one, want)
        onp.testing.assert_array_equal(pool(x, onp.array([3, 3]), onp.array([2, 2]), onp.ones((2, 2), int)), want)
    dilated = nn.max_pool(x, 2, dilation=2)
    onp.testing.assert_array_equal(dilated, nn.max_pool(x, (2, 2), dilation=(2, 2)))
    for size in (onp.array([2, 4]), [2, 4]):
        onp.testing.assert_array_equal(nn.adaptive_avg_pool(x, size), nn.adaptive_avg_pool(x, (2, 4)))
    onp.testing.assert_array_equal(nn.adaptive_max_pool(x, onp.array(2)), nn.adaptive_max_pool(x, (2, 2)))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: nn.max_pool(x, 2.0), "max_pool: window_dimensions is not made of integers"),
        (lambda x: nn.max_pool(x, None), "max_pool: window_shape is no sequence"),
        (lambda x: nn.max_pool(x, 2, 1.5), "max_pool: window_strides is not made of integers"),
        (lambda x: nn.avg_pool(x, 2, 2, (1, 1)), "avg_pool: padding is not made of pairs"),
        (lambda x: nn.avg_pool(x, 2, 2, 0.5), "avg_pool: padding is not made of pairs"),
        (lambda x: nn.adaptive_avg_pool(x, 2.5), "adaptive_avg_pool: output_size is not made of integers"),
    ],
)
def test_windows_are_integers(call, words):
    with pytest.raises(TypeError, match=f"^{words}"):
        call(onp.ones((1, 4, 4, 1)))
