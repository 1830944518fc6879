"""Parts of SciPy on Arrays and traced values: `special` and `stats`."""

from numbagrad.scipy import special, stats

__all__ = ["special", "stats"]
