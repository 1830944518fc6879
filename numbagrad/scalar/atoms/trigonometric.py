"""Circular and hyperbolic functions and their inverses."""

from __future__ import annotations

import math

import numpy as np

from numbagrad.scalar.expr import ATOMS, atom

INSIDE = (-0.9, 0.9)


def _float(name: str) -> dict[str, str]:
    return {"f": f"simd.{name}({{0}})", "c": f"cmath.{name}({{0}})"}


@atom(_float("sin"), partials=lambda x, out: ATOMS["cos"](x), rule="float", reference=np.sin)
def sin(x):
    """Sine of x radians."""


@atom(_float("cos"), partials=lambda x, out: -ATOMS["sin"](x), rule="float", reference=np.cos)
def cos(x):
    """Cosine of x radians."""


@atom(_float("tan"), partials=lambda x, out: 1 + out * out, rule="float", domain=(-1.2, 1.2), reference=np.tan)
def tan(x):
    """Tangent of x radians."""


@atom(
    _float("asin"),
    partials=lambda x, out: 1 / ATOMS["sqrt"]((1 - x) * (1 + x)),
    rule="float",
    domain=INSIDE,
    reference=np.arcsin,
)
def arcsin(x):
    """Inverse sine in radians; nan outside [-1, 1]."""


@atom(
    _float("acos"),
    partials=lambda x, out: -1 / ATOMS["sqrt"]((1 - x) * (1 + x)),
    rule="float",
    domain=INSIDE,
    reference=np.arccos,
)
def arccos(x):
    """Inverse cosine in radians; nan outside [-1, 1]."""


@atom(_float("atan"), partials=lambda x, out: 1 / (1 + x * x), rule="float", reference=np.arctan)
def arctan(x):
    """Inverse tangent in radians."""


def _arctan2_partials(y, x, out):
    r = ATOMS["hypot"](x, y)
    origin = ATOMS["equal"](r, 0)
    return ATOMS["select"](origin, 0, x / r / r), ATOMS["select"](origin, 0, -(y / r) / r)


@atom(
    "simd.atan2({0}, {1})",
    partials=_arctan2_partials,
    rule="float",
    domain=("nonzero", "nonzero"),
    reference=np.arctan2,
)
def arctan2(y, x):
    """Angle of the point (x, y) in radians. Derivative at (0, 0): 0, 0."""


@atom(
    "func.hypotenuse({0}, {1})",
    partials=lambda x, y, out: (
        ATOMS["select"](ATOMS["equal"](out, 0), 0, x / out),
        ATOMS["select"](ATOMS["equal"](out, 0), 0, y / out),
    ),
    rule="float",
    domain=("nonzero", "nonzero"),
    reference=np.hypot,
)
def hypot(x, y):
    """sqrt(x * x + y * y) without overflow; inf if one is inf. Derivative at (0, 0): 0, 0."""


@atom(_float("sinh"), partials=lambda x, out: ATOMS["cosh"](x), rule="float", reference=np.sinh)
def sinh(x):
    """Hyperbolic sine."""


@atom(_float("cosh"), partials=lambda x, out: ATOMS["sinh"](x), rule="float", reference=np.cosh)
def cosh(x):
    """Hyperbolic cosine."""


@atom(_float("tanh"), partials=lambda x, out: ATOMS["sech_squared"](x), rule="float", reference=np.tanh)
def tanh(x):
    """Hyperbolic tangent."""


# 1 - tanh(x)**2 has no correct digit left beyond |x| = 19; this and its derivatives keep them all.
@atom(
    {
        "f": "{T}(4) * simd.exp({T}(-2) * abs({0})) / (({T}(1) + simd.exp({T}(-2) * abs({0})))"
        " * ({T}(1) + simd.exp({T}(-2) * abs({0}))))",
        "c": "{T}(1) / (cmath.cosh({0}) * cmath.cosh({0}))",
    },
    partials=lambda x, out: -2 * out * ATOMS["tanh"](x),
    rule="internal",
    reference=lambda x: 1 / np.cosh(x) ** 2,
)
def sech_squared(x):
    """1 / cosh(x) ** 2, the derivative of tanh."""


@atom(
    {"f": "func.hypotenuse({0}, {T}(1))", "c": "cmath.sqrt({0} * {0} + {T}(1))"},
    partials=lambda x, out: x / out,
    rule="internal",
    reference=lambda x: np.sqrt(x * x + 1) if x.dtype.kind == "c" else np.hypot(x, 1),
)
def root_of_square_plus_one(x):
    """sqrt(x * x + 1) without overflow for real x, the reciprocal of arcsinh's derivative."""


@atom(
    _float("asinh"),
    partials=lambda x, out: 1 / ATOMS["root_of_square_plus_one"](x),
    rule="float",
    reference=np.arcsinh,
)
def arcsinh(x):
    """Inverse hyperbolic sine."""


@atom(
    _float("acosh"),
    partials=lambda x, out: 1 / ATOMS["sqrt"]((x - 1) * (x + 1)),
    rule="float",
    domain=(1.2, 4.0),
    reference=np.arccosh,
)
def arccosh(x):
    """Inverse hyperbolic cosine; nan below 1."""


@atom(
    _float("atanh"),
    partials=lambda x, out: 1 / ((1 - x) * (1 + x)),
    rule="float",
    domain=INSIDE,
    reference=np.arctanh,
)
def arctanh(x):
    """Inverse hyperbolic tangent; nan outside [-1, 1]."""


@atom(
    "double.sinc_derivative({0}, {1})",
    partials=lambda x, order, out: (ATOMS["sinc_derivative"](x, order.literal + 1), None),
    rule="internal",
)
def sinc_derivative(x, order):
    """The order-th derivative of sin(x) / x, exact near 0 at every order."""


def sinc_of(x):
    """sin(pi x) / (pi x) as an expression."""
    return ATOMS["sinc_derivative"](math.pi * x, 0)
