"""Linear algebra that needs no factorisation: norms and products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numbagrad.core.arguments import arrays_of, owned
from numbagrad.core.array import Array
from numbagrad.core.errors import message
from numbagrad.numpy.creation import eye
from numbagrad.numpy.products import cross, diagonal, matmul, outer, tensordot, trace, vecdot
from numbagrad.numpy.reductions import Axis, norm
from numbagrad.numpy.shaping import broadcast_to, matrix_transpose

# fmt: off
__all__ = [
    "cross", "diagonal", "matmul", "matrix_norm", "matrix_power", "matrix_transpose", "multi_dot", "norm", "outer",
    "tensordot", "trace", "vecdot", "vector_norm",
]
# fmt: on


def vector_norm(x: Any, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> Array:
    """Vector norm of any order over axes taken as one (all by default)."""
    a = Array(owned(x, "vector_norm"))
    if isinstance(axis, int):
        return norm(a, ord, axis, keepdims)
    axes = tuple(range(a.ndim)) if axis is None else tuple(k % a.ndim for k in axis)
    kept = tuple(k for k in range(a.ndim) if k not in axes)
    flat = a.transpose(*kept, *axes).reshape((*(a.shape[k] for k in kept), -1))
    found = norm(flat, ord, -1)
    return found.reshape([1 if k in axes else n for k, n in enumerate(a.shape)]) if keepdims else found


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Matrix norm over the last two axes."""
    return norm(x, ord, (-2, -1), keepdims)


def matrix_power(a: Any, n: int) -> Array:
    """A square matrix to a non-negative integer power, by squaring."""
    x = Array(owned(a, "matrix_power"))
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(message("matrix_power", "not square", x.shape, "square matrices in the last two axes"))
    if n < 0:
        raise ValueError(message("matrix_power", "a negative power needs the inverse", n, "n >= 0"))
    result = None
    while n:
        if n & 1:
            result = x if result is None else result @ x
        n >>= 1
        x = x @ x if n else x
    return broadcast_to(eye(x.shape[-1], dtype=x.dtype, device=x.device), x.shape) if result is None else result


def multi_dot(arrays: Sequence[Any]) -> Array:
    """Product of several matrices (vectors at the ends), in the cheapest order."""
    parts = arrays_of("multi_dot", *arrays)
    if len(parts) < 2:
        raise ValueError(message("multi_dot", "too few matrices", len(parts), "at least two"))
    sizes = [1 if p.ndim == 1 and k == 0 else p.shape[0] for k, p in enumerate(parts)]
    sizes.append(1 if parts[-1].ndim == 1 else parts[-1].shape[-1])
    n = len(parts)
    cost = [[0] * n for _ in range(n)]
    cut = [[0] * n for _ in range(n)]
    for span in range(1, n):
        for i in range(n - span):
            j = i + span
            options = [(cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)]
            cost[i][j], cut[i][j] = min(options)

    def product(i: int, j: int) -> Array:
        return parts[i] if i == j else matmul(product(i, cut[i][j]), product(cut[i][j] + 1, j))

    return product(0, n - 1)
