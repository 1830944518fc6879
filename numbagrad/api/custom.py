"""Functions with derivatives of their own, and functions that are computed again in the backward pass.

Each call is one primitive whose "kernel" is the function itself. The mode a user did not define is the transpose
of the one that was defined, so both always exist and agree.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numbagrad.api.arguments import argument_name, flatten_output
from numbagrad.core.arguments import owned, value_of
from numbagrad.core.array import Array
from numbagrad.core.dtypes import INEXACT
from numbagrad.core.errors import message
from numbagrad.core.trace import Box, bind, level_of
from numbagrad.core.transform import Tape, filled, push_forward, transpose
from numbagrad.core.tree import TreeDef, tree_flatten, tree_unflatten
from numbagrad.primitives.elementwise import convert

Function = Callable[..., Any]


class _FunctionCall:
    """One call of a user's function as a primitive on the flat values of its differentiable arguments."""

    kind = "smooth"
    elementwise = False

    def __init__(self, name: str, fun: Function, tree: TreeDef, values: Sequence[Any]) -> None:
        self.name, self.fun, self.tree = name, fun, tree
        self.top = max(map(level_of, values), default=0)
        self.out_tree: TreeDef
        self.outputs = 2  # results are always handed over as a tuple

    def arguments(self, values: Sequence[Any]) -> Any:
        """The function's arguments with these values."""
        return tree_unflatten(self.tree, [Array(v) for v in values])

    def flat(self, values: Sequence[Any], fun: Function | None = None) -> tuple[Any, ...]:
        """The function on flat values; remembers the structure of its result."""
        leaves, self.out_tree = flatten_output((fun or self.fun)(*self.arguments(values)), self.name)
        self.check_levels(values, leaves)
        return tuple(leaves)

    def check_levels(self, values: Sequence[Any], leaves: Sequence[Any]) -> None:
        """A result of a higher level than the arguments depends on something that is not among them."""
        allowed = max(map(level_of, values), default=0)
        if any(level_of(v) > allowed for v in leaves):
            raise _ClosesOverTraced(self.name)

    def run(self, args: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        return self.flat(args)

    def record(self, args: tuple[Any, ...], needs: Any, params: dict[str, Any]) -> tuple[Any, Any]:
        return bind(self, args, params), args

    def advance(self, args: tuple[Any, ...], tangents: Sequence[Any], params: dict[str, Any]) -> tuple[Any, Any]:
        raise AssertionError


class _ClosesOverTraced(TypeError):
    def __init__(self, name: str) -> None:
        super().__init__(
            message(
                name, "the function uses a traced value from around it", "a closure", "all traced values as arguments"
            )
        )


class _CheckpointCall(_FunctionCall):
    """Forward without a tape; backward runs the function again with one."""

    def pull(self, gs: Sequence[Any], saved: Any, needs: Any, params: dict[str, Any]) -> Sequence[Any]:
        tape = Tape(self.flat, saved, self.name)
        return tape.back(gs, release=True)

    def advance(self, args: tuple[Any, ...], tangents: Sequence[Any], params: dict[str, Any]) -> tuple[Any, Any]:
        """The tangent's graph is checkpointed as well: the pair is one call that runs `fun` under jvp."""
        moving = [k for k, t in enumerate(tangents) if t is not None]

        def both(values: Sequence[Any]) -> tuple[Any, ...]:
            ts: list[Any] = [None] * len(args)
            for k, t in zip(moving, values[len(args) :], strict=True):
                ts[k] = t
            outs, dots = push_forward(self.flat, values[: len(args)], ts)
            return (*outs, *filled(dots, outs))

        call = _FlatCheckpoint(self.name, both)
        result = bind(call, (*args, *[tangents[k] for k in moving]), params)
        half = len(result) // 2
        return result[:half], result[half:]


class _FlatCheckpoint(_CheckpointCall):
    """A checkpointed function of flat values."""

    def __init__(self, name: str, function: Callable[[Sequence[Any]], tuple[Any, ...]]) -> None:
        self.name, self.function, self.outputs = name, function, 2

    def flat(self, values: Sequence[Any], fun: Function | None = None) -> tuple[Any, ...]:
        leaves = tuple(self.function(list(values)))
        self.check_levels(values, leaves)
        return leaves


def checkpoint(fun: Function, *, policy: Any = None, prevent_cse: bool = True, static_argnums: Any = ()) -> Function:
    """`fun` without its intermediate results on the tape: the backward pass computes them again.

    Derivatives are the same, to any order; memory falls, time grows by one forward pass. Saves nothing where
    `fun` uses traced values that are not among its arguments (the derivative is right all the same).

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.grad(ng.checkpoint(lambda x: np.sin(np.sin(x))))(0.0)
    Array(1., dtype=float64)
    """

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten(args)
        arrays = [k for k, x in enumerate(leaves) if isinstance(x, Array) and x.dtype.kind in INEXACT]
        values = [leaves[k]._value for k in arrays]
        if not any(isinstance(v, Box) for v in values):
            return fun(*args, **kwargs)

        # the function runs again: what it, or the caller, assigns to its arguments must not be seen then
        kept = [x.copy() if isinstance(x, (Array, np.ndarray)) else x for x in leaves]

        def on_arrays(*parts: Any) -> Any:
            whole = [x.copy() if isinstance(x, Array) else x for x in kept]
            for k, part in zip(arrays, parts, strict=True):
                whole[k] = part
            return fun(*tree.unflatten(whole), **kwargs)

        flat_tree = tree_flatten(tuple(range(len(values))))[1]
        call = _CheckpointCall("checkpoint", on_arrays, flat_tree, values)
        try:
            outs = bind(call, tuple(values), {})
        except _ClosesOverTraced:
            return fun(*args, **kwargs)
        return call.out_tree.unflatten([Array(v) for v in outs])

    return wrapped


remat = checkpoint


class _Custom:
    """Common part of custom_vjp and custom_jvp: which arguments are differentiable."""

    _name = "custom"

    def __init__(self, fun: Function, nondiff_argnums: int | Sequence[int] = ()) -> None:
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.nondiff = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a subclass says what a call is")

    def _bind(self, make: Callable[..., _FunctionCall], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if kwargs:
            args = self._positional(args, kwargs)
        fixed = {k % len(args): args[k] for k in self.nondiff}
        moving = [a for k, a in enumerate(args) if k not in fixed]
        leaves, tree = tree_flatten(tuple(moving))
        values = [owned(x, self._name) for x in leaves]

        def whole(parts: Sequence[Any]) -> list[Any]:
            parts_left = iter(parts)
            return [fixed[k] if k in fixed else next(parts_left) for k in range(len(args))]

        call = make(self._name, lambda *parts: self.fun(*whole(parts)), tree, values)
        call.whole, call.fixed = whole, [fixed[k] for k in sorted(fixed)]  # type: ignore[attr-defined]
        outs = bind(call, tuple(values), {})
        return call.out_tree.unflatten([Array(v) for v in outs])

    def _positional(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
        import inspect

        bound = inspect.signature(self.fun).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(message(self._name, "keyword-only arguments", list(bound.kwargs), "positional arguments"))
        return bound.args


class custom_vjp(_Custom):
    """A function with a reverse rule of its own.

    `defvjp(fwd, bwd)`: `fwd(*args)` returns (output, residuals), `bwd(*nondiff, residuals, cotangent)` a tuple with
    one cotangent per differentiable argument (None is zero). Forward mode is the transpose of `bwd`.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> @ng.custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, g: (np.clip(g, -1.0, 1.0),))
    >>> ng.grad(lambda x: 10 * clip_gradient(x))(0.0)
    Array(1., dtype=float64)
    """

    _name = "custom_vjp"

    def defvjp(self, fwd: Function, bwd: Function, **options: Any) -> None:
        """Set the rule."""
        self.fwd, self.bwd = fwd, bwd

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(self, "bwd"):
            raise AttributeError(message("custom_vjp", "no rule", self.__name__, "a call of .defvjp(fwd, bwd)"))  # type: ignore[attr-defined]
        return self._bind(functools.partial(_VjpCall, self), args, kwargs)


class _VjpCall(_FunctionCall):
    whole: Any
    fixed: list[Any]

    def __init__(self, rule: custom_vjp, *rest: Any) -> None:
        super().__init__(*rest)
        self.rule = rule

    def _forward(self, args: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
        residuals: list[Any] = []

        def output(*parts: Any) -> Any:
            result = self.rule.fwd(*self.whole(parts))
            if not isinstance(result, tuple) or len(result) != 2:
                raise TypeError(
                    message("custom_vjp", "fwd returned no pair", type(result).__name__, "(output, residuals)")
                )
            residuals.append(result[1])
            return result[0]

        return self.flat(args, output), residuals[0]

    def _backward(self, residuals: Any, args: Sequence[Any], gs: Sequence[Any]) -> list[Any]:
        cotangent = self.out_tree.unflatten([Array(g) for g in gs])
        found = self.rule.bwd(*self.fixed, residuals, cotangent)
        parts = self.arguments(args)
        if not isinstance(found, (tuple, list)) or len(found) != len(parts):
            got = (
                f"{type(found).__name__} of {len(found)}" if isinstance(found, (tuple, list)) else type(found).__name__
            )
            raise TypeError(
                message("custom_vjp", "bwd must return one cotangent per argument", got, f"a tuple of {len(parts)}")
            )
        result: list[Any] = []
        for k, (part, c) in enumerate(zip(parts, found, strict=True)):
            leaves, tree = tree_flatten(part)
            cts = (
                [None] * len(leaves)
                if c is None
                else tree.flatten_up_to(c, op="custom_vjp", names=("the argument", "the cotangent"))
            )
            for x, ct in zip(leaves, cts, strict=True):
                value = None if ct is None else value_of(ct, "custom_vjp")
                if value is not None and value.shape != x.shape:
                    label = f"the cotangent of {argument_name(self.rule.fun, k)} has the wrong shape"
                    raise ValueError(message("custom_vjp", label, value.shape, x.shape))
                result.append(None if value is None or x.dtype.kind not in INEXACT else convert(value, x.dtype))
        return result

    def record(self, args: tuple[Any, ...], needs: Any, params: dict[str, Any]) -> tuple[Any, Any]:
        outs, residuals = self._forward(args)
        return outs, (args, residuals)

    def pull(self, gs: Sequence[Any], saved: Any, needs: Any, params: dict[str, Any]) -> Sequence[Any]:
        return self._backward(saved[1], saved[0], gs)

    def advance(self, args: tuple[Any, ...], tangents: Sequence[Any], params: dict[str, Any]) -> tuple[Any, Any]:
        outs, residuals = self._forward(args)
        moving = filled(tangents, args)

        def linear(gs: list[Any]) -> list[Any]:
            return filled(self._backward(residuals, args, gs), args)

        return outs, transpose(linear, outs, moving)


class custom_jvp(_Custom):
    """A function with a forward rule of its own.

    `defjvp(rule)`: `rule(*nondiff, primals, tangents)` returns (output, tangent of the output), linear in the
    tangents. Reverse mode is its transpose. `defjvps(f0, f1, ...)`: one function `f(tangent, output, *args)` each.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> @ng.custom_jvp
    ... def log1pexp(x):
    ...     return np.log(1 + np.exp(x))
    >>> log1pexp.defjvps(lambda t, out, x: t / (1 + np.exp(-x)))
    >>> ng.grad(log1pexp)(0.0)
    Array(0.5, dtype=float64)
    """

    _name = "custom_jvp"

    def defjvp(self, jvp: Function, symbolic_zeros: bool = False) -> Function:
        """Set the rule."""
        self.jvp = jvp
        return jvp

    def defjvps(self, *jvps: Function | None) -> None:
        """Set the rule as one function per argument."""

        def rule(primals: Any, tangents: Any) -> Any:
            out = self(*primals)
            total: Any = 0 * out
            for f, t in zip(jvps, tangents, strict=True):
                if f is not None:
                    total = total + f(t, out, *primals)
            return out, total

        self.jvp = rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(self, "jvp"):
            raise AttributeError(message("custom_jvp", "no rule", self.__name__, "a call of .defjvp(rule)"))  # type: ignore[attr-defined]
        return self._bind(functools.partial(_JvpCall, self), args, kwargs)


class _JvpCall(_FunctionCall):
    whole: Any
    fixed: list[Any]

    def __init__(self, rule: custom_jvp, *rest: Any) -> None:
        super().__init__(*rest)
        self.rule = rule

    def _rule(self, args: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        result = self.rule.jvp(*self.fixed, self.arguments(args), self.arguments(tangents))
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise TypeError(
                message("custom_jvp", "the rule returned no pair", type(result).__name__, "(output, tangent)")
            )
        outs, self.out_tree = flatten_output(result[0], "custom_jvp")
        dots = self.out_tree.flatten_up_to(result[1], op="custom_jvp", names=("the output", "its tangent"))
        values = [value_of(d, "custom_jvp") for d in dots]
        for v, d in zip(outs, values, strict=True):
            if v.shape != d.shape:
                raise ValueError(message("custom_jvp", "the tangent's shape is not the output's", d.shape, v.shape))
        return outs, [convert(d, v.dtype) if v.dtype.kind in INEXACT else d for d, v in zip(values, outs, strict=True)]

    def advance(self, args: tuple[Any, ...], tangents: Sequence[Any], params: dict[str, Any]) -> tuple[Any, Any]:
        outs, dots = self._rule(args, filled(tangents, args))
        return tuple(outs), [d if o.dtype.kind in INEXACT else None for o, d in zip(outs, dots, strict=True)]

    def pull(self, gs: Sequence[Any], saved: Any, needs: Any, params: dict[str, Any]) -> Sequence[Any]:
        return transpose(lambda tangents: self._rule(saved, tangents)[1], saved, gs)
