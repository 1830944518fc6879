"""Contractions as products of matrices."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from numbagrad.kernels.cpu import gemm, pool
from numbagrad.kernels.cpu.absorbing import again, is_finite

Axes = tuple[int, ...]


def dot_general(
    x: np.ndarray, y: np.ndarray, *, contract: tuple[Axes, Axes], batch: tuple[Axes, Axes], absorbs: Axes = ()
) -> np.ndarray:
    """Result axes: batch, free of x, free of y."""
    found = _plan(x.shape, y.shape, contract, batch)
    a = x if found.x_order is None else x.transpose(found.x_order).reshape(found.a)
    b = y if found.y_order is None else y.transpose(found.y_order).reshape(found.b)
    dtype = x.dtype if x.dtype is y.dtype else np.result_type(x, y)
    if dtype.kind == "b":
        return (a.astype(np.uint8) @ b.astype(np.uint8) > 0).reshape(found.shape)
    out = pool.empty(found.out, dtype)
    if absorbs and dtype.kind in "fc":
        out = _absorbing(a, b, out, absorbs)
    else:
        gemm.matmul(a, b, out)
    return out if found.out == found.shape else out.reshape(found.shape)


def _absorbing(a: np.ndarray, b: np.ndarray, out: np.ndarray, absorbs: Axes) -> np.ndarray:
    with np.errstate(all="ignore"):
        finite = gemm.matmul(a, b, out, look=True)
        if finite or (finite is None and is_finite(out)):
            return out
        return again(np.matmul, a, b, absorbs, out)


class _Plan(NamedTuple):
    """How a contraction becomes a product of (stacks of) matrices a and b; no order where an operand is one already."""

    x_order: Axes | None
    y_order: Axes | None
    a: Axes
    b: Axes
    out: Axes
    shape: Axes


@lru_cache(maxsize=4096)
def _plan(x: Axes, y: Axes, contract: tuple[Axes, Axes], batch: tuple[Axes, Axes]) -> _Plan:
    (x_contract, y_contract), (x_batch, y_batch) = contract, batch
    x_free = [k for k in range(len(x)) if k not in x_contract and k not in x_batch]
    y_free = [k for k in range(len(y)) if k not in y_contract and k not in y_batch]
    stack = tuple(x[k] for k in x_batch)
    rows, columns = [x[k] for k in x_free], [y[k] for k in y_free]
    m, n, k = math.prod(rows), math.prod(columns), math.prod(x[a] for a in x_contract)
    x_order, y_order = (*x_batch, *x_free, *x_contract), (*y_batch, *y_contract, *y_free)
    a, b = (*stack, m, k), (*stack, k, n)
    plain_x, plain_y = a == x and x_order == tuple(range(len(x))), b == y and y_order == tuple(range(len(y)))
    out, shape = (*stack, m, n), (*stack, *rows, *columns)
    return _Plan(None if plain_x else x_order, None if plain_y else y_order, a, b, out, shape)
