"""numbagrad.lax: values against NumPy and SciPy, derivatives of orders 1 and 2, selectors and their edges."""

import numpy as onp
import pytest
from scipy import special

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import lax
from numbagrad.testing import check_grads

RNG = onp.random.default_rng(0)
REAL, POSITIVE, INSIDE = RNG.normal(size=7), RNG.uniform(0.3, 3, 7), RNG.uniform(-0.9, 0.9, 7)
OTHER = RNG.uniform(0.4, 2.5, 7) * onp.array([1, -1, 1, -1, 1, 1, -1])
INTS, SHIFTS = onp.array([-9, 0, 5, 12, 127]), onp.array([1, 3, 2, 0, 6])

UNARY = {
    "neg": (onp.negative, REAL), "exp": (onp.exp, REAL), "exp2": (onp.exp2, REAL), "expm1": (onp.expm1, REAL),
    "log": (onp.log, POSITIVE), "log1p": (onp.log1p, POSITIVE), "sqrt": (onp.sqrt, POSITIVE),
    "rsqrt": (lambda x: x**-0.5, POSITIVE), "cbrt": (onp.cbrt, POSITIVE), "sin": (onp.sin, REAL),
    "cos": (onp.cos, REAL), "tan": (onp.tan, INSIDE), "asin": (onp.arcsin, INSIDE), "acos": (onp.arccos, INSIDE),
    "atan": (onp.arctan, REAL), "sinh": (onp.sinh, REAL), "cosh": (onp.cosh, REAL), "tanh": (onp.tanh, REAL),
    "asinh": (onp.arcsinh, REAL), "acosh": (onp.arccosh, POSITIVE + 1), "atanh": (onp.arctanh, INSIDE),
    "erf": (special.erf, REAL), "erfc": (special.erfc, REAL), "erf_inv": (special.erfinv, INSIDE),
    "lgamma": (special.gammaln, POSITIVE), "digamma": (special.digamma, POSITIVE), "logistic": (special.expit, REAL),
    "floor": (onp.floor, REAL), "ceil": (onp.ceil, REAL), "square": (onp.square, REAL), "sign": (onp.sign, REAL),
    "abs": (onp.abs, REAL), "reciprocal": (onp.reciprocal, POSITIVE), "is_finite": (onp.isfinite, REAL),
    "real": (onp.real, REAL), "bitwise_not": (onp.invert, INTS),
}  # fmt: skip

