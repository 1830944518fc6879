"""The table of conventions, row by row: what a derivative is where calculus alone does not say.

Every case is a value and its derivative, in reverse and in forward mode (rule 2), and where rule 5 or exactness
at higher orders is promised, at second order too.
"""

import numpy as onp
import pytest

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import lax, nn
from numbagrad.numpy.elementwise import call
from numbagrad.testing import inner_product_identity

NAN, INF = onp.nan, onp.inf


def both_modes(f, *args):
    """Gradients of sum(w * f(*args)) in reverse mode; forward mode must give the same along every axis."""
    args = [onp.asarray(a, onp.float64) for a in args]
    out, pull = ng.vjp(f, *args)
    weights = onp.random.default_rng(0).uniform(0.5, 2.0, out.shape)
    grads = [onp.asarray(g) for g in pull(weights)]
    for k, (a, g) in enumerate(zip(args, grads, strict=True)):
        for i in onp.ndindex(a.shape):
            ts = [onp.zeros(x.shape) for x in args]
            ts[k][i] = 1.0
            _, t = ng.jvp(f, args, ts)
            # sums and zeros only: nan and inf must be equal, too
            onp.testing.assert_allclose(onp.sum(weights * onp.asarray(t)), g[i], rtol=1e-13)
    return onp.asarray(out), grads, weights


def check(f, args, value, wanted):
    """One scalar case: value and one derivative per argument, both modes."""
    out, grads, weights = both_modes(f, *args)
    onp.testing.assert_array_equal(out, value)
    for g, want in zip(grads, wanted, strict=True):
        onp.testing.assert_allclose(g, onp.asarray(want) * weights, rtol=1e-14)


THIRD, HALF = 1 / 3, 1 / 2

