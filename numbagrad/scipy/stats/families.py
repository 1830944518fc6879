"""Making a distribution from expressions: every function of it is one fused kernel, differentiable in all arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from numbagrad.core.array import Array
from numbagrad.core.errors import message
from numbagrad.numpy.elementwise import call, composed
from numbagrad.scalar import ATOMS, Expr, arg

Formula = Callable[..., Expr]


def family(name: str, doc: str, **formulas: Formula) -> SimpleNamespace:
    """A namespace of functions (x, *shapes, loc=0, scale=1) from formulas of z = (x - loc) / scale and the shapes.

    A formula's name says what becomes of the scale: log densities lose log(scale), `ppf` is moved back. `pdf`,
    `cdf` and `sf` are the exponentials of their logarithms unless given.
    """
    made: dict[str, Callable[..., Array]] = {}
    for kind, formula in formulas.items():
        shapes = list(inspect.signature(formula).parameters)[1:]
        made[kind] = _function(f"{name}_{kind}", kind, formula, shapes)
    for plain in ("pdf", "cdf", "sf"):
        if plain not in made and f"log{plain}" in made:
            made[plain] = _exponential(made[f"log{plain}"])
        elif plain in made and f"log{plain}" not in made:
            made[f"log{plain}"] = _logarithm(made[plain])
    return SimpleNamespace(__doc__=doc, __name__=name, **made)


def _function(title: str, kind: str, formula: Formula, shapes: list[str]) -> Callable[..., Array]:
    n = len(shapes)
    x, params, loc, scale = arg(0), [arg(k + 1) for k in range(n)], arg(n + 1), arg(n + 2)
    if kind == "ppf":
        expr = loc + scale * formula(x, *params)
    elif kind == "logpdf":
        expr = formula((x - loc) / scale, *params) - ATOMS["log"](scale)
    else:
        expr = formula((x - loc) / scale, *params)
    compiled = composed(title, expr, n + 3, "float", "")

    names = [*shapes, "loc", "scale"]

    def function(x: Any, *params: Any, **named: Any) -> Array:
        return compiled(x, *_arguments(title, names, params, named))

    function.__name__ = function.__qualname__ = title
    function.__doc__ = f"{kind} at x, of {', '.join([*shapes, 'loc', 'scale'])}."
    return function


def _arguments(title: str, names: list[str], params: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    """Parameters by position or name; loc is 0 and scale 1 by default."""
    given = {"loc": 0.0, "scale": 1.0, **dict(zip(names, params)), **named}
    missing = [n for n in names if n not in given]
    unknown = [n for n in named if n not in names or n in names[: len(params)]]
    if missing or unknown or len(params) > len(names):
        got = f"{len(params)} parameters and {list(named)}"
        step = "loc and scale may be left out."
        raise TypeError(message(title, "parameters do not fit", got, f"each of {names} once", step))
    return [given[n] for n in names]


def counting(name: str, doc: str, logpmf: Formula) -> SimpleNamespace:
    """A namespace with logpmf and pmf (k, *shapes, loc=0)."""
    shapes = list(inspect.signature(logpmf).parameters)[1:]
    n = len(shapes)
    expr = logpmf(arg(0) - arg(n + 1), *(arg(k + 1) for k in range(n)))
    compiled = composed(f"{name}_logpmf", expr, n + 2, "float", "")

    def log_function(k: Any, *params: Any, **named: Any) -> Array:
        return compiled(k, *_arguments(f"{name}_logpmf", [*shapes, "loc"], params, named))

    log_function.__name__ = log_function.__qualname__ = f"{name}_logpmf"
    log_function.__doc__ = f"Logarithm of the probability of k, of {', '.join([*shapes, 'loc'])}."
    return SimpleNamespace(__doc__=doc, __name__=name, logpmf=log_function, pmf=_exponential(log_function))


def _exponential(log_function: Callable[..., Array]) -> Callable[..., Array]:
    def function(x: Any, *params: Any, **options: Any) -> Array:
        return call("exp", log_function(x, *params, **options))

    function.__name__ = function.__qualname__ = log_function.__name__.replace("_log", "_")
    function.__doc__ = f"exp of {log_function.__name__}."
    return function


def _logarithm(plain: Callable[..., Array]) -> Callable[..., Array]:
    def function(x: Any, *params: Any, **options: Any) -> Array:
        return call("log", plain(x, *params, **options))

    function.__name__ = function.__qualname__ = plain.__name__.replace("_", "_log", 1)
    function.__doc__ = f"log of {plain.__name__}."
    return function
