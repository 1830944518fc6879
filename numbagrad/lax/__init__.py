"""Structural and elementwise operations under their XLA names, as in jax.lax."""

from numbagrad.lax import elementwise as _elementwise
from numbagrad.lax.elementwise import (
    RoundingMethod,
    abs,
    clamp,
    complex,
    conj,
    convert_element_type,
    div,
    imag,
    integer_pow,
    is_finite,
    polygamma,
    pow,
    real,
    round,
    select,
    select_n,
    shift_right_logical,
    sign,
)
from numbagrad.lax.structural import (
    argmax,
    argmin,
    batch_matmul,
    broadcast,
    broadcast_in_dim,
    broadcasted_iota,
    concatenate,
    dot,
    dot_general,
    expand_dims,
    full,
    full_like,
    iota,
    pad,
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
    reduce_sum,
    reshape,
    rev,
    slice,
    slice_in_dim,
    squeeze,
    stop_gradient,
    transpose,
)

globals().update(_elementwise.FUNCTIONS)

__all__ = [
    "RoundingMethod", "abs", "argmax", "argmin", "batch_matmul", "broadcast", "broadcast_in_dim", "broadcasted_iota",
    "clamp", "complex", "concatenate", "conj", "convert_element_type", "div", "dot", "dot_general", "expand_dims",
    "full", "full_like", "imag", "integer_pow", "iota", "is_finite", "pad", "polygamma", "pow", "real", "reduce_and",
    "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum", "reshape", "rev", "round", "select",
    "select_n", "shift_right_logical", "sign", "slice", "slice_in_dim", "squeeze", "stop_gradient", "transpose",
    *_elementwise.FUNCTIONS,
]  # fmt: skip
