"""numbagrad.scipy: special functions and distributions against SciPy, derivatives, tails and edges."""

import mpmath
import numpy as onp
import pytest
from scipy import special, stats

import numbagrad as ng
from numbagrad.scipy import special as ours
from numbagrad.scipy import stats as our_stats
from numbagrad.testing import check_grads

INF = onp.inf
RNG = onp.random.default_rng(0)
REAL, POSITIVE, SHARE = RNG.normal(size=9) * 2, RNG.uniform(0.3, 5, 9), RNG.uniform(0.12, 0.88, 9)

FUNCTIONS = {
    "erf": (REAL,), "erfc": (REAL,), "erfinv": (SHARE,), "gammaln": (POSITIVE,), "digamma": (POSITIVE,),
    "gamma": (POSITIVE,), "expit": (REAL,), "logit": (SHARE,), "log_expit": (REAL,), "xlogy": (POSITIVE, SHARE),
    "xlog1py": (POSITIVE, SHARE), "entr": (POSITIVE,), "rel_entr": (POSITIVE, SHARE), "kl_div": (POSITIVE, SHARE),
    "log1p": (POSITIVE,), "expm1": (REAL,), "ndtr": (REAL,), "log_ndtr": (REAL,), "ndtri": (SHARE,),
    "beta": (POSITIVE, SHARE), "betaln": (POSITIVE, SHARE), "sinc": (REAL,), "exp2": (REAL,), "cbrt": (POSITIVE,),
    "logsumexp": (REAL,), "softmax": (REAL,), "log_softmax": (REAL,),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    args = FUNCTIONS[name]
    f = getattr(ours, name)
    reference = onp.sinc if name == "sinc" else getattr(special, name)
    onp.testing.assert_allclose(f(*args), reference(*args), rtol=2e-13, atol=1e-14)
    narrow = f(*(a.astype("f4") for a in args))
    assert narrow.dtype == onp.float32
    onp.testing.assert_allclose(narrow, reference(*(a.astype("f4").astype("f8") for a in args)), rtol=2e-5, atol=2e-6)
    check_grads(f, args, order=2)


EDGES = [
    ("entr", (0.0, -1.0, INF), (0.0, -INF, -INF)),
    ("ndtri", (0.0, 1.0, 0.5, -0.1), (-INF, INF, 0.0, onp.nan)),
    ("log_ndtr", (-INF, INF, 0.0), (-INF, 0.0, onp.log(0.5))),
    ("ndtr", (-INF, INF), (0.0, 1.0)),
    ("logit", (0.0, 1.0, 0.5, -1.0), (-INF, INF, 0.0, onp.nan)),
    ("gamma", (0.0, 1.0, 5.0, 171.0, 172.0, -0.5), (INF, 1.0, 24.0, special.gamma(171.0), INF, -2 * onp.pi**0.5)),
    ("gammaln", (0.0, -1.0, 1.0, 2.0), (INF, INF, 0.0, 0.0)),
]


@pytest.mark.parametrize(("name", "x", "want"), EDGES)
def test_edges(name, x, want):
    onp.testing.assert_allclose(getattr(ours, name)(onp.array(x)), want, rtol=1e-14)
    assert onp.isnan(getattr(ours, name)(onp.nan))


def test_entropy_edges():
    x, y = onp.array([0.0, 0.0, 1.0, -1.0, onp.nan]), onp.array([1.0, 0.0, 0.0, 1.0, 1.0])
    for name in ("rel_entr", "kl_div"):
        onp.testing.assert_array_equal(getattr(ours, name)(x, y), getattr(special, name)(x, y))
    assert ng.grad(ours.entr)(0.0) == INF
    for f in (ours.rel_entr, ours.xlogy):
        assert [float(g) for g in ng.grad(f, (0, 1))(0.0, 0.0)] == [0.0, 0.0]
    assert [float(g) for g in ng.grad(ours.xlog1py, (0, 1))(0.0, -1.0)] == [0.0, 0.0]


def test_normal_tails():
    x = onp.array([-1e8, -1e4, -300.0, -37.0, -12.0, -6.1, -5.9, -1.0, 3.0, 8.0, 30.0])
    onp.testing.assert_allclose(ours.log_ndtr(x), special.log_ndtr(x), rtol=3e-14)
    first = ng.grad(lambda x: ours.log_ndtr(x).sum())
    with mpmath.workdps(60):
        hazard = [mpmath.npdf(mpmath.mpf(t)) / mpmath.ncdf(mpmath.mpf(t)) for t in x[2:].tolist()]
        slope = [-h * (mpmath.mpf(t) + h) for t, h in zip(x[2:].tolist(), hazard, strict=True)]
    onp.testing.assert_allclose(first(x)[2:], [float(h) for h in hazard], rtol=1e-12)
    onp.testing.assert_allclose(first(x)[:2], -x[:2], rtol=1e-7)
    second = ng.grad(lambda x: first(x).sum())(x)
    onp.testing.assert_allclose(second[2:], [float(s) for s in slope], rtol=1e-11)
    onp.testing.assert_allclose(second[:2], -1.0, rtol=1e-7)


def test_normal_inverse():
    p = onp.concatenate([10.0 ** -onp.arange(1, 300, 7.0), onp.linspace(0.01, 0.99, 31), [1 - 1e-10]])
    onp.testing.assert_allclose(ours.ndtri(p), special.ndtri(p), rtol=1e-13, atol=1e-15)
    onp.testing.assert_allclose(ours.ndtr(ours.ndtri(p)), p, rtol=1e-12)


def test_logit_near_the_middle():
    for d in (1e-12, -3e-9, 1e-5):
        onp.testing.assert_allclose(ours.logit(0.5 + d), 4 * ((0.5 + d) - 0.5), rtol=1e-9)


def test_polygamma():
    for n in range(5):
        onp.testing.assert_allclose(ours.polygamma(n, POSITIVE), special.polygamma(n, POSITIVE), rtol=1e-12)
    first = ng.grad(lambda x: ours.gammaln(x).sum())(POSITIVE)
    onp.testing.assert_allclose(first, special.digamma(POSITIVE), rtol=1e-12)
    check_grads(ours.gammaln, (POSITIVE,), order=3)


def test_multigammaln():
    onp.testing.assert_allclose(ours.multigammaln(4.2, 3), special.multigammaln(4.2, 3), rtol=1e-13)
    check_grads(lambda a: ours.multigammaln(a, 3), (4.2,), order=2)
    with pytest.raises(ValueError, match="not a dimension"):
        ours.multigammaln(1.0, 0)


# name: shape parameters, points
DISTRIBUTIONS = {
    "norm": ((), REAL), "expon": ((), POSITIVE), "laplace": ((), REAL), "logistic": ((), REAL), "uniform": ((), SHARE),
    "cauchy": ((), REAL), "gamma": ((2.3,), POSITIVE), "beta": ((0.7, 2.5), SHARE), "t": ((3.5,), REAL),
}  # fmt: skip


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions(name):
    shapes, z = DISTRIBUTIONS[name]
    mine, theirs = getattr(our_stats, name), getattr(stats, name)
    x = 0.4 + 1.7 * z
    for kind in ("logpdf", "pdf", "logcdf", "cdf", "sf", "logsf"):
        f = getattr(mine, kind, None)
        if f is None:
            assert name in ("gamma", "beta", "t")
            continue
        onp.testing.assert_allclose(f(x, *shapes, 0.4, 1.7), getattr(theirs, kind)(x, *shapes, 0.4, 1.7), rtol=1e-12)
        onp.testing.assert_allclose(f(x, *shapes, scale=1.7, loc=0.4), f(x, *shapes, 0.4, 1.7))
        onp.testing.assert_allclose(f(z, *shapes), getattr(theirs, kind)(z, *shapes), rtol=1e-12)
        check_grads(f, (x, *shapes, 0.37, 1.75), order=2)
    if hasattr(mine, "ppf"):
        parameters = (*shapes, 0.4, 1.7)
        onp.testing.assert_allclose(mine.ppf(SHARE, *parameters), theirs.ppf(SHARE, *parameters), rtol=1e-12)


OUTSIDE = {"expon": (-0.5,), "uniform": (-0.1, 1.1), "gamma": (-1.0,), "beta": (-0.1, 1.2)}


@pytest.mark.parametrize("name", OUTSIDE)
def test_outside_the_support(name):
    shapes, mine = DISTRIBUTIONS[name][0], getattr(our_stats, name)
    for x in OUTSIDE[name]:
        assert mine.logpdf(x, *shapes) == -INF and mine.pdf(x, *shapes) == 0.0
        assert ng.grad(mine.pdf)(x, *shapes) == 0.0
        if hasattr(mine, "cdf"):
            assert mine.cdf(x) == (x > 1)


def test_far_from_the_centre():
    for mine, theirs, x in (
        (our_stats.norm, stats.norm, -40.0),
        (our_stats.logistic, stats.logistic, 800.0),
        (our_stats.laplace, stats.laplace, -700.0),
    ):
        for kind in ("logcdf", "logpdf"):
            onp.testing.assert_allclose(getattr(mine, kind)(x), getattr(theirs, kind)(x), rtol=1e-13)
            assert onp.isfinite(ng.grad(getattr(mine, kind))(x))
    assert our_stats.laplace.logcdf(-900.0) == -900.0 - onp.log(2.0) == our_stats.laplace.logsf(900.0)
    onp.testing.assert_allclose(our_stats.cauchy.logpdf(1e200), -onp.log(onp.pi) - 2 * onp.log(1e200))
    onp.testing.assert_allclose(ng.grad(our_stats.cauchy.logpdf)(1e200), -2e-200)


def test_counts():
    k = onp.arange(8)
    onp.testing.assert_allclose(our_stats.poisson.logpmf(k, 3.3), stats.poisson.logpmf(k, 3.3), rtol=1e-12)
    onp.testing.assert_allclose(our_stats.poisson.pmf(k, 3.3, 2), stats.poisson.pmf(k, 3.3, 2), rtol=1e-12)
    assert our_stats.poisson.logpmf(onp.array([-1.0, 0.5]), 2.0).tolist() == [-INF, -INF]
    check_grads(lambda mu: our_stats.poisson.logpmf(k, mu), (3.3,), order=2)
    onp.testing.assert_allclose(our_stats.bernoulli.logpmf(k, 0.3), stats.bernoulli.logpmf(k, 0.3), rtol=1e-12)
    check_grads(lambda p: our_stats.bernoulli.logpmf(k[:2], p), (0.3,), order=2)


def test_wrong_parameters():
    for call in (
        lambda: our_stats.gamma.pdf(1.0),
        lambda: our_stats.norm.pdf(1.0, 0.0, 1.0, 2.0),
        lambda: our_stats.norm.pdf(1.0, 0.0, loc=1.0),
        lambda: our_stats.norm.pdf(1.0, size=1.0),
        lambda: our_stats.poisson.pmf(1),
    ):
        with pytest.raises(TypeError, match="parameters do not fit"):
            call()
