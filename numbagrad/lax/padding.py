"""Windows, strides, dilations and padding as users give them: checked, and made explicit."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from numbagrad.core.errors import message


def integers(op: str, name: str, values: Sequence[int] | None, ndim: int, least: int = 1) -> tuple[int, ...]:
    """One integer per axis; None is all ones."""
    if values is None:
        return (1,) * ndim
    needed = f"{ndim} integers of {least} or more"
    try:
        found = tuple(operator.index(v) for v in values)
    except TypeError:
        raise TypeError(message(op, f"{name} is not made of integers", repr(values), needed)) from None
    if len(found) != ndim or any(v < least for v in found):
        raise ValueError(message(op, f"{name} does not fit the operand", found, needed))
    return found


def pairs(op: str, padding: Any, ndim: int) -> tuple[tuple[int, int], ...]:
    """Explicit padding, (low, high) per axis."""
    needed = f"'VALID', 'SAME', 'SAME_LOWER' or {ndim} pairs (low, high)"
    try:
        found = tuple((operator.index(low), operator.index(high)) for low, high in padding)
    except (TypeError, ValueError):
        raise TypeError(message(op, "padding is not made of pairs of integers", repr(padding), needed)) from None
    if len(found) != ndim:
        raise ValueError(message(op, "padding does not fit the operand", found, needed))
    return found


def string_padding(
    op: str, lengths: Sequence[int], windows: Sequence[int], strides: Sequence[int], padding: str
) -> tuple[tuple[int, int], ...]:
    """Explicit amounts for "VALID", "SAME" (an odd one out goes to the end) and "SAME_LOWER" (to the start)."""
    mode = padding.upper()
    if mode == "VALID":
        return ((0, 0),) * len(lengths)
    if mode not in ("SAME", "SAME_LOWER"):
        needed = "'VALID', 'SAME', 'SAME_LOWER' or pairs (low, high)"
        raise ValueError(message(op, "no such padding", repr(padding), needed))
    found = []
    for n, k, s in zip(lengths, windows, strides):
        total = max(0, (-(-n // s) - 1) * s + k - n)
        small, large = total // 2, total - total // 2
        found.append((small, large) if mode == "SAME" else (large, small))
    return tuple(found)
