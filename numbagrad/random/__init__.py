"""Random numbers from keys, as in JAX: the same key gives the same numbers, on any device, for any thread count.

>>> import numbagrad as ng
>>> key = ng.random.key(0)
>>> key, sub = ng.random.split(key)
>>> ng.random.normal(sub, (2, 3)).shape
(2, 3)
"""

from numbagrad.random.continuous import (
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    lognormal,
    normal,
    pareto,
    rayleigh,
    truncated_normal,
    uniform,
    weibull_min,
)
from numbagrad.random.discrete import bernoulli, categorical, choice, permutation, rademacher, randint
from numbagrad.random.keys import PRNGKey, bits, fold_in, key, key_data, split, wrap_key_data
from numbagrad.random.rejection import beta, chisquare, dirichlet, gamma, loggamma, poisson, t

__all__ = [
    "PRNGKey", "bernoulli", "beta", "bits", "categorical", "cauchy", "chisquare", "choice", "dirichlet",
    "exponential", "fold_in", "gamma", "gumbel", "key", "key_data", "laplace", "loggamma", "logistic", "lognormal",
    "normal", "pareto", "permutation", "poisson", "rademacher", "randint", "rayleigh", "split", "t",
    "truncated_normal", "uniform", "weibull_min", "wrap_key_data",
]  # fmt: skip
