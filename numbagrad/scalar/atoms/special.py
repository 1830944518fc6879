"""Special functions."""

from __future__ import annotations

import math

from numbagrad.scalar.expr import ATOMS, atom

POSITIVE = (0.3, 4.0)


@atom(
    "simd.erf({0})",
    partials=lambda x, out: (2 / math.sqrt(math.pi)) * ATOMS["exp"](-(x * x)),
    rule="float",
    reference="scipy.special.erf",
)
def erf(x):
    """Error function (DLMF 7.2.1)."""


@atom(
    "simd.erfc({0})",
    partials=lambda x, out: (-2 / math.sqrt(math.pi)) * ATOMS["exp"](-(x * x)),
    rule="float",
    reference="scipy.special.erfc",
)
def erfc(x):
    """1 - erf(x), accurate for large x (DLMF 7.2.2)."""


@atom(
    "simd.erfinv({0})",
    partials=lambda x, out: (math.sqrt(math.pi) / 2) * ATOMS["exp"](out * out),
    rule="float",
    domain=(-0.9, 0.9),
    reference="scipy.special.erfinv",
)
def erfinv(x):
    """Inverse of erf; -inf and inf at -1 and 1, nan outside."""


@atom(
    "simd.lgamma({0})",
    partials=lambda x, out: ATOMS["digamma"](x),
    rule="float",
    domain=POSITIVE,
    reference="scipy.special.gammaln",
)
def lgamma(x):
    """log|Gamma(x)|; +inf at 0, -1, -2, ..."""


@atom(
    "simd.digamma({0})",
    partials=lambda x, out: ATOMS["polygamma"](x, 1),
    rule="float",
    domain=POSITIVE,
    reference="scipy.special.digamma",
)
def digamma(x):
    """Derivative of log Gamma (DLMF 5.2.2); nan at 0, -1, -2, ..."""


@atom(
    "double.polygamma({0}, {1})",
    partials=lambda x, order, out: (ATOMS["polygamma"](x, order.literal + 1), None),
    rule="internal",
)
def polygamma(x, order):
    """The order-th derivative of digamma, order >= 1 (DLMF 5.15)."""
