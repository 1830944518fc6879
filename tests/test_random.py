"""numbagrad.random: the published generator, its distributions by exact bounds, and what depends on nothing else."""

import os
import subprocess
import sys

import numpy as onp
import pytest
from scipy import stats

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import random
from numbagrad.primitives.random_bits import random_pairs
from numbagrad.testing import check_grads

N = 40_000
KEY = random.key(2024)
THREEFRY = [  # Salmon et al. 2011, known answers of Threefry-2x32-20: key, counter, result
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("key", "counter", "want"), THREEFRY)
def test_known_answers(key, counter, want):
    index = onp.asarray(counter[0] << 32 | counter[1], onp.uint64)
    got = random_pairs(onp.array(key, onp.uint32), index, shape=())
    assert tuple(got.tolist()) == want


def test_keys():
    assert random.key(-1).tolist() == [2**32 - 1] * 2 and random.key(2**32 + 5).tolist() == [1, 5]
    keys = onp.asarray(random.split(KEY, 1000))
    assert keys.shape == (1000, 2) and len({tuple(k) for k in keys}) == 1000
    assert random.split(KEY, (2, 3)).shape == (2, 3, 2)
    onp.testing.assert_array_equal(keys[:2], random.split(KEY))
    onp.testing.assert_array_equal(random.fold_in(KEY, 7), keys[7])
    onp.testing.assert_array_equal(random.key_data(random.wrap_key_data(keys[0])), keys[0])


BAD_KEYS = [42, 1.5, onp.zeros(2), onp.zeros(3, onp.uint32), onp.zeros((2, 2), onp.uint32), [1, 2]]


@pytest.mark.parametrize("bad", BAD_KEYS, ids=str)
def test_bad_keys(bad):
    for draw in (random.uniform, random.split, random.normal, random.bits):
        with pytest.raises(TypeError, match=r"^\w+: not a key: got .*; needed a key"):
            draw(bad)


def test_errors():
    with pytest.raises(TypeError, match="key: the seed is not an integer"):
        random.key(1.5)
    with pytest.raises(ValueError, match="negative length"):
        random.uniform(KEY, (-1,))
    with pytest.raises(TypeError, match="not a real floating dtype"):
        random.uniform(KEY, (), int)
    with pytest.raises(ValueError, match="do not fit the shape"):
        random.uniform(KEY, (2,), minval=onp.zeros(3))
    with pytest.raises(ValueError, match="no integer in the range"):
        random.randint(KEY, (), 3, 3)
    with pytest.raises(OverflowError, match="does not fit in uint8"):
        random.randint(KEY, (), 0, 257, "uint8")
    with pytest.raises(ValueError, match="more than there are"):
        random.choice(KEY, 3, (4,), replace=False)
    with pytest.raises(ValueError, match="not probabilities"):
        random.choice(KEY, 3, (4,), p=onp.array([1.0, -1.0, 1.0]))
    for draw in (random.gamma, random.poisson, random.t, random.chisquare):
        with pytest.raises(TypeError, match="no derivative in this parameter"):
            ng.grad(lambda a, draw=draw: draw(KEY, a) * 1.0)(3.0)


def test_stream_depends_on_key_and_index_only():
    long = onp.asarray(random.bits(KEY, (300_000,)))
    onp.testing.assert_array_equal(random.bits(KEY, (10,)), long[:10])
    onp.testing.assert_array_equal(random.bits(KEY, (3, 100_000)), long.reshape(3, -1))
    assert (random.bits(KEY, (5,), "uint8") == long[:5].astype("u1")).all()
    code = (
        "import numbagrad.random as r, hashlib, numpy as np; k = r.key(5);"
        "x = [r.uniform(k, (200_000,), 'float32'), r.normal(k, (150_001,)), r.gamma(k, 0.7, (5000,)),"
        " r.poisson(k, 30.0, (5000,)), r.permutation(k, 1000)];"
        "print(hashlib.sha256(b''.join(np.asarray(a).tobytes() for a in x)).hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "NUMBAGRAD_NUM_THREADS": n},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for n in ("1", "2", "3")
    }
    assert len(seen) == 1


def test_bits_are_balanced():
    for dtype, width in (("uint32", 32), ("uint64", 64)):
        drawn = onp.asarray(random.bits(KEY, (N,), dtype))
        ones = [int(((drawn >> onp.asarray(k, dtype)) & onp.asarray(1, dtype)).sum()) for k in range(width)]
        assert max(abs(n - N / 2) for n in ones) < 5 * (N / 4) ** 0.5  # 5 standard deviations


