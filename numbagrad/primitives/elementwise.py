"""Elementwise operations: every one is a `MapOp`, a tuple of scalar expressions over its operands.

Its derivatives are MapOps again, found by the scalar algebra, so each is one fused kernel at every order. A map
takes operands of any shapes that broadcast. An operand that is being differentiated is first broadcast
explicitly, which is an operation with a transpose of its own; constants are not, the loop's strides do it.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from numbagrad.core.dtypes import HALVES
from numbagrad.core.errors import message
from numbagrad.core.registry import PRIMITIVES, mixed_devices
from numbagrad.core.trace import escaped
from numbagrad.scalar import ATOMS, Atom, Expr, arg, diff
from numbagrad.scalar.atoms import cast
from numbagrad.scalar.expr import arguments, substitute

ndarray = np.ndarray


class MapOp:
    """An elementwise operation on `arity` operands; call it with values.

    Operand dtypes must be what the expressions expect: promotion is the caller's work.
    """

    elementwise = True

    __slots__ = (
        "_device_fast", "_device_kernels", "_fast", "_jvp_plans", "_kernels", "_vjp_plans", "arity", "exprs", "kind",
        "name", "outputs",
    )  # fmt: skip

    def __init__(self, name: str, exprs: Sequence[Expr], arity: int) -> None:
        self.name, self.exprs, self.arity = name, tuple(exprs), arity
        self.outputs = len(self.exprs)
        self._fast: list[Any] = []  # functions that skip all of the below, see MapKernel
        self._kernels: dict[Any, Any] = {}
        self._device_fast: list[Any] = []
        self._device_kernels: dict[Any, Any] = {}
        self._vjp_plans: dict[Any, _Plan] = {}
        self._jvp_plans: dict[Any, _Plan] = {}
        constant = all(e.is_literal or (e.atom is not None and e.atom.constant) for e in self.exprs)
        self.kind = "constant" if constant else "map"

    def __call__(self, *args: Any) -> Any:
        # `bind` and `run` in one: this is where eager code spends its time
        top = place = None
        level = 0
        for a in args:
            if a.__class__ is not ndarray:
                if a.level > level:
                    top, level = a, a.level
                elif a.level == 0:
                    place = a
        if top is not None:
            if not top.trace.alive:
                raise escaped(top, self.name)
            return top.process_map(self, args)
        if place is not None:
            return self._run_on(place.device, args)
        for apply in self._fast:
            out = apply(*args)
            if out is not None:
                return out
        return self.run(args)

    def __repr__(self) -> str:
        return f"<map {self.name}: {', '.join(map(repr, self.exprs))}>"

    def run(self, args: tuple[Any, ...], params: dict[str, Any] | None = None) -> Any:
        """Launch the kernel for the operands' types and layout: small arrays met before go straight to native code."""
        for a in args:
            if a.__class__ is not ndarray:
                return self._run_on(a.device, args)
        for apply in self._fast:
            out = apply(*args)
            if out is not None:
                return out
        outs = self._kernel(args)(args, self.shape_of(args))
        return outs[0] if self.outputs == 1 else tuple(outs)

    def run_into(self, target: Any, other: Any) -> Any:
        """`target = op(target, other)` in place, for buffers the caller owns; returns where the result is."""
        if other.shape != target.shape or other.dtype != target.dtype:
            return self.run((target, other))
        if target.__class__ is not ndarray:
            self._kernel((target, other), "cuda").write(target.device, (target, other), (target,))
        elif other.__class__ is ndarray:
            self._kernel((target, other)).write((target, other), (target,))
        else:
            return self.run((target, other))
        return target

    def _run_on(self, device: Any, args: tuple[Any, ...]) -> Any:
        """The kernel of another device; numbers of the host's go with the launch."""
        for apply in self._device_fast:
            out = apply(*args)
            if out is not None:
                return out
        for a in args:
            if a.__class__ is not ndarray and a.device is not device:
                raise mixed_devices(self.name, args)
        outs = self._kernel(args, "cuda")(device, args, self.shape_of(args))
        return outs[0] if self.outputs == 1 else tuple(outs)

    def _kernel(self, args: Sequence[Any], platform: str = "cpu") -> Any:
        dtypes = tuple([a.dtype for a in args])
        kernels = self._kernels if platform == "cpu" else self._device_kernels
        kernel = kernels.get(dtypes)
        if kernel is None:
            fast = self._fast if platform == "cpu" else self._device_fast
            kernel = kernels[dtypes] = _kernel_class(platform)(self.name, self.exprs, dtypes, fast)
        return kernel

    def shape_of(self, args: Sequence[Any]) -> tuple[int, ...]:
        """Common shape of operands, or the user's error."""
        shape = args[0].shape
        for a in args:
            other = a.shape
            if other != shape and other != ():
                if shape != ():
                    return broadcast_shapes(self.name, args)
                shape = other
        return shape

    def broadcast_traced(self, args: tuple[Any, ...], level: int) -> tuple[Any, ...]:
        """Bring the operands traced at this level to the common shape, by an operation that has a transpose."""
        shape = self.shape_of(args)
        broadcast = PRIMITIVES["broadcast_to"]
        return tuple(
            broadcast(a, shape=shape) if a.__class__ is not ndarray and a.level == level and a.shape != shape else a
            for a in args
        )

    def vjp_plan(self, needs: int) -> _Plan:
        """How to pull a cotangent back to the operands whose bits are set."""
        plan = self._vjp_plans.get(needs)
        if plan is None:
            n, known = self._known()
            gs = [arg(n + j) for j in range(self.outputs)]
            cotangents = diff.vjp(self.exprs, self.arity, gs, known)
            wanted = [c if needs >> k & 1 else None for k, c in enumerate(cotangents)]
            plan = self._vjp_plans[needs] = _Plan(f"{self.name}_vjp", wanted, n)
        return plan

    def jvp_plan(self, moving: int) -> _Plan:
        """How to push tangents of the operands whose bits are set."""
        plan = self._jvp_plans.get(moving)
        if plan is None:
            n, known = self._known()
            operands = [k for k in range(self.arity) if moving >> k & 1]
            symbols = {k: arg(n + i) for i, k in enumerate(operands)}
            plan = self._jvp_plans[moving] = _Plan(f"{self.name}_jvp", diff.jvp(self.exprs, symbols, known), n)
        return plan

    def pull(self, gs: Sequence[Any], saved: Any, needs: Any, params: dict[str, Any]) -> Sequence[Any]:
        """Cotangents of the operands; `saved` is a plan and its residuals."""
        return saved[0].apply(saved[1], gs)

    def _known(self) -> tuple[int, dict[Expr, Expr]]:
        """Number of operands and outputs, and the arguments that hold the outputs in a derivative's expression."""
        known = {e: arg(self.arity + j) for j, e in enumerate(self.exprs) if e.atom is not None}
        return self.arity + self.outputs, known


