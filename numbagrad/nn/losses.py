"""Losses on logits, one number an example (names and meanings are optax's); and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from numbagrad import random
from numbagrad.core.arguments import arrays_of, host_value
from numbagrad.core.array import Array
from numbagrad.core.device import beside, place_of, report
from numbagrad.core.errors import message
from numbagrad.nn.normalisation import log_softmax, one_hot
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy import reductions
from numbagrad.numpy.halves import in_float32
from numbagrad.random.keys import key_of
from numbagrad.scalar import ATOMS, arg

_x, _y, _z = arg(0), arg(1), arg(2)
_product = ew.composed("masked_product", ATOMS["zero_product"](_x, _y), 2, "float", "")


@in_float32
def softmax_cross_entropy(logits: Any, labels: Any, axis: int = -1, where: Any = None) -> Array:
    """-sum(labels * log_softmax(logits)) over `axis`; a label of 0 counts as 0 at a logit of -inf too.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.grad(lambda x: ng.nn.softmax_cross_entropy(x, np.asarray([1.0, 0.0])))(np.asarray([0.0, 0.0]))
    Array([-0.5,  0.5], dtype=float64)
    """
    x, y = arrays_of("softmax_cross_entropy", logits, labels)
    return -reductions.sum(_product(y, log_softmax(x, axis, where)), axis)


@in_float32
def softmax_cross_entropy_with_integer_labels(logits: Any, labels: Any, axis: int = -1) -> Array:
    """-log_softmax(logits) at the place each integer label names.

    Errors: IndexError for a label out of range.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> loss = ng.nn.softmax_cross_entropy_with_integer_labels
    >>> ng.grad(lambda x: np.sum(loss(x, np.asarray([1]))))(np.asarray([[0.0, 0.0]]))
    Array([[ 0.5, -0.5]], dtype=float64)
    """
    name = "softmax_cross_entropy_with_integer_labels"
    index = host_value(labels, name)
    if index.dtype.kind not in "iu":
        raise TypeError(message(name, "labels are class numbers", index.dtype, "integers"))
    scores = log_softmax(logits, axis)
    if place_of(scores._value) is not None:
        index = beside(index, scores._value)
    k = reductions.normalize_axis(axis, scores.ndim, name)
    kept = scores.shape[:k] + scores.shape[k + 1 :]
    if index.shape != kept:
        raise ValueError(message(name, "labels do not fit the logits", index.shape, kept))
    n = scores.shape[k]
    if index.__class__ is not np.ndarray:
        report(name, ((Array(index) < 0) | (Array(index) >= n))._value)
    elif index.size and not (index.min() >= 0 and index.max() < n):
        raise IndexError(message(name, "a label is out of range", f"{index.min()} to {index.max()}", f"0 to {n - 1}"))
    chosen = one_hot(Array(index), n, dtype=bool, axis=k)
    return -reductions.sum(ew.where(chosen, scores, np.zeros((), scores.dtype)), k)


# max(x, 0) - x y + log(1 + exp(-|x|)), put as softplus so that no derivative cancels
_binary = ew.composed(
    "sigmoid_binary_cross_entropy", _y * ATOMS["softplus"](-_x) + (1 - _y) * ATOMS["softplus"](_x), 2, "float", ""
)


def sigmoid_binary_cross_entropy(logits: Any, labels: Any) -> Array:
    """-y log(sigmoid(x)) - (1 - y) log(1 - sigmoid(x)) for logits x and labels y in [0, 1], without overflow.

    >>> import numbagrad as ng
    >>> ng.grad(ng.nn.sigmoid_binary_cross_entropy)(1000.0, 0.0)
    Array(1., dtype=float64)
    """
    return _binary(logits, labels)


_huber = ew.composed(
    "huber_loss",
    ATOMS["select"](
        ATOMS["absolute"](_x - _y) <= _z,
        0.5 * ATOMS["square"](_x - _y),
        _z * (ATOMS["absolute"](_x - _y) - 0.5 * _z),
    ),
    3,
    "float",
    "",
)


def huber_loss(predictions: Any, targets: Any, delta: Any = 1.0) -> Array:
    """Half the square of the difference up to delta, linear beyond. Source: Huber 1964."""
    return _huber(predictions, targets, delta)


def dropout(key: Any, x: Any, rate: Any, deterministic: bool = False) -> Array:
    """x with each element set to 0 with probability `rate`, the others divided by 1 - rate.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.nn.dropout(ng.random.key(0), np.ones(5), 0.5)
    Array([2., 2., 0., 0., 0.], dtype=float64)
    """
    x = ew.convert_to_float(x, "dropout")
    if not 0.0 <= float(rate) <= 1.0:
        raise ValueError(message("dropout", "rate is a probability", rate, "0 <= rate <= 1"))
    if deterministic or rate == 0.0:
        return x
    kept = random.bernoulli(Array(key_of(key, "dropout", x._value)), 1.0 - float(rate), x.shape)
    return ew.where(kept, x * (1.0 / (1.0 - float(rate)) if rate < 1.0 else 0.0), np.zeros((), x.dtype))
