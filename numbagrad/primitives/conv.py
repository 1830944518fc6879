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

CPU = "numbagrad.kernels.cpu.conv"


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in params.items() if k != "shape"}


conv: Multilinear = Multilinear(
    "conv",
    {"cpu": f"{CPU}:conv"},
    (
        lambda g, x, w, **params: conv_input(g, w, shape=x.shape[2:], **params),
        lambda g, x, w, **params: conv_weight(x, g, shape=w.shape[2:], **params),
    ),
    doc="Convolution (no flip) over any number of spatial axes. Adjoints: conv_input, conv_weight.",
)

conv_input: Multilinear = Multilinear(
    "conv_input",
    {"cpu": f"{CPU}:conv_input"},
    (
        lambda ct, g, w, **params: conv(ct, w, **_plain(params)),
        lambda ct, g, w, **params: conv_weight(ct, g, **{**params, "shape": w.shape[2:]}),
    ),
    doc="Gradient of conv in its input of spatial shape `shape`. Adjoints: conv, conv_weight.",
)

conv_weight: Multilinear = Multilinear(
    "conv_weight",
    {"cpu": f"{CPU}:conv_weight"},
    (
        lambda ct, x, g, **params: conv_input(g, ct, **{**params, "shape": x.shape[2:]}),
        lambda ct, x, g, **params: conv(x, ct, **_plain(params)),
    ),
    doc="Gradient of conv in its weights with `shape` taps. Adjoints: conv_input, conv.",
)
