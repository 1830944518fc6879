"""Full Jacobians and Hessians, a column or a row at a time."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numbagrad.api.arguments import Argnums, FlatCall, Split, check_argnums, check_function, strip
from numbagrad.core.array import Array
from numbagrad.core.dtypes import INEXACT
from numbagrad.core.errors import message
from numbagrad.core.record import Recording
from numbagrad.core.registry import beside, zeros_like
from numbagrad.core.trace import Trace
from numbagrad.core.transform import Tape, filled, lower, push_forward
from numbagrad.numpy import shaping

Function = Callable[..., Any]


def _unit(like: Any, k: int) -> Any:
    one = np.zeros(like.shape, like.dtype)
    one.reshape(-1)[k] = 1
    return beside(one, like)


def _size(v: Any) -> int:
    return math.prod(v.shape)


class _Run(FlatCall):
    """What both Jacobians do first: split and check the arguments; at the end: put the blocks together."""

    def __init__(
        self, name: str, fun: Function, argnums: Argnums, options: tuple[bool, bool, bool], args: Any, kwargs: Any
    ) -> None:
        has_aux, self.holomorphic, allow_int = options
        super().__init__(name, fun, Split(name, fun, argnums, args, kwargs, keep=False), has_aux)
        self.split.require_inexact(name, fun, allow_int, self.holomorphic)

    def __call__(self, values: list[Any]) -> list[Any]:
        leaves = super().__call__(values)
        for v in leaves:
            if v.dtype.kind == "c" and not self.holomorphic:
                step = "Take the real and imaginary parts, or pass holomorphic=True."
                raise TypeError(message(self.name, "the output is complex", v.dtype, "a real output", step))
        return leaves

    def assemble(self, blocks: Sequence[Sequence[Any]]) -> Any:
        """blocks[output leaf][input leaf] as a tree of trees."""
        return self.tree.unflatten([self.split.result([Array(b) for b in row]) for row in blocks])


def jacrev(
    fun: Function, argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False
) -> Function:
    """Jacobian by reverse mode: one pullback per element of the output. Shape: output.shape + input.shape.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.jacrev(lambda x: x**2)(np.asarray([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float64)
    """
    check_function(fun, "jacrev")
    check_argnums(argnums, "jacrev")

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        run = _Run("jacrev", fun, argnums, (has_aux, holomorphic, allow_int), args, kwargs)
        tape = Tape(run, run.split.values, "jacrev")
        outputs = tape.values()
        blocks = []
        for j, out in enumerate(outputs):
            rows: list[list[Any]] = [[] for _ in run.split.values]
            for k in range(_size(out) if out.dtype.kind in INEXACT else 0):
                cts = [_unit(out, k) if i == j else None for i in range(len(outputs))]
                for row, g in zip(rows, filled(tape.back(cts), run.split.values), strict=True):
                    row.append(Array(g))
            blocks.append([_stack(row, out, v, 0) for row, v in zip(rows, run.split.values, strict=True)])
        result = run.assemble(blocks)
        return (result, strip(run.aux, tape.trace)) if has_aux else result

    return wrapped


def jacfwd(
    fun: Function, argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False
) -> Function:
    """Jacobian by forward mode: one replay per element of the input. Shape: output.shape + input.shape.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.jacfwd(lambda x: x**2)(np.asarray([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float64)
    """
    check_function(fun, "jacfwd")
    check_argnums(argnums, "jacfwd")

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        run = _Run("jacfwd", fun, argnums, (has_aux, holomorphic, allow_int), args, kwargs)
        values = run.split.values
        recording = Recording("jacfwd")
        trace = Trace("jacfwd")
        probes = [recording.box(zeros_like(v)) for v in values]
        moving = [p if v.dtype.kind in INEXACT else None for p, v in zip(probes, values, strict=True)]
        outputs, dots = push_forward(run, values, moving, trace)
        recording.alive = False
        ends = filled(dots, outputs)
        columns: list[list[list[Any]]] = [[[] for _ in values] for _ in outputs]
        for i, v in enumerate(values):
            for k in range(_size(v) if v.dtype.kind in INEXACT else 0):
                tangents = [_unit(w, k) if i == m else zeros_like(w) for m, w in enumerate(values)]
                for j, t in enumerate(recording.play(tangents, ends)):
                    columns[j][i].append(Array(lower(t, recording)))
        blocks = [
            [_stack(columns[j][i], out, v, len(out.shape)) for i, v in enumerate(values)]
            for j, out in enumerate(outputs)
        ]
        result = run.assemble(blocks)
        return (result, strip(run.aux, trace)) if has_aux else result

    return wrapped


def _stack(parts: list[Any], out: Any, v: Any, axis: int) -> Any:
    """Rows (axis 0) or columns (last axis) as output.shape + input.shape."""
    shape = (*out.shape, *v.shape)
    if not parts:
        return beside(np.zeros(shape, v.dtype if v.dtype.kind in INEXACT else out.dtype), v)
    return shaping.reshape(shaping.stack(parts, axis), shape)._value


def hessian(fun: Function, argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False) -> Function:
    """Second derivatives, forward over reverse. Shape: output.shape + input.shape + input.shape.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.hessian(lambda x: np.sum(x**3))(np.asarray([1.0, 2.0]))
    Array([[ 6.,  0.],
           [ 0., 12.]], dtype=float64)
    """
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)
