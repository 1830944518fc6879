"""Worker threads that share the pieces of a large job.

Workers are Python threads asleep in a queue; `drive` runs without the GIL and claims pieces from the job's
atomic counter. The caller works too and finishes alone if no worker ever wakes, so jobs may be started from
any number of threads at once, inside each other, and after a fork (which leaves the child without workers:
it starts its own). Sleeping workers, unlike OpenMP's spinning ones, leave the cores to BLAS in between.
"""

from __future__ import annotations

import ctypes
import os
import threading
from functools import cache
from queue import SimpleQueue

import numpy as np

from numbagrad import config
from numbagrad.kernels.cpu.compiler import module_address
from numbagrad.kernels.cpu.layout import J_PIECES

_queue: SimpleQueue[np.ndarray] | None = None
_owner = 0  # process the workers belong to
_workers = 0
_lock = threading.Lock()


@cache
def _drive():
    address = module_address("numbagrad.kernels.cpu.native", "drive", "DRIVE_SIGNATURE")
    return ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(address)  # releases the GIL


def run(job: np.ndarray) -> None:
    """Run a job to its end, with the workers' help if it has several pieces."""
    drive = _drive()
    address = job.ctypes.data
    helpers = min(config.num_threads(), int(job[J_PIECES])) - 1
    if helpers > 0:
        queue = _start(helpers)
        for _ in range(helpers):
            queue.put(job)
    drive(address, helpers)


def _start(helpers: int) -> SimpleQueue[np.ndarray]:
    global _queue, _owner, _workers
    if _queue is None or _owner != os.getpid() or _workers < helpers:
        with _lock:
            if _queue is None or _owner != os.getpid():
                _queue, _owner, _workers = SimpleQueue(), os.getpid(), 0
            while _workers < helpers:
                threading.Thread(target=_work, args=(_queue,), name="numbagrad worker", daemon=True).start()
                _workers += 1
    return _queue


def _work(queue: SimpleQueue[np.ndarray]) -> None:
    drive = _drive()
    while True:
        job = queue.get()
        drive(job.ctypes.data, 0)
        del job  # holds the operands' addresses only, but must outlive the call
