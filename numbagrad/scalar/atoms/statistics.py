"""The normal distribution far into its tails, and the terms of entropies."""

from __future__ import annotations

import math

import numpy as np

from numbagrad.scalar.expr import ATOMS, atom


@atom(partials=lambda x, out: ATOMS["normal_hazard"](x), rule="float", reference="scipy.special.log_ndtr")
def log_ndtr(x):
    """Logarithm of the standard normal distribution function, accurate in both tails (DLMF 7.9.3 below -6)."""
    if x != x:
        return x * 1.0
    if x > 1.0:
        return math.log1p(-0.5 * math.erfc(x * 0.7071067811865476))
    if x > -6.0:
        return math.log(0.5 * math.erfc(-x * 0.7071067811865476))
    if x == -np.inf:
        return x * 1.0
    t = -x * 1.0
    c = t
    for k in range(80, 0, -1):
        c = t + k / c
    return -0.5 * t * t - 0.9189385332046727 - math.log(c)


# h = density / distribution. h' = -h (x + h), where the sum cancels at negative x: hence a function of its own.
@atom(partials=lambda x, out: -out * ATOMS["normal_hazard_excess"](x), rule="internal")
def normal_hazard(x):
    """Standard normal density over distribution function, the derivative of log_ndtr; about -x for x << 0."""
    if x != x:
        return x * 1.0
    if x > -6.0:
        return 0.7978845608028654 * math.exp(-0.5 * x * x) / math.erfc(-x * 0.7071067811865476)
    t = -x * 1.0
    c = t
    for k in range(80, 0, -1):
        c = t + k / c
    return c


@atom(partials=lambda x, out: 1 - ATOMS["normal_hazard"](x) * out, rule="internal")
def normal_hazard_excess(x):
    """normal_hazard(x) + x without cancellation; about -1 / x for x << 0."""
    if x != x:
        return x * 1.0
    if x > -6.0:
        return 0.7978845608028654 * math.exp(-0.5 * x * x) / math.erfc(-x * 0.7071067811865476) + x
    t = -x * 1.0
    c = t
    for k in range(80, 1, -1):
        c = t + k / c
    return 1.0 / c


@atom(
    partials=lambda p, out: math.sqrt(2 * math.pi) * ATOMS["exp"](0.5 * out * out),
    rule="float",
    domain=(0.05, 0.95),
    reference="scipy.special.ndtri",
)
def ndtri(p):
    """Inverse of the standard normal distribution function; -inf and inf at 0 and 1, nan outside.

    Source: M. J. Wichura, Algorithm AS 241 (PPND16), Applied Statistics 37 (1988) 477.
    """
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        n = 2.5090809287301226727e3 * r + 3.3430575583588128105e4
        n = ((n * r + 6.7265770927008700853e4) * r + 4.5921953931549871457e4) * r + 1.3731693765509461125e4
        n = ((n * r + 1.9715909503065514427e3) * r + 1.3314166789178437745e2) * r + 3.3871328727963666080
        d = 5.2264952788528545610e3 * r + 2.8729085735721942674e4
        d = ((d * r + 3.9307895800092710610e4) * r + 2.1213794301586595867e4) * r + 5.3941960214247511077e3
        d = ((d * r + 6.8718700749205790830e2) * r + 4.2313330701600911252e1) * r + 1.0
        return q * n / d
    tail = p * 1.0 if q < 0.0 else 1.0 - p
    if not tail > 0.0:
        return q * np.inf if tail == 0.0 else np.nan
    r = math.sqrt(-math.log(tail))
    if r <= 5.0:
        r -= 1.6
        n = 7.74545014278341407640e-4 * r + 2.27238449892691845833e-2
        n = ((n * r + 2.41780725177450611770e-1) * r + 1.27045825245236838258) * r + 3.64784832476320460504
        n = ((n * r + 5.76949722146069140550) * r + 4.63033784615654529590) * r + 1.42343711074968357734
        d = 1.05075007164441684324e-9 * r + 5.47593808499534494600e-4
        d = ((d * r + 1.51986665636164571966e-2) * r + 1.48103976427480074590e-1) * r + 6.89767334985100004550e-1
        d = ((d * r + 1.67638483018380384940) * r + 2.05319162663775882187) * r + 1.0
    else:
        r -= 5.0
        n = 2.01033439929228813265e-7 * r + 2.71155556874348757815e-5
        n = ((n * r + 1.24266094738807843860e-3) * r + 2.65321895265761230930e-2) * r + 2.96560571828504891230e-1
        n = ((n * r + 1.78482653991729133580) * r + 5.46378491116411436990) * r + 6.65790464350110377720
        d = 2.04426310338993978564e-15 * r + 1.42151175831644588870e-7
        d = ((d * r + 1.84631831751005468180e-5) * r + 7.86869131145613259100e-4) * r + 1.48753612908506148525e-2
        d = ((d * r + 1.36929880922735805310e-1) * r + 5.99832206555887937690e-1) * r + 1.0
    return -n / d if q < 0.0 else n / d


@atom(
    "{T}(-np.inf) if {0} < 0 else ({T}(0) if {0} == 0 else -({0} * simd.log({0})))",
    partials=lambda x, out: ATOMS["select"](x < 0, 0, -1 - ATOMS["log"](x)),
    rule="float",
    domain=(0.2, 4.0),
    reference="scipy.special.entr",
)
def entr(x):
    """-x log(x), 0 at 0 (derivative inf) and -inf below (derivative 0)."""


@atom(
    "({T}(0) if {0} == 0 else {0} * simd.log({0} / {1})) if (({0} > 0) & ({1} > 0)) | (({0} == 0) & ({1} >= 0))"
    " else ({0} + {1} if ({0} != {0}) | ({1} != {1}) else {T}(np.inf))",
    partials=lambda x, y, out: (
        ATOMS["select"](ATOMS["logical_and"](ATOMS["equal"](x, 0), ATOMS["equal"](y, 0)), 0, 1 + ATOMS["log"](x / y)),
        ATOMS["select"](ATOMS["equal"](x, 0), 0, -(x / y)),
    ),
    rule="float",
    domain=((0.2, 4.0), (0.2, 4.0)),
    reference="scipy.special.rel_entr",
)
def rel_entr(x, y):
    """x log(x / y); 0 at x = 0, y >= 0; inf for negative x or y."""


@atom(
    partials=lambda x, out: out * ATOMS["digamma"](x),
    rule="float",
    domain=(0.3, 4.0),
    reference="scipy.special.gamma",
)
def gamma_function(x):
    """Gamma(x), the factorial of x - 1; inf with the sign of x at 0, nan at -1, -2, ..."""
    if x < 0.0 and x == math.floor(x):
        return x * np.nan
    if x == 0.0:
        return math.copysign(np.inf, x)
    return math.gamma(x * 1.0)
