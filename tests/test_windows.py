"""Windows: random geometries against padding and slicing in NumPy, monoids of the user's, selection, edges."""

import functools
import math
import re

import numba
import numpy as onp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples.windows import elements, extremum, spread, summed

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import config, lax, nn
from numbagrad.kernels.cpu import abi, compiler, taps
from numbagrad.kernels.cpu import window as kernels
from numbagrad.kernels.cpu.pipeline import KernelCompiler
from numbagrad.primitives.window import Axis
from numbagrad.testing import check_grads, tolerance

INF, NAN = onp.inf, onp.nan


@pytest.fixture
def rng():
    """The same numbers for every test, whichever ran before it."""
    return onp.random.default_rng(7)


# ------------------------------------------------------------------------------- random geometries

spans = (0, 9), (1, 4), (1, 4), (-3, 4), (-3, 4), (1, 3), (1, 3)
axis = st.one_of(
    st.integers(0, 6).map(Axis),
    st.tuples(*(st.integers(*span) for span in spans)).map(lambda values: Axis(*values)),
)
geometries = st.lists(axis, min_size=1, max_size=4).filter(
    lambda axes: math.prod(max(1, a.n, a.outputs) * a.size for a in axes) <= 20000
)


def window_of(axes):
    """The axes as keywords of reduce_window."""
    _, size, stride, low, high, base, dilation = zip(*axes)
    return dict(
        window_dimensions=size,
        window_strides=stride,
        padding=tuple(zip(low, high)),
        base_dilation=base,
        window_dilation=dilation,
    )


def numbers(axes, seed, coarse):
    """Numbers for the axes; coarse: many ties, some infinite or nan."""
    rng = onp.random.default_rng(seed)
    shape = [a.n for a in axes]
    if not coarse:
        return rng.standard_normal(shape)
    return rng.choice([-INF, -1.0, 0.0, 1.0, 1.0, 2.0, NAN], shape, p=[0.2, 0.2, 0.2, 0.2, 0.1, 0.05, 0.05])


def check_extremum(axes, kind, x):
    init, function = (-INF, lax.max) if kind == "max" else (INF, lax.min)
    f = lambda x: lax.reduce_window(x, init, function, **window_of(axes))
    value, source = extremum(x, axes, kind)
    out, pull = ng.vjp(f, x)
    onp.testing.assert_array_equal(out, value)
    onp.testing.assert_array_equal(f(x), value)  # the loop without a route
    ct = onp.random.default_rng(1).integers(1, 9, value.shape).astype(x.dtype)
    want = onp.zeros(x.size + 1, x.dtype)
    onp.add.at(want, source, ct)
    onp.testing.assert_array_equal(pull(ct)[0], want[:-1].reshape(x.shape))
    t = onp.random.default_rng(2).standard_normal(x.shape).astype(x.dtype)
    onp.testing.assert_array_equal(ng.jvp(f, (x,), (t,))[1], onp.append(t, x.dtype.type(0))[source])


def check_sum(axes, x):
    f = lambda x: lax.reduce_window(x, 0.0, lax.add, **window_of(axes))
    out, pull = ng.vjp(f, x)
    onp.testing.assert_allclose(out, summed(x.astype(float), axes), **tolerance(x.dtype, 4))
    ct = onp.random.default_rng(1).standard_normal(out.shape).astype(x.dtype)
    # of a few dozen terms of order one
    onp.testing.assert_allclose(pull(ct)[0], spread(ct.astype(float), axes), **tolerance(x.dtype, 4))


def check_monoid(axes, x):
    """(a, b) then (c, d) is x -> c (a x + b) + d: associative, not commutative."""
    compose = lambda f, g: (f[0] * g[0], g[0] * f[1] + g[1])
    a, b = 1 + x / 8, onp.cos(x)
    got = lax.reduce_window((a, b), (1.0, 0.0), compose, **window_of(axes))
    (avs, there), (bvs, _) = elements(a, axes, 1), elements(b, axes, 0)
    want = onp.ones(there.shape[:-1]), onp.zeros(there.shape[:-1])
    for k in range(there.shape[-1]):
        want = compose(want, (avs[..., k], bvs[..., k]))
    for g, w in zip(got, want):
        onp.testing.assert_allclose(g, w, rtol=1e-11, atol=1e-11)  # products of up to 64 numbers near one


