"""The benchmarks cover the registry, and each kind of them runs."""

import importlib
import sys

import pytest
from processes import ROOT, run
from samples.atoms import SAMPLES
from samples.primitives import structural

import numbagrad as ng

REGISTERED = """
import json, numbagrad
from numbagrad.core.registry import PRIMITIVES, Primitive
from numbagrad.scalar import ATOMS
atoms = [n for n, a in ATOMS.items() if a.rule != "internal"]
print(json.dumps([atoms, [n for n, p in PRIMITIVES.items() if isinstance(p, Primitive)]]))
"""


@pytest.fixture(scope="module")
def benchmarks():
    sys.path.insert(0, str(ROOT / "asv_bench"))
    try:
        names = ("cuda", "elementwise", "reductions", "structural", "transforms", "startup")
        yield {n: importlib.import_module(f"benchmarks.{n}") for n in names}
    finally:
        sys.path.remove(str(ROOT / "asv_bench"))


def test_every_operation_is_benchmarked(benchmarks):
    atoms, primitives = run(REGISTERED)  # in a process of its own: other tests define operations
    assert set(atoms) - set(benchmarks["elementwise"].NAMES) == set()
    reductions = benchmarks["reductions"]
    assert set(primitives) - set(reductions.NAMES) == set()
    covered = set(reductions.RANDOM) | {n for n in primitives if reductions.largest_case(n) is not None}
    assert set(primitives) - covered == set()


def test_gpu_benchmarks(benchmarks):
    """Run where there is a GPU; where there is none they are left out, with the reason."""
    cuda = benchmarks["cuda"]
    if len(ng.devices()) > 1:
        assert try_out(cuda.Operation, "softmax", 100) and try_out(cuda.Launch, "x + y")
    else:
        with pytest.raises(NotImplementedError, match="no GPU: device_put: "):
            cuda.Launch().setup("x + y")


def try_out(benchmark, *params):
    """Set a benchmark up and run what it measures once; False if it does not apply."""
    instance = benchmark()
    try:
        if hasattr(instance, "setup"):
            instance.setup(*params)
    except NotImplementedError:
        return False
    kinds = ("time_", "track_", "peakmem_")
    methods = [m for m in dir(instance) if m.startswith(kinds) and getattr(instance, m) is not None]
    assert methods
    for method in methods:
        getattr(instance, method)(*params)
    if hasattr(instance, "teardown"):
        instance.teardown(*params)
    return True


def test_benchmarks_run(benchmarks):
    elementwise, reductions, transforms = (benchmarks[n] for n in ("elementwise", "reductions", "transforms"))
    assert try_out(elementwise.Forward, "tanh", 100, "float64")
    assert try_out(elementwise.NumPy, "tanh", 100, "float32")
    assert try_out(elementwise.Gradient, "arctan2", 100, "float64")
    assert not try_out(elementwise.Gradient, "floor", 100, "float64")
    assert try_out(elementwise.Forward, "bitwise_and", 100, "float64")
    assert try_out(reductions.Primitives, "random_gamma")
    assert try_out(reductions.PrimitiveGradients, "reduce_max")
    assert try_out(reductions.Reductions, "sum", 0, "float64")
    assert try_out(reductions.Rows, "add", 1000)
    assert try_out(transforms.Transforms, "write_one_by_one", 10)
    assert try_out(transforms.Matrices, "hessian", 5)
    assert try_out(transforms.Training, 32)
    assert try_out(benchmarks["structural"].Structural, "max pool 3/2", "float32")


@pytest.mark.slow
def test_every_benchmark_of_an_operation_runs(benchmarks):
    elementwise, reductions = benchmarks["elementwise"], benchmarks["reductions"]
    for name in elementwise.NAMES:
        try_out(elementwise.Forward, name, 100, "float64")
        try_out(elementwise.NumPy, name, 100, "float64")
        assert try_out(elementwise.Gradient, name, 100, "float64") is not SAMPLES[name].constant
    for name in structural():
        try_out(reductions.Primitives, name)
        try_out(reductions.PrimitiveGradients, name)
    for name in benchmarks["structural"].PROGRAMS:
        try_out(benchmarks["structural"].Structural, name, "float32")


def test_launches_of_a_gradient_do_not_grow_by_accident(benchmarks):
    """x * 0.5, tanh, five times, and the sum: one launch each forwards, at most as many backwards."""
    transforms = benchmarks["transforms"]
    import numbagrad as ng
    import numbagrad.numpy as np

    x = np.linspace(-1.0, 1.0, 10)
    assert transforms.launches(transforms.chain, x) == 11
    assert transforms.launches(ng.grad(transforms.chain), x) <= 23
