"""Values are immutable: no result and no residual changes when the caller writes to a NumPy array later."""

import numpy as onp
import pytest

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import lax, nn

X = onp.random.default_rng(0).uniform(0.2, 0.8, (3, 3))
MASK = X > 0.5
V = onp.array([0.4, -0.7, 1.1])
UNARY = "asarray atleast_1d atleast_2d atleast_3d broadcast_arrays conj copy diagonal diag flip matrix_transpose ravel"
UNARY += " real squeeze transpose unstack nan_to_num meshgrid column_stack"

# functions that may give a view of their operand
VIEWS = {name: getattr(np, name) for name in UNARY.split()} | {
    "reshape": lambda x: np.reshape(x, (9,)),
    "reshape_F": lambda x: np.reshape(x, (9,), order="F"),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 3, 3)),
    "concatenate": lambda x: np.concatenate([x]),
    "stack": lambda x: np.stack([x]),
    "split": lambda x: np.split(x, 3),
    "expand_dims": lambda x: np.expand_dims(x, 0),
    "moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "diff": lambda x: np.diff(x, 0),
    "pad": lambda x: np.pad(x, 0),
    "roll": lambda x: np.roll(x, 0),
    "tile": lambda x: np.tile(x, 1),
    "rot90": lambda x: np.rot90(x, 0),
    "round": lambda x: np.round(x.view(onp.int64)),
    "einsum": lambda x: np.einsum("ij->ji", x),
    "matrix_power": lambda x: np.linalg.matrix_power(x, 1),
    "lax.slice": lambda x: lax.slice(x, (0, 0), (2, 2)),
    "lax.convert": lambda x: lax.convert_element_type(x, "float64"),
    "stop_gradient": ng.stop_gradient,
    "device_put": ng.device_put,
    "jvp": lambda x: ng.jvp(lambda v: v, (x,), (x,)),
    "vjp": lambda x: ng.vjp(lambda v: v, x)[0],
    "vjp_constant": lambda x: ng.vjp(lambda v: (v, x), 1.0)[0],
    "aux": lambda x: ng.grad(lambda v: (np.sum(v), v), has_aux=True)(x)[1],
}


@pytest.mark.parametrize("name", VIEWS)
def test_results_are_not_views_of_numpy_arrays(name):
    x = X.copy()
    leaves = ng.tree_util.tree_leaves(VIEWS[name](x))
    assert leaves and not any(onp.shares_memory(onp.asarray(leaf), x) for leaf in leaves)


@ng.custom_vjp
def scaled(x, y):
    return x * y


scaled.defvjp(lambda x, y: (x * y, (x, y)), lambda r, g: (g * r[1], g * r[0]))

# functions of a differentiated x, with a NumPy array and a mask that wait on the tape
RESIDUALS = {
    "where": lambda x, y, mask: np.where(mask, x, 0.0),
    "select": lambda x, y, mask: np.select([mask], [x], 0.0),
    "lax.select": lambda x, y, mask: lax.select(mask, x, x * 2),
    "sum_where": lambda x, y, mask: np.sum(x, where=mask),
    "logsumexp": lambda x, y, mask: nn.logsumexp(x, where=mask, b=y),
    "average": lambda x, y, mask: np.average(x, weights=y),
    "outer": lambda x, y, mask: np.outer(x, y),
    "kron": lambda x, y, mask: np.kron(y, x),
    "cross": lambda x, y, mask: np.cross(x, y),
    "vdot": lambda x, y, mask: np.vdot(y, x),
    "vecdot": lambda x, y, mask: np.vecdot(x, y),
    "polyval": lambda x, y, mask: np.polyval(x, y),
    "multi_dot": lambda x, y, mask: np.linalg.multi_dot([y, x, y]),
    "ldexp": lambda x, y, mask: np.ldexp(y, x),
    "lax.dot": lambda x, y, mask: lax.dot(y, x),
    "matrix": lambda x, y, mask: np.multiply(y.view(type("Sub", (onp.ndarray,), {})), x),
    "custom_vjp": lambda x, y, mask: scaled(x, y),
    "checkpoint": lambda x, y, mask: ng.checkpoint(lambda a, b: a * b)(x, y),
}


@pytest.mark.parametrize("name", RESIDUALS)
def test_residuals_are_not_the_callers(name):
    def pulled(write):
        y, mask = X.copy(), MASK.copy()
        out, back = ng.vjp(lambda x: RESIDUALS[name](x, y, mask), np.asarray(X.T))
        if write:
            y += 1.0
            mask[:] = ~mask
        return onp.asarray(back(np.ones(out.shape))[0])

    onp.testing.assert_array_equal(pulled(True), pulled(False))


def test_checkpoint_of_a_function_that_assigns_to_its_arguments():
    """The second run sees what the first one saw."""

    def f(weights, place, x):
        weights *= x[:2]
        weights *= weights
        place += 1
        return np.sum(weights * x[place])

    def value(x, f):
        return f(np.ones(2), np.asarray([0, 1]), x)

    x = onp.array([0.3, 0.4, 0.5])
    for transform in (ng.grad, ng.hessian):
        got, want = (transform(lambda x, f=f: value(x, f))(x) for f in (ng.checkpoint(f), f))
        onp.testing.assert_allclose(got, want)


def test_writing_to_the_input_later_changes_nothing():
    x = V.copy()
    y, back = ng.vjp(lambda v: v * v, x)
    z, df = ng.linearize(lambda v: v * v, x)
    ct = onp.ones(3)
    x[:] = 100.0
    onp.testing.assert_allclose(y, V * V)
    onp.testing.assert_allclose(z, V * V)
    onp.testing.assert_allclose(back(ct)[0], 2 * V)
    onp.testing.assert_allclose(df(ct), 2 * V)
    a = np.asarray(x)
    x[:] = 0.0
    onp.testing.assert_allclose(a, onp.full(3, 100.0))


def test_writing_to_a_closed_over_buffer_later_changes_nothing():
    w = onp.array([1.0, 2.0, 3.0])
    _, back = ng.vjp(lambda v: v * w, V)
    w[:] = 0.0
    onp.testing.assert_allclose(back(onp.ones(3))[0], [1.0, 2.0, 3.0])


def test_writing_to_a_gradient_is_ours_alone():
    g = ng.grad(lambda v: np.sum(v))(V)
    h = ng.grad(lambda v: np.sum(v))(V)
    g[0] = 7.0
    onp.testing.assert_allclose(h, onp.ones(3))
