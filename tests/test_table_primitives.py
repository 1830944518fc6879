"""Every structural primitive over the table of cases: value, dtype, derivatives, layouts."""

from pathlib import Path

import numpy as onp
import pytest
from samples.primitives import CASES, ELSEWHERE, structural

import numbagrad as ng
from numbagrad.core.array import Array
from numbagrad.core.registry import PRIMITIVES
from numbagrad.primitives.window import Axis, Geometry
from numbagrad.testing import check_grads, inner_product_identity, tolerance


def params(cases):
    return [
        pytest.param(c, id=f"{k}-{c.primitive}", marks=pytest.mark.xdist_group(f"primitive_{c.primitive}"))
        for k, c in enumerate(cases)
    ]


def test_every_primitive_has_cases():
    covered = {c.primitive for c in CASES}
    for name in structural():
        assert PRIMITIVES[name].doc, f"{name}: needed doc="
        if name in ELSEWHERE:
            files = [p for p in Path(__file__).parent.glob(ELSEWHERE[name]) if p != Path(__file__)]
            assert files, f"{name}: needed {ELSEWHERE[name]}"
        else:
            assert name in covered, f"{name}: needed cases in a file of samples/"


@pytest.mark.parametrize("case", params(CASES))
def test_value(case, monkeypatch):
    """NumPy's value, shape and dtype; the case does reach the primitive; the operands stay as they are."""
    primitive, calls = PRIMITIVES[case.primitive], []
    run = primitive.run
    monkeypatch.setattr(primitive, "run", lambda *a: calls.append(1) or run(*a), raising=False)
    before = [a.copy() for a in case.args]
    args = [a.copy() for a in case.args]
    with onp.errstate(all="ignore"):
        want = onp.asarray(case.reference(*case.args))
    got = onp.asarray(case(*args))
    assert calls
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    # sums of up to a few hundred terms, and products of a few
    onp.testing.assert_allclose(got, want, **tolerance(got.dtype))
    if not case.primitive.endswith("_into"):
        for a, b in zip(args, before, strict=True):
            onp.testing.assert_array_equal(a, b)


DIFFERENTIABLE = [c for c in CASES if c.order]


@pytest.mark.parametrize("case", params(DIFFERENTIABLE))
def test_derivatives(case):
    check_grads(case, [Array(a) for a in case.args], order=min(case.order, 2), rtol=rtol(case))


def rtol(case):
    single = any(a.dtype in (onp.float32, onp.complex64) for a in case.args)
    return 1e-4 if single else None  # sums of products of a few float32 numbers


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fwd", "rev"])
@pytest.mark.parametrize("case", params(c for c in CASES if c.order >= 2))
def test_third_derivatives(case, mode):
    check_grads(case, [Array(a) for a in case.args], order=3, modes=[mode])


@pytest.mark.parametrize("name", [n for n in structural() if n not in ELSEWHERE])
def test_constants_and_only_they_have_no_derivative(name):
    cases = [c for c in CASES if c.primitive == name]
    assert any(c.order for c in cases) == (PRIMITIVES[name].kind != "constant")


def test_stop_gradient_is_constant():
    x = onp.array([1.0, 2.0])
    assert not onp.asarray(ng.grad(lambda v: (ng.stop_gradient(v) ** 2).sum())(x)).any()
    assert not onp.asarray(ng.jvp(ng.stop_gradient, (x,), (x,))[1]).any()


