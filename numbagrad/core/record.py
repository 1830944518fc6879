"""A recording of the primitives applied to some inputs, to be played again on others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numbagrad.core.trace import Box, Trace, bind


class Recording(Trace):
    """The steps taken so far. A step's operands are slots of earlier values, or constants."""

    __slots__ = ("size", "steps")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.size = 0
        self.steps: list[tuple[Any, list[tuple[int, Any]], dict[str, Any], list[int]]] = []

    def box(self, value: Any) -> RecordBox:
        """Watch a value under a new slot."""
        box = RecordBox(value, self, self.size)
        self.size += 1
        return box

    def play(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """Values of the outputs for new inputs (the first slots). Outputs that are not boxes are constants."""
        values: list[Any] = [*inputs, *[None] * (self.size - len(inputs))]
        for primitive, operands, params, slots in self.steps:
            out = bind(primitive, tuple(values[s] if s >= 0 else c for s, c in operands), params)
            for slot, v in zip(slots, (out,) if primitive.outputs == 1 else out, strict=True):
                values[slot] = v
        return [values[o.slot] if isinstance(o, RecordBox) and o.trace is self else o for o in outputs]


class RecordBox(Box):
    """A value with a slot in a recording."""

    __slots__ = ("slot",)

    def __init__(self, value: Any, trace: Recording, slot: int) -> None:
        self.value, self.trace, self.level = value, trace, trace.level
        self.shape, self.dtype = value.shape, value.dtype
        self.slot = slot

    def process(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        trace = self.trace
        assert isinstance(trace, Recording)
        mine = [a.__class__ is RecordBox and a.level == self.level for a in args]
        operands = [(a.slot, None) if m else (-1, a) for a, m in zip(args, mine, strict=True)]
        out = bind(primitive, tuple(a.value if m else a for a, m in zip(args, mine, strict=True)), params)
        boxes = [trace.box(v) for v in ((out,) if primitive.outputs == 1 else out)]
        trace.steps.append((primitive, operands, params, [b.slot for b in boxes]))
        return boxes[0] if primitive.outputs == 1 else tuple(boxes)
