"""Finding and picking elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from numbagrad.core.arguments import owned, promote, value_of
from numbagrad.core.array import Array
from numbagrad.core.errors import message
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy import shaping
from numbagrad.numpy.reductions import normalize_axis
from numbagrad.primitives import along  # noqa: F401
from numbagrad.primitives import index as rows_of

# fmt: off
__all__ = [
    "argwhere", "choose", "compress", "diag_indices", "extract", "flatnonzero", "isin", "ix_", "nonzero",
    "piecewise", "put_along_axis", "ravel_multi_index", "searchsorted", "select", "take", "take_along_axis",
    "tril_indices", "triu_indices", "unravel_index",
]
# fmt: on


def _numbers(x: Any, what: str) -> np.ndarray:
    """The concrete numbers: the shape of a result depends on them."""
    return Array(value_of(x))._concrete(what, "Do it outside the function, or on stop_gradient(x).")


def nonzero(a: Any) -> tuple[Array, ...]:
    """Indices of the nonzero elements, one array per axis. Needs concrete values."""
    found = np.nonzero(np.atleast_1d(_numbers(a, "indices")))
    return tuple(Array(i) for i in found)


def flatnonzero(a: Any) -> Array:
    """Indices of the nonzero elements of the flat array."""
    return nonzero(shaping.ravel(a))[0]


def argwhere(a: Any) -> Array:
    """Indices of the nonzero elements, one row each."""
    return Array(np.argwhere(_numbers(a, "indices")))


def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Array:
    """Elements (slices of an axis) by integer index; modes raise, wrap, clip, fill (nan, or 0 for integers)."""
    x = shaping.ravel(a) if axis is None else Array(owned(a, "take"))
    k = normalize_axis(0 if axis is None else axis, x.ndim, "take")
    if mode not in ("raise", "wrap", "clip", "fill"):
        raise ValueError(message("take", "no such mode", repr(mode), "'raise', 'wrap', 'clip' or 'fill'"))
    index = np.asarray(_numbers(indices, "an index"))
    if index.dtype.kind not in "biu" and index.size:
        raise TypeError(message("take", "indices are not integers", index.dtype, "an integer dtype"))
    moved = shaping.moveaxis(x, k, 0)
    if mode == "clip":  # NumPy's clip does not count negative indices from the end
        index = np.maximum(index, 0)
    taken = rows_of.take(moved._value, index.astype(np.int64), mode=mode)
    order = (*range(index.ndim, index.ndim + k), *range(index.ndim), *range(index.ndim + k, x.ndim - 1 + index.ndim))
    return ew.store(shaping.transpose(Array(taken), order), out, "take")


def take_along_axis(arr: Any, indices: Any, axis: int | None = -1, mode: str = "raise") -> Array:
    """Elements by an index array that matches the array off the axis (and broadcasts)."""
    x = shaping.ravel(arr) if axis is None else Array(owned(arr, "take_along_axis"))
    index = np.asarray(_numbers(indices, "an index"))
    k = normalize_axis(0 if axis is None else axis, x.ndim, "take_along_axis")
    if index.ndim != x.ndim:
        raise ValueError(
            message("take_along_axis", "numbers of axes differ", f"{index.shape}, {x.shape}", "as many axes")
        )
    return Array(x.at[_along(x, index, k)].get(mode="fill" if mode == "fill" else mode)._value)


def _along(x: Array, index: np.ndarray, axis: int) -> tuple[np.ndarray, ...]:
    """The full index of `take_along_axis`: positions along the axis, own positions elsewhere."""
    lead = np.broadcast_shapes(
        tuple(1 if d == axis else n for d, n in enumerate(x.shape)),
        tuple(1 if d == axis else n for d, n in enumerate(index.shape)),
    )
    grid = []
    for d, n in enumerate(x.shape):
        if d == axis:
            grid.append(index)
        else:
            own = np.arange(lead[d]) if n != 1 else np.zeros(lead[d], np.int64)
            grid.append(own.reshape([-1 if e == d else 1 for e in range(x.ndim)]))
    return tuple(grid)


def put_along_axis(arr: Any, indices: Any, values: Any, axis: int) -> Array:
    """A copy with elements replaced by an index array that matches it off the axis."""
    x = Array(owned(arr, "put_along_axis"))
    k = normalize_axis(axis, x.ndim, "put_along_axis")
    return x.at[_along(x, np.asarray(_numbers(indices, "an index")), k)].set(values)


def compress(condition: Any, a: Any, axis: int | None = None) -> Array:
    """Slices of an axis where a condition holds."""
    kept = np.flatnonzero(_numbers(condition, "indices"))
    return take(a, kept, axis)


def extract(condition: Any, arr: Any) -> Array:
    """Elements where a condition holds."""
    return compress(shaping.ravel(condition), arr)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Array:
    """Per element the choice of the first condition that holds, else the default."""
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError(
            message("select", "conditions and choices", f"{len(condlist)}, {len(choicelist)}", "as many of each")
        )
    values, _ = promote([*choicelist, default], "select")
    result = Array(values[-1])
    for condition, choice in zip(condlist[::-1], values[-2::-1], strict=True):
        result = ew.where(condition, Array(choice), result)
    return result


def choose(a: Any, choices: Sequence[Any], out: Any = None, mode: str = "raise") -> Array:
    """Per element the choice of that number; modes raise, wrap, clip."""
    number = np.asarray(_numbers(a, "an index"))
    n = len(choices)
    if mode == "raise" and ((number < 0) | (number >= n)).any():
        raise ValueError(message("choose", "no such choice", number, f"0 to {n - 1}"))
    number = number % n if mode == "wrap" else np.clip(number, 0, n - 1)
    values, _ = promote(list(choices), "choose")
    result = Array(values[-1])
    for k in range(n - 2, -1, -1):
        result = ew.where(number == k, Array(values[k]), result)
    shape = np.broadcast_shapes(number.shape, result.shape)
    return ew.store(shaping.broadcast_to(result, shape), out, "choose")


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kwargs: Any) -> Array:
    """Per element the function (or constant) of the last condition that holds; one more function for the rest."""
    v = Array(owned(x))
    conditions = (
        [condlist]
        if np.ndim(condlist) == np.ndim(v._value) and not isinstance(condlist, (list, tuple))
        else list(condlist)
    )
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ValueError(
            message(
                "piecewise", "functions and conditions", f"{len(functions)}, {len(conditions)}", "as many, or one more"
            )
        )
    result = v * 0
    if len(functions) == len(conditions) + 1:
        rest = functions.pop()
        result = rest(v, *args, **kwargs) if callable(rest) else result + rest
    for condition, f in zip(conditions, functions, strict=True):
        result = ew.where(condition, f(v, *args, **kwargs) if callable(f) else f, result)
    return result


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Array:
    """Positions where elements would go into a sorted array. No derivative."""
    from numbagrad.core.array import concrete_array

    order = None if sorter is None else np.asarray(sorter)
    plain = concrete_array(Array(value_of(a))), concrete_array(Array(value_of(v)))
    return Array(np.asarray(np.searchsorted(*plain, side, order)))  # type: ignore[call-overload]


def unravel_index(indices: Any, shape: Sequence[int]) -> tuple[Array, ...]:
    """Flat indices as one index array per axis."""
    return tuple(Array(np.asarray(i)) for i in np.unravel_index(_numbers(indices, "an index"), tuple(shape)))


def ravel_multi_index(multi_index: Sequence[Any], dims: Sequence[int], mode: str = "raise") -> Array:
    """Index arrays as flat indices."""
    parts = tuple(np.asarray(_numbers(i, "an index")) for i in multi_index)
    return Array(np.asarray(np.ravel_multi_index(parts, tuple(dims), mode)))  # type: ignore[call-overload]


def isin(element: Any, test_elements: Any, invert: bool = False) -> Array:
    """Whether elements are among others."""
    return Array(
        np.asarray(np.isin(_numbers(element, "a set test"), _numbers(test_elements, "a set test"), invert=invert))
    )


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """Index arrays of the main diagonal."""
    return (Array(np.arange(n)),) * ndim


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, ...]:
    """Index arrays at and below a diagonal."""
    return tuple(Array(i) for i in np.tril_indices(n, k, m))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, ...]:
    """Index arrays at and above a diagonal."""
    return tuple(Array(i) for i in np.triu_indices(n, k, m))


def ix_(*args: Any) -> tuple[Array, ...]:
    """Index arrays of an open mesh."""
    return tuple(Array(i) for i in np.ix_(*(_numbers(a, "an index") for a in args)))
