"""Every atom over the table of samples: value, dtype, derivatives, special inputs, layouts."""

import itertools

import numpy as onp
import pytest
from samples.atoms import SAMPLES, SIZE

import numbagrad as ng
from numbagrad.core.array import Array
from numbagrad.core.dtypes import SUPPORTED
from numbagrad.numpy.elementwise import call
from numbagrad.primitives.elementwise import convert
from numbagrad.scalar import ATOMS
from numbagrad.testing import check_grads, inner_product_identity, tolerance

# Derivatives of these have jumps that the differences of a higher order would have to step around; their samples
# keep away from the jumps, so nothing is left out.
SMOOTH = [n for n, s in SAMPLES.items() if not s.constant and "float64" in s.dtypes()]
HOLOMORPHIC = [n for n, s in SAMPLES.items() if not s.constant and "complex128" in s.dtypes()]
INEXACT = ("float64", "float32", "complex128", "complex64")


def group(names):
    """One worker takes all tests of an atom: they share kernels."""
    return [pytest.param(n, marks=pytest.mark.xdist_group(f"atom_{n}")) for n in names]


def expected(sample, inputs):
    """The reference in NumPy's dtype; functions with floating results take integers as float64."""
    if sample.atom.rule == "float":
        inputs = [x.astype(onp.float64) if x.dtype.kind in "biu" else x for x in inputs]
    with onp.errstate(all="ignore"):
        return onp.asarray(sample.reference(*inputs))


def wide(sample, inputs):
    """The reference computed in double precision, for comparison with single."""
    up = {"f": onp.float64, "c": onp.complex128}
    return expected(sample, [x.astype(up.get(x.dtype.kind, x.dtype)) for x in inputs])


def close(sample, got, want):
    # 16 roundings: the vectorised functions are good to 2 (test_simd.py), SciPy's references to a few more
    limits = tolerance(got.dtype, 1 / 4)
    onp.testing.assert_allclose(got, want, **limits, equal_nan=True, err_msg=sample.name)


def floating(sample, dtype="float64", shape=SIZE, seed=0):
    """Inputs and the function of those among them that have a derivative."""
    inputs = sample.inputs(dtype, shape, seed)
    moving = sample.movable()

    def function(*xs):
        whole = list(inputs)
        for k, x in zip(moving, xs, strict=True):
            whole[k] = x
        return sample(*whole)

    return function, [Array(inputs[k]) for k in moving]


def test_every_atom_has_samples():
    for name, sample in SAMPLES.items():
        assert sample.reference is not None, f"{name}: needed reference= in its block, or a row in samples/atoms.py"
        assert sample.atom.doc, f"{name}: needed a docstring"
        assert len(sample.domains) == sample.atom.arity - (sample.literal is not None), name
        assert sample.dtypes(), name


CASES = [(n, d) for n, s in SAMPLES.items() for d in s.dtypes()]
QUICK = ("float64", "float32", "complex128", "int64", "bool")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(n, d, marks=[pytest.mark.xdist_group(f"atom_{n}"), *([] if d in QUICK else [pytest.mark.slow])])
        for n, d in CASES
    ],
)
def test_value(name, dtype):
    sample = SAMPLES[name]
    inputs = sample.inputs(dtype)
    try:
        want = expected(sample, inputs)
    except TypeError:
        with pytest.raises(TypeError):  # what NumPy refuses is refused
            sample(*inputs)
        return
    got = onp.asarray(sample(*inputs))
    assert got.shape == want.shape
    assert got.dtype == want.dtype, f"{name}({dtype})"
    if got.dtype.kind in "biu":
        onp.testing.assert_array_equal(got, want)
    else:
        close(sample, got, wide(sample, inputs))


@pytest.mark.parametrize("name", group(SAMPLES))
def test_unsupported_dtypes_raise(name):
    """A TypeError that names the operation, not one from the compiler."""
    sample = SAMPLES[name]
    if sample.public:
        for dtype in {"float64", "complex64"} - set(sample.dtypes()):
            with pytest.raises(TypeError, match=f"{name}: "):
                sample(*sample.inputs(dtype))


NAN, INF = onp.nan, onp.inf
POINTS = onp.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 1e-300, -1e300, 1e300, 5e-324])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", group(SAMPLES))
def test_special_values(name, dtype):
    """nan, infinities, signed zeros, ties, huge and tiny numbers: as the reference."""
    sample = SAMPLES[name]
    if dtype not in sample.dtypes() or not sample.everywhere:
        pytest.skip("no floating form, or a reference that is not defined there")
    with onp.errstate(over="ignore"):
        points = POINTS.astype(dtype)
    inputs = [onp.array(p) for p in zip(*itertools.product(points, repeat=len(sample.domains)), strict=True)]
    inputs = [x[~onp.isin(x, UNDECIDED.get(name, []))] for x in inputs]
    inputs = [x > 0 if d == "condition" else x for x, d in zip(inputs, sample.domains, strict=True)]
    want, got = expected(sample, inputs), onp.asarray(sample(*inputs))
    if got.dtype.kind in "bc":
        onp.testing.assert_array_equal(got, want)
        return
    zero = (want == 0) & (got == 0)
    wrong = zero & (onp.signbit(got) != onp.signbit(want)) if name not in SIGN_OF_ZERO else onp.zeros(1, bool)
    assert not wrong.any(), f"sign of zero at {[x[wrong] for x in inputs]}"
    tiny = onp.finfo(dtype).tiny  # below, NumPy and the vectorised functions may flush
    onp.testing.assert_allclose(got, want, rtol=16 * onp.finfo(dtype).eps, atol=tiny, err_msg=f"{inputs}")


