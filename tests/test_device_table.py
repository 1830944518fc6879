"""The public functions with arrays on the emulated device: the CPU's results, and nothing leaves the device."""

from __future__ import annotations

import numpy as onp
import pytest
from cuda_emulated import DEVICE

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import lax, nn, ops, optim, random
from numbagrad.core.array import Array
from numbagrad.core.tree import tree_leaves
from numbagrad.scipy import signal, special, stats
from numbagrad.testing import tolerance

RNG = onp.random.default_rng(11)
X = RNG.uniform(0.2, 0.9, (3, 4))
Y = RNG.uniform(0.2, 0.9, (3, 4))
V = RNG.uniform(0.2, 0.9, 4)
M = RNG.uniform(0.2, 0.9, (4, 4))
N = onp.array([[1, 0, 2, 2], [0, 3, 1, 2], [2, 2, 0, 1]])
I = onp.array([2, 0, 1, 1])
B = X > 0.5
GAPS = onp.where(B, X, onp.nan)
IMAGE = RNG.uniform(-1, 1, (1, 5, 5, 2))
NHWC = ("NHWC", "HWIO", "NHWC")
KERNEL = RNG.uniform(-1, 1, (3, 3, 2, 2))
DIMS = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
SDIMS = lax.ScatterDimensionNumbers((1,), (0,), (0,))
KEY = onp.array([3, 7], onp.uint32)

ONE = "abs angle ceil conj cbrt deg2rad exp expm1 fabs floor isfinite imag log log1p nan_to_num negative rint round "
ONE += "sign sin sinc sqrt square tanh trunc sum prod max min mean var std ptp any all argmax argmin count_nonzero "
ONE += "nansum nanmax nanmean nanstd nanprod nanargmin cumsum cumprod nancumsum ravel transpose flip fliplr rot90 "
ONE += "atleast_3d squeeze sort argsort median nanmedian diff ediff1d gradient trapezoid unwrap cov corrcoef "
ONE += "tril triu diag trace diagonal zeros_like ones_like nonzero argwhere flatnonzero unique copy isreal"
ONE += " linalg.norm"
TWO = "add subtract multiply divide power maximum fmin arctan2 hypot logaddexp floor_divide remainder equal less "
TWO += "logical_and dot inner outer kron vdot vecdot isclose array_equal copysign heaviside ldexp "
TWO += "float_power divmod"


def _named(words):
    for word in words.split():
        name = word.rpartition(":")[2]
        function = np
        for part in name.split("."):
            function = getattr(function, part)
        yield f"numpy.{name}", function


CASES = [(n, f, [X]) for n, f in _named(ONE)]
CASES += [(n, f, [X, X.T.copy() if n.endswith(".dot") else Y]) for n, f in _named(TWO)]


def case(name, function, *args):
    CASES.append((name, function, list(args)))


