"""Functions of neural networks: activations, normalisation, losses, initializers. Names are jax.nn's and optax's."""

from numbagrad.nn import initializers
from numbagrad.nn.activations import (
    celu,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    hard_silu,
    hard_swish,
    hard_tanh,
    leaky_relu,
    log_sigmoid,
    mish,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    soft_sign,
    softplus,
    squareplus,
    swish,
)
from numbagrad.nn.losses import (
    dropout,
    huber_loss,
    sigmoid_binary_cross_entropy,
    softmax_cross_entropy,
    softmax_cross_entropy_with_integer_labels,
)
from numbagrad.nn.normalisation import (
    batch_norm,
    layer_norm,
    log_softmax,
    logmeanexp,
    logsumexp,
    one_hot,
    rms_norm,
    softmax,
    standardize,
)
from numbagrad.numpy import tanh

__all__ = [
    "batch_norm", "celu", "dropout", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh",
    "huber_loss", "initializers", "layer_norm", "leaky_relu", "log_sigmoid", "log_softmax", "logmeanexp", "logsumexp",
    "mish", "one_hot", "relu", "relu6", "rms_norm", "selu", "sigmoid", "sigmoid_binary_cross_entropy", "silu",
    "soft_sign", "softmax", "softmax_cross_entropy", "softmax_cross_entropy_with_integer_labels", "softplus",
    "squareplus", "standardize", "swish", "tanh",
]  # fmt: skip
