"""float16 as storage on CUDA devices: results are those of float32, rounded once."""

import numpy as onp
import pytest
from cuda_emulated import DEVICE

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import lax, nn

RNG = onp.random.default_rng(0)
X, Y = (RNG.standard_normal((5, 7)).astype("float16") for _ in range(2))

FUNCTIONS = {
    "add": lambda x, y: x + y,
    "scalar": lambda x, y: x * 0.1 - 2,
    "tanh": lambda x, y: np.tanh(x) * np.exp(y),
    "strided": lambda x, y: x[:, ::2] * y[::-1, ::2],
    "maximum": np.maximum,
    "where": lambda x, y: np.where(x > 0, x, y),
    "sum": lambda x, y: np.sum(x * y),
    "mean": lambda x, y: np.mean(x, 0),
    "max": lambda x, y: np.max(x, 1),
    "softmax": lambda x, y: nn.softmax(x),
    "matmul": lambda x, y: x @ y.T,
    "take": lambda x, y: x[np.asarray([0, 2, 0])],
    "concatenate": lambda x, y: np.concatenate([x, y], 1).reshape(-1),
    "cumsum": lambda x, y: np.cumsum(x, 1),
    "sort": lambda x, y: np.sort(x, 1),
    "update": lambda x, y: x.at[1, 2:].add(y[0, 2:]),
    "slices": lambda x, y: x[0] * x[1] + x[2:4].sum(0),
    "window": lambda x, y: lax.reduce_window(x, -onp.inf, lax.max, (2, 2), (1, 1), "VALID"),
}


def half(x):
    return ng.device_put(x, DEVICE)


def near(got, want):
    assert got.device == DEVICE and got.dtype == onp.float16
    want = onp.asarray(want, "float32")
    onp.testing.assert_allclose(onp.asarray(got, "float32"), want, rtol=3e-3, atol=3e-3 * abs(want).max())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    function = FUNCTIONS[name]
    wide = [np.asarray(a.astype("float32")) for a in (X, Y)]
    near(function(half(X), half(Y)), function(*wide))
    loss = lambda x, y: np.sum(function(x, y) ** 2)
    grads = ng.grad(loss, (0, 1))(half(X), half(Y))
    for got, want in zip(grads, ng.grad(loss, (0, 1))(*wide), strict=True):
        near(got, want)


def test_one_rounding():
    got = onp.asarray(half(X) * half(Y))
    onp.testing.assert_array_equal(got, (X.astype("f4") * Y.astype("f4")).astype("f2"))


def test_conversions_are_exact():
    """All 65,536 numbers there and back; float32 to the nearest half, to even in the middle."""
    every = onp.arange(1 << 16, dtype=onp.uint16).view("float16")
    wide = half(every).astype("float32")
    onp.testing.assert_array_equal(onp.asarray(wide), every.astype("float32"))
    onp.testing.assert_array_equal(onp.asarray(wide.astype("float16")), every)
    finite = every[onp.isfinite(every)].astype("float32")
    middle = (finite[:-1] + finite[1:]) / 2
    beside, tiny = onp.nextafter(middle, onp.float32(9e9)), RNG.standard_normal(5000) * 1e-6
    x = onp.concatenate([middle, beside, tiny, [65519, 65520, 1e9]]).astype("float32")
    with onp.errstate(over="ignore"):
        onp.testing.assert_array_equal(onp.asarray(half(x).astype("float16")), x.astype("float16"))


def test_derivatives_of_conversions():
    x = ng.device_put(X.astype("float32"), DEVICE)
    g = ng.grad(lambda v: np.sum(v.astype("float16").astype("float32") ** 2))(x)
    assert g.dtype == onp.float32
    onp.testing.assert_allclose(onp.asarray(g), 2 * X.astype("f4"), rtol=1e-3)
    h = ng.hvp(lambda v: np.sum(v**3), half(X), half(Y))
    near(h, 6 * X.astype("f4") * Y.astype("f4"))


def test_promotion():
    x = half(X)
    assert (x + ng.device_put(X.astype("f4"), DEVICE)).dtype == onp.float32
    assert (x + 1).dtype == onp.float16 and (x > 0).dtype == bool


def test_the_cpu_has_none():
    one = np.asarray([1.0])
    for call in (lambda: np.asarray(X), lambda: one.astype("float16"), lambda: ng.device_put(half(X), "cpu")):
        with pytest.raises(TypeError, match="float16 is kept on GPUs only"):
            call()
    assert onp.asarray(half(X)).dtype == onp.float16
