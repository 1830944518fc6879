"""The kernel cache: a second process compiles nothing, whatever happened to the folder meanwhile."""

import os
import stat

import pytest
from processes import result, run, start

# Elementwise with a gradient, both kinds of reduction, a large array (threads), square root, a loop with a power.
PROGRAM = """
import json, sys
import numbagrad as ng, numbagrad.numpy as np
from numbagrad.kernels.cpu import compiler

def loss(w, x):
    y = np.sqrt(np.abs(np.tanh(x * w) - 0.5)) + np.arcsin(0.5 * np.sin(x))
    return np.sum(np.max(y, axis=0) * np.sum(y * y, axis=1)[:3])

value, g = ng.value_and_grad(loss)(0.7, np.linspace(-1.0, 1.0, 12).reshape(4, 3))
large = float(np.sum(np.exp(np.linspace(0.0, 1.0, 300_000))))
print(json.dumps(dict(
    value=float(value), g=float(g), large=large, compiled=compiler.compilations, loaded=compiler.loads,
    numba="numba" in sys.modules,
)))
"""


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A cache that has met the program, and what the first run printed."""
    folder = tmp_path_factory.mktemp("cache")
    return folder, run(PROGRAM, NUMBAGRAD_CACHE_DIR=folder)


def numbers(found):
    return [found[k] for k in ("value", "g", "large")]


def test_the_first_process_compiles(warm):
    folder, first = warm
    assert first["compiled"] == len(list(folder.glob("*.o"))) > 10 and first["numba"]


def test_a_second_process_compiles_nothing(warm):
    folder, first = warm
    second = run(PROGRAM, NUMBAGRAD_CACHE_DIR=folder)
    assert second["compiled"] == 0 and not second["numba"]
    assert second["loaded"] == first["compiled"]
    assert numbers(second) == numbers(first)  # bitwise: it is the same machine code


def test_a_damaged_file_is_compiled_again(warm):
    folder, first = warm
    victim, other = sorted(folder.glob("*.o"))[:2]
    whole = victim.read_bytes()
    victim.write_bytes(whole[: len(whole) // 2])
    other.write_bytes(b"")
    repaired = run(PROGRAM, NUMBAGRAD_CACHE_DIR=folder)
    assert repaired["compiled"] == 2 and numbers(repaired) == numbers(first)
    assert victim.stat().st_size > 0.9 * len(whole) and other.stat().st_size > 0
    assert run(PROGRAM, NUMBAGRAD_CACHE_DIR=folder)["compiled"] == 0


def test_processes_may_share_a_cold_cache(tmp_path, warm):
    running = [start(PROGRAM, NUMBAGRAD_CACHE_DIR=tmp_path) for _ in range(3)]
    for process in running:
        assert numbers(result(process)) == numbers(warm[1])
    assert run(PROGRAM, NUMBAGRAD_CACHE_DIR=tmp_path)["compiled"] == 0
    assert [p for p in tmp_path.iterdir() if p.suffix not in (".o", ".py")] == []  # nothing half-written is left


def test_a_read_only_cache_works(warm):
    folder, first = warm
    missing = sorted(folder.glob("*.o"))[0]
    kept = missing.read_bytes()
    missing.unlink()
    mode = folder.stat().st_mode
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        found = run(PROGRAM, NUMBAGRAD_CACHE_DIR=folder)
        assert numbers(found) == numbers(first)
        assert found["compiled"] == 1
        # root may write anywhere; for anybody else the folder is as it was
        assert missing.exists() == (os.geteuid() == 0)
    finally:
        folder.chmod(mode)
        missing.write_bytes(kept)


def test_a_cache_that_cannot_be_made_works(tmp_path, warm):
    blocked = tmp_path / "a file"
    blocked.write_text("")
    code = "import json, numbagrad.numpy as np; print(json.dumps(float(np.sin(np.ones(3))[0])))"
    assert run(code, NUMBAGRAD_CACHE_DIR=blocked / "cache") == pytest.approx(0.8414709848)


def test_other_settings_have_other_files(tmp_path):
    """The name of a kernel's file depends on its source: two expressions never share one."""
    code = """
import json, numbagrad.numpy as np
from numbagrad.kernels.cpu import compiler
a, b = np.sin(np.ones(3)), np.sin(np.ones(3, dtype="float32"))
print(json.dumps([float(a[0]), float(b[0])]))
"""
    wide, narrow = run(code, NUMBAGRAD_CACHE_DIR=tmp_path)
    assert wide != narrow
    names = {p.stem for p in tmp_path.glob("sin_*.o")}
    assert {n.partition("-")[0] for n in names} == {"sin_f64_v", "sin_f32_v"}
