"""Rows picked by integer arrays, and the scatters: take <-> scatter_add, and scatters that set, multiply, min, max.

All work on the leading axis; full NumPy indexing is brought to this form by views (numpy/indexing.py). Indices
are integers, never differentiated. Negative ones count from the end; out of range: `mode` "raise" (IndexError),
"clip", "wrap", "fill" (take gives nan or 0; scatters drop). Where they do not: "drop" (0) and "clamp".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from numbagrad.core.registry import Linear, Primitive, Routed, beside, zeros
from numbagrad.core.reverse import scattered
from numbagrad.primitives.broadcast import reshape_to
from numbagrad.primitives.elementwise import convert, op
from numbagrad.primitives.reduce import is_extremum


def _take_transpose(g: Any, x: Any, index: Any, *, mode: str) -> Any:
    mode = "fill" if mode == "zero" else mode
    return scattered(
        x,
        g,
        index,
        lambda target: scatter_add(target, index, g, mode=mode),
        lambda target: scatter_add_into.run((target, index, g), {"mode": mode}),
    )


take = Linear(
    "take",
    "index:take",
    _take_transpose,
    doc="Rows x[index] of the leading axis for an index array of any shape. Adjoint: scatter_add.",
)

scatter_add = Linear(
    "scatter_add",
    "index:scatter_add",
    lambda g, target, index, updates, *, mode: (g, _rows(g, index, mode)),
    linear_in=(0, 2),
    doc="Rows added into a copy of the target; repeated indices add up. Adjoint: take.",
)

# Not an operation: reverse mode runs it on buffers of its own.
scatter_add_into = Primitive("scatter_add_into", "index:scatter_add_into", doc="Rows added into the target itself.")


def _rows(g: Any, index: Any, mode: str) -> Any:
    """Cotangent of what was scattered: a dropped update gets zero, not fill."""
    return take(g, index, mode="zero" if mode == "fill" else mode)


last_writer = Primitive(
    "last_writer",
    "index:last_writer",
    doc="Per row of the target the position of the last update that goes there, or -1.",
)


def _set_route(out: Any, target: Any, index: Any, updates: Any, *, mode: str) -> Any:
    return last_writer(index, rows=target.shape[0], mode=mode)


def _column(mask: Any, like: Any) -> Any:
    return reshape_to(mask, (mask.shape[0],) + (1,) * (len(like.shape) - 1))


def _set_masks(route: Any) -> tuple[Any, Any]:
    """Rows kept, and which update wins each other row."""
    zero = np.zeros((), np.int64)
    return op("less")(route, zero), op("maximum")(route, zero)


def _flat_updates(x: Any, index: Any) -> Any:
    count = math.prod(index.shape)
    return reshape_to(x, (count, *x.shape[len(index.shape) :]))


def _set_apply(route: Any, tangents: Any, target: Any, index: Any, updates: Any, *, mode: str) -> Any:
    t_target, _, t_updates = tangents
    kept, winner = _set_masks(route)
    select, zero = op("select"), np.zeros((), target.dtype)
    mask = _column(kept, target)
    old = zero if t_target is None else t_target
    if t_updates is None or 0 in index.shape:
        return select(mask, old, zeros(target.shape, target.dtype))
    new = take(_flat_updates(t_updates, index), winner, mode="clip")
    return select(mask, old, new)


def _set_transpose(route: Any, g: Any, target: Any, index: Any, updates: Any, *, mode: str) -> Any:
    kept, winner = _set_masks(route)
    select = op("select")
    g_target = select(_column(kept, target), g, np.zeros((), g.dtype))
    count = math.prod(index.shape)
    nothing = zeros((count, *target.shape[1:]), g.dtype)
    won = select(_column(kept, target), np.zeros((), g.dtype), g)
    g_updates = scatter_add(nothing, winner, won, mode="clip") if count else beside(nothing, g)
    return g_target, None, reshape_to(g_updates, updates.shape)


scatter_set = Routed(
    "scatter_set",
    "index:scatter_set",
    _set_route,
    _set_apply,
    _set_transpose,
    doc="Rows written into a copy of the target; of repeated indices the last wins and alone has a derivative.",
)


flat_rows = Primitive("flat_rows", "index:flat_rows", doc="An index as flat row numbers; -1 is dropped.")

# --- scatters that keep the larger or smaller: ties share equally, the target's own element included


_NEAREST = {"fill": "clip", "drop": "clamp"}  # the count of ties is a divisor, also of updates that are dropped


def _extremum_route(out: Any, target: Any, index: Any, updates: Any, *, mode: str) -> tuple[Any, Any]:
    """Shares of the target's elements and of the updates."""
    own = convert(is_extremum(target, out), target.dtype)
    there = _rows(out, index, mode)
    theirs = convert(is_extremum(updates, there), target.dtype)
    count = scatter_add(own, index, theirs, mode=mode)
    divide = op("divide")
    count = op("maximum")(count, np.ones((), count.dtype))
    return divide(own, count), divide(theirs, _rows(count, index, _NEAREST.get(mode, mode)))


def _extremum_apply(route: Any, tangents: Any, target: Any, index: Any, updates: Any, *, mode: str) -> Any:
    times = op("zero_product")
    total = zeros(target.shape, target.dtype) if tangents[0] is None else times(tangents[0], route[0])
    return total if tangents[2] is None else scatter_add(total, index, times(tangents[2], route[1]), mode=mode)


def _extremum_transpose(route: Any, g: Any, target: Any, index: Any, updates: Any, *, mode: str) -> Any:
    times = op("zero_product")
    return times(g, route[0]), None, times(_rows(g, index, mode), route[1])


scatter_max, scatter_min = (
    Routed(
        f"scatter_{name}",
        f"index:scatter_{name}",
        _extremum_route,
        _extremum_apply,
        _extremum_transpose,
        doc=f"The {word} of target rows and the updates that go there. Ties share the derivative equally.",
    )
    for name, word in (("max", "largest"), ("min", "smallest"))
)