# name: (draw, SciPy's distribution)
CONTINUOUS = {
    "uniform": (random.uniform, stats.uniform()),
    "normal": (random.normal, stats.norm()),
    "exponential": (random.exponential, stats.expon()),
    "gumbel": (random.gumbel, stats.gumbel_r()),
    "laplace": (random.laplace, stats.laplace()),
    "logistic": (random.logistic, stats.logistic()),
    "cauchy": (random.cauchy, stats.cauchy()),
    "lognormal": (lambda k, s, d=float: random.lognormal(k, 0.5, s, d), stats.lognorm(0.5)),
    "pareto": (lambda k, s, d=float: random.pareto(k, 2.5, s, d), stats.pareto(2.5)),
    "rayleigh": (lambda k, s, d=float: random.rayleigh(k, 2.0, s, d), stats.rayleigh(scale=2.0)),
    "weibull": (lambda k, s, d=float: random.weibull_min(k, 2.0, 1.5, s, d), stats.weibull_min(1.5, scale=2.0)),
    "truncated": (lambda k, s, d=float: random.truncated_normal(k, -1.0, 2.0, s, d), stats.truncnorm(-1, 2)),
    "far tail": (lambda k, s, d=float: random.truncated_normal(k, 12.0, 13.0, s, d), stats.truncnorm(12, 13)),
    "gamma": (lambda k, s, d=float: random.gamma(k, 3.2, s, d), stats.gamma(3.2)),
    "small gamma": (lambda k, s, d=float: random.gamma(k, 0.3, s, d), stats.gamma(0.3)),
    "beta": (lambda k, s, d=float: random.beta(k, 0.7, 2.0, s, d), stats.beta(0.7, 2.0)),
    "chisquare": (lambda k, s, d=float: random.chisquare(k, 5.0, s, d), stats.chi2(5.0)),
    "t": (lambda k, s, d=float: random.t(k, 4.0, s, d), stats.t(4.0)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name):
    draw, law = CONTINUOUS[name]
    for dtype in ("float64", "float32"):
        x = onp.asarray(draw(KEY, (N,), dtype))
        assert x.dtype == dtype and onp.isfinite(x).all()
        # Kolmogorov-Smirnov: this bound is passed with probability 1 - 2 exp(-2 * 2.5**2) = 1 - 7e-6
        assert stats.kstest(x.astype("f8"), law.cdf).statistic < 2.5 / N**0.5


def test_uniform_ends():
    u = onp.asarray(random.uniform(KEY, (1 << 20,), "float32"))
    assert u.min() >= 0 and u.max() < 1 and onp.unique(u).size > 0.96 * (1 << 20)
    for low, high in ((-3.0, 2.0), (1e6, 1e6 + 0.5), (1.0, onp.nextafter(onp.float32(1), onp.float32(2)))):
        x = onp.asarray(random.uniform(KEY, (1 << 16,), "float32", low, high))
        assert x.min() >= onp.float32(low) and x.max() < onp.float32(high)
    low, high = onp.array([[0.0], [5.0]]), onp.array([1.0, 6.0, 7.0])
    assert random.uniform(KEY, (4, 2, 3), minval=low, maxval=high).shape == (4, 2, 3)


def test_derivatives_in_parameters():
    check_grads(lambda a, b: random.uniform(KEY, (5,), minval=a, maxval=b), (0.3, 2.0), order=2)
    check_grads(lambda a, b: random.truncated_normal(KEY, a, b, (5,)), (-0.5, 1.5), order=2)
    check_grads(lambda a, b: random.truncated_normal(KEY, a, b, (5,)), (0.5, 1.5), order=2)
    check_grads(lambda b: random.pareto(KEY, b, (5,)), (1.5,), order=2)
    check_grads(lambda a, b: random.weibull_min(KEY, a, b, (5,)), (1.5, 2.0), order=2)
    check_grads(lambda s: random.lognormal(KEY, s, (5,)), (0.5,), order=2)
    x = onp.arange(6.0).reshape(3, 2)
    check_grads(lambda x: random.permutation(KEY, x) ** 2, (x,), order=2)
    check_grads(lambda x: random.permutation(KEY, x, 0, True) ** 2, (x,), order=2)
    check_grads(lambda x: random.choice(KEY, x, (4,)) ** 2, (x,), order=2)


def test_complex_normal():
    z = onp.asarray(random.normal(KEY, (N,), complex))
    assert z.dtype == complex and abs((abs(z) ** 2).mean() - 1) < 0.03 and abs((z * z).mean()) < 0.03
    assert random.normal(KEY, (3,), "complex64").dtype == onp.complex64


RANGES = [
    (0, 10, "int64"),
    (-5, 6, "int8"),
    (-128, 128, "int8"),
    (0, 256, "uint8"),
    (0, 2**40 + 3, "int64"),
    (-(2**63), 2**63, "int64"),
    (0, 2**64, "uint64"),
    (-(2**62), 2**63, "int64"),
]


@pytest.mark.parametrize(("low", "high", "dtype"), RANGES)
def test_randint(low, high, dtype):
    x = onp.asarray(random.randint(KEY, (N,), low, high, dtype))
    assert x.dtype == dtype and low <= int(x.min()) and int(x.max()) < high
    parts = min(high - low, 12)
    bins = [((int(v) - low) * parts) // (high - low) for v in x]
    sizes = onp.bincount([(i * parts) // (high - low) for i in range(high - low)]) if high - low < 1000 else None
    expected = onp.full(parts, N / parts) if sizes is None else N * sizes / (high - low)
    # 13 sigma of a chi-square would be absurd: 60 is passed by 12 bins with probability 1 - 1e-8
    assert ((onp.bincount(bins, minlength=parts) - expected) ** 2 / expected).sum() < 60


def test_randint_arrays_of_bounds():
    low, high = onp.array([0, 100]), onp.array([10, 101])
    x = onp.asarray(random.randint(KEY, (1000, 2), low, high))
    assert x[:, 0].min() == 0 and x[:, 0].max() == 9 and (x[:, 1] == 100).all()
    assert (x[:, 0] == onp.asarray(random.randint(KEY, (1000, 2), 0, 10))[:, 0]).all()


def test_discrete():
    assert abs(onp.mean(random.bernoulli(KEY, 0.3, (N,))) - 0.3) < 0.012
    assert random.bernoulli(KEY, onp.array([0.0, 1.0])).tolist() == [False, True]
    signs = onp.asarray(random.rademacher(KEY, (N,)))
    assert set(signs) == {-1, 1} and abs(signs.mean()) < 0.025
    p = onp.array([0.1, 0.0, 0.6, 0.3])
    for drawn in (
        random.choice(KEY, 4, (N,), p=p),
        random.categorical(KEY, onp.log(onp.maximum(p, 1e-300)), shape=(N,)),
    ):
        assert onp.abs(onp.bincount(onp.asarray(drawn), minlength=4) / N - p).max() < 0.012
    logits = onp.zeros((3, 2, 5))
    assert random.categorical(KEY, logits, axis=1).shape == (3, 5)
    assert random.categorical(KEY, logits, axis=1, shape=(7, 3, 5)).shape == (7, 3, 5)


@pytest.mark.parametrize("rate", [0.5, 4.0, 9.9, 10.1, 60.0, 1e5])
def test_poisson(rate):
    x = onp.asarray(random.poisson(KEY, rate, (N,)))
    assert abs(x.mean() - rate) < 5 * (rate / N) ** 0.5 and abs(x.var() / rate - 1) < 0.05
    top = int(rate + 4 * rate**0.5) + 1
    edges = onp.unique(onp.linspace(0, top, 12).astype(int))
    share = onp.array([(x <= e).mean() for e in edges])
    assert onp.abs(share - stats.poisson(rate).cdf(edges)).max() < 2.5 / N**0.5
    assert random.poisson(KEY, onp.array([0.0, -1.0])).tolist() == [0, -1]


def test_dirichlet():
    alpha = onp.array([0.01, 2.0, 5.0])
    x = onp.asarray(random.dirichlet(KEY, alpha, (N,)))
    onp.testing.assert_allclose(x.sum(1), 1.0)
    assert onp.abs(x.mean(0) - alpha / alpha.sum()).max() < 0.01


def test_permutations():
    assert sorted(random.permutation(KEY, 100).tolist()) == list(range(100))
    counts = onp.zeros((4, 4))
    for key in random.split(KEY, 4000):
        counts[onp.asarray(random.permutation(key, 4)), onp.arange(4)] += 1
    assert onp.abs(counts / 4000 - 0.25).max() < 0.035
    x = onp.arange(40).reshape(5, 8)
    rows = onp.asarray(random.permutation(KEY, x, 1, True))
    assert (onp.sort(rows, 1) == x).all() and len({tuple(r % 8) for r in rows}) > 1
    whole = onp.asarray(random.permutation(KEY, x, axis=1))
    assert (whole % 8 == whole[0] % 8).all() and not (whole == x).all()
    drawn = random.choice(KEY, 10, (10,), replace=False).tolist()
    assert sorted(drawn) == list(range(10))
    weights = onp.array([0.0, 1.0, 5.0, 1.0])
    assert sorted(random.choice(KEY, 4, (3,), replace=False, p=weights).tolist()) == [1, 2, 3]
    assert random.choice(KEY, onp.zeros((4, 6)), (2, 3), axis=1).shape == (4, 2, 3)


def test_empty():
    for draw in (random.uniform, random.normal, random.bits, random.exponential):
        assert draw(KEY, (0, 3)).shape == (0, 3)
    assert random.randint(KEY, (0,), 0, 5).shape == (0,) and random.permutation(KEY, 0).shape == (0,)
    assert random.gamma(KEY, onp.ones(0)).shape == (0,) and random.split(KEY, 0).shape == (0, 2)
    assert np.asarray(random.choice(KEY, 0, (0,))).shape == (0,)