# numpy: options and what needs arguments of its own
case("numpy.sum axis where", lambda x, m: np.sum(x, 0, where=m), X, B)
case("numpy.mean where", lambda x, m: np.mean(x, 1, where=m), X, B)
case("numpy.max initial", lambda x: np.max(x, 1, initial=0.5), X)
case("numpy.average", lambda x, w: np.average(x, 1, w), X, V)
case("numpy.nanmax gaps", lambda x: np.nanmax(x, 0), GAPS)
case("numpy.nanvar gaps", lambda x: np.nanvar(x), GAPS)
case("numpy.nanquantile", lambda x: np.nanquantile(x, [0.2, 0.6]), GAPS)
case("numpy.quantile", lambda x, q: np.quantile(x, q, 1), X, onp.array([0.1, 0.75]))
case("numpy.percentile", lambda x: np.percentile(x, [10, 60], method="nearest"), X)
case("numpy.quantile weights", lambda x, w: np.quantile(x, 0.4, 1, method="inverted_cdf", weights=w), X, V)
case("numpy.where", np.where, B, X, Y)
case("numpy.where scalar", lambda m: np.where(m, 1.0, 2.0), B)
case("numpy.where indices", lambda x: np.where(x > 0.5), X)
case("numpy.clip", lambda x: np.clip(x, 0.3, 0.6), X)
case("numpy.power int", lambda n: n**n, N)
case("numpy.complex", lambda x, y: np.abs(np.exp(x + 1j * y)), X, Y)
case("numpy.reshape", lambda x: x.reshape(2, -1) * 2.0, X)
case("numpy.swapaxes", lambda x: np.swapaxes(x, 0, 1).copy(), X)
case("numpy.concatenate", lambda x, y: np.concatenate([x, y], 1), X, Y)
case("numpy.concatenate mixed", lambda x: np.concatenate([x, onp.ones((1, 4)), [[1, 2, 3, 4]]]), X)
case("numpy.stack", lambda x, y: np.stack([x, y], 1), X, Y)
case("numpy.vstack", lambda x, y: np.vstack([x, y, V]), X, Y)
case("numpy.hstack", lambda x, y: np.hstack([x, y]), X, Y)
case("numpy.dstack", lambda x: np.dstack([x, Y]), X)
case("numpy.column_stack", lambda v: np.column_stack([v, onp.arange(4.0)]), V)
case("numpy.split", lambda x: np.split(x, 2, 1), X)
case("numpy.array_split", lambda x: np.array_split(x, [1, 2]), X)
case("numpy.repeat", lambda x: np.repeat(x, 2, 0), X)
case("numpy.tile", lambda x: np.tile(x, (2, 1)), X)
case("numpy.roll", lambda x: np.roll(x, 1, 1), X)
case("numpy.pad", lambda x: np.pad(x, 1, constant_values=2.0), X)
case("numpy.pad reflect", lambda x: np.pad(x, 1, mode="reflect"), X)
case("numpy.insert", lambda x: np.insert(x, 1, [5.0, 6.0, 7.0], 1), X)
case("numpy.delete", lambda x: np.delete(x, 1, 1), X)
case("numpy.append", lambda x: np.append(x, [1.0, 2.0]), X)
case("numpy.resize", lambda x: np.resize(x, (5, 3)), X)
case("numpy.trim_zeros", lambda x: np.trim_zeros(x), onp.array([0.0, 1.0, 2.0, 0.0]))
case("numpy.broadcast_arrays", lambda x, v: np.broadcast_arrays(x, v), X, V)
case("numpy.meshgrid", lambda v: np.meshgrid(v, v), V)
case("numpy.take", lambda x, i: np.take(x, i, 1), X, I)
case("numpy.take fill", lambda x, i: np.take(x, i, 0, mode="fill", fill_value=7.0), X, I)
case("numpy.take_along_axis", lambda x, i: np.take_along_axis(x, i, 1), X, N)
case("numpy.take_along_axis fill", lambda x, i: np.take_along_axis(x, i, 1, mode="fill"), X, N + 1)
case("numpy.put_along_axis", lambda x, i: np.put_along_axis(x, i, 9.0, 1), X, N[:, :2])
case("numpy.put", lambda x, i: np.put(x, i, [1.0, 2.0]), X, I)
case("numpy.place", lambda x, m: np.place(x, m, [1.0, 2.0]), X, B)
case("numpy.putmask", lambda x, m, y: np.putmask(x, m, y), X, B, Y)
case("numpy.compress", lambda x: np.compress([True, False, True, True], x, 1), X)
case("numpy.extract", np.extract, B, X)
case("numpy.select", lambda m, x, y: np.select([m, x > 0.3], [x, y], 5.0), B, X, Y)
case("numpy.choose", lambda i, v: np.choose(i, [v, 2 * v, 3 * v]), I, V)
case("numpy.piecewise", lambda x: np.piecewise(x, [x < 0.5], [np.sin, 2.0]), X)
case("numpy.isin", lambda n: np.isin(n, [0, 2]), N)
case("numpy.unravel_index", lambda i: np.unravel_index(i, (2, 3)), I)
case("numpy.ravel_multi_index", lambda i: np.ravel_multi_index((i, i), (3, 3)), I)
case("numpy.ix_", lambda i: np.ix_(i, i), I)
case("numpy.searchsorted", lambda v, x: np.searchsorted(v, x), onp.sort(V), X)
case("numpy.digitize", lambda x: np.digitize(x, [0.3, 0.5, 0.8]), X)
case("numpy.lexsort", lambda i, v: np.lexsort((v, i)), I, V)
case("numpy.partition", lambda x: np.sort(np.partition(x, 1, 1)[:, :2]), X)
case("numpy.unique all", lambda n: np.unique(n, True, True, True), N)
case("numpy.unique size", lambda n: np.unique(n, return_counts=True, size=6), N)
case("numpy.bincount", lambda i: np.bincount(i, minlength=5), I)
case("numpy.bincount weights", lambda w, i: np.bincount(i, w), V, I)
case("numpy.histogram", lambda x: np.histogram(x, 5), X)
case("numpy.histogram weights", lambda w, x: np.histogram(x, [0.0, 0.4, 1.0], weights=w, density=True), Y, X)
case("numpy.histogram2d", lambda x, y: np.histogram2d(x, y, 3), X.ravel(), Y.ravel())
case("numpy.interp", lambda x, p, f: np.interp(x, p, f), X, onp.sort(V), V)
case("numpy.interp period", lambda x, p, f: np.interp(x, p, f, period=0.7), X, V, V[::-1].copy())
case("numpy.polyval", lambda p, x: np.polyval(p, x), V, X)
case("numpy.diff prepend", lambda x: np.diff(x, prepend=0.0, append=onp.ones((3, 1))), X)
case("numpy.trapezoid x", lambda y, x: np.trapezoid(y, x), X, onp.sort(V))
case("numpy.apply_along_axis", lambda x: np.apply_along_axis(np.sum, 1, x), X)
case("numpy.convolve", np.convolve, V, V[:2].copy())
case("numpy.correlate", lambda v: np.correlate(v, [1.0, 2.0], "full"), V)
case("numpy.matmul", lambda x, m: x @ m, X, M)
case("numpy.einsum", lambda x, m: np.einsum("ij,jk->ki", x, m), X, M)
case("numpy.tensordot", lambda x, y: np.tensordot(x, y, ([1], [1])), X, Y)
case("numpy.cross", lambda x: np.cross(x, [1.0, 2.0, 3.0]), X[:, :3].copy())
case("numpy.linalg.multi_dot", lambda x, m, v: np.linalg.multi_dot([x, m, v]), X, M, V)
case("numpy.linalg.matrix_power", lambda m: np.linalg.matrix_power(m, 3), M)
case("numpy.linalg.matrix_power 0", lambda m: np.linalg.matrix_power(m, 0), M)
case("numpy.linspace", lambda a: np.linspace(a, [2.0, 3.0], 4), onp.array(1.0))
case("numpy.logspace", lambda a: np.logspace(a, 1.0, 4), onp.array(0.5))
case("numpy.full_like", lambda x, a: np.full_like(x, a), X, onp.array(0.5))
case("numpy.vander", lambda v: np.vander(v, 3), V)
case("numpy.cumulative_sum", lambda x: np.cumulative_sum(x, axis=1, include_initial=True), X)
case("numpy.ufunc.accumulate", lambda x: onp.add.accumulate(x, 1), X)
case("numpy.ufunc.outer", lambda v: onp.multiply.outer(v, v), V)
case("numpy.function", lambda x, y: onp.concatenate([x, y]), X, Y)

