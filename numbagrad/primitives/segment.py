"""Rows combined by segment: segment_sum <-> take, and segment max, min, prod, logsumexp and softmax.

`ids` are integers of the shape of the leading axes of x; row k belongs to segment ids[k] of `segments`. Ids out of
range: `mode` "drop" (negative ones, too), "clamp" or "wrap". Of an empty segment the sum is 0, the product 1, the
largest -inf; nothing has a derivative there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from numbagrad.core.dtypes import accumulated
from numbagrad.core.registry import Linear, Primitive, Routed, Smooth
from numbagrad.core.transform import Tape, push_forward
from numbagrad.primitives.broadcast import reshape_to
from numbagrad.primitives.elementwise import convert, op
from numbagrad.primitives.index import flat_rows, take
from numbagrad.primitives.join import concatenate
from numbagrad.primitives.slices import getitem

_times = op("zero_product")

segment_sum = Linear(
    "segment_sum",
    "segment:segment_sum",
    lambda g, x, ids, *, segments, mode: take(g, ids, mode=mode),
    doc="Sums of the rows of each segment. float32 is accumulated in float64. Adjoint: take.",
)

# --- max, min: the route is each element's share

segment_shares = Primitive(
    "segment_shares",
    "segment:segment_shares",
    doc="Share of each element in its segment's extremum: ties equal, 0 for the others and for what is dropped.",
)


def _extremum_apply(route: Any, tangents: Any, x: Any, ids: Any, *, segments: int, mode: str) -> Any:
    return segment_sum(_times(tangents[0], route), ids, segments=segments, mode=mode)


def _extremum_transpose(route: Any, g: Any, x: Any, ids: Any, *, segments: int, mode: str) -> Any:
    return _times(take(g, ids, mode=mode), route), None


segment_max, segment_min = (
    Routed(
        f"segment_{name}",
        f"segment:segment_{name}",
        lambda out, x, ids, *, segments, mode: segment_shares(x, ids, out, mode=mode),
        _extremum_apply,
        _extremum_transpose,
        doc=f"The {word} of the rows of each segment; nan if one is. Ties share the derivative equally.",
    )
    for name, word in (("max", "largest"), ("min", "smallest"))
)

# --- prod: its derivative is that of a tree of products over neighbours in a segment, exact at any order

segment_tree = Primitive(
    "segment_tree",
    "segment:segment_tree",
    doc="Row numbers of the factors of every level of a tree of products, see tree_sizes; the last row number is 1's.",
)


def tree_sizes(count: int, segments: int, longest: int) -> list[int]:
    """Products of every level, at most: each segment's rows are halved until one is left; then the results."""
    sizes = []
    while longest > 1:
        count = min(count, (count + segments) // 2)
        longest = (longest + 1) // 2
        sizes.append(count)
    return [*sizes, segments]


def _longest(ids: Any, segments: int, mode: str) -> int:
    """Rows of the largest segment; all, if that cannot be known."""
    if ids.__class__ is not np.ndarray:
        return max(1, ids.size)
    rows = flat_rows.run((ids,), {"rows": segments, "mode": mode})
    return int(np.bincount(rows + 1, minlength=2)[1:].max())


def _product_tree(x: Any, ids: Any, segments: int, mode: str) -> Any:
    rows = x.shape[len(ids.shape) :]
    sizes = tree_sizes(ids.size, segments, _longest(ids, segments, mode))
    dtype = x.dtype
    x = convert(reshape_to(x, (math.prod(ids.shape), *rows)), accumulated(dtype))
    tables = segment_tree(ids, segments=segments, mode=mode, sizes=tuple(sizes))
    one = np.ones((1, *rows), x.dtype)
    at = 0
    for size in sizes[:-1]:
        x = concatenate(x, one, axis=0)
        left, right = (getitem(tables, key=(slice(at + k * size, at + (k + 1) * size),)) for k in (0, 1))
        x = op("multiply")(take(x, left, mode="clamp"), take(x, right, mode="clamp"))
        at += 2 * size
    last = getitem(tables, key=(slice(at, at + segments),))
    return convert(take(concatenate(x, one, axis=0), last, mode="clamp"), dtype)


def _prod_vjp(g: Any, out: Any, x: Any, ids: Any, *, segments: int, mode: str) -> Any:
    if ids.size == 0 or segments == 0:
        return None, None
    tape = Tape(lambda v: [_product_tree(v[0], ids, segments, mode)], [x], "vjp")
    return (*tape.back([g], release=True), None)


def _prod_jvp(tangents: Any, out: Any, x: Any, ids: Any, *, segments: int, mode: str) -> Any:
    if ids.size == 0 or segments == 0:
        return None
    _, (t,) = push_forward(lambda v: [_product_tree(v[0], ids, segments, mode)], [x], tangents[:1])
    return t


segment_prod = Smooth(
    "segment_prod",
    "segment:segment_prod",
    _prod_vjp,
    _prod_jvp,
    doc="Products of the rows of each segment; the derivative is exact with zeros, at any order.",
)

# --- sums of exponentials


def _logsumexp_vjp(g: Any, out: Any, x: Any, ids: Any, *, segments: int, mode: str) -> Any:
    return _times(take(g, ids, mode=mode), segment_softmax(x, ids, segments=segments, mode=mode)), None


def _logsumexp_jvp(tangents: Any, out: Any, x: Any, ids: Any, *, segments: int, mode: str) -> Any:
    weights = segment_softmax(x, ids, segments=segments, mode=mode)
    return segment_sum(_times(tangents[0], weights), ids, segments=segments, mode=mode)


segment_logsumexp = Smooth(
    "segment_logsumexp",
    "segment_exp:segment_logsumexp",
    _logsumexp_vjp,
    _logsumexp_jvp,
    doc="log of the sum of the exponentials of each segment's rows, without overflow. Derivative: segment_softmax.",
)


def _softmax_map(g: Any, s: Any, ids: Any, segments: int, mode: str) -> Any:
    """The Jacobian, which is symmetric: s * (g - sum of g * s)."""
    mean = segment_sum(_times(g, s), ids, segments=segments, mode=mode)
    return _times(op("subtract")(g, take(mean, ids, mode=mode)), s)


segment_softmax = Smooth(
    "segment_softmax",
    "segment_exp:segment_softmax",
    lambda g, out, x, ids, *, segments, mode: (_softmax_map(g, out, ids, segments, mode), None),
    lambda tangents, out, x, ids, *, segments, mode: _softmax_map(tangents[0], out, ids, segments, mode),
    doc="exp(x) / (sum of exp(x) over the segment); of several +inf equal shares, 0 where all are -inf or dropped.",
)
