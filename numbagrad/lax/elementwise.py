"""Elementwise operations under their XLA names."""

from __future__ import annotations

import enum
from functools import cache
from typing import Any

import numpy as np

from numbagrad.core.arguments import arrays_of, host_value, own, owned, promote, selected, value_of
from numbagrad.core.array import Array
from numbagrad.core.device import beside
from numbagrad.core.dtypes import check_dtype, float_dtype
from numbagrad.core.errors import message
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy.elementwise import call, composed, named
from numbagrad.primitives.elementwise import MapOp, broadcast_shapes, convert, map_op
from numbagrad.scalar import ATOMS, Expr, arg

# lax name -> atom
_TABLE = {
    "add": "add", "sub": "subtract", "mul": "multiply", "neg": "negative", "max": "maximum", "min": "minimum",
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log1p": "log1p", "sqrt": "sqrt", "rsqrt": "rsqrt",
    "cbrt": "cbrt", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
    "atan2": "arctan2", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "erf": "erf", "erfc": "erfc", "erf_inv": "erfinv", "lgamma": "lgamma", "digamma": "digamma",
    "logistic": "sigmoid", "floor": "floor", "ceil": "ceil", "square": "square", "reciprocal": "reciprocal",
    "rem": "fmod", "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal", "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
    "bitwise_not": "invert", "shift_left": "left_shift", "shift_right_arithmetic": "right_shift",
}  # fmt: skip


FUNCTIONS = {name: named(name, atom_name) for name, atom_name in _TABLE.items()}

abs, sign, real, imag, conj, is_finite = ew.absolute, ew.sign, ew.real, ew.imag, ew.conj, ew.isfinite
pow = ew.power


def div(x: Any, y: Any) -> Array:
    """x / y; integers are divided towards zero (0 for y = 0)."""
    _, common = promote((x, y), "div")
    if common.kind not in "biu":
        return call("divide", x, y)
    return call("floor_divide", call("subtract", x, call("fmod", x, y)), y)


@cache
def _integer_power(exponent: int) -> MapOp:
    result: Expr | None = None
    square, n = arg(0), -exponent if exponent < 0 else exponent
    while n:
        if n & 1:
            result = square if result is None else result * square
        n >>= 1
        square = square * square if n else square
    if result is None:
        result = arg(0) * 0 + 1
    return map_op(f"power_{exponent}".replace("-", "minus_"), (1 / result if exponent < 0 else result,), 1)


def integer_pow(x: Any, y: int) -> Array:
    """x ** y for a Python integer y, by products: exact for integers, differentiable at 0 and below.

    >>> import numbagrad as ng
    >>> ng.grad(lambda x: ng.lax.integer_pow(x, 3))(-2.0)
    Array(12., dtype=float64)
    """
    value = value_of(x, "integer_pow")
    if y < 0:
        value = convert(value, float_dtype(value.dtype))
    if y == 0:
        return Array(beside(np.broadcast_to(np.ones((), value.dtype), value.shape), value))
    return Array(_integer_power(int(y))(value))


class RoundingMethod(enum.IntEnum):
    """What `round` does with halves."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def _away() -> Expr:
    whole = ATOMS["trunc"](arg(0))
    return ATOMS["select"](ATOMS["absolute"](arg(0) - whole) >= 0.5, whole + ATOMS["sign"](arg(0)), whole)


_round_away = composed("round_away", _away(), 1, "arithmetic", "")


def round(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Nearest integer; halves away from zero, or to even. Derivative 0."""
    if rounding_method == RoundingMethod.TO_NEAREST_EVEN or value_of(x, "round").dtype.kind in "biu":
        return call("rint", x)
    return _round_away(x)


def shift_right_logical(x: Any, y: Any) -> Array:
    """Bits moved to the right, zeros from the left, also for negative integers."""
    (a, b), common = promote((x, y), "shift_right_logical")
    if common.kind not in "iu":
        raise TypeError(message("shift_right_logical", "bits are defined for integers", common, "an integer dtype"))
    unsigned = np.dtype(f"u{common.itemsize}")
    return Array(convert(call("right_shift", Array(convert(a, unsigned)), Array(convert(b, unsigned)))._value, common))


@cache
def _polygamma(order: int) -> MapOp:
    return map_op(f"polygamma_{order}", (ATOMS["polygamma"](arg(0), order),), 1)


