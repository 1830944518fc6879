"""float16 and bfloat16 as storage, on every device: results are those of float32, rounded once."""

import pickle
import subprocess
import sys

import numpy as onp
import pytest
from cuda_emulated import DEVICE
from test_device_table import CASES, leaves

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import lax, nn
from numbagrad.testing import tolerance

RNG = onp.random.default_rng(0)
X, Y = (RNG.standard_normal((5, 7)) for _ in range(2))
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
KINDS = [(place, name) for name in EPS for place in ("cpu", DEVICE)]
every_kind = pytest.mark.parametrize("place, name", KINDS)

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


def half(x, place, name):
    return ng.device_put(np.asarray(x, dtype=name), place)


def wide(x, name):
    """The float32 array of the same elements."""
    return np.asarray(x, dtype=name).astype("float32")


def near(got, want, place, name):
    assert got.device == place and got.dtype.name == name
    want = onp.asarray(want, "float32")
    limit = 3 * EPS[name]
    onp.testing.assert_allclose(onp.asarray(got).astype("float32"), want, rtol=limit, atol=limit * abs(want).max())


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@every_kind
def test_functions(function, place, name):
    x, y = half(X, place, name), half(Y, place, name)
    wx, wy = wide(X, name), wide(Y, name)
    near(function(x, y), function(wx, wy), place, name)
    loss = lambda x, y: np.sum(function(x, y) ** 2)
    for got, want in zip(ng.grad(loss, (0, 1))(x, y), ng.grad(loss, (0, 1))(wx, wy), strict=True):
        near(got, want, place, name)


@every_kind
def test_order_two(place, name):
    x, y = half(X, place, name), half(Y, place, name)
    want = 6 * wide(X, name) * wide(Y, name)
    near(ng.hvp(lambda v: np.sum(v**3), x, y), want, place, name)
    near(ng.jvp(ng.grad(lambda v: np.sum(v**3)), (x,), (y,))[1], want, place, name)
    assert ng.hessian(lambda v: np.sum(v**3))(x[0]).dtype.name == name
    assert ng.jacfwd(lambda v: v * v)(x[0]).dtype.name == name


@every_kind
def test_one_rounding(place, name):
    x, y = half(X, place, name), half(Y, place, name)
    want = (wide(X, name) * wide(Y, name)).astype(name)
    onp.testing.assert_array_equal(onp.asarray(x * y).view("u2"), onp.asarray(want).view("u2"))
    onp.testing.assert_array_equal(onp.asarray(np.sum(x)), onp.asarray(np.sum(wide(X, name)).astype(name)))


@every_kind
def test_conversions_are_exact(place, name):
    """All 65,536 numbers there and back; float32 and float64 to the nearest, to even in the middle."""
    every = onp.arange(1 << 16, dtype=onp.uint16).view(np.asarray(0, dtype=name).dtype)
    x = ng.device_put(every, place).astype("float32")
    numbers = every.astype("float32")
    onp.testing.assert_array_equal(onp.asarray(x), numbers)
    back = onp.asarray(x.astype(name))
    onp.testing.assert_array_equal(back.astype("float32"), numbers)
    finite = onp.sort(numbers[onp.isfinite(numbers)].astype("float64"))
    middle = (finite[:-1] + finite[1:]) / 2
    rounded = onp.where(finite[:-1] == finite[:-1].astype("float32"), middle, 0)  # exact in float32, too
    for given in (rounded.astype("float32"), onp.nextafter(middle, 9e99), onp.nextafter(middle, -9e99), middle):
        got = onp.asarray(ng.device_put(given, place).astype(name)).astype("float64")
        with onp.errstate(over="ignore"):
            down, up = finite[onp.searchsorted(finite, given, "right") - 1], None
        up = finite[onp.minimum(onp.searchsorted(finite, given), len(finite) - 1)]
        near_down = onp.abs(given - down) < onp.abs(up - given)
        near_up = onp.abs(given - down) > onp.abs(up - given)
        assert (got[near_down] == down[near_down]).all() and (got[near_up] == up[near_up]).all()
        tie = ~near_down & ~near_up
        bits = onp.asarray(ng.device_put(given, place).astype(name)).view("u2")
        assert (bits[tie & (down != up)] % 2 == 0).all()


@pytest.mark.parametrize("place", ["cpu", DEVICE])
def test_the_ends_of_the_range(place):
    x = ng.device_put(onp.asarray([65519.99, 65520, 1e9, -1e300, onp.nan, 2.0**-25, -(2.0**-25), 6e-8]), place)
    with onp.errstate(all="ignore"):
        want = onp.asarray(x).astype("float16")
    onp.testing.assert_array_equal(onp.asarray(x.astype("float16")), want)
    assert (onp.signbit(onp.asarray(x.astype("float16"))) == onp.signbit(want)).all()
    y = onp.asarray(ng.device_put(onp.asarray([3.4e38, -1e300, onp.nan, onp.inf, 1e-46]), place).astype("bfloat16"))
    onp.testing.assert_array_equal(y.astype("f4"), [onp.inf, -onp.inf, onp.nan, onp.inf, 0])