def check_geometry(axes, kind, seed, coarse, single):
    axes = tuple(axes)
    x = numbers(axes, seed, coarse and kind in ("max", "min"))
    x = x.astype(onp.float32) if single else x
    if kind in ("max", "min"):
        check_extremum(axes, kind, x)
    elif kind == "add":
        check_sum(axes, x)
    else:
        check_monoid(axes, x.astype(float))


search = given(
    axes=geometries,
    kind=st.sampled_from(["max", "min", "add", "monoid"]),
    seed=st.integers(0, 99),
    coarse=st.booleans(),
    single=st.booleans(),
)
quiet = functools.partial(
    settings, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


@quiet(max_examples=60)
@search
def test_geometries(axes, kind, seed, coarse, single):
    check_geometry(axes, kind, seed, coarse, single)


@pytest.mark.slow
@quiet(max_examples=1000)
@search
def test_many_geometries(axes, kind, seed, coarse, single):
    check_geometry(axes, kind, seed, coarse, single)


LONG = [  # blocks of the last axis, many phases, wide channels
    (Axis(3), Axis(1700, 5, 1, 2, 2)),
    (Axis(2), Axis(1500, 3, 2, 1, 1)),
    (Axis(1500, 3, 3, 0, 2, 2),),
    (Axis(1501, 4, 70, 3, 5),),  # more phases than a block has room for, in the adjoint
    (Axis(30, 4, 7, 3, 5, 67, 3),),
    (Axis(2000, 900, 800),),
    (Axis(900, 3, 2, 0, 1), Axis(9)),
    (Axis(6, 3, 2, 0, 1), Axis(5, 2), Axis(1100)),
    (Axis(2), Axis(40, 3, 2, 1, 1), Axis(40, 3, 2, 1, 1), Axis(3)),
]


@pytest.mark.parametrize("axes", LONG, ids=str)
def test_long_axes(axes):
    check_extremum(axes, "max", numbers(axes, 0, True))
    check_sum(axes, numbers(axes, 0, False))


@pytest.mark.parametrize("channels_last", [False, True])
def test_real_size(channels_last, rng):
    axes = [Axis(4), Axis(56, 3, 2, 0, 1), Axis(56, 3, 2, 0, 1)]
    axes = (*axes, Axis(16)) if channels_last else (axes[0], Axis(16), *axes[1:])
    x = rng.standard_normal([a.n for a in axes]).astype(onp.float32)
    check_extremum(axes, "max", x)
    check_sum(axes, x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "num_threads", lambda: 1)
        alone = nn.avg_pool(x, (3, 3), (2, 2), "SAME", channel_axis=-1 if channels_last else 1)
    both = nn.avg_pool(x, (3, 3), (2, 2), "SAME", channel_axis=-1 if channels_last else 1)
    onp.testing.assert_array_equal(alone, both)


# ------------------------------------------------------------------------------------ reduce_window


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", "bool", "float32", "complex64"])
@pytest.mark.parametrize("kind", ["max", "min", "add", "mul"])
def test_dtypes(dtype, kind, rng):
    dtype = onp.dtype(dtype)
    x = (rng.uniform(0, 9, (3, 6)) - (3 if dtype.kind in "if" else 0)).astype(dtype)
    x = x > 4 if dtype.kind == "b" else x
    limits = onp.iinfo(dtype) if dtype.kind in "iu" else None
    low, high = (limits.min, limits.max) if limits else (False, True) if dtype.kind == "b" else (-INF, INF)
    init = {"max": low, "min": high, "add": 0, "mul": 1}[kind]
    if kind in ("max", "min") and dtype.kind == "c":
        with pytest.raises(TypeError, match="complex numbers have no order"):
            lax.reduce_window(x, 0, getattr(lax, kind), (1, 2))
        return
    init = bool(init) if dtype.kind == "b" else init
    out = lax.reduce_window(x, init, getattr(lax, kind), (2, 3), (1, 2), "SAME")
    axes = (Axis(3, 2, 1, 0, 1), Axis(6, 3, 2, 0, 1))
    fold = {"max": onp.max, "min": onp.min, "add": onp.sum, "mul": onp.prod}[kind]
    if dtype.kind == "b":
        fold = {"max": onp.any, "add": onp.any, "min": onp.all, "mul": onp.all}[kind]
    want = fold(elements(x, axes, init)[0], -1)
    assert out.dtype == dtype
    onp.testing.assert_allclose(out, want.astype(dtype), **tolerance(dtype))


def test_names_of_other_libraries(rng):
    x = rng.standard_normal((4, 5))
    for ours, theirs, init in ((lax.max, onp.maximum, -INF), (lax.min, np.minimum, INF), (lax.add, onp.add, 0)):
        want = lax.reduce_window(x, init, ours, (2, 2))
        onp.testing.assert_array_equal(lax.reduce_window(x, init, theirs, (2, 2)), want)
    want = lax.reduce_window(x, 1.0, lax.mul, (2, 2))
    onp.testing.assert_array_equal(lax.reduce_window(x, 1.0, onp.multiply, (2, 2)), want)


@pytest.mark.parametrize("function", [lax.max, lax.min, lax.add, lax.mul, np.logaddexp, lambda a, b: a + b + a * b])
def test_initial_value_counts_once_in_every_window(function, rng):
    x = rng.standard_normal((3, 5))
    f = lambda x, init: lax.reduce_window(x, init, function, (2, 3), (1, 2), ((-1, 2), (2, 1)), (1, 2), (1, 2))
    axes = (Axis(3, 2, 1, -1, 2), Axis(5, 3, 2, 2, 1, 2, 2))
    values, there = elements(x, axes, 0)
    want = onp.full(values.shape[:-1], 0.3)
    for at in onp.ndindex(want.shape):
        for v in values[at][there[at]]:
            want[at] = onp.asarray(function(want[at], v))
    assert not there.any(-1).all() and there.any()
    onp.testing.assert_allclose(f(x, 0.3), want, rtol=1e-13)
    check_grads(f, (x, 0.3), order=2)


def test_products_are_exact_with_zeros():
    x = onp.array([0.0, 2.0, 0.0, 3.0])
    f = lambda x: lax.reduce_window(x, 1.0, lax.mul, (3,), padding="SAME")
    check_grads(f, (x,), order=3)
    assert ng.grad(lambda x: f(x)[1])(x).tolist() == [0, 0, 0, 0]
    assert ng.grad(lambda x: f(x)[2])(x).tolist() == [0, 0, 6, 0]


def test_infinities_of_a_monoid_do_not_become_nan():
    x = onp.array([-INF, -INF, 0.0])
    f = lambda x: lax.reduce_window(x, -INF, np.logaddexp, (2,), padding="SAME")
    assert ng.grad(lambda x: np.sum(f(x)))(x).tolist() == [0, 0, 2]


def test_trees_and_scalars(rng):
    x = {"a": rng.standard_normal(6), "b": onp.arange(6)}
    latest = lambda p, q: {"a": np.maximum(p["a"], q["a"]), "b": np.where(p["a"] >= q["a"], p["b"], q["b"])}
    f = lambda a: lax.reduce_window({**x, "a": a}, {"a": -INF, "b": -1}, latest, (3,), (2,))
    out = f(x["a"])
    assert out["b"].tolist() == [k + onp.argmax(x["a"][k : k + 3]) for k in (0, 2)]
    check_grads(lambda a: f(a)["a"], (x["a"],), order=2)
    assert float(lax.reduce_window(2.0, 0.0, lax.add, ())) == 2.0
    assert float(lax.reduce_window(2.0, 1.0, lambda a, b: a * b, ())) == 2.0
    assert ng.grad(lambda x: lax.reduce_window(x, -INF, lax.max, ()) ** 2)(3.0) == 6.0


@pytest.mark.parametrize("function", [lax.max, lax.add, lax.mul])
@pytest.mark.parametrize(
    ("shape", "pads"), [((0, 3), ((0, 0),) * 2), ((0, 3), ((1, 1), (0, 0))), ((1, 1), ((0, 0),) * 2)]
)
def test_empty(function, shape, pads):
    init = {lax.max: -INF, lax.add: 0.0, lax.mul: 1.0}[function]
    f = lambda x: lax.reduce_window(x, init, function, (2, 2), None, pads)
    out, pull = ng.vjp(f, onp.ones(shape))
    axes = [Axis(n, 2, 1, *p) for n, p in zip(shape, pads)]
    assert out.shape == tuple(a.outputs for a in axes)
    assert (onp.asarray(out) == init).all()
    assert pull(onp.ones(out.shape))[0].tolist() == onp.zeros(shape).tolist()


X = onp.ones((4, 5))
ERRORS = [
    (ValueError, "window_dimensions does not fit", lambda: lax.reduce_window(X, 0.0, lax.add, (2,))),
    (ValueError, "window_strides does not fit", lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), (0, 1))),
    (ValueError, "no such padding", lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), None, "FULL")),
    (ValueError, "padding does not fit", lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), None, [(0, 0)])),
    (TypeError, "initial value is not a scalar", lambda: lax.reduce_window(X, X, lax.add, (2, 2))),
    (TypeError, "initial value does not fit", lambda: lax.reduce_window(X > 0, -INF, lax.max, (2, 2))),
    (TypeError, "does not fit the operand: got -1", lambda: lax.reduce_window(onp.uint8([1]), -1, lax.max, (1,))),
    (TypeError, "one initial value per operand", lambda: lax.reduce_window((X, X), 0.0, lax.add, (2, 2))),
    (ValueError, "different shapes", lambda: lax.reduce_window((X, X[0]), (0.0, 0.0), lambda a, b: a, (2, 2))),
    (TypeError, "another structure", lambda: lax.reduce_window(X, 0.0, lambda a, b: (a, b), (2, 2))),
    (TypeError, "changes shape or dtype", lambda: lax.reduce_window(X, 0.0, lambda a, b: a > b, (2, 2))),
    (ValueError, "not one number per window", lambda: lax.select_and_scatter_add(X, X, "ge", (2, 2), None, "VALID")),
    (TypeError, "no such selection", lambda: lax.select_and_gather_add(X, X, "gt", (2, 2), None, "VALID")),
    (ValueError, "shapes differ", lambda: lax.select_and_gather_add(X[0], X, "ge", (2, 2), None, "VALID")),
    (TypeError, "no order", lambda: lax.select_and_gather_add(X, X * 1j, "ge", (2, 2), None, "VALID")),
    (ValueError, "the window does not fit", lambda: nn.max_pool(X, (2, 2))),
    (ValueError, "strides does not fit", lambda: nn.max_pool(X, (2,), (2, 2))),
    (TypeError, "no order", lambda: nn.max_pool(X * 1j, (2,))),
    (ValueError, "no norm", lambda: nn.lp_pool(X, 0, (2,))),
    (ValueError, "no such output size", lambda: nn.adaptive_avg_pool(onp.ones((2, 0, 1)), 3)),
    (ValueError, "no elements", lambda: nn.global_max_pool(onp.ones((2, 0, 1)))),
]


