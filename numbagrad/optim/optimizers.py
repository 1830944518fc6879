"""Optimisers as pairs of pure functions on pytrees, one fused kernel a tensor.

The learning rate and the other numbers are runtime operands of the tensor's dtype: a new one compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from numbagrad.config import OPENED
from numbagrad.core.arguments import arrays_of, host_value, scalar_cell, together, value_of
from numbagrad.core.array import Array
from numbagrad.core.dtypes import FLOATING, computed
from numbagrad.core.errors import message
from numbagrad.core.registry import own_zeros
from numbagrad.core.trace import concrete
from numbagrad.core.tree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from numbagrad.numpy.elementwise import call, call_internal, where
from numbagrad.numpy.reductions import sum as array_sum
from numbagrad.primitives.elementwise import MapOp, convert, map_op
from numbagrad.scalar import ATOMS, Expr, arg


class Optimizer(NamedTuple):
    """`init(params) -> state` and `update(grads, state, params) -> (new_params, new_state)`."""

    init: Callable[[Any], Any]
    update: Callable[[Any, Any, Any], tuple[Any, Any]]


class SgdState(NamedTuple):
    """Steps taken, and the velocity of every tensor (None without momentum)."""

    count: Any
    velocity: Any


class AdamState(NamedTuple):
    """Steps taken, and the running means of the gradients and of their squares."""

    count: Any
    mean: Any
    square: Any


def _start(params: Any, name: str) -> Any:
    def zeros(leaf: Any) -> Array:
        value = value_of(leaf, name)
        if value.dtype.kind not in FLOATING:
            raise TypeError(
                message(
                    name,
                    "a parameter is not real floating point",
                    value.dtype,
                    "float32 or float64",
                    "Keep other arrays out of params.",
                )
            )
        return Array(own_zeros(concrete(value), value.shape, computed(value.dtype)))

    return tree_map(zeros, params)


def _scalar(number: Any, dtype: np.dtype) -> Any:
    """A hyperparameter as a 0-d operand of the tensor's dtype."""
    if isinstance(number, (int, float)):
        return scalar_cell(float(number), dtype)
    return convert(host_value(number), dtype)


def _map_trees(name: str, operation: MapOp, scalars: Any, params: Any, *trees: Any) -> list[Any]:
    """The operation on every tensor; one tree per output."""
    leaves, structure = tree_flatten(params)
    columns = [structure.flatten_up_to(tree, op=name, names=("params", "grads or state")) for tree in trees]
    results = []
    for leaf, *others in zip(leaves, *columns, strict=True):
        given = [host_value(v, name) for v in (leaf, *others)]
        p, *tensors = together(name, (leaf, *others), given) if OPENED else given
        dtype = computed(p.dtype)  # 16 bits are too few for running means: they are kept in float32
        tensors = [convert(t, dtype) for t in tensors]
        for t in tensors:
            if t.shape != p.shape:
                raise ValueError(message(name, "a gradient does not fit its parameter", t.shape, p.shape))
        outs = operation(convert(p, dtype), *tensors, *(_scalar(s, dtype) for s in scalars))
        first, *rest = outs if operation.outputs > 1 else (outs,)
        results.append((convert(first, p.dtype), *rest))
    return [tree_unflatten(structure, [Array(r[k]) for r in results]) for k in range(operation.outputs)]


def _rate(learning_rate: Any, count: Any) -> Any:
    return learning_rate(count) if callable(learning_rate) else learning_rate


def _counted(count: Any) -> Array:
    return call("add", count, 1)


def _sgd_op(momentum: bool, nesterov: bool) -> MapOp:
    if not momentum:
        p, g, rate, decay = map(arg, range(4))
        return map_op("sgd", (p - rate * (g + decay * p),), 4)
    p, g, v, rate, decay, mu = map(arg, range(6))
    g = g + decay * p
    v = mu * v + g
    return map_op("sgd_momentum", (p - rate * (g + mu * v if nesterov else v), v), 6)


def sgd(learning_rate: Any, momentum: Any = 0.0, nesterov: bool = False, weight_decay: Any = 0.0) -> Optimizer:
    """Gradient descent: v = momentum * v + g, p = p - rate * v, where weight_decay * p is added to g.

    learning_rate: a number, a 0-d array, or a function of the number of steps taken.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> opt, params = ng.optim.sgd(0.1), {"w": np.asarray([1.0, -2.0])}
    >>> grads = ng.grad(lambda p: np.sum(p["w"] ** 2))(params)
    >>> opt.update(grads, opt.init(params), params)[0]
    {'w': Array([ 0.8, -1.6], dtype=float64)}
    """
    plain = isinstance(momentum, (int, float)) and momentum == 0
    operation = _sgd_op(not plain, nesterov)

    def init(params: Any) -> SgdState:
        zeros = _start(params, "sgd")
        return SgdState(Array(np.zeros((), np.int64)), None if plain else zeros)

    def update(grads: Any, state: SgdState, params: Any) -> tuple[Any, SgdState]:
        rate = _rate(learning_rate, state.count)
        if plain:
            (new,) = _map_trees("sgd", operation, (rate, weight_decay), params, grads)
            return new, SgdState(_counted(state.count), None)
        scalars = (rate, weight_decay, momentum)
        new, velocity = _map_trees("sgd", operation, scalars, params, grads, state.velocity)
        return new, SgdState(_counted(state.count), velocity)

    return Optimizer(init, update)