@every_kind
def test_derivatives_of_conversions(place, name):
    x = ng.device_put(X, place)
    g = ng.grad(lambda v: np.sum(v.astype(name).astype("float32") ** 2))(x)
    assert g.dtype == onp.float64
    onp.testing.assert_allclose(onp.asarray(g), 2 * X, rtol=2 * EPS[name])


@every_kind
def test_promotion(place, name):
    x, dtype = half(X, place, name), half(X, place, name).dtype
    assert (x + ng.device_put(X.astype("f4"), place)).dtype == onp.float32
    assert (x + 1).dtype == (x * 2.5).dtype == (x + True).dtype == dtype and (x > 0).dtype == bool
    assert (x + 1j).dtype == onp.complex64 and np.fft.fft(x).dtype == onp.complex64
    assert (x + X).dtype == onp.float64 and (x + onp.int8(1)).dtype == dtype
    assert (x + onp.arange(7)).dtype == (onp.float64 if name == "float16" else dtype)
    other = "bfloat16" if name == "float16" else "float16"
    assert (x + half(X, place, other)).dtype == onp.float32
    assert np.result_type(dtype, "float64") == onp.float64 and np.result_type(dtype, dtype) == dtype


@every_kind
def test_host_operands(place, name):
    """NumPy arrays and scalars of 16 bits meet arrays anywhere; so do tangents and cotangents."""
    x = half(X, place, name)
    host = onp.asarray(half(Y, "cpu", name))
    want = wide(X, name) * wide(Y, name)
    for got in (x * host, host * x, onp.multiply(x, host), np.multiply(host, x)):
        near(got, want, place, name)
    near(x * host.dtype.type(2), wide(X, name) * 2, place, name)
    near(np.where(x > 0, x, host.dtype.type(0)), np.where(wide(X, name) > 0, wide(X, name), 0), place, name)
    near(ng.vjp(lambda v: v**2, x)[1](host)[0], 2 * want, place, name)
    near(ng.jvp(lambda v: v**2, (x,), (host,))[1], 2 * want, place, name)
    near(x.at[1].set(host[0]).sum(0), wide(X, name).at[1].set(wide(Y, name)[0]).sum(0), place, name)


@every_kind
def test_creation(place, name):
    with ng.default_device(place):
        made = [np.zeros(3, name), np.full((2, 2), 1.5, name), np.arange(4, dtype=name), np.eye(3, dtype=name)]
        made += [np.linspace(0, 1, 5, dtype=name), np.asarray([[1, 2]], dtype=name), np.asarray(onp.asarray(made[0]))]
        made += [np.zeros_like(made[0]), np.full_like(made[0], 2), ng.random.normal(ng.random.key(0), (3,), name)]
        made += [ng.random.gamma(ng.random.key(0), 2.0, (3,), name), np.nan_to_num(made[0] / 0), np.nansum(made[1])]
        made += [np.median(made[2]), np.quantile(made[2], 0.3), np.tril(made[1])]
    assert all(x.dtype.name == name and x.device == place for x in made)


@every_kind
def test_uniform_stays_below_one(place, name):
    with ng.default_device(place):
        u = onp.asarray(ng.random.uniform(ng.random.key(0), (20000,), name)).astype("f8")
    assert u.min() >= 0 and u.max() < 1 and abs(u.mean() - 0.5) < 0.01
    assert len(onp.unique(u)) <= 2 ** (11 if name == "float16" else 8)


@every_kind
def test_optimizers_keep_their_means_in_float32(place, name):
    """In 16 bits squares of gradients and eps = 1e-8 are 0."""
    opt, params = ng.optim.adam(1e-2), half(X, place, name)
    state = opt.init(params)
    assert state.mean.dtype == onp.float32 and state.mean.device == place
    for _ in range(3):
        params, state = opt.update(params * 1e-4, state, params)
    same, kept = opt.init(np.asarray(wide(X, name))), wide(X, name)
    for _ in range(3):
        kept, same = opt.update(kept * 1e-4, same, kept)
    near(params, kept, place, name)


