"""Cases of sorting and of running results along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from samples.cases import case, r

SHAPES = (((6,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 3, 4), 1), ((1,), 0), ((0,), 0), ((2, 0), 1), ((0, 3), 1))


def _stable(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    if not descending:
        return np.argsort(x, axis, kind="stable")
    last = x.shape[axis] - 1
    return np.flip(last - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)


def _sorted(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    return np.take_along_axis(x, _stable(x, axis, descending), axis)


def _sorting() -> None:
    for shape, axis in SHAPES:
        x = r(*shape)
        for down in (False, True):
            by = dict(axis=axis, descending=down)
            case("sort", x, reference=lambda x, k=axis, d=down: _sorted(x, k, d), **by)
            both = lambda x, k=axis, d=down: (_sorted(x, k, d), _stable(x, k, d))
            case("sort_routed", x, reference=both, **by)
            case("argsort", x, reference=lambda x, k=axis, d=down: _stable(x, k, d), order=0, **by)
        if x.size:
            kth = (x.shape[axis] // 2,)
            partition = lambda x, k=axis, t=kth: np.argpartition(x, t, k)
            case("argpartition", x, reference=partition, order=0, kth=kth, axis=axis)
    for dtype in (np.float32, np.int64, np.int32, np.int8, np.uint8, np.uint64, bool):
        x = np.resize(r(5, dtype=dtype), (3, 7))  # repeated elements
        order = int(np.dtype(dtype).kind == "f")
        case("sort", x, reference=lambda x: _sorted(x, 1, True), axis=1, descending=True, order=0)
        case("sort", r(3, 7, dtype=dtype), reference=lambda x: np.sort(x, 0), axis=0, order=order)
        case("argsort", x, reference=lambda x: _stable(x, 1, True), axis=1, descending=True, order=0)
        case("top_k", x, reference=lambda x: _stable(x, 1, True)[:, :3], k=3, order=0)
    for shape, k in (((6,), 2), ((2, 3, 4), 4), ((3,), 0), ((0, 3), 2), ((2, 5000), 3)):
        case("top_k", r(*shape), reference=lambda x, k=k: _stable(x, x.ndim - 1, True)[..., :k], k=k, order=0)
    line, values = np.sort(r(6)), r(2, 3, seed=1)
    for side in ("left", "right"):
        place = lambda a, v, s=side: np.searchsorted(a, v, s)
        case("searchsorted", line, values, reference=place, side=side, order=0)
        case("searchsorted", np.array([1, 2, 2, 3]), np.asarray(2), reference=place, side=side, order=0)
        case("searchsorted", r(0), r(2), reference=place, side=side, order=0)


def _backwards(function: Callable[..., np.ndarray], axis: int, reverse: bool) -> Callable[..., np.ndarray]:
    def reference(*xs: np.ndarray) -> np.ndarray:
        if not reverse:
            return function(*xs, axis)
        return np.flip(function(*(np.flip(x, axis) for x in xs), axis), axis)

    return reference


def _recurrence(a: np.ndarray, b: np.ndarray, axis: int) -> np.ndarray:
    out = np.moveaxis(b.copy(), axis, 0)
    a = np.moveaxis(a, axis, 0)
    for k in range(1, len(out)):
        out[k] += a[k] * out[k - 1]
    return np.moveaxis(out, 0, axis)


def _log_sums(x: np.ndarray, axis: int) -> np.ndarray:
    return np.logaddexp.accumulate(x, axis)


def _places(x: np.ndarray, found: np.ndarray, axis: int) -> np.ndarray:
    """Where in x, whose elements differ, the found ones are."""
    same = np.expand_dims(np.moveaxis(found, axis, -1), -1) == np.expand_dims(np.moveaxis(x, axis, -1), -2)
    return np.moveaxis(np.sum(same * np.arange(x.shape[axis]), -1), -1, axis)


def _weights(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    new = np.exp(x - y)
    return new, 1 - new


def _running() -> None:
    for shape, axis in (*SHAPES, ((2, 7, 3), 1), ((5, 4), 1)):
        x, b = r(*shape), r(*shape, seed=1)
        for reverse in (False, True):
            by: dict[str, Any] = dict(axis=axis, reverse=reverse)
            ref = lambda f, k=axis, v=reverse: _backwards(f, k, v)
            case("cumsum", x, reference=ref(np.cumsum), **by)
            case("cumprod", x, reference=ref(np.cumprod), **by)
            case("linear_recurrence", x, b, reference=ref(_recurrence), **by)
            case("cummax", x, reference=ref(np.maximum.accumulate), **by)
            case("cummin", x, reference=ref(np.minimum.accumulate), **by)
            case("cumlogsumexp", x, reference=ref(_log_sums), **by)
            logs = ref(_log_sums)
            case("cumlogsumexp_weights", x, reference=lambda x, f=logs: _weights(x, f(x)), **by)
            for name, function in (("cummax", np.maximum), ("cummin", np.minimum)):
                extrema = ref(function.accumulate)
                placed = lambda x, f=extrema, k=axis: (f(x), _places(x, f(x), k))
                case(f"{name}_routed", x, reference=placed, **by)
    for dtype in (np.float32, complex, np.complex64):
        x, b = r(3, 4, dtype=dtype), r(3, 4, dtype=dtype, seed=1)
        case("cumsum", x, reference=lambda x: np.cumsum(x, 1), axis=1, order=1)
        case("cumprod", x, reference=lambda x: np.cumprod(x, 0), axis=0, order=1)
        case("linear_recurrence", x, b, reference=lambda a, b: _recurrence(a, b, 1), axis=1, order=1)
    for name, function in (("cummax", np.maximum), ("cummin", np.minimum), ("cumlogsumexp", np.logaddexp)):
        x = r(3, 4, dtype=np.float32)
        case(name, x, reference=lambda x, f=function: f.accumulate(x, 1, dtype=x.dtype), axis=1, order=1)
    for dtype in (np.int64, np.int8, np.uint8, bool):
        x = np.asarray(r(3, 7) * 2, dtype)
        for name, function in (("cummax", np.maximum), ("cummin", np.minimum)):
            case(name, x, reference=lambda x, f=function: f.accumulate(x, 0), axis=0, order=0)
        target = np.dtype(np.uint64 if dtype == np.uint8 else np.int64)
        case("cumsum", x, reference=lambda x: np.cumsum(x, 1), axis=1, dtype=target, order=0)
        case("cumprod", x, reference=lambda x: np.cumprod(x, 1), axis=1, dtype=target, order=0)


for _make in (_sorting, _running):
    _make()
