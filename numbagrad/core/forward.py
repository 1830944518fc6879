"""Forward mode: boxes that carry a tangent beside the value."""

from __future__ import annotations

from typing import Any

from numbagrad.core.dtypes import INEXACT
from numbagrad.core.trace import Box, Trace, bind


class DualBox(Box):
    """A value and its tangent, both of the level below."""

    __slots__ = ("tangent",)

    def __init__(self, value: Any, tangent: Any, trace: Trace) -> None:
        self.value, self.tangent, self.trace, self.level = value, tangent, trace, trace.level
        self.shape, self.dtype = value.shape, value.dtype

    def process_map(self, op: Any, args: tuple[Any, ...]) -> Any:
        level = self.level
        if op.kind == "constant":
            return op(*[a.value if a.__class__ is DualBox and a.level == level else a for a in args])
        args = op.broadcast_traced(args, level)
        lower, tangents, moving = [], [], 0
        for k, a in enumerate(args):
            if a.__class__ is DualBox and a.level == level:
                moving |= 1 << k
                lower.append(a.value)
                tangents.append(a.tangent)
            else:
                lower.append(a)
        out = op(*lower)
        outs = (out,) if op.outputs == 1 else out
        plan = op.jvp_plan(moving)
        boxed = [
            o if t is None or o.dtype.kind not in INEXACT else DualBox(o, t, self.trace)
            for o, t in zip(outs, plan.apply(plan.residuals(lower, outs), tangents), strict=True)
        ]
        return boxed[0] if op.outputs == 1 else tuple(boxed)

    def process(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        trace, level = self.trace, self.level
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
            return out if t is None or out.dtype.kind not in INEXACT else DualBox(out, t, trace)
        if t is None:
            return out
        return tuple(o if d is None else DualBox(o, d, trace) for o, d in zip(out, t, strict=True))
