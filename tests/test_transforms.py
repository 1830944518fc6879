"""Transforms of transforms: nesting, mixing, closures, pytrees, custom rules, threads, and what must raise."""

import threading
from math import factorial

import numpy as onp
import pytest

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad.testing import check_grads, count_kernels, inner_product_identity

X = onp.array([0.3, -1.2, 2.0])


def same(got, want, rtol=1e-14):
    got, want = onp.asarray(got), onp.asarray(want)
    assert got.shape == want.shape
    onp.testing.assert_allclose(got, want, rtol=rtol, atol=1e-15)


# ---------------------------------------------------------------------------------------- nesting and mixing


def rev(f):
    return ng.grad(f)


def fwd(f):
    return lambda x: ng.jvp(f, (x,), (np.ones_like(x),))[1]


def lin(f):
    return lambda x: ng.linearize(f, x)[1](np.ones_like(x))


def pull(f):
    return lambda x: ng.vjp(f, x)[1](1.0)[0]


MODES = {"rev": rev, "fwd": fwd, "lin": lin, "pull": pull}


@pytest.mark.parametrize("outer", MODES)
@pytest.mark.parametrize("inner", MODES)
def test_mixed_second_order(inner, outer):
    f = lambda x: np.exp(np.sin(x)) * x
    s, c = onp.sin(0.7), onp.cos(0.7)
    want = onp.exp(s) * (2 * c + 0.7 * (c * c - s))
    same(MODES[outer](MODES[inner](f))(np.asarray(0.7)), want)


@pytest.mark.parametrize("first", ["rev", "fwd", "lin"])
@pytest.mark.parametrize("last", ["rev", "fwd", "lin"])
def test_order_four(first, last):
    d = MODES
    g = d[last](d["rev"](d["fwd"](d[first](lambda x: x**5 + np.exp(2 * x)))))
    same(g(np.asarray(0.3)), 120 * 0.3 + 16 * onp.exp(0.6))


def test_order_five():
    g = lambda x: 1 / x
    for _ in range(5):
        g = ng.grad(g)
    same(g(2.0), -factorial(5) / 2.0**6, rtol=1e-12)


def test_perturbation_confusion():
    """d/dx (x * d/dy (x + y)) is 1: a derivative in y must not see the one in x."""
    for inner in (rev, fwd, lin):
        for outer in (rev, fwd, lin):
            got = outer(lambda x, d=inner: x * d(lambda y: x + y)(np.asarray(1.0)))(np.asarray(3.0))
            assert got == 1.0
            got = outer(lambda x, d=inner: d(lambda y: x * y)(np.asarray(1.0)) * x)(np.asarray(3.0))
            assert got == 6.0


def test_closure_over_an_outer_value():
    f = lambda x: ng.grad(lambda y: np.sin(x * y))(2.0) + ng.jvp(lambda y: x * y**2, (3.0,), (1.0,))[1]
    # d/dx (x cos(2 x) + 6 x)
    same(ng.grad(f)(0.4), onp.cos(0.8) - 0.8 * onp.sin(0.8) + 6)


def test_inner_derivative_that_does_not_depend():
    assert ng.grad(lambda x: x * ng.grad(lambda y: 3.0 * y)(x))(2.0) == 3.0
    assert ng.grad(lambda x: ng.grad(lambda y: x)(1.0) + x)(2.0) == 1.0


def test_hessian_both_ways():
    f = lambda x: np.sum(np.sin(x) * x[::-1]) ** 2
    h = onp.asarray(ng.hessian(f)(X))
    same(h, h.T, rtol=1e-12)
    same(ng.jacrev(ng.jacrev(f))(X), h, rtol=1e-12)
    same(ng.jacrev(ng.jacfwd(f))(X), h, rtol=1e-12)
    same(ng.hvp(f, X, X), h @ X, rtol=1e-12)


