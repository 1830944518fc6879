"""The contract over every primitive: edge x mode x order, with random cotangents and tangents.

Rule 2 says that both modes agree wherever a value is defined at all. Differences cannot tell at ties, zeros and
infinities; the inner-product identity can: <ct, J t> = <J^T ct, t>.
"""

import numpy as onp
import pytest
from samples.primitives import CASES

import numbagrad as ng
from numbagrad.core.array import Array
from numbagrad.core.registry import PRIMITIVES
from numbagrad.kernels.cpu.absorbing import product
from numbagrad.testing import inner_product_identity


def ties(x):
    return onp.round(x)


def zeros(x):
    return onp.zeros_like(x)


def equal(x):
    return onp.full_like(x, 1.5)


def some_zeros(x):
    return onp.where(onp.arange(x.size).reshape(x.shape) % 2 == 0, onp.zeros((), x.dtype), x)


EDGES = [ties, zeros, equal, some_zeros]


def table():
    """The two largest differentiable float64 cases of each primitive."""
    found = {}
    for case in CASES:
        if case.order and all(a.dtype.kind not in "c" for a in case.args):
            found.setdefault(case.primitive, []).append(case)
    for name, cases in found.items():
        for case in sorted(cases, key=lambda c: -sum(a.size for a in c.args))[:2]:
            yield pytest.param(case, id=str(case)[:80], marks=pytest.mark.xdist_group(f"primitive_{name}"))


def at(case, edge):
    return [edge(a) if a.dtype.kind == "f" else a for a in case.args]


@pytest.mark.parametrize("edge", EDGES, ids=lambda e: e.__name__)
@pytest.mark.parametrize("case", list(table()))
def test_both_modes_agree(case, edge):
    inner_product_identity(case, [Array(a) for a in at(case, edge)])


def values_of(case):
    """The case without outputs that are integers."""

    def function(*args):
        out = case(*args)
        return tuple(o for o in out if o.dtype.kind == "f") if isinstance(out, tuple) else (out,)

    return function


def gradient(case):
    """The gradient along a fixed random cotangent, of all float operands.

    The operand is added, so that a second derivative of zero is compared on its scale.
    """

    def function(*args):
        outs, pull = ng.vjp(values_of(case), *args)
        rng = onp.random.default_rng(5)
        grads = pull(tuple(rng.standard_normal(o.shape).astype(o.dtype) for o in outs))
        return tuple(g + a for g, a in zip(grads, args, strict=True) if a.dtype.kind == "f")

    return function


@pytest.mark.slow
@pytest.mark.parametrize("edge", EDGES, ids=lambda e: e.__name__)
@pytest.mark.parametrize("case", list(table()))
def test_both_modes_agree_on_the_gradient(case, edge):
    inner_product_identity(gradient(case), [Array(a) for a in at(case, edge)])


@pytest.mark.filterwarnings("ignore:invalid value encountered in matmul")  # of the value
@pytest.mark.parametrize("number", [onp.nan, onp.inf, -onp.inf], ids=str)
@pytest.mark.parametrize("case", list(table()))
def test_a_zero_cotangent_is_absorbing(case, number):
    """Operands full of nan or inf: what does not matter contributes exactly zero (rule 5)."""
    args = [Array(onp.full_like(a, number)) if a.dtype.kind == "f" else Array(a) for a in case.args]
    outs, pull = ng.vjp(values_of(case), *args)
    for g, a in zip(pull(tuple(onp.zeros(o.shape, o.dtype) for o in outs)), args, strict=True):
        if a.dtype.kind == "f":
            assert not onp.asarray(g).any()


@pytest.mark.parametrize("number", [onp.nan, onp.inf], ids=str)
@pytest.mark.parametrize("case", [c for c in table() if c.values[0].primitive in ("dot_general", "conv")])
def test_a_product_absorbs_zeros_one_by_one(case, number):
    """One operand with a single nan or inf: only what a nonzero cotangent or tangent meets there is not finite."""
    args = [a.copy() for a in case.args]
    if not all(a.size for a in args):
        return
    args[0].reshape(-1)[0] = number
    clean = case.args
    out, pull = ng.vjp(lambda y: case(args[0], y), Array(args[1]))
    bad = ~onp.isfinite(onp.asarray(out))
    ct = onp.where(bad, 0.0, onp.random.default_rng(3).standard_normal(out.shape))
    (want,) = ng.vjp(lambda y: case(clean[0], y), Array(clean[1]))[1](ct)
    onp.testing.assert_allclose(onp.asarray(pull(ct)[0]), onp.asarray(want), rtol=1e-12, atol=1e-12)


def test_the_table_is_complete():
    covered = {p.values[0].primitive for p in table()}
    differentiable = {c.primitive for c in CASES if PRIMITIVES[c.primitive].kind != "constant" and c.order}
    assert differentiable - covered == {"fourier"}  # of complex numbers only


@pytest.mark.parametrize("absorbs", [(), (0,), (1,), (0, 1)])
def test_absorbing_products_term_by_term(absorbs):
    """A term with an absorbing zero is nothing; beside it infinities and nan still count as what they are."""
    rng = onp.random.default_rng(0)
    values = onp.array([0.0, 0.0, 1.0, -2.0, 3.0, 0.5, onp.inf, -onp.inf, onp.nan])
    weights = onp.array([3.0, 3, 3, 3, 3, 3, 0.6, 0.6, 0.3])
    for _ in range(400):
        n = rng.integers(1, 5)
        a, b = (rng.choice(values, shape, p=weights / weights.sum()) for shape in ((2, n), (n, 3)))
        want = onp.zeros((2, 3))
        with onp.errstate(invalid="ignore"):
            for i, j, k in onp.ndindex(2, 3, n):
                if not (0 in absorbs and a[i, k] == 0) and not (1 in absorbs and b[k, j] == 0):
                    want[i, j] += a[i, k] * b[k, j]
            got = product(onp.matmul, a, b, absorbs)
        onp.testing.assert_array_equal(got, want)
