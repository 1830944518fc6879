"""Gradients, Jacobians, products with them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from numbagrad.api.arguments import (
    Argnums,
    FlatCall,
    Split,
    check_argnums,
    check_function,
    split_aux,
    strip,
)
from numbagrad.core.arguments import own, value_of
from numbagrad.core.array import Array
from numbagrad.core.dtypes import FLOATING, INEXACT
from numbagrad.core.errors import message
from numbagrad.core.record import Recording
from numbagrad.core.registry import beside, own_zeros, zeros_like
from numbagrad.core.trace import Trace, concrete
from numbagrad.core.transform import Tape, filled, push_forward
from numbagrad.core.tree import TreeDef, tree_flatten
from numbagrad.primitives.elementwise import convert

Function = Callable[..., Any]


def value_and_grad(
    fun: Function,
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Function:
    """Function that returns `fun`'s value and its gradient.

    fun: returns a real scalar (with has_aux a pair (scalar, aux)). argnums: which positional arguments, an int or
    a tuple; each may be any pytree of floating arrays. The gradient has the argument's structure, shapes and
    dtypes. Complex arguments: df/dx - i df/dy. holomorphic: complex in, complex out, the complex derivative.

    Errors: TypeError for integer arguments (allow_int=True gives them a zero gradient) and non-scalar outputs.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.value_and_grad(lambda x: np.sum(x**2))(np.arange(3.0))
    (Array(5., dtype=float64), Array([0., 2., 4.], dtype=float64))
    """
    check_function(fun, "grad")
    check_argnums(argnums, "grad")

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        split = Split("grad", fun, argnums, args, kwargs, keep=has_aux)
        split.require_inexact("grad", fun, allow_int, holomorphic)
        aux: list[Any] = []

        def flat(values: list[Any]) -> list[Any]:
            out = split.call(fun, values)
            if has_aux:
                out, extra = split_aux(out, "grad")
                aux.append(extra)
            return [_scalar_output(out, holomorphic)]

        tape = Tape(flat, split.values, "grad")
        (value,) = tape.values()
        cotangents = tape.back([beside(np.ones((), value.dtype), value)], release=True)
        grads = [
            Array(_gradient(g, v) if v.dtype.kind in INEXACT else beside(np.zeros(v.shape), v))
            for g, v in zip(cotangents, split.values, strict=True)
        ]
        result = split.result(grads)
        if has_aux:
            return (Array(value), strip(aux[0], tape.trace)), result
        return Array(value), result

    return wrapped


def _gradient(g: Any, v: Any) -> Any:
    """A tangent or cotangent as a result: zeros of its own where there is no dependence."""
    return own_zeros(concrete(v), v.shape, v.dtype) if g is None else g


def _scalar_output(out: Any, holomorphic: bool) -> Any:
    leaves, tree = tree_flatten(out)
    step = "Sum it, or use vjp or jacrev."
    if len(leaves) != 1 or tree.spec is not None:
        raise TypeError(message("grad", "the output is not a scalar", _describe(out), "one real number", step))
    value = value_of(out, "grad: output")
    if value.shape != ():
        raise TypeError(message("grad", "the output is not a scalar", f"shape {value.shape}", "shape ()", step))
    if holomorphic:
        if value.dtype.kind != "c":
            raise TypeError(
                message("grad", "holomorphic=True, but the output is not complex", value.dtype, "a complex scalar")
            )
    elif value.dtype.kind == "c":
        step = "Take .real, or pass holomorphic=True for the complex derivative."
        raise TypeError(message("grad", "the output is not a real scalar", value.dtype, "a real scalar", step))
    elif value.dtype.kind not in FLOATING:
        raise TypeError(message("grad", "the output is not a floating scalar", value.dtype, "a float dtype"))
    return value


def _describe(out: Any) -> str:
    return "None" if out is None else f"{type(out).__name__} of {len(tree_flatten(out)[0])} leaves"


def grad(
    fun: Function,
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Function:
    """Function that returns the gradient of `fun`; arguments as for `value_and_grad`. With has_aux: (gradient, aux).

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.grad(np.sin)(0.0)
    Array(1., dtype=float64)
    >>> ng.grad(ng.grad(lambda x: x**3))(2.0)
    Array(12., dtype=float64)
    """
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, g = both(*args, **kwargs)
        return (g, value[1]) if has_aux else g

    return wrapped


def vjp(fun: Function, *primals: Any, has_aux: bool = False) -> Any:
    """Value of `fun` and the function that pulls a cotangent of the output back to the arguments.

    The pullback takes the output's structure and returns a tuple with one cotangent per argument; it may be
    called any number of times.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> y, pull = ng.vjp(np.sin, np.asarray([0.0, 1.0]))
    >>> pull(np.ones(2))[0][0]
    Array(1., dtype=float64)
    """
    check_function(fun, "vjp")
    split = Split("vjp", fun, tuple(range(len(primals))) or (0,), primals, {}, keep=True)
    call = FlatCall("vjp", fun, split, has_aux)
    tape = Tape(call, split.values, "vjp")
    outputs = tape.values()

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        cts = _matching(cotangent, call.tree, outputs, "vjp", "cotangent", "the output")
        found = tape.back([c if o.dtype.kind in INEXACT else None for c, o in zip(cts, outputs, strict=True)])
        return tuple(split.unflatten([Array(_gradient(g, v)) for g, v in zip(found, split.values, strict=True)]))

    out = call.result(outputs)
    return (out, pullback, strip(call.aux, tape.trace)) if has_aux else (out, pullback)


def _matching(given: Any, tree: TreeDef, like: list[Any], name: str, what: str, of: str) -> list[Any]:
    """Leaves of a tangent or cotangent as values, checked against what they belong to."""
    leaves = tree.flatten_up_to(given, op=name, names=(of, f"the {what}"))
    values = []
    for x, v in zip(leaves, like, strict=True):
        t = value_of(x, f"{name}: {what}")
        if t.shape != v.shape:
            raise ValueError(message(name, f"the {what} does not have the shape of {of}", t.shape, v.shape))
        if v.dtype.kind in INEXACT:
            if t.dtype.kind == "c" and v.dtype.kind != "c":
                raise TypeError(message(name, f"the {what} is complex, {of} is not", t.dtype, v.dtype))
            t = own(convert(t, v.dtype), x)
        values.append(beside(t, v))
    return values


def jvp(fun: Function, primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """Value of `fun` at the primals and its derivative in the direction of the tangents (both sequences).

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.jvp(np.sin, (0.0,), (2.0,))
    (Array(0., dtype=float64), Array(2., dtype=float64))
    """
    check_function(fun, "jvp")
    for x, what in ((primals, "primals"), (tangents, "tangents")):
        if not isinstance(x, (tuple, list)):
            raise TypeError(message("jvp", f"{what} must be a tuple of arguments", type(x).__name__, "a tuple"))
    split = Split("jvp", fun, tuple(range(len(primals))) or (0,), tuple(primals), {}, keep=True)
    structure = tree_flatten(tuple(primals))[1]
    ts = _matching(tuple(tangents), structure, split.values, "jvp", "tangent", "the primal")
    call = FlatCall("jvp", fun, split, has_aux)
    moving = [t if v.dtype.kind in INEXACT else None for t, v in zip(ts, split.values, strict=True)]
    trace = Trace("jvp")
    values, dots = push_forward(call, split.values, moving, trace)
    dots = [_gradient(d, v) for d, v in zip(dots, values, strict=True)]
    return (call.result(values), call.result(dots), *([strip(call.aux, trace)] if has_aux else []))


def linearize(fun: Function, *primals: Any, has_aux: bool = False) -> Any:
    """Value of `fun` and its derivative at the primals as a function of tangents (with has_aux: and aux).

    `fun` runs once; every call of the derivative replays only the operations on tangents.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> y, df = ng.linearize(np.sin, 0.0)
    >>> df(3.0)
    Array(3., dtype=float64)
    """
    check_function(fun, "linearize")
    split = Split("linearize", fun, tuple(range(len(primals))) or (0,), primals, {}, keep=True)
    call = FlatCall("linearize", fun, split, has_aux)
    recording, trace = Recording("linearize"), Trace("linearize")
    probes = [recording.box(zeros_like(v)) for v in split.values]
    moving = [p if v.dtype.kind in INEXACT else None for p, v in zip(probes, split.values, strict=True)]
    values, dots = push_forward(call, split.values, moving, trace)
    recording.alive = False
    ends = filled(dots, values)
    structure = tree_flatten(tuple(primals))[1]

    def derivative(*tangents: Any) -> Any:
        ts = _matching(tuple(tangents), structure, split.values, "linearize", "tangent", "the primal")
        return call.result(recording.play(ts, ends))

    out = call.result(values)
    return (out, derivative, strip(call.aux, trace)) if has_aux else (out, derivative)


def hvp(fun: Function, primals: Any, tangents: Any) -> Any:
    """Product of the Hessian of a scalar function with a vector, at the cost of a few gradients.

    primals, tangents: one argument (any pytree), or tuples of arguments.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.hvp(lambda x: np.sum(x**3), np.asarray([1.0, 2.0]), np.asarray([1.0, 0.0]))
    Array([6., 0.], dtype=float64)
    """
    check_function(fun, "hvp")
    single = not isinstance(primals, tuple)
    points, directions = ((primals,), (tangents,)) if single else (primals, tangents)
    gradient = grad(fun, tuple(range(len(points))))
    result = jvp(gradient, points, directions)[1]
    return result[0] if single else result