def test_linearize_under_grad_and_grad_of_it():
    def f(x):
        y, df = ng.linearize(lambda v: v**3, x)
        return y + df(x)  # x^3 + 3 x^3

    assert ng.grad(f)(2.0) == 48.0
    _, df = ng.linearize(lambda v: np.sin(v) * v, 0.5)
    same(ng.grad(lambda t: df(t) ** 2)(3.0), 2 * 3.0 * (onp.sin(0.5) + 0.5 * onp.cos(0.5)) ** 2)


def test_linearize_runs_the_function_once():
    runs = []
    _, df = ng.linearize(lambda v: runs.append(1) or np.sum(v * v), X)
    same(df(X), 2 * X @ X)
    same(df(onp.ones(3)), 2 * X.sum())
    assert len(runs) == 1


def test_pullback_twice():
    _, back = ng.vjp(lambda x: np.exp(x) * x, X)
    first, second = back(onp.ones(3))[0], back(2 * onp.ones(3))[0]
    same(second, 2 * onp.asarray(first), rtol=1e-15)
    same(back(onp.ones(3))[0], first, rtol=0)


def test_jacobians():
    f = lambda x, y: (np.outer(x, y), np.sum(x) * y)
    for jacobian in (ng.jacrev, ng.jacfwd):
        (a_x, a_y), (b_x, b_y) = jacobian(f, argnums=(0, 1))(X, onp.arange(2.0))
        assert a_x.shape == (3, 2, 3) and a_y.shape == (3, 2, 2)
        same(b_x, onp.outer(onp.arange(2.0), onp.ones(3)))
        same(b_y, X.sum() * onp.eye(2))


# ------------------------------------------------------------------------------- pytrees, aux, argnums


def test_pytrees():
    params = {"w": onp.ones((2, 3)), "layers": [(onp.zeros(2), onp.float32(2.0))], "none": None}
    loss = lambda p, x: np.sum((p["w"] @ x + p["layers"][0][0]) ** 2) * p["layers"][0][1]
    value, g = ng.value_and_grad(loss)(params, X)
    assert set(g) == {"w", "layers", "none"} and g["none"] is None
    assert isinstance(g["layers"][0], tuple) and g["layers"][0][1].dtype == onp.float32
    s = X.sum()
    same(g["w"], 4 * s * onp.stack([X, X]))
    same(value, 4 * s * s)
    same(g["layers"][0][1], onp.float32(2 * s * s), rtol=1e-6)
    inner_product_identity(loss, (params, X))


def test_argnums():
    f = lambda a, b, c: a * b + c * b**2
    assert ng.grad(f, 1)(2.0, 3.0, 4.0) == 26.0
    assert ng.grad(f, -1)(2.0, 3.0, 4.0) == 9.0
    assert [float(g) for g in ng.grad(f, (2, 0))(2.0, 3.0, 4.0)] == [9.0, 3.0]
    assert isinstance(ng.grad(f, (0,))(2.0, 3.0, 4.0), tuple)
    assert ng.grad(f)(2.0, b=3.0, c=4.0) == 3.0
    for bad in (3, -4, (0, 7)):
        with pytest.raises(ValueError, match="argnums"):
            ng.grad(f, bad)(2.0, 3.0, 4.0)
    for bad in ("0", 1.0, (), True):
        with pytest.raises(TypeError, match="argnums"):
            ng.grad(f, bad)


def aux(x):
    return np.sum(x**2), {"double": 2 * x, "text": "kept", "count": 3}


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "vjp", "jvp", "linearize", "jacrev", "jacfwd"])
def test_has_aux(name):
    """Auxiliary results come out as plain arrays, usable afterwards."""
    if name == "grad":
        g, extra = ng.grad(aux, has_aux=True)(X)
    elif name == "value_and_grad":
        (_, extra), g = ng.value_and_grad(aux, has_aux=True)(X)
    elif name == "vjp":
        _, back, extra = ng.vjp(aux, X, has_aux=True)
        (g,) = back(1.0)
    elif name == "jvp":
        _, t, extra = ng.jvp(aux, (X,), (X,), has_aux=True)
        same(t, 2 * X @ X)
        g = 2 * X
    elif name == "linearize":
        _, df, extra = ng.linearize(aux, X, has_aux=True)
        g = [df(e) for e in onp.eye(3)]
    else:
        g, extra = getattr(ng, name)(aux, has_aux=True)(X)
    same(g, 2 * X)
    assert extra["text"] == "kept" and extra["count"] == 3
    same(extra["double"] + 0.0, 2 * X)


