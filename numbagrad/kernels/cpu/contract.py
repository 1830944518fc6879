"""Matrix products on the BLAS that NumPy links."""

from __future__ import annotations

import math

import numpy as np

from numbagrad.kernels.cpu import pool, threads
from numbagrad.kernels.cpu.absorbing import product

Axes = tuple[int, ...]
SHARED = 1 << 18  # multiplications from which on BLAS may use several threads


def dot_general(
    x: np.ndarray, y: np.ndarray, *, contract: tuple[Axes, Axes], batch: tuple[Axes, Axes], absorbs: Axes = ()
) -> np.ndarray:
    """Result axes: batch, free of x, free of y."""
    if absorbs:
        return product(lambda a, b: dot_general(a, b, contract=contract, batch=batch), x, y, absorbs)
    (x_contract, y_contract), (x_batch, y_batch) = contract, batch
    x_free = [k for k in range(x.ndim) if k not in x_contract and k not in x_batch]
    y_free = [k for k in range(y.ndim) if k not in y_contract and k not in y_batch]
    batch_shape = [x.shape[k] for k in x_batch]
    rows, columns = [x.shape[k] for k in x_free], [y.shape[k] for k in y_free]
    m, n, k = math.prod(rows), math.prod(columns), math.prod(x.shape[a] for a in x_contract)
    shape = (*batch_shape, *rows, *columns)
    a = x.transpose((*x_batch, *x_free, *x_contract)).reshape((*batch_shape, m, k))
    b = y.transpose((*y_batch, *y_contract, *y_free)).reshape((*batch_shape, k, n))
    dtype = np.result_type(x, y)
    if dtype.kind == "b":
        return (a.astype(np.uint8) @ b.astype(np.uint8) > 0).reshape(shape)
    out = pool.empty((*batch_shape, m, n), dtype)
    if m * n * k > SHARED:
        threads.dismiss()
    np.matmul(a, b, out=out)
    return out.reshape(shape)