@pytest.mark.parametrize(("kind", "text", "call"), ERRORS, ids=[e[1] for e in ERRORS])
def test_errors(kind, text, call):
    with pytest.raises(kind, match=text):
        call()


# ------------------------------------------------------------------------- select, scatter and gather

SELECT = dict(window_dimensions=(3, 2), window_strides=(2, 1), padding=((1, 0), (-1, 2)))
SELECT_AXES = (Axis(6, 3, 2, 1, 0), Axis(5, 2, 1, -1, 2))
SELECTIONS = [(lax.ge, "max"), ("ge", "max"), (lax.le, "min"), (lambda a, b: a >= b, "max"), (onp.less_equal, "min")]


@pytest.mark.parametrize(("select", "kind"), SELECTIONS)
def test_selection(select, kind, rng):
    x = rng.integers(0, 4, (6, 5)).astype(float)  # with ties
    _, source = extremum(x, SELECT_AXES, kind)
    g, t = rng.standard_normal(source.shape), rng.standard_normal(x.shape)
    want = onp.zeros(x.size + 1)
    onp.add.at(want, source, g)
    got = lax.select_and_scatter_add(g, x, select, **SELECT)
    onp.testing.assert_allclose(got, want[:-1].reshape(x.shape), rtol=1e-14)
    got = lax.select_and_gather_add(t, x, select, **SELECT)
    onp.testing.assert_array_equal(got, onp.append(t, 0.0)[source])
    for add in (lax.add, lambda a, b: a + b):
        got = lax.select_and_scatter(x, select, source=g, init_value=0.5, scatter=add, **SELECT)
        onp.testing.assert_allclose(got, want[:-1].reshape(x.shape) + 0.5, rtol=1e-13)


