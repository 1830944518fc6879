"""Special functions under scipy.special's names."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from numbagrad.core.array import Array
from numbagrad.core.errors import message
from numbagrad.lax.elementwise import polygamma as _polygamma
from numbagrad.nn.activations import log_sigmoid as log_expit
from numbagrad.nn.normalisation import log_softmax as _log_softmax
from numbagrad.nn.normalisation import logsumexp
from numbagrad.nn.normalisation import softmax as _softmax
from numbagrad.numpy.elementwise import call, composed, convert_to_float, named, sinc
from numbagrad.scalar import ATOMS, arg

_x, _y = arg(0), arg(1)
_log, _log1p, _lgamma = ATOMS["log"], ATOMS["log1p"], ATOMS["lgamma"]


erf, erfc, erfinv = (named(n, n) for n in ("erf", "erfc", "erfinv"))
gammaln, digamma, gamma = named("gammaln", "lgamma"), named("digamma", "digamma"), named("gamma", "gamma_function")
psi = digamma
expit = named("expit", "sigmoid")
xlogy, xlog1py, entr, rel_entr = (named(n, n) for n in ("xlogy", "xlog1py", "entr", "rel_entr"))
log_ndtr, ndtri = named("log_ndtr", "log_ndtr"), named("ndtri", "ndtri")
log1p, expm1, exp2, cbrt = (named(n, n) for n in ("log1p", "expm1", "exp2", "cbrt"))
ndtr = composed(
    "ndtr",
    0.5 * ATOMS["erfc"](-math.sqrt(0.5) * _x),
    1,
    "float",
    """Standard normal distribution function, accurate in the left tail too.

    >>> import numbagrad as ng
    >>> ng.scipy.special.ndtr(0.0), ng.grad(ng.scipy.special.log_ndtr)(-1000.0)
    (Array(0.5, dtype=float64), Array(1000.000999998, dtype=float64))
    """,
)
kl_div = composed(
    "kl_div", ATOMS["rel_entr"](_x, _y) - _x + _y, 2, "float", "x log(x / y) - x + y, with rel_entr's edges."
)
logit = composed(
    "logit",
    ATOMS["select"](ATOMS["absolute"](_x - 0.5) < 0.25, 2 * ATOMS["arctanh"](2 * _x - 1), _log(_x) - _log1p(-_x)),
    1,
    "float",
    """log(x / (1 - x)), accurate near 0, 1/2 and 1.

    >>> import numbagrad as ng
    >>> ng.grad(ng.scipy.special.logit)(0.5)
    Array(4., dtype=float64)
    """,
)
betaln = composed("betaln", _lgamma(_x) + _lgamma(_y) - _lgamma(_x + _y), 2, "float", "log|B(x, y)| (DLMF 5.12.1).")


def beta(x: Any, y: Any) -> Array:
    """Beta function of positive x and y (DLMF 5.12.1)."""
    return call("exp", betaln(x, y))


def polygamma(n: Any, x: Any) -> Array:
    """The n-th derivative of digamma, n >= 0.

    >>> import numbagrad as ng
    >>> bool(ng.grad(ng.scipy.special.digamma)(0.5) == ng.scipy.special.polygamma(1, 0.5))
    True
    """
    return _polygamma(n, x)


def multigammaln(a: Any, d: int) -> Array:
    """Logarithm of the multivariate gamma function of dimension d (DLMF 35.3.4)."""
    if d < 1 or d != int(d):
        raise ValueError(message("multigammaln", "not a dimension", d, "an integer >= 1"))
    a = convert_to_float(a, "multigammaln")
    total = d * (d - 1) / 4 * math.log(math.pi) + gammaln(a)
    for k in range(1, int(d)):
        total = total + gammaln(a - 0.5 * k)
    return total


def softmax(x: Any, axis: Any = None) -> Array:
    """exp(x) / sum(exp(x)) over axes, by default all."""
    return _softmax(x, tuple(range(np.ndim(x))) if axis is None else axis)


def log_softmax(x: Any, axis: Any = None) -> Array:
    """Logarithm of softmax, by default over all axes."""
    return _log_softmax(x, tuple(range(np.ndim(x))) if axis is None else axis)


__all__ = [
    "beta", "betaln", "cbrt", "digamma", "entr", "erf", "erfc", "erfinv", "exp2", "expit", "expm1", "gamma",
    "gammaln", "kl_div", "log1p", "log_expit", "log_ndtr", "log_softmax", "logit", "logsumexp", "multigammaln",
    "ndtr", "ndtri", "polygamma", "psi", "rel_entr", "sinc", "softmax", "xlog1py", "xlogy",
]  # fmt: skip
