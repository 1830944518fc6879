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

from numbagrad.core.dtypes import INEXACT
from numbagrad.core.registry import accumulate, accumulate_into, beside, own_zeros, zeros
from numbagrad.core.trace import Box, Trace, bind, is_concrete

_ids = itertools.count(1)
ndarray = np.ndarray
Key = Any  # of an output: the id of its node, or (id, number) for a further output


class Node:
    """One primitive on the tape. `parents[k]` is the `link` of a traced operand's box, else None."""

    __slots__ = ("id", "needs", "outs", "params", "parents", "primitive", "saved")

    def __init__(
        self, primitive: Any, parents: Sequence[Any], needs: Any, saved: Any, params: dict[str, Any], outs: Any
    ) -> None:
        self.id = next(_ids)
        self.primitive, self.parents, self.needs = primitive, parents, needs
        self.saved, self.params = saved, params
        self.outs = outs  # shape and dtype of each, if there are several


class TapeBox(Box):
    """A value recorded on a tape. `link` is (key of the output, node): what a later node needs to know of it."""

    __slots__ = ("link",)

    def __init__(self, value: Any, trace: Trace, link: tuple[Key, Node]) -> None:
        self.value, self.trace, self.level = value, trace, trace.level
        self.shape, self.dtype = value.shape, value.dtype
        self.link = link

    @property
    def node(self) -> Node:
        """The primitive that made it."""
        return self.link[1]

    def process_map(self, op: Any, args: tuple[Any, ...]) -> Any:
        level, shape = self.level, None  # of the traced operands, if they agree
        if op.kind == "constant":
            return op(*[a.value if a.__class__ is TapeBox and a.level == level else a for a in args])
        lower: list[Any] = []
        parents: list[Any] = []
        needs, bit, same = 0, 1, True
        for a in args:
            if a.__class__ is TapeBox and a.level == level:
                if shape is None:
                    shape = a.shape
                elif a.shape != shape:
                    same = False
                lower.append(a.value)
                parents.append(a.link)
                needs |= bit
            else:
                lower.append(a)
                parents.append(None)
            bit <<= 1
        if not same or (len(args) > 1 and op.shape_of(args) != shape):
            # an operand being differentiated is broadcast by an operation that has a transpose
            return self.process_map(op, op.broadcast_traced(args, level))
        out = op(*lower)
        outs = (out,) if op.outputs == 1 else out
        plan = op.vjp_plan(needs)
        saved = plan, plan.residuals(lower, outs)
        if op.outputs > 1:
            node = Node(op, parents, needs, saved, {}, [(o.shape, o.dtype) for o in outs])
            return self._several(outs, node)
        if out.dtype.kind not in INEXACT:
            return out
        node = Node(op, parents, needs, saved, {}, None)
        return TapeBox(out, self.trace, (node.id, node))

    def _several(self, outs: Sequence[Any], node: Node) -> tuple[Any, ...]:
        return tuple(
            TapeBox(o, self.trace, ((node.id, k) if k else node.id, node)) if o.dtype.kind in INEXACT else o
            for k, o in enumerate(outs)
        )

    def process(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        trace, level = self.trace, self.level
        lower: list[Any] = []
        parents: list[Any] = []
        traced: list[bool] = []
        for a in args:
            if a.__class__ is TapeBox and a.level == level:
                lower.append(a.value)
                parents.append(a.link)
                traced.append(True)
            else:
                lower.append(a)
                parents.append(None)
                traced.append(False)
        if primitive.kind == "constant":
            return bind(primitive, tuple(lower), params)
        needs = tuple(traced)
        out, saved = primitive.record(tuple(lower), needs, params)
        if primitive.outputs == 1:
            if out.dtype.kind not in INEXACT:
                return out
            node = Node(primitive, parents, needs, saved, params, None)
            return TapeBox(out, trace, (node.id, node))
        node = Node(primitive, parents, needs, saved, params, [(o.shape, o.dtype) for o in out])
        return self._several(out, node)


def input_box(value: Any, trace: Trace) -> TapeBox:
    """A box for an argument of the function."""
    node = Node(None, (), (), None, {}, None)
    return TapeBox(value, trace, (node.id, node))


class Update:
    """A cotangent that touches a part of an array: added into what is there instead of building zeros each time.

    `whole()` is the ordinary value, `added(target)` the sum with one, `into(target)` the sum in place, for
    buffers that belong to the walk. So reading n elements one by one costs O(n) memory in reverse mode.
    """

    __slots__ = ("added", "g", "into", "whole")

    def __init__(self, g: Any, whole: Any, added: Any, into: Any) -> None:
        self.g, self.whole, self.added, self.into = g, whole, added, into


def scattered(x: Any, g: Any, index: Any, added: Any, into: Any) -> Update:
    """The Update that adds g into the cotangent of x where an index says. Fresh zeros are the walk's own, too."""

    def whole() -> Any:
        if is_concrete(g) and is_concrete(index):
            return into(own_zeros(g, x.shape, x.dtype))
        return added(zeros(x.shape, x.dtype))

    return Update(g, whole, added, into)


class _Sums:
    """Sums of cotangents by key, and which of them are buffers of the walk's own."""

    __slots__ = ("owned", "sums")

    def __init__(self) -> None:
        self.sums: dict[Key, Any] = {}
        self.owned: set[Key] = set()

    def add(self, key: Key, present: Any, g: Any) -> None:
        """Add to what is there (None: nothing yet)."""
        if g.__class__ is Update:
            if present is None:
                total = g.whole()
            elif is_concrete(present) and is_concrete(g.g):
                total = g.into(present if key in self.owned else present.copy())
            else:
                total = g.added(present)
        elif key in self.owned and is_concrete(present) and is_concrete(g):
            total = accumulate_into(present, g)
        else:
            total = accumulate(present, g)
        self.sums[key] = total
        self.owned.add(key)


def walk(outputs: Sequence[Any], cotangents: Sequence[Any], inputs: Sequence[TapeBox], release: bool) -> list[Any]:
    """Cotangents of the inputs, given those of the outputs (None is zero). `release` frees residuals on the way."""
    state = _Sums()
    sums = state.sums
    heap: list[tuple[int, Node]] = []
    queued: set[int] = set()  # nodes with several outputs, which may be reached by each
    level = inputs[0].level if inputs else 0
    wanted = {box.link[0] for box in inputs}
    ready = [
        (out.link, g)
        for out, g in zip(outputs, cotangents, strict=True)
        if g is not None and out.__class__ is TapeBox and out.level == level
    ]
    while True:
        for link, g in ready:
            if link is None or g is None:
                continue
            key, node = link
            present = sums.get(key)
            if present is not None or g.__class__ is Update:
                state.add(key, present, g)
            else:
                sums[key] = g  # may be shared with others: not ours to write to
            if present is None and key not in wanted:
                if node.outs is not None:
                    if node.id in queued:
                        continue
                    queued.add(node.id)
                heappush(heap, (-node.id, node))
        if not heap:
            return [sums.get(box.link[0]) for box in inputs]
        node = heappop(heap)[1]
        gs: Any = (sums.pop(node.id),) if node.outs is None else _several(node, sums)
        ready = zip(node.parents, node.primitive.pull(gs, node.saved, node.needs, node.params), strict=True)  # type: ignore[assignment]
        if release:
            node.saved = None


def _several(node: Node, sums: dict[Key, Any]) -> list[Any]:
    """Cotangents of a node's outputs, zeros where nothing came back."""
    gs = [sums.pop((node.id, k) if k else node.id, None) for k in range(len(node.outs))]
    present = next(g for g in gs if g is not None)
    return [beside(zeros(*aval), present) if g is None else g for g, aval in zip(gs, node.outs, strict=True)]