def test_select_the_last_of_ties_and_scatter_a_product():
    x, g = onp.array([1.0, 1.0, 1.0, 0.0]), onp.array([2.0, 3.0, 5.0])
    got = lax.select_and_scatter(x, lax.gt, (2,), None, "VALID", g, 1.0, lax.mul)
    assert got.tolist() == [1.0, 2.0, 15.0, 1.0]
    assert lax.select_and_scatter(x, lax.gt, (5,), None, "VALID", g[:0], 1.0, lax.mul).tolist() == [1.0] * 4


@pytest.mark.parametrize("scatter", [lax.add, lax.mul, lax.max])
def test_derivatives_of_selection(scatter, rng):
    x = rng.standard_normal((6, 5))
    g = rng.standard_normal(extremum(x, SELECT_AXES, "max")[1].shape)

    def f(x, g, init):
        return lax.select_and_scatter(x, lax.ge, source=g, init_value=init, scatter=scatter, **SELECT)

    check_grads(f, (x, g, 0.5), order=2)
    assert not onp.asarray(ng.grad(lambda x: np.sum(f(x, g, 0.5) ** 2))(x)).any()
    pair = lambda x, t: lax.select_and_gather_add(t, x, lax.ge, **SELECT)
    check_grads(pair, (x, rng.standard_normal(x.shape)), order=2)
    check_grads(lambda x, g: lax.select_and_scatter_add(g, x, lax.le, **SELECT), (x, g), order=2)


