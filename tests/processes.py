"""Run Python in processes of its own, for tests of what happens at the start of one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def environment(**changes: Any) -> dict[str, str]:
    """This process's environment with changes; None removes a name."""
    merged = os.environ | {k: str(v) for k, v in changes.items() if v is not None}
    return {k: v for k, v in merged.items() if k not in changes or changes[k] is not None}


def start(code: str, **changes: Any) -> subprocess.Popen:
    """Start a program in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment(**changes),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result(process: subprocess.Popen, timeout: float = 300) -> Any:
    """What the program printed last, read as JSON."""
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def run(code: str, **changes: Any) -> Any:
    """Run a program to its end."""
    return result(start(code, **changes))


def command(*words: str, **changes: Any) -> subprocess.CompletedProcess:
    """`python words...` from the checkout."""
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment(**changes), capture_output=True, text=True, timeout=600
    )
