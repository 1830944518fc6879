"""float16 on GPUs: numbers are kept in it, all arithmetic is in float32 and rounded once at the end.

Maps widen and narrow elements as they read and write them (map_text.py). For other operations it is done here: those
that only move elements move 16 bits, the rest get float32 copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from numbagrad.core.dtypes import HALF
from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.copy import copy_into
from numbagrad.kernels.cuda.map import MapKernel
from numbagrad.scalar import arg
from numbagrad.scalar.atoms import cast

SINGLE, BITS = np.dtype(np.float32), np.dtype(np.uint16)
MOVES = frozenset(
    "broadcast_to concatenate diagonal dynamic_slice dynamic_update_slice embed embed_diagonal getitem reshape setitem"
    " stop_gradient transpose".split()
)


@cache
def _caster(source: np.dtype, target: np.dtype) -> MapKernel:
    return MapKernel("cast", (cast(source, target)(arg(0)),), (source,))


def converted(x: Buffer, dtype: np.dtype) -> Buffer:
    """A copy in another dtype."""
    return _caster(x.dtype, dtype)(x.device, (x,), x.shape)[0]


def call(kernel: Callable[..., Any], name: str, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """Run a kernel on operands some of which are float16; float32 results become float16."""
    if name in MOVES:
        return kernel(*(x.typed(BITS) if x.dtype == HALF else x for x in operands), **params).typed(HALF)
    wide = [converted(x, SINGLE) if x.dtype == HALF else x for x in operands]
    if params.get("dtype") == HALF:
        params = {**params, "dtype": SINGLE}
    found = kernel(*wide, **params)
    if name.endswith("_into"):
        copy_into(operands[0], converted(found, HALF))
        return operands[0]
    outs = [converted(x, HALF) if x.dtype == SINGLE else x for x in (found if isinstance(found, tuple) else (found,))]
    return tuple(outs) if isinstance(found, tuple) else outs[0]
