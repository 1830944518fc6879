"""Gathers, scatters, segments and moving slices on the emulated CUDA device, against the CPU's kernels.

The table has small cases of every mode. Here are many updates, which are sorted and combined by tiles.
"""

import numpy as onp
import pytest
from cuda_emulated import DEVICE

from numbagrad.kernels.cpu import along as cpu_along
from numbagrad.kernels.cpu import dynamic as cpu_dynamic
from numbagrad.kernels.cpu import index as cpu_index
from numbagrad.kernels.cpu import segment as cpu_segment
from numbagrad.kernels.cpu import segment_exp as cpu_segment_exp
from numbagrad.kernels.cuda import along, dynamic, index, places, runs, segment, segment_exp
from numbagrad.kernels.cuda.devices import find
from numbagrad.primitives.segment import tree_sizes
from numbagrad.testing import tolerance

pytestmark = pytest.mark.slow  # the table's values are the quick check of these kernels

DTYPES = ("float32", "float64", "complex64", "complex128", "int32", "int64", "uint8", "int8")
device = find(DEVICE)


def numbers(dtype, shape, seed=0):
    rng = onp.random.default_rng([seed, *shape])
    dtype = onp.dtype(dtype)
    if dtype.kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    found = rng.standard_normal(shape)
    return (found + 1j * rng.standard_normal(shape) if dtype.kind == "c" else found).astype(dtype)


def compare(got, want, scale=1.0):
    got = onp.asarray(got)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    onp.testing.assert_allclose(got, want, **tolerance(want.dtype, scale))


def launches(call, *args, **params):
    device.fault("take")  # the first call makes the words
    before = device.counts["launch"]
    found = call(*args, **params)
    return found, device.counts["launch"] - before