def polygamma(m: Any, x: Any) -> Array:
    """The m-th derivative of digamma at x, for an integer m >= 0 (digamma itself for 0).

    >>> import numbagrad as ng, numpy as onp
    >>> float(ng.lax.polygamma(1, 1.0)) * 6 / onp.pi**2, bool(ng.grad(ng.lax.digamma)(2.0) == ng.lax.polygamma(1, 2.0))
    (1.0, True)
    """
    order = np.asarray(host_value(m, "polygamma"))
    if order.shape != () or order != np.floor(order) or order < 0:
        raise ValueError(message("polygamma", "the order is not a whole number", m, "one integer >= 0"))
    if order == 0:
        return call("digamma", x)
    value = value_of(x, "polygamma")
    return Array(_polygamma(int(order))(convert(value, float_dtype(value.dtype))))


def clamp(min: Any, x: Any, max: Any) -> Array:
    """x moved into [min, max]. Derivative: to x inside and at the bounds, outside to the active bound."""
    values, dtype = promote((x, min, max), "clamp")
    # here, or the errors would be clip's
    broadcast_shapes("clamp", [values[1], values[0], values[2]])
    if dtype.kind == "c":
        raise TypeError(message("clamp", "complex numbers have no order", dtype, "a real dtype"))
    return Array(_clip(*values))


_clip = map_op("clip", (ATOMS["clip"](arg(0), arg(1), arg(2)),), 3)


def convert_element_type(operand: Any, new_dtype: Any) -> Array:
    """The same numbers in another dtype; the derivative is converted back."""
    return Array(convert(owned(operand, "convert_element_type"), check_dtype("convert_element_type", new_dtype)))


def complex(x: Any, y: Any) -> Array:
    """x + i y."""
    a, b = arrays_of("complex", x, y)
    return a + 1j * b


def select(pred: Any, on_true: Any, on_false: Any) -> Array:
    """on_true where pred holds, else on_false; pred is a scalar or of the cases' shape.

    >>> import numbagrad as ng
    >>> ng.grad(lambda x: ng.lax.select(False, x / 0.0, 3.0 * x))(1.0)
    Array(3., dtype=float64)
    """
    which = own(host_value(pred, "select"), pred)
    if which.dtype.kind != "b":
        raise TypeError(message("select", "pred is not boolean", which.dtype, "bool", "Use select_n for integers."))
    return select_n(Array(which) if isinstance(pred, Array) else which, on_false, on_true)


@cache
def _select_op(n: int, boolean: bool) -> MapOp:
    which = arg(0)
    chosen = arg(n)
    for k in reversed(range(n - 1)):
        first = ATOMS["logical_not"](which) if boolean else which <= k
        chosen = ATOMS["select"](first, arg(k + 1), chosen)
    return map_op(f"select_{n}", (chosen,), n + 1)


_GROUP = 16  # cases a kernel takes


def select_n(which: Any, *cases: Any) -> Array:
    """Elements of case number `which`; the derivative goes to the case that supplied the value.

    `which` is boolean (one or two cases) or integer, a scalar or of the cases' shape.
    Edge: a number out of range takes the nearest case.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> f = lambda x: np.sum(ng.lax.select_n(np.asarray([0, 1, 9]), x, 10 * x, 100 * x))
    >>> ng.grad(f)(np.ones(3))
    Array([  1.,  10., 100.], dtype=float64)
    """
    if not cases:
        raise TypeError(message("select_n", "nothing to select from", "no cases", "at least one case"))
    index = own(host_value(which, "select_n"), which)
    boolean = index.dtype.kind == "b"
    if not boolean and index.dtype.kind not in "iu":
        raise TypeError(message("select_n", "the selector is no case number", index.dtype, "bool or integer"))
    if boolean and len(cases) > 2:
        raise TypeError(message("select_n", "a boolean has two values", f"{len(cases)} cases", "one or two cases"))
    values = promote(cases, "select_n")[0] if len(cases) > 1 else [owned(cases[0], "select_n")]  # one is the result
    shapes = {v.shape for v in values}
    if len(shapes) > 1:
        raise ValueError(message("select_n", "cases have different shapes", sorted(shapes), "equal shapes"))
    if index.shape not in ((), values[0].shape):
        raise ValueError(
            message("select_n", "the selector's shape does not fit", index.shape, f"() or {values[0].shape}")
        )
    (index,), values = selected("select_n", (index,), cases, values)
    return Array(_select(index, list(values), boolean))


def _select(index: Any, values: list[Any], boolean: bool) -> Any:
    if len(values) == 1:
        return values[0]
    if len(values) <= _GROUP:
        return _select_op(len(values), boolean)(index, *values)
    half = len(values) // 2
    later = call("less", Array(index), half)
    shifted = call("subtract", Array(index), call("minimum", Array(index), half))._value
    first, second = _select(index, values[:half], False), _select(shifted, values[half:], False)
    return _select_op(2, True)(later._value, second, first)
