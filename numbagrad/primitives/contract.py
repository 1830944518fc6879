"""dot_general: the product that matmul, dot, tensordot and einsum are made of."""

from __future__ import annotations

from typing import Any

from numbagrad.core.registry import Multilinear
from numbagrad.primitives.layout import transpose

Axes = tuple[int, ...]


def _free(ndim: int, contract: Axes, batch: Axes) -> list[int]:
    return [k for k in range(ndim) if k not in contract and k not in batch]


def _transpose_operand(
    g: Any, x: Any, y: Any, *, contract: tuple[Axes, Axes], batch: tuple[Axes, Axes], absorbs: Axes = (), which: int
) -> Any:
    """Cotangent of one operand: the cotangent contracted with the other over the other's free axes."""
    own, other = (x, y) if which == 0 else (y, x)
    own_contract, other_contract = contract[which], contract[1 - which]
    own_batch, other_batch = batch[which], batch[1 - which]
    own_free = _free(len(own.shape), own_contract, own_batch)
    other_free = _free(len(other.shape), other_contract, other_batch)
    n_batch, n_x_free = len(own_batch), len(_free(len(x.shape), contract[0], batch[0]))
    g_batch = tuple(range(n_batch))
    first_free = range(n_batch, n_batch + n_x_free)
    second_free = range(n_batch + n_x_free, len(g.shape))
    g_contract = tuple(second_free if which == 0 else first_free)
    other_kept = [k for k in range(len(other.shape)) if k in other_contract]  # in the order dot_general leaves them
    both = 1 - which in absorbs  # the other operand is a cotangent or tangent already
    if which == 0:
        settings = dict(contract=(g_contract, tuple(other_free)), batch=(g_batch, other_batch))
        out = dot_general(g, other, absorbs=(0, 1) if both else (0,), **settings)
        got = [*own_batch, *own_free, *(own_contract[other_contract.index(k)] for k in other_kept)]
    else:
        settings = dict(contract=(tuple(other_free), g_contract), batch=(other_batch, g_batch))
        out = dot_general(other, g, absorbs=(0, 1) if both else (1,), **settings)
        got = [*own_batch, *(own_contract[other_contract.index(k)] for k in other_kept), *own_free]
    axes = tuple(got.index(k) for k in range(len(got)))
    return out if axes == tuple(range(len(axes))) else transpose(out, axes=axes)


dot_general = Multilinear(
    "dot_general",
    "contract:dot_general",
    (
        lambda g, x, y, **params: _transpose_operand(g, x, y, **params, which=0),
        lambda g, x, y, **params: _transpose_operand(g, x, y, **params, which=1),
    ),
    doc="Sum of products over contracted axes; result axes: batch, free of x, free of y. On BLAS.",
)
