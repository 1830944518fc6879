"""The registry's whole table on the emulated CUDA device: values against NumPy, derivatives against the CPU's.

Every launch runs twice, with threads in opposite order, on memory full of nan, every access checked (emulator.py).
"""

import numpy as onp
import pytest
from cuda_emulated import DEVICE, close, derivatives, on_device, outputs, put, put_strided, reference
from samples.atoms import SAMPLES
from samples.cases import Case
from samples.primitives import CASES
from test_table_primitives import EDGES

import numbagrad as ng
from numbagrad.core.array import Array
from numbagrad.core.registry import PRIMITIVES


def params(cases):
    return [
        pytest.param(c, id=f"{k}-{c.primitive}", marks=pytest.mark.xdist_group(f"cuda_{c.primitive}"))
        for k, c in enumerate(cases)
    ]


@pytest.mark.parametrize("case", params(CASES))
def test_value(case):
    args = [put(a) for a in case.args]
    got = on_device(case(*args))
    close(got, reference(case, got))
    if not case.primitive.endswith("_into"):
        for a, b in zip(args, case.args, strict=True):
            onp.testing.assert_array_equal(onp.asarray(a), b)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["step", "reverse", "fortran"])
@pytest.mark.parametrize("case", params(c for c in CASES if not c.primitive.endswith("_into")))
def test_layouts(case, layout):
    args = [put_strided(a, layout) for a in case.args]
    close(on_device(case(*args)), on_device(case(*map(put, case.args))))


def moving(case):
    """The function of those operands that have a derivative, to those results that have one."""
    places = [k for k, a in enumerate(case.args) if a.dtype.kind in "fc"]

    def function(*xs):
        whole = [x if isinstance(x, Array) else Array(x) for x in case.args]
        if xs[0].device == DEVICE:
            whole = [put(onp.asarray(x)) for x in whole]
        for k, x in zip(places, xs, strict=True):
            whole[k] = x
        out = case(*whole)
        outs = [o for o in (out if isinstance(out, tuple) else (out,)) if o.dtype.kind in "fc"]
        return outs[0] if len(outs) == 1 else tuple(outs)

    return function, [case.args[k] for k in places]


@pytest.mark.slow
@pytest.mark.parametrize("case", params(c for c in CASES if c.order))
def test_derivatives(case):
    function, args = moving(case)
    order = min(case.order, 2)
    got = derivatives(function, [put(a) for a in args], order)
    want = derivatives(function, [Array(a) for a in args], order)
    close(on_device(got), want, 4)


@pytest.mark.parametrize(("name", "args", "options"), EDGES)
def test_edges(name, args, options):
    """Ties, infinities, nan, zeros: the CPU's value and derivatives, which the contract's tests have checked."""
    case = Case(name, tuple(onp.asarray(a) for a in args), None, options)
    function, floats = moving(case)
    close(on_device(case(*map(put, case.args))), outputs(case(*map(Array, case.args))))
    got = derivatives(function, [put(a) for a in floats], 2)
    close(on_device(got), derivatives(function, [Array(a) for a in floats], 2), 4)


@pytest.mark.slow
@pytest.mark.parametrize("bad", [onp.inf, -onp.inf, onp.nan])
@pytest.mark.parametrize("name", ["dot_general", "conv", "conv_input", "conv_weight"])
def test_zero_cotangents_are_absorbing_in_products(name, bad):
    """0 * inf and 0 * nan are 0 where the 0 is a cotangent's or a tangent's, at both orders."""
    case = next(c for c in CASES if c.primitive == name and c.order and all(a.size > 4 for a in c.args))
    rng = onp.random.default_rng(2)
    args = [a.copy() for a in case.args]
    for a in args:
        a.reshape(-1)[rng.integers(0, a.size, 2)] = bad

    def pulled(place):
        def gradients(*xs):
            out, pull = ng.vjp(case, *xs)
            ct = onp.where(rng_ct.random(out.shape) < 0.5, 0.0, 1.0)
            return pull(place(ct.astype(out.dtype)))

        rng_ct = onp.random.default_rng(4)
        xs = [place(a) for a in args]
        first = gradients(*xs)
        rng_ct = onp.random.default_rng(4)
        second = ng.jvp(gradients, tuple(xs), tuple(place(onp.zeros_like(a)) for a in args))[1]
        return [*first, *second]

    want = pulled(Array)
    close(on_device(pulled(put)), want, 4)
    assert all(not onp.asarray(t).any() for t in want[len(args) :])


def test_every_primitive_has_a_kernel():
    missing = []
    for name, primitive in PRIMITIVES.items():
        home = getattr(primitive, "home", "")
        if home:
            module, _, function = home.partition(":")
            found = __import__(f"numbagrad.kernels.cuda.{module}", fromlist=[function])
            if not hasattr(found, function):
                missing.append(name)
    assert not missing


# ------------------------------------------------------------------------------------------- elementwise

NUMBERS = ("float64", "float32", "complex64", "complex128", "int32", "uint8", "bool")


def cuda_atoms(names, *more):
    return [pytest.param(n, *more, marks=pytest.mark.xdist_group(f"cuda_atom_{n}")) for n in names]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtype"), [p for d in NUMBERS for p in cuda_atoms([n for n, s in SAMPLES.items() if d in s.dtypes()], d)]
)
def test_elementwise(name, dtype):
    """The CPU's value, in runs of 16 bytes and in the rest."""
    sample = SAMPLES[name]
    inputs = sample.inputs(dtype)
    try:
        want = onp.asarray(sample(*inputs))
    except TypeError:
        with pytest.raises(TypeError):
            sample(*map(put, inputs))
        return
    got = on_device(sample(*map(put, inputs)))
    if want.dtype.kind in "biu":
        onp.testing.assert_array_equal(got[0], want)
    else:
        close(got, [want], 1 / 4)


SMOOTH = [n for n, s in SAMPLES.items() if not s.constant and "float64" in s.dtypes()]


@pytest.mark.slow
@pytest.mark.parametrize("name", cuda_atoms(SMOOTH))
def test_elementwise_derivatives(name):
    sample = SAMPLES[name]
    inputs, places = sample.inputs("float64"), sample.movable()

    def function(*xs):
        whole = [put(x) if xs[0].device == DEVICE else x for x in inputs]
        for k, x in zip(places, xs, strict=True):
            whole[k] = x
        return sample(*whole)

    order = min(sample.atom.order, 2)
    got = derivatives(function, [put(inputs[k]) for k in places], order)
    want = derivatives(function, [Array(inputs[k]) for k in places], order)
    close(on_device(got), want, 8)
