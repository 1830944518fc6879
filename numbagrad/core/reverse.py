"""Reverse mode: boxes that record a tape, and the walk back along it.

Nodes carry increasing ids, so the newest node on the heap is always ready. Each pullback calls ordinary
primitives on the level below: same bind, same table, same kernels as the forward pass.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from numbagrad.core.registry import accumulate, accumulate_into, zeros
from numbagrad.core.trace import Box, Trace, bind

_ids = itertools.count(1)
ndarray = np.ndarray


class Node:
    """One primitive on the tape. `parents[k]` is (node, output number) for a traced operand, else None."""

    __slots__ = ("id", "needs", "outs", "params", "parents", "primitive", "saved")

    def __init__(
        self, primitive: Any, parents: Sequence[Any], needs: Any, saved: Any, params: dict[str, Any], outs: Any
    ) -> None:
        self.id = next(_ids)
        self.primitive, self.parents, self.needs = primitive, parents, needs
        self.saved, self.params, self.outs = saved, params, outs


class TapeBox(Box):
    """A value recorded on a tape."""

    __slots__ = ("node", "slot")

    def __init__(self, value: Any, trace: Trace, node: Node, slot: int = 0) -> None:
        self.value, self.trace, self.level = value, trace, trace.level
        self.shape, self.dtype = value.shape, value.dtype
        self.node, self.slot = node, slot

    def process(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        trace, level = self.trace, self.level
        if primitive.elementwise:
            args = primitive.broadcast_traced(args, level)
        lower, parents, needs = [], [], []
        for a in args:
            if a.__class__ is TapeBox and a.level == level:
                lower.append(a.value)
                parents.append((a.node, a.slot))
                needs.append(True)
            else:
                lower.append(a)
                parents.append(None)
                needs.append(False)
        if primitive.kind == "constant":
            return bind(primitive, tuple(lower), params)
        needs = tuple(needs)
        out, saved = primitive.record(tuple(lower), needs, params)
        if primitive.outputs == 1:
            if out.dtype.kind not in "fc":
                return out
            return TapeBox(out, trace, Node(primitive, parents, needs, saved, params, None))
        node = Node(primitive, parents, needs, saved, params, [(o.shape, o.dtype) for o in out])
        return tuple(TapeBox(o, trace, node, k) if o.dtype.kind in "fc" else o for k, o in enumerate(out))


def input_box(value: Any, trace: Trace) -> TapeBox:
    """A box for an argument of the function."""
    return TapeBox(value, trace, Node(None, (), (), None, {}, None))


class Update:
    """A cotangent that touches a part of an array: added into what is there instead of building zeros each time.

    `whole()` is the ordinary value, `added(target)` the sum with one, `into(target)` the sum in place, for
    buffers that belong to the walk. So reading n elements one by one costs O(n) memory in reverse mode.
    """

    __slots__ = ("added", "g", "into", "whole")

    def __init__(self, g: Any, whole: Any, added: Any, into: Any) -> None:
        self.g, self.whole, self.added, self.into = g, whole, added, into


class _Cotangents:
    """Sums of cotangents by (node id, slot), and which of the sums are buffers of our own."""

    __slots__ = ("owned", "sums")

    def __init__(self) -> None:
        self.sums: dict[tuple[int, int], Any] = {}
        self.owned: set[tuple[int, int]] = set()

    def add(self, key: tuple[int, int], g: Any) -> None:
        present = self.sums.get(key)
        if g.__class__ is Update:
            if present is None:
                total = g.whole()
            elif present.__class__ is ndarray and g.g.__class__ is ndarray:
                total = g.into(present if key in self.owned else present.copy())
            else:
                total = g.added(present)
        elif present is None:
            self.sums[key] = g  # may be shared with others: not ours
            return
        elif key in self.owned and present.__class__ is ndarray and g.__class__ is ndarray:
            total = accumulate_into(present, g)
        else:
            total = accumulate(present, g)
        self.sums[key] = total
        self.owned.add(key)


def walk(outputs: Sequence[Any], cotangents: Sequence[Any], inputs: Sequence[TapeBox], release: bool) -> list[Any]:
    """Cotangents of the inputs, given those of the outputs (None is zero). `release` frees residuals on the way."""
    sums = _Cotangents()
    heap: list[tuple[int, Node]] = []
    queued: set[int] = set()
    level = inputs[0].level if inputs else 0

    def send(node: Node, slot: int, g: Any) -> None:
        sums.add((node.id, slot), g)
        if node.id not in queued:
            queued.add(node.id)
            heappush(heap, (-node.id, node))

    for out, g in zip(outputs, cotangents, strict=True):
        if g is not None and out.__class__ is TapeBox and out.level == level:
            send(out.node, out.slot, g)
    wanted = {box.node.id for box in inputs}
    while heap:
        _, node = heappop(heap)
        if node.id in wanted:
            continue
        primitive = node.primitive
        if node.outs is None:
            gs: Any = (sums.sums.pop((node.id, 0)),)
        else:
            gs = [sums.sums.pop((node.id, k), None) for k in range(len(node.outs))]
            gs = [zeros(*aval) if g is None else g for g, aval in zip(gs, node.outs, strict=True)]
        for parent, g in zip(node.parents, primitive.pull(gs, node.saved, node.needs, node.params), strict=True):
            if parent is not None and g is not None:
                send(parent[0], parent[1], g)
        if release:
            node.saved = None
    return [sums.sums.get((box.node.id, 0)) for box in inputs]
