"""Cases of reductions over segments."""

from __future__ import annotations

from typing import Any

import numpy as np

from samples.cases import case, r


def place(ids: np.ndarray, segments: int, mode: str) -> np.ndarray:
    """Segment of each row, -1 for none."""
    if mode == "wrap" and segments:
        return ids % segments
    if mode == "clamp" and segments:
        return np.clip(ids, 0, segments - 1)
    return np.where((ids >= 0) & (ids < segments), ids, -1)


def members(ids: np.ndarray, segments: int, mode: str = "drop") -> list[list[int]]:
    """Rows of each segment."""
    flat = place(np.asarray(ids).reshape(-1).astype(np.int64), segments, mode)
    return [[k for k, s in enumerate(flat) if s == segment] for segment in range(segments)]


def reduced(f: Any, start: Any, x: np.ndarray, ids: np.ndarray, segments: int, mode: str = "drop") -> np.ndarray:
    """f over the rows of each segment, `start` for an empty one."""
    rows = x.reshape((ids.size, *x.shape[ids.ndim :]))
    out = np.full((segments, *rows.shape[1:]), start, x.dtype)
    for segment, found in enumerate(members(ids, segments, mode)):
        if found:
            out[segment] = f(rows[found])
    return out


def lowest(dtype: Any) -> Any:
    """What max of nothing is."""
    return -np.inf if np.dtype(dtype).kind == "f" else np.iinfo(dtype).min


def highest(dtype: Any) -> Any:
    """What min of nothing is."""
    return np.inf if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max


def shares(x: np.ndarray, ids: np.ndarray, best: np.ndarray, mode: str = "drop") -> np.ndarray:
    """Share of each element in its segment's extremum."""
    rows, out = x.reshape((ids.size, *x.shape[ids.ndim :])), np.zeros(x.shape, x.dtype)
    flat = out.reshape(rows.shape)
    for segment, found in enumerate(members(ids, best.shape[0], mode)):
        hit = (rows[found] == best[segment]) | (np.isnan(rows[found]) & np.isnan(best[segment]))
        flat[found] = hit / np.maximum(hit.sum(axis=0), 1)
    return out


def softmax(x: np.ndarray, ids: np.ndarray, segments: int, mode: str = "drop") -> np.ndarray:
    """Shares of the exponentials."""
    out = np.zeros(x.shape, x.dtype)
    flat, rows = out.reshape((ids.size, *x.shape[ids.ndim :])), x.reshape((ids.size, *x.shape[ids.ndim :]))
    for found in members(ids, segments, mode):
        if found:
            e = np.exp(rows[found] - rows[found].max(axis=0))
            flat[found] = e / e.sum(axis=0)
    return out


def logsumexp(rows: np.ndarray) -> np.ndarray:
    """Over the first axis."""
    m = rows.max(axis=0)
    return np.log(np.exp(rows - m).sum(axis=0)) + m


def tree(ids: np.ndarray, segments: int, sizes: tuple[int, ...]) -> np.ndarray:
    """Row numbers of the factors of each level, then of the results."""
    groups, one, tables = members(ids, segments), ids.size, []
    for size in sizes[:-1]:
        left, right, halved = [], [], []
        for group in groups:
            pairs = [group[k : k + 2] for k in range(0, len(group), 2)]
            halved.append(list(range(len(left), len(left) + len(pairs))))
            left += [p[0] for p in pairs]
            right += [p[1] if len(p) > 1 else one for p in pairs]
        tables += left + [one] * (size - len(left)) + right + [one] * (size - len(right))
        groups, one = halved, size
    return np.array(tables + [g[0] if g else one for g in groups])


REDUCTIONS = {
    "segment_sum": (lambda v: v.sum(axis=0), lambda dtype: 0),
    "segment_prod": (lambda v: v.prod(axis=0), lambda dtype: 1),
    "segment_max": (lambda v: v.max(axis=0), lowest),
    "segment_min": (lambda v: v.min(axis=0), highest),
    "segment_logsumexp": (logsumexp, lowest),
}
IDS = [  # shape of ids, rest of the shape of x, segments
    ((7,), (), 4), ((6,), (2,), 3), ((5,), (2, 3), 6), ((2, 3), (2,), 2), ((1,), (), 1), ((0,), (), 3), ((0,), (2,), 2),
    ((3,), (0,), 2), ((4,), (), 0), ((9,), (), 1),
]  # fmt: skip


def _add(name: str, x: np.ndarray, ids: np.ndarray, segments: int, mode: str, order: int = 2) -> None:
    params = {"segments": segments, "mode": mode, "order": order}
    if name == "segment_softmax":
        case(name, x, ids, reference=lambda x, i: softmax(x, i, segments, mode), **params)
        return
    f, start = REDUCTIONS[name]
    case(name, x, ids, reference=lambda x, i: reduced(f, start(x.dtype), x, i, segments, mode), **params)


def _cases() -> None:
    for name in (*REDUCTIONS, "segment_softmax"):
        # an empty segment is -inf: nothing to check by differences
        safe = name in ("segment_sum", "segment_prod", "segment_softmax")
        for shape, rest, segments in IDS:
            rng = np.random.default_rng([3, *shape, segments])
            ids = rng.integers(-1, segments + 1, shape)
            full = all(members(ids, segments)) or safe
            _add(name, r(*shape, *rest), ids, segments, "drop", 2 if full else 0)
        for mode in ("clamp", "wrap"):
            _add(name, r(8, 2), np.array([-4, 0, 7, 1, 2, 2, 1, -1]), 3, mode)
        for ids_dtype in (np.int32, np.int64, np.int8, np.uint8):
            _add(name, r(5, dtype=np.float32), np.array([2, 1, 0, 1, 9], ids_dtype), 3, "drop")
    for dtype in (complex, np.complex64, np.int32, np.int64, np.uint8, np.int8):
        kind = np.dtype(dtype).kind
        x = r(6, 2, dtype=dtype) if kind != "u" else np.arange(12, dtype=dtype).reshape(6, 2)
        for name in ("segment_sum", "segment_prod", *(("segment_max", "segment_min") if kind in "iu" else ())):
            _add(name, x, np.array([1, 0, 3, 1, 1, -1]), 3, "drop", 2 if kind == "c" else 0)


def _route_cases() -> None:
    x, ids = np.array([[2.0, 1.0], [2.0, np.nan], [0.0, np.nan], [5.0, 5.0]]), np.array([0, 0, 0, 7])
    best = np.array([[2.0, np.nan], [-np.inf, -np.inf]])
    for a, b in ((x, best), (x.astype(np.float32), best.astype(np.float32)), (x[:, 0], best[:, 0])):
        case("segment_shares", a, ids, b, reference=shares, order=0, mode="drop")
    case("segment_shares", x, ids, best, reference=lambda *a: shares(*a, "clamp"), order=0, mode="clamp")
    case("segment_shares", x[:0], ids[:0], best, reference=shares, order=0, mode="drop")
    for ids, segments, sizes in (
        ([0, 1, 0, 0, 5, 0, 0], 3, (5, 4, 3, 3)),
        ([2, 2], 3, (2, 3)),
        ([0, 1], 2, (2,)),
        ([], 2, (2,)),
    ):
        ref = lambda i, n=segments, s=sizes: tree(i, n, s)
        index = np.array(ids, np.int64)
        case("segment_tree", index, reference=ref, order=0, segments=segments, mode="drop", sizes=sizes)


_cases()
_route_cases()
