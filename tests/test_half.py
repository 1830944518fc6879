"""float16 and bfloat16 as storage, on every device: results are those of float32, rounded once."""

import math
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
from numbagrad.scalar import ATOMS
from numbagrad.testing import check_grads, tolerance

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


@every_kind
def test_random_numbers_are_those_of_float32(place, name):
    """Rounded down where an end is excluded, and with float32's tails."""
    draw, key = ng.random, ng.random.key(0)
    with ng.default_device(place):
        ones = onp.asarray(draw.uniform(key, (20000,), name, 1.0, 2.0)).astype("f8")
        below = onp.asarray(draw.uniform(key, (20000,), name, -1e-3, 0.0)).astype("f8")
        got, want = draw.exponential(key, (20000,), name), draw.exponential(key, (20000,), "float32")
    assert ones.min() >= 1 and ones.max() == 2 - EPS[name] and below.max() < 0
    onp.testing.assert_array_equal(onp.asarray(got).astype("f4"), onp.asarray(want.astype(name)).astype("f4"))


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
def test_quantiles_of_many(place, name):
    """Positions and the lines between elements are not of 16 bits."""
    x = half(onp.arange(70001) % 7, place, name)
    assert float(np.median(x)) == 3 and float(np.nanmedian(x)) == 3
    near(np.quantile(x, 0.9), np.quantile(x.astype("float32"), 0.9), place, name)
    assert np.quantile(x, [0.25, 0.9]).dtype == onp.float64  # as in NumPy: the list is of float64
    near(np.percentile(x[:4], 30), onp.asarray(0.9), place, name)


@every_kind
def test_dtype_and_out_by_position(place, name):
    h = half([300.0, -400.0, 500.5], place, name)
    wider = h.astype("float32")
    for function in (np.var, np.nanvar, np.std, np.nanstd, np.mean, np.nanmean):
        got = function(h, None, "float32")
        assert got.dtype == onp.float32
        onp.testing.assert_allclose(float(got), float(function(wider)), rtol=1e-6)
        assert function(wider, None, name).dtype.name == name
        out = half(0, place, name)
        assert function(h, None, None, out) is out and function(h, out=out) is out
        assert float(out) == float(function(h)) and out.dtype.name == name
    gaps = half([300.0, onp.nan, -400.0], place, name)
    assert np.nanmean(gaps, 0, "float32").dtype == np.nanstd(gaps, None, "float32").dtype == onp.float32


@every_kind
def test_parameters_in_float32(place, name):
    """16-bit activations with float32 weights: computed in float32, in float32 as their common type."""
    x = half(300 * X, place, name)
    one, wx = ng.device_put(onp.ones(7, "f4"), place), x.astype("float32")
    for function in (nn.rms_norm, nn.layer_norm):
        got = function(x, one)
        assert got.dtype == onp.float32
        onp.testing.assert_array_equal(onp.asarray(got), onp.asarray(function(wx, one)))
    got, mean, variance = nn.batch_norm(x)
    assert mean.dtype == variance.dtype == onp.float32 and got.dtype.name == name
    onp.testing.assert_array_equal(onp.asarray(variance), onp.asarray(nn.batch_norm(wx)[2]))
    near(got, nn.batch_norm(wx)[0], place, name)


@every_kind
def test_what_numpy_does_on_the_host(place, name):
    """NumPy knows neither bfloat16's nan nor its common type with integers."""
    x = half([1.0, onp.nan, 2.0, onp.nan, 1.0], place, name)
    values, first, inverse, counts = np.unique(x, True, True, True)
    assert values.dtype.name == name and onp.asarray(counts).tolist() == [2, 1, 2]
    assert onp.asarray(first).tolist() == [0, 2, 1] and onp.asarray(inverse).tolist() == [0, 2, 1, 2, 0]
    assert np.unique(x).shape == (3,) and np.unique(x, equal_nan=False).shape == (4,)
    assert onp.asarray(np.isin(x, [2, 3])).tolist() == [False, False, True, False, False]
    assert onp.asarray(np.isin([1, 7], x)).tolist() == [True, False]
    assert [float(v) for v in np.pad(x[:1], 1, constant_values=x[2])] == [2, 1, 2]
    near(np.interp(x[:1] + 0.5, half([0, 2], place, name), half([0, 1], place, name)), [0.75], place, name)


