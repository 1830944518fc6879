"""Random shapes, layouts, axes and indices against NumPy; gradients of indexing exactly."""

import warnings

import numpy as onp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hn

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad.core.array import Array
from numbagrad.testing import inner_product_identity, tolerance

pytestmark = pytest.mark.xdist_group("properties")

quick = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
SHAPES = hn.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)


def numbers(shape, seed=0):
    return onp.asarray(onp.random.default_rng(seed).standard_normal(shape))


def close(got, want, factor=1.0):
    got, want = onp.asarray(got), onp.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    onp.testing.assert_allclose(got, want, **tolerance(got.dtype, factor))


@st.composite
def layouts(draw, shape, seed=0):
    """Numbers of a shape in a random memory layout: permuted axes, steps of either sign, repeats."""
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, -1, 2, -2, 0])) for _ in shape]
    stored = [shape[k] for k in order]
    big = [1 if steps[k] == 0 else n * max(1, abs(steps[k])) for k, n in zip(order, stored, strict=True)]
    x = onp.asarray(numbers(big, seed)).transpose(onp.argsort(order))
    key = tuple(slice(None, None, s) if s else slice(None) for s in steps)
    return onp.broadcast_to(x[key], shape) if 0 in steps else x[(*key, ...)]


@st.composite
def operands(draw):
    """Two arrays whose shapes broadcast, in random layouts."""
    shapes = draw(hn.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4, min_side=0)).input_shapes
    return tuple(draw(layouts(s, k)) for k, s in enumerate(shapes))


BINARY = ["add", "multiply", "maximum", "hypot"]


@quick
@given(operands(), st.sampled_from(BINARY))
def test_maps(xs, name):
    x, y = xs
    close(getattr(np, name)(Array(x), Array(y)), getattr(onp, name)(x, y), 1 / 8)
    inner_product_identity(getattr(np, name), (Array(x), Array(y)))


@quick
@given(operands())
def test_chains_of_maps(xs):
    f = lambda a, b: np.tanh(a * b + a) - b / (1.0 + a * a)
    x, y = xs
    close(f(Array(x), Array(y)), onp.tanh(x * y + x) - y / (1 + x * x))
    inner_product_identity(f, (Array(x), Array(y)))


@st.composite
def reductions(draw):
    shape = draw(SHAPES)
    x = draw(layouts(shape))
    axes = st.none() if not shape else st.one_of(st.none(), hn.valid_tuple_axes(len(shape)))
    return x, draw(axes), draw(st.booleans())


@quick
@given(reductions(), st.sampled_from(["sum", "prod", "max", "min", "mean", "var", "any", "all"]))
def test_reductions(case, name):
    x, axis, keepdims = case
    count = x.size if axis is None else int(onp.prod([x.shape[k] for k in axis]))
    if count == 0 and name in ("max", "min"):
        with pytest.raises(ValueError, match=name):
            getattr(np, name)(Array(x), axis=axis, keepdims=keepdims)
        return
    x = onp.asarray(x > 0) if name in ("any", "all") else x
    with onp.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of the mean of nothing
        want = getattr(onp, name)(x, axis=axis, keepdims=keepdims)
    close(getattr(np, name)(Array(x), axis=axis, keepdims=keepdims), want)
    if name not in ("any", "all") and count:
        inner_product_identity(lambda v: getattr(np, name)(v, axis=axis, keepdims=keepdims), (Array(x),))


@quick
@given(reductions())
def test_arg_reductions(case):
    x, axis, keepdims = case
    k = None if axis is None or len(axis) != 1 else axis[0]
    ties = onp.asarray(onp.round(x))
    if x.size and (k is None or x.shape[k]):
        for name in ("argmax", "argmin"):
            close(
                getattr(np, name)(Array(ties), axis=k, keepdims=keepdims),
                getattr(onp, name)(ties, k, keepdims=keepdims),
            )


# -------------------------------------------------------------------------------------------- indexing


@st.composite
def slices(draw, n):
    bound = st.one_of(st.none(), st.integers(-n - 2, n + 2))
    return slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, -1, -2, 3])))


@st.composite
def basic(draw, n):
    return draw(slices(n)) if n == 0 or draw(st.booleans()) else draw(st.integers(-n, n - 1))


@st.composite
def keys(draw, shape):
    """A key of ints, slices, None, an ellipsis, integer arrays and masks, for an array of this shape."""
    common = draw(hn.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=3))
    parts, axis = [], 0
    while axis < len(shape):
        kind = draw(st.sampled_from(["basic", "basic", "array", "mask", "none", "stop"]))
        n = shape[axis]
        if kind == "stop":
            break
        if kind == "none":
            parts.append(None)
            continue
        if kind == "mask" and not any(isinstance(p, onp.ndarray) for p in parts):
            wide = draw(st.integers(1, min(2, len(shape) - axis)))
            parts.append(onp.random.default_rng(axis).random(shape[axis : axis + wide]) < 0.6)
            axis += wide
            common = (int(parts[-1].sum()),)
            continue
        if kind == "array" and n:
            same = draw(st.sampled_from([common, common[-1:], (1,), ()]))
            parts.append(onp.random.default_rng(7 + axis).integers(-n, n, same))
        else:
            parts.append(draw(basic(n)))
        axis += 1
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), Ellipsis)
    return tuple(parts)


