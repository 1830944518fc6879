"""lax.gather, lax.scatter and dynamic slices, x.at[...] and NumPy's put and take, against loops over plain NumPy."""

import itertools

import numpy as onp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import lax
from numbagrad.testing import check_grads, inner_product_identity

pytestmark = pytest.mark.xdist_group("gather_scatter")

options = dict(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
quick, slow = settings(max_examples=60, **options), settings(max_examples=700, **options)
NAN = onp.nan

# --------------------------------------------------------------------------------------- random windows


class Windows:
    """Random dimension numbers, and the elements each window is made of, by loops."""

    def __init__(self, seed, ties=False):
        rng = self.rng = onp.random.default_rng(seed)
        ndim = int(rng.integers(1, 5))
        self.shape = tuple(map(int, rng.integers(1, 4, ndim)))
        axes = [int(k) for k in rng.permutation(ndim)]
        batching = int(rng.integers(0, min(2, ndim) + 1)) if rng.random() < 0.4 else 0
        self.batch = sorted(axes[:batching])
        rest = axes[batching:]
        self.collapsed = sorted(rest[: int(rng.integers(0, len(rest) + 1))])
        others = [k for k in range(ndim) if k not in self.batch]
        self.index_map = [int(k) for k in rng.permutation(others)[: int(rng.integers(0, len(others) + 1))]]
        left_out = {*self.batch, *self.collapsed}
        self.sizes = tuple(
            1 if k in left_out else n if rng.random() < 0.4 else int(rng.integers(0, n + 1))
            for k, n in enumerate(self.shape)
        )
        lead = [*map(int, rng.integers(0, 4, int(rng.integers(0, 3)))), *(self.shape[k] for k in self.batch)]
        order = [int(k) for k in rng.permutation(len(lead))]
        self.lead = tuple(lead[k] for k in order)
        self.index_batch = [order.index(len(lead) - batching + k) for k in range(batching)]
        self.kept = [k for k in range(ndim) if k not in left_out]
        total = len(self.lead) + len(self.kept)
        self.offset = sorted(int(k) for k in rng.permutation(total)[: len(self.kept)])
        self.index = rng.integers(-1, 4, (*self.lead, len(self.index_map))).astype(rng.choice(["int32", "int64"]))
        self.x = rng.integers(-2, 3, self.shape).astype(float) if ties else rng.normal(size=self.shape)

    @property
    def numbers(self):
        return (self.offset, self.collapsed, self.index_map, self.batch, self.index_batch)

    @property
    def out_shape(self):
        lead, window = iter(self.lead), iter(self.sizes[k] for k in self.kept)
        total = len(self.lead) + len(self.kept)
        return tuple(next(window) if k in self.offset else next(lead) for k in range(total))

    def elements(self, clip):
        """Place in the result, and the element of the operand (None: the window does not fit)."""
        spans = [self.sizes[k] for k in self.kept]
        for at in itertools.product(*map(range, self.lead)):
            start = [0] * len(self.shape)
            for k, d in enumerate(self.index_map):
                start[d] = int(self.index[(*at, k)])
            for d, b in zip(self.batch, self.index_batch, strict=True):
                start[d] = at[b]
            room = [n - w for n, w in zip(self.shape, self.sizes, strict=True)]
            if clip:
                start = [min(max(s, 0), r) for s, r in zip(start, room, strict=True)]
            fits = all(0 <= s <= r for s, r in zip(start, room, strict=True))
            for inner in itertools.product(*map(range, spans)):
                leads, inners = iter(at), iter(inner)
                place = tuple(next(inners) if k in self.offset else next(leads) for k in range(len(self.out_shape)))
                whole = dict(zip(self.kept, inner, strict=True))
                yield place, tuple(s + whole.get(d, 0) for d, s in enumerate(start)) if fits else None


def check_gather(w, mode):
    f = lambda x: lax.gather(x, w.index, lax.GatherDimensionNumbers(*w.numbers), w.sizes, mode=mode, fill_value=7.0)
    got, pull = ng.vjp(f, w.x)
    want, back = onp.full(w.out_shape, NAN), onp.zeros(w.shape)
    ct = w.rng.normal(size=w.out_shape)
    for place, source in w.elements(mode != "fill"):
        want[place] = 7.0 if source is None else w.x[source]
        if source is not None:
            back[source] += ct[place]
    assert got.shape == want.shape
    onp.testing.assert_array_equal(onp.asarray(got), want)
    onp.testing.assert_allclose(onp.asarray(pull(ct)[0]), back, atol=1e-12)
    inner_product_identity(f, (w.x,))


SCATTERS = {
    "scatter": lambda a, u: u,
    "scatter_add": lambda a, u: a + u,
    "scatter_sub": lambda a, u: a - u,
    "scatter_mul": lambda a, u: a * u,
    "scatter_min": onp.minimum,
    "scatter_max": onp.maximum,
}


def check_scatter(w, mode, name):
    updates = w.rng.integers(-2, 3, w.out_shape).astype(float)
    numbers = lax.ScatterDimensionNumbers(*w.numbers)
    f = lambda x, u: getattr(lax, name)(x, w.index, u, numbers, mode=mode)
    got, pull = ng.vjp(f, w.x, updates)
    want, ct = w.x.copy(), w.rng.normal(size=w.shape)
    back_x, back_u, last = ct.copy(), onp.zeros(w.out_shape), {}
    for place, target in w.elements(mode == "clip"):
        if target is not None:
            want[target] = SCATTERS[name](want[target], updates[place])
            back_u[place] = ct[target] * (-1 if name == "scatter_sub" else 1)
            last[target] = place
    onp.testing.assert_allclose(onp.asarray(got), want, atol=1e-12)
    inner_product_identity(f, (w.x, updates))
    if name == "scatter":
        back_u[...] = 0
        for target, place in last.items():
            back_x[target], back_u[place] = 0, ct[target]
    if name in ("scatter", "scatter_add", "scatter_sub"):
        gx, gu = pull(ct)
        onp.testing.assert_array_equal(onp.asarray(gx), back_x)
        onp.testing.assert_array_equal(onp.asarray(gu), back_u)


SEEDS = st.integers(0, 2**32)


@quick
@given(seed=SEEDS, mode=st.sampled_from(["clip", "fill", "promise_in_bounds"]))
def test_gather(seed, mode):
    check_gather(Windows(seed), mode)


@quick
@given(seed=SEEDS, mode=st.sampled_from(["clip", "drop"]), name=st.sampled_from(list(SCATTERS)))
def test_scatter(seed, mode, name):
    check_scatter(Windows(seed, ties=True), mode, name)


@pytest.mark.slow
@slow
@given(seed=SEEDS, mode=st.sampled_from(["clip", "fill", "promise_in_bounds"]))
def test_many_gathers(seed, mode):
    check_gather(Windows(seed), mode)


@pytest.mark.slow
@slow
@given(seed=SEEDS, mode=st.sampled_from(["clip", "drop"]), name=st.sampled_from(list(SCATTERS)))
def test_many_scatters(seed, mode, name):
    check_scatter(Windows(seed, ties=True), mode, name)


@quick
@given(seed=SEEDS, mode=st.sampled_from(["clip", "drop"]))
def test_scatter_apply(seed, mode):
    w = Windows(seed)
    numbers = lax.ScatterDimensionNumbers(*w.numbers)
    f = lambda x: lax.scatter_apply(x, w.index, lambda v: 1.5 * v + 1, numbers, update_shape=w.out_shape, mode=mode)
    want, slope = w.x.copy(), onp.ones(w.shape)
    for _, target in w.elements(mode == "clip"):
        if target is not None:
            want[target], slope[target] = 1.5 * want[target] + 1, 1.5 * slope[target]
    got, pull = ng.vjp(f, w.x)
    onp.testing.assert_allclose(onp.asarray(got), want)
    onp.testing.assert_allclose(onp.asarray(pull(onp.ones(w.shape))[0]), slope)


ROWS = lax.GatherDimensionNumbers((1,), (0,), (0,))
INTO_ROWS = lax.ScatterDimensionNumbers((1,), (0,), (0,))


@pytest.mark.parametrize(
    ("dtype", "want"),
    [("float32", NAN), ("complex128", NAN), ("int8", -128), ("uint16", 65535), ("bool", True)],
)
def test_fill_values(dtype, want):
    x = onp.ones((2, 2)).astype(dtype)
    got = onp.asarray(lax.gather(x, [[0], [2], [-1]], ROWS, (1, 2), mode=lax.GatherScatterMode.FILL_OR_DROP))
    assert got.dtype == x.dtype
    onp.testing.assert_array_equal(got, [[1, 1], [want, want], [want, want]])


def test_default_modes():
    """A gather moves windows, a scatter drops them."""
    x = onp.arange(4.0).reshape(2, 2)
    assert lax.gather(x, [[5]], ROWS, (1, 2)).tolist() == [[2, 3]]
    assert lax.scatter_add(x, [[5]], [[9.0, 9.0]], INTO_ROWS).tolist() == x.tolist()
    assert lax.scatter_add(x, [[5]], [[9.0, 9.0]], INTO_ROWS, mode="clip").tolist() == [[0, 1], [11, 12]]


@pytest.mark.parametrize("name", list(SCATTERS))
def test_scatter_derivatives(name):
    """Duplicates, a dropped update, three orders."""
    rng = onp.random.default_rng(0)
    x, u = rng.normal(size=(3, 2)), rng.normal(size=(5, 2))
    f = lambda x, u: getattr(lax, name)(x, onp.array([[0], [2], [0], [0], [7]]), u, INTO_ROWS)
    check_grads(f, (x, u), order=3)


def test_scatter_mul_with_zeros_to_third_order():
    f = lambda u: np.sum(lax.scatter_mul(onp.array([[2.0], [5.0]]), onp.array([[0], [0], [0]]), u, INTO_ROWS))
    g = lambda v: f(np.reshape(v, (3, 1)))
    zeros = onp.zeros(3)
    assert not onp.asarray(ng.hessian(g)(zeros)).any()
    third = onp.asarray(ng.jacfwd(ng.hessian(g))(zeros))
    want = onp.zeros((3, 3, 3))
    for i, j, k in itertools.permutations(range(3)):
        want[i, j, k] = 2.0
    onp.testing.assert_array_equal(third, want)
    onp.testing.assert_array_equal(onp.asarray(ng.grad(g)(onp.array([0.0, 3.0, 7.0]))), [42, 0, 0])


X = onp.ones((3, 2))
WRONG = [
    (lambda: lax.gather(X, [[0]], ((0,), (0,), (0,)), (1, 3)), ValueError, "no part of the operand"),
    (lambda: lax.gather(X, [[0, 1]], ROWS, (1, 2)), ValueError, "dimension numbers"),
    (lambda: lax.gather(X, [[0]], ROWS, (1,)), ValueError, "dimension numbers"),
    (lambda: lax.gather(X, [[0]], ROWS, (2, 2)), ValueError, "axes left out"),
    (lambda: lax.gather(X, [[0.5]], ROWS, (1, 2)), TypeError, "not integers"),
    (lambda: lax.gather(X, [[0]], ROWS, (1, 2), mode="nearest"), ValueError, "no such mode"),
    (lambda: lax.scatter_add(X, [[0]], onp.ones((2, 2)), INTO_ROWS), ValueError, "updates do not match"),
    (lambda: lax.scatter_add(X, [[0]], onp.ones(()), INTO_ROWS), ValueError, "fit|match"),
    (lambda: lax.dynamic_slice(X, (0,), (1, 1)), ValueError, "starts and axes"),
    (lambda: lax.dynamic_slice(X, (0, 0), (4, 1)), ValueError, "not a part"),
    (lambda: lax.dynamic_slice(X, (0.0, 0), (1, 1)), TypeError, "not an integer"),
    (lambda: lax.dynamic_update_slice(X, onp.ones((4, 1)), (0, 0)), ValueError, "does not fit"),
    (lambda: lax.dynamic_slice_in_dim(X, 0, 1, 2), ValueError, "axis"),
    (lambda: lax.index_in_dim(X, 3), IndexError, "out of range"),
    (lambda: lax.index_take(X, ([0], [0]), (0,)), ValueError, "index vector"),
    (lambda: np.take(X, [3], 0), IndexError, "out of range"),
    (lambda: np.take(X, [0], 0, mode="nearest"), ValueError, "no such mode"),
    (lambda: np.take(X, [0.5], 0), TypeError, "not integers"),
    (lambda: np.take_along_axis(X, onp.array([[2]]), 1), IndexError, "out of range"),
    (lambda: np.take_along_axis(X, onp.array([0]), 1), ValueError, "numbers of axes"),
    (lambda: np.take_along_axis(X, onp.zeros((2, 1), int), 1), ValueError, "broadcast"),
    (lambda: np.put_along_axis(X, onp.zeros((3, 1), int), 1.0, 1, inplace=True), ValueError, "inplace=False"),
    (lambda: np.put_along_axis(X, onp.array([[0], [2], [0]]), 1.0, 1), IndexError, "out of range"),
    (lambda: np.put_along_axis(X, onp.zeros((3, 1), int), onp.ones(5), 1), ValueError, "broadcast"),
    (lambda: np.put(X, [6], 1.0), IndexError, "out of range"),
    (lambda: np.put(X, [0], []), ValueError, "no values"),
    (lambda: np.place(X, [True], 1.0), ValueError, "shapes differ"),
    (lambda: np.asarray(X).at[0].set(1.0, mode="nearest"), ValueError, "no such mode"),
    (lambda: np.asarray(X).at[onp.array([3])].add(1.0), IndexError, "out of range"),
    (lambda: np.asarray(X).at[0].apply(np.sum), ValueError, "not elementwise"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_errors(number):
    call, error, text = WRONG[number]
    with pytest.raises(error, match=text):
        call()


# ------------------------------------------------------------------------------------------ dynamic slices


@quick
@given(seed=SEEDS)
def test_dynamic_slices(seed):
    rng = onp.random.default_rng(seed)
    shape = tuple(map(int, rng.integers(0, 5, int(rng.integers(0, 4)))))
    sizes = tuple(int(rng.integers(0, n + 1)) for n in shape)
    starts = tuple(map(int, rng.integers(-6, 7, len(shape))))
    begins = [min(max(s + n if s < 0 else s, 0), n - w) for s, n, w in zip(starts, shape, sizes, strict=True)]
    key = tuple(slice(b, b + w) for b, w in zip(begins, sizes, strict=True))
    x, u = rng.normal(size=shape), rng.normal(size=sizes)
    got, pull = ng.vjp(lambda v: lax.dynamic_slice(v, starts, sizes), x)
    onp.testing.assert_array_equal(onp.asarray(got), x[key])
    back, new, kept = onp.zeros(shape), x.copy(), onp.ones(shape)
    back[key], new[key], kept[key] = u, u, 0
    onp.testing.assert_array_equal(onp.asarray(pull(u)[0]), back)
    got, pull = ng.vjp(lambda v, w: lax.dynamic_update_slice(v, w, onp.array(starts, int)), x, u)
    onp.testing.assert_array_equal(onp.asarray(got), new)
    for g, want in zip(pull(x), (kept * x, x[key]), strict=True):
        onp.testing.assert_array_equal(onp.asarray(g), want)


def test_slices_in_one_dimension():
    x = onp.arange(12.0).reshape(3, 4)
    two = np.asarray(2)
    assert lax.dynamic_slice_in_dim(x, two, 2, axis=1).tolist() == x[:, 2:].tolist()
    assert lax.dynamic_slice_in_dim(x, 9, 2).tolist() == x[1:].tolist()
    assert lax.dynamic_index_in_dim(x, -1).tolist() == x[2:].tolist()
    assert lax.dynamic_index_in_dim(x, two, -1, keepdims=False).tolist() == x[:, 2].tolist()
    assert lax.index_in_dim(x, 1, 1, keepdims=False).tolist() == x[:, 1].tolist()
    assert lax.dynamic_update_slice_in_dim(x, onp.zeros((3, 1)), 7, 1).tolist() == (x * [1, 1, 1, 0]).tolist()
    assert lax.dynamic_update_index_in_dim(x, onp.zeros(4), two, 0).tolist() == (x * [[1], [1], [0]]).tolist()
    assert lax.dynamic_update_index_in_dim(x, onp.zeros((3, 1)), 0, 1).tolist() == (x * [0, 1, 1, 1]).tolist()
    assert lax.index_take(x, ([0, 2], [3, 1]), (0, 1)).tolist() == [3, 9]
    assert lax.index_take(x, ([-1, 3],), (0,)).tolist() == x[[2, 0]].tolist()
    check_grads(lambda v, u: lax.dynamic_update_slice_in_dim(v**2, u**2, 1, 1), (x, x[:, :2]), order=2)
    assert lax.dynamic_update_slice(onp.zeros(3, "float32"), onp.ones(1), (0,)).dtype == onp.float32


def test_reading_element_by_element():
    """Cotangents of many reads are added into one buffer."""
    x = onp.arange(6.0)
    f = lambda v: sum((k + 1) * lax.dynamic_index_in_dim(v, k % 3, keepdims=False) for k in range(6))
    assert ng.grad(f)(x).tolist() == [5, 7, 9, 0, 0, 0]
    assert ng.hessian(lambda v: f(v * v))(x).tolist() == onp.diag([10.0, 14, 18, 0, 0, 0]).tolist()


# ----------------------------------------------------------------------------------------- x.at and NumPy


def test_updates():
    x, i = np.asarray([2.0, 3.0, 4.0]), onp.array([0, 0, 1])
    assert x.at[i].subtract(1.0).tolist() == [0, 2, 4]
    assert x.at[i].divide(2.0).tolist() == [0.5, 1.5, 4]
    assert x.at[i].power(2.0).tolist() == [16, 9, 4]
    assert x.at[i].apply(lambda v: v * v).tolist() == [16, 9, 4]
    assert x.at[1:].apply(np.negative).tolist() == [2, -3, -4]
    assert x.at[5].apply(np.negative, mode="drop").tolist() == [2, 3, 4]
    assert x.at[onp.array([5, -1])].multiply(2.0, mode="drop").tolist() == [2, 3, 8]
    assert x.at[onp.array([5, 5])].divide(2.0, mode=lax.GatherScatterMode.CLIP).tolist() == [2, 3, 1]
    assert x.at[onp.array([5, 4])].subtract(1.0, mode="wrap").tolist() == [2, 2, 3]
    assert x.at[onp.array([0, 5])].get(mode="fill", fill_value=-1.0).tolist() == [2, -1]
    assert x.at[i].add(1.0, indices_are_sorted=True, unique_indices=False).tolist() == [4, 4, 4]
    assert np.arange(4).at[1:].divide(2).tolist() == [0, 0.5, 1, 1.5]
    assert np.arange(4).at[onp.array([2, 2])].power(2).tolist() == [0, 1, 16, 3]


@pytest.mark.parametrize("name", ["set", "add", "subtract", "multiply", "divide", "power", "min", "max"])
@pytest.mark.parametrize("mode", ["clip", "wrap", "drop"])
def test_update_derivatives(name, mode):
    rng = onp.random.default_rng(3)
    x, u = rng.uniform(0.5, 1.5, (4, 2)), rng.uniform(0.5, 1.5, (4, 2))
    index = onp.array([1, 1, 6, -7])
    check_grads(lambda x, u: getattr(x.at[index], name)(u, mode=mode), (np.asarray(x), np.asarray(u)), order=2)
    check_grads(lambda x, u: getattr(x.at[index, 1], name)(u, mode=mode), (np.asarray(x), np.asarray(u[:, 0])), order=2)


def test_apply_is_differentiable():
    x = onp.array([0.3, 0.7, 1.1])
    check_grads(lambda v: v.at[onp.array([0, 0, 2])].apply(np.sin), (np.asarray(x),), order=3)


@quick
@given(seed=SEEDS)
def test_along_an_axis(seed):
    rng = onp.random.default_rng(seed)
    shape = [int(n) for n in rng.integers(1, 5, int(rng.integers(1, 4)))]
    k = int(rng.integers(0, len(shape)))
    n, shape_i = shape[k], list(shape)
    shape_i[k] = int(rng.integers(0, 6))
    index, x = rng.integers(-n, n, shape_i), rng.normal(size=shape)
    got, pull = ng.vjp(lambda v: np.take_along_axis(v, index, k), x)
    onp.testing.assert_array_equal(onp.asarray(got), onp.take_along_axis(x, index, k))
    new, back = x.copy(), onp.zeros(shape)
    ct, values = rng.integers(-3, 4, got.shape), rng.normal(size=got.shape)
    grid = [onp.arange(d).reshape([-1 if e == a else 1 for e in range(len(shape))]) for a, d in enumerate(shape_i)]
    grid[k] = index
    onp.add.at(back, tuple(grid), ct)
    onp.testing.assert_array_equal(onp.asarray(pull(ct.astype(float))[0]), back)
    onp.put_along_axis(new, index, values, k)
    f = lambda v, u: np.put_along_axis(v, index, u, k, inplace=False)
    onp.testing.assert_array_equal(onp.asarray(f(x, values)), new)
    inner_product_identity(f, (x, values))


def test_along_an_axis_out_of_range():
    x, far = onp.arange(6.0).reshape(2, 3), onp.array([[1, 5], [-1, -4]])
    take = lambda **options: np.take_along_axis(x, far, 1, **options)
    onp.testing.assert_array_equal(onp.asarray(take(mode="fill")), [[1, NAN], [5, NAN]])
    assert take(mode="fill", fill_value=9).tolist() == [[1, 9], [5, 9]]
    assert take(mode="clip").tolist() == [[1, 2], [5, 3]]
    assert take(mode="wrap").tolist() == [[1, 2], [5, 5]]
    assert np.put_along_axis(x, far, 9.0, 1, mode="drop").tolist() == [[0, 9, 2], [3, 4, 9]]
    assert np.put_along_axis(x, onp.array([7, 0]), [8.0, 9.0], None, mode="drop").tolist() == [[9, 1, 2], [3, 4, 5]]
    f = lambda v: np.where(onp.array([[1, 0], [1, 0]]) > 0, np.take_along_axis(v, far, 1, mode="fill"), 0.0)
    assert ng.grad(lambda v: np.sum(f(v)))(x).tolist() == [[0, 1, 0], [0, 0, 1]]
    # broadcast off the axis, both ways
    wide = onp.repeat(onp.arange(3), 10).reshape(30, 1)
    got = ng.grad(lambda v: np.sum(np.take_along_axis(v, wide, -1)))(x[:1])
    assert got.tolist() == [[10, 10, 10]]
    assert np.take_along_axis(x, onp.array([[2]]), 1).tolist() == [[2], [5]]


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_put_and_take(mode):
    rng = onp.random.default_rng(4)
    x, values = rng.normal(size=(3, 4)), [1.0, 2.0, 3.0]
    for _ in range(20):
        far = 12 if mode == "raise" else 30
        index, want = rng.integers(-far, far, 7), x.copy()
        onp.put(want, index, values, mode)
        onp.testing.assert_array_equal(onp.asarray(np.put(x, index, values, mode)), want)
        onp.testing.assert_array_equal(onp.asarray(np.take(x, index, mode=mode)), onp.take(x, index, mode=mode))
        index = rng.integers(-far // 3, far // 3, (2, 2))
        got = np.take(x, index, 1, mode=mode) if far > 12 or (abs(index) < 4).all() else None
        if got is not None:
            onp.testing.assert_array_equal(onp.asarray(got), onp.take(x, index, 1, mode=mode))
    check_grads(lambda x, v: np.put(x, onp.array([0, 5, 0]), v), (x, onp.array([1.0, 2.0])), order=2)


def test_masks():
    x = onp.random.default_rng(5).normal(size=(3, 4))
    mask, placed, masked = x > 0, x.copy(), x.copy()
    onp.place(placed, mask, [1.0, 2.0])
    onp.putmask(masked, mask, [1.0, 2.0, 3.0, 4.0, 5.0])
    onp.testing.assert_array_equal(onp.asarray(np.place(x, mask, [1.0, 2.0])), placed)
    onp.testing.assert_array_equal(onp.asarray(np.putmask(x, mask, [1.0, 2.0, 3.0, 4.0, 5.0])), masked)
    check_grads(lambda x, v: np.place(x, mask, v), (x, onp.array([1.0, 2.0])), order=2)
    check_grads(lambda x, v: np.putmask(x, mask, v), (x, onp.array([1.0, 2.0])), order=2)
    assert np.place(onp.arange(3), [True, False, True], [7]).tolist() == [7, 1, 7]


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "complex128"])
@pytest.mark.parametrize("index", ["int8", "uint8", "int32", "int64"])
def test_dtypes_of_picked_rows(dtype, index):
    x, i = (onp.arange(6).reshape(3, 2) % 4).astype(dtype), onp.array([2, 0, 2], index)
    for got, want in (
        (np.take(x, i, 0), x[i]),
        (np.asarray(x)[i], x[i]),
        (np.take_along_axis(x, i[:, None] % 2, 1), onp.take_along_axis(x, i[:, None] % 2, 1)),
        (np.asarray(x).at[i].set(x[:1]), onp.array([x[0], x[1], x[0]])),
    ):
        assert got.dtype == x.dtype
        onp.testing.assert_array_equal(onp.asarray(got), want)


def test_one_element_is_an_array():
    """No NumPy scalar: a value is a buffer."""
    place, x = np.asarray(2), np.arange(4.0)
    for got in (x[place], np.take(x, place), x.at[place].get(mode="clip"), lax.dynamic_index_in_dim(x, 2, 0, False)):
        assert type(got._value) is onp.ndarray and got.shape == () and got == 2
    for how in ("set", "add", "multiply", "min", "max"):
        got = getattr(x.at[place], how)(5.0)
        want = {"set": 5, "add": 7, "multiply": 10, "min": 2, "max": 5}[how]
        assert got.tolist() == [0, 1, want, 3]
    with pytest.raises(ValueError, match="does not fit"):
        x.at[onp.array([0, 1])].set(onp.ones(3))


def test_wide_scatters_refuse_as_narrow_ones():
    """Many columns are shared among threads: the error must come through."""
    x, bad = np.zeros((4, 700)), onp.arange(200) % 5
    with pytest.raises(IndexError, match="got 4 for an axis of length 4"):
        x.at[bad].add(onp.ones((200, 700)))
    with pytest.raises(IndexError, match="got 4"):
        np.take(x, bad, 0)
    got = x.at[bad].add(onp.ones((200, 700)), mode="drop")
    onp.testing.assert_array_equal(onp.asarray(got), onp.full((4, 700), 40.0))
    got = ng.ops.segment_sum(onp.ones((200, 700)), bad, 4)
    onp.testing.assert_array_equal(onp.asarray(got), onp.full((4, 700), 40.0))


PICKS = {
    "getitem": lambda v, i: v[i],
    "get": lambda v, i: v.at[i].get(mode="clip"),
    "take": lambda v, i: np.take(v, i),
    "take_along_axis": lambda v, i: np.take_along_axis(v, i, 0),
    "put_along_axis": lambda v, i: np.put_along_axis(onp.zeros(5), i, v[:2], 0),
    "put": lambda v, i: np.put(onp.zeros(5), i, v[:2]),
    "add": lambda v, i: np.zeros(5).at[i].add(v[:2]),
    "multiply": lambda v, i: v.at[i].multiply(v[:2]),
    "index_add": lambda v, i: ng.ops.index_add(onp.zeros(5), 0, i, v[:2]),
    "gather": lambda v, i: lax.gather(v, i[:, None], lax.GatherDimensionNumbers((), (0,), (0,)), (1,)),
    "dynamic_slice": lambda v, i: lax.dynamic_slice(v, i[:1], (2,)),
} | {
    f"segment_{name}": lambda v, i, name=name: getattr(ng.ops, f"segment_{name}")(v[:2], i, 5)
    for name in ("sum", "max", "prod", "mean", "softmax", "logsumexp")
}


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", list(PICKS))
def test_indices_may_be_overwritten(name, dtype):
    """The caller's index array is not what waits on the tape."""
    x, index = onp.arange(1.0, 6.0), onp.array([1, 3], dtype)
    out, pull = ng.vjp(lambda v: PICKS[name](v, index), x)
    ct = onp.arange(1.0, out.size + 1)
    want = onp.array(pull(ct)[0])
    out, pull = ng.vjp(lambda v: PICKS[name](v, index), x)
    index[...] = 0
    onp.testing.assert_array_equal(onp.asarray(pull(ct)[0]), want)


# --------------------------------------------------------------------------------- dtypes of updates, large indices

HUGE = onp.array([2**64 - 1], onp.uint64)
POINTS = lax.ScatterDimensionNumbers((), (0,), (0,))


def test_division_and_power_touch_the_part_alone():
    x = np.asarray([4, 4, 9])
    for got, want in (
        (x.at[2].divide(2.5), [4, 4, 3.6]),
        (x.at[2].power(0.5), [4, 4, 3]),
        (x.astype("int8").at[onp.array([0, 0])].divide(200), [1e-4, 4, 9]),
        (x.at[7].divide(2.5, mode="drop"), [4, 4, 9]),
    ):
        assert got.dtype == onp.float64
        onp.testing.assert_allclose(onp.asarray(got), want)
    z = onp.array([1 + 2j, 0.1 + 0.7j, onp.inf + 1j, NAN])
    for name in ("divide", "power"):
        got = onp.asarray(getattr(np.asarray(z).at[0], name)(3.0))
        assert got[1:].tobytes() == z[1:].tobytes()
    onp.testing.assert_allclose(onp.asarray(np.asarray(z).at[0].power(2))[0], z[0] ** 2)


@pytest.mark.parametrize("name", ["divide", "power", "multiply", "add"])
@pytest.mark.parametrize("by", [2.0, onp.float64(2), onp.array([2.0])])
def test_updates_keep_float32(name, by):
    x = onp.array([3, 5], onp.float32)
    want = {"divide": [1.5, 5], "power": [9, 5], "multiply": [6, 5], "add": [5, 5]}[name]
    for key in (slice(0, 1), onp.array([0])):
        got = getattr(np.asarray(x).at[key], name)(by)
        assert got.dtype == onp.float32 and got.tolist() == want


@pytest.mark.parametrize("how", ["set", "add", "subtract", "multiply", "divide", "power", "min", "max"])
def test_updates_lose_nothing_silently(how):
    for key in (0, onp.array([0])):
        for x in (np.ones(2), np.ones(2, int)):
            with pytest.raises(TypeError, match=r"the imaginary part would be lost: got .*; needed a real update"):
                getattr(x.at[key], how)(1j)
        if how in ("add", "subtract", "multiply", "min", "max"):
            with pytest.raises(TypeError, match="would be lost: got int64, float64; needed integers"):
                getattr(np.ones(2, int).at[key], how)(2.5)


LOSSES = [
    lambda: lax.scatter_add(X, onp.array([[0]]), onp.array([1j]), POINTS),
    lambda: lax.scatter(X, onp.array([[0]]), onp.array([1j]), POINTS),
    lambda: lax.scatter_add(onp.ones(3, int), onp.array([[0]]), onp.array([1.5]), POINTS),
    lambda: lax.dynamic_update_slice(X, onp.array([1j]), (0,)),
    lambda: ng.ops.index_add(onp.zeros(3, int), 0, [0], onp.ones(1, int), 0.5),
    lambda: ng.ops.index_add(onp.zeros(3, int), 0, [0], onp.ones(1)),
    lambda: ng.ops.index_add(onp.zeros(3), 0, [0], onp.ones(1) * 1j),
    lambda: ng.ops.index_add(onp.zeros(3), 0, [0], onp.ones(1), 1j),
]


@pytest.mark.parametrize("number", range(len(LOSSES)))
def test_scatters_lose_nothing_silently(number):
    with pytest.raises(TypeError, match=r"would be lost: got .*; needed"):
        LOSSES[number]()


def test_unsigned_indices_stay_large():
    x, last = np.arange(3.0), [0, 0, 1]
    assert x.at[HUGE].get(mode="clip").tolist() == np.take(x, HUGE, mode="clip").tolist() == [2]
    pair = np.arange(10.0).reshape(2, 5)
    for n in (5, 7):
        row, want = np.arange(float(n)), [(2**64 - 1) % n]
        assert row.at[HUGE].get(mode="wrap").tolist() == np.take(row, HUGE, mode="wrap").tolist() == want
        assert np.take_along_axis(row, HUGE, 0, mode="wrap").tolist() == want
        assert np.put(row * 0, HUGE, 1.0, mode="wrap").tolist() == [float(k in want) for k in range(n)]
    assert pair.at[HUGE, HUGE].get(mode="wrap").tolist() == [5.0 * ((2**64 - 1) % 2) + (2**64 - 1) % 5]
    assert pair.at[2**64 - 1, 2**64 - 1].get(mode="clip") == 9
    assert onp.isnan(x.at[HUGE].get(mode="fill")).all()
    assert x.at[HUGE].add(1.0, mode="drop").tolist() == [0, 1, 2]
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    assert lax.gather(x, HUGE[None], numbers, (1,), mode="clip").tolist() == [2]
    assert lax.scatter_add(x * 0, HUGE[None], onp.ones(1), POINTS, mode="clip").tolist() == last
    assert lax.dynamic_slice(x, HUGE, (2,)).tolist() == [1, 2]
    assert lax.dynamic_slice(x, (HUGE[0],), (2,)).tolist() == [1, 2]
    for call in (lambda: x[HUGE], lambda: np.take(x, HUGE), lambda: x[HUGE, None]):
        with pytest.raises(IndexError, match="out of range"):
            call()


def test_index_take_of_narrow_indices():
    x = onp.arange(300.0)
    assert lax.index_take(x, (onp.array([5, -1], onp.int8),), (0,)).tolist() == [5, 299]
    assert lax.index_take(x, (HUGE,), (0,)).tolist() == [(2**64 - 1) % 300]
    with pytest.raises(TypeError, match="integers"):
        lax.index_take(x, (onp.array([0.5]),), (0,))


NUMBERS = [
    (((1, 1), (), (0,)), "repeated: got \\(1, 1\\)"),
    (((1, 7), (), (0,)), "out of range: got \\(1, 7\\); needed 0 to 2"),
    (((1,), (0, 0), (0,)), "repeated"),
    (((1,), (2,), (0,)), "out of range"),
    (((1, 2), (), (0, 0)), "repeated: got \\(0, 0\\)"),
]


@pytest.mark.parametrize("numbers, text", NUMBERS)
def test_dimension_numbers_that_fit_nothing(numbers, text):
    index = onp.zeros((1, len(numbers[2])), int)
    with pytest.raises(ValueError, match=f"gather: .*{text}"):
        lax.gather(onp.ones((3, 3)), index, lax.GatherDimensionNumbers(*numbers), (1, 1))
    with pytest.raises(ValueError, match=f"scatter_add: .*{text}"):
        updates = onp.ones((1,) * (1 + len(numbers[0])))
        lax.scatter_add(onp.ones((3, 3)), index, updates, lax.ScatterDimensionNumbers(*numbers))


def test_a_number_is_no_sequence():
    for call in (
        lambda: lax.dynamic_slice(onp.ones(3), 2, (2,)),
        lambda: lax.dynamic_slice(onp.ones(3), (2,), 2),
        lambda: lax.dynamic_slice(onp.ones(3), (2,), (2.0,)),
        lambda: lax.dynamic_update_slice(onp.ones(3), onp.ones(1), 1),
    ):
        with pytest.raises(TypeError, match=r"dynamic_.*slice: .*got .*; needed .* per axis"):
            call()