CASES = [
    # --- max, min and their elementwise forms: ties share, a nan takes all
    ("max tie", np.max, [[1, 2, 2]], 2, [[0, HALF, HALF]]),
    ("amax tie", np.amax, [[2, 2, 2]], 2, [[THIRD] * 3]),
    ("min tie", np.min, [[1, 2, 1]], 1, [[HALF, 0, HALF]]),
    ("max with nan", np.max, [[1, NAN, 2]], NAN, [[0, 1, 0]]),
    ("max with two nans", np.max, [[NAN, 1, NAN]], NAN, [[HALF, 0, HALF]]),
    ("min with nan", np.min, [[1, NAN, 2]], NAN, [[0, 1, 0]]),
    ("max of -inf", np.max, [[-INF, -INF]], -INF, [[HALF, HALF]]),
    ("max of inf", np.max, [[INF, 1]], INF, [[1, 0]]),
    ("maximum tie", np.maximum, [2, 2], 2, [HALF, HALF]),
    ("minimum tie", np.minimum, [2, 2], 2, [HALF, HALF]),
    ("maximum of zeros", np.maximum, [0.0, -0.0], 0, [HALF, HALF]),
    ("maximum with nan", np.maximum, [NAN, 2], NAN, [1, 0]),
    ("maximum with nan second", np.maximum, [2, NAN], NAN, [0, 1]),
    ("minimum with nan", np.minimum, [2, NAN], NAN, [0, 1]),
    ("maximum of nans", np.maximum, [NAN, NAN], NAN, [HALF, HALF]),
    ("fmax with nan", np.fmax, [NAN, 2], 2, [0, 1]),
    ("fmin with nan", np.fmin, [2, NAN], 2, [1, 0]),
    ("fmax tie", np.fmax, [2, 2], 2, [HALF, HALF]),
    # --- kinks
    ("relu at 0", lambda x: call("relu", x), [0], 0, [0]),
    ("relu below", lambda x: call("relu", x), [-1], 0, [0]),
    ("abs at 0", np.abs, [0], 0, [0]),
    ("sign", np.sign, [[-2, 0, 2]], [-1, 0, 1], [[0, 0, 0]]),
    ("norm of zeros", lambda x: norm(x), [[0, 0]], 0, [[0, 0]]),
    ("hypot at 0", np.hypot, [0, 0], 0, [0, 0]),
    ("std of constants", np.std, [[3, 3, 3]], 0, [[0, 0, 0]]),
    ("var of constants", np.var, [[3, 3, 3]], 0, [[0, 0, 0]]),
    ("arctan2 at 0", np.arctan2, [0, 0], 0, [0, 0]),
    ("sqrt at 0", np.sqrt, [0], 0, [INF]),
    # --- clip
    ("clip at the lower bound", np.clip, [1, 1, 3], 1, [1, 0, 0]),
    ("clip at the upper bound", np.clip, [3, 1, 3], 3, [1, 0, 0]),
    ("clip below", np.clip, [0, 1, 3], 1, [0, 1, 0]),
    ("clip above", np.clip, [4, 1, 3], 3, [0, 0, 1]),
    ("clip of nan", np.clip, [NAN, 1, 3], NAN, [1, 0, 0]),
    ("clip with a nan bound", np.clip, [2, NAN, 3], NAN, [0, 1, 0]),
    # --- powers
    ("0 ** 0", np.power, [0, 0], 1, [0, 0]),
    ("0 ** 2", np.power, [0, 2], 0, [0, 0]),
    ("x ** 2 at 0", lambda x: x**2, [0], 0, [0]),
    ("x ** 3 at -2", lambda x: x**3, [-2], -8, [12]),
    ("negative base", np.power, [-2, 3], -8, [12, NAN]),
    ("xlogy at (0, 0)", lambda x, y: call("xlogy", x, y), [0, 0], 0, [0, 0]),
    ("xlog1py at (0, -1)", lambda x, y: call("xlog1py", x, y), [0, -1], 0, [0, 0]),
    # --- products
    ("prod with a zero", np.prod, [[2, 0, 3]], 0, [[0, 6, 0]]),
    ("prod with two zeros", np.prod, [[0, 0, 3]], 0, [[0, 0, 0]]),
    ("cumprod with zeros", lambda x: np.cumprod(x)[2], [[2, 0, 3, 0]], 0, [[0, 6, 0, 0]]),
    # --- order: along the stable permutation; running extrema: the latest of equals
    ("sort tie", lambda x: np.sort(x)[0], [[2, 1, 1]], 1, [[0, 1, 0]]),
    ("sort of nan", lambda x: np.sort(x)[-1], [[NAN, 1, NAN]], NAN, [[0, 0, 1]]),
    ("median of an odd number", np.median, [[3, 1, 2]], 2, [[0, 0, 1]]),
    ("median of an even number", np.median, [[4, 1, 2, 9]], 3, [[HALF, 0, HALF, 0]]),
    ("median tie", np.median, [[2, 2, 2, 2]], 2, [[0, HALF, HALF, 0]]),
    ("median of inf", np.median, [[INF, 1, 2, INF, INF]], INF, [[1, 0, 0, 0, 0]]),
    ("median of nan", np.median, [[1, NAN, 2]], NAN, [[0, 1, 0]]),
    ("quantile at an element", lambda x: np.quantile(x, 0.5), [[INF, 1, 2]], 2, [[0, 0, 1]]),
    ("top_k tie", lambda x: lax.top_k(x, 1)[0][0], [[1, 2, 2]], 2, [[0, 1, 0]]),
    ("cummax tie", lambda x: lax.cummax(x)[2], [[2, 1, 2]], 2, [[0, 0, 1]]),
    ("cummin tie", lambda x: lax.cummin(x)[1], [[1, 1]], 1, [[0, 1]]),
    ("cummax after nan", lambda x: lax.cummax(x)[2], [[1, NAN, 5]], NAN, [[0, 1, 0]]),
    ("cumlogsumexp of -inf", lambda x: lax.cumlogsumexp(x)[1], [[-INF, -INF]], -INF, [[0, 0]]),
    ("cumlogsumexp with two inf", lambda x: lax.cumlogsumexp(x)[2], [[INF, 0, INF]], INF, [[HALF, 0, HALF]]),
    # --- segments: the last row is dropped, segment 1 is empty
    ("segment_max tie", lambda x: segment("max", x), [[2, 2, 1, 9]], 2, [[HALF, HALF, 0, 0]]),
    ("segment_min tie", lambda x: segment("min", x), [[1, 2, 1, 0]], 1, [[HALF, 0, HALF, 0]]),
    ("segment_max with nans", lambda x: segment("max", x), [[NAN, 2, NAN, 9]], NAN, [[HALF, 0, HALF, 0]]),
    ("segment_max of nothing", lambda x: segment("max", x, 1), [[1, 2, 3, 9]], -INF, [[0, 0, 0, 0]]),
    ("segment_min of nothing", lambda x: segment("min", x, 1), [[1, 2, 3, 9]], INF, [[0, 0, 0, 0]]),
    ("segment_sum", lambda x: segment("sum", x), [[1, 2, 3, NAN]], 6, [[1, 1, 1, 0]]),
    ("segment_mean", lambda x: segment("mean", x), [[1, 2, 3, NAN]], 2, [[THIRD, THIRD, THIRD, 0]]),
    ("segment_mean of nothing", lambda x: segment("mean", x, 1), [[1, 2, 3, 9]], 0, [[0, 0, 0, 0]]),
    ("segment_prod with a zero", lambda x: segment("prod", x), [[2, 0, 3, NAN]], 0, [[0, 6, 0, 0]]),
    ("segment_prod with two zeros", lambda x: segment("prod", x), [[0, 0, 3, 9]], 0, [[0, 0, 0, 0]]),
    ("segment_prod of nothing", lambda x: segment("prod", x, 1), [[1, 2, 3, 9]], 1, [[0, 0, 0, 0]]),
    ("segment_logsumexp of -inf", lambda x: segment("logsumexp", x), [[-INF, -INF, -INF, 9]], -INF, [[0, 0, 0, 0]]),
    ("segment_logsumexp of inf", lambda x: segment("logsumexp", x), [[INF, 0, INF, 9]], INF, [[HALF, 0, HALF, 0]]),
    ("segment_logsumexp of nothing", lambda x: segment("logsumexp", x, 1), [[1, 2, 3, 9]], -INF, [[0, 0, 0, 0]]),
    # --- windows: the first of equals, the first nan; padding has none
    ("max pool tie", lambda x: window("max", x)[0], [[1, 2, 2]], 2, [[0, 1, 0]]),
    ("min pool tie", lambda x: window("min", x)[0], [[1, 2, 1]], 1, [[1, 0, 0]]),
    ("max pool with nans", lambda x: window("max", x)[0], [[1, NAN, NAN]], NAN, [[0, 1, 0]]),
    ("max pool of -inf", lambda x: window("max", x)[0], [[-INF, -INF, -INF]], -INF, [[1, 0, 0]]),
    ("max pool of padding", lambda x: window("max", x, (3, 0))[0], [[1, 2, 3]], -INF, [[0, 0, 0]]),
    ("min pool of padding", lambda x: window("min", x, (3, 0))[0], [[1, 2, 3]], INF, [[0, 0, 0]]),
    ("max pool, cropped", lambda x: window("max", x, (-1, 1))[0], [[9, 2, 3]], 3, [[0, 0, 1]]),
    ("window sum, cropped", lambda x: window("add", x, (-1, 1))[0], [[NAN, 2, 3]], 5, [[0, 1, 1]]),
    ("window product with a zero", lambda x: window("mul", x)[0], [[2, 0, 3]], 0, [[0, 6, 0]]),
    ("lp pool of zeros", lambda x: nn.lp_pool(x[:, None], 2, (3,))[0, 0], [[0, 0, 0]], 0, [[0, 0, 0]]),
    ("global max pool tie", lambda x: nn.global_max_pool(x[None, :, None])[0, 0], [[1, 2, 2]], 2, [[0, 1, 0]]),
    # --- logsumexp
    ("logsumexp of -inf", lambda x: logsumexp(x), [[-INF, -INF]], -INF, [[0, 0]]),
    ("logsumexp with -inf", lambda x: logsumexp(x), [[-INF, 0]], 0, [[0, 1]]),
    ("logsumexp with inf", lambda x: logsumexp(x), [[INF, 0]], INF, [[1, 0]]),
    ("logsumexp with two inf", lambda x: logsumexp(x), [[INF, 0, INF]], INF, [[HALF, 0, HALF]]),
    ("logaddexp of -inf", np.logaddexp, [-INF, -INF], -INF, [0, 0]),
    ("logaddexp of inf", np.logaddexp, [INF, INF], INF, [HALF, HALF]),
    # --- where and rounding
    ("where", lambda x, y: np.where(onp.array([True, False]), x, y), [[1, 2], [3, 4]], [1, 4], [[1, 0], [0, 1]]),
    ("round", np.round, [[0.5, 1.5]], [0, 2], [[0, 0]]),
    ("floor", np.floor, [[0.5, -1.5]], [0, -2], [[0, 0]]),
    ("ceil", np.ceil, [[0.5, -1.5]], [1, -1], [[0, 0]]),
]