def test_truth_values_are_or_ed():
    x, g = onp.array([1, 2, 1]), onp.array([True, True])
    assert lax.select_and_scatter_add(g, x, lax.ge, (2,), None, "VALID").tolist() == [False, True, False]
    got = lax.select_and_scatter(x > 1, lax.ge, (2,), None, "VALID", g, False, lax.add)
    assert got.dtype == bool and got.tolist() == [False, True, False]


def test_shapes_and_pads():
    assert lax.padtype_to_pads((8, 7), (3, 3), (2, 2), "same") == [(0, 1), (1, 1)]
    assert lax.padtype_to_pads((8, 7), (3, 3), (2, 2), "SAME_LOWER") == [(1, 0), (1, 1)]
    assert lax.padtype_to_pads((8,), (3,), (2,), [(1, -2)]) == [(1, -2)]
    assert lax.reduce_window_shape_tuple((8, 7), (3, 2), (2, 1), "VALID", (1, 2), (2, 1)) == (2, 12)


# -------------------------------------------------------------------------------------------- kernels


@pytest.mark.slow
@pytest.mark.parametrize(("channels", "hop"), [(1, "1"), (1, "2"), (32, "")])
@pytest.mark.parametrize(("kind", "routed"), [("max", True), ("max", False), ("sum", False)])
def test_loops_are_vectorised(kind, routed, channels, hop, monkeypatch):
    made = []
    kernels._kernel.cache_clear()
    monkeypatch.setattr(kernels, "kernel_address", lambda name, source: made.append((name, source)) or 0)
    monkeypatch.setattr(kernels.jobs, "run", lambda *a, **k: None)
    kernels._kernel(
        kind, onp.dtype(onp.float32), "int32" if routed else "", channels == 1, "1" if channels == 1 else "", str(hop)
    )
    kernels._kernel.cache_clear()
    (name, source), namespace = made[0], {"__name__": "kernel_under_test"}
    exec(source, namespace)
    options = {"nopython": True, "error_model": "numpy", "_nrt": False, "pipeline_class": KernelCompiler}
    flags = set(compiler.SCALAR_FLAGS)
    ir = numba.cfunc(abi.KERNEL_SIGNATURE, fastmath=flags, **options)(namespace[name])._library.get_llvm_str()
    combined = r"fadd [a-z ]*<\d+ x double>" if kind == "sum" else r"fcmp [a-z ]*<\d+ x float>"
    assert re.search(combined, ir), "no vectors are combined"
    if routed:
        assert any(f"store <{n} x i32>" in ir for n in (4, 8, 16, 32)), "no routes are stored"
    assert compiler._external(ir) == []


