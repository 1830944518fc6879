"""Primitives and the dispatch table.

Every structural primitive is of one of five kinds, so that a derivative rule cannot be forgotten and the two
modes cannot disagree:

    constant     no derivative, stated
    linear       a transpose; the JVP is the primitive itself
    multilinear  linear in each operand apart: one transpose per operand
    routed       selects inputs: a route computed once, applied by the JVP, transposed by the VJP
    smooth       a JVP and a VJP in terms of other primitives

Elementwise operations are the sixth, `MapOp` in primitives/elementwise.py: their rules come from the scalar
algebra. A rule receives values and calls primitives, nothing else; that is why every order works.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numbagrad.core import half
from numbagrad.core.dtypes import HALVES, INEXACT
from numbagrad.core.errors import DeviceError, message
from numbagrad.core.trace import Aval, bind, concrete, device_of

Rule = Callable[..., Any]
ndarray = np.ndarray

PRIMITIVES: dict[str, Any] = {}  # by name: Primitive, and the MapOp of every atom

# platform -> primitive name -> kernel(*buffers, **params) -> buffer, or a tuple of buffers
TABLE: dict[str, dict[str, Callable[..., Any]]] = {"cpu": {}, "cuda": {}}


def register_kernel(primitive: Primitive | str, device: str = "cpu") -> Callable[[Rule], Rule]:
    """Put a kernel into the dispatch table: `kernel(*buffers, **params) -> buffer(s)`. Replaces what is there.

    Device: "cpu", where buffers are NumPy arrays, or "cuda". A kernel must not write to its operands.
    """
    name = primitive if isinstance(primitive, str) else primitive.name
    if device not in TABLE:
        raise DeviceError(message("register_kernel", "no such kind of device", repr(device), list(TABLE)))

    def register(kernel: Rule) -> Rule:
        TABLE[device][name] = kernel
        found = PRIMITIVES.get(name)
        if found is not None:
            found.forget_kernels()
        return kernel

    return register


def lookup(name: str, platform: str, home: str) -> Callable[..., Any]:
    """The kernel of a primitive; its module is imported when first needed.

    `home` is "module:function" in the folder of each platform's kernels, where the same file has the same name.
    """
    table = TABLE[platform]
    kernel = table.get(name)
    if kernel is None:
        module, _, attribute = home.partition(":")
        if not home:
            have = [f"{other!r}" for other in TABLE if name in TABLE[other]]
            step = "Register one: numbagrad.register_kernel."
            raise DeviceError(message(name, f"no kernel for {platform!r}", f"kernels for {have}", platform, step))
        kernel = getattr(importlib.import_module(f"numbagrad.kernels.{platform}.{module}"), attribute)
        table[name] = kernel
    return kernel


def mixed_devices(op: str, args: Sequence[Any]) -> DeviceError:
    """The error for operands on several devices."""
    where = " and ".join(dict.fromkeys(map(device_of, args)))
    return DeviceError(message(op, "operands on different devices", where, "one device", "Move one with device_put."))


class Primitive:
    """A structural operation. Call it with values; parameters are keywords."""

    kind = "constant"
    elementwise = False
    linear_in: tuple[int, ...] = ()

    def __init__(self, name: str, home: str, *, outputs: int = 1, doc: str = "") -> None:
        if name in PRIMITIVES:
            raise ValueError(message("Primitive", "the name is taken", name, "a name of its own"))
        self.name, self.home, self.outputs, self.doc = name, home, outputs, doc
        self._cpu: Callable[..., Any] | None = None
        PRIMITIVES[name] = self

    def __call__(self, *args: Any, **params: Any) -> Any:
        return bind(self, args, params)

    def __repr__(self) -> str:
        return f"<{self.kind} primitive {self.name}>"

    def forget_kernels(self) -> None:
        """Look the kernel up again at the next call."""
        self._cpu = None

    def run(self, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Run the kernel of the operands' device."""
        for a in args:
            if a.__class__ is not ndarray:
                return self._run_on(a, args, params)
        kernel = self._cpu
        if kernel is None:
            kernel = self._cpu = lookup(self.name, "cpu", self.home)
        if HALVES and not HALVES.isdisjoint([a.dtype for a in args]):
            return half.call(PRIMITIVES["convert"], kernel, self.name, args, params)
        return kernel(*args, **params)

    def _run_on(self, place: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Run on the device of one of the operands; what lies on the host is brought there."""
        device, operands = place.device, args
        for a in args:
            if a.__class__ is ndarray:
                operands = tuple([place.put(v) if v.__class__ is ndarray else v for v in args])
            elif a.device is not device:
                raise mixed_devices(self.name, args)
        kernel = TABLE[device.platform].get(self.name) or lookup(self.name, device.platform, self.home)
        if HALVES and not HALVES.isdisjoint([a.dtype for a in operands]):
            return half.call(PRIMITIVES["convert"], kernel, self.name, operands, params)
        return kernel(*operands, **params)

    # What reverse mode keeps of the operands and results, and how it pulls a cotangent back.

    def record(self, args: tuple[Any, ...], needs: tuple[bool, ...], params: dict[str, Any]) -> tuple[Any, Any]:
        """Result on the level below, and residuals for `pull`."""
        out = bind(self, args, params)
        return out, self.save(args, (out,) if self.outputs == 1 else out, needs)

    def advance(self, args: tuple[Any, ...], tangents: Sequence[Any], params: dict[str, Any]) -> tuple[Any, Any]:
        """Result and its tangent on the level below."""
        out = bind(self, args, params)
        return out, self.push(tangents, args, (out,) if self.outputs == 1 else out, params)

    def save(self, args: Sequence[Any], outs: Sequence[Any], needs: Sequence[bool]) -> Any:
        """Residuals for `pull`."""
        return None

    def pull(self, gs: Sequence[Any], saved: Any, needs: Sequence[bool], params: dict[str, Any]) -> Sequence[Any]:
        """One cotangent per operand (None is zero, or not needed)."""
        raise AssertionError(f"{self.name} is constant")

    def push(self, tangents: Sequence[Any], args: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> Any:
        """Tangent per output, from tangents per operand (None is zero)."""
        raise AssertionError(f"{self.name} is constant")


class Linear(Primitive):
    """`transpose(g, *operands, **params)` gives one cotangent per linear operand, of which it sees only Avals."""

    kind = "linear"

    def __init__(
        self,
        name: str,
        home: str,
        transpose: Rule,
        *,
        linear_in: tuple[int, ...] | None = (0,),
        **rest: Any,
    ) -> None:
        super().__init__(name, home, **rest)
        self.transpose = transpose
        self.all_linear = linear_in is None
        self.linear_in = linear_in or ()

    def _is_linear(self, k: int) -> bool:
        return self.all_linear or k in self.linear_in

    def save(self, args: Sequence[Any], outs: Sequence[Any], needs: Sequence[bool]) -> Any:
        return [Aval(a.shape, a.dtype) if self._is_linear(k) else a for k, a in enumerate(args)]

    def pull(self, gs: Sequence[Any], saved: Any, needs: Sequence[bool], params: dict[str, Any]) -> Sequence[Any]:
        result = self.transpose(gs[0] if self.outputs == 1 else gs, *saved, **params)
        result = result if isinstance(result, (tuple, list)) else (result,)
        if self.all_linear:
            return result
        return [result[self.linear_in.index(k)] if k in self.linear_in else None for k in range(len(saved))]

    def push(self, tangents: Sequence[Any], args: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> Any:
        if all(t is None for t in tangents):
            return None
        filled = [
            (zeros_like(a) if t is None else t) if self._is_linear(k) else a
            for k, (t, a) in enumerate(zip(tangents, args, strict=True))
        ]
        return bind(self, tuple(filled), params)


class Multilinear(Primitive):
    """`transposes[k](g, *operands, **params)` gives the cotangent of operand k, of which it sees only the Aval.

    The parameter `absorbs` names operands that are cotangents or tangents: their zeros are absorbing, so 0 * inf is 0.
    """

    kind = "multilinear"

    def __init__(self, name: str, home: str, transposes: Sequence[Rule], **rest: Any) -> None:
        super().__init__(name, home, **rest)
        self.transposes = transposes

    def save(self, args: Sequence[Any], outs: Sequence[Any], needs: Sequence[bool]) -> Any:
        alone = sum(needs) == 1  # the only operand that needs a cotangent is not itself needed for it
        return [Aval(a.shape, a.dtype) if alone and need else a for a, need in zip(args, needs, strict=True)]

    def pull(self, gs: Sequence[Any], saved: Any, needs: Sequence[bool], params: dict[str, Any]) -> Sequence[Any]:
        return [self.transposes[k](gs[0], *saved, **params) if need else None for k, need in enumerate(needs)]

    def push(self, tangents: Sequence[Any], args: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> Any:
        total = None
        for k, t in enumerate(tangents):
            if t is not None:
                absorbs = tuple(sorted({k, *params.get("absorbs", ())}))
                term = bind(self, (*args[:k], t, *args[k + 1 :]), {**params, "absorbs": absorbs})
                total = term if total is None else accumulate(total, term)
        return total


class Routed(Primitive):
    """`route(out, *operands, **params)` is computed the same way in both modes; `apply(route, tangents, avals)`
    sends tangents along it, `transpose(route, g, avals)` cotangents back. Both see only Avals of inexact operands.

    Where one pass finds value and route together, `joint` is the primitive that gives both, and runs in this one's
    place when there is a derivative to take; its own route is simply its second output (see `routed_pair`).
    """

    kind = "routed"

    def __init__(
        self,
        name: str,
        home: str,
        route: Rule | None,
        apply: Rule,
        transpose: Rule,
        joint: Routed | None = None,
        **rest: Any,
    ) -> None:
        super().__init__(name, home, **rest)
        self.route, self.apply, self.transpose, self.joint = route, apply, transpose, joint

    def record(self, args: tuple[Any, ...], needs: tuple[bool, ...], params: dict[str, Any]) -> tuple[Any, Any]:
        if self.joint is None:
            return super().record(args, needs, params)
        out, route = bind(self.joint, args, params)
        return out, (route, [_aval(a) for a in args])

    def advance(self, args: tuple[Any, ...], tangents: Sequence[Any], params: dict[str, Any]) -> tuple[Any, Any]:
        if self.joint is None:
            return super().advance(args, tangents, params)
        out, route = bind(self.joint, args, params)
        return out, self.apply(route, tangents, *map(_aval, args), **params)

    def save(self, args: Sequence[Any], outs: Sequence[Any], needs: Sequence[bool]) -> Any:
        if self.route is None:
            return outs[1], [_aval(a) for a in args]
        return list(args), list(outs)

    def pull(self, gs: Sequence[Any], saved: Any, needs: Sequence[bool], params: dict[str, Any]) -> Sequence[Any]:
        if self.route is None or self.joint is not None:
            route, avals = saved
        else:
            args, outs = saved
            route = self.route(outs[0] if self.outputs == 1 else outs, *args, **params)
            avals = [_aval(a) for a in args]
        return self.transpose(route, gs[0], *avals, **params)

    def push(self, tangents: Sequence[Any], args: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> Any:
        avals = [_aval(a) for a in args]
        if self.route is None:
            return self.apply(outs[1], tangents, *avals, **params), None
        route = self.route(outs[0] if self.outputs == 1 else outs, *args, **params)
        return self.apply(route, tangents, *avals, **params)


def routed_pair(
    name: str, home: str, joint_home: str, apply: Rule, transpose: Rule, *, doc: str
) -> tuple[Routed, Routed]:
    """A routed primitive that computes the value alone, and `<name>_routed`, which computes value and route."""
    doc_joint = f"{doc} Also gives the route."
    joint = Routed(f"{name}_routed", joint_home, None, apply, transpose, outputs=2, doc=doc_joint)
    return Routed(name, home, None, apply, transpose, joint=joint, doc=doc), joint


class Smooth(Primitive):
    """`vjp(g, out, *operands, **params)` and `jvp(tangents, out, *operands, **params)`, written with primitives."""

    kind = "smooth"

    def __init__(self, name: str, home: str, vjp: Rule, jvp: Rule, **rest: Any) -> None:
        super().__init__(name, home, **rest)
        self.vjp, self.jvp = vjp, jvp

    def save(self, args: Sequence[Any], outs: Sequence[Any], needs: Sequence[bool]) -> Any:
        return list(args), list(outs)

    def pull(self, gs: Sequence[Any], saved: Any, needs: Sequence[bool], params: dict[str, Any]) -> Sequence[Any]:
        args, outs = saved
        single = self.outputs == 1
        if HALVES and not HALVES.isdisjoint([a.dtype for a in args]):
            args, outs, params, dtypes = self._widened(args, params)
            gs = half.wide(PRIMITIVES["convert"], gs)
            found = self.vjp(gs[0] if single else gs, outs[0] if single else outs, *args, **params)
            return half.narrow(PRIMITIVES["convert"], found, dtypes)
        return self.vjp(gs[0] if single else gs, outs[0] if single else outs, *args, **params)

    def _widened(self, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Operands of 16 bits in float32 and the results of those: a rule is several operations, rounded at its end."""
        wide, params = half.wide(PRIMITIVES["convert"], args), half.wide_params(params)
        outs = bind(self, tuple(wide), params)
        return wide, (outs,) if self.outputs == 1 else outs, params, [a.dtype for a in args]

    def push(self, tangents: Sequence[Any], args: Sequence[Any], outs: Sequence[Any], params: dict[str, Any]) -> Any:
        if HALVES and not HALVES.isdisjoint([a.dtype for a in args]):
            dtypes = [o.dtype for o in outs]
            args, outs, params, _ = self._widened(args, params)
            tangents = half.wide(PRIMITIVES["convert"], tangents)
            found = self.jvp(tangents, outs[0] if self.outputs == 1 else outs, *args, **params)
            parts = half.narrow(PRIMITIVES["convert"], (found,) if self.outputs == 1 else found, dtypes)
            return parts[0] if self.outputs == 1 else parts
        return self.jvp(tangents, outs[0] if self.outputs == 1 else outs, *args, **params)


def _aval(value: Any) -> Any:
    """An operand without its numbers; indices and masks, which have no derivative, stay."""
    return Aval(value.shape, value.dtype) if value.dtype.kind in INEXACT else value


def beside(value: Any, like: Any) -> Any:
    """A host value on the device of another value, traced or not."""
    if value.__class__ is ndarray:
        found = concrete(like)
        if found.__class__ is not ndarray:
            return found.put(value)
    return value


def zeros_like(value: Any) -> Any:
    """Concrete zeros of a value's shape and dtype on its device: a view of one element."""
    return beside(zeros(value.shape, value.dtype), value)


def own_zeros(like: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """New zeros that the caller may write to, where the concrete value `like` is."""
    return np.zeros(shape, dtype) if like.__class__ is ndarray else like.zeros(shape, dtype)


_zero_cells: dict[np.dtype, np.ndarray] = {}


def zeros(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Read-only zeros that take no memory."""
    cell = _zero_cells.get(dtype)
    if cell is None:
        cell = _zero_cells[dtype] = np.zeros((), dtype)
        cell.flags.writeable = False
    return cell if shape == () else np.ndarray(shape, dtype, cell, 0, (0,) * len(shape))


def accumulate(a: Any, b: Any) -> Any:
    """a + b of two cotangents or tangents."""
    return bind(PRIMITIVES["add"], (a, b), {})


def accumulate_into(target: Any, g: Any) -> Any:
    """target += g, in place where the shapes agree; `target` must belong to the caller."""
    return PRIMITIVES["add"].run_into(target, g)