def norm(x):
    from numbagrad.numpy.reductions import norm as function

    return function(x)


def window(name, x, padding=(0, 0)):
    init = {"max": -INF, "min": INF, "add": 0.0, "mul": 1.0}[name]
    return lax.reduce_window(x, init, getattr(lax, name), (3,), None, (padding,))


def logsumexp(x):
    from numbagrad.numpy.reductions import logsumexp as function

    return function(x)


def segment(name, x, number=0):
    return getattr(ng.ops, f"segment_{name}")(x, onp.array([0, 0, 0, -1]), 2)[number]


@pytest.mark.parametrize(("f", "args", "value", "wanted"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_case(f, args, value, wanted):
    check(f, args, value, wanted)


# -------------------------------------------------------------------------------- rule 5: zero is absorbing

POISON = [  # functions with an infinite or undefined derivative at the point, and the point
    ("sqrt", np.sqrt, 0.0),
    ("sqrt below", np.sqrt, -1.0),
    ("log", np.log, 0.0),
    ("log below", np.log, -1.0),
    ("reciprocal", np.reciprocal, 0.0),
    ("arcsin", np.arcsin, 1.0),
    ("arccosh", np.arccosh, 1.0),
    ("power", lambda x: x**0.5, 0.0),
    ("exp", np.exp, 1e4),
    ("cbrt", np.cbrt, 0.0),
    ("log of norm", lambda x: np.log(x * x), 0.0),
]


@pytest.mark.parametrize(("f", "x"), [p[1:] for p in POISON], ids=[p[0] for p in POISON])
def test_untaken_branch_does_not_poison(f, x):
    """where(False, f(x), 3 x) has the derivatives of 3 x, at orders 1 and 2, in both modes."""

    def g(v):
        return np.where(onp.array(False), f(v), 3.0 * v)

    assert ng.grad(g)(x) == 3.0
    assert ng.jvp(g, (x,), (1.0,))[1] == 3.0
    for outer in (ng.grad(ng.grad(g)), ng.jacfwd(ng.grad(g)), ng.grad(ng.jacfwd(g)), ng.jacfwd(ng.jacfwd(g))):
        assert outer(x) == 0.0


@pytest.mark.parametrize(("f", "x"), [p[1:] for p in POISON], ids=[p[0] for p in POISON])
def test_zero_times_a_pole_is_zero(f, x):
    _, pull = ng.vjp(f, x)
    assert pull(0.0)[0] == 0.0
    assert ng.jvp(f, (x,), (0.0,))[1] == 0.0


def test_absorbing_zero_has_the_derivative_of_a_product():
    """d/dg (g * f'(x)) at g = 0 is f'(x), not 0: a select on g == 0 would lose it."""
    for f, x, slope in ((np.sin, 0.3, onp.cos(0.3)), (np.sqrt, 4.0, 0.25), (np.exp, 1.0, onp.e)):
        assert abs(ng.grad(lambda g, f=f, x=x: ng.vjp(f, x)[1](g)[0])(0.0) - slope) < 1e-15 * 4
        assert abs(ng.grad(lambda t, f=f, x=x: ng.jvp(f, (x,), (t,))[1])(0.0) - slope) < 1e-15 * 4
    assert ng.grad(lambda g: ng.vjp(np.sqrt, 0.0)[1](g)[0])(0.0) == INF


def test_where_of_sqrt():
    """The example on the first page: gradient 0 at 0 and at -1, and the right one elsewhere."""
    f = lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0))
    x = onp.array([-1.0, 0.0, 4.0])
    onp.testing.assert_array_equal(onp.asarray(ng.grad(f)(x)), [0.0, 0.0, 0.25])
    onp.testing.assert_array_equal(onp.asarray(ng.hessian(f)(x)), onp.diag([0.0, 0.0, -1 / 32]))


