"""numbagrad.optim: steps against their published formulas, schedules, pytrees, one kernel for every number."""

import numpy as onp
import pytest

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import optim
from numbagrad.kernels.cpu import compiler
from numbagrad.testing import check_grads

RNG = onp.random.default_rng(0)


def _tree(dtype="f8"):
    w, b = RNG.normal(size=(3, 4)).astype(dtype), RNG.normal(size=4).astype(dtype)
    return {"w": w, "b": [b, onp.asarray(0.5, dtype)]}


def _leaves(tree):
    return [onp.asarray(x, "f8") for x in ng.tree_util.tree_leaves(tree)]


def _reference_sgd(p, g, s, t, lr, momentum=0.0, nesterov=False, weight_decay=0.0):
    g = g + weight_decay * p
    v = momentum * s[0] + g
    return p - lr * (g + momentum * v if nesterov else v), (v,)


def _reference_adam(p, g, s, t, lr, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0):
    m, v = b1 * s[0] + (1 - b1) * g, b2 * s[1] + (1 - b2) * g * g
    step = m / (1 - b1**t) / (onp.sqrt(v / (1 - b2**t)) + eps)
    return p - lr * (step + weight_decay * p), (m, v)


OPTIMIZERS = [
    (optim.sgd, _reference_sgd, {}),
    (optim.sgd, _reference_sgd, dict(weight_decay=0.1)),
    (optim.sgd, _reference_sgd, dict(momentum=0.9)),
    (optim.sgd, _reference_sgd, dict(momentum=0.9, nesterov=True, weight_decay=0.1)),
    (optim.adam, _reference_adam, {}),
    (optim.adam, _reference_adam, dict(b1=0.8, b2=0.9, eps=1e-3)),
    (optim.adamw, _reference_adam, dict(weight_decay=0.1)),
]