# Differences say nothing at ties, zeros and nan; rule 2 does.
EDGES = [
    ("reduce_max", [[1.0, 2.0, 2.0]], dict(axes=(0,))),
    ("reduce_min", [[1.0, 1.0, 1.0]], dict(axes=(0,))),
    ("reduce_max", [[-onp.inf, -onp.inf]], dict(axes=(0,))),
    ("reduce_max", [[1.0, onp.nan, onp.nan]], dict(axes=(0,))),
    ("reduce_prod", [[0.0, 0.0, 2.0]], dict(axes=(0,))),
    ("logsumexp", [[-onp.inf, -onp.inf]], dict(axes=(0,))),
    ("logsumexp", [[-onp.inf, 0.0]], dict(axes=(0,))),
    ("logsumexp", [[onp.inf, onp.inf, 0.0]], dict(axes=(0,))),
    ("softmax", [[-onp.inf, -onp.inf]], {}),
    ("softmax", [[onp.inf, onp.inf, 0.0]], {}),
    ("softmax", [[-onp.inf, 0.0]], {}),
    ("scatter_max", [[1.0, 2.0], [0, 0, 1], [1.0, 1.0, 2.0]], dict(mode="raise")),
    ("scatter_min", [[1.0, 2.0], [0, 0, 1], [1.0, onp.nan, 2.0]], dict(mode="raise")),
    ("scatter_set", [[1.0, 2.0], [0, 0], [3.0, 4.0]], dict(mode="raise")),
    ("scatter_max", [[1.0, 2.0], [0, 5, -1], [1.0, 0.0, onp.nan]], dict(mode="drop")),
    ("segment_max", [[1.0, 1.0, 0.0, onp.nan, onp.nan, 9.0], [0, 0, 0, 1, 1, 5]], dict(segments=3, mode="drop")),
    ("segment_min", [[-onp.inf, -onp.inf, onp.inf], [0, 0, 1]], dict(segments=3, mode="drop")),
    ("segment_prod", [[0.0, 0.0, 2.0, 0.0, 3.0, 9.0], [0, 0, 0, 1, 1, -1]], dict(segments=3, mode="drop")),
    (
        "segment_logsumexp",
        [[-onp.inf, -onp.inf, onp.inf, onp.inf, 1.0], [0, 0, 1, 1, 1]],
        dict(segments=3, mode="drop"),
    ),
    ("segment_softmax", [[-onp.inf, -onp.inf, onp.inf, onp.inf, 1.0], [0, 0, 1, 1, 1]], dict(segments=3, mode="drop")),
    ("sort", [[1.0, onp.nan, 1.0, onp.inf, onp.nan, -0.0, 0.0]], dict(axis=0)),
    ("sort", [[1.0, onp.nan, 1.0, onp.inf, onp.nan, -0.0, 0.0]], dict(axis=0, descending=True)),
    ("cumprod", [[2.0, 0.0, 3.0, 0.0, 1.0]], dict(axis=0)),
    ("cumprod", [[0.0, 0.0, 3.0]], dict(axis=0, reverse=True)),
    ("linear_recurrence", [[onp.inf, 0.0, onp.nan], [0.0, 1.0, 0.0]], dict(axis=0)),
    ("cummax", [[1.0, 1.0, onp.nan, 2.0, onp.nan, 0.0]], dict(axis=0)),
    ("cummin", [[1.0, 1.0, onp.nan, 2.0, onp.nan, 0.0]], dict(axis=0, reverse=True)),
    ("cummax", [[-onp.inf, -onp.inf]], dict(axis=0)),
    ("cumlogsumexp", [[-onp.inf, -onp.inf, 0.0, onp.inf, 1.0, onp.inf]], dict(axis=0)),
    ("cumlogsumexp", [[-onp.inf, -onp.inf, 0.0, onp.inf, 1.0, onp.inf]], dict(axis=0, reverse=True)),
    *(
        (name, [[1.0, 1.0, onp.nan, 2.0, onp.nan, -onp.inf, -onp.inf, onp.inf]], dict(window=Geometry((axis,))))
        for name in ("window_max", "window_min")
        for axis in (Axis(8, 3, 2, 1, 1), Axis(8, 2, 1, 3, -2), Axis(8, 2, 1, 0, 0, 2))
    ),
]


@pytest.mark.parametrize(("name", "args", "options"), EDGES)
def test_modes_agree_at_edges(name, args, options):
    primitive = PRIMITIVES[name]
    args = [onp.asarray(a) for a in args]

    def function(*values):
        return Array(primitive(*(v._value if isinstance(v, Array) else v for v in values), **options))

    inner_product_identity(function, args)


def nested(x, layout):
    """The same numbers lying otherwise in memory."""
    if layout == "step":
        wide = onp.repeat(onp.repeat(x, 2, -1), 2, 0)
        return wide[::2, ..., ::2] if x.ndim > 1 else wide[::4][: x.size]
    if layout == "reverse":
        return x[::-1].copy()[::-1]
    return onp.asfortranarray(x)


def floating(case):
    """A case as a function to the list of those results that have a derivative."""

    def function(*args):
        out = case(*args)
        return [o for o in (out if isinstance(out, tuple) else (out,)) if o.dtype.kind in "fc"]

    return function


@pytest.mark.parametrize("layout", ["step", "reverse", "fortran"])
@pytest.mark.parametrize("case", params(c for c in CASES if all(a.dtype != bool for a in c.args)))
def test_layouts(case, layout):
    """Value and gradients do not depend on how the operands lie in memory."""
    if case.primitive.endswith("_into"):
        pytest.skip("works on buffers of the tape, which are contiguous")
    args = [nested(a, layout) if a.ndim else a for a in case.args]
    for a, b in zip(args, case.args, strict=True):
        onp.testing.assert_array_equal(a, b)
    got, want = onp.asarray(case(*map(Array, args))), onp.asarray(case(*map(Array, case.args)))
    # another order of the terms of a sum
    onp.testing.assert_allclose(got, want, **tolerance(want.dtype))
    if case.order:
        rng = onp.random.default_rng(1)
        cts = [rng.standard_normal(o.shape).astype(o.dtype) for o in floating(case)(*map(Array, case.args))]
        pulled = [ng.vjp(floating(case), *map(Array, a))[1](cts) for a in (args, case.args)]
        for g, w in zip(*pulled, strict=True):
            assert g.shape == w.shape
            onp.testing.assert_allclose(onp.asarray(g), onp.asarray(w), **tolerance(w.dtype))