# indexing and updates
case("x[slice]", lambda x: x[1:, ::-2] * 1.0, X)
case("x[int array]", lambda x, i: x[i[:3] * 0 + 1], X, I)
case("x[arrays]", lambda x, i: x[i, i], X[:, :3].copy(), I)
case("x[array, slice]", lambda x, i: x[1:, i], X, I)
case("x[mask]", lambda x, m: x[m], X, B)
case("x[list]", lambda x: x[[0, -1], [1, -2]], X)
case("x[i] = v", lambda x, v: _assigned(x, (slice(None), 1), v), X, V[:3].copy())
case("x[arrays] = v", lambda x, i: _assigned(x, (i, i), 2.0), X[:, :3].copy(), I)
case("x[mask] = v", lambda x, m: _assigned(x, m, 2.0), X, B)
case("x.at.set", lambda x, i: x.at[i].set(1.5), X, I)
case("x.at.add", lambda x, i, v: x.at[:, i].add(v), X[:, :3].copy(), I, V)
case("x.at.subtract", lambda x, i: x.at[i].subtract([1.0, 2.0, 3.0, 4.0]), X, I)
case("x.at.multiply", lambda x, i: x.at[i].multiply(3.0), X, I)
case("x.at.divide", lambda x, i: x.at[i].divide(3.0), X, I)
case("x.at.max", lambda x, i: x.at[i].max(0.5), X, I)
case("x.at.get fill", lambda x, i: x.at[i + 1].get(mode="fill", fill_value=3.0), X, I)
case("x.at.get wrap", lambda x, i: x.at[i + 1, i + 1].get(mode="wrap"), X[:, :3].copy(), I)
case("x.at.get clip", lambda x, i: x.at[i + 1, i - 9].get(mode="clip"), X[:, :3].copy(), I)
case("x.at.add drop", lambda x, i: x.at[i + 1, i].add(1.0, mode="drop"), X[:, :3].copy(), I)
case("x.at.apply", lambda x, i: x.at[i].apply(np.sin), X, I)
case("x += 1", lambda x: _grown(x), X)
case("x.sort()", lambda x: _sorted(x), X)
case("iter(x)", lambda x: list(x), X)


