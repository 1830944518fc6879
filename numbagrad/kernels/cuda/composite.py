"""logsumexp: a reduction that carries the largest element and the sum of exponentials relative to it along."""

from __future__ import annotations

from numbagrad.kernels.cuda import reduce
from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.reduce_text import exponential_state


def logsumexp(x: Buffer, *, axes: tuple[int, ...]) -> Buffer:
    """log of the sum of exponentials over axes; an empty sum is -inf."""
    return reduce.by_state("logsumexp", x, axes, None, exponential_state, x.dtype)
