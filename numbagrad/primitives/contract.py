"""dot_general: the product that matmul, dot, tensordot and einsum are made of."""

from __future__ import annotations

from functools import lru_cache
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
    settings, axes = _adjoint(len(x.shape), len(y.shape), contract, batch, absorbs, which)
    out = dot_general(g, y, **settings) if which == 0 else dot_general(x, g, **settings)
    return out if axes is None else transpose(out, axes=axes)


@lru_cache(maxsize=1024)
def _adjoint(
    x_ndim: int, y_ndim: int, contract: tuple[Axes, Axes], batch: tuple[Axes, Axes], absorbs: Axes, which: int
) -> tuple[dict[str, Any], Axes | None]:
    """Parameters of the adjoint contraction, and the order its result's axes are to have."""
    own_ndim, other_ndim = (x_ndim, y_ndim) if which == 0 else (y_ndim, x_ndim)
    own_contract, other_contract = contract[which], contract[1 - which]
    own_batch, other_batch = batch[which], batch[1 - which]
    own_free, other_free = _free(own_ndim, own_contract, own_batch), _free(other_ndim, other_contract, other_batch)
    n_batch, n_x_free = len(own_batch), len(_free(x_ndim, contract[0], batch[0]))
    g_batch, g_ndim = tuple(range(n_batch)), n_batch + len(own_free) + len(other_free)
    first_free = range(n_batch, n_batch + n_x_free)
    second_free = range(n_batch + n_x_free, g_ndim)
    g_contract = tuple(second_free if which == 0 else first_free)
    other_kept = [k for k in range(other_ndim) if k in other_contract]  # in the order dot_general leaves them
    from_other = [own_contract[other_contract.index(k)] for k in other_kept]
    both = 1 - which in absorbs  # the other operand is a cotangent or tangent already
    settings: dict[str, Any] = dict(absorbs=(0, 1) if both else (which,))
    if which == 0:
        settings |= dict(contract=(g_contract, tuple(other_free)), batch=(g_batch, other_batch))
        got = [*own_batch, *own_free, *from_other]
    else:
        settings |= dict(contract=(tuple(other_free), g_contract), batch=(other_batch, g_batch))
        got = [*own_batch, *from_other, *own_free]
    axes = tuple(got.index(k) for k in range(len(got)))
    return settings, None if axes == tuple(range(len(axes))) else axes


dot_general = Multilinear(
    "dot_general",
    "contract:dot_general",
    (
        lambda g, x, y, **params: _transpose_operand(g, x, y, **params, which=0),
        lambda g, x, y, **params: _transpose_operand(g, x, y, **params, which=1),
    ),
    doc="Sum of products over contracted axes; result axes: batch, free of x, free of y.",
)
