"""Kernels as Python callables: `Variant` launches one compiled kernel on arrays of the layout it was made for."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np

from numbagrad import config
from numbagrad.kernels.cpu import layout, threads
from numbagrad.kernels.cpu.compiler import builtin, kernel_address, module_address
from numbagrad.kernels.cpu.layout import J_BODY, J_CHUNK, K_OPERANDS, O_DTYPE, O_ITEM, O_STEP, O_WORDS

_NATIVE = "numbagrad.kernels.cpu.native"
_ARRAY_EMPTY = 184  # place of PyArray_Empty in NumPy's C interface, fixed since NumPy 1.0


@cache
def _entry(name: str) -> int:
    return module_address(_NATIVE, name, "LAUNCH_SIGNATURE")


@cache
def _c_functions() -> dict[int, int]:
    """Addresses of the C functions that native code calls."""
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    table = api.PyCapsule_GetPointer(_multiarray_umath._ARRAY_API, None)
    functions = {
        layout.K_INCREF: api.Py_IncRef,
        layout.K_TUPLE: api.PyTuple_New,
        layout.K_SET_ITEM: api.PyTuple_SetItem,
    }
    found = {word: ctypes.cast(f, ctypes.c_void_p).value or 0 for word, f in functions.items()}
    found[layout.K_EMPTY] = ctypes.c_void_p.from_address(table + 8 * _ARRAY_EMPTY).value or 0
    return found


class Variant:
    """One compiled kernel with its ways in.

    `steps` are the inner steps it was compiled for (1 or 0 per operand), or None for any. `apply(*inputs)` returns
    new outputs, or None for arrays that are large or not of just these types and steps. `launch(*arrays)` with
    outputs given returns True when done, False when the arrays have another layout, None when they are too large
    for one thread: then `parallel(*arrays)`.
    """

    def __init__(
        self,
        name: str,
        source: str,
        steps: Sequence[int] | None,
        outputs: int,
        dtypes: Sequence[np.dtype],
        limit: int = config.PARALLEL_ELEMENTS,
    ) -> None:
        count = len(dtypes)
        words = np.zeros(K_OPERANDS + O_WORDS * count, np.int64)
        words[layout.K_ADDRESS] = kernel_address(name, source)
        words[layout.K_COUNT], words[layout.K_INPUTS] = count, count - outputs
        words[layout.K_SHAPE_FROM] = count - outputs if steps is None else list(steps).index(1)
        words[layout.K_LIMIT] = limit // config.AWAKE
        words[layout.K_GENERAL] = steps is None
        for word, answer in ((layout.K_TRUE, True), (layout.K_FALSE, False), (layout.K_NONE, None)):
            words[word] = id(answer)
        for word, address in _c_functions().items():
            words[word] = address
        operands = words[K_OPERANDS:].reshape(count, O_WORDS)
        operands[:, O_STEP] = 1 if steps is None else steps
        operands[:, O_ITEM] = [d.itemsize for d in dtypes]
        operands[:, O_DTYPE] = [id(d) for d in dtypes]
        self.name, self.steps, self.limit = name, steps, limit
        self._description = words, dtypes  # read by the builtins at every call

    @cached_property
    def apply(self) -> Any:
        return builtin(_entry("apply"), self._description[0], self.name)

    # each is compiled (once per machine) only when first needed: most arrays are small and contiguous

    @cached_property
    def launch(self) -> Any:
        return builtin(_entry("launch"), self._description[0], self.name)

    @cached_property
    def _prepare(self) -> Any:
        return builtin(_entry("prepare"), self._description[0], self.name)

    @cached_property
    def reduce(self) -> Any:
        """For a reduction kernel: native `(x, out)` over the trailing axes of a small contiguous array."""
        return builtin(_entry("reduce"), self._description[0], self.name)

    def parallel(self, *arrays: np.ndarray) -> bool:
        """Run on large arrays with several threads; False if the layout is another."""
        job = _new_job(arrays)
        job[J_CHUNK] = min(config.CHUNK_ELEMENTS, self.limit // (2 * config.AWAKE))
        if not self._prepare(*arrays, job):
            return False
        threads.run(job, wake=arrays[-1].size >= self.limit)
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
