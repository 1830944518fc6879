"""Parts of an array whose place is data: dynamic_slice <-> dynamic_update_slice on zeros.

`starts` is an int64 vector. A negative start counts from the end; then it is moved until the part fits.
"""

from __future__ import annotations

from typing import Any

from numbagrad.core.registry import Linear, Primitive, zeros
from numbagrad.core.reverse import Update


def _slice_transpose(g: Any, x: Any, starts: Any, *, sizes: tuple[int, ...]) -> Any:
    """Adding into the cotangent that is there keeps n reads at O(n) memory."""
    return Update(
        g,
        lambda: dynamic_update_slice(zeros(x.shape, x.dtype), g, starts),
        lambda target: dynamic_add_slice(target, g, starts),
        lambda target: dynamic_add_slice_into.run((target, g, starts), {}),
    )


dynamic_slice = Linear(
    "dynamic_slice",
    "dynamic:dynamic_slice",
    _slice_transpose,
    doc="The part of given sizes at given starts, as a view. Adjoint: dynamic_update_slice of zeros.",
)


def _update_transpose(g: Any, target: Any, x: Any, starts: Any) -> Any:
    return (
        dynamic_update_slice(g, zeros(x.shape, x.dtype), starts),
        dynamic_slice(g, starts, sizes=tuple(x.shape)),
    )


dynamic_update_slice = Linear(
    "dynamic_update_slice",
    "dynamic:dynamic_update_slice",
    _update_transpose,
    linear_in=(0, 1),
    doc="A copy with the part at given starts replaced. Adjoint: zero there, and the part.",
)

dynamic_add_slice = Linear(
    "dynamic_add_slice",
    "dynamic:dynamic_add_slice",
    lambda g, target, x, starts: (g, dynamic_slice(g, starts, sizes=tuple(x.shape))),
    linear_in=(0, 1),
    doc="A copy with a value added to the part at given starts.",
)

# Not an operation: reverse mode runs it on buffers of its own.
dynamic_add_slice_into = Primitive(
    "dynamic_add_slice_into", "dynamic:dynamic_add_slice_into", doc="A value added to a part, in place."
)
