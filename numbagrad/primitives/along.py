"""Elements picked along one axis by an index array, and its adjoint: take_along <-> add_along.

The route of everything that selects along an axis (sort, top_k, cumulative extrema, windows seen as flat planes).
Index: int64 of the operand's shape except along the axis, 0 to n - 1, or -1 for none: zero, and dropped. `unique`
promises that no element is picked twice, so that threads may share one line; `repeats` that none is picked more often.
"""

from __future__ import annotations

from typing import Any

from numbagrad.core.registry import Linear, Primitive
from numbagrad.core.reverse import scattered


def _take_along_transpose(g: Any, x: Any, index: Any, **params: Any) -> Any:
    return scattered(
        x,
        g,
        index,
        lambda target: add_along(target, index, g, **params),
        lambda target: add_along_into.run((target, index, g), params),
    )


take_along = Linear(
    "take_along",
    "along:take_along",
    _take_along_transpose,
    doc="Elements along an axis by an index of the same rank; -1 gives 0. Adjoint: add_along.",
)

add_along = Linear(
    "add_along",
    "along:add_along",
    lambda g, target, index, updates, **params: (g, take_along(g, index, **params)),
    linear_in=(0, 2),
    doc="Updates added into a copy of the target along an axis; repeated indices add up. Adjoint: take_along.",
)

# Not an operation: reverse mode runs it on buffers of its own.
add_along_into = Primitive(
    "add_along_into", "along:add_along_into", doc="Updates added along an axis into the target itself."
)


def route_apply(route: Any, tangents: Any, x: Any, **params: Any) -> Any:
    """JVP of an operation along its parameter `axis` whose route is an index."""
    return take_along(tangents[0], route, axis=params["axis"])


def route_transpose(route: Any, g: Any, x: Any, **params: Any) -> Any:
    """VJP of the same."""
    return (_take_along_transpose(g, x, route, axis=params["axis"]),)


def unique_transpose(g: Any, x: Any, index: Any, axis: int) -> Any:
    """Cotangent of elements of which none was picked twice."""
    return _take_along_transpose(g, x, index, axis=axis, unique=True)
