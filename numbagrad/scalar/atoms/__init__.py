"""The atoms: every scalar function the library knows, each in one block."""

from numbagrad.scalar.atoms import arithmetic, complexes, exponential, selection, special, statistics, trigonometric
from numbagrad.scalar.atoms.cast import cast

__all__ = ["arithmetic", "cast", "complexes", "exponential", "selection", "special", "statistics", "trigonometric"]
