"""Products of arrays: matmul, dot, tensordot, einsum and relatives, all made of `dot_general`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from numbagrad.core.arguments import arrays_of, owned, promote
from numbagrad.core.array import Array
from numbagrad.core.dtypes import check_dtype
from numbagrad.core.errors import message
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy import padding, reductions, shaping
from numbagrad.numpy.reductions import normalize_axis
from numbagrad.primitives import layout
from numbagrad.primitives.broadcast import reduce_sum
from numbagrad.primitives.contract import dot_general

# fmt: off
__all__ = [
    "cross", "diag", "diagflat", "diagonal", "dot", "einsum", "inner", "kron", "matmul", "outer", "tensordot",
    "trace", "vdot", "vecdot",
]
# fmt: on


def _pair(x: Any, y: Any, name: str, dtype: Any = None) -> tuple[Any, Any]:
    (x, y), _ = promote((x, y), name, None if dtype is None else check_dtype(name, dtype))
    return x, y


def _product(x: Any, y: Any, contract: Any, batch: Any = ((), ())) -> Array:
    return Array(dot_general(x, y, contract=contract, batch=batch))


def matmul(x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None) -> Array:
    """Matrix product over the last two axes, the leading ones broadcast; 1-d operands are a row and a column.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.grad(lambda a: np.sum(a @ np.ones((2, 3))))(np.ones((1, 2)))
    Array([[3., 3.]], dtype=float64)
    """
    x, y = _pair(x1, x2, "matmul", dtype)
    if not x.shape or not y.shape:
        raise ValueError(message("matmul", "0-d operands", f"{x.shape} and {y.shape}", "at least one axis", "Use *."))
    inner = -1 if len(y.shape) == 1 else -2
    if x.shape[-1] != y.shape[inner]:
        raise ValueError(
            message("matmul", "inner lengths differ", f"{x.shape} @ {y.shape}", f"{x.shape[-1]} == {y.shape[inner]}")
        )
    return ew.store(_matmul(x, y), out, "matmul")


def _matmul(x: Any, y: Any) -> Array:
    nx, ny = len(x.shape), len(y.shape)
    if ny <= 2 or (nx == 1 and ny == 2):  # no batch on the right: one product of a tall matrix
        return _product(x, y, ((nx - 1,), (max(0, ny - 2),)))
    if nx == 1:  # (k) @ (..., k, n): columns of the right operand
        return _product(x, y, ((0,), (ny - 2,)))
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x = shaping.broadcast_to(Array(x), (*lead, *x.shape[-2:]))._value
    y = shaping.broadcast_to(Array(y), (*lead, *y.shape[-2:]))._value
    axes = tuple(range(len(lead)))
    n = len(lead)
    return _product(x, y, ((n + 1,), (n,)), (axes, axes))


def dot(a: Any, b: Any, out: Any = None) -> Array:
    """Sum of products over the last axis of a and the second to last of b; product of scalars."""
    x, y = _pair(a, b, "dot")
    if not x.shape or not y.shape:
        return ew.store(ew.call("multiply", Array(x), Array(y)), out, "dot")
    k = max(0, len(y.shape) - 2)
    if x.shape[-1] != y.shape[k]:
        raise ValueError(
            message("dot", "inner lengths differ", f"{x.shape} and {y.shape}", f"{x.shape[-1]} == {y.shape[k]}")
        )
    return ew.store(_product(x, y, ((len(x.shape) - 1,), (k,))), out, "dot")


def vdot(a: Any, b: Any) -> Array:
    """Sum of conj(a) * b over all elements."""
    x, y = arrays_of("vdot", a, b)
    return dot(shaping.ravel(ew.conj(x)), shaping.ravel(y))


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """Sum of conj(x1) * x2 over an axis, the others broadcast."""
    x, y = arrays_of("vecdot", x1, x2)
    return reductions.sum(ew.conj(x) * y, axis)


def inner(a: Any, b: Any) -> Array:
    """Sum of products over the last axes."""
    x, y = _pair(a, b, "inner")
    if not x.shape or not y.shape:
        return ew.call("multiply", Array(x), Array(y))
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(message("inner", "last lengths differ", f"{x.shape} and {y.shape}", "equal last lengths"))
    return _product(x, y, ((len(x.shape) - 1,), (len(y.shape) - 1,)))


def outer(a: Any, b: Any) -> Array:
    """Products of every element of a with every element of b."""
    x, y = arrays_of("outer", a, b)
    return shaping.ravel(x).reshape(-1, 1) * shaping.ravel(y)


def kron(a: Any, b: Any) -> Array:
    """Kronecker product."""
    x, y = arrays_of("kron", a, b)
    n = max(x.ndim, y.ndim)
    xs, ys = (1,) * (n - x.ndim) + x.shape, (1,) * (n - y.ndim) + y.shape
    left = x.reshape([m for k in xs for m in (k, 1)])
    right = y.reshape([m for k in ys for m in (1, k)])
    return (left * right).reshape([p * q for p, q in zip(xs, ys, strict=True)])


def tensordot(a: Any, b: Any, axes: Any = 2) -> Array:
    """Sum of products over given axes of each; a number takes the last of a and the first of b."""
    x, y = _pair(a, b, "tensordot")
    nx, ny = len(x.shape), len(y.shape)
    if isinstance(axes, int):
        first, second = tuple(range(nx - axes, nx)), tuple(range(axes))
    else:
        first, second = (tuple(s) if isinstance(s, (tuple, list)) else (s,) for s in axes)
    ax = tuple(normalize_axis(k, nx, "tensordot") for k in first)
    ay = tuple(normalize_axis(k, ny, "tensordot") for k in second)
    if [x.shape[k] for k in ax] != [y.shape[k] for k in ay]:
        raise ValueError(
            message(
                "tensordot",
                "lengths of the summed axes differ",
                f"{x.shape} over {ax}, {y.shape} over {ay}",
                "equal lengths",
            )
        )
    return _product(x, y, (ax, ay))


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Sum of a diagonal."""
    return reductions.sum(diagonal(a, offset, axis1, axis2), -1)


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """A diagonal of two axes, as the last axis."""
    x = shaping.moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = x.shape[-2:]
    r0, c0 = max(0, -offset), max(0, offset)
    n = max(0, min(rows - r0, columns - c0))
    return Array(layout.diagonal(x[..., r0 : r0 + n, c0 : c0 + n]._value))


