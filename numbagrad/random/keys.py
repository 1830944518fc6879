"""Keys: two 32-bit words. A key is used once; `split` makes new ones."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from numbagrad.config import OPENED
from numbagrad.core.arguments import host_value, value_of
from numbagrad.core.array import Array
from numbagrad.core.device import default, place_of, placed
from numbagrad.core.errors import message
from numbagrad.core.registry import mixed_devices
from numbagrad.core.trace import Box
from numbagrad.numpy.shaping import _ints
from numbagrad.primitives.elementwise import convert
from numbagrad.primitives.random_bits import random_bits, random_pairs

START = np.zeros((), np.uint64)
KEY_DTYPE = np.dtype(np.uint32)


def key(seed: Any) -> Array:
    """A key from an integer seed; only the seed's low 64 bits count.

    >>> import numbagrad as ng
    >>> ng.random.key(42)
    Array([ 0, 42], dtype=uint32)
    """
    try:
        number = operator.index(seed)
    except TypeError:
        raise TypeError(message("key", "the seed is not an integer", repr(seed), "an integer")) from None
    words = np.array([(number >> 32) & 0xFFFFFFFF, number & 0xFFFFFFFF], KEY_DTYPE)
    return Array(placed(words, default()))


PRNGKey = key


def key_of(key: Any, op: str, *near: Any) -> Any:
    """The value of a key, or the user's error; one of the CPU's goes where the values `near` are."""
    if isinstance(key, (bool, int, float)):
        raise TypeError(message(op, "not a key", repr(key), "a key", f"Make one with random.key({key!r})."))
    value = value_of(key, op)
    if value.dtype != KEY_DTYPE or value.shape != (2,):
        step = "Index one key: keys[i]." if value.dtype == KEY_DTYPE else "Make one with random.key(seed)."
        got = f"{value.dtype} of shape {value.shape}"
        raise TypeError(message(op, "not a key", got, "a key, uint32 of shape (2,)", step))
    if OPENED and near:
        place = next((p for p in map(place_of, near) if p is not None), None)
        if place is not None and value.__class__ is np.ndarray:
            return place.put(value)
        if place_of(value) is not None and any(v.shape != () and place_of(v) is None for v in near):
            raise mixed_devices(op, (value, *near))
    return value


def shape_of(shape: Any, op: str) -> tuple[int, ...]:
    """A shape, or the user's error."""
    found = _ints(shape, op)
    if any(n < 0 for n in found):
        raise ValueError(message(op, "negative length", found, "lengths >= 0"))
    return found


def split(key: Any, num: Any = 2) -> Array:
    """New independent keys, an array of shape (num, 2); `num` may be a shape.

    >>> import numbagrad as ng
    >>> a, b = ng.random.split(ng.random.key(0))
    >>> a
    Array([1797259609, 2579123966], dtype=uint32)
    """
    return Array(random_pairs(key_of(key, "split"), START, shape=shape_of(num, "split")))


def fold_in(key: Any, data: Any) -> Array:
    """A new key from a key and an integer (its low 32 bits).

    >>> import numbagrad as ng
    >>> ng.random.fold_in(ng.random.key(0), 1)
    Array([ 928981903, 3453687069], dtype=uint32)
    """
    value = host_value(data, "fold_in")
    if value.dtype.kind not in "iu" or value.shape != ():
        got = f"{value.dtype} of shape {value.shape}"
        raise TypeError(message("fold_in", "data is not an integer", got, "an integer scalar"))
    if isinstance(value, Box):
        raise TypeError(message("fold_in", "data is traced", repr(data), "a concrete integer"))
    offset = np.asarray(int(value.item()) & 0xFFFFFFFF, np.uint64)
    return Array(random_pairs(key_of(key, "fold_in"), offset, shape=()))


def key_data(keys: Any) -> Array:
    """The words of a key (or of an array of keys): the key itself."""
    return Array(value_of(keys, "key_data"))


def wrap_key_data(words: Any) -> Array:
    """uint32 words as a key."""
    return Array(key_of(words, "wrap_key_data"))


def bits(key: Any, shape: Any = (), dtype: Any = np.uint32) -> Array:
    """Uniform random bits as an unsigned integer type.

    >>> import numbagrad as ng
    >>> ng.random.bits(ng.random.key(0), (2,))
    Array([4070199207, 4202968722], dtype=uint32)
    """
    wanted = np.dtype(dtype)
    if wanted.kind != "u":
        raise TypeError(message("bits", "bits come as unsigned integers", wanted, "uint8, uint16, uint32 or uint64"))
    drawn = raw_bits(key_of(key, "bits"), shape_of(shape, "bits"), max(32, 8 * wanted.itemsize))
    return Array(convert(drawn, wanted))


def raw_bits(key: Any, shape: tuple[int, ...], width: int) -> Any:
    """32 or 64 random bits an element."""
    return random_bits(key, START, shape=shape, dtype=np.dtype(f"u{width // 8}"))
