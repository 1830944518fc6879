"""numbagrad.nn: values against closed forms, derivatives of orders 1 and 2, edges, float32."""

import numpy as onp
import pytest
from scipy import special

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import nn
from numbagrad.testing import check_grads

INF = onp.inf
X = onp.array([-30.0, -6.5, -3.2, -1.7, -0.6, -0.01, 0.02, 0.4, 1.3, 2.8, 3.5, 6.6, 25.0])


def _sigmoid(x):
    return special.expit(x)


# name: (function, reference, limits at -inf and inf of value and derivative)
ACTIVATIONS = {
    "relu": (nn.relu, lambda x: onp.maximum(x, 0), (0, INF, 0, 1)),
    "relu6": (nn.relu6, lambda x: onp.clip(x, 0, 6), (0, 6, 0, 0)),
    "leaky_relu": (nn.leaky_relu, lambda x: onp.where(x > 0, x, 0.01 * x), (-INF, INF, 0.01, 1)),
    "elu": (nn.elu, lambda x: onp.where(x > 0, x, onp.expm1(x)), (-1, INF, 0, 1)),
    "selu": (
        nn.selu,
        lambda x: 1.0507009873554805 * onp.where(x > 0, x, 1.6732632423543772 * onp.expm1(x)),
        (-1.0507009873554805 * 1.6732632423543772, INF, 0, 1.0507009873554805),
    ),
    "celu": (lambda x: nn.celu(x, 2.0), lambda x: onp.where(x > 0, x, 2 * onp.expm1(x / 2)), (-2, INF, 0, 1)),
    "gelu": (
        nn.gelu,
        lambda x: x * _sigmoid(2 * onp.sqrt(2 / onp.pi) * (x + 0.044715 * x**3)),
        (0, INF, 0, 1),
    ),
    "gelu_exact": (lambda x: nn.gelu(x, False), lambda x: x * special.ndtr(x), (0, INF, 0, 1)),
    "silu": (nn.silu, lambda x: x * _sigmoid(x), (0, INF, 0, 1)),
    "sigmoid": (nn.sigmoid, _sigmoid, (0, 1, 0, 0)),
    "tanh": (nn.tanh, onp.tanh, (-1, 1, 0, 0)),
    "softplus": (nn.softplus, lambda x: onp.logaddexp(0, x), (0, INF, 0, 1)),
    "log_sigmoid": (nn.log_sigmoid, lambda x: -onp.logaddexp(0, -x), (-INF, 0, 1, 0)),
    "hard_sigmoid": (nn.hard_sigmoid, lambda x: onp.clip(x + 3, 0, 6) / 6, (0, 1, 0, 0)),
    "hard_tanh": (nn.hard_tanh, lambda x: onp.clip(x, -1, 1), (-1, 1, 0, 0)),
    "hard_silu": (nn.hard_silu, lambda x: x * onp.clip(x + 3, 0, 6) / 6, (0, INF, 0, 1)),
    "soft_sign": (nn.soft_sign, lambda x: x / (1 + abs(x)), (-1, 1, 0, 0)),
    "mish": (nn.mish, lambda x: x * onp.tanh(onp.logaddexp(0, x)), (0, INF, 0, 1)),
    "squareplus": (nn.squareplus, lambda x: (x + onp.sqrt(x * x + 4)) / 2, (0, INF, 0, 1)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name):
    f, reference, limits = ACTIVATIONS[name]
    onp.testing.assert_allclose(f(X), reference(X), rtol=1e-12, atol=1e-14)
    check_grads(f, (X[2:-2],), order=2)
    narrow = f(X.astype("f4"))
    assert narrow.dtype == onp.float32
    onp.testing.assert_allclose(narrow, reference(X.astype("f4").astype("f8")), rtol=2e-6, atol=1e-7)
    for dtype in ("f4", "f8"):
        ends = onp.array([-INF, INF], dtype)
        onp.testing.assert_allclose(f(ends), limits[:2], rtol=1e-6)
        onp.testing.assert_allclose(ng.grad(lambda x: f(x).sum())(ends), limits[2:], rtol=1e-6)
        _, tangent = ng.jvp(f, (np.asarray(ends),), (np.ones(2, dtype),))
        onp.testing.assert_allclose(tangent, limits[2:], rtol=1e-6)
        far = onp.array([-1000.0, 1000.0, 1e30, -1e30], dtype)
        first = ng.grad(lambda x: f(x).sum())
        onp.testing.assert_allclose(first(far), [limits[2], limits[3], limits[3], limits[2]], rtol=1e-6, atol=1e-5)
        assert onp.isfinite(ng.grad(lambda x, first=first: (first(x) * x).sum())(far)).all()
    assert onp.isnan(f(onp.nan))


KINKS = [
    (nn.relu, 0.0, 0.0),
    (nn.leaky_relu, 0.0, 0.01),
    (nn.relu6, 0.0, 0.0),
    (nn.relu6, 6.0, 0.0),
    (nn.elu, 0.0, 1.0),
    (nn.hard_tanh, 1.0, 0.0),
    (nn.hard_tanh, -1.0, 0.0),
    (nn.hard_sigmoid, 3.0, 0.0),
    (nn.hard_sigmoid, -3.0, 0.0),
    (nn.hard_silu, 3.0, 1.0),
    (nn.hard_silu, -3.0, 0.0),
]


@pytest.mark.parametrize(("f", "x", "slope"), KINKS)
def test_kinks(f, x, slope):
    assert ng.grad(f)(x) == slope
    assert ng.jvp(f, (x,), (1.0,))[1] == slope


def test_slopes_are_differentiable():
    x = onp.array([-2.0, -0.5, 1.0])
    for f in (nn.leaky_relu, nn.elu, nn.celu, nn.squareplus):
        check_grads(lambda a, f=f: f(x, a), (0.7,), order=2)


def test_tails_keep_their_digits():
    x = onp.array([-37.0, -20.0, -8.0])
    onp.testing.assert_allclose(nn.gelu(x, False), x * special.ndtr(x), rtol=1e-12)
    onp.testing.assert_allclose(nn.log_sigmoid(-x), -onp.log1p(onp.exp(x)), rtol=1e-14)
    onp.testing.assert_allclose(nn.mish(x), x * onp.tanh(onp.log1p(onp.exp(x))), rtol=1e-13)
    onp.testing.assert_allclose(nn.squareplus(-1e8), 1e-8, rtol=1e-14)
    onp.testing.assert_allclose(ng.grad(nn.soft_sign)(1e8), 1e-16, rtol=1e-7)


def test_glu():
    x = onp.random.default_rng(0).normal(size=(4, 3))
    onp.testing.assert_allclose(nn.glu(x, axis=0), x[:2] * _sigmoid(x[2:]), rtol=1e-14)
    check_grads(lambda x: nn.glu(x, axis=0), (x,), order=2)
    with pytest.raises(ValueError, match="glu: the axis cannot be halved"):
        nn.glu(x)


ROWS = [((5,), -1), ((3, 4), -1), ((3, 4), 0), ((2, 3, 4), 1), ((2, 3, 4), (0, 2)), ((2, 3), (0, 1)), ((2, 70), 1)]
ROWS += [((), ()), ((0, 3), 1), ((3, 0), 1)]


@pytest.mark.parametrize(("shape", "axis"), ROWS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_softmax(shape, axis, dtype):
    x = onp.asarray(3 * onp.random.default_rng(1).normal(size=shape), dtype)
    tolerance = dict(rtol=1e-5, atol=1e-6) if dtype == "f4" else dict(rtol=1e-12, atol=1e-14)
    wide = x.astype("f8")
    for f, reference in ((nn.softmax, special.softmax), (nn.log_softmax, special.log_softmax)):
        got = f(x, axis)
        assert got.dtype == x.dtype and got.shape == x.shape
        if x.size:
            onp.testing.assert_allclose(got, reference(wide, axis), **tolerance)
            if dtype == "f8":
                check_grads(lambda x, f=f: f(x, axis), (x,), order=3 if x.size < 15 else 2)


def test_softmax_where():
    x = onp.random.default_rng(2).normal(size=(2, 5))
    held = onp.array([[True, True, False, True, False], [False] * 5])
    onp.testing.assert_allclose(nn.softmax(x, where=held)[0, [0, 1, 3]], special.softmax(x[0, [0, 1, 3]]), rtol=1e-13)
    assert not onp.asarray(nn.softmax(x, where=held))[~held].any()
    assert onp.isneginf(onp.asarray(nn.log_softmax(x, where=held))[~held]).all()
    check_grads(lambda x: nn.softmax(x, where=held), (x,), order=2)
    assert onp.isfinite(ng.grad(lambda x: (nn.softmax(x, where=held) ** 2).sum())(x)).all()


SOFTMAX_EDGES = [
    ([0.0, -INF], [1.0, 0.0]),
    ([-INF, -INF], [0.0, 0.0]),
    ([INF, 1.0, INF], [0.5, 0.0, 0.5]),
    ([1e4, 1e4], [0.5, 0.5]),
    ([onp.nan, 1.0], [onp.nan, onp.nan]),
    ([onp.nan, INF], [onp.nan, onp.nan]),
    ([onp.nan, -INF], [onp.nan, onp.nan]),
]


@pytest.mark.parametrize(("x", "shares"), SOFTMAX_EDGES)
def test_softmax_edges(x, shares):
    for dtype in ("f4", "f8"):
        given = np.asarray(x, dtype)
        onp.testing.assert_allclose(nn.softmax(given), shares)
        with onp.errstate(divide="ignore"):
            onp.testing.assert_allclose(nn.log_softmax(given), onp.log(shares), rtol=1e-6)
        if not onp.isnan(shares[0]):
            onp.testing.assert_allclose(ng.grad(nn.logsumexp)(given), shares)


def test_a_row_without_weight_does_not_poison():
    x = np.asarray([[onp.nan, 1.0], [0.0, 0.0]])
    onp.testing.assert_array_equal(ng.grad(lambda x: nn.softmax(x)[1, 0])(x), [[0, 0], [0.25, -0.25]])
    onp.testing.assert_array_equal(ng.grad(lambda x: nn.log_softmax(x)[1, 0])(x), [[0, 0], [0.5, -0.5]])


def test_logsumexp_with_factors():
    rng = onp.random.default_rng(3)
    a, b = rng.normal(size=(3, 4)), rng.uniform(0.1, 1, size=(3, 4))
    onp.testing.assert_allclose(nn.logsumexp(a, 1, b), special.logsumexp(a, 1, b), rtol=1e-13)
    check_grads(lambda a, b: nn.logsumexp(a, 1, b), (a, b), order=2)
    size, sign = nn.logsumexp(onp.array([1.0, 2.0]), b=onp.array([1.0, -1.0]), return_sign=True)
    onp.testing.assert_allclose([size, sign], [onp.log(onp.e**2 - onp.e), -1.0])
    assert onp.isnan(nn.logsumexp(onp.array([1.0, 2.0]), b=onp.array([1.0, -1.0])))
    onp.testing.assert_allclose(nn.logsumexp(onp.array([1e4, 0.0]), b=onp.array([0.0, 1.0])), 0.0)
    onp.testing.assert_allclose(nn.logmeanexp(onp.array([1000.0, 1000.0])), 1000.0)
    held = onp.array([True, False])
    onp.testing.assert_allclose(nn.logmeanexp(onp.array([5.0, 9.0]), where=held), 5.0)


def test_normalisation():
    x = onp.random.default_rng(4).normal(size=(3, 5)) + 2
    scale, bias = onp.linspace(0.5, 1.5, 5), onp.arange(5.0)
    centred = (x - x.mean(1, keepdims=True)) / onp.sqrt(x.var(1, keepdims=True) + 1e-5)
    onp.testing.assert_allclose(nn.standardize(x), centred, rtol=1e-12)
    onp.testing.assert_allclose(nn.layer_norm(x, scale, bias), centred * scale + bias, rtol=1e-12)
    onp.testing.assert_allclose(nn.rms_norm(x, scale), x / onp.sqrt((x**2).mean(1, keepdims=True) + 1e-6) * scale)
    check_grads(nn.layer_norm, (x, scale, bias), order=2)
    check_grads(nn.rms_norm, (x, scale), order=2)
    check_grads(lambda x, s, b: nn.batch_norm(x, s, b, axis=0)[0], (x, scale[:3], bias[:3]), order=2)
    y, mean, variance = nn.batch_norm(x)
    onp.testing.assert_allclose(mean, x.mean(0))
    onp.testing.assert_allclose(variance, x.var(0))
    onp.testing.assert_allclose(nn.batch_norm(x, mean=mean, variance=variance)[0], y)


def test_one_hot():
    onp.testing.assert_array_equal(nn.one_hot(onp.array([2, 0]), 3, axis=0), [[0, 1], [0, 0], [1, 0]])
    assert nn.one_hot(1, 3, dtype="float32").dtype == onp.float32


def test_cross_entropies():
    rng = onp.random.default_rng(5)
    logits, labels = rng.normal(size=(4, 3)), rng.dirichlet(onp.ones(3), 4)
    classes = onp.array([0, 2, 1, 2])
    want = -(labels * special.log_softmax(logits, 1)).sum(1)
    onp.testing.assert_allclose(nn.softmax_cross_entropy(logits, labels), want)
    picked = -special.log_softmax(logits, 1)[onp.arange(4), classes]
    onp.testing.assert_allclose(nn.softmax_cross_entropy_with_integer_labels(logits, classes), picked)
    check_grads(nn.softmax_cross_entropy, (logits, labels), order=2)
    check_grads(lambda x: nn.softmax_cross_entropy_with_integer_labels(x, classes), (logits,), order=2)
    targets = onp.array([0.0, 1.0, 0.3])
    z = onp.array([800.0, -800.0, 0.5])
    want = onp.array([800.0, 800.0, onp.logaddexp(0, 0.5) - 0.15])
    onp.testing.assert_allclose(nn.sigmoid_binary_cross_entropy(z, targets), want)
    check_grads(lambda z: nn.sigmoid_binary_cross_entropy(z, targets), (onp.array([1.0, -2.0, 0.5]),), order=2)
    masked = np.asarray([0.0, -INF])
    assert nn.softmax_cross_entropy(masked, np.asarray([1.0, 0.0])) == 0.0
    with pytest.raises(IndexError, match="a label is out of range"):
        nn.softmax_cross_entropy_with_integer_labels(logits, classes + 1)
    with pytest.raises(ValueError, match="do not fit the logits"):
        nn.softmax_cross_entropy_with_integer_labels(logits, classes[:2])
    check_grads(lambda x: nn.huber_loss(x, 0.0), (onp.array([-3.0, 0.4, 2.0]),), order=2)


def test_dropout():
    key, x = ng.random.key(0), onp.ones(10_000)
    dropped = onp.asarray(nn.dropout(key, x, 0.25))
    assert set(dropped) == {0.0, 1 / 0.75} and abs((dropped == 0).mean() - 0.25) < 0.02
    onp.testing.assert_array_equal(ng.grad(lambda x: nn.dropout(key, x, 0.25).sum())(x), dropped)
    assert nn.dropout(key, x, 0.5, deterministic=True).sum() == 10_000
    assert nn.dropout(key, x, 1.0).sum() == 0
    with pytest.raises(ValueError, match="rate is a probability"):
        nn.dropout(key, x, 1.5)


INITIALIZERS = [
    ("glorot_uniform", 2 / 300),
    ("glorot_normal", 2 / 300),
    ("lecun_uniform", 1 / 100),
    ("lecun_normal", 1 / 100),
    ("he_uniform", 2 / 100),
    ("he_normal", 2 / 100),
]


@pytest.mark.parametrize(("name", "variance"), INITIALIZERS)
def test_initializers(name, variance):
    w = onp.asarray(getattr(nn.initializers, name)()(ng.random.key(1), (100, 200)))
    assert abs(w.mean()) < 0.03 * variance**0.5 and abs(w.var() / variance - 1) < 0.04
    assert getattr(nn.initializers, name)()(ng.random.key(1), (3, 3, 4, 5), "float32").dtype == onp.float32
    with pytest.raises(ValueError, match="no fan-in"):
        getattr(nn.initializers, name)()(ng.random.key(1), (3,))


def test_plain_initializers():
    key = ng.random.key(2)
    for shape in ((6, 4), (4, 6)):
        w = onp.asarray(nn.initializers.orthogonal(2.0)(key, shape))
        gram = w.T @ w if shape[0] > shape[1] else w @ w.T
        onp.testing.assert_allclose(gram, 4 * onp.eye(4), atol=1e-13)
    assert nn.initializers.zeros(key, (2,)).sum() == 0 and nn.initializers.ones(key, (2,)).sum() == 2
    assert nn.initializers.constant(3.0)(key, (2,)).sum() == 6
    assert abs(onp.std(nn.initializers.normal(0.5)(key, (20_000,))) - 0.5) < 0.02
    assert onp.max(nn.initializers.uniform(0.5)(key, (1000,))) < 0.5
    assert onp.max(onp.abs(nn.initializers.truncated_normal(0.5)(key, (1000,)))) <= 1.0