def _adam_exprs() -> tuple[Expr, ...]:
    p, g, m, v, rate, b1, b2, eps, decay, m_share, v_share = map(arg, range(11))
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * (g * g)
    # norm_sqrt: where every gradient so far was 0 the derivative of the step is 0, not inf * 0
    step = (m / m_share) / (ATOMS["norm_sqrt"](v / v_share) + eps)
    return p - rate * (step + decay * p), m, v


_adam_op = map_op("adam", _adam_exprs(), 11)


def _adam(name: str, learning_rate: Any, b1: Any, b2: Any, eps: Any, weight_decay: Any) -> Optimizer:
    def init(params: Any) -> AdamState:
        return AdamState(Array(np.zeros((), np.int64)), _start(params, name), _start(params, name))

    def update(grads: Any, state: AdamState, params: Any) -> tuple[Any, AdamState]:
        count = _counted(state.count)
        t = Array(convert(count._value, np.dtype(np.float64)))
        shares = [1.0 - call("power", b, t) for b in (b1, b2)]
        scalars = (_rate(learning_rate, state.count), b1, b2, eps, weight_decay, *shares)
        new, mean, square = _map_trees(name, _adam_op, scalars, params, grads, state.mean, state.square)
        return new, AdamState(count, mean, square)

    return Optimizer(init, update)


def adam(learning_rate: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> Optimizer:
    """Adam. Source: Kingma, Ba 2014, algorithm 1.

    learning_rate: a number, a 0-d array, or a function of the number of steps taken.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> opt, x = ng.optim.adam(0.5), np.asarray(3.0)
    >>> state = opt.init(x)
    >>> for _ in range(100):
    ...     x, state = opt.update(ng.grad(lambda x: (x - 1.0) ** 2)(x), state, x)
    >>> int(state.count), bool(abs(x - 1.0) < 0.1)
    (100, True)
    """
    return _adam("adam", learning_rate, b1, b2, eps, 0.0)


def adamw(learning_rate: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8, weight_decay: Any = 1e-4) -> Optimizer:
    """Adam with decoupled weight decay: p moves by rate * weight_decay * p too. Source: Loshchilov, Hutter 2017."""
    return _adam("adamw", learning_rate, b1, b2, eps, weight_decay)


def apply_updates(params: Any, updates: Any) -> Any:
    """params + updates, in the dtypes of params."""

    def add(p: Any, u: Any) -> Array:
        value, update = arrays_of("apply_updates", p, u)
        return call("add", value, Array(convert(update._value, value.dtype)))

    return tree_map(add, params, updates)


def global_norm(tree: Any) -> Array:
    """Square root of the sum of the squares of all elements of a pytree. Derivative 0 where all are 0.

    Types of 16 bits are squared and summed in float32, and so is the result.

    >>> import numbagrad as ng
    >>> ng.optim.global_norm({"a": 3.0, "b": [4.0]})
    Array(5., dtype=float64)
    """
    total: Any = None
    for leaf in tree_leaves(tree):
        value = value_of(leaf, "global_norm")
        square = array_sum(call("square", call("absolute", Array(convert(value, computed(value.dtype))))))
        total = square if total is None else total + square
    if total is None:
        return Array(np.zeros(()))
    return call_internal("norm_sqrt", total if total.dtype.kind in FLOATING else total.astype(float))


def clip_by_global_norm(tree: Any, max_norm: Any) -> Any:
    """The pytree, scaled down to a global norm of max_norm if it is larger.

    Edge: a norm of inf or nan gives nan where it must (inf / inf), as any other answer would hide it.
    """
    norm = global_norm(tree)
    scale = where(norm > max_norm, max_norm / norm, 1.0)
    return tree_map(lambda x: _scaled(*arrays_of("clip_by_global_norm", x, scale)), tree)


def _scaled(x: Array, scale: Array) -> Array:
    wide = Array(convert(x._value, computed(x.dtype)))
    made = wide * Array(convert(scale._value, wide.dtype if wide.dtype.kind in FLOATING else scale.dtype))
    return Array(convert(made._value, x.dtype)) if x.dtype.kind in FLOATING else made
