"""CUDA where parts of it are missing: no packages, no driver, no compiler; kernels ahead of time; the simulator."""

import json
import re

import pytest
from null_driver import run
from processes import command

# What an import of these packages does where they are not installed.
WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names!r} or name.startswith("numba.cuda"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
"""
NOTHING = WITHOUT.format(names=("numba_cuda", "cuda", "nvmath", "cupy"))


def python(code):
    done = command("-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


def test_without_packages():
    """Everything but a GPU works, the emulated device included; the error says what to install."""
    lines = python(
        NOTHING
        + """
import numpy as onp, numbagrad as ng, numbagrad.numpy as np
print(ng.devices())
x = ng.device_put(onp.arange(5.0), "cuda-emulated")
print(ng.grad(lambda v: np.sum(np.sin(v) ** 2))(x).device)
try:
    ng.device_put(1.0, "cuda")
except ng.DeviceError as error:
    print(error)
"""
    )
    assert lines[0] == "['cpu']" and lines[1] == "cuda-emulated"
    assert "the CUDA packages are not installed" in lines[2] and "numbagrad[cuda13]" in lines[2]


def test_without_a_driver():
    pytest.importorskip("cuda.bindings")
    lines = python(
        """
import numbagrad as ng
from numbagrad.kernels.cuda import driver
if driver.count():
    print("a GPU")
else:
    print(ng.devices())
    try:
        ng.device_put(1.0, "cuda")
    except ng.DeviceError as error:
        print(error)
"""
    )
    if lines[0] != "a GPU":
        assert lines[0] == "['cpu']"
        assert "there is no cuda:0" in lines[1] and "got 0 GPUs" in lines[1] and "nvidia-smi" in lines[1]


def test_without_a_compiler():
    """A machine with a GPU and a filled cache needs no compiler; an empty cache says what is missing."""
    pytest.importorskip("numba_cuda")
    found = run(
        WITHOUT.format(names=("numba_cuda",))
        + """
x = on_gpu(onp.ones(8), "float32")
try:
    x * x + 1
    answer("computed")
except ng.DeviceError as error:
    answer(str(error))
""",
        NUMBAGRAD_CACHE_DIR="/nonexistent",
    )
    assert "no CUDA compiler" in found and "numbagrad[cuda13]" in found


def test_kernels_ahead_of_time(tmp_path):
    pytest.importorskip("numba_cuda")
    arguments = ("-m", "numbagrad", "warmup", "--target", "sm_90", "--only", "scalar subtract")
    done = command(*arguments, NUMBAGRAD_CACHE_DIR=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"[1-9]\d* kernels compiled for sm_90", done.stdout), done.stdout
    files = sorted(p.name for p in tmp_path.glob("subtract_f32_v[sv]-*.sm_90.cubin"))
    assert files
    again = command(*arguments, NUMBAGRAD_CACHE_DIR=tmp_path)
    assert again.stdout.startswith("0 kernels compiled for sm_90"), again.stdout


def test_cached_kernels_need_no_compiler(tmp_path):
    """What `warmup --target` left is what a GPU of that kind loads."""
    pytest.importorskip("numba_cuda")
    command(
        *("-m", "numbagrad", "warmup", "--target", "sm_90", "--only", "scalar subtract"), NUMBAGRAD_CACHE_DIR=tmp_path
    )
    found = run(
        WITHOUT.format(names=("numba_cuda",))
        + """
x = on_gpu(onp.ones(8), "float32")
x - 2.0
answer([counts()["launches"], cubin.compilations])
""",
        NUMBAGRAD_CACHE_DIR=str(tmp_path),
    )
    assert found == [1, 0]


def test_a_target_that_is_none():
    done = command("-m", "numbagrad", "warmup", "--target", "hopper")
    assert done.returncode == 2 and "needed e.g. sm_80 or sm_90" in done.stderr


@pytest.mark.xdist_group("simulator")
def test_simulator():
    """Some kernels under Numba's own CUDA simulator, which shares nothing with the emulator."""
    pytest.importorskip("numba_cuda")
    done = command("tests/cuda_simulated.py")
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(re.findall(r"^same ", done.stdout, re.M)) == 7


def test_importing_does_not_load_cuda():
    code = "import sys, numbagrad; print([m for m in sys.modules if m.split('.')[0] in ('cuda', 'numba', 'nvmath')])"
    assert python(code)[0] == "[]"


@pytest.mark.slow
def test_the_check_of_a_gpu_runs(tmp_path):
    """tools/gpu_check.py against the emulated device, reduced, so that it works on the day there is a GPU."""
    done = command("tools/gpu_check.py", "--device", "cuda-emulated", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + (tmp_path / "failures.txt").read_text()[:3000]
    assert done.stdout.splitlines()[-1].startswith("0 failures")
    assert len(done.stdout.splitlines()) <= 61
    results = json.loads((tmp_path / "results.json").read_text())
    assert set(results) == {"versions", "correctness", "sanitizer", "speed", "ablations"}
    assert results["correctness"]["facts"]["checks"] > 20
