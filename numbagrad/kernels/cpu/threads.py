"""Worker threads that share the pieces of a large job.

Pieces are claimed from the job's atomic counters, without the GIL. The caller works too and finishes alone if no worker
ever comes, so jobs may be started from any number of threads at once, inside each other, and after a fork (which
leaves the child without workers: it starts its own).

A worker that has finished looks out for the next job for half a millisecond, then sleeps in a queue. Waking a sleeper
costs 70 to 100 us; eager code, which makes one large job after another, finds its workers awake (a gradient of nine
such maps: 2.2 ms instead of 2.8). Before a call into BLAS that uses its own threads they are sent to sleep: a worker
that looks out would take the core from them.
"""

from __future__ import annotations

import ctypes
import os
import threading
from functools import cache
from queue import SimpleQueue
from typing import Any

import numpy as np

from numbagrad import config
from numbagrad.kernels.cpu.compiler import module_address
from numbagrad.kernels.cpu.layout import ASLEEP, J_PIECES, J_SPANS, MAILBOX, MAX_SPANS

DATA = object.__basicsize__  # where a numpy.ndarray holds the address of its elements, see native.py
PATIENCE = 1 << 21  # looks at the mailbox before sleeping: half a millisecond
MAX_WORKERS = 256


class _Crew:
    """The workers of this process."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.queue: SimpleQueue[np.ndarray] = SimpleQueue()
        self.mailboxes = np.full(MAX_WORKERS * MAILBOX, ASLEEP, np.int64)
        self.mailboxes[1::MAILBOX] = np.arange(1, MAX_WORKERS + 1)  # who is who
        self.address = self.mailboxes.ctypes.data
        self.size = 0
        self._lock = threading.Lock()

    def grow(self, size: int) -> None:
        """At least that many workers."""
        with self._lock:
            serve = _native("serve")  # not in the worker: a daemon that compiles must not meet the interpreter's end
            while self.size < min(size, MAX_WORKERS):
                box = self.address + 8 * MAILBOX * self.size
                threading.Thread(
                    target=_work, args=(serve, self.queue, box), name="numbagrad worker", daemon=True
                ).start()
                self.size += 1


_crew = _Crew()


@cache
def _native(name: str) -> Any:
    address = module_address("numbagrad.kernels.cpu.native", name, "DRIVE_SIGNATURE")
    return ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)  # releases the GIL


_word = ctypes.c_int64.from_address


def address_of(array: np.ndarray) -> int:
    """`array.ctypes.data` in 0.1 us instead of 0.8: a job has several."""
    return _word(id(array) + DATA).value


def run(job: np.ndarray, wake: bool = True) -> None:
    """Run a job to its end, with the workers' help if it has several pieces: of those awake, or of all."""
    global _crew
    pieces = int(job[J_PIECES])
    helpers = min(config.num_threads(), pieces, MAX_WORKERS + 1) - 1 if pieces > 1 else 0
    if helpers <= 0:
        job[J_SPANS] = 1
        _native("drive")(address_of(job), 0, 0)
        return
    job[J_SPANS] = min(helpers + 1, MAX_SPANS)
    crew = _crew
    if crew.process != os.getpid():
        crew = _crew = _Crew()
    if wake:
        if crew.size < helpers:
            crew.grow(helpers)
        for k in range(helpers):
            if crew.mailboxes[k * MAILBOX] == ASLEEP:
                crew.queue.put(job)
    _native("drive")(address_of(job), crew.address, min(helpers, crew.size))


def dismiss() -> None:
    """Send workers that look out for a job to sleep, for the sake of threads that are not ours."""
    if _crew.size and _crew.process == os.getpid():
        _native("dismiss")(0, _crew.address, _crew.size)


def _work(serve: Any, queue: SimpleQueue[np.ndarray], mailbox: int) -> None:
    while True:
        job = queue.get()
        serve(job.ctypes.data, mailbox, PATIENCE)
        del job  # holds the operands' addresses only, but must outlive the call