BINARY = {
    "add": (onp.add, REAL, OTHER), "sub": (onp.subtract, REAL, OTHER), "mul": (onp.multiply, REAL, OTHER),
    "div": (onp.divide, REAL, OTHER), "rem": (onp.fmod, REAL, OTHER), "max": (onp.maximum, REAL, OTHER),
    "min": (onp.minimum, REAL, OTHER), "pow": (onp.power, POSITIVE, OTHER), "atan2": (onp.arctan2, REAL, OTHER),
    "eq": (onp.equal, REAL, REAL), "ne": (onp.not_equal, REAL, OTHER), "lt": (onp.less, REAL, OTHER),
    "le": (onp.less_equal, REAL, REAL), "gt": (onp.greater, REAL, OTHER), "ge": (onp.greater_equal, REAL, REAL),
    "bitwise_and": (onp.bitwise_and, INTS, SHIFTS), "bitwise_or": (onp.bitwise_or, INTS, SHIFTS),
    "bitwise_xor": (onp.bitwise_xor, INTS, SHIFTS), "shift_left": (onp.left_shift, INTS, SHIFTS),
    "shift_right_arithmetic": (onp.right_shift, INTS, SHIFTS),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    reference, x = UNARY[name]
    f = getattr(lax, name)
    onp.testing.assert_allclose(f(x), reference(x), rtol=2e-14, atol=1e-14)
    if x.dtype.kind == "f" and name not in ("floor", "ceil", "sign", "is_finite"):
        check_grads(f, (x,), order=2)
    elif x.dtype.kind == "f" and name != "is_finite":
        assert not onp.asarray(ng.grad(lambda x: f(x).sum())(x)).any()


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    reference, x, y = BINARY[name]
    f = getattr(lax, name)
    onp.testing.assert_allclose(f(x, y), reference(x, y), rtol=2e-14)
    if name in ("add", "sub", "mul", "div", "rem", "max", "min", "pow", "atan2"):
        check_grads(f, (x, y), order=2)


def test_integers():
    x, y = onp.array([7, -7, 7, -7]), onp.array([2, 2, -2, -2])
    assert lax.div(x, y).tolist() == [3, -3, -3, 3] and lax.rem(x, y).tolist() == [1, -1, 1, -1]
    small = onp.array([-1, -128, 64], "i1")
    assert lax.shift_right_logical(small, onp.array([1, 7, 3], "i1")).tolist() == [127, 1, 8]
    assert lax.shift_right_arithmetic(small, onp.array([1, 7, 3], "i1")).tolist() == [-1, -1, 8]
    wide = onp.array([2**63, 1], "u8")
    assert lax.shift_right_arithmetic(wide, onp.array([63, 64], "u8")).tolist() == [1, 0]
    with pytest.raises(TypeError, match="bits are defined for integers"):
        lax.shift_right_logical(1.0, 1)


def test_rounding():
    x = onp.array([-2.5, -0.5, 0.49999999999999994, 0.5, 1.5, 2.5, 4503599627370497.0, onp.inf])
    assert lax.round(x).tolist() == [-3, -1, 0, 1, 2, 3, 4503599627370497.0, onp.inf]
    assert lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN).tolist() == onp.rint(x).tolist()
    assert lax.round(INTS).tolist() == INTS.tolist()


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, -1, -3])
def test_integer_pow(n):
    x = onp.array([-2.0, -0.5, 1.5])
    onp.testing.assert_allclose(lax.integer_pow(x, n), x**n, rtol=1e-14)
    if n:
        check_grads(lambda x: lax.integer_pow(x, n), (x,), order=3 if n == 3 else 2)
    if n > 0:
        assert ng.grad(lambda x: lax.integer_pow(x, n))(0.0) == (n == 1)
        assert lax.integer_pow(onp.array([3, -3]), n).tolist() == [3**n, (-3) ** n]


def test_polygamma():
    for m in range(4):
        onp.testing.assert_allclose(lax.polygamma(m, POSITIVE), special.polygamma(m, POSITIVE), rtol=1e-12)
    check_grads(lambda x: lax.polygamma(1, x), (POSITIVE,), order=2)
    with pytest.raises(ValueError, match="not a whole number"):
        lax.polygamma(0.5, 1.0)


def test_clamp():
    x = onp.array([-3.0, 0.2, 5.0])
    assert lax.clamp(-1.0, x, 1.0).tolist() == [-1.0, 0.2, 1.0]
    check_grads(lax.clamp, (-1.0, x, 1.0), order=2)
    onp.testing.assert_array_equal(ng.grad(lambda x: lax.clamp(0.0, x, 1.0).sum())(onp.array([0.0, 1.0])), [1, 1])


CASES = [onp.arange(4.0) + 10 * k for k in range(40)]
SELECTORS = [
    (onp.array([True, False, True, False]), 2),
    (onp.array([False, True, True, False]), 1),
    (onp.array(True), 2),
    (onp.array([0, 1, 2, 1]), 3),
    (onp.array([-5, 1, 7, 2], "i1"), 3),
    (onp.array([0, 1, 250, 2], "u1"), 3),
    (onp.array(2), 3),
    (onp.array(9), 1),
    (onp.array([0, 17, 39, 1000]), 40),
    (onp.array([-(2**63), 2**63 - 1, 20, 19]), 40),
]


@pytest.mark.parametrize(("which", "n"), SELECTORS)
def test_select_n(which, n):
    cases = CASES[:n]
    place = onp.clip(onp.broadcast_to(which, (4,)).astype(object), 0, n - 1).astype(int)
    want = onp.stack(cases)[place, onp.arange(4)]
    onp.testing.assert_array_equal(lax.select_n(which, *cases), want)
    weight = onp.array([1.0, -2.0, 3.0, 0.5])
    grads = ng.grad(lambda *c: (lax.select_n(which, *c) * weight).sum(), tuple(range(n)))(*cases)
    for k, g in enumerate(grads):
        onp.testing.assert_array_equal(g, onp.where(place == k, weight, 0))
    _, tangent = ng.jvp(lambda *c: lax.select_n(which, *c), tuple(cases), tuple(c + 1 for c in cases))
    onp.testing.assert_array_equal(tangent, want + 1)
    if n < 4:
        check_grads(lambda *c: lax.select_n(which, *c) ** 2, cases, order=2)


