"""The discrete Fourier transform over axes, unnormalised: sum over j of x[j] exp(-2 pi i j k / n), or +.

Its matrix is symmetric, so each direction is its own transpose.
"""

from __future__ import annotations

from typing import Any

from numbagrad.core.registry import Linear


def _fourier_transpose(g: Any, x: Any, *, axes: tuple[int, ...], inverse: bool = False) -> Any:
    return fourier(g, axes=axes, inverse=inverse)


fourier = Linear(
    "fourier",
    "fourier:fourier",
    _fourier_transpose,
    doc="Discrete Fourier transform of complex numbers over axes, without a factor. Adjoint: itself.",
)
