"""Settings, read once from the environment and changeable at run time.

`NUMBAGRAD_CACHE_DIR`    folder of compiled kernels (default: the user's cache folder)
`NUMBAGRAD_NUM_THREADS`  threads of a large kernel (default: the cores this process may use)
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

# A worker that sleeps takes 70 to 100 us to come, so a second thread pays from some 100 us of work on: half a million
# elements of a memory-bound map, fewer where an element costs more (exponentials and the like).
PARALLEL_ELEMENTS = 1 << 19
PARALLEL_COSTLY = 1 << 17
AWAKE = 8  # times fewer where a worker is awake already

# Pieces handed to threads. Fixed, never a function of the thread count: results must not depend on it.
CHUNK_ELEMENTS = 1 << 15

# Arrays at least this large come from the buffer pool: below, malloc recycles well by itself.
POOL_MIN_BYTES = 1 << 20
POOL_MAX_BYTES = 1 << 30  # kept for reuse in total

# Whether cuBLAS may round the operands of float32 products to 10 bits of mantissa, to use tensor cores.
TF32 = False

# Devices in use besides the CPU, by name. While there are none, nothing asks where an operand is.
OPENED: dict[str, Any] = {}


def cache_dir() -> Path:
    """Folder of compiled kernels; created when first written to."""
    chosen = os.environ.get("NUMBAGRAD_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "numbagrad"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "numbagrad"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "numbagrad"


def num_threads() -> int:
    """Threads a large kernel may use."""
    chosen = os.environ.get("NUMBAGRAD_NUM_THREADS")
    if chosen:
        return max(1, int(chosen))
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