def test_aux_is_differentiable_by_an_outer_transform():
    def f(x):
        _, extra = ng.grad(aux, has_aux=True)(x)
        return np.sum(extra["double"] ** 2)

    same(ng.grad(f)(X), 8 * X)


def test_bad_aux():
    with pytest.raises(TypeError, match="has_aux"):
        ng.grad(lambda x: x, has_aux=True)(1.0)


# ---------------------------------------------------------------------------------------- custom rules


@ng.custom_vjp
def scaled(x, p):
    return {"out": np.sin(x) * p["a"]}


scaled.defvjp(
    lambda x, p: ({"out": np.sin(x) * p["a"]}, (x, p["a"])),
    lambda saved, g: (g["out"] * np.cos(saved[0]) * saved[1], {"a": np.sum(g["out"] * np.sin(saved[0]))}),
)


@ng.custom_jvp
def squashed(x, p):
    return {"out": np.tanh(x) * p["a"]}


@squashed.defjvp
def squashed_jvp(primals, tangents):
    (x, p), (dx, dp) = primals, tangents
    y = np.tanh(x)
    return {"out": y * p["a"]}, {"out": (1 - y * y) * dx * p["a"] + y * dp["a"]}


@pytest.mark.parametrize("f", [scaled, squashed], ids=["vjp", "jvp"])
def test_custom_rules_in_both_modes_and_orders(f):
    check_grads(f, (X, {"a": 1.5}), order=3)


def test_custom_rule_is_used():
    f = ng.custom_vjp(lambda x: x * 2)
    f.defvjp(lambda x: (x * 2, None), lambda _, g: (10 * g,))
    assert ng.grad(f)(1.0) == 10.0
    assert ng.jvp(f, (1.0,), (1.0,))[1] == 10.0  # forward mode is its transpose
    assert ng.linearize(f, 1.0)[1](2.0) == 20.0
    h = ng.custom_jvp(lambda x: x * 2)
    h.defjvp(lambda primals, tangents: (primals[0] * 2, 7 * tangents[0]))
    assert ng.grad(h)(1.0) == 7.0 and ng.jvp(h, (1.0,), (1.0,))[1] == 7.0
    assert ng.grad(lambda x: ng.grad(lambda y: h(y) * y)(x))(1.0) == 14.0


def test_nondiff_argnums():
    power = ng.custom_vjp(lambda n, x, f: f(x) ** n, nondiff_argnums=(0, 2))
    power.defvjp(lambda n, x, f: (f(x) ** n, x), lambda n, f, x, g: (g * n * f(x) ** (n - 1) * ng.grad(f)(x),))
    check_grads(lambda x: power(3, x, np.sin), (0.4,), order=3)
    other = ng.custom_jvp(lambda n, x: x**n, nondiff_argnums=(0,))
    other.defjvp(lambda n, primals, tangents: (primals[0] ** n, n * primals[0] ** (n - 1) * tangents[0]))
    check_grads(lambda x: other(3, x), (0.4,), order=3)


def test_none_is_a_zero_cotangent():
    f = ng.custom_vjp(lambda x, y: x * y)
    f.defvjp(lambda x, y: (x * y, y), lambda y, g: (g * y, None))
    assert [float(g) for g in ng.grad(f, (0, 1))(2.0, 3.0)] == [3.0, 0.0]


