"""Everything there is to find out on a machine with an NVIDIA GPU, by one command, in less than ten minutes.

    python tools/gpu_check.py --out DIR                           the whole check on "cuda"
    python tools/gpu_check.py --out DIR --device cuda-emulated    the same in a reduced form, without a GPU

Phases, each in a process of its own with a time limit, so that an error that sticks to a context takes nothing along:

    versions     what is installed, the GPU, a first kernel; the rest is left out with the reason if this fails
    correctness  every case of the registry: values, derivatives, bitwise the same twice; large sizes against float64
    sanitizer    compute-sanitizer's memcheck and racecheck over some kernels, where it is installed
    speed        operations and training steps against PyTorch, CuPy and JAX, where they are installed
    ablations    what the design's decisions are worth: vectors, index types, block sizes, our launcher

It needs the repository, numba, numba-cuda, cuda-core, numpy and scipy. It changes no settings of the GPU. DIR receives
results.json and failures.txt; the last lines printed are a table.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tools")]

SECONDS = {"versions": 60, "correctness": 180, "sanitizer": 60, "speed": 220, "ablations": 40}


class Deadline:
    """Time that a phase has left."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    @property
    def over(self) -> bool:
        return time.monotonic() > self.end


# --- phase: versions


def versions(device: str, deadline: Deadline, small: bool) -> dict[str, Any]:
    """What is installed, and whether a kernel runs at all."""
    import numpy as onp

    import numbagrad as ng
    from numbagrad.__main__ import version

    packages = (
        "numbagrad",
        "numba",
        "numba-cuda",
        "cuda-core",
        "cuda-bindings",
        "numpy",
        "torch",
        "cupy-cuda13x",
        "jax",
    )
    found: dict[str, Any] = {name: version(name) for name in packages}
    tool = shutil.which("nvidia-smi")
    if tool and not device.endswith("emulated"):
        query = ["--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        found["GPU"] = subprocess.run([tool, *query], capture_output=True, text=True).stdout.strip()
    start = time.perf_counter()
    x = ng.device_put(onp.arange(1000, dtype="float32"), device)
    onp.testing.assert_array_equal(onp.asarray(x * 2.0 + 1.0), onp.arange(1000, dtype="float32") * 2 + 1)
    found["first kernels (s)"] = round(time.perf_counter() - start, 2)
    return {"facts": found, "failures": []}


# --- phase: correctness


def correctness(device: str, deadline: Deadline, small: bool) -> dict[str, Any]:
    """The registry's table on the device, then large sizes."""
    failures, done = [], 0
    checks = [*table_checks(device, 25 if small else 1), *large_checks(device, 2000 if small else 3_000_000)]
    for name, check in checks:
        if deadline.over:
            break
        done += 1
        try:
            check()
        except Exception as error:  # all are wanted, the first one least of all
            text = "".join(traceback.format_exception(error, limit=-3))
            failures.append(f"{name}\n{text[-1500:]}")
    return {"facts": {"checks": done, "of": len(checks), "failed": len(failures)}, "failures": failures}


def table_checks(device: str, every: int) -> Iterator[tuple[str, Callable[[], None]]]:
    """Value, derivatives and repeatability of every case of the samples."""
    import numpy as onp
    from cuda_emulated import close, derivatives, reference
    from samples.primitives import CASES
    from test_cuda_table import moving

    import numbagrad as ng
    from numbagrad.core.array import Array

    def same_twice(case: Any) -> None:
        args = [ng.device_put(a, device) for a in case.args]
        first, second = ([onp.asarray(o) for o in as_tuple(case(*args))] for _ in range(2))
        close(first, reference(case, first))
        if not case.primitive.endswith("_into"):
            assert all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True)), "not the same twice"

    def same_derivatives(case: Any) -> None:
        function, args = moving(case)
        order = min(case.order, 2)
        got = derivatives(function, [ng.device_put(a, device) for a in args], order)
        close([onp.asarray(g) for g in got], derivatives(function, [Array(a) for a in args], order), 4)

    for k, case in list(enumerate(CASES))[::every]:
        yield f"{k} {case}", lambda case=case: same_twice(case)
        if case.order:
            yield f"{k} {case}: derivatives", lambda case=case: same_derivatives(case)


