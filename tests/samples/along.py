"""Cases of picking and adding along an axis."""

from __future__ import annotations

import numpy as np

from samples.cases import case, r


def _pick(x: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    got = np.take_along_axis(x, np.maximum(index, 0), axis)
    return np.where(index >= 0, got, np.zeros((), x.dtype))


def _add(target: np.ndarray, index: np.ndarray, updates: np.ndarray, axis: int) -> np.ndarray:
    out = np.moveaxis(target.copy(), axis, 0)
    i, u = np.moveaxis(index, axis, 0), np.moveaxis(updates, axis, 0)
    for at in np.ndindex(i.shape):
        if i[at] >= 0:
            out[(i[at], *at[1:])] += u[at]
    return np.moveaxis(out, 0, axis)


SHAPES = (((5,), 0, 7), ((3, 4), 0, 2), ((3, 4), 1, 6), ((2, 3, 4), 1, 5), ((2, 3), 1, 0), ((2, 3), 0, 0))


def _cases() -> None:
    for shape, axis, m in SHAPES:
        picked = tuple(m if k == axis else n for k, n in enumerate(shape))
        index = np.random.default_rng([1, *picked]).integers(-1, shape[axis], picked)
        x, u = r(*shape), r(*picked, seed=2)
        pick, add = lambda x, i, k=axis: _pick(x, i, k), lambda t, i, u, k=axis: _add(t, i, u, k)
        case("take_along", x, index, reference=pick, axis=axis)
        case("add_along", x, index, u, reference=add, axis=axis)
        case("add_along_into", x, index, u, reference=add, axis=axis, order=0)
    order = np.array([[2, 0, 1, -1], [3, 1, 0, 2]])
    case("take_along", r(2, 4), order, reference=lambda x, i: _pick(x, i, 1), axis=1, unique=True)
    case("add_along", r(2, 4), order, r(2, 4, seed=1), reference=lambda *a: _add(*a, 1), axis=1, unique=True)
    for dtype in (np.float32, complex, np.int32):
        x, k = r(4, 2, dtype=dtype), int(np.dtype(dtype).kind in "fc")
        case("take_along", x, [[3, 0]], reference=lambda x, i: _pick(x, i, 0), axis=0, order=k)
        case("add_along", x, [[3, 3], [3, 0]], x[:2], reference=lambda *a: _add(*a, 0), axis=0, order=k)
    case("take_along", r(3) > 0, [2, -1], reference=lambda x, i: _pick(x, i, 0), axis=0, order=0)


_cases()
