"""Transposition of axes, its own adjoint; the diagonal and its adjoint."""

from __future__ import annotations

from typing import Any

from numbagrad.core.registry import Linear


def _transpose_transpose(g: Any, x: Any, *, axes: tuple[int, ...]) -> Any:
    return transpose(g, axes=tuple(axes.index(k) for k in range(len(axes))))


transpose = Linear(
    "transpose",
    "views:transpose",
    _transpose_transpose,
    doc="Permute axes, as a view. Adjoint: the inverse permutation.",
)

diagonal: Linear = Linear(
    "diagonal",
    "views:diagonal",
    lambda g, x: embed_diagonal(g),
    doc="The diagonal of the last two axes of a square array, as a view. Adjoint: a diagonal matrix.",
)

embed_diagonal: Linear = Linear(
    "embed_diagonal",
    "views:embed_diagonal",
    lambda g, x: diagonal(g),
    doc="A square matrix per row, with the row on its diagonal. Adjoint: the diagonal.",
)
