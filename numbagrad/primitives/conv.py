"""Convolution and its two gradients: three products of one trilinear form.

    sum over batch, group, output o, channel c, place y, tap t of  g[o, y] x[c, i] w[o, c, t],
    where i * lhs_dilation == y * stride + t * rhs_dilation - low along each axis

With one of x, w, g left out it is conv_input, conv_weight, conv. Each is linear in both its operands, with the other
two for transposes, under the same parameters: the family is closed, and no padding, stride or dilation is ever
translated from one to another.

Shapes: x (batch, channels, *spatial), w (outputs, channels of a group, *taps), g (batch, outputs, *places).
"""

from __future__ import annotations

from typing import Any

from numbagrad.core.registry import Multilinear


def _with(params: dict[str, Any], shape: Any, *absorbs: int) -> dict[str, Any]:
    """The same parameters for another of the three products."""
    rest = {k: v for k, v in params.items() if k not in ("shape", "absorbs")}
    return {**rest, "absorbs": absorbs} if shape is None else {**rest, "shape": shape, "absorbs": absorbs}


def _kept(params: dict[str, Any], operand: int, place: int) -> tuple[int, ...]:
    """An operand that is a cotangent or tangent already stays one, at its new place."""
    return (place,) if operand in params.get("absorbs", ()) else ()


conv: Multilinear = Multilinear(
    "conv",
    "conv:conv",
    (
        lambda g, x, w, **p: conv_input(g, w, **_with(p, x.shape[2:], 0, *_kept(p, 1, 1))),
        lambda g, x, w, **p: conv_weight(x, g, **_with(p, w.shape[2:], 1, *_kept(p, 0, 0))),
    ),
    doc="Convolution (no flip) over any number of spatial axes. Adjoints: conv_input, conv_weight.",
)

conv_input: Multilinear = Multilinear(
    "conv_input",
    "conv:conv_input",
    (
        lambda ct, g, w, **p: conv(ct, w, **_with(p, None, 0, *_kept(p, 1, 1))),
        lambda ct, g, w, **p: conv_weight(ct, g, **_with(p, w.shape[2:], 0, *_kept(p, 0, 1))),
    ),
    doc="Gradient of conv in its input of spatial shape `shape`. Adjoints: conv, conv_weight.",
)

conv_weight: Multilinear = Multilinear(
    "conv_weight",
    "conv:conv_weight",
    (
        lambda ct, x, g, **p: conv_input(g, ct, **_with(p, x.shape[2:], 1, *_kept(p, 1, 0))),
        lambda ct, x, g, **p: conv(x, ct, **_with(p, None, 1, *_kept(p, 0, 0))),
    ),
    doc="Gradient of conv in its weights with `shape` taps. Adjoints: conv_input, conv.",
)
