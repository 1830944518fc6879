"""Derivatives of expressions, as expressions.

A cotangent or tangent is multiplied into a partial by `zero_product`, for which an exact zero is absorbing:
a path that does not matter cannot poison the gradient with the inf or nan of its local derivative.
"""

from __future__ import annotations

from collections.abc import Sequence

from numbagrad.scalar.expr import ATOMS, Atom, Expr, arg, in_order, lit

ZERO = lit(0)


def _times(g: Expr, partial: Expr) -> Expr:
    return ATOMS["zero_product"](g, partial)


def _pull(atom: Atom, g: Expr, inputs: tuple[Expr, ...], output: Expr) -> Sequence[Expr | None]:
    if atom.vjp is not None:
        return atom.vjp(g, *inputs, output)
    if atom.partials is None:
        return (None,) * atom.arity
    partials = atom.partials(*inputs, output)
    partials = partials if isinstance(partials, tuple) else (partials,)
    return [None if p is None else _times(g, lit(p)) for p in partials]


def _push(atom: Atom, tangents: Sequence[Expr | None], inputs: tuple[Expr, ...], output: Expr) -> Expr | None:
    if atom.jvp is not None:
        return atom.jvp(tangents, *inputs, output)
    if atom.partials is None:
        return None
    partials = atom.partials(*inputs, output)
    partials = partials if isinstance(partials, tuple) else (partials,)
    terms = [_times(t, lit(p)) for t, p in zip(tangents, partials, strict=True) if t is not None and p is not None]
    return _sum(terms)


def _sum(terms: Sequence[Expr]) -> Expr | None:
    total: Expr | None = None
    for term in terms:
        total = term if total is None else ATOMS["add"](total, term)
    return total


def vjp(outputs: Sequence[Expr], n: int, cotangents: Sequence[Expr], known: dict[Expr, Expr]) -> list[Expr | None]:
    """Cotangents of the n arguments, given one per output (reverse sweep).

    `known` maps nodes whose value is at hand (the outputs) to the arguments that hold it.
    """
    bar: dict[Expr, list[Expr]] = {}
    for e, g in zip(outputs, cotangents, strict=True):
        bar.setdefault(e, []).append(g)
    for node in reversed(in_order(outputs)):
        terms = bar.get(node)
        if not terms or node.atom is None:
            continue
        total = _sum(terms)
        assert total is not None
        for operand, term in zip(node.args, _pull(node.atom, total, node.args, known.get(node, node)), strict=True):
            if term is not None and not operand.is_literal:
                bar.setdefault(operand, []).append(term)
    return [_sum(bar.get(arg(k), ())) for k in range(n)]


def jvp(outputs: Sequence[Expr], tangents: dict[int, Expr], known: dict[Expr, Expr]) -> list[Expr | None]:
    """Tangents of the outputs, given those of some arguments (forward sweep)."""
    dot: dict[Expr, Expr | None] = {}
    for node in in_order(outputs):
        if node.atom is None:
            dot[node] = tangents.get(node.value) if node.is_argument else None
            continue
        inner = [dot[a] for a in node.args]
        moving = any(t is not None for t in inner)
        dot[node] = _push(node.atom, inner, node.args, known.get(node, node)) if moving else None
    return [dot[e] for e in outputs]