def as_tuple(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def large_checks(device: str, n: int) -> Iterator[tuple[str, Callable[[], None]]]:
    """Public functions on n float32 numbers against the CPU in float64."""
    import numpy as onp

    import numbagrad as ng
    import numbagrad.numpy as np
    from numbagrad import lax, nn, ops

    rng = onp.random.default_rng(0)
    side = int(n**0.5)
    flat, square = rng.standard_normal(n).astype("f4"), rng.standard_normal((side, side)).astype("f4")
    ids = rng.integers(0, max(1, n // 50), n)
    image = rng.standard_normal((4, 8, max(8, side // 8), max(8, side // 8))).astype("f4")
    taps = rng.standard_normal((16, 8, 3, 3)).astype("f4")
    table: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "add": (lambda x: x + x * 2, (flat,)),
        "tanh": (np.tanh, (flat,)),
        "strided": (lambda x: x[:, ::2] + x[::-1, 1::2][:, : x[:, ::2].shape[1]], (square[:, : side // 2 * 2],)),
        "transpose": (lambda x: x.T.reshape(-1), (square,)),
        "sum": (np.sum, (flat,)),
        "rows": (lambda x: np.sum(x, 1), (square,)),
        "columns": (lambda x: np.max(x, 0), (square,)),
        "softmax": (nn.softmax, (square,)),
        "matmul": (lambda x: x[:1024, :777] @ x[:777, :1001], (square,)),
        "take": (lambda x, i: x[i], (flat, ids)),
        "segment_sum": (lambda x, i: ops.segment_sum(x, i, int(ids.max()) + 1), (flat, ids)),
        "cumsum": (lambda x: np.cumsum(x, 1), (square,)),
        "long cumsum": (lambda x: np.cumsum(x[: min(n, 10**6)]), (flat,)),
        "sort": (np.sort, (flat,)),
        "argsort rows": (lambda x: np.argsort(x, 1), (square,)),
        "conv": (lambda x, w: lax.conv(x, w, (1, 1), "SAME"), (image, taps)),
        "max_pool": (lambda x: nn.max_pool(x, (2, 2), (2, 2), channel_axis=1), (image,)),
    }

    def compare(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        got = [function(*(ng.device_put(a, device) for a in args)) for _ in range(2)]
        first, second = (onp.asarray(g) for g in got)
        assert first.tobytes() == second.tobytes(), "not the same twice"
        wide = [a.astype("f8") if a.dtype == "f4" else a for a in args]
        want = onp.asarray(function(*map(np.asarray, wide)))
        scale = float(onp.abs(want).max()) if want.size else 1.0
        onp.testing.assert_allclose(first, want, rtol=1e-5, atol=1e-5 * scale)

    for name, (function, args) in table.items():
        yield f"large {name}", lambda f=function, a=args: compare(f, a)


# --- phase: sanitizer


def sanitizer(device: str, deadline: Deadline, small: bool) -> dict[str, Any]:
    """NVIDIA's own checks of memory and races."""
    tool = shutil.which("compute-sanitizer")
    if tool is None or device.endswith("emulated"):
        reason = "compute-sanitizer is not installed" if tool is None else "not for the emulated device"
        return {"facts": {"left out": reason}, "failures": []}
    facts, failures = {}, []
    for kind in ("memcheck", "racecheck"):
        command = [tool, "--tool", kind, "--error-exitcode", "9", sys.executable, __file__, "--phase", "correctness"]
        command += ["--device", device, "--small", "--seconds", "20"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        facts[kind] = "clean" if done.returncode == 0 else f"exit {done.returncode}"
        if done.returncode:
            failures.append(f"sanitizer {kind}\n{(done.stdout + done.stderr)[-3000:]}")
    return {"facts": facts, "failures": failures}


# --- running phases


def phases() -> dict[str, Callable[[str, Deadline, bool], dict[str, Any]]]:
    from gpu_speed import ablations, speed

    return dict(versions=versions, correctness=correctness, sanitizer=sanitizer, speed=speed, ablations=ablations)


def run_phase(name: str, device: str, small: bool, seconds: float) -> dict[str, Any]:
    """A phase in a process of its own; what it found, or why not."""
    command = [sys.executable, __file__, "--phase", name, "--device", device, "--seconds", str(seconds)]
    start = time.monotonic()
    try:
        done = subprocess.run(
            [*command, *(["--small"] if small else [])], capture_output=True, text=True, timeout=seconds + 60
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        if not lines:
            found = {"facts": {}, "failures": [f"{name}: exit {done.returncode}\n{done.stderr[-3000:]}"]}
        else:
            found = json.loads(lines[-1].removeprefix("RESULT "))
    except subprocess.TimeoutExpired:
        found = {"facts": {}, "failures": [f"{name}: took longer than {seconds + 60:.0f} s and was stopped"]}
    found["seconds"] = round(time.monotonic() - start, 1)
    return found


def report(results: dict[str, Any]) -> list[str]:
    """The table: at most 60 lines."""
    lines = []
    for name, found in results.items():
        lines.append(f"{name} ({found['seconds']} s){' FAILED' if found['failures'] else ''}")
        for row in found.get("rows", [])[:36]:
            lines.append("  " + row)
        facts = [f"{k}: {v}" for k, v in found["facts"].items()]
        lines += ["  " + "; ".join(facts[k : k + 4]) for k in range(0, len(facts), 4)]
    return lines[:60]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for results.json and failures.txt")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="few and small checks (always so on the emulated device)")
    parser.add_argument("--only", nargs="*", choices=list(SECONDS), help="phases to run")
    parser.add_argument("--phase", choices=list(SECONDS), help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    small = options.small or options.device.endswith("emulated")
    if options.phase:
        found = phases()[options.phase](options.device, Deadline(options.seconds or 1e9), small)
        print("RESULT", json.dumps(found))
        return 1 if found["failures"] else 0
    results: dict[str, Any] = {}
    for name in options.only or SECONDS:
        seconds = min(SECONDS[name], 40) if small else SECONDS[name]
        results[name] = run_phase(name, options.device, small, seconds)
        if name == "versions" and results[name]["failures"]:
            break
    failures = [f for found in results.values() for f in found["failures"]]
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "results.json").write_text(json.dumps(results, indent=1))
        (options.out / "failures.txt").write_text("\n\n".join(failures))
    print("\n".join(report(results)))
    print(f"{len(failures)} failures" + (f", see {options.out / 'failures.txt'}" if failures and options.out else ""))
    return 1 if failures else 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
