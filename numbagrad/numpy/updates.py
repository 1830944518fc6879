"""`x.at[i].set(v)` and friends: functional updates."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from numbagrad.core.arguments import host_value, kind_of, meet_with, value_of
from numbagrad.core.array import Array
from numbagrad.core.device import beside
from numbagrad.core.dtypes import DEFAULTS, INEXACT, float_dtype, promote_pair
from numbagrad.core.errors import message
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy import indexing
from numbagrad.primitives import index as rows_of
from numbagrad.primitives.broadcast import reshape_to
from numbagrad.primitives.elementwise import convert

_MODES = {m: m for m in ("raise", "clip", "wrap", "fill")} | {
    "none": "raise",
    "promise_in_bounds": "raise",
    "drop": "fill",
    "fill_or_drop": "fill",
}


def mode_of(mode: Any) -> str:
    """The mode of a string, an enumeration's member or None."""
    found = _MODES.get(str(getattr(mode, "name", mode)).lower())
    if found is None:
        known = "'raise', 'clip', 'wrap', 'fill', 'drop' or 'promise_in_bounds'"
        raise ValueError(message("x.at", "no such mode", repr(mode), known))
    return found


class IndexUpdater:
    """x.at; index it to choose a place."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> Place:
        return Place(self._array, key)


class Place:
    """x.at[key]: a part of an array, to be read or updated functionally.

    `mode` is for index arrays out of range: "raise" (default), "clip", "wrap", "fill" or "drop" (updates are dropped,
    `get` gives nan, 0 for integers, or its `fill_value`). indices_are_sorted and unique_indices change nothing.
    The array keeps its dtype: what it cannot hold (complex in real; but for `set`, float in integers) is a TypeError.
    """

    __slots__ = ("_array", "_key")

    def __init__(self, array: Array, key: Any) -> None:
        self._array, self._key = array, key

    def _update(self, how: str, values: Any, mode: Any) -> Array:
        return Array(indexing.updated(self._array._value, self._key, values, how, mode_of(mode)))

    def _folded(self, name: str, combine: Callable[[Array, Array], Array], values: Any, mode: Any) -> Array:
        """The part combined once with the product of the values that go to each element, all else untouched."""
        x, update, how = self._array._value, host_value(values), mode_of(mode)
        indexing.holds(f"x.at[i].{name}", x.dtype, update.dtype)
        dtype = x.dtype
        if dtype.kind not in INEXACT:
            found = promote_pair(dtype, kind_of(values, update))
            dtype = DEFAULTS.get(found, found)
            dtype = float_dtype(dtype) if name == "divide" else dtype
        x = convert(x, dtype)
        ones = beside(np.broadcast_to(np.ones((), dtype), x.shape), x)
        products = Place(Array(ones), self._key)._update("multiply", values, mode)
        part, by = (Array(indexing.picked(v, self._key, how)) for v in (x, products._value))
        return Place(Array(x), self._key)._update("set", combine(part, by), mode)

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        fill_value: Any = None,
    ) -> Array:
        """The part itself."""
        x, how = self._array._value, mode_of(mode)
        found = Array(indexing.picked(x, self._key, how))
        if fill_value is None or how != "fill":
            return found
        ones = beside(np.broadcast_to(np.ones((), np.int8), x.shape), x)
        held = Array(indexing.picked(ones, self._key, how))
        return ew.where(held == 1, found, np.asarray(fill_value).astype(x.dtype))

    def set(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None
    ) -> Array:
        """With the part replaced; of repeated indices the last wins."""
        return self._update("set", values, mode)

    def add(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None
    ) -> Array:
        """With values added; repeated indices add up."""
        return self._update("add", values, mode)

    def subtract(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None
    ) -> Array:
        """With values subtracted; repeated indices add up."""
        (update,) = meet_with("x.at[i].subtract", self._array, values)
        return self._update("add", ew.call("negative", Array(update)), mode)

    def multiply(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None
    ) -> Array:
        """With the part multiplied; repeated indices multiply up. The derivative is exact with zeros."""
        return self._update("multiply", values, mode)

    mul = multiply
    sub = subtract

    def divide(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None
    ) -> Array:
        """With the part divided; by the product of the values of a repeated index. Integers give floats.

        >>> import numbagrad.numpy as np
        >>> np.ones(3).at[np.asarray([0, 0])].divide(2.0)
        Array([0.25, 1.  , 1.  ], dtype=float64)
        """
        return self._folded("divide", operator.truediv, values, mode)

    def power(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None
    ) -> Array:
        """With the part raised to a power; repeated indices raise again. Integers to a float give floats."""
        return self._folded("power", operator.pow, values, mode)

    def min(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None
    ) -> Array:
        """With the smaller of part and values; ties share the derivative."""
        return self._update("min", values, mode)

    def max(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None
    ) -> Array:
        """With the larger of part and values; ties share the derivative."""
        return self._update("max", values, mode)

    def apply(
        self,
        func: Callable[[Any], Any],
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Array:
        """With an elementwise function applied; as often as an element's index is repeated.

        >>> import numbagrad.numpy as np
        >>> np.asarray([2.0, 3.0]).at[np.asarray([0, 0])].apply(lambda x: x * x)
        Array([16.,  3.], dtype=float64)
        """
        x = self._array._value
        number = np.arange(1, x.size + 1).reshape(x.shape)  # 0 is what mode "fill" gives
        elements = indexing.picked(number, on_host(self._key), mode_of(mode)).reshape(-1) - 1
        return Array(applied(x, elements, func))


def on_host(key: Any) -> Any:
    """A key without arrays on devices."""
    if isinstance(key, tuple):
        return tuple(map(on_host, key))
    return np.asarray(key) if isinstance(key, Array) else key


def applied(x: Any, elements: np.ndarray, func: Callable[[Any], Any]) -> Any:
    """The value with a function applied to elements by flat number, once per mention; -1 is dropped."""
    flat = reshape_to(x, (x.size,))
    times = np.bincount(elements + 1, minlength=1)[1:]
    done = 0
    while (chosen := np.flatnonzero(times > done)).size:
        new = value_of(func(Array(rows_of.take(flat, chosen, mode="drop"))), "apply")
        if new.shape != chosen.shape:
            raise ValueError(message("apply", "the function is not elementwise", new.shape, chosen.shape))
        flat = rows_of.scatter_set(flat, chosen, convert(new, x.dtype), mode="drop")
        done += 1
    return reshape_to(flat, x.shape)
