"""Simplification while expressions are built. Every rule keeps the value at every input, nan and inf included."""

from __future__ import annotations

from numbagrad.scalar.expr import ATOMS, SIMPLER, Expr, lit


def _is(e: Expr, value: float) -> bool:
    return e.is_literal and not isinstance(e.literal, bool) and e.literal == value


def _add(x: Expr, y: Expr) -> Expr | None:
    # x + 0 is x except for the sign of a negative zero, which carries no derivative information
    if _is(x, 0):
        return y
    if _is(y, 0):
        return x
    if y.atom is not None and y.atom.name == "negative":
        return ATOMS["subtract"](x, y.args[0])
    return None


def _subtract(x: Expr, y: Expr) -> Expr | None:
    if _is(y, 0):
        return x
    return -y if _is(x, 0) else None


def _multiply(x: Expr, y: Expr) -> Expr | None:
    if x.is_literal and y.is_literal:
        return lit(x.literal * y.literal)  # type: ignore[operator]
    for p, q in ((x, y), (y, x)):
        if _is(p, 1):
            return q
        if _is(p, -1):
            return -q
    return None


def _divide(x: Expr, y: Expr) -> Expr | None:
    return x if _is(y, 1) else None


def _negative(x: Expr) -> Expr | None:
    if x.is_literal:
        return lit(-x.literal)  # type: ignore[operator]
    return x.args[0] if x.atom is not None and x.atom.name == "negative" else None


def _zero_product(g: Expr, p: Expr) -> Expr | None:
    """The absorbing product of a cotangent and a partial: only a literal partial cannot be inf or nan."""
    if _is(g, 0) or _is(p, 0):
        return lit(0)
    if p.is_literal:
        return ATOMS["multiply"](p, g)
    if p.atom is not None and p.atom.name == "negative":
        return -ATOMS["zero_product"](g, p.args[0])
    if p.atom is not None and p.atom.name == "select":
        condition, a, b = p.args
        if a.is_literal or b.is_literal:  # keep the product on the side that needs one
            return ATOMS["select"](condition, ATOMS["zero_product"](g, a), ATOMS["zero_product"](g, b))
    return None


def _null_product(x: Expr, y: Expr) -> Expr | None:
    """The product that either factor can make 0."""
    if _is(x, 0) or _is(y, 0):
        return lit(0)
    if x.is_literal or y.is_literal:
        return ATOMS["multiply"](x, y)
    for p, q in ((x, y), (y, x)):
        if p.atom is not None and p.atom.name == "negative":
            return -ATOMS["null_product"](p.args[0], q)
    return None


def _select(condition: Expr, a: Expr, b: Expr) -> Expr | None:
    if a is b:
        return a
    if condition.is_literal:
        return a if condition.literal else b
    return None


SIMPLER |= {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "negative": _negative,
    "zero_product": _zero_product,
    "null_product": _null_product,
    "select": _select,
}
