"""Reductions over sliding windows: window_sum <-> window_spread, and the routed window_max and window_min.

Output o, tap t of an axis reads input i iff  o * stride + t * dilation - low == i * base,  0 <= i < n. Everything
else follows from this one equation: negative padding crops, base dilation leaves holes, and what no tap reads is
padding, which holds the identity of the reduction.

A window_max's route is an index into the windowed block: leading axes that no window touches are its batch, trailing
ones its channels, and `index` of shape (batch, outputs, channels) picks along the middle of (batch, places, channels).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

from numbagrad.core.registry import Linear, routed_pair
from numbagrad.core.reverse import scattered
from numbagrad.primitives.along import add_along, add_along_into, take_along
from numbagrad.primitives.broadcast import reshape_to


class Axis(NamedTuple):
    """A window along one axis of length n."""

    n: int
    size: int = 1
    stride: int = 1
    low: int = 0
    high: int = 0
    base: int = 1
    dilation: int = 1

    @property
    def outputs(self) -> int:
        """Number of windows."""
        length = (self.n - 1) * self.base + 1 if self.n else 0
        extent = (self.size - 1) * self.dilation + 1
        return max(0, (length + self.low + self.high - extent) // self.stride + 1)

    @property
    def trivial(self) -> bool:
        """Whether every window is just the element of its own place."""
        return self.size == 1 and self.low == 0 and self.outputs == self.n and self.stride == self.base

    def normal(self) -> Axis:
        """The same reads with the parameters that have no effect at 1."""
        stride = 1 if self.outputs <= 1 else self.stride
        base = 1 if self.n <= 1 else self.base
        # of one output (input) only, `high` may have to grow (shrink) to keep their number
        length = (self.n - 1) * base + 1 if self.n else 0
        dilation = self.dilation if self.size > 1 else 1
        high = (self.outputs - 1) * stride + (self.size - 1) * dilation + 1 - length - self.low
        return Axis(self.n, self.size, stride, self.low, high, base, dilation)


class Geometry:
    """The windows of an array, one Axis per axis. Hashable: the static parameter of the primitives."""

    def __init__(self, axes: tuple[Axis, ...]) -> None:
        self.axes = axes
        self._hash = hash(axes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Geometry) and self.axes == other.axes

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Geometry({', '.join(repr(tuple(a)) for a in self.axes)})"

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Of the operand."""
        return tuple(a.n for a in self.axes)

    @cached_property
    def out_shape(self) -> tuple[int, ...]:
        """Of the result."""
        return tuple(a.outputs for a in self.axes)

    @cached_property
    def _span(self) -> tuple[int, int]:
        """First and last + 1 of the axes that are not trivial."""
        moved = [k for k, a in enumerate(self.axes) if not a.trivial]
        return (moved[0], moved[-1] + 1) if moved else (len(self.axes), len(self.axes))

    @cached_property
    def middle(self) -> tuple[Axis, ...]:
        """The windowed block's axes: at least one, without those of length 1 that no window touches."""
        first, last = self._span
        return tuple(a.normal() for a in self.axes[first:last] if not (a.trivial and a.n == 1)) or (Axis(1),)

    @cached_property
    def batch(self) -> int:
        """Elements of the axes in front of the block."""
        return math.prod(self.shape[: self._span[0]])

    @cached_property
    def channels(self) -> int:
        """Elements of the axes behind the block."""
        return math.prod(self.shape[self._span[1] :])

    @cached_property
    def repeats(self) -> int:
        """Most windows that read one element."""
        return math.prod(min(a.size, a.outputs) for a in self.middle)

    @cached_property
    def flat(self) -> tuple[int, int, int]:
        """Operand as (batch, places of the block, channels)."""
        return self.batch, math.prod(a.n for a in self.middle), self.channels

    @cached_property
    def flat_out(self) -> tuple[int, int, int]:
        """Result likewise."""
        return self.batch, math.prod(a.outputs for a in self.middle), self.channels


window_sum = Linear(
    "window_sum",
    "window:window_sum",
    lambda g, x, *, window: window_spread(g, window=window),
    doc="Sum over every window; float32 is accumulated in float64. Adjoint: window_spread.",
)

window_spread: Linear = Linear(
    "window_spread",
    "window:window_spread",
    lambda g, x, *, window: window_sum(g, window=window),
    doc="Every window's number added to each element the window reads. Adjoint: window_sum.",
)


def gather(x: Any, route: Any, window: Geometry) -> Any:
    """Elements of an operand by a route: one per window, 0 for windows of padding."""
    index = reshape_to(route, window.flat_out)
    picked = take_along(reshape_to(x, window.flat), index, axis=1, repeats=window.repeats)
    return reshape_to(picked, window.out_shape)


def scatter(target: Any, route: Any, g: Any, window: Geometry) -> Any:
    """One number per window added into a copy of the target by a route."""
    index, updates = reshape_to(route, window.flat_out), reshape_to(g, window.flat_out)
    total = add_along(reshape_to(target, window.flat), index, updates, axis=1, repeats=window.repeats)
    return reshape_to(total, window.shape)


def _into(target: Any, route: Any, g: Any, window: Geometry) -> Any:
    flat = reshape_to(target, window.flat), reshape_to(route, window.flat_out), reshape_to(g, window.flat_out)
    return reshape_to(add_along_into.run(flat, {"axis": 1, "repeats": window.repeats}), window.shape)


def _apply(route: Any, tangents: Any, x: Any, *, window: Geometry) -> Any:
    return gather(tangents[0], route, window)


def _transpose(route: Any, g: Any, x: Any, *, window: Geometry) -> Any:
    add = lambda target: scatter(target, route, g, window)
    return (scattered(x, g, route, add, lambda target: _into(target, route, g, window)),)


(window_max, window_max_routed), (window_min, window_min_routed) = (
    routed_pair(
        f"window_{name}",
        f"window:window_{name}",
        f"window:window_{name}_routed",
        _apply,
        _transpose,
        doc=f"The {word} element of every window: of ties the first in window order, of nans the first nan.",
    )
    for name, word in (("max", "largest"), ("min", "smallest"))
)
