"""Machine code of the CUDA kernels, made without a GPU: spills, float64, registers, parameters, a stored baseline."""

import json
import sys
from functools import cache
from pathlib import Path

import pytest
from processes import command

from numbagrad.kernels.cuda.kernel import Kernel, kernel

pytest.importorskip("numba_cuda", reason="compiling for GPUs needs numba-cuda")
pytest.importorskip("cuda.core", reason="compiling for GPUs needs cuda-core")

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
import cuda_kernels as tool

pytestmark = pytest.mark.slow  # the table's values are the quick check of these kernels

if tool.disassembler() is None:
    pytest.skip("looking at machine code needs nvdisasm (nvidia-cuda-nvdisasm)", allow_module_level=True)

PARTS = 8  # the kernels are dealt out to so many tests, which run in parallel


@cache
def baseline():
    return json.loads(tool.BASELINE.read_text())


@pytest.mark.parametrize("arch", tool.ARCHITECTURES)
@pytest.mark.parametrize("part", range(PARTS))
def test_machine_code(part, arch):
    """No spills, no float64 in float32 kernels, registers within limits, as many parameters as arguments.

    In a process of its own: an operation is named by who makes it first, and other tests make some. The baseline is
    renewed by `python tools/cuda_kernels.py --write`, after a look at what has changed.
    """
    done = command("tools/cuda_kernels.py", "--arch", arch, "--part", f"{part}/{PARTS}", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout.splitlines()[-1])
    assert {name: wrong for name, (_, wrong) in rows.items() if wrong} == {}
    assert list(rows) == sorted(baseline()[arch])[part::PARTS]
    if baseline()["toolchain"] == tool.toolchain():
        assert larger({name: row for name, (row, _) in rows.items()}, baseline()[arch]) == {}


def larger(found, stored):
    """Kernels that need more registers or a fifth more instructions than the stored ones, and those not stored."""
    worse = {}
    for name, row in found.items():
        registers, instructions = stored.get(name, (0, 0))
        if row["registers"] > registers + 4 or row["instructions"] > 1.2 * instructions + 16:
            worse[name] = (row["registers"], row["instructions"], "stored:", registers, instructions)
    return worse


def test_checks_can_fail():
    row = dict(registers=65, spills=4, shared=0, instructions=9, float64=1, local=1, parameters=2)
    assert len(tool.faults(Kernel("f", "", ("f32*", "f32*", "u32")), row)) == 5
    assert larger({"a": dict(registers=30, instructions=100)}, {"a": [20, 100]})
    assert larger({"a": dict(registers=20, instructions=200)}, {"a": [20, 100]})
    assert not larger({"a": dict(registers=20, instructions=100)}, {"a": [20, 100]})


def test_double_precision_is_seen():
    """The check of float64 sees it where it is: in a float64 kernel."""
    text = (
        "from numbagrad.kernels.cuda.frontend import cuda, uint32\n\n\n@cuda.jit\ndef half(x, out):\n"
        "    i = uint32(cuda.grid(1))\n    out[i] = x[i] * 0.1\n"
    )
    for kind, expected in (("f32", True), ("f64", True)):
        found = tool.figures(kernel("half", text, [f"{kind}*", f"{kind}*"]), "sm_90")
        assert bool(found["float64"]) == expected
    assert tool.faults(kernel("half", text, ["f32*", "f32*"]), found)
