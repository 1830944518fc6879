"""Exponentials, logarithms and the functions built from them."""

from __future__ import annotations

import math

import numpy as np

from numbagrad.scalar.expr import ATOMS, atom

LN2 = math.log(2.0)
POSITIVE = (0.2, 4.0)


def _float(name: str) -> dict[str, str]:
    return {"f": f"simd.{name}({{0}})", "c": f"cmath.{name}({{0}})"}


@atom(_float("exp"), partials=lambda x, out: out, rule="float", reference=np.exp)
def exp(x):
    """e ** x."""


@atom("simd.exp2({0})", partials=lambda x, out: out * LN2, rule="float", reference=np.exp2)
def exp2(x):
    """2 ** x."""


@atom("simd.expm1({0})", partials=lambda x, out: ATOMS["exp"](x), rule="float", reference=np.expm1)
def expm1(x):
    """e ** x - 1, accurate near 0."""


@atom(_float("log"), partials=lambda x, out: 1 / x, rule="float", domain=POSITIVE, reference=np.log)
def log(x):
    """Natural logarithm; -inf at 0, nan below."""


@atom("simd.log2({0})", partials=lambda x, out: (1 / LN2) / x, rule="float", domain=POSITIVE, reference=np.log2)
def log2(x):
    """Logarithm to base 2."""


@atom(
    "simd.log10({0})",
    partials=lambda x, out: (1 / math.log(10.0)) / x,
    rule="float",
    domain=POSITIVE,
    reference=np.log10,
)
def log10(x):
    """Logarithm to base 10."""


@atom("simd.log1p({0})", partials=lambda x, out: 1 / (1 + x), rule="float", domain=(-0.5, 3.0), reference=np.log1p)
def log1p(x):
    """log(1 + x), accurate near 0."""


@atom(
    "simd.cbrt({0})",
    partials=lambda x, out: (1 / 3) / (out * out),
    rule="float",
    domain="nonzero",
    reference=np.cbrt,
)
def cbrt(x):
    """Cube root, real for negative x."""


@atom(
    "simd.sigmoid({0})",
    partials=lambda x, out: out * ATOMS["sigmoid"](-x),
    rule="float",
    reference=lambda x: np.exp(-np.logaddexp(0, -x)),
)
def sigmoid(x):
    """1 / (1 + exp(-x)) without overflow."""


@atom(
    "simd.softplus({0})",
    partials=lambda x, out: ATOMS["sigmoid"](x),
    rule="float",
    reference=lambda x: np.logaddexp(0, x),
)
def softplus(x):
    """log(1 + exp(x)) without overflow."""


def _larger_share(x, y, out):
    """Share of exp(x) in exp(x) + exp(y): 1/2 at a tie (of +inf too), 0 if both are exp(-inf) = 0."""
    both_infinite = ATOMS["logical_and"](ATOMS["isinf"](x), ATOMS["equal"](x, y))
    difference = ATOMS["select"](both_infinite, 0, x - y)
    return ATOMS["select"](ATOMS["equal"](out, -math.inf), 0, ATOMS["sigmoid"](difference))


@atom(
    "func.log_add_exp({0}, {1}, simd.log1p(simd.exp(-abs({0} - {1}))))",
    partials=lambda x, y, out: (_larger_share(x, y, out), _larger_share(y, x, out)),
    rule="float",
    reference=np.logaddexp,
)
def logaddexp(x, y):
    """log(exp(x) + exp(y)) without overflow."""


@atom(
    "{T}(0) if ({0} == 0) & ({1} == {1}) else {0} * simd.log({1})",
    partials=lambda x, y, out: (
        ATOMS["select"](ATOMS["logical_and"](ATOMS["equal"](x, 0), ATOMS["equal"](y, 0)), 0, ATOMS["log"](y)),
        ATOMS["select"](ATOMS["equal"](x, 0), 0, x / y),
    ),
    rule="float",
    domain=("real", POSITIVE),
    reference="scipy.special.xlogy",
)
def xlogy(x, y):
    """x * log(y), and 0 where x is 0 (nan if y is nan)."""


@atom(
    "{T}(0) if ({0} == 0) & ({1} == {1}) else {0} * simd.log1p({1})",
    partials=lambda x, y, out: (
        ATOMS["select"](ATOMS["logical_and"](ATOMS["equal"](x, 0), ATOMS["equal"](y, -1)), 0, ATOMS["log1p"](y)),
        ATOMS["select"](ATOMS["equal"](x, 0), 0, x / (1 + y)),
    ),
    rule="float",
    domain=("real", (-0.5, 3.0)),
    reference="scipy.special.xlog1py",
)
def xlog1py(x, y):
    """x * log(1 + y), and 0 where x is 0 (nan if y is nan)."""