@st.composite
def indexed(draw):
    shape = draw(hn.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4))
    return draw(layouts(shape)), draw(keys(shape))


def outcome(f):
    """A result, or that NumPy refuses."""
    try:
        return f()
    except IndexError:
        return None


@settings(quick, max_examples=250)
@given(indexed())
def test_getitem(case):
    """The value NumPy gives, and as gradient exactly the cotangents added up where they came from."""
    x, key = case
    want = outcome(lambda: x[key])
    if want is None:
        with pytest.raises(IndexError):
            Array(x)[key]
        return
    out, pull = ng.vjp(lambda v: v[key], Array(x))
    close(out, want)
    ct = numbers(want.shape, 3)
    scattered = onp.zeros(x.shape)
    onp.add.at(scattered, key, ct)
    onp.testing.assert_array_equal(onp.asarray(pull(ct)[0]), scattered)
    onp.testing.assert_array_equal(onp.asarray(ng.jvp(lambda v: v[key], (Array(x),), (2 * x,))[1]), 2 * want)


@settings(quick, max_examples=150)
@given(indexed(), st.sampled_from(["set", "add"]))
def test_updates(case, how):
    x, key = case
    part = outcome(lambda: x[key])
    if part is None:
        return
    new, want = numbers(part.shape, 4), x.copy()
    if how == "set":
        want[key] = new
    else:
        onp.add.at(want, key, new)
    f = lambda v, u: getattr(v.at[key], how)(u)
    close(f(Array(x), Array(new)), want)
    _, pull = ng.vjp(f, Array(x), Array(new))
    ct = numbers(x.shape, 5)
    g_x, g_new = (onp.asarray(g) for g in pull(ct))
    if how == "add":
        onp.testing.assert_array_equal(g_x, ct)
        onp.testing.assert_array_equal(g_new, ct[key])
    else:
        kept = onp.ones(x.shape, bool)
        kept[key] = False
        onp.testing.assert_array_equal(g_x, onp.where(kept, ct, 0))
        winner = onp.full(x.shape, -1)
        winner[key] = onp.arange(part.size).reshape(part.shape)  # the last wins, as in the value
        won = onp.zeros(part.size)
        won[winner[winner >= 0]] = ct[winner >= 0]
        onp.testing.assert_array_equal(g_new.ravel(), won)
    inner_product_identity(f, (Array(x), Array(new)))


@settings(quick, max_examples=100)
@given(indexed())
def test_assignment_is_set(case):
    x, key = case
    part = outcome(lambda: x[key])
    if part is None:
        return
    want, a = x.copy(), Array(x)
    want[key] = 7.0
    a[key] = 7.0
    onp.testing.assert_array_equal(onp.asarray(a), want)
    want[key] *= 2.0
    a[key] *= 2.0
    onp.testing.assert_array_equal(onp.asarray(a), want)


# -------------------------------------------------------------------------------------------- products


@st.composite
def subscripts(draw):
    letters, sizes = "abcde", {}
    terms = []
    for _ in range(draw(st.integers(1, 3))):
        terms.append("".join(draw(st.lists(st.sampled_from(letters), min_size=0, max_size=3))))
    for c in letters:
        sizes[c] = draw(st.integers(0, 3))
    used = sorted(set("".join(terms)))
    text = ",".join(terms)
    if draw(st.booleans()):
        text += "->" + "".join(draw(st.lists(st.sampled_from(used), unique=True))) if used else "->"
    arrays = [numbers([sizes[c] for c in t], k) for k, t in enumerate(terms)]
    return text, arrays


@quick
@given(subscripts())
def test_einsum(case):
    text, arrays = case
    close(np.einsum(text, *map(Array, arrays)), onp.asarray(onp.einsum(text, *arrays)))
    inner_product_identity(lambda *xs: np.einsum(text, *xs), [Array(a) for a in arrays])


@quick
@given(hn.mutually_broadcastable_shapes(signature=onp.matmul.signature, max_dims=3, min_side=0, max_side=4))
def test_matmul(shapes):
    xs = [numbers(s, k) for k, s in enumerate(shapes.input_shapes)]
    close(np.matmul(*map(Array, xs)), onp.asarray(onp.matmul(*xs)))
    inner_product_identity(np.matmul, [Array(x) for x in xs])


@quick
@given(SHAPES, st.data())
def test_reshape_transpose_broadcast(shape, data):
    x = data.draw(layouts(shape))
    order = data.draw(st.permutations(range(len(shape))))
    f = lambda v: np.transpose(v, order).reshape(-1)[None] * np.ones((2, 1))
    close(f(Array(x)), onp.transpose(x, order).reshape(-1)[None] * onp.ones((2, 1)))
    inner_product_identity(f, (Array(x),))
