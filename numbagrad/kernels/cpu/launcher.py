"""Kernels as Python callables: `Variant` launches one compiled kernel on arrays of the layout it was made for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from numbagrad import config
from numbagrad.kernels.cpu import threads
from numbagrad.kernels.cpu.compiler import builtin, kernel_address, module_address
from numbagrad.kernels.cpu.layout import (
    J_BODY,
    J_CHUNK,
    K_ADDRESS,
    K_COUNT,
    K_COUNTED,
    K_FALSE,
    K_GENERAL,
    K_LIMIT,
    K_NONE,
    K_OPERANDS,
    K_SHAPE_FROM,
    K_TRUE,
)

_NATIVE = "numbagrad.kernels.cpu.native"


@cache
def _entry(name: str) -> int:
    return module_address(_NATIVE, name, "LAUNCH_SIGNATURE")


class Variant:
    """One compiled kernel with its launcher.

    `steps` are the inner steps it was compiled for (1 or 0 per operand), or None for any. `launch(*arrays)`
    returns True when done, False when the arrays have another layout, None when they are too large for one
    thread: then `parallel(*arrays)`.
    """

    __slots__ = ("_description", "_prepare", "launch", "steps")

    def __init__(self, name: str, source: str, steps: Sequence[int] | None, outputs: int, items: Sequence[int]) -> None:
        count = len(items)
        words = np.zeros(K_OPERANDS + 2 * count, np.int64)
        words[K_ADDRESS] = kernel_address(name, source)
        words[K_COUNT], words[K_SHAPE_FROM] = count, count - outputs
        words[[K_TRUE, K_FALSE, K_NONE]] = id(True), id(False), id(None)
        words[K_LIMIT] = config.PARALLEL_ELEMENTS
        words[K_GENERAL] = steps is None
        words[K_COUNTED] = sys.version_info < (3, 12)
        words[K_OPERANDS::2] = 1 if steps is None else steps
        words[K_OPERANDS + 1 :: 2] = items
        self.steps = steps
        self._description = words  # the builtin reads it at every launch
        self.launch = builtin(_entry("launch"), words, name)
        self._prepare = builtin(_entry("prepare"), words, name)

    def parallel(self, *arrays: np.ndarray) -> bool:
        """Run on large arrays with several threads; False if the layout is another."""
        job = _new_job(arrays)
        if not self._prepare(*arrays, job):
            return False
        threads.run(job)
        return True

    def inner_steps(self, arrays: Sequence[np.ndarray]) -> tuple[int, ...] | None:
        """The inner steps these arrays need: a tuple of 0 and 1, or None for any other."""
        job = _new_job(arrays)
        if self._prepare(*arrays, job):
            return self.steps  # type: ignore[return-value]
        steps = tuple(int(s) for s in job[J_BODY : J_BODY + len(arrays)])
        return steps if all(s in (0, 1) for s in steps) and steps[-1] == 1 else None


def _new_job(arrays: Sequence[np.ndarray]) -> np.ndarray:
    count, ndim = len(arrays), max(a.ndim for a in arrays)
    job = np.empty(J_BODY + (ndim + 1) * (count + 1) + 3 * count, np.int64)
    job[J_CHUNK] = config.CHUNK_ELEMENTS
    return job
