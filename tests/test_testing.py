"""The checkers find what they are there to find."""

import numpy as onp
import pytest

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad.testing import check_grads, count_kernels, inner_product_identity, tolerance

X = onp.array([0.4, -1.3, 2.0])


def with_vjp(rule):
    f = ng.custom_vjp(np.sin)
    f.defvjp(lambda x: (np.sin(x), x), lambda x, g: (rule(x, g),))
    return f


def with_jvp(rule):
    f = ng.custom_jvp(np.sin)
    f.defjvp(lambda primals, tangents: (np.sin(*primals), rule(*primals, *tangents)))
    return f


def test_right_rules_pass():
    check_grads(with_vjp(lambda x, g: g * np.cos(x)), (X,), order=3)
    check_grads(with_jvp(lambda x, t: t * np.cos(x)), (X,), order=3)
    check_grads(lambda z: np.exp(z) * np.conj(z), (X + 1j,), order=2)
    check_grads(lambda p, n: {"y": p["a"] ** n, "n": n}, ({"a": X}, 3), order=2)


WRONG = {
    "square of the cotangent": lambda x, g: g * g * np.cos(x),
    "sign": lambda x, g: -g * np.cos(x),
    "slightly off": lambda x, g: g * np.cos(x) * (1 + 1e-6),
    "one element": lambda x, g: (g * np.cos(x)).at[1].multiply(1.001),
    "zero": lambda x, g: g * 0.0,
}


@pytest.mark.parametrize("rule", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("modes", [["rev"], ["fwd"], ["fwd", "rev"]], ids="+".join)
def test_wrong_vjp_is_found(rule, modes):
    """Forward mode is the transpose of a custom vjp, so it is wrong as well."""
    if modes == ["fwd"] and rule is WRONG["square of the cotangent"]:
        pytest.skip("not linear: it has no transpose")
    with pytest.raises(AssertionError, match="check_grads: order 1"):
        check_grads(with_vjp(rule), (X,), order=1, modes=modes)


def test_worst_entry_is_named():
    rule = lambda x, t: (t * np.cos(x)).at[1].multiply(1.001).at[2].multiply(1.5)
    with pytest.raises(AssertionError, match=r"order 1 \(fwd\).*index \(2,\) of leaf 0.*2 of 3 entries"):
        check_grads(with_jvp(rule), (X,), order=1)


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_wrong_second_order_is_found(mode):
    """Right at order 1, wrong at order 2: the derivative of cos(x) is cut."""
    f = with_vjp(lambda x, g: g * np.cos(ng.stop_gradient(x)))
    check_grads(f, (X,), order=1)
    with pytest.raises(AssertionError, match=f"order 2 .*{mode}"):
        check_grads(f, (X,), order=2, modes=[mode])


def test_missing_conjugate_is_found():
    f = ng.custom_vjp(np.conj)
    f.defvjp(lambda z: (np.conj(z), None), lambda _, g: (g,))
    with pytest.raises(AssertionError, match="order 1"):
        check_grads(f, (X + 1j,), order=1)


def test_modes_that_disagree_are_found(monkeypatch):
    from numbagrad.primitives.reduce import reduce_max

    x = onp.array([1.0, 2.0, 2.0])
    inner_product_identity(np.max, (x,))
    first = lambda route, g, x, *, axes: (onp.array([0.0, 1.0, 0.0]) * onp.asarray(g),)
    monkeypatch.setattr(reduce_max, "transpose", first)
    with pytest.raises(AssertionError, match="the modes disagree"):
        inner_product_identity(np.max, (x,))


def test_errors():
    with pytest.raises(ValueError, match="no such mode"):
        check_grads(np.sin, (X,), modes=["forward"])
    with pytest.raises(TypeError, match="nothing to differentiate"):
        check_grads(np.sin, (3,))


def test_tolerance():
    assert tolerance("int64") == {"rtol": 0.0, "atol": 0.0}
    assert tolerance("complex64") == tolerance("float32")
    assert tolerance("float64", 2)["rtol"] == 2 * tolerance("float64")["rtol"]


def test_count_kernels_counts(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBAGRAD_CACHE_DIR", str(tmp_path))
    operation = lambda x: ng.numpy.floor_divide(x, x)
    with count_kernels() as kernels:
        operation(onp.ones(3, onp.int16))
    assert kernels.compilations >= 1
    with count_kernels() as kernels:
        operation(onp.ones(3, onp.int16))
    assert (kernels.compilations, kernels.loads) == (0, 0)


def with_constant(rule, *constants):
    """sin(x), and entries that do not depend on x, by a jvp rule for the former."""
    tail = lambda values: np.asarray(list(values))
    f = ng.custom_jvp(lambda x: np.concatenate([np.sin(x), tail(constants)]))
    f.defjvp(lambda p, t: (f(*p), np.concatenate([rule(*p, *t), tail([0.0] * len(constants))])))
    return f


@pytest.mark.parametrize("modes", [["rev"], ["fwd"], ["fwd", "rev"]], ids="+".join)
@pytest.mark.parametrize("constants", [(onp.inf,), (-onp.inf, onp.inf)], ids=str)
def test_infinite_outputs_hide_nothing(modes, constants):
    check_grads(with_constant(lambda x, t: np.cos(x) * t, *constants), (X,), order=2, modes=modes)
    with pytest.raises(AssertionError, match="order 1"):
        check_grads(with_constant(lambda x, t: 5 * t, *constants), (X,), order=1, modes=modes)


@pytest.mark.parametrize("modes", [["rev"], ["fwd"]], ids="+".join)
@pytest.mark.parametrize("bad", [onp.nan, onp.inf])
def test_derivatives_that_are_not_finite_are_found(modes, bad):
    with pytest.raises(AssertionError, match="order 1"):
        check_grads(with_jvp(lambda x, t: t * bad), (X,), order=1, modes=modes)


def test_an_infinite_derivative_in_both_modes_agrees():
    x = onp.array([0.0])
    inner_product_identity(np.sqrt, (x,))
    f = ng.custom_jvp(np.sqrt)
    f.defjvp(lambda p, t: (np.sqrt(*p), t[0] * onp.inf))
    inner_product_identity(f, (x,))


def test_arrays_on_a_device_are_checked_there():
    x = ng.device_put(onp.asarray([0.3, -0.5]), "cuda-emulated")
    seen = set()

    def f(tree, y):
        seen.add((tree["x"].device, y.device))
        return {"out": np.sin(tree["x"]) * 2}, y**2

    check_grads(f, ({"x": x}, np.asarray([1.0, 2.0])), order=2)
    inner_product_identity(f, ({"x": x}, np.asarray([1.0, 2.0])))
    assert seen == {("cuda-emulated", "cpu")}

    @ng.custom_vjp
    def wrong(v):
        return np.sin(v)

    wrong.defvjp(lambda v: (np.sin(v), v), lambda v, g: (g * np.cos(v) if v.device == "cpu" else g,))
    with pytest.raises(AssertionError, match="order 1"):
        check_grads(wrong, (x,), modes=["rev"])
