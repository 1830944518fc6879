"""Reductions over segments and updates by index, as in jax.ops and torch."""

from numbagrad.ops.segment import (
    index_add,
    segment_logsumexp,
    segment_max,
    segment_mean,
    segment_min,
    segment_prod,
    segment_softmax,
    segment_sum,
)

__all__ = [
    "index_add", "segment_logsumexp", "segment_max", "segment_mean", "segment_min", "segment_prod", "segment_softmax",
    "segment_sum",
]  # fmt: skip
