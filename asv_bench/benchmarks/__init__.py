"""Benchmarks over the registry; samples are the tests'."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
