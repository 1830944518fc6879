"""Run Python code against a CUDA driver that does nothing (null_driver.c), in a process of its own."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SOURCE = HERE / "null_driver.c"


@cache
def library() -> Path:
    """Folder of the built libcuda.so.1, kept beside the kernels: another worker may have built it."""
    from numbagrad import config

    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("the null driver needs a C compiler")
    pytest.importorskip("cuda.core", reason="the host side of CUDA needs cuda-core")
    folder = config.cache_dir() / f"null_driver_{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]}"
    target = folder / "libcuda.so.1"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = folder / f"{os.getpid()}.so"
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-w", "-o", made, SOURCE, "-ldl"], check=True)
        made.rename(target)
    return folder


PRELUDE = """
import ctypes, json, sys
sys.path.insert(0, {here!r})
import numpy as onp
import numbagrad as ng, numbagrad.numpy as np
from numbagrad import lax, nn, ops, optim, random
from numbagrad.kernels.cuda import cubin, driver
from numbagrad.kernels.cuda.devices import find

_driver = ctypes.CDLL("libcuda.so.1")
KINDS = "launches allocations frees to_device to_host waits loads".split()

def counts():
    return dict(zip(KINDS, [_driver.null_driver_count(k) for k in range(len(KINDS))]))

def counted(function):
    '''What a call asks of the driver, once it has run before.'''
    kept = [function() for _ in range(3)]
    del kept
    before = counts()
    out = function()
    after = counts()
    del out
    return {{k: after[k] - before[k] for k in KINDS}}

def without_compiling():
    '''The driver does not look at the code it is given.'''
    cubin.cubin = lambda kernel, arch: (b"\\x7fELF" + bytes(60), kernel.name)

def on_gpu(x, dtype=None):
    return ng.device_put(onp.asarray(x, dtype), "cuda")

def answer(found):
    print("ANSWER", json.dumps(found))
"""


def run(code: str, **environment: str) -> Any:
    """What the code passes to `answer`."""
    text = PRELUDE.format(here=str(HERE)) + textwrap.dedent(code)
    path = f"{library()}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        env={**os.environ, "LD_LIBRARY_PATH": path, **environment},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
    return json.loads(lines[-1].removeprefix("ANSWER ")) if lines else None