@every_kind
def test_rules_of_several_operations(place, name):
    """A rule that divides or multiplies on its way stays in range."""
    v = half([300.0, 300.0, 1e-3, 1e-2], place, name)
    last = lambda t: np.cumprod(t)[3]
    near(ng.grad(last)(v), ng.grad(last)(v.astype("float32")), place, name)


@every_kind
def test_python_floats_are_rounded_once(place, name):
    """1 + half a unit + a little: rounded to float32 first, it would be in the middle."""
    number = 1 + EPS[name] / 2 + 2.0**-40
    x = half([0.0, 0.0], place, name)
    x[0] = number
    one, up = half(1.0, place, name), 1 + EPS[name]
    made = [x[0], x.at[1].set(number)[1], np.where(one > 0, number, one), one * 0 + number]
    with ng.default_device(place):
        made += [np.asarray(number, dtype=name), np.full((), number, name)]
    assert [float(m) for m in made] == [up] * len(made)


@every_kind
def test_integers_are_rounded_once(place, name):
    unit = int(2.0**15 * EPS[name])
    if name == "bfloat16":  # what float32 does not hold is above float16's range
        unit = int(2.0**40 * EPS[name])
    base = unit * int(1 / EPS[name])
    whole = ng.device_put(onp.asarray([base + unit // 2 + 1, base + unit // 2, base + unit // 2 - 1]), place)
    onp.testing.assert_array_equal(onp.asarray(whole.astype(name)).astype("f8"), [base + unit, base, base])


@every_kind
def test_complex_numbers_to_16_bits(place, name):
    for dtype in ("complex64", "complex128"):
        z = ng.device_put(onp.asarray([2 + 1j, -0.5j], dtype), place)
        onp.testing.assert_array_equal(onp.asarray(z.astype(name)).astype("f4"), [2, 0])


@every_kind
def test_common_types_of_composed_functions(place, name):
    h = half([1.0, 2.0, 4.0], place, name)
    assert np.gradient(h).dtype.name == np.linspace(h[0], h[2], 4).dtype.name == name
    assert np.ldexp(h, onp.asarray(2, "i4")).dtype.name == name
    check_grads(lambda t: np.sin(t.astype("float32")), (h,))  # to the precision of the point
    assert np.isdtype(h.dtype, "real floating") and np.isdtype(h.dtype, (h.dtype, "bool"))
    assert not np.isdtype(h.dtype, ("bool", "integral", "complex floating", onp.dtype("f4")))


def test_numpy_arrays_of_a_fresh_process_and_lists():
    """No type of 16 bits has been met yet; a list says its type only when it has become an array."""
    code = """
import numpy as onp
import numbagrad.numpy as np
h = onp.asarray([300, -400, 500.5], "f2")
assert abs(float(np.linalg.norm(h)) - 707.5) < 1 and np.linalg.norm(h).dtype == "f2"
assert abs(float(np.linalg.norm(list(h))) - 707.5) < 1 and float(np.mean([onp.float16(60000)] * 3)) > 59999
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def scaled(x):
    """Gives float64 for float32."""
    return x * 2.5 + math.pi


def whole(x):
    """Gives integers."""
    return int(x)


def either(x):
    """One of two types."""
    return x if x > 1 else 0.0


@pytest.mark.parametrize("body", [scaled, whole, either])
def test_atoms_of_users(body):
    try:
        function = ng.elementwise(ng.atom(partials=lambda x, out: out * 0 + 1)(body))
        for place, name in KINDS:
            x = half([0.3, 2.7], place, name)
            near(function(x), [body(float(v)) for v in x], place, name)
            near(ng.grad(lambda v: np.sum(function(v)))(x), [1, 1], place, name)
    finally:
        ATOMS.pop(body.__name__)


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
