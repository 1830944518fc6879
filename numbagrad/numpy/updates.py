"""`x.at[i].set(v)` and friends: functional updates."""

from __future__ import annotations

from typing import Any

from numbagrad.core.array import Array
from numbagrad.numpy import indexing

_MODES = {m: m for m in ("raise", "clip", "wrap", "fill")} | {
    None: "raise",
    "promise_in_bounds": "raise",
    "drop": "fill",
}


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
    `get` gives nan, 0 for integers).
    """

    __slots__ = ("_array", "_key")

    def __init__(self, array: Array, key: Any) -> None:
        self._array, self._key = array, key

    def _update(self, how: str, values: Any, mode: str | None) -> Array:
        return Array(indexing.updated(self._array._value, self._key, values, how, _MODES[mode]))

    def get(self, *, mode: str | None = None) -> Array:
        """The part itself."""
        return Array(indexing.picked(self._array._value, self._key, _MODES[mode]))

    def set(self, values: Any, *, mode: str | None = None) -> Array:
        """With the part replaced; of repeated indices the last wins."""
        return self._update("set", values, mode)

    def add(self, values: Any, *, mode: str | None = None) -> Array:
        """With values added; repeated indices add up."""
        return self._update("add", values, mode)

    def multiply(self, values: Any, *, mode: str | None = None) -> Array:
        """With the part multiplied; repeated indices multiply up. The derivative is exact with zeros."""
        return self._update("multiply", values, mode)

    mul = multiply

    def min(self, values: Any, *, mode: str | None = None) -> Array:
        """With the smaller of part and values; ties share the derivative."""
        return self._update("min", values, mode)

    def max(self, values: Any, *, mode: str | None = None) -> Array:
        """With the larger of part and values; ties share the derivative."""
        return self._update("max", values, mode)