def test_select_errors():
    x = onp.zeros(3)
    for args, words in [
        ((onp.array([0.5] * 3), x, x), "no case number"),
        ((onp.array([True] * 3), x, x, x), "a boolean has two values"),
        ((onp.array([0, 1]), x, x), "does not fit"),
        ((0, x, onp.zeros(2)), "different shapes"),
        ((0,), "nothing to select"),
    ]:
        with pytest.raises((TypeError, ValueError), match=words):
            lax.select_n(*args)
    with pytest.raises(TypeError, match="pred is not boolean"):
        lax.select(1, x, x)
    assert lax.select(onp.array([True, False]), onp.ones(2), onp.zeros(2)).tolist() == [1.0, 0.0]
    guarded = ng.grad(lambda x: lax.select(x > 0, lax.sqrt(x), x).sum())
    onp.testing.assert_array_equal(guarded(onp.array([0.0, -1.0, 4.0])), [1.0, 1.0, 0.25])


M = RNG.normal(size=(3, 4))
STRUCTURAL = {
    "broadcast": (lambda x: lax.broadcast(x, (2, 5)), lambda x: onp.broadcast_to(x, (2, 5, 3, 4))),
    "broadcast_in_dim": (
        lambda x: lax.broadcast_in_dim(x, (3, 2, 4), (0, 2)),
        lambda x: onp.broadcast_to(x[:, None], (3, 2, 4)),
    ),
    "reshape": (lambda x: lax.reshape(x, (2, 6)), lambda x: x.reshape(2, 6)),
    "reshape dimensions": (lambda x: lax.reshape(x, (12,), (1, 0)), lambda x: x.T.reshape(12)),
    "transpose": (lambda x: lax.transpose(x, (1, 0)), onp.transpose),
    "rev": (lambda x: lax.rev(x, (1,)), lambda x: x[:, ::-1]),
    "concatenate": (lambda x: lax.concatenate([x, x], 1), lambda x: onp.concatenate([x, x], 1)),
    "slice": (lambda x: lax.slice(x, (1, 0), (3, 4), (1, 2)), lambda x: x[1:3, 0:4:2]),
    "slice_in_dim": (lambda x: lax.slice_in_dim(x, 1, -1, axis=1), lambda x: x[:, 1:-1]),
    "expand_dims": (lambda x: lax.expand_dims(x, (0, 2)), lambda x: x[None, :, None]),
    "squeeze": (lambda x: lax.squeeze(x[None], (0,)), lambda x: x),
    "pad": (
        lambda x: lax.pad(x, 2.0, ((1, 0, 0), (0, 2, 0))),
        lambda x: onp.pad(x, ((1, 0), (0, 2)), constant_values=2),
    ),
    "pad crop": (lambda x: lax.pad(x, 0.0, ((-1, 0, 0), (-1, -2, 0))), lambda x: x[1:, 1:2]),
    "reduce_sum": (lambda x: lax.reduce_sum(x, (0,)), lambda x: x.sum(0)),
    "reduce_prod": (lambda x: lax.reduce_prod(x, (1,)), lambda x: x.prod(1)),
    "reduce_max": (lambda x: lax.reduce_max(x, (0, 1)), lambda x: x.max()),
    "reduce_min": (lambda x: lax.reduce_min(x, (1,)), lambda x: x.min(1)),
    "dot": (lambda x: lax.dot(x, x.T), lambda x: x @ x.T),
    "dot_general": (
        lambda x: lax.dot_general(x, x, (((1,), (1,)), ((0,), (0,)))),
        lambda x: (x * x).sum(1),
    ),
    "batch_matmul": (lambda x: lax.batch_matmul(x[None], x.T[None]), lambda x: (x @ x.T)[None]),
    "full_like": (lambda x: lax.full_like(x, x[0, 0]), lambda x: onp.full_like(x, x[0, 0])),
}


