"""Scalar functions for targets with a mathematical library of their own (libdevice), where `scalar/simd` is not used.

Plain Python, specialised by type: constants take the operand's, so that float32 is computed in float32.
"""

from __future__ import annotations

import math

from numbagrad.scalar.functions import type_of


def sigmoid(x):
    """1 / (1 + exp(-x)) without overflow."""
    one = type_of(x, 1.0)
    e = math.exp(-abs(x))
    return one / (one + e) if x >= 0 else e / (one + e)


def softplus(x):
    """log(1 + exp(x)) without overflow."""
    rest = math.log1p(math.exp(-abs(x)))
    return x + rest if x > 0 else rest


def digamma(x):
    """Recurrence up to x >= 10, the asymptotic series there (DLMF 5.11.2); reflection below 0 (5.5.4)."""
    one, half, pi = type_of(x, 1.0), type_of(x, 0.5), type_of(x, 3.141592653589793)
    below = x - x
    if x <= 0:
        if x == math.floor(x):
            return type_of(x, math.nan)
        # tan of the distance to the nearest integer: pi * x would lose what is left of it
        below = pi / math.tan(pi * (x - math.floor(x + half)))
        x = one - x
    shift = below * 0
    while x < type_of(x, 10.0):
        shift += one / x
        x += one
    y = one / (x * x)
    series = type_of(x, 1 / 12) - y * (
        type_of(x, 1 / 120)
        - y
        * (
            type_of(x, 1 / 252)
            - y
            * (type_of(x, 1 / 240) - y * (type_of(x, 1 / 132) - y * (type_of(x, 691 / 32760) - y * type_of(x, 1 / 12))))
        )
    )
    return math.log(x) - half / x - y * series - shift - below
