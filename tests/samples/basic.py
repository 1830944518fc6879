"""Cases of views, indexing, reductions, products and rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from samples.cases import case, r


def _views() -> None:
    for x, shape in ((r(3), (4, 3)), (r(2, 1, 3), (2, 5, 3)), (r(), (2, 3)), (r(1), (0,)), (r(4), (4,))):
        case("broadcast_to", x, reference=lambda x, s=shape: np.broadcast_to(x, s), shape=shape)
    for x, shape in ((r(2, 3), (6,)), (r(6), (3, 1, 2)), (r(), (1, 1)), (r(0, 3), (3, 0)), (r(4, 3).T, (12,))):
        case("reshape", x, reference=lambda x, s=shape: x.reshape(s), shape=shape)
    for x, axes in ((r(2, 3), (1, 0)), (r(2, 3, 4), (2, 0, 1)), (r(5), (0,)), (r(), ()), (r(0, 2), (1, 0))):
        case("transpose", x, reference=lambda x, a=axes: x.transpose(a), axes=axes)
    case("transpose", r(2, 3, dtype=complex), reference=lambda x: x.T, axes=(1, 0))
    for x in (r(3, 3), r(2, 4, 4), r(1, 1), r(2, 0, 0), r(3, 3, dtype=complex)):
        case("diagonal", x, reference=lambda x: np.diagonal(x, axis1=-2, axis2=-1))
    for x in (r(3), r(2, 4), r(1), r(0), r(3, dtype=complex)):
        case("embed_diagonal", x, reference=_embed_diagonal)
    for axis, parts in (
        (0, (r(2), r(3))),
        (1, (r(2, 1), r(2, 0), r(2, 3))),
        (0, (r(2, 2),)),
        (2, (r(1, 2, 2), r(1, 2, 1))),
    ):
        case("concatenate", *parts, reference=lambda *p, k=axis: np.concatenate(p, k), axis=axis)
    case("stop_gradient", r(2, 3), reference=lambda x: x, order=0)
    case("stop_gradient", r(), reference=lambda x: x, order=0)


def _embed_diagonal(x: np.ndarray) -> np.ndarray:
    return x[..., None] * np.eye(x.shape[-1])


KEYS = (
    ((2,), (4,)),
    ((-1,), (4, 3)),
    ((slice(1, 4, 2),), (5, 2)),
    ((slice(None, None, -1), slice(None)), (3, 4)),
    ((None, slice(None), 1), (3, 4)),
    ((slice(3, 0, -2), None, slice(0, 0)), (4, 3)),
    ((), ()),
)


def _parts() -> None:
    for key, shape in KEYS:
        part = np.empty(shape)[key].shape
        case("getitem", r(*shape), reference=lambda x, k=key: x[k], key=key)
        case("embed", r(*part), reference=lambda x, s=shape, k=key: _with(np.zeros(s), k, x), shape=shape, key=key)
        case("add_at", r(*shape), r(*part, seed=1), reference=lambda t, x, k=key: _with(t, k, t[k] + x), key=key)
        case("setitem", r(*shape), r(*part, seed=1), reference=lambda t, x, k=key: _with(t, k, x), key=key)
        case(
            "add_into",
            r(*shape),
            r(*part, seed=1),
            reference=lambda t, x, k=key: _with(t, k, t[k] + x),
            key=key,
            order=0,
        )
    case("getitem", r(4, dtype=complex), reference=lambda x: x[::2], key=(slice(None, None, 2),))
    case(
        "setitem",
        r(4, dtype=complex),
        r(2, dtype=complex),
        reference=lambda t, x: _with(t, slice(0, 2), x),
        key=(slice(0, 2),),
    )


def _with(target: np.ndarray, key: Any, new: Any) -> np.ndarray:
    out = target.copy()
    out[key] = new
    return out


AXES = (
    ((5,), (0,)),
    ((3, 4), (0,)),
    ((3, 4), (1,)),
    ((3, 4), (0, 1)),
    ((2, 3, 4), (0, 2)),
    ((2, 3, 4), (1,)),
    ((3,), ()),
    ((), ()),
)


def _reductions() -> None:
    for shape, axes in (*AXES, ((0, 3), (0,)), ((3, 0), (0,)), ((2, 300), (1,)), ((300, 2), (0,))):
        x = r(*shape)
        case("reduce_sum", x, reference=lambda x, a=axes: np.sum(x, a), axes=axes)
        if x.size < 100:
            case("reduce_prod", x, reference=lambda x, a=axes: np.prod(x, a), axes=axes)
        finite = np.all(np.isfinite(_logsumexp(x, axes)))  # the sum of nothing is -inf: no differences there
        case("logsumexp", x, reference=lambda x, a=axes: _logsumexp(x, a), axes=axes, order=2 * int(finite))
        case("reduce_any", x > 1, reference=lambda x, a=axes: np.any(x, a), axes=axes, order=0)
        case("reduce_all", x > -1, reference=lambda x, a=axes: np.all(x, a), axes=axes, order=0)
        if 0 not in shape:
            case("reduce_max", x, reference=lambda x, a=axes: np.max(x, a), axes=axes)
            case("reduce_min", x, reference=lambda x, a=axes: np.min(x, a), axes=axes)
        if len(axes) == 1 and 0 not in shape:
            case("argmax", x, reference=lambda x, a=axes: np.argmax(x, a[0]), axis=axes[0], order=0)
            case("argmin", x, reference=lambda x, a=axes: np.argmin(x, a[0]), axis=axes[0], order=0)
    for dtype in (np.float32, complex, np.complex64):
        case("reduce_sum", r(3, 7, dtype=dtype), reference=lambda x: np.sum(x, 1), axes=(1,), order=1)
        case("reduce_prod", r(3, 4, dtype=dtype), reference=lambda x: np.prod(x, 1), axes=(1,), order=1)
    for dtype in (np.int64, np.int8, np.uint8, bool):
        x = r(3, 7, dtype=dtype)
        wide = np.sum(x).dtype
        case("reduce_sum", x, reference=lambda x: np.sum(x, 0), axes=(0,), dtype=wide, order=0)
        case("reduce_prod", x[:, :2], reference=lambda x: np.prod(x, 0), axes=(0,), dtype=wide, order=0)
        case("reduce_max", x, reference=lambda x: np.max(x, 0), axes=(0,), order=0)
        case("reduce_min", x, reference=lambda x: np.min(x, 1), axes=(1,), order=0)
    for x in ([np.nan, 1.0, 3.0], [1.0, np.nan, np.nan], [2.0, 2.0, 1.0], [np.inf, -np.inf, 0.0], [0.0, -0.0, 0.0]):
        case("argmax", x, reference=np.argmax, axis=0, order=0)
        case("argmin", x, reference=np.argmin, axis=0, order=0)
        case("reduce_max", x, reference=np.max, axes=(0,), order=0)
        case("reduce_min", x, reference=np.min, axes=(0,), order=0)
        case("logsumexp", x, reference=_logsumexp, axes=(0,), order=0)
    case("reduce_prod", [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0]], reference=lambda x: np.prod(x, 1), axes=(1,), order=3)
    case("logsumexp", [1000.0, 1000.0], reference=_logsumexp, axes=(0,))
    case("logsumexp", [-np.inf, -np.inf], reference=_logsumexp, axes=(0,), order=0)


def _logsumexp(x: np.ndarray, axes: Any = None) -> np.ndarray:
    if x.size == 0 or axes == ():
        with np.errstate(divide="ignore"):
            return np.log(np.sum(np.exp(x), axes))
    return special.logsumexp(x, axes)


INDEX = (((5,), [1, 3, 1]), ((4, 3), [[0, -1], [2, 2]]), ((3, 2, 2), [2]), ((3,), []), ((3, 2), 1), ((4, 0), [1, 1]))


def _rows() -> None:
    for shape, given in INDEX:
        index = np.asarray(given, np.int64)
        x, u = r(*shape), r(*index.shape, *shape[1:], seed=2)
        case("take", x, index, reference=lambda x, i: x[i], mode="raise")
        for name, ufunc in (("add", np.add), ("max", np.maximum), ("min", np.minimum)):
            case(f"scatter_{name}", x, index, u, reference=lambda t, i, u, f=ufunc: _at(f, t, i, u), mode="raise")
        case("scatter_add_into", x, index, u, reference=lambda t, i, u: _at(np.add, t, i, u), mode="raise", order=0)
        case("scatter_set", x, index, u, reference=lambda t, i, u: _with(t, i, u), mode="raise")
        rows = shape[0]
        case("last_writer", index, reference=lambda i, n=rows: _last_writer(i, n), rows=rows, mode="raise", order=0)
        case("flat_rows", index, reference=lambda i, n=rows: i.ravel() % n, rows=rows, mode="raise", order=0)
    outside = np.array([0, 7, -9, 2])
    for mode, rows in (("clip", [0, 2, 0, 2]), ("wrap", [0, 1, 0, 2])):
        case("take", r(3, 2), outside, reference=lambda x, i, k=rows: x[k], mode=mode)
        case("scatter_add", r(3), outside, r(4), reference=lambda t, i, u, k=rows: _at(np.add, t, k, u), mode=mode)
        case("scatter_set", r(3), outside, r(4), reference=lambda t, i, u, k=rows: _with(t, k, u), mode=mode)
        case("scatter_max", r(3), outside, r(4), reference=lambda t, i, u, k=rows: _at(np.maximum, t, k, u), mode=mode)
    kept = [0, 3]
    case(
        "take",
        r(3, 2),
        outside,
        reference=lambda x, i: np.stack([x[0], [np.nan] * 2, [np.nan] * 2, x[2]]),
        mode="fill",
        order=0,
    )
    case("take", r(3, 2), outside, reference=lambda x, i: np.stack([x[0], [0, 0], [0, 0], x[2]]), mode="zero")
    for name, ufunc in (("add", np.add), ("max", np.maximum), ("min", np.minimum)):
        drop = lambda t, i, u, f=ufunc: _at(f, t, [0, 2], u[kept])
        case(f"scatter_{name}", r(3), outside, r(4), reference=drop, mode="fill")
    case("scatter_set", r(3), outside, r(4), reference=lambda t, i, u: _with(t, [0, 2], u[kept]), mode="fill")
    for dtype in (np.float32, complex, np.int32, bool):
        x, order = r(4, 2, dtype=dtype), int(np.dtype(dtype).kind in "fc")
        case("take", x, np.array([3, 0]), reference=lambda x, i: x[i], mode="raise", order=order)
        case("scatter_set", x, np.array([3, 3]), x[:2], reference=_with, mode="raise", order=order)


def _at(ufunc: Any, target: np.ndarray, index: Any, updates: np.ndarray) -> np.ndarray:
    out = target.copy()
    ufunc.at(out, np.asarray(index), updates)
    return out


def _last_writer(index: np.ndarray, rows: int) -> np.ndarray:
    out = np.full(rows, -1)
    for k, row in enumerate(index.ravel()):
        out[row] = k
    return out


def _dot(x: np.ndarray, y: np.ndarray, contract: Any, batch: Any) -> np.ndarray:
    letters = iter("abcdefghijk")
    xs, ys = [next(letters) for _ in x.shape], [next(letters) for _ in y.shape]
    for i, j in (*zip(*contract, strict=True), *zip(*batch, strict=True)):
        ys[j] = xs[i]
    lead = [xs[i] for i in batch[0]]
    free = [c for i, c in enumerate(xs) if i not in (*contract[0], *batch[0])]
    free += [c for j, c in enumerate(ys) if j not in (*contract[1], *batch[1])]
    return np.einsum(f"{''.join(xs)},{''.join(ys)}->{''.join(lead + free)}", x, y)


def _products() -> None:
    for xs, ys, contract, batch in (
        ((3, 4), (4, 5), ((1,), (0,)), ((), ())),
        ((4,), (4,), ((0,), (0,)), ((), ())),
        ((2, 3, 4), (2, 4, 5), ((2,), (1,)), ((0,), (0,))),
        ((2, 3, 4), (4, 3, 5), ((2, 1), (0, 1)), ((), ())),
        ((2, 3, 4), (3, 2, 4), ((0,), (1,)), ((2, 1), (2, 0))),
        ((3,), (2,), ((), ()), ((), ())),
        ((), (2,), ((), ()), ((), ())),
        ((3, 0), (0, 2), ((1,), (0,)), ((), ())),
    ):
        reference = lambda x, y, c=contract, b=batch: _dot(x, y, c, b)
        case("dot_general", r(*xs), r(*ys, seed=1), reference=reference, contract=contract, batch=batch)
    plain = dict(contract=((1,), (0,)), batch=((), ()))
    for dtype in (np.float32, complex, np.complex64, np.int64, bool):
        order = int(np.dtype(dtype).kind in "fc")
        case("dot_general", r(3, 4, dtype=dtype), r(4, 2, dtype=dtype), reference=np.matmul, order=order, **plain)


def _softmax() -> None:
    for shape in ((5,), (3, 4), (2, 3, 2), (3, 1), (0, 3)):
        x, g = r(*shape), r(*shape, seed=3)
        total = lambda v: np.sum(v, -1, keepdims=True)
        case("softmax", x, reference=lambda x: np.exp(x) / np.sum(np.exp(x), -1, keepdims=True))
        case("log_softmax", x, reference=lambda x: x - np.log(np.sum(np.exp(x), -1, keepdims=True)))
        case("softmax_pull", g, x, reference=lambda g, s, f=total: s * (g - f(g * s)))
        case("log_softmax_push", g, x, reference=lambda t, y, f=total: t - f(t * np.exp(y)))
        case("log_softmax_pull", g, x, reference=lambda g, y, f=total: g - np.exp(y) * f(g))
    case("softmax", [1000.0, 1000.0], reference=lambda x: np.array([0.5, 0.5]))
    case("log_softmax", [1000.0, 1000.0], reference=lambda x: -np.log([2.0, 2.0]))


for _make in (_views, _parts, _reductions, _rows, _products, _softmax):
    _make()
