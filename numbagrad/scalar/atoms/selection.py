"""Comparisons, logic, selection and the piecewise functions built on it."""

from __future__ import annotations

import numpy as np

from numbagrad.scalar.expr import ATOMS, Expr, atom


def _comparison(name, operator, reference):
    def compared(x, y):
        pass

    compared.__doc__ = f"x {operator} y."
    ordered = operator not in ("==", "!=")
    code = dict.fromkeys("bif" if ordered else "bifc", f"{{0}} {operator} {{1}}")
    return atom(code, name=name, result="bool", rule="compare", reference=reference, domain="ties")(compared)


equal = _comparison("equal", "==", np.equal)
not_equal = _comparison("not_equal", "!=", np.not_equal)
less = _comparison("less", "<", np.less)
less_equal = _comparison("less_equal", "<=", np.less_equal)
greater = _comparison("greater", ">", np.greater)
greater_equal = _comparison("greater_equal", ">=", np.greater_equal)


@atom("({0} != 0) & ({1} != 0)", result="bool", rule="compare", domain="ties", reference=np.logical_and)
def logical_and(x, y):
    """Whether x and y are both nonzero (nan is)."""


@atom("({0} != 0) | ({1} != 0)", result="bool", rule="compare", domain="ties", reference=np.logical_or)
def logical_or(x, y):
    """Whether x or y is nonzero."""


@atom("({0} != 0) != ({1} != 0)", result="bool", rule="compare", domain="ties", reference=np.logical_xor)
def logical_xor(x, y):
    """Whether just one of x and y is nonzero."""


@atom("{0} == 0", result="bool", rule="compare", domain="ties", reference=np.logical_not)
def logical_not(x):
    """Whether x is zero."""


@atom({"f": "{0} != {0}", "i": "False", "b": "False"}, result="bool", rule="predicate", reference=np.isnan)
def isnan(x):
    """Whether x is not a number."""


@atom(
    {"f": "abs({0}) == {T}(np.inf)", "i": "False", "b": "False"},
    result="bool",
    rule="predicate",
    reference=np.isinf,
)
def isinf(x):
    """Whether x is infinite."""


@atom(
    {"f": "abs({0}) < {T}(np.inf)", "i": "True", "b": "True"},
    result="bool",
    rule="predicate",
    reference=np.isfinite,
)
def isfinite(x):
    """Whether x is neither infinite nor nan."""


@atom({"f": "math.copysign({T}(1), {0}) < 0", "*": "{0} < 0"}, result="bool", rule="predicate", reference=np.signbit)
def signbit(x):
    """Whether the sign bit is set (also of -0.0 and of -nan)."""


@atom(
    "{1} if {0} else {2}",
    partials=lambda c, x, y, out: (None, ATOMS["select"](c, 1, 0), ATOMS["select"](c, 0, 1)),
    rule="select",
)
def select(condition, x, y):
    """x where the condition holds, else y. The derivative goes to the chosen operand only."""


def _route(wins, x, y, out) -> tuple[Expr, Expr]:
    """Shares of the two operands of a maximum or minimum: halves at a tie, all to a nan."""
    x_nan, y_nan = ATOMS["isnan"](x), ATOMS["isnan"](y)
    select = ATOMS["select"]

    def share(first, first_nan, second, second_nan):
        ordinary = select(wins(first, second), 1, select(ATOMS["equal"](first, second), 0.5, 0))
        return select(first_nan, select(second_nan, 0.5, 1), select(second_nan, 0, ordinary))

    return share(x, x_nan, y, y_nan), share(y, y_nan, x, x_nan)


def _route_ignoring_nan(wins, x, y, out) -> tuple[Expr, Expr]:
    """Shares for fmax and fmin: all to the operand that was returned."""
    x_nan, y_nan = ATOMS["isnan"](x), ATOMS["isnan"](y)
    select = ATOMS["select"]

    def share(first, first_nan, second, second_nan):
        ordinary = select(wins(first, second), 1, select(ATOMS["equal"](first, second), 0.5, 0))
        return select(second_nan, select(first_nan, 0.5, 1), select(first_nan, 0, ordinary))

    return share(x, x_nan, y, y_nan), share(y, y_nan, x, x_nan)


def _extremum(name, code, wins, route, reference, doc):
    def extremum(x, y):
        pass

    extremum.__doc__ = doc
    codes = {"b": "{0} | {1}" if "max" in name else "{0} & {1}", "*": code}
    return atom(
        codes,
        name=name,
        partials=lambda x, y, out: route(wins, x, y, out),
        reference=reference,
        domain=("real", "real"),
    )(extremum)


maximum = _extremum(
    "maximum",
    "{0} if ({0} >= {1}) | ({0} != {0}) else {1}",
    lambda a, b: a > b,
    _route,
    np.maximum,
    "Larger of x and y; nan if one is. Derivative at a tie: 1/2 and 1/2; all to a nan.",
)
minimum = _extremum(
    "minimum",
    "{0} if ({0} <= {1}) | ({0} != {0}) else {1}",
    lambda a, b: a < b,
    _route,
    np.minimum,
    "Smaller of x and y; nan if one is. Derivative at a tie: 1/2 and 1/2; all to a nan.",
)
fmax = _extremum(
    "fmax",
    "{0} if ({0} >= {1}) | ({1} != {1}) else {1}",
    lambda a, b: a > b,
    _route_ignoring_nan,
    np.fmax,
    "Larger of x and y, ignoring a nan. Derivative to the operand returned, halves at a tie.",
)
fmin = _extremum(
    "fmin",
    "{0} if ({0} <= {1}) | ({1} != {1}) else {1}",
    lambda a, b: a < b,
    _route_ignoring_nan,
    np.fmin,
    "Smaller of x and y, ignoring a nan. Derivative to the operand returned, halves at a tie.",
)


def _clip_partials(x, low, high, out):
    select, isnan = ATOMS["select"], ATOMS["isnan"]
    below = (x < low) | isnan(low)
    above = (select(below, low, x) > high) | isnan(high)
    return select(above, 0, select(below, 0, 1)), select(above, 0, select(below, 1, 0)), select(above, 1, 0)


_LIFTED = "({1} if ({0} < {1}) | ({1} != {1}) else {0})"


@atom(
    f"{{2}} if ({_LIFTED} > {{2}}) | ({{2}} != {{2}}) else {_LIFTED}",
    partials=_clip_partials,
    rule="internal",
    domain=("real", (-0.6, -0.5), (0.5, 0.6)),
    reference=np.clip,
)
def clip(x, low, high):
    """x moved into [low, high]. Derivative to x inside and at the bounds, outside to the active bound.

    A bound that is nan gives nan, as in NumPy.
    """


@atom(
    "{T}(0) if {0} <= 0 else {0}",
    partials=lambda x, out: ATOMS["select"](x <= 0, 0, 1),
    domain="nonzero",
    reference=lambda x: np.maximum(x, x.dtype.type(0)),
)
def relu(x):
    """max(x, 0) with derivative 0 at 0."""
