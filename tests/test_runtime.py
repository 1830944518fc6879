"""What happens around a computation: threads, processes, memory, copies, other libraries' arrays."""

import copy
import gc
import importlib.util
import multiprocessing
import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as onp
import pytest
from processes import run

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import config
from numbagrad.kernels.cpu import compiler, pool

LARGE = 4 * config.PARALLEL_ELEMENTS
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


def loss(x):
    return np.sum(np.tanh(x) ** 2)


def gradient_of_ramp(n=LARGE):
    """A computation that uses the worker threads forwards and backwards."""
    value, g = ng.value_and_grad(loss)(np.linspace(-1.0, 1.0, n))
    return float(value), float(g[0]), float(np.sum(g * g))


# ------------------------------------------------------------------------------------------------- threads


def test_calls_from_many_threads():
    expected = gradient_of_ramp()
    with ThreadPoolExecutor(8) as executor:
        found = list(executor.map(lambda _: gradient_of_ramp(), range(24)))
    assert found == [expected] * 24


def test_traces_of_threads_do_not_meet():
    """Both are inside their transform at the same time."""
    meeting = threading.Barrier(2, timeout=60)

    def work(power):
        def f(x):
            y = x**power
            meeting.wait()
            return np.sum(y * y)

        return float(ng.grad(f)(np.asarray([2.0]))[0])

    with ThreadPoolExecutor(2) as executor:
        assert list(executor.map(work, (2, 3))) == [4 * 2.0**3, 6 * 2.0**5]


SUMS = """
import json, numbagrad.numpy as np, numpy as onp
r = onp.random.default_rng(0)
found = []
for dtype in ("float64", "float32"):
    x = np.asarray(r.normal(size=(1237, 811)).astype(dtype))
    parts = [np.sum(x), np.sum(x, axis=0), np.sum(x, axis=1), np.mean(np.exp(x)), np.max(x, axis=0), np.var(x)]
    found += [onp.asarray(p).tobytes().hex() for p in parts]
print(json.dumps(found))
"""


def test_sums_are_the_same_for_any_number_of_threads():
    one, *others = (run(SUMS, NUMBAGRAD_NUM_THREADS=n) for n in (1, 2, 5))
    assert all(other == one for other in others)


# ----------------------------------------------------------------------------------------------- processes


def _child(connection):
    connection.send(gradient_of_ramp())
    connection.close()


def in_child(method):
    context = multiprocessing.get_context(method)
    mine, theirs = context.Pipe()
    process = context.Process(target=_child, args=(theirs,))
    process.start()
    try:
        assert mine.poll(120), f"no answer from the {method}ed child"
        return mine.recv()
    finally:
        process.join(30)
        if process.is_alive():
            process.kill()


@needs_fork
def test_fork_after_the_workers_have_started():
    expected = gradient_of_ramp()
    assert in_child("fork") == expected
    assert gradient_of_ramp() == expected  # and the parent goes on


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_fork_while_another_thread_compiles():
    held = threading.Event()

    def hold():
        with compiler._lock:
            held.set()
            time.sleep(0.2)

    threading.Thread(target=hold).start()
    held.wait()
    child = os.fork()
    if child == 0:
        os._exit(not compiler._lock.acquire(timeout=5))
    assert os.waitpid(child, 0)[1] == 0


def test_spawn():
    assert in_child("spawn") == gradient_of_ramp()


def test_pool_of_processes():
    with multiprocessing.get_context("spawn").Pool(2) as workers:
        assert workers.map(gradient_of_ramp, [LARGE] * 3, chunksize=1) == [gradient_of_ramp()] * 3


# -------------------------------------------------------------------------------------------------- memory


def address(x):
    return onp.asarray(x).__array_interface__["data"][0]


