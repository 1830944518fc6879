"""Forward mode: boxes that carry a tangent beside the value."""

from __future__ import annotations

from typing import Any

from numbagrad.core.trace import Box, Trace, bind


class DualBox(Box):
    """A value and its tangent, both of the level below."""

    __slots__ = ("tangent",)

    def __init__(self, value: Any, tangent: Any, trace: Trace) -> None:
        self.value, self.tangent, self.trace, self.level = value, tangent, trace, trace.level
        self.shape, self.dtype = value.shape, value.dtype

    def process(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        trace, level = self.trace, self.level
        if primitive.elementwise:
            args = primitive.broadcast_traced(args, level)
        lower, tangents = [], []
        for a in args:
            if a.__class__ is DualBox and a.level == level:
                lower.append(a.value)
                tangents.append(a.tangent)
            else:
                lower.append(a)
                tangents.append(None)
        if primitive.kind == "constant":
            return bind(primitive, tuple(lower), params)
        out, t = primitive.advance(tuple(lower), tangents, params)
        if primitive.outputs == 1:
            return out if t is None or out.dtype.kind not in "fc" else DualBox(out, t, trace)
        if t is None:
            return out
        return tuple(o if d is None else DualBox(o, d, trace) for o, d in zip(out, t, strict=True))