@every_kind
def test_what_passes_the_range_on_the_way(place, name):
    """Sums of many, squares of large and inverse roots of small numbers: float32 inside."""
    with ng.default_device(place):
        many = np.full((100000,), 3.0, name)
        large = np.asarray([300.0, -400.0, 500.0], dtype=name)
        small = np.asarray([1e-3, -1e-3, 2e-3], dtype=name)
    assert float(np.mean(many)) == 3 and np.mean(many).dtype.name == name
    wider = many.astype("float32")
    assert float(np.mean(wider, dtype=name)) == 3 and np.mean(wider, dtype=name).dtype.name == name
    assert float(np.var(wider * 200, dtype=name)) == 0 and np.std(wider, dtype=name).dtype.name == name
    for function in (np.var, np.std, np.linalg.norm, nn.layer_norm, nn.rms_norm):
        want = function(large.astype("float32"))
        if float(abs(want).max()) < 6e4:
            near(function(large), want, place, name)
        loss = lambda x, f=function: np.sum(f(x) * onp.arange(1, 4).astype(x.dtype))
        near(ng.grad(loss)(small), ng.grad(loss)(small.astype("float32")), place, name)
    norm = ng.optim.global_norm([large, large])
    onp.testing.assert_allclose(float(norm), 1000, rtol=2 * EPS[name])
    near(ng.optim.clip_by_global_norm([large], 1e-3)[0], large.astype("float32") * (1e-3 / 707.1), place, name)
    onp.testing.assert_array_equal(onp.asarray(ng.device_put(1e-3, place).astype(name)), onp.asarray(small)[0])


@every_kind
def test_interchange(place, name):
    x = half(X, place, name)
    assert pickle.loads(pickle.dumps(x)).dtype == x.dtype
    assert isinstance(x.tolist()[0][0], float) and float(x[0, 0]) == x[0, 0].item()
    assert f"dtype={name}" in repr(x)
    for view in (x, x[:, ::2], x.T, x[0, 0], x[:0]):
        back = np.from_dlpack(view)
        assert back.dtype == x.dtype and back.shape == view.shape
        onp.testing.assert_array_equal(onp.asarray(back).astype("f4"), onp.asarray(view).astype("f4"))


def test_limits():
    assert np.finfo("bfloat16").eps == 2.0**-7 and np.finfo(np.asarray(1, dtype="float16")).eps == 2.0**-10
    assert tolerance("float32")["rtol"] < tolerance("float16")["rtol"] < tolerance("bfloat16")["rtol"]
    assert np.bfloat16 == np.asarray(1, dtype="bfloat16").dtype


def test_without_ml_dtypes():
    """float16 works; bfloat16 says what it needs."""
    code = """
import sys
sys.modules["ml_dtypes"] = None
import numbagrad.numpy as np
assert (np.asarray([1.0], dtype="float16") * 2).dtype == "float16"
assert not hasattr(np, "bfloat16")
try:
    np.zeros(3, "bfloat16")
except TypeError as error:
    assert "pip install ml_dtypes" in str(error), error
else:
    raise AssertionError("no error")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _floats(x, name, wide):
    """A case's operand in 16 bits, or the float32 array of the same elements."""
    x = np.asarray(x)
    return x if x.dtype.kind != "f" else x.astype(name).astype("float32" if wide else name)


# what is rounded to 16 bits on the way is rounded otherwise; bins of a histogram are found in float64
ROUNDED = {"lax.round", "numpy.histogram", "numpy.histogram2d"}
SWEPT = [c for c in CASES if c[0] not in ROUNDED]


@pytest.mark.parametrize("name", EPS)
@pytest.mark.parametrize("case", SWEPT, ids=[c[0] for c in SWEPT])
def test_public_functions(case, name):
    """Values, and gradients of a weighted sum of the first real output."""
    title, function, args = case
    given, same = ([_floats(a, name, w) for a in args] for w in (False, True))
    compare_wide(leaves(function(*given)), leaves(function(*same)), name)
    if args[0].dtype.kind != "f" or title.startswith(("random.", "optim.")):
        return

    def loss(x, *rest):
        out = next(o for o in leaves(function(x, *rest)) if o.dtype.kind in "fV")
        return np.sum(out * np.linspace(0.5, 1.5, out.size, dtype=out.dtype).reshape(out.shape))

    if not any(o.dtype.kind in "f" for o in leaves(function(*same))):
        return
    try:
        want = ng.grad(loss)(*same)
    except ng.TracerConversionError:
        return
    got = ng.grad(loss)(*given)
    assert got.dtype.name == name
    compare_wide([got], [want], name)


def compare_wide(got, want, name):
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape and (g.dtype.kind in "fVc") == (w.dtype.kind in "fc")
        limit = 16 * EPS[name] if g.dtype.kind in "fVc" else 0
        g, w = (onp.asarray(x.astype("complex128")) for x in (g, w))
        onp.testing.assert_allclose(g, w, rtol=limit, atol=limit * max(1, onp.nanmax(abs(w), initial=0)))