# -------------------------------------------------------------------------------- exact at higher orders


def test_prod_of_zeros_to_third_order():
    x = onp.array([0.0, 0.0, 3.0])
    want = onp.zeros((3, 3, 3))
    for i, j, k in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]:
        want[i, j, k] = 1.0
    onp.testing.assert_array_equal(onp.asarray(ng.hessian(np.prod)(x)), [[0, 3, 0], [3, 0, 0], [0, 0, 0]])
    for third in (ng.jacrev(ng.hessian(np.prod)), ng.jacfwd(ng.hessian(np.prod))):
        onp.testing.assert_array_equal(onp.asarray(third(x)), want)


def test_sinc_at_zero():
    d = np.sinc
    want = [1.0, 0.0, -(onp.pi**2) / 3, 0.0, onp.pi**4 / 5]
    for value in want:
        assert abs(float(d(0.0)) - value) < 1e-14 * max(1, abs(value))
        d = ng.grad(d)


@pytest.mark.parametrize("f", [np.tanh, np.arctan], ids=["tanh", "arctan"])
def test_saturated_functions_keep_their_digits(f):
    """1 - tanh(x)**2 has none left at x = 20."""
    import mpmath

    for x in (0.5, 5.0, 18.0, 25.0):
        with mpmath.workdps(60):
            t = mpmath.mpf(x)
            first = mpmath.sech(t) ** 2 if f is np.tanh else 1 / (1 + t * t)
            second = -2 * mpmath.tanh(t) * first if f is np.tanh else -2 * t * first**2
        onp.testing.assert_allclose(float(ng.grad(f)(x)), float(first), rtol=1e-14)
        onp.testing.assert_allclose(float(ng.grad(ng.grad(f))(x)), float(second), rtol=1e-14)