@pytest.mark.parametrize("name", STRUCTURAL)
def test_structural(name):
    f, reference = STRUCTURAL[name]
    onp.testing.assert_allclose(f(np.asarray(M)), reference(M), rtol=1e-13)
    check_grads(f, (M,), order=2)


def test_pad_inside_and_its_value():
    x = onp.array([1.0, 2.0, 3.0])
    assert lax.pad(x, 9.0, ((1, -1, 2),)).tolist() == [9, 1, 9, 9, 2, 9, 9]
    check_grads(lambda x, v: lax.pad(x, v, ((1, -1, 2),)), (x, 9.0), order=2)
    assert lax.pad(onp.zeros(0), 1.0, ((1, 2, 3),)).tolist() == [1.0] * 3
    with pytest.raises(ValueError, match="not a padding"):
        lax.pad(x, 0.0, ((0, 0, -1),))


def test_dot_general_many_axes():
    x, y = RNG.normal(size=(2, 3, 4, 5)), RNG.normal(size=(5, 2, 6, 3))
    f = lambda x, y: lax.dot_general(x, y, (((3, 1), (0, 3)), ((0,), (1,))))
    onp.testing.assert_allclose(f(x, y), onp.einsum("bcfk,kbgc->bfg", x, y), rtol=1e-12)
    check_grads(f, (x, y), order=2)
    with pytest.raises(ValueError, match="lengths differ"):
        lax.dot_general(x, y, (((0,), (0,)), ((), ())))


def test_making_and_converting():
    assert lax.iota("int32", 3).tolist() == [0, 1, 2] and lax.iota("int32", 3).dtype == onp.int32
    assert lax.broadcasted_iota(float, (2, 3), 1).tolist() == [[0, 1, 2]] * 2
    assert lax.full((2,), 7).tolist() == [7, 7]
    assert lax.convert_element_type(onp.array([1.7]), "int8").tolist() == [1]
    assert ng.grad(lambda x: lax.convert_element_type(x, "float32").sum())(onp.ones(2)).dtype == onp.float64
    assert lax.complex(1.0, 2.0) == 1 + 2j
    assert lax.argmax(M, 1).tolist() == M.argmax(1).tolist() and lax.argmin(M, 0, "int32").dtype == onp.int32
    assert lax.reduce_or(M > 9, (0, 1)) == False and lax.reduce_and(M < 9, (0, 1)) == True  # noqa: E712
    assert lax.reduce_sum(onp.ones(300, "i1"), (0,)).dtype == onp.int8


def test_structural_errors():
    for call, words in [
        (lambda: lax.slice(M, (0, 0), (4, 4)), "not a part of the array"),
        (lambda: lax.broadcast_in_dim(M, (3, 4), (1, 0)), "not a place for each axis"),
        (lambda: lax.dot(onp.zeros((1, 1, 1)), M), "not vectors or matrices"),
    ]:
        with pytest.raises((TypeError, ValueError), match=words):
            call()


def test_stop_gradient_of_a_tree():
    f = lambda x: np.sum(lax.stop_gradient({"a": x})["a"] * x)
    onp.testing.assert_array_equal(ng.grad(f)(onp.array([2.0, 3.0])), [2.0, 3.0])


@pytest.mark.parametrize("which", [onp.zeros(3, int), 0, False], ids=str)
def test_select_n_of_one_case_is_no_view(which):
    x = onp.ones(3)
    c = lax.select_n(which, x)
    _, pull = ng.vjp(lambda t: t * c, onp.ones(3))
    x[:] = 100
    assert pull(onp.ones(3))[0].tolist() == [1, 1, 1] == c.tolist()


def test_clamp_errors_name_clamp():
    with pytest.raises(ValueError, match=r"^clamp: shapes do not broadcast: got \(2,\) and \(3,\) and \(\)"):
        lax.clamp(onp.ones(2), onp.ones(3), 1.0)
    with pytest.raises(TypeError, match=r"^clamp: complex"):
        lax.clamp(0.0, 1j, 1.0)