def diag(v: Any, k: int = 0) -> Array:
    """A diagonal of a matrix, or a matrix with the vector on it."""
    x = Array(owned(v))
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError(message("diag", "needs a vector or a matrix", x.shape, "1 or 2 axes"))
    square = Array(layout.embed_diagonal(x._value))
    return padding.pad(square, ((max(0, -k), max(0, k)), (max(0, k), max(0, -k)))) if k else square


def diagflat(v: Any, k: int = 0) -> Array:
    """A matrix with all elements of v on a diagonal."""
    return diag(shaping.ravel(v), k)


def cross(a: Any, b: Any, axis: int = -1) -> Array:
    """Vector product of 3-vectors along an axis."""
    x, y = (shaping.moveaxis(v, axis, -1) for v in arrays_of("cross", a, b))
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise ValueError(message("cross", "not 3-vectors", f"{x.shape} and {y.shape}", f"length 3 along axis {axis}"))
    (x0, x1, x2), (y0, y1, y2) = ([v[..., k] for k in range(3)] for v in (x, y))
    return shaping.moveaxis(shaping.stack([x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0], -1), -1, axis)


# --- einsum


def einsum(subscripts: Any, /, *operands: Any, optimize: Any = "optimal", dtype: Any = None) -> Array:
    """Sum of products in Einstein's notation, operands contracted pairwise in the cheapest order.

    Repeated letters within an operand take a diagonal; `...` broadcasts.

    >>> import numbagrad.numpy as np
    >>> np.einsum("ij,j->i", np.ones((2, 3)), np.arange(3.0))
    Array([3., 3.], dtype=float64)
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _interleaved((subscripts, *operands))
    if len(operands) == 1:
        operands = (Array(owned(operands[0])),)  # the result may be a view
    values, _ = promote(operands, "einsum", None if dtype is None else check_dtype("einsum", dtype))
    terms, result = _parse_einsum(subscripts, [v.shape for v in values])
    arrays = [_diagonals(v, t) for v, t in zip(values, terms, strict=True)]
    for positions in _einsum_path(terms, result, values):
        chosen = [arrays[p] for p in positions]
        rest = [a for k, a in enumerate(arrays) if k not in positions]
        needed = set(result).union(*(t for _, t in rest)) if rest else set(result)
        joined = chosen[0]
        for k, other in enumerate(chosen[1:], 2):
            joined = _contract(joined, other, needed.union(*(t for _, t in chosen[k:])))
        arrays = [*rest, joined]
    value, term = _sum_out(*arrays[0], set(result))
    order = tuple(term.index(c) for c in result)
    return shaping.transpose(Array(value), order)


def _interleaved(parts: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """einsum(x, [0, 1], y, [1, 2], [0, 2]) as a string."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

    def word(axes: Sequence[Any]) -> str:
        return "".join("..." if k is Ellipsis else letters[k] for k in axes)

    operands = parts[0::2] if len(parts) % 2 == 0 else parts[0:-1:2]
    text = ",".join(word(axes) for axes in parts[1 : 2 * len(operands) : 2])
    return (text + "->" + word(parts[-1]) if len(parts) % 2 else text), tuple(operands)