@pytest.mark.parametrize(("make", "reference", "options"), OPTIMIZERS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_steps(make, reference, options, dtype):
    opt = make(0.05, **options)
    params = _tree(dtype)
    state = opt.init(params)
    wanted = [(p, (0.0, 0.0)) for p in _leaves(params)]
    for t in range(1, 4):
        grads = ng.tree_util.tree_map(lambda p: onp.asarray(RNG.normal(size=p.shape), dtype), params)
        params, state = opt.update(grads, state, params)
        wanted = [
            reference(p, g, s, t, 0.05, **options) for (p, s), g in zip(wanted, _leaves(grads), strict=True)
        ]
        assert int(state.count) == t
        for got, (want, _) in zip(ng.tree_util.tree_leaves(params), wanted, strict=True):
            assert got.dtype == dtype
            tolerance = dict(rtol=1e-12, atol=1e-12) if dtype == "f8" else dict(rtol=1e-5, atol=2e-6)
            onp.testing.assert_allclose(got, want, **tolerance)


def test_new_numbers_compile_nothing():
    params = _tree()
    for make in (optim.sgd, optim.adam):
        opt = make(0.1)
        opt.update(params, opt.init(params), params)
    before = compiler.compilations + compiler.loads
    for rate in (0.2, 0.3, np.asarray(0.4), lambda count: 0.5 / (1 + count)):
        for make in (optim.sgd, optim.adam):
            opt = make(rate)
            new, _ = opt.update(params, opt.init(params), params)
            assert all(x.dtype == onp.float64 for x in ng.tree_util.tree_leaves(new))
    assert compiler.compilations + compiler.loads - before <= 3  # the schedule's own arithmetic on 0-d arrays


def test_the_rate_is_differentiable():
    x, g = onp.array([1.0, -2.0, 0.0]), onp.array([0.5, 1.0, 0.0])
    for make in (lambda r: optim.sgd(r, 0.9), optim.adam, optim.adamw):

        def loss(rate, g, make=make):
            opt = make(rate)
            state, params = opt.init(x), x
            for _ in range(3):
                params, state = opt.update(g * params, state, params)
            return np.sum(params**2)

        check_grads(loss, (0.1, g[:2].sum()), order=2)
        assert onp.isfinite(ng.grad(loss, 1)(0.1, g)).all()  # a gradient of 0 leaves a finite derivative


def test_it_minimises():
    def loss(p):
        return np.sum((p["x"] - np.arange(3.0)) ** 2) + (p["y"] + 1.0) ** 2

    for opt in (optim.sgd(0.1), optim.sgd(0.05, 0.9, True), optim.adam(optim.cosine_decay(0.2, 200)), optim.adamw(0.1)):
        params = {"x": np.zeros(3), "y": np.asarray(3.0)}
        state = opt.init(params)
        for _ in range(200):
            params, state = opt.update(ng.grad(loss)(params), state, params)
        assert loss(params) < 1e-3


def test_errors():
    opt = optim.adam(0.1)
    with pytest.raises(TypeError, match="adam: a parameter is not real floating point: got int64"):
        opt.init({"n": onp.arange(3)})
    state = opt.init({"x": onp.zeros(3)})
    with pytest.raises(ValueError, match="adam: a gradient does not fit its parameter"):
        opt.update({"x": onp.zeros(4)}, state, {"x": onp.zeros(3)})
    with pytest.raises(ValueError, match="adam: trees differ in structure"):
        opt.update({"y": onp.zeros(3)}, state, {"x": onp.zeros(3)})
    for bad in (lambda: optim.cosine_decay(1.0, 0), lambda: optim.warmup_cosine(0.0, 1.0, 10, 5)):
        with pytest.raises(ValueError, match="step"):
            bad()


def test_norms_and_updates():
    tree = {"a": onp.array([3.0, 0.0], "f4"), "b": onp.array([[4.0]])}
    assert optim.global_norm(tree) == 5.0 and optim.global_norm({}) == 0.0
    clipped = optim.clip_by_global_norm(tree, 1.0)
    onp.testing.assert_allclose(clipped["a"], [0.6, 0.0], rtol=1e-6)
    assert clipped["a"].dtype == onp.float32 and clipped["b"].dtype == onp.float64
    same = optim.clip_by_global_norm(tree, 10.0)
    onp.testing.assert_array_equal(same["b"], tree["b"])
    onp.testing.assert_array_equal(ng.grad(lambda x: optim.global_norm([x]))(onp.zeros(2)), [0.0, 0.0])
    onp.testing.assert_array_equal(optim.clip_by_global_norm([onp.zeros(2)], 1.0)[0], [0.0, 0.0])
    check_grads(optim.global_norm, ({"a": onp.array([1.0, 2.0]), "b": 0.5},), order=2)
    check_grads(lambda x: optim.clip_by_global_norm(x, 1.0), ([onp.array([1.0, 2.0])],), order=2)
    new = optim.apply_updates(tree, {"a": onp.ones(2), "b": onp.ones((1, 1))})
    onp.testing.assert_array_equal(new["a"], [4.0, 1.0])
    assert new["a"].dtype == onp.float32


SCHEDULES = [
    (optim.constant(0.3), {0: 0.3, 1000: 0.3}),
    (optim.linear(1.0, 0.0, 10, 5), {0: 1.0, 5: 1.0, 10: 0.5, 15: 0.0, 99: 0.0}),
    (optim.cosine_decay(2.0, 10, 0.1), {0: 2.0, 5: 1.1, 10: 0.2, 50: 0.2}),
    (optim.exponential_decay(1.0, 10, 0.5), {0: 1.0, 10: 0.5, 20: 0.25}),
    (optim.exponential_decay(1.0, 10, 0.5, 5, True, 0.2), {0: 1.0, 14: 1.0, 15: 0.5, 99: 0.2}),
    (optim.warmup_cosine(0.1, 1.0, 10, 30, 0.2), {0: 0.1, 5: 0.55, 10: 1.0, 20: 0.6, 30: 0.2, 99: 0.2}),
]


@pytest.mark.parametrize(("schedule", "points"), SCHEDULES)
def test_schedules(schedule, points):
    for step, want in points.items():
        onp.testing.assert_allclose(schedule(step), want, rtol=1e-12)
        onp.testing.assert_allclose(schedule(np.asarray(step)), want, rtol=1e-12)