def rows_of(kind, count, rows, seed=1):
    """Row numbers: how they are spread over the rows decides how long the runs are."""
    rng = onp.random.default_rng([seed, count, rows])
    if kind == "one":
        return onp.full(count, rows // 2)
    if kind == "skewed":
        return onp.minimum(rng.geometric(0.4, count) - 1, rows - 1)
    if kind == "halves":  # two runs, and rows of single updates between them
        return onp.sort(onp.where(onp.arange(count) % 7 == 0, rng.integers(0, rows, count), rows // 2))
    if kind == "outside":
        return rng.integers(-2 * rows, 2 * rows, count)
    return rng.integers(0, rows, count)


KINDS = ("even", "one", "skewed", "halves", "outside")


# ------------------------------------------------------------------------------------------- take


@pytest.mark.parametrize("dtype", [*DTYPES, "bool", "int16"])
@pytest.mark.parametrize("rest", [(), (3,), (2, 4), (16,)])
def test_take(dtype, rest):
    x = numbers(dtype, (13, *rest))
    for count in (1, 31, 257, 1100):
        i = rows_of("even", count, 13) - 3
        got, n = launches(index.take, device.put(x), device.put(i))
        assert n == 1
        compare(got, cpu_index.take(x, i))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("mode", ["drop", "clamp", "wrap", "clip", "fill", "zero"])
def test_take_index(kind, mode):
    x = numbers("complex128", (5, 2))
    limits = onp.iinfo(kind)
    i = onp.array([[0, 4, 5, 9], [limits.max, limits.min, 2, 1]], onp.dtype(kind))
    compare(index.take(device.put(x), device.put(i), mode=mode), cpu_index.take(x, i, mode=mode))
    i = onp.resize(i, 1200).reshape(3, 400)
    compare(index.take(device.put(x), device.put(i), mode=mode), cpu_index.take(x, i, mode=mode))
    got = places.resolve(device.put(i), 5, mode, "flat_rows", onp.int64)
    compare(got, cpu_index.flat_rows(i, rows=5, mode=mode))


def test_take_of_views():
    x = numbers("float32", (6, 40))
    i = onp.array([3, 0, 3])
    got, n = launches(index.take, device.put(x).view((40, 6), (4, 160)), device.put(i))
    assert n == 2
    compare(got, x.T[i])
    part = device.put(x).view((6, 3), (160, 4), 4)
    compare(index.take(part, device.put(i)), x[:, 1:4][i])
    line = device.put(onp.arange(9, dtype=onp.float32)).view((8,), None, 4)  # lies at a multiple of 4 bytes only
    compare(
        index.take(line.view((2, 4), None), device.put(onp.array([1, 0]))),
        onp.arange(1, 9.0, dtype="f4").reshape(2, 4)[::-1],
    )
    double = device.put(onp.arange(9.0)).view((4, 2), None, 8).view((4, 2), None)
    compare(index.take(double, device.put(onp.array([1, 7])), mode="fill"), onp.array([[3.0, 4], [onp.nan, onp.nan]]))


@pytest.mark.parametrize("call", [
    lambda x, i: index.take(x, i),
    lambda x, i: index.take(x.view((5, 0), None), i),
    lambda x, i: index.scatter_add(x, i, x.view(i.shape, tuple(0 for _ in i.shape))),
    lambda x, i: index.scatter_set(x.view((5, 0), None), i, x.view((*i.shape, 0), None)),
    lambda x, i: index.last_writer(i, rows=5),
    lambda x, i: index.flat_rows(i, rows=5),
])  # fmt: skip
@pytest.mark.parametrize("count", [3, 400])
def test_outside_raises(call, count):
    device.synchronize()
    x = device.put(numbers("float64", (5,)))
    call(x, device.put(onp.full(count, -5)))
    device.synchronize()
    call(x, device.put(onp.append(onp.zeros(count, int), 5)))
    with pytest.raises(IndexError, match="out of range"):
        device.synchronize()


# ------------------------------------------------------------------------------------------- scatters


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["scatter_add", "scatter_set", "scatter_max", "scatter_min"])
def test_scatter(name, dtype):
    if onp.dtype(dtype).kind == "c" and name[-3:] in ("max", "min"):
        pytest.skip("not ordered")
    function, want = getattr(index, name), getattr(cpu_index, name)
    for width, count in ((1, 700), (3, 256), (3, 257), (40, 300)):
        target, updates = numbers(dtype, (11, width)), numbers(dtype, (count, width), 1)
        for kind in ("skewed", "outside"):
            i = rows_of(kind, count, 11)
            got = function(device.put(target), device.put(i), device.put(updates), mode="drop")
            compare(got, want(target, i, updates, mode="drop"), 4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [1, 2, 5, 33])
def test_runs(kind, width):
    """Runs within a chunk, over chunks, over blocks and over levels.

    Of float64: parts of a row that are added one by one would come out otherwise in the opposite order of threads.
    """
    rows, count = 37, 5000 if width == 1 else 1500
    i, x = rows_of(kind, count, rows), numbers("float64", (count, width))
    want = onp.zeros((rows, width))
    kept = (i >= 0) & (i < rows)
    onp.add.at(want, i[kept], x[kept])
    found = index.scatter_add(device.zeros((rows, width), x.dtype), device.put(i), device.put(x), mode="drop")
    compare(found, want, 4)
    moved = onp.where(i < 0, -1, i) * 1000  # more rows than updates
    large = device.zeros((37000, width), x.dtype)
    assert index.scatter_add_into(large, device.put(moved), device.put(x), mode="drop") is large
    large = onp.asarray(large)
    compare(large[::1000], want, 4)
    assert onp.count_nonzero(large) == onp.count_nonzero(large[::1000])


@pytest.mark.parametrize("kind", ["even", "one", "halves"])
def test_many_levels(kind, monkeypatch):
    """Blocks of two lanes: five levels."""
    monkeypatch.setattr(runs, "COLUMNS", 128)
    x, i = numbers("float64", (3000, 200)), rows_of(kind, 3000, 9)
    got, n = launches(segment.segment_sum, device.put(x), device.put(i), segments=9)
    compare(got, cpu_segment.segment_sum(x, i, segments=9), 8)
    assert n > 2 + 4


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32"])
def test_large_twins(dtype, monkeypatch):
    """Indices of 64 bits."""
    for module in (index, along, runs, segment, dynamic, places):
        monkeypatch.setattr(module, "index_type", lambda *sizes: "int64")
    x, i = numbers(dtype, (600, 3)), rows_of("outside", 600, 7)
    target, few = numbers(dtype, (7, 3), 1), i[:40]
    for j in (few, i):
        got = index.scatter_add(*map(device.put, (target, j, x[: j.size])), mode="drop")
        compare(got, cpu_index.scatter_add(target, j, x[: j.size], mode="drop"), 4)
        got = index.scatter_set(*map(device.put, (target, j, x[: j.size])), mode="wrap")
        compare(got, cpu_index.scatter_set(target, j, x[: j.size], mode="wrap"))
        compare(index.take(device.put(x), device.put(j), mode="clip"), cpu_index.take(x, j, mode="clip"))
    lines = onp.abs(rows_of("even", 600 * 3, 50)).reshape(600, 3)
    check_along(x, lines, numbers(dtype, (50, 3), 2), 0)
    check_along(x[:20], lines[:20], numbers(dtype, (50, 3), 2), 0)
    start = onp.array([2, -2])
    compare(dynamic.dynamic_slice(device.put(x), device.put(start), sizes=(5, 2)), x[2:7, 1:])
    compare(
        dynamic.dynamic_update_slice(*map(device.put, (x, target[:, :2], start))),
        cpu_dynamic.dynamic_update_slice(x, target[:, :2], start),
    )


def test_sums_are_as_good_as_double():
    count = 40000
    x = (1 + numbers("float32", (count,)) * 1e-3).astype(onp.float32)
    i = onp.zeros(count, int)
    got = onp.asarray(segment.segment_sum(device.put(x), device.put(i), segments=1))
    assert got[0] == onp.float32(x.astype(float).sum())
    x[7] = onp.inf
    assert onp.asarray(segment.segment_sum(device.put(x), device.put(i), segments=1))[0] == onp.inf
    x[9] = -onp.inf
    assert onp.isnan(onp.asarray(segment.segment_sum(device.put(x), device.put(i), segments=1))[0])


def test_launches():
    x, many = numbers("float32", (600,)), rows_of("even", 600, 50)
    few = many[:200]
    target = device.put(numbers("float32", (50,)))
    for name, n in (("scatter_add", 2), ("scatter_max", 2), ("scatter_set", 2), ("scatter_add_into", 1)):
        call = getattr(index, name)
        assert launches(call, target, device.put(few), device.put(x[:200]))[1] == n, name
        # resolved, sorted, combined
        assert launches(call, target, device.put(many), device.put(x))[1] == n + 2, name
    assert launches(index.last_writer, device.put(few), rows=50)[1] == 2
    assert launches(index.flat_rows, device.put(few), rows=50)[1] == 1
    assert launches(segment.segment_sum, device.put(x), device.put(many), segments=50)[1] == 4
    assert launches(segment.segment_shares, device.put(x), device.put(many), target)[1] == 6
    assert launches(segment_exp.segment_softmax, device.put(x), device.put(many), segments=50)[1] == 8
    assert launches(segment_exp.segment_logsumexp, device.put(x), device.put(many), segments=50)[1] == 8
    assert launches(dynamic.dynamic_slice, target, device.put(onp.array([3])), sizes=(5,))[1] == 1
    assert launches(dynamic.dynamic_update_slice, target, device.put(x[:5]), device.put(onp.array([3])))[1] == 1
    assert launches(dynamic.dynamic_add_slice, target, device.put(x[:5]), device.put(onp.array([3])))[1] == 1


@pytest.mark.parametrize("name", ["add", "max", "min", "set"])
@pytest.mark.parametrize("count", [40, 400])
def test_bool(name, count):
    target, x, i = numbers("bool", (9,)), numbers("bool", (count,), 1), rows_of("even", count, 9)
    got = onp.asarray(getattr(index, f"scatter_{name}")(*map(device.put, (target, i, x))))
    want = target.copy()
    if name == "set":
        want[i] = x
    else:
        (onp.logical_and if name == "min" else onp.logical_or).at(want, i, x)
    assert got.dtype == bool
    onp.testing.assert_array_equal(got.view(onp.uint8), want.view(onp.uint8))


@pytest.mark.parametrize("count", [200, 3000])
def test_last_writer(count):
    for kind in KINDS:
        i = rows_of(kind, count, 700)
        got = index.last_writer(device.put(i), rows=700, mode="drop")
        compare(got, cpu_index.last_writer(i, rows=700, mode="drop"))


@pytest.mark.parametrize("count", [100, 300])
def test_extremes_of_nan(count):
    x = numbers("float32", (count, 2))
    x[::9] = onp.nan
    x[1::9] = -onp.inf
    i, target = rows_of("even", count, 60), numbers("float32", (60, 2), 3)
    for name in ("scatter_max", "scatter_min"):
        compare(getattr(index, name)(*map(device.put, (target, i, x))), getattr(cpu_index, name)(target, i, x))


def test_targets_that_are_views():
    """Reverse mode's own buffers are in C order; others work, too."""
    target, x, i = numbers("float32", (6, 5)), numbers("float32", (300, 5), 1), rows_of("even", 300, 6)
    view = device.put(onp.ascontiguousarray(target.T)).view((6, 5), (4, 24))
    index.scatter_add_into(view, device.put(i), device.put(x))
    compare(view, cpu_index.scatter_add(target, i, x), 4)
    view = device.put(onp.ascontiguousarray(target.T)).view((6, 5), (4, 24))
    dynamic.dynamic_add_slice_into(view, device.put(x[:2, :2]), device.put(onp.array([-1, 2])))
    want = target.copy()
    want[4:, 2:4] += x[:2, :2]
    compare(view, want)


# ------------------------------------------------------------------------------------------- along


def check_along(x, lines, target, axis, **params):
    got = along.add_along(*map(device.put, (target, lines, x)), axis=axis, **params)
    compare(got, cpu_along.add_along(target, lines, x, axis=axis), 4)
    got, n = launches(along.take_along, device.put(target), device.put(lines), axis=axis)
    assert n == 1
    compare(got, cpu_along.take_along(target, lines, axis=axis))


@pytest.mark.parametrize("dtype", DTYPES)
def test_along(dtype):
    for shape, axis in (((700,), 0), ((3, 33, 2), 1), ((5, 40), 1), ((300, 3), 0), ((7, 32), 1), ((2, 20, 3, 2), 1)):
        lines = onp.array(rows_of("even", int(onp.prod(shape)), 9)).reshape(shape) - 1
        target = numbers(dtype, tuple(8 if k == axis else n for k, n in enumerate(shape)), 1)
        check_along(numbers(dtype, shape), lines, target, axis)


def test_along_without_repeats():
    """A promise that no two meet needs no sorting."""
    order = onp.argsort(numbers("float32", (4, 300, 2)), axis=1)
    x, target = numbers("float64", (4, 300, 2)), numbers("float64", (4, 300, 2), 1)
    want = cpu_along.add_along(target, order, x, axis=1)
    for params in ({"unique": True}, {"repeats": 1}):
        got, n = launches(along.add_along_into, *map(device.put, (target, order, x)), axis=1, **params)
        assert n == 1
        compare(got, want)
    assert launches(along.add_along_into, *map(device.put, (target, order, x)), axis=1)[1] > 1
    bools = numbers("bool", (9,))
    compare(along.take_along(device.put(bools), device.put(onp.array([3, -1])), axis=0), bools[[3, 3]] & [True, False])


# ------------------------------------------------------------------------------------------- segments


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_segments(name, dtype):
    if onp.dtype(dtype).kind == "c" and name in ("max", "min"):
        pytest.skip("not ordered")
    cuda, cpu = getattr(segment, f"segment_{name}"), getattr(cpu_segment, f"segment_{name}")
    for width, count in ((1, 900), (4, 200), (35, 300)):
        x = numbers(dtype, (count, width))
        x = (x / abs(x)).astype(dtype) if name == "prod" and x.dtype.kind in "fc" else x
        for kind, mode in (("skewed", "drop"), ("outside", "clamp"), ("outside", "wrap")):
            ids = rows_of(kind, count, 13).reshape(-1, 10)
            rows = x.reshape(-1, 10, width)
            got = cuda(device.put(rows), device.put(ids), segments=13, mode=mode)
            compare(got, cpu(rows, ids, segments=13, mode=mode), 8)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [70, 700])
def test_segment_exp(dtype, count):
    ids, x = rows_of("outside", count, 9), 30 * numbers(dtype, (count, 3))
    ids[ids == 4] = 5
    x[ids == 2, 0] = -onp.inf
    x[onp.flatnonzero(ids == 3)[:2], 1] = onp.inf
    x[onp.flatnonzero(ids == 3)[:1], 2] = onp.nan
    for mode in ("drop", "clamp", "wrap"):
        for name in ("segment_softmax", "segment_logsumexp"):
            got = getattr(segment_exp, name)(device.put(x), device.put(ids), segments=9, mode=mode)
            compare(got, getattr(cpu_segment_exp, name)(x, ids, segments=9, mode=mode), 4)


@pytest.mark.parametrize("count", [70, 700])
def test_segment_shares(count):
    ids, x = rows_of("outside", count, 9), onp.round(2 * numbers("float32", (count, 3)))
    x[::50] = onp.nan
    best = cpu_segment.segment_max(x, ids, segments=9)
    compare(segment.segment_shares(*map(device.put, (x, ids, best))), cpu_segment.segment_shares(x, ids, best))


@pytest.mark.parametrize("kind", KINDS)
def test_segment_tree(kind):
    for count, segments in ((1, 1), (40, 6), (300, 50), (300, 400)):
        ids = rows_of(kind, count, segments)
        longest = max(1, onp.bincount(ids[(ids >= 0) & (ids < segments)], minlength=1).max())
        for bound in (longest, count):
            sizes = tuple(tree_sizes(count, segments, bound))
            got = segment.segment_tree(device.put(ids), segments=segments, mode="drop", sizes=sizes)
            compare(got, cpu_segment.segment_tree(ids, segments=segments, mode="drop", sizes=sizes))


def test_segment_tree_of_nothing():
    for count, segments, sizes in ((0, 3, (4, 2, 3)), (3, 0, (3, 2, 0))):
        ids = onp.arange(count)
        got = segment.segment_tree(device.put(ids), segments=segments, mode="drop", sizes=sizes)
        compare(got, cpu_segment.segment_tree(ids, segments=segments, mode="drop", sizes=sizes))


# ------------------------------------------------------------------------------------------- slices whose place is data


@pytest.mark.parametrize("dtype", [*DTYPES, "bool", "int16"])
def test_dynamic(dtype):
    cases = ((700,), (300,), [500]), ((20, 17, 3), (5, 11, 2), [-7, 3, 9]), ((2, 300), (2, 1), [0, -400])
    for shape, sizes, start in cases:
        x, part, at = numbers(dtype, shape), numbers(dtype, sizes, 1), onp.array(start)
        want = onp.ascontiguousarray(cpu_dynamic.dynamic_slice(x, at, sizes=sizes))
        compare(dynamic.dynamic_slice(device.put(x), device.put(at), sizes=sizes), want)
        for name in ("dynamic_update_slice", "dynamic_add_slice", "dynamic_add_slice_into"):
            got = getattr(dynamic, name)(*map(device.put, (x, part, at)))
            compare(got, getattr(cpu_dynamic, name)(x.copy(), part, at))