def test_custom_rule_errors():
    f = ng.custom_vjp(lambda x: x)
    with pytest.raises(AttributeError, match="defvjp"):
        f(1.0)
    f.defvjp(lambda x: (x, None), lambda _, g: (g, g))
    with pytest.raises(TypeError, match="one cotangent per argument"):
        ng.grad(f)(1.0)
    f.defvjp(lambda x: (x, None), lambda _, g: (np.ones(2),))
    with pytest.raises(ValueError, match="shape"):
        ng.grad(f)(1.0)
    f.defvjp(lambda x: x, lambda _, g: (g,))
    with pytest.raises(TypeError, match="output, residuals"):
        ng.grad(f)(1.0)


# ------------------------------------------------------------------------ checkpoint and stop_gradient


def test_checkpoint_has_the_same_derivatives():
    f = lambda x, y: np.sum(np.sin(x) * np.exp(y)) * np.tanh(y)
    g = ng.checkpoint(f)
    args = (X, onp.asarray(0.4))
    check_grads(g, args, order=3)
    for d in (ng.grad, ng.hessian, ng.jacfwd, lambda h: ng.jacrev(ng.hessian(h))):
        same(d(g)(*args), d(f)(*args), rtol=1e-12)


def test_checkpoint_runs_again():
    runs = []
    f = ng.checkpoint(lambda x: runs.append(1) or np.sin(x))
    same(ng.grad(f)(0.3), onp.cos(0.3))
    assert len(runs) == 2


def test_checkpoint_of_a_closure():
    """The traced value is not an argument: still differentiated."""
    f = lambda x: ng.checkpoint(lambda y: np.sin(x * y))(x)
    same(ng.grad(f)(0.6), 1.2 * onp.cos(0.36))
    same(ng.grad(ng.grad(f))(0.6), 2 * onp.cos(0.36) - 4 * 0.36 * onp.sin(0.36))
    same(ng.jvp(f, (0.6,), (1.0,))[1], 1.2 * onp.cos(0.36))


def test_checkpoint_of_pytrees_and_other_arguments():
    f = ng.checkpoint(lambda p, flag, k: {"y": p["a"] ** k if flag else p["a"]})
    same(ng.grad(lambda p: f(p, True, 3)["y"])({"a": 2.0})["a"], 12.0)


def test_stop_gradient():
    f = lambda x: ng.stop_gradient(x) * x
    assert ng.grad(f)(3.0) == 3.0
    assert ng.jvp(f, (3.0,), (1.0,))[1] == 3.0
    assert ng.grad(ng.grad(lambda x: x * x * ng.stop_gradient(x)))(3.0) == 6.0
    tree = ng.stop_gradient({"a": X, "b": [1, None]})
    assert tree["b"] == [1, None]


# -------------------------------------------------------------------------------------------- threads


def test_threads():
    f = lambda x: np.sum(np.sin(x) * np.exp(x)) ** 2
    points = [onp.linspace(0, 1, 5) + k for k in range(8)]
    want = [onp.asarray(ng.hessian(f)(p)) for p in points]
    got = [None] * len(points)

    def work(k):
        for _ in range(5):
            got[k] = onp.asarray(ng.hessian(f)(points[k]))

    workers = [threading.Thread(target=work, args=(k,)) for k in range(len(points))]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    for g, w in zip(got, want, strict=True):
        onp.testing.assert_array_equal(g, w)


# --------------------------------------------------------------------------------------------- errors


def test_escaped_values_raise():
    kept = []

    def f(x):
        kept.append(np.sin(x))
        return x * x

    ng.grad(f)(1.0)
    with pytest.raises(ng.EscapedTracerError, match="grad"):
        kept[0] + 1.0
    ng.jvp(f, (1.0,), (1.0,))
    with pytest.raises(ng.EscapedTracerError, match="jvp"):
        np.exp(kept[1])


def test_escape_after_an_error_inside():
    kept = []
    with pytest.raises(ZeroDivisionError):
        ng.grad(lambda x: kept.append(x) or 1 / 0)(1.0)
    with pytest.raises(ng.EscapedTracerError):
        kept[0] * 2