# The sign of a zero result is not promised: a maximum of 0.0 and -0.0 is whichever comes first.
SIGN_OF_ZERO = {"maximum", "minimum", "fmax", "fmin", "clip", "zero_product", "null_product", "sign", "erfinv"}

# Points where this library and SciPy differ, and why.
UNDECIDED = {
    "digamma": [0.0],  # a pole with both signs: nan here, minus infinity times the sign of zero there
    "soft_sign_of": [INF, -INF],  # the reference is inf / inf
    # x / y leaves the range of numbers; SciPy switches to log x - log y there
    "rel_entr": [1e-300, 5e-324, 1e300, -1e300],
    "lgamma": [-INF, 5e-324],  # C's value is +inf, SciPy's -inf; SciPy overflows where the result is 744.4
}


@pytest.mark.parametrize("name", group(SMOOTH))
def test_first_derivative(name):
    function, inputs = floating(SAMPLES[name])
    check_grads(function, inputs, order=1)


@pytest.mark.parametrize("name", group(SMOOTH))
def test_first_derivative_float32(name):
    function, inputs = floating(SAMPLES[name], "float32")
    # the inputs of the differences are rounded to float32 in neither case: f is evaluated in float64 there
    check_grads(function, inputs, order=1, rtol=2e-5)
    out, pull = ng.vjp(function, *inputs)
    assert all(g.dtype == x.dtype for g, x in zip(pull(out), inputs, strict=True))


@pytest.mark.parametrize("name", group(HOLOMORPHIC))
def test_complex_derivative(name):
    function, inputs = floating(SAMPLES[name], "complex128")
    check_grads(function, inputs, order=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", group(HOLOMORPHIC))
def test_complex_second_derivative(name):
    function, inputs = floating(SAMPLES[name], "complex128")
    check_grads(function, inputs, order=2)


@pytest.mark.parametrize("name", group(n for n in SMOOTH if SAMPLES[n].atom.order >= 2))
def test_second_derivative(name):
    function, inputs = floating(SAMPLES[name])
    check_grads(function, inputs, order=2, modes=["rev"])


@pytest.mark.slow
@pytest.mark.parametrize("name", group(n for n in SMOOTH if SAMPLES[n].atom.order >= 2))
def test_mixed_second_derivatives(name):
    function, inputs = floating(SAMPLES[name])
    check_grads(function, inputs, order=2)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fwd", "rev"])
@pytest.mark.parametrize("name", group(n for n in SMOOTH if SAMPLES[n].atom.order >= 3))
def test_third_derivative(name, mode):
    function, inputs = floating(SAMPLES[name])
    check_grads(function, inputs, order=3, modes=[mode])


@pytest.mark.parametrize("name", group(SMOOTH))
def test_modes_agree_at_ties_and_zeros(name):
    """Rule 2 where differences say nothing: equal operands, zeros of both signs."""
    sample = SAMPLES[name]
    ties = onp.array([0.0, -0.0, 1.0, -1.0, 0.5, 0.0, 1.0])
    inputs = [onp.roll(ties, 2 * k) if d != "condition" else ties > 0 for k, d in enumerate(sample.domains)]
    moving = [Array(inputs[k]) for k in sample.movable()]

    def function(*xs):
        whole = list(inputs)
        for k, x in zip(sample.movable(), xs, strict=True):
            whole[k] = x
        out = sample(*whole)
        # poles have a derivative that is infinite; the finite ones must agree
        return ng.numpy.where(onp.isfinite(onp.asarray(finite)), out, 0.0)

    cts = onp.ones(ties.size)
    _, pull = ng.vjp(lambda *xs: sample(*[*xs] if len(xs) == len(inputs) else [inputs[0], *xs]), *moving)
    finite = sum((onp.asarray(g) for g in pull(cts)), onp.zeros(ties.size))
    inner_product_identity(function, moving)


@pytest.mark.parametrize("name", group(SMOOTH))
def test_zero_cotangent_is_absorbing(name):
    """Rule 5 at every kind of point: whatever the local derivative is, times nothing it is nothing."""
    sample = SAMPLES[name]
    if name in ("polygamma", "sinc_derivative"):
        points = onp.array([0.0, 1.0, INF])
    else:
        points = onp.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 1e300])
    pairs = [onp.array(p) for p in zip(*itertools.product(points, repeat=len(sample.domains)), strict=True)]
    pairs = [x > 0 if d == "condition" else x for x, d in zip(pairs, sample.domains, strict=True)]
    moving = sample.movable()
    fixed = pairs[: len(pairs) - len(moving)]
    out, pull = ng.vjp(lambda *xs: sample(*fixed, *xs), *[pairs[k] for k in moving])
    for g in pull(onp.zeros(out.shape)):
        assert not onp.asarray(g).any(), f"{name}: {onp.asarray(g)}"
    _, t = ng.jvp(lambda *xs: sample(*fixed, *xs), [pairs[k] for k in moving], [onp.zeros(out.shape)] * len(moving))
    assert not onp.asarray(t).any(), f"{name}: {onp.asarray(t)}"


