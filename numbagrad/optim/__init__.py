"""Gradient-based optimisers and learning-rate schedules, as pure functions on pytrees."""

from numbagrad.optim.optimizers import (
    AdamState,
    Optimizer,
    SgdState,
    adam,
    adamw,
    apply_updates,
    clip_by_global_norm,
    global_norm,
    sgd,
)
from numbagrad.optim.schedules import constant, cosine_decay, exponential_decay, linear, warmup_cosine

__all__ = [
    "AdamState", "Optimizer", "SgdState", "adam", "adamw", "apply_updates", "clip_by_global_norm", "constant",
    "cosine_decay", "exponential_decay", "global_norm", "linear", "sgd", "warmup_cosine",
]  # fmt: skip