def test_float32_sums_do_not_lose_terms():
    n = 1 << 20
    x = onp.full(n, 0.1, onp.float32)
    want = n * float(onp.float32(0.1))
    assert abs(float(np.sum(x)) - want) <= want * 2**-23


def test_logsumexp_and_sigmoid_of_large_inputs():
    big = onp.array([1e4, 1e4 + 1.0])
    p = 1 / (1 + onp.exp(-1.0))
    onp.testing.assert_allclose(onp.asarray(ng.grad(logsumexp)(big)), [1 - p, p], rtol=1e-12)
    assert call("sigmoid", -800.0) == 0.0 and call("softplus", 800.0) == 800.0


# ------------------------------------------------------------------------------------ indexing and updates


def check_update(f, args, want_grads):
    """Gradients of the sum with weights 1, 2, 3, ... of an update, and the same forward."""
    args = [onp.asarray(a, float) for a in args]
    out, pull = ng.vjp(f, *args)
    ct = onp.arange(1.0, out.size + 1).reshape(out.shape)
    for g, want in zip(pull(ct), want_grads, strict=True):
        onp.testing.assert_array_equal(onp.asarray(g), want)
    inner_product_identity(f, args)


def test_set_with_duplicates():
    """The last wins: it alone has a derivative, and the operand none where it is overwritten."""
    f = lambda x, v: x.at[onp.array([1, 1, 2])].set(v)
    check_update(f, [[1, 2, 3, 4], [5, 6, 7]], [[1, 0, 0, 4], [0, 2, 3]])


def test_add_with_duplicates():
    f = lambda x, v: x.at[onp.array([1, 1, 2])].add(v)
    assert f(np.zeros(4), np.ones(3)).tolist() == [0, 2, 1, 0]
    check_update(f, [[1, 2, 3, 4], [5, 6, 7]], [[1, 2, 3, 4], [2, 2, 3]])


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremum_updates_share_ties(name):
    """Equal shares among all contributors, the operand included."""
    f = lambda x, v: getattr(x.at[onp.array([0, 0, 1])], name)(v)
    check_update(f, [[2, 3], [2, 2, 3]], [[THIRD, 1.0], [THIRD, THIRD, 1.0]])


def test_multiply_update_with_zeros_and_duplicates():
    f = lambda x, v: x.at[onp.array([0, 0, 1])].multiply(v)
    assert f(np.asarray([2.0, 3.0]), np.asarray([0.0, 5.0, 7.0])).tolist() == [0.0, 21.0]
    check_update(f, [[2, 3], [0, 5, 7]], [[0, 14], [10, 0, 6]])
    check_update(f, [[2, 3], [0, 0, 7]], [[0, 14], [0, 0, 6]])


