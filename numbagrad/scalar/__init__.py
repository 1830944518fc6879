"""Scalar algebra: what one element computes, its derivatives, and how it becomes text."""

from numbagrad.scalar import atoms, simplify
from numbagrad.scalar.expr import ATOMS, Atom, Expr, arg, atom, lit

__all__ = ["ATOMS", "Atom", "Expr", "arg", "atom", "atoms", "lit", "simplify"]