def test_memory_of_large_temporaries_is_recycled():
    x = np.ones(config.POOL_MIN_BYTES // 4)
    gc.collect()
    pool.clear()
    seen = set()
    for _ in range(10):
        y = np.exp(x)
        seen.add(address(y))
        del y
    assert len(seen) == 1


def test_memory_in_use_is_not_recycled():
    x = np.ones(config.POOL_MIN_BYTES // 4)
    y = np.exp(x)
    part = y[:10]  # a view keeps the whole buffer
    before = onp.array(part)
    del y
    z = np.log(x)
    assert address(z) != address(part)
    assert (onp.asarray(part) == before).all()


def test_numpy_views_keep_the_memory():
    x = np.ones(config.POOL_MIN_BYTES // 4)
    view = onp.asarray(np.exp(x))
    gc.collect()
    others = [np.exp(-x) for _ in range(4)]
    assert view[0] == pytest.approx(onp.e) and all(address(o) != address(view) for o in others)


# ------------------------------------------------------------------------------------------ copies, pickles

ARRAYS = [
    np.asarray(3.0),
    np.arange(6).reshape(2, 3),
    np.asarray([1.0, onp.nan, onp.inf], dtype="float32"),
    np.asarray([1 + 2j]),
    np.zeros((0, 4)),
    np.asarray([True, False]),
    np.arange(12.0).reshape(3, 4).T[::2],
]


@pytest.mark.parametrize("x", ARRAYS, ids=lambda x: f"{x.dtype}{list(x.shape)}")
@pytest.mark.parametrize(
    "clone",
    [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x, 5))],
    ids=["pickle", "copy", "deepcopy", "pickle5"],
)
def test_clones(x, clone):
    y = clone(x)
    assert isinstance(y, ng.Array) and y.dtype == x.dtype and y.shape == x.shape
    onp.testing.assert_array_equal(onp.asarray(y), onp.asarray(x))


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_clone_has_a_life_of_its_own(clone):
    x = np.asarray([1.0, 2.0])
    y = clone(x)
    y[0] = 5.0
    assert x.tolist() == [1.0, 2.0] and y.tolist() == [5.0, 2.0]
    x += 1
    assert y.tolist() == [5.0, 2.0]


def test_a_traced_value_cannot_be_pickled():
    with pytest.raises(ng.TracerConversionError, match="pickle"):
        ng.grad(lambda x: float(len(pickle.dumps(x))) * x)(1.0)


def test_parameters_in_a_tree_are_pickled():
    params = {"w": np.ones((2, 2)), "b": [np.zeros(2), 1.0]}
    again = pickle.loads(pickle.dumps(params))
    assert again["w"].tolist() == [[1.0, 1.0], [1.0, 1.0]] and again["b"][1] == 1.0


# ------------------------------------------------------------------------------------------ other libraries


def test_asarray_of_numpy_is_a_read_only_view():
    x = np.arange(4.0)
    view = onp.asarray(x)
    assert address(view) == address(x) and address(onp.asarray(x)) == address(view)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1.0
    mine = onp.array(x)
    mine[0] = 7.0
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_asarray_of_ours_copies_what_numpy_may_write_to():
    theirs = onp.arange(3.0)
    x = np.asarray(theirs)
    theirs[0] = 9.0
    assert x.tolist() == [0.0, 1.0, 2.0]


def test_dlpack_to_numpy():
    x = np.arange(6.0).reshape(2, 3)
    view = onp.from_dlpack(x)
    assert address(view) == address(x) and view.tolist() == x.tolist()
    assert x.__dlpack_device__() == (1, 0)


class OnlyDLPack:
    """An array of a library that nobody knows."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **options):
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


def test_dlpack_from_others():
    y = np.asarray(OnlyDLPack(onp.arange(3.0)))
    assert isinstance(y, ng.Array) and y.tolist() == [0.0, 1.0, 2.0]
    assert np.from_dlpack(OnlyDLPack(onp.arange(3.0))).tolist() == [0.0, 1.0, 2.0]
    assert ng.grad(loss)(OnlyDLPack(onp.zeros(3))).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_dlpack_with_torch():
    import torch

    x = np.arange(3.0)
    assert torch.from_dlpack(x).tolist() == [0.0, 1.0, 2.0]
    assert np.asarray(torch.arange(3.0)).tolist() == [0.0, 1.0, 2.0]


def test_array_namespace():
    assert np.ones(2).__array_namespace__() is np
    seen = []

    def f(x):
        xp = x.__array_namespace__()
        seen.append(xp)
        return xp.sum(xp.exp(x))

    assert float(ng.grad(f)(np.zeros(1))[0]) == 1.0 and seen == [np]


def test_array_namespace_info():
    info = np.__array_namespace_info__()
    assert info.default_device() == "cpu" and info.devices() == ng.devices()
    with ng.default_device("cuda-emulated"):
        assert info.default_device() == "cuda-emulated"
    defaults = info.default_dtypes()
    assert np.asarray(1.0).dtype == defaults["real floating"] and np.asarray(1).dtype == defaults["integral"]
    assert np.asarray(1j).dtype == defaults["complex floating"] and np.argmax([1, 2]).dtype == defaults["indexing"]
    assert set(info.dtypes()) == {"bool", *info.dtypes(kind=("integral", "real floating", "complex floating"))}
    for kind in ("bool", "integral", "numeric"):
        assert all(onp.isdtype(d, kind) for d in info.dtypes(kind=kind).values())
    assert set(info.capabilities()) == {"boolean indexing", "data-dependent shapes", "max dimensions"}
    assert np.zeros((1,) * info.capabilities()["max dimensions"]).sum() == 0
    with pytest.raises(ValueError, match="no such kind: got 'floats'"):
        info.dtypes(kind="floats")