def _assigned(x, key, new):
    x = x.copy()
    x[key] = new
    return x


def _grown(x):
    x = x.copy()
    x += 1
    x *= x
    return x


def _sorted(x):
    x = x.copy()
    x.sort()
    return x


# lax
case("lax.select", lambda m, x, y: lax.select(m, x, y), B, X, Y)
case("lax.select_n", lambda n, x, y: lax.select_n(n, x, y, 2 * x), N, X, Y)
case("lax.clamp", lambda x: lax.clamp(0.3, x, 0.6), X)
case("lax.integer_pow", lambda x: lax.integer_pow(x, 3), X)
case("lax.integer_pow 0", lambda x: lax.integer_pow(x, 0), X)
case("lax.polygamma", lambda x: lax.polygamma(1, x), X)
case("lax.complex", lambda x, y: lax.abs(lax.complex(x, y)), X, Y)
case("lax.round", lambda x: lax.round(10 * x), X)
case("lax.shift_right_logical", lambda n: lax.shift_right_logical(-n, n), N)
case("lax.convert_element_type", lambda x: lax.convert_element_type(x, "float32"), X)
case("lax.broadcast_in_dim", lambda v: lax.broadcast_in_dim(v, (4, 2), (0,)) * 1.0, V)
case("lax.slice", lambda x: lax.slice(x, (0, 1), (2, 4), (1, 2)) * 1.0, X)
case("lax.pad", lambda x: lax.pad(x, 2.0, [(1, 0, 1), (-1, 2, 0)]), X)
case("lax.dot_general", lambda x, y: lax.dot_general(x, y, (((1,), (1,)), ((0,), (0,)))), X, Y)
case("lax.dot", lambda x: lax.dot(x, V), X)
case("lax.dynamic_slice", lambda x, i: lax.dynamic_slice(x, (i[0], i[1]), (1, 2)), X, I)
case("lax.dynamic_slice ints", lambda x: lax.dynamic_slice(x, (1, -1), (1, 2)), X)
case("lax.dynamic_update_slice", lambda x, i: lax.dynamic_update_slice(x, [[1.0, 2.0]], i[:2]), X, I)
case("lax.dynamic_index_in_dim", lambda x, i: lax.dynamic_index_in_dim(x, i[0], 1), X, I)
case("lax.index_take", lambda x, i: lax.index_take(x, (i, i), (0, 1)), X, I)
case("lax.gather", lambda x, i: lax.gather(x, i[:, None], DIMS, (1, 4)), X, I)
case("lax.scatter_add", lambda x, i: lax.scatter_add(x, i[:, None], onp.ones((4, 4)), SDIMS), X, I)
case("lax.sort", lambda x, y: lax.sort((x, y), num_keys=1), X, Y)
case("lax.top_k", lambda x: lax.top_k(x, 2), X)
case("lax.cummax", lambda x: lax.cummax(x, 1), X)
case("lax.cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), X)
case("lax.linear_recurrence", lambda x: lax.linear_recurrence(0.5, x, 1), X)
case("lax.reduce_window", lambda x: lax.reduce_window(x, -onp.inf, lax.max, (2, 2)), X)
case("lax.reduce_window any", lambda x: lax.reduce_window(x, 1.0, lambda a, b: a * b, (2, 2), padding="SAME"), X)
case("lax.select_and_scatter", lambda x, y: _scattered(x, y), X, Y[:, :2].copy())
case("lax.select_and_gather_add", lambda x, y: _gathered(x, y), X, Y)
case("lax.conv", lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=NHWC), IMAGE, KERNEL)
case("lax.conv_transpose", lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), IMAGE[:, :2, :2].copy(), KERNEL)
case("lax.patches", lambda x: _patches(x), IMAGE)
case("lax.stop_gradient", lambda x: lax.stop_gradient(x) * x, X)