class _Plan:
    """A derivative ready to run: which residuals it needs, one map for what must be computed, and what is passed on."""

    __slots__ = ("direct", "op", "routes", "sources", "symbols")

    def __init__(self, name: str, exprs: Sequence[Expr | None], n: int) -> None:
        # a cotangent that came out as the literal 0 is no operand's: no kernel, and no dtype to take
        exprs = [None if e is None or (e.is_literal and e.literal == 0) else e for e in exprs]
        # an expression that is just a cotangent is handed on without a kernel
        todo = [e for e in dict.fromkeys(exprs) if e is not None and not (e.is_argument and e.value >= n)]
        used = arguments(todo)
        self.sources = [k for k in used if k < n]
        self.symbols = [k - n for k in used if k >= n]
        place = {k: arg(i) for i, k in enumerate(used)}
        self.op = map_op(name, substitute(todo, place), len(used)) if todo else None
        self.routes: list[tuple[str, int]] = [
            ("zero", 0) if e is None else ("computed", todo.index(e)) if e in todo else ("given", e.value - n)
            for e in exprs
        ]
        # the map's outputs are just the result
        self.direct = [e for e in exprs if e is not None] == todo == list(exprs) and len(todo) > 0

    def residuals(self, args: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        """What the derivative's expression mentions of operands and outputs."""
        n = len(args)
        return [args[k] if k < n else outs[k - n] for k in self.sources]

    def apply(self, residuals: Sequence[Any], symbols: Sequence[Any]) -> Sequence[Any]:
        """Evaluate on values."""
        computed: Any = ()
        op = self.op
        if op is not None:
            if len(self.symbols) != len(symbols):
                computed = op(*residuals, *[symbols[k] for k in self.symbols])
            else:
                computed = op(*residuals, *symbols)
            if op.outputs == 1:
                computed = (computed,)
            if self.direct:
                return computed
        return [
            computed[k] if route == "computed" else symbols[k] if route == "given" else None for route, k in self.routes
        ]


_ops: dict[Any, MapOp] = {}


def map_op(name: str, exprs: Sequence[Expr], arity: int) -> MapOp:
    """The one MapOp for these expressions."""
    key = (tuple(exprs), arity)
    found = _ops.get(key)
    if found is None:
        found = _ops[key] = MapOp(name, exprs, arity)
    return found


@cache
def op(name: str) -> MapOp:
    """The MapOp of an atom."""
    atom: Atom = ATOMS[name]
    return map_op(name, (atom(*(arg(k) for k in range(atom.arity))),), atom.arity)


@cache
def _kernel_class(platform: str) -> Any:
    return importlib.import_module(f"numbagrad.kernels.{platform}.map").MapKernel


def broadcast_shapes(name: str, args: Sequence[Any]) -> tuple[int, ...]:
    """Common shape of operands, or the user's error."""
    shapes = [a.shape for a in args]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(
            message(name, "shapes do not broadcast", " and ".join(map(str, shapes)), "equal or 1 in each axis")
        ) from None


def convert(value: Any, dtype: np.dtype) -> Any:
    """A value in another dtype."""
    source = value.dtype
    if source == dtype:
        return value
    if value.__class__ is ndarray and (value.ndim == 0 or value.size == 0) and dtype not in HALVES:
        return value.real.astype(dtype) if source.kind == "c" and dtype.kind not in "cb" else value.astype(dtype)
    return _cast_op(source, dtype)(value)


@cache
def _cast_op(source: np.dtype, target: np.dtype) -> MapOp:
    atom = cast(source, target)
    return map_op(atom.name, (atom(arg(0)),), 1)


add = PRIMITIVES["add"] = op("add")  # reverse mode sums cotangents with it
PRIMITIVES["convert"] = convert  # values made from nested lists are brought to one dtype with it
