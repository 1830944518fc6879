"""What the transforms are made of, on flat lists of values: run a function under a trace and take it apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numbagrad.core.dtypes import INEXACT
from numbagrad.core.forward import DualBox
from numbagrad.core.registry import zeros_like
from numbagrad.core.reverse import TapeBox, input_box, walk
from numbagrad.core.trace import Box, Trace

Values = Sequence[Any]
FlatFunction = Callable[[list[Any]], Values]


class Tape:
    """A function run once under a tape: its outputs, and the way back as often as wanted."""

    __slots__ = ("boxes", "inputs", "outputs", "trace")

    def __init__(self, function: FlatFunction, inputs: Values, name: str) -> None:
        self.trace = Trace(name)
        self.inputs = inputs
        self.boxes = [input_box(v, self.trace) if v.dtype.kind in INEXACT else v for v in inputs]
        try:
            self.outputs = list(function(list(self.boxes)))
        finally:
            self.trace.alive = False

    def values(self) -> list[Any]:
        """The outputs on the level below."""
        return [lower(o, self.trace) for o in self.outputs]

    def back(self, cotangents: Values, release: bool = False) -> list[Any]:
        """Cotangents of the inputs; None where there is no dependence."""
        watched = [b for b in self.boxes if isinstance(b, TapeBox) and b.trace is self.trace]
        found = iter(walk(self.outputs, cotangents, watched, release))
        return [next(found) if isinstance(b, TapeBox) and b.trace is self.trace else None for b in self.boxes]


def lower(value: Any, trace: Trace) -> Any:
    """A value without the box of one trace."""
    return value.value if isinstance(value, Box) and value.trace is trace else value


def push_forward(
    function: FlatFunction, inputs: Values, tangents: Values, trace: Trace | None = None
) -> tuple[list[Any], list[Any]]:
    """Outputs and their tangents (None is zero)."""
    trace = Trace("jvp") if trace is None else trace
    boxes = [v if t is None else DualBox(v, t, trace) for v, t in zip(inputs, tangents, strict=True)]
    try:
        outputs = list(function(boxes))
    finally:
        trace.alive = False
    mine = [isinstance(o, DualBox) and o.trace is trace for o in outputs]
    return (
        [o.value if m else o for o, m in zip(outputs, mine, strict=True)],
        [o.tangent if m else None for o, m in zip(outputs, mine, strict=True)],
    )


def transpose(linear: FlatFunction, like: Values, cotangents: Values) -> list[Any]:
    """Cotangents of the inputs of a linear function: its VJP at zero."""
    tape = Tape(linear, [zeros_like(a) for a in like], "vjp")
    return tape.back(cotangents, release=True)


def filled(values: Values, like: Values) -> list[Any]:
    """None replaced by zeros."""
    return [zeros_like(a) if v is None else v for v, a in zip(values, like, strict=True)]