def _scattered(x, y):
    return lax.select_and_scatter(x, lax.ge, (1, 2), (1, 2), "VALID", y, 0.0, lax.add)


def _gathered(x, y):
    return lax.select_and_gather_add(y, x, lambda a, b: a >= b, (2, 2), (1, 1), "VALID")


def _patches(x):
    return lax.conv_general_dilated_patches(x, (2, 2), (1, 1), "VALID", dimension_numbers=NHWC)


# nn, ops
case("nn.relu", nn.relu, X - 0.5)
case("nn.gelu", nn.gelu, X - 0.5)
case("nn.glu", nn.glu, X)
case("nn.softmax", nn.softmax, X)
case("nn.softmax where", lambda x, m: nn.softmax(x, where=m), X, B)
case("nn.log_softmax", nn.log_softmax, X)
case("nn.logsumexp b", lambda x: nn.logsumexp(x, 1, b=Y, return_sign=True), X)
case("nn.logmeanexp", lambda x, m: nn.logmeanexp(x, 1, where=m), X, B)
case("nn.standardize", lambda x, m: nn.standardize(x, where=m), X, B)
case("nn.layer_norm", lambda x, v: nn.layer_norm(x, v, V), X, V)
case("nn.rms_norm", nn.rms_norm, X)
case("nn.batch_norm", lambda x, v: nn.batch_norm(x, v), X, V)
case("nn.batch_norm given", lambda x: nn.batch_norm(x, mean=V, variance=onp.ones(4)), X)
case("nn.one_hot", lambda i: nn.one_hot(i, 3), I)
case("nn.cross_entropy", lambda x, y: nn.softmax_cross_entropy(x, y), X, Y)
case("nn.cross_entropy labels", lambda x, i: nn.softmax_cross_entropy_with_integer_labels(x, i[:3]), X, I)
case("nn.binary_cross_entropy", lambda x: nn.sigmoid_binary_cross_entropy(x, 1.0), X)
case("nn.huber_loss", nn.huber_loss, X, Y)
case("nn.dropout", lambda x, k: nn.dropout(k, x, 0.4), X, KEY)
case("nn.max_pool", lambda x: nn.max_pool(x, (2, 2), (2, 2), "SAME"), IMAGE)
case("nn.avg_pool", lambda x: nn.avg_pool(x, (2, 2), padding="SAME", count_include_pad=False), IMAGE)
case("nn.lp_pool", lambda x: nn.lp_pool(x, 2, (2, 2)), IMAGE)
case("nn.adaptive_avg_pool", lambda x: nn.adaptive_avg_pool(x, 3), IMAGE)
case("nn.adaptive_max_pool", lambda x: nn.adaptive_max_pool(x, 3), IMAGE)
case("nn.global_avg_pool", nn.global_avg_pool, IMAGE)
case("ops.segment_sum", lambda v, i: ops.segment_sum(v, i, 4), V, I)
case("ops.segment_sum counted", lambda v, i: ops.segment_sum(v, i), V, I)
case("ops.segment_prod", lambda v, i: ops.segment_prod(v, i, 4), V, I)
case("ops.segment_max", lambda v, i: ops.segment_max(v, i, 3), V, I)
case("ops.segment_mean", lambda v, i: ops.segment_mean(v, i, 3), V, I)
case("ops.segment_mean lengths", lambda v: ops.segment_mean(v, lengths=[1, 3]), V)
case("ops.segment_softmax", lambda v, i: ops.segment_softmax(v, i, 3), V, I)
case("ops.segment_logsumexp", lambda v, i: ops.segment_logsumexp(v, i, 3), V, I)
case("ops.index_add", lambda x, i: ops.index_add(x, 0, i, onp.ones((4, 4)), alpha=2), X, I)

