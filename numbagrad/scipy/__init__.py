"""Parts of SciPy on Arrays and traced values: `signal`, `special` and `stats`."""

from numbagrad.scipy import signal, special, stats

__all__ = ["signal", "special", "stats"]