@pytest.mark.parametrize("convert", [float, int, complex, bool, onp.asarray, lambda x: x.item(), lambda x: x.tolist()])
@pytest.mark.parametrize("transform", ["grad", "jvp"])
def test_conversions_of_traced_values_raise(convert, transform):
    f = lambda x: x * 1.0 if convert(x) is None else x
    with pytest.raises(ng.TracerConversionError):
        ng.grad(f)(1.0) if transform == "grad" else ng.jvp(f, (1.0,), (1.0,))


def test_comparisons_of_traced_values_are_concrete():
    f = lambda x: x**2 if x > 0 else -x
    assert ng.grad(f)(3.0) == 6.0 and ng.grad(f)(-3.0) == -1.0
    assert ng.jvp(f, (-3.0,), (1.0,))[1] == -1.0


def test_mismatched_tangents_and_cotangents():
    with pytest.raises(ValueError, match="shape"):
        ng.jvp(np.sin, (X,), (onp.ones(2),))
    with pytest.raises(TypeError, match="tuple"):
        ng.jvp(np.sin, X, X)
    _, back = ng.vjp(np.sin, X)
    with pytest.raises(ValueError, match="shape"):
        back(onp.ones(2))
    with pytest.raises(TypeError, match="complex"):
        back(1j * onp.ones(3))
    with pytest.raises((TypeError, ValueError)):
        back((onp.ones(3), onp.ones(3)))
    for transform in (ng.grad, ng.vjp, ng.jvp, ng.linearize, ng.jacrev, ng.jacfwd):
        with pytest.raises(TypeError, match="function"):
            transform(3.0, (1.0,), (1.0,)) if transform is ng.jvp else transform(3.0)


# ------------------------------------------------------------------------------------- in-place code


def in_place(x):
    y = np.zeros_like(x) + x
    y[0] = y[1] * x[2]
    y[1:] *= 2.0
    y += x
    y[::-1] -= x * y
    y **= 2
    return np.sum(y)


def functional(x):
    y = np.concatenate([x[1:2] * x[2], 2.0 * x[1:]]) + x
    y = y - (x * y)[::-1]
    return np.sum(y**2)


def test_in_place_code_differentiates():
    same(ng.grad(in_place)(X), ng.grad(functional)(X))
    same(ng.hessian(in_place)(X), ng.hessian(functional)(X), rtol=1e-13)
    check_grads(in_place, (X,), order=3)


def test_in_place_does_not_change_the_argument():
    x = np.asarray(X)

    def f(v):
        v[0] = 5.0
        v += 1.0
        return np.sum(v * v)

    same(ng.grad(f)(x), [0.0, 2 * (X[1] + 1), 2 * (X[2] + 1)])
    same(x, X)


def test_assignment_into_a_view_raises():
    def f(x):
        row = x[0]
        row[1] = 3.0
        return np.sum(x)

    with pytest.raises(ng.ViewAssignmentError, match="copy"):
        ng.grad(f)(onp.ones((2, 2)))


def test_numpy_functions_on_traced_values():
    f = lambda x: onp.sum(onp.sin(x) * onp.exp(x))
    same(ng.grad(f)(X), (onp.cos(X) + onp.sin(X)) * onp.exp(X))
    same(ng.grad(lambda x: onp.dot(X, x) + (X * x).sum())(X), 2 * X)


def test_lists_of_traced_values():
    f = lambda x: np.sum(np.asarray([[x[0], x[1] ** 2], [1.0, x[2]]]) * onp.array([[1.0, 2.0], [3.0, 4.0]]))
    same(ng.grad(f)(X), [1.0, 4 * X[1], 4.0])


def test_reading_element_by_element():
    f = lambda x: sum(x[k] * x[k - 1] for k in range(3))
    same(ng.grad(f)(X), [X[1] + X[2], X[0] + X[2], X[0] + X[1]])
    check_grads(f, (X,), order=2)


def test_repeated_calls_compile_nothing():
    f = lambda x: np.sum(np.tanh(x) ** 2)
    ng.hessian(f)(X)
    with count_kernels() as kernels:
        ng.hessian(f)(2 * X)
        ng.hessian(f)(onp.arange(4.0))
    assert (kernels.compilations, kernels.loads) == (0, 0)