def test_out_of_range():
    x = onp.array([1.0, 2.0, 3.0])
    for bad in (3, -4, onp.array([0, 3]), onp.array([-4])):
        with pytest.raises(IndexError, match="out of range"):
            np.asarray(x)[bad]
        with pytest.raises(IndexError, match="out of range"):
            ng.grad(lambda v, bad=bad: v[bad].sum())(x)
    far = onp.array([5, 1])
    check_update(lambda v: v.at[far].get(mode="clip"), [x], [[0, 2, 1]])
    check_update(lambda v: v.at[far].get(mode="wrap"), [x], [[0, 2, 1]])
    got = np.asarray(x).at[far].get(mode="fill")
    onp.testing.assert_array_equal(onp.asarray(got), [NAN, 2.0])
    check_update(lambda v: np.where(onp.array([False, True]), v.at[far].get(mode="fill"), 0.0), [x], [[0, 2, 0]])
    check_update(lambda v, u: v.at[far].set(u, mode="drop"), [x, [8.0, 9.0]], [[1, 0, 3], [0, 2]])
    check_update(lambda v, u: v.at[far].add(u, mode="drop"), [x, [8.0, 9.0]], [[1, 2, 3], [0, 2]])


def test_padding_crops():
    f = lambda x: np.pad(x, ((-1, 2),))
    assert f(np.asarray([1.0, 2.0, 3.0])).tolist() == [2.0, 3.0, 0.0, 0.0]
    check_update(f, [[1, 2, 3]], [[0, 1, 2]])


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), ()])
def test_empty_and_0d(shape):
    x = onp.ones(shape)
    for f in (lambda v: np.sum(v * v), lambda v: np.prod(v), lambda v: np.sum(np.tanh(v))):
        g = ng.grad(f)(x)
        assert g.shape == shape and g.dtype == x.dtype
        assert ng.hessian(f)(x).shape == shape + shape


# ------------------------------------------------------------------------------------------------- errors


def test_integer_inputs():
    for x in (3, onp.arange(3), onp.array([True])):
        with pytest.raises(TypeError, match=r"argument 0 \(weights\).*allow_int=True"):
            ng.grad(lambda weights: np.sum(weights * 1.0))(x)
    g = ng.grad(lambda n, x: np.sum(n * x), argnums=(0, 1), allow_int=True)(onp.arange(3), onp.ones(3))
    assert not onp.asarray(g[0]).any() and g[0].shape == (3,)
    onp.testing.assert_array_equal(onp.asarray(g[1]), [0, 1, 2])


def test_non_scalar_outputs():
    for f in (lambda x: x, lambda x: (x[0], x[1]), lambda x: None):
        with pytest.raises(TypeError, match="vjp or jacrev"):
            ng.grad(f)(onp.ones(2))
    with pytest.raises(TypeError, match="float"):
        ng.grad(lambda x: np.argmax(x))(onp.ones(2))


def test_complex():
    z = onp.array([1.0 + 2.0j, -0.5j])
    # the gradient of a real function is df/dx - i df/dy
    onp.testing.assert_allclose(onp.asarray(ng.grad(lambda v: np.sum(np.abs(v) ** 2))(z)), 2 * z.conj(), rtol=1e-15)
    onp.testing.assert_allclose(onp.asarray(ng.grad(lambda v: np.sum(np.real(v)))(z)), [1, 1])
    onp.testing.assert_allclose(onp.asarray(ng.grad(lambda v: np.sum(np.imag(v)))(z)), [-1j, -1j])
    assert ng.grad(np.abs)(0j) == 0
    got = ng.grad(np.exp, holomorphic=True)(0.5 + 1j)
    onp.testing.assert_allclose(complex(got), onp.exp(0.5 + 1j), rtol=1e-15)
    with pytest.raises(TypeError, match="holomorphic"):
        ng.grad(np.exp)(1j)
    with pytest.raises(TypeError, match="holomorphic"):
        ng.grad(np.exp, holomorphic=True)(1.0)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
def test_gradients_keep_the_dtype(dtype):
    x = onp.ones(3, dtype)
    for f in (lambda v: np.sum(np.abs(v)), lambda v: np.sum(np.real(v)), lambda v: np.sum(np.imag(v) + np.abs(v))):
        assert ng.grad(f)(x).dtype == x.dtype
        assert ng.jvp(f, (x,), (x,))[1].dtype == onp.abs(x).dtype
