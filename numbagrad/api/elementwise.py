"""Elementwise functions of the user's own."""

from __future__ import annotations

from collections.abc import Callable

from numbagrad.core.array import Array
from numbagrad.numpy.elementwise import RULES, composed
from numbagrad.scalar import Atom, Expr, arg


def elementwise(atom: Atom) -> Callable[..., Array]:
    """Array function of an atom: operands are promoted and broadcast; one kernel, and one for each derivative.

    Dtypes: as the atom's `rule` says, "arithmetic" (integers stay integers) or "float" (they become float64).

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> @ng.elementwise
    ... @ng.atom("{0} * {0} * {0}", partials=lambda x, out: 3 * x * x)
    ... def example_cube(x):
    ...     '''x * x * x.'''
    >>> ng.grad(lambda x: np.sum(example_cube(x)))(np.asarray([1.0, 2.0]))
    Array([ 3., 12.], dtype=float64)
    """
    found = atom(*(arg(k) for k in range(atom.arity)))
    assert isinstance(found, Expr)
    rule = atom.rule if atom.rule in RULES else "arithmetic"
    return composed(atom.name, found, atom.arity, rule, atom.doc)