# optim, random, scipy
case("optim.sgd", lambda x, g: optim.sgd(0.1, 0.9).update(g, optim.sgd(0.1, 0.9).init(x), x)[0], X, Y)
case("optim.adam", lambda x, g: optim.adam(0.1).update(g, optim.adam(0.1).init(x), x)[0], X, Y)
case("optim.apply_updates", lambda x, y: optim.apply_updates({"a": x}, {"a": y}), X, Y)
case("optim.clip_by_global_norm", lambda x, y: optim.clip_by_global_norm([x, y], 0.5), X, Y)
for f in (random.normal, random.uniform, random.exponential, random.laplace, random.cauchy, random.bits):
    case(f"random.{f.__name__}", lambda k, f=f: f(k, (5,)), KEY)
case("random.split", lambda k: random.split(k, 3), KEY)
case("random.fold_in", lambda k: random.fold_in(k, 3), KEY)
case("random.normal complex", lambda k: random.normal(k, (5,), "complex64"), KEY)
case("random.truncated_normal", lambda k: random.truncated_normal(k, -1.0, [0.5, 1.0], (3, 2)), KEY)
case("random.pareto", lambda b, k: random.pareto(k, b), V, KEY)
case("random.randint", lambda k: random.randint(k, (5,), 0, [1, 2, 3, 4, 5]), KEY)
case("random.randint wide", lambda k: random.randint(k, (5,), 0, 2**40), KEY)
case("random.bernoulli", lambda k, p: random.bernoulli(k, p), KEY, V)
case("random.rademacher", lambda k: random.rademacher(k, (5,)), KEY)
case("random.permutation", lambda x, k: random.permutation(k, x), V, KEY)
case("random.permutation independent", lambda x, k: random.permutation(k, x, 1, independent=True), X, KEY)
case("random.choice", lambda x, k: random.choice(k, x, (6,)), V, KEY)
case("random.choice p", lambda k: random.choice(k, 4, (6,), p=[0.1, 0.2, 0.3, 0.4]), KEY)
case("random.choice p once", lambda k: random.choice(k, 4, (3,), False, p=[0.1, 0.2, 0.3, 0.4]), KEY)
case("random.categorical", lambda k, x: random.categorical(k, x), KEY, X)
case("random.gamma", lambda k, a: random.gamma(k, a), KEY, V + 1)
case("random.beta", lambda k: random.beta(k, 2.0, [3.0, 0.5]), KEY)
case("random.dirichlet", lambda k, v: random.dirichlet(k, v), KEY, V)
case("random.t", lambda k: random.t(k, [3.0, 4.0]), KEY)
case("random.chisquare", lambda k: random.chisquare(k, [3.0, 4.0]), KEY)
case("random.poisson", lambda k, v: random.poisson(k, 9 * v), KEY, V)
case("nn.initializers.he_normal", lambda k: nn.initializers.he_normal()(k, (3, 4)), KEY)
case("nn.initializers.orthogonal", lambda k: nn.initializers.orthogonal()(k, (3, 4)), KEY)
case("nn.initializers.zeros", lambda k: nn.initializers.zeros(k, (3, 4)), KEY)
case("scipy.special.gammaln", special.gammaln, X)
case("scipy.special.logit", special.logit, X)
case("scipy.special.multigammaln", lambda x: special.multigammaln(x + 3, 2), X)
case("scipy.special.softmax", special.softmax, X)
case("scipy.special.xlogy", special.xlogy, X, Y)
case("scipy.stats.norm.logpdf", lambda x: stats.norm.logpdf(x, 0.5, scale=V), X)
case("scipy.stats.gamma.logpdf", lambda x, a: stats.gamma.logpdf(x, a), X, V)
case("scipy.signal.convolve", lambda x: signal.convolve(x, [[1.0, 2.0]]), X)
case("scipy.signal.correlate2d", lambda x, y: signal.correlate2d(x, y[:2, :2], "same", "wrap"), X, Y)
case("scipy.signal.convolve empty", lambda x: signal.convolve(x[:0], x), X)

