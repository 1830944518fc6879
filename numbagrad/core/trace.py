"""Values, boxes and `bind`: how a primitive meets its operands.

A value is a buffer or a `Box`: a value that some transform watches. On the CPU a buffer is a numpy.ndarray, never a
NumPy scalar; on a GPU a Buffer of kernels/cuda. Levels come from a counter, so a nested transform's boxes outrank
those around it, threads never meet, and there is no trace stack. `bind` lets the highest level among the operands
handle the primitive; it does so by binding again one level down, until only buffers are left and the kernel runs.

Values are immutable. `Array` (array.py) is the user's name for one.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from numbagrad.core.errors import EscapedTracerError, message

_levels = itertools.count(1)
ndarray = np.ndarray


class Trace:
    """One run of one transform: its level, and whether it is still going on."""

    __slots__ = ("alive", "level", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.level = next(_levels)
        self.alive = True


class Box:
    """A value watched by a trace. Subclasses say what the watching is (`process`)."""

    __slots__ = ("dtype", "level", "shape", "trace", "value")

    value: Any
    trace: Trace
    level: int
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def process(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Handle a primitive at this level."""
        raise AssertionError("a Box is made by a transform")

    def process_map(self, op: Any, args: tuple[Any, ...]) -> Any:
        """Handle an elementwise operation at this level."""
        return self.process(op, args, {})


def bind(primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Apply a primitive to values: the highest level handles it, buffers go to the device's kernel."""
    top = None
    level = 0
    for a in args:
        if a.__class__ is not ndarray and a.level > level:
            top, level = a, a.level
    if top is None:
        return primitive.run(args, params)
    if not top.trace.alive:
        raise escaped(top, primitive.name)
    if primitive.elementwise:
        return top.process_map(primitive, args)
    return top.process(primitive, args, params)


def escaped(box: Box, op: str) -> EscapedTracerError:
    """The error for a box that outlived its transform."""
    node = getattr(box, "node", None)
    maker = getattr(getattr(node, "primitive", None), "name", None) or "an argument"
    return EscapedTracerError(
        message(
            op,
            f"a traced value escaped from the `{box.trace.name}` that made it",
            f"the result of {maker} with shape {box.shape} and dtype {box.dtype}",
            "a value that the function returned",
            "Return it (has_aux=True) instead of storing it outside the function.",
        )
    )


def concrete(value: Any) -> Any:
    """The buffer at the bottom of any number of boxes."""
    while value.__class__ is not ndarray and isinstance(value, Box):
        value = value.value
    return value


def is_concrete(value: Any) -> bool:
    """Whether a value is a buffer, on whatever device."""
    return value.__class__ is ndarray or value.level == 0


def device_of(value: Any) -> str:
    """Name of the device a value's numbers are on."""
    found = concrete(value)
    return "cpu" if found.__class__ is ndarray else found.device.name


def level_of(value: Any) -> int:
    """Level of a value; 0 for a buffer."""
    return 0 if value.__class__ is ndarray else value.level


class Aval:
    """What is known of a value that is not at hand: shape and dtype."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype = shape, dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"