def test_a_taps_positions_are_those_of_the_equation():
    for r in (
        taps.Relation(9, 7, 3, 2, 1, -1, 1),
        taps.Relation(20, 5, 4, 3, -2, 5, 6),
        taps.Relation(5, 9, 2, 4, 3, 1, 2),
    ):
        rows, step, hop = taps.progressions(r)
        found = onp.full((r.positions, r.taps), -1)
        for t, (first, count, source) in enumerate(rows):
            found[first + step * onp.arange(count), t] = source + hop * onp.arange(count)
        onp.testing.assert_array_equal(found, taps.table(r))


@pytest.mark.parametrize("computation", [lax.max, lax.min, lax.add])
@pytest.mark.parametrize("init", [False, True])
def test_one_boolean(computation, init):
    out = lax.reduce_window(onp.array(True), init, computation, (), ())
    assert type(out._value) is onp.ndarray and out.shape == () and out.dtype == bool
    assert bool(out) == (init if computation is lax.min else True)


def test_an_init_that_ties_shares_the_derivative():
    f = lambda x: np.sum(lax.reduce_window(x, 2.0, lax.max, (2,)))
    assert ng.grad(f)(onp.array([2.0, 1.0, 0.0])).tolist() == [0.5, 0, 0]


def test_many_windows_of_one_element_add_up_in_float64():
    """65537 windows select the first element; in float32 alone their sum of 0.1 is wrong by 1e-3."""
    n, ct = 1 << 17, onp.float32(0.1)
    x = onp.zeros(n, onp.float32)
    x[n // 2 - 1] = 1
    f = lambda x: lax.reduce_window(x, -onp.inf, lax.max, (n // 2,))
    out, pull = ng.vjp(f, x)
    got = float(pull(onp.full(out.shape, ct))[0][n // 2 - 1])
    assert abs(got / (float(ct) * n / 2) - 1) < 1e-6


@pytest.mark.parametrize("dtype", [onp.float32, onp.complex64])
@pytest.mark.parametrize("after", [1, 3])
def test_many_equal_indices_add_up_in_float64(dtype, after):
    rows, ct = 1_000_000 // after, onp.asarray(0.1, dtype)
    index = onp.full((rows, after), 1)
    index[::5] = 0
    x = onp.zeros((3, after), dtype)
    pull = ng.vjp(lambda x: np.take_along_axis(x, index, 0), x)[1]
    got = onp.asarray(pull(onp.full((rows, after), ct))[0])
    zeros = (rows + 4) // 5
    want = onp.array([zeros, rows - zeros, 0])[:, None] * ct.astype(onp.complex128)
    onp.testing.assert_allclose(got, onp.broadcast_to(want, got.shape), rtol=2e-7)


def test_many_ties_of_a_cumulative_maximum():
    n = 1_000_000
    got = ng.vjp(lax.cummax, onp.zeros(n, onp.float32))[1](onp.full(n, onp.float32(0.1)))[0]
    assert abs(float(onp.sum(onp.asarray(got, float))) / (float(onp.float32(0.1)) * n) - 1) < 2e-7


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: lax.reduce_window(x, 0.0, lax.add, 2), "window_dimensions is not made of integers"),
        (lambda x: lax.reduce_window(x, 0.0, lax.add, (2.0, 2)), "window_dimensions is not made of integers"),
        (lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), padding=1), "padding is not made of pairs"),
    ],
)
def test_windows_are_integers(call, words):
    with pytest.raises(TypeError, match=f"^reduce_window: {words}"):
        call(onp.ones((4, 4)))