LABELS = {"numpy.deg2rad": 8}  # times the tolerance


def put(x):
    return ng.device_put(x, DEVICE)


def leaves(found):
    return [x for x in tree_leaves(found) if isinstance(x, Array)]


def compare(got, want, name):
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.device == DEVICE, f"{name}: a result on {g.device}"
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        onp.testing.assert_allclose(onp.asarray(g), onp.asarray(w), **tolerance(w.dtype, LABELS.get(name, 2)))


IDS = [name for name, _, _ in CASES]


@pytest.mark.parametrize(("name", "function", "args"), CASES, ids=IDS)
def test_function(name, function, args):
    want = leaves(function(*map(np.asarray, args)))
    got = leaves(function(*map(put, args)))
    compare(got, want, name)


def _differentiable(function, args):
    if args[0].dtype.kind != "f":
        return False
    outs = leaves(function(*map(np.asarray, args)))
    return any(o.dtype.kind == "f" for o in outs)


@pytest.mark.parametrize(("name", "function", "args"), CASES, ids=IDS)
def test_gradient(name, function, args):
    """Of a weighted sum of the first real output, in the first operand."""
    if not _differentiable(function, args):
        return

    def loss(x, *rest):
        out = next(o for o in leaves(function(x, *rest)) if o.dtype.kind == "f")
        return np.sum(out * onp.linspace(0.5, 1.5, out.size).reshape(out.shape))

    try:
        want = ng.grad(loss)(*map(np.asarray, args))
    except ng.TracerConversionError:
        return
    got = ng.grad(loss)(*map(put, args))
    compare([got], [want], name)


# operands that do not meet, or have no derivative and so are moved
APART = ["numpy.broadcast_arrays", "numpy.quantile", "numpy.quantile weights", "x[i] = v"]
APART += ["random.gamma", "random.poisson", "random.dirichlet", "optim.sgd", "optim.adam"]

SEVERAL = [c for c in CASES if len(c[2]) > 1]


@pytest.mark.parametrize(("name", "function", "args"), SEVERAL, ids=[c[0] for c in SEVERAL])
def test_host_data_goes_where_arrays_are(name, function, args):
    """One operand on the device, the others NumPy's, in every place."""
    want = leaves(function(*map(np.asarray, args)))
    for k in range(len(args)):
        if name == APART[0] or (
            k and (args[k].dtype.kind in "biu" or name in APART)
        ):  # an index on a device needs its array there
            continue
        try:
            got = leaves(function(*(put(a) if j == k else a for j, a in enumerate(args))))
        except (TypeError, AttributeError):  # the case uses methods that NumPy's arrays lack
            assert k
            continue
        compare(got, want, name)


@pytest.mark.parametrize(("name", "function", "args"), SEVERAL, ids=[c[0] for c in SEVERAL])
def test_arrays_on_different_devices(name, function, args):
    """Numbers are refused; indices, masks, labels and keys of the CPU are taken."""
    want = leaves(function(*map(np.asarray, args)))
    for k in range(1, len(args)):
        mixed = [np.asarray(a) if j == k else put(a) for j, a in enumerate(args)]
        if args[k].dtype.kind in "biu":
            compare(leaves(function(*mixed)), want, name)
        elif args[k].ndim and name not in APART:
            with pytest.raises(ng.DeviceError, match=f"got .*{DEVICE}.*Move one with device_put"):
                function(*mixed)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "function", "args"), CASES, ids=IDS)
def test_new_arrays_on_the_default_device(name, function, args):
    """NumPy's arrays alone."""
    want = leaves(function(*map(np.asarray, args)))
    with ng.default_device(DEVICE):
        try:
            got = leaves(function(*args))
        except (TypeError, AttributeError):  # the case uses methods that NumPy's arrays lack
            return
    if got:
        compare(got, want, name)