def _parse_einsum(subscripts: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    """Letters per operand and of the result; `...` becomes capital letters beyond those used."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise ValueError(
            message("einsum", "operands do not match the subscripts", f"{len(shapes)} for {subscripts!r}", len(terms))
        )
    spare = [c for c in "ZYXWVUTSRQPONMLKJIHGFEDCBA" if c not in text]
    widths = [len(s) - len(t.replace("...", "")) for t, s in zip(terms, shapes, strict=True)]
    widest = max((w for t, w in zip(terms, widths, strict=True) if "..." in t), default=0)
    dots = "".join(spare[:widest])[::-1]
    for k, (term, width, shape) in enumerate(zip(terms, widths, shapes, strict=True)):
        if (width != 0 and "..." not in term) or width < 0:
            raise ValueError(
                message("einsum", "wrong number of axes", f"shape {shape} for {term!r}", "one letter per axis")
            )
        terms[k] = term.replace("...", dots[len(dots) - width :])
    if not arrow:
        joined = "".join(terms)
        right = dots + "".join(sorted(c for c in set(joined) if joined.count(c) == 1 and c not in dots))
    right = right.replace("...", dots)
    unknown = set(right) - set("".join(terms))
    if unknown or len(set(right)) != len(right):
        raise ValueError(message("einsum", "wrong output letters", right, "different letters of the operands"))
    return terms, right


def _einsum_path(terms: list[str], result: str, values: Sequence[Any]) -> list[tuple[int, ...]]:
    if len(values) <= 2:
        return [tuple(range(len(values)))]
    stand_ins = [np.broadcast_to(np.zeros(()), v.shape) for v in values]
    path = np.einsum_path(",".join(terms) + "->" + result, *stand_ins, optimize="greedy")[0][1:]
    return [tuple(sorted(p)) for p in path]


def _diagonals(value: Any, term: str) -> tuple[Any, str]:
    """Repeated letters of one operand: the diagonal."""
    while len(set(term)) < len(term):
        c = next(c for c in term if term.count(c) > 1)
        i = term.index(c)
        j = term.index(c, i + 1)
        if value.shape[i] != value.shape[j]:
            raise ValueError(message("einsum", f"lengths of {c!r} differ", value.shape, "equal lengths"))
        rest = [k for k in range(len(term)) if k not in (i, j)]
        value = layout.diagonal(layout.transpose(value, axes=(*rest, i, j)))
        term = "".join(term[k] for k in rest) + c
    return value, term


def _sum_out(value: Any, term: str, keep: set[str]) -> tuple[Any, str]:
    axes = tuple(k for k, c in enumerate(term) if c not in keep)
    return (reduce_sum(value, axes=axes), "".join(c for c in term if c in keep)) if axes else (value, term)


def _contract(left: tuple[Any, str], right: tuple[Any, str], keep: set[str]) -> tuple[Any, str]:
    """Product of two operands; letters not kept are summed as early as possible."""
    x, s = _sum_out(*left, keep | set(right[1]))
    y, t = _sum_out(*right, keep | set(s))
    lengths: dict[str, int] = {}
    for shape, term in ((x.shape, s), (y.shape, t)):
        for n, c in zip(shape, term, strict=True):
            if lengths.setdefault(c, n) not in (n, 1) and n != 1:
                raise ValueError(
                    message("einsum", f"lengths of {c!r} differ", f"{lengths[c]} and {n}", "equal lengths")
                )
            lengths[c] = max(lengths[c], n) if 0 not in (n, lengths[c]) else 0
    x, y = (_stretch(v, term, lengths, other) for v, term, other in ((x, s, t), (y, t, s)))
    batch = [c for c in s if c in t and c in keep]
    summed = [c for c in s if c in t and c not in keep]
    contract = tuple(tuple(term.index(c) for c in summed) for term in (s, t))
    batched = tuple(tuple(term.index(c) for c in batch) for term in (s, t))
    free = [c for c in s if c not in t] + [c for c in t if c not in s]
    return dot_general(x, y, contract=contract, batch=batched), "".join(batch + free)


def _stretch(value: Any, term: str, lengths: dict[str, int], other: str) -> Any:
    """Length-1 axes of shared letters broadcast (only `...` axes meet this)."""
    shape = tuple(lengths[c] if c in other else n for n, c in zip(value.shape, term, strict=True))
    return value if shape == value.shape else shaping.broadcast_to(Array(value), shape)._value
