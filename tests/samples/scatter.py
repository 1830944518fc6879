"""Cases of gathers and scatters by the modes that do not count from the end, and of slices whose place is data."""

from __future__ import annotations

import numpy as np

from samples.cases import case, r
from samples.segments import place


def _take(x: np.ndarray, index: np.ndarray, mode: str) -> np.ndarray:
    at = place(index, x.shape[0], mode)
    out = np.zeros((*index.shape, *x.shape[1:]), x.dtype)
    out[at >= 0] = x[at[at >= 0]]
    return out


def _scatter(f: np.ufunc, target: np.ndarray, index: np.ndarray, updates: np.ndarray, mode: str) -> np.ndarray:
    out, at = target.copy(), place(index, target.shape[0], mode)
    f.at(out, at[at >= 0], updates[at >= 0])
    return out


def _set(target: np.ndarray, index: np.ndarray, updates: np.ndarray, mode: str) -> np.ndarray:
    out, at = target.copy(), place(index, target.shape[0], mode)
    out[at[at >= 0]] = updates[at >= 0]
    return out


def _begin(starts: np.ndarray, shape: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[slice, ...]:
    begins = [min(max(s + n if s < 0 else s, 0), n - w) for s, n, w in zip(starts, shape, sizes, strict=True)]
    return tuple(slice(b, b + w) for b, w in zip(begins, sizes, strict=True))


def _replaced(target: np.ndarray, x: np.ndarray, starts: np.ndarray) -> np.ndarray:
    out = target.copy()
    out[_begin(starts, target.shape, x.shape)] = x
    return out


def _added(target: np.ndarray, x: np.ndarray, starts: np.ndarray) -> np.ndarray:
    out = target.copy()
    out[_begin(starts, target.shape, x.shape)] += x
    return out


def _index_cases() -> None:
    index = np.array([[-1, 0, 4], [2, 9, 0]])
    for mode in ("drop", "clamp"):
        for x in (r(3), r(3, 2), r(3, 0), r(3, 1, 2, dtype=np.float32), r(3, dtype=complex)):
            several = (index, index.astype(np.int32), index[:, :0], np.array(2))
            for i in several if x.shape == (3, 2) else several[:1]:
                u, t = r(*i.shape, *x.shape[1:], dtype=x.dtype, seed=1), x
                case("take", x, i, reference=lambda x, i, m=mode: _take(x, i, m), mode=mode)
                add = lambda t, i, u, m=mode: _scatter(np.add, t, i, u, m)
                case("scatter_add", t, i, u, reference=add, mode=mode)
                case("scatter_set", t, i, u, reference=lambda t, i, u, m=mode: _set(t, i, u, m), mode=mode)
                if x.dtype.kind == "f":
                    for name, f in (("scatter_max", np.maximum), ("scatter_min", np.minimum)):
                        ref = lambda t, i, u, f=f, m=mode: _scatter(f, t, i, u, m)
                        case(name, t, i, u, reference=ref, mode=mode)
        case("take", r(0, 2), [0, 3], reference=lambda x, i, m=mode: np.zeros((2, 2)), mode=mode)
    case("take", r(3) > 0, [0, 7, 2], reference=lambda x, i: _take(x, i, "drop"), mode="drop", order=0)


def _dynamic_cases() -> None:
    for shape, sizes, starts in (
        ((5,), (2,), [9]),
        ((5,), (2,), [-2]),
        ((5,), (0,), [1]),
        ((4, 3), (2, 3), [-9, 1]),
        ((4, 3), (1, 2), [3, 0]),
        ((2, 3, 4), (1, 2, 4), [1, 1, 1]),
        ((), (), []),
        ((0, 2), (0, 1), [3, 3]),
    ):
        for dtype in (np.float64, np.float32, complex):
            x, part, at = r(*shape, dtype=dtype), r(*sizes, dtype=dtype, seed=1), np.array(starts, np.int64)
            case("dynamic_slice", x, at, reference=lambda x, s, w=sizes: x[_begin(s, x.shape, w)], sizes=sizes)
            case("dynamic_update_slice", x, part, at, reference=_replaced)
            case("dynamic_add_slice", x, part, at, reference=_added)
            case("dynamic_add_slice_into", x, part, at, reference=_added, order=0)
    case("dynamic_slice", r(4, dtype=np.int32), [1], reference=lambda x, s: x[1:3], sizes=(2,), order=0)


_index_cases()
_dynamic_cases()
