"""Basic indexing (integers, slices, None) and its adjoints: embedding in zeros, and replacing a part."""

from __future__ import annotations

from typing import Any

from numbagrad.core.registry import Linear, Primitive, zeros
from numbagrad.core.reverse import Update

Key = tuple[Any, ...]


def _getitem_transpose(g: Any, x: Any, *, key: Key) -> Any:
    """Adding into the cotangent that is there keeps n single reads at O(n) memory."""
    return Update(
        g,
        lambda: embed(g, shape=x.shape, key=key),
        lambda target: add_at(target, g, key=key),
        lambda target: add_into.run((target, g), {"key": key}),
    )


getitem = Linear(
    "getitem",
    "views:getitem",
    _getitem_transpose,
    doc="Basic indexing with integers, slices and None, as a view. Adjoint: embedding in zeros.",
)

embed = Linear(
    "embed",
    "views:embed",
    lambda g, x, *, shape, key: getitem(g, key=key),
    doc="Zeros of a shape with a value at a basic index. Adjoint: getitem.",
)

add_at = Linear(
    "add_at",
    "views:add_at",
    lambda g, target, x, *, key: (g, getitem(g, key=key)),
    linear_in=None,
    doc="A copy with a value added at a basic index.",
)

# Not an operation: reverse mode runs it on buffers of its own.
add_into = Primitive("add_into", "views:add_into", doc="A value added at a basic index, in place.")

setitem: Linear = Linear(
    "setitem",
    "views:setitem",
    lambda g, target, x, *, key: (setitem(g, zeros(x.shape, x.dtype), key=key), getitem(g, key=key)),
    linear_in=None,
    doc="A copy with the part at a basic index replaced. Adjoint: zero there, and the part.",
)
