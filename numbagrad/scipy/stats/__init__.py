"""Distributions under scipy.stats's names: logpdf, pdf, and logcdf, cdf, sf, ppf where they have a closed form.

>>> import numbagrad as ng
>>> from numbagrad.scipy.stats import norm
>>> ng.grad(lambda mu: norm.logpdf(1.0, mu, 2.0))(0.0)
Array(0.25, dtype=float64)
"""

from __future__ import annotations

import math

from numbagrad.scalar import ATOMS, Expr
from numbagrad.scipy.stats.families import counting, family

_select, _log, _log1p, _exp, _lgamma = (ATOMS[n] for n in ("select", "log", "log1p", "exp", "lgamma"))
_xlogy, _xlog1py, _softplus = ATOMS["xlogy"], ATOMS["xlog1py"], ATOMS["softplus"]
_NOWHERE = -math.inf


def _above_zero(z: Expr, inside: Expr) -> Expr:
    return _select(z < 0, _NOWHERE, inside)


def _within_unit(z: Expr, inside: Expr) -> Expr:
    return _select(ATOMS["logical_or"](z < 0, z > 1), _NOWHERE, inside)


_ndtr = lambda z: 0.5 * ATOMS["erfc"](-math.sqrt(0.5) * z)
norm = family(
    "norm",
    "Normal with mean loc and standard deviation scale.",
    logpdf=lambda z: -0.5 * (z * z) - 0.5 * math.log(2 * math.pi),
    cdf=_ndtr,
    logcdf=lambda z: ATOMS["log_ndtr"](z),
    sf=lambda z: _ndtr(-z),
    logsf=lambda z: ATOMS["log_ndtr"](-z),
    ppf=lambda q: ATOMS["ndtri"](q),
)
expon = family(
    "expon",
    "Exponential with mean scale, from loc on.",
    logpdf=lambda z: _above_zero(z, -z),
    cdf=lambda z: _select(z < 0, 0, -ATOMS["expm1"](-z)),
    logsf=lambda z: _select(z < 0, 0, -z),
    ppf=lambda q: -_log1p(-q),
)
laplace = family(
    "laplace",
    "Laplace: density exp(-|z|) / (2 scale).",
    logpdf=lambda z: -ATOMS["absolute"](z) - math.log(2.0),
    cdf=lambda z: _select(z < 0, 0.5 * _exp(z), 1 - 0.5 * _exp(-z)),
    sf=lambda z: _select(z > 0, 0.5 * _exp(-z), 1 - 0.5 * _exp(z)),
    logcdf=lambda z: _select(z < 0, z - math.log(2.0), _log1p(-0.5 * _exp(-z))),
    logsf=lambda z: _select(z > 0, -z - math.log(2.0), _log1p(-0.5 * _exp(z))),
)
logistic = family(
    "logistic",
    "Logistic: the distribution function is a sigmoid.",
    logpdf=lambda z: -_softplus(z) - _softplus(-z),
    cdf=lambda z: ATOMS["sigmoid"](z),
    logcdf=lambda z: -_softplus(-z),
    sf=lambda z: ATOMS["sigmoid"](-z),
    logsf=lambda z: -_softplus(z),
    ppf=lambda q: _log(q) - _log1p(-q),
)
uniform = family(
    "uniform",
    "Uniform from loc to loc + scale.",
    logpdf=lambda z: _within_unit(z, 0 * z),
    cdf=lambda z: _select(z <= 0, 0, _select(z >= 1, 1, z)),
    sf=lambda z: _select(z <= 0, 1, _select(z >= 1, 0, 1 - z)),
    ppf=lambda q: q,
)
cauchy = family(
    "cauchy",
    "Cauchy with median loc and half-width scale.",
    logpdf=lambda z: (
        -math.log(math.pi) - _select(ATOMS["absolute"](z) > 1e8, 2 * _log(ATOMS["absolute"](z)), _log1p(z * z))
    ),
    cdf=lambda z: (1 / math.pi) * ATOMS["arctan2"](0 * z + 1, -z),
    sf=lambda z: (1 / math.pi) * ATOMS["arctan2"](0 * z + 1, z),
)
gamma = family(
    "gamma",
    "Gamma of shape a.",
    logpdf=lambda z, a: _above_zero(z, _xlogy(a - 1, z) - z - _lgamma(a)),
)
beta = family(
    "beta",
    "Beta of shapes a and b, on [loc, loc + scale].",
    logpdf=lambda z, a, b: _within_unit(
        z, _xlogy(a - 1, z) + _xlog1py(b - 1, -z) - (_lgamma(a) + _lgamma(b) - _lgamma(a + b))
    ),
)
t = family(
    "t",
    "Student's t with df degrees of freedom.",
    logpdf=lambda z, df: (
        _lgamma(0.5 * (df + 1)) - _lgamma(0.5 * df) - 0.5 * _log(math.pi * df) - 0.5 * (df + 1) * _log1p(z * z / df)
    ),
)


def _whole(k: Expr, inside: Expr) -> Expr:
    outside = ATOMS["logical_or"](k < 0, ATOMS["not_equal"](k, ATOMS["floor"](k)))
    return _select(outside, _NOWHERE, inside)


poisson = counting("poisson", "Poisson of rate mu.", lambda k, mu: _whole(k, _xlogy(k, mu) - _lgamma(k + 1) - mu))
bernoulli = counting(
    "bernoulli",
    "1 with probability p, else 0.",
    lambda k, p: _select(ATOMS["equal"](k, 1), _log(p), _select(ATOMS["equal"](k, 0), _log1p(-p), _NOWHERE)),
)

__all__ = [
    "bernoulli", "beta", "cauchy", "expon", "gamma", "laplace", "logistic", "norm", "poisson", "t", "uniform",
]  # fmt: skip