# ------------------------------------------------------------------------------------------------ layouts

LAYOUTS = {
    "step": lambda b: b[:, ::2],
    "reverse": lambda b: b[::-1, ::-1],
    "transposed": lambda b: b.T,
    "fortran": onp.asfortranarray,
    "repeated_rows": lambda b: onp.broadcast_to(b[:1], b.shape),
    "repeated_columns": lambda b: onp.broadcast_to(b[:, :1], b.shape),
    "0-d": lambda b: b[1, 2, ...],
    "empty": lambda b: b[:0],
    "empty_step": lambda b: b[:, :0:2],
}


def same(got, want):
    """Loops of another layout may contract a*b + c differently: one rounding in each of a few operations."""
    onp.testing.assert_allclose(onp.asarray(got), onp.asarray(want), **tolerance(want.dtype, 1 / 8))


def value_and_pull(sample, inputs):
    moving = sample.movable()
    fixed = [Array(x) for x in inputs[: len(inputs) - len(moving)]]
    out, pull = ng.vjp(lambda *xs: sample(*fixed, *xs), *[Array(inputs[k]) for k in moving])
    ct = onp.random.default_rng(5).standard_normal(out.shape)
    return out, pull(ct)


@pytest.mark.parametrize("name", group(n for n in SAMPLES if "float64" in SAMPLES[n].dtypes()))
def test_layouts(name):
    """Value and gradient do not depend on how the operands lie in memory."""
    sample = SAMPLES[name]
    base = sample.inputs("float64", (6, 8))
    for layout, view in LAYOUTS.items():
        views = [view(b) for b in base]
        plain = [onp.array(v, order="C") for v in views]
        if layout in ("step", "repeated_rows") and len(views) > 1:
            views = [views[0], *plain[1:]]  # operands of different layouts
        if sample.constant:
            same(sample(*[Array(v) for v in views]), onp.asarray(sample(*plain)))
            continue
        (got, got_grads), (want, want_grads) = value_and_pull(sample, views), value_and_pull(sample, plain)
        same(got, want)
        for g, w in zip(got_grads, want_grads, strict=True):
            assert g.shape == w.shape and g.dtype == w.dtype, layout
            same(g, w)


@pytest.mark.parametrize("name", group(n for n in SMOOTH if len(SAMPLES[n].domains) == 2))
def test_broadcasting(name):
    """Operands of different shapes: NumPy's value, and gradients summed over what was repeated."""
    sample = SAMPLES[name]
    x = sample.inputs("float64", (4, 1))[0]
    y = sample.inputs("float64", (3,))[1]
    close(sample, onp.asarray(sample(x, y)), expected(sample, [x, y]))
    check_grads(sample, (x, y), order=1)
    check_grads(sample, (x, onp.asarray(y[0])), order=1)


# -------------------------------------------------------------------------------------------------- casts


@pytest.mark.parametrize("source", sorted(d.name for d in SUPPORTED))
def test_casts(source):
    """Every pair of dtypes: NumPy's astype; complex to real takes the real part."""
    x = onp.array([0, 1, 2, 3, 100, 0, 5], source)
    if x.dtype.kind in "ifc":
        x[1:3] *= -1
    if x.dtype.kind in "fc":
        x[3] += x.dtype.type(0.75)
    if x.dtype.kind == "c":
        x[4] += 2j
    for target in sorted(SUPPORTED, key=str):
        plain = x.real if x.dtype.kind == "c" and target.kind not in "cb" else x
        if target.kind == "u":
            plain = abs(plain)  # negative floats to unsigned are undefined in C
        got = onp.asarray(convert(onp.ascontiguousarray(plain.astype(source)), target))
        assert got.dtype == target
        onp.testing.assert_array_equal(got, plain.astype(target))


@pytest.mark.parametrize("source", INEXACT)
def test_cast_derivatives(source):
    x = onp.random.default_rng(0).standard_normal(5).astype(source)
    for target in INEXACT:
        function = lambda v, to=target: v.astype(to)
        inner_product_identity(function, (x,))
        _, t = ng.jvp(function, (x,), (x,))
        want = x.real if x.dtype.kind == "c" and target.startswith("float") else x
        onp.testing.assert_array_equal(onp.asarray(t), want.astype(target))


def test_an_unknown_operation_is_reported():
    """The table can fail: an atom without a reference is found by the first test of this file."""
    assert "cast_float64_float32" not in SAMPLES
    with pytest.raises(KeyError):
        call("no_such_atom", 1.0)
    assert set(SAMPLES) <= set(ATOMS)
