"""cuBLAS through nvmath.bindings, where both are installed: raw pointers in, one call a product.

cuBLAS counts columns first. A matrix in C order is to it the transposed one, so out = x y is done as out' = y' x'.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from numbagrad import config
from numbagrad.kernels.cuda.buffer import Buffer

# cudaDataType_t, cublasComputeType_t, cublasOperation_t and cublasGemmAlgo_t of CUDA's headers
TYPES = {"float32": 0, "float64": 1, "complex64": 4, "complex128": 5}
COMPUTE_32F, COMPUTE_64F, COMPUTE_32F_FAST_TF32 = 68, 70, 77
PLAIN, TRANSPOSED = 0, 1
DEFAULT_ALGORITHM = -1
MOST_CALLS = 16  # of a product whose batch has two axes
_LIMIT = 2**31 - 1
_handles: dict[Any, int | None] = {}
_lock = threading.Lock()


@cache
def bindings() -> Any:
    """The module, or None."""
    try:
        from nvmath.bindings import cublas
    except ImportError:
        return None
    return cublas


def usable(device: Any) -> bool:
    """Whether a device has a stream that cuBLAS can work on, and cuBLAS is there."""
    return getattr(device, "stream", None) is not None and bindings() is not None and _handle(device) is not None


def _handle(device: Any) -> int | None:
    """cuBLAS's state for a device and its stream; None if the library itself is missing."""
    if device not in _handles:
        with _lock:
            if device not in _handles:
                _handles[device] = _open(device)
    return _handles[device]


def _open(device: Any) -> int | None:
    library = bindings()
    try:
        made = library.create()
    except RuntimeError:  # the bindings are installed, cuBLAS is not
        return None
    library.set_stream(made, int(device.stream.handle))
    return made


@dataclass(frozen=True)
class Matrix:
    """How cuBLAS reads an operand: transposed or not, elements from a line to the next, along the batch's two axes."""

    operation: int
    leading: int
    steps: tuple[int, int]


@dataclass(frozen=True)
class Call:
    """A product as calls of cuBLAS: one for each of `calls`, each of `batch` products."""

    kind: str
    sizes: tuple[int, int, int]  # columns, rows, depth
    x: Matrix
    y: Matrix
    calls: int
    batch: int
    out_steps: tuple[int, int]


def _matrix(lines: int, line: int, places: int, place: int, steps: tuple[int, int]) -> Matrix | None:
    """A matrix of lines, one run each or strided; None if cuBLAS cannot read it."""
    if places == 1 or place == 1:
        operation, leading, least, only = PLAIN, line, places, lines == 1
    elif lines == 1 or line == 1:
        operation, leading, least, only = TRANSPOSED, place, lines, places == 1
    else:
        return None
    leading = least if only else leading
    return Matrix(operation, leading, steps) if least <= leading <= _LIMIT else None


def call(problem: Any, dtype: np.dtype) -> Call | None:
    """How cuBLAS does a product (contract.py's Problem), or None."""
    if dtype.name not in TYPES or problem.thin or max(problem.rows, problem.columns, problem.depth) > _LIMIT:
        return None
    p = problem
    outer, inner = p.batches // p.inner, p.inner
    x_steps, y_steps = tuple(p.steps[:2]), tuple(p.steps[2:])
    out_steps = inner * p.rows * p.columns, p.rows * p.columns
    if outer > inner:  # as few calls as possible
        outer, inner = inner, outer
        x_steps, y_steps, out_steps = x_steps[::-1], y_steps[::-1], out_steps[::-1]
    x = _matrix(p.rows, p.x_row, p.depth, p.x_step, x_steps)
    y = _matrix(p.depth, p.y_step, p.columns, p.y_column, y_steps)
    if x is None or y is None or outer > MOST_CALLS or inner > _LIMIT:
        return None
    return Call(dtype.name, (p.columns, p.rows, p.depth), x, y, outer, inner, out_steps)


@cache
def _factors(name: str) -> tuple[np.ndarray, np.ndarray]:
    """One and zero, which cuBLAS reads from the host."""
    return np.ones(1, name), np.zeros(1, name)


def product(device: Any, x: Buffer, y: Buffer, out: Buffer, how: Call) -> None:
    """out = x y"""
    library, handle = bindings(), _handle(device)
    kind = TYPES[how.kind]
    compute = COMPUTE_64F if kind in (1, 5) else COMPUTE_32F_FAST_TF32 if config.TF32 and kind == 0 else COMPUTE_32F
    one, zero = (factor.ctypes.data for factor in _factors(how.kind))
    x_matrix, y_matrix, item = how.x, how.y, out.itemsize
    for k in range(how.calls):
        a = y.address + k * y_matrix.steps[0] * item
        b = x.address + k * x_matrix.steps[0] * item
        c = out.address + k * how.out_steps[0] * item
        head = handle, y_matrix.operation, x_matrix.operation, *how.sizes, one
        if how.batch == 1:
            last = c, kind, how.sizes[0], compute, DEFAULT_ALGORITHM
            library.gemm_ex(*head, a, kind, y_matrix.leading, b, kind, x_matrix.leading, zero, *last)
        else:
            first = a, kind, y_matrix.leading, y_matrix.steps[1]
            second = b, kind, x_matrix.leading, x_matrix.steps[1]
            end = c, kind, how.sizes[0], how.out_steps[1], how.batch, compute, DEFAULT_ALGORITHM
            library.gemm_strided_batched_ex(*head, *first, *second, zero, *end)
