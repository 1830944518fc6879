"""Elementwise functions: check, promote, bind. One line of the table makes one function."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from numbagrad.core.arguments import arrays_of, host_value, own, owned, promote, selected, value_of
from numbagrad.core.array import Array
from numbagrad.core.device import default, place_of, placed
from numbagrad.core.dtypes import BOOL, FLOAT, FLOATING, INEXACT, check_dtype, finfo, float_dtype
from numbagrad.core.errors import message
from numbagrad.core.registry import PRIMITIVES, own_zeros
from numbagrad.core.trace import concrete
from numbagrad.primitives.elementwise import convert, map_op, op
from numbagrad.scalar import ATOMS, Expr, arg
from numbagrad.scalar.atoms.trigonometric import sinc_of

# fmt: off
__all__ = [
    "abs", "absolute", "angle", "around", "clip", "conj", "conjugate", "deg2rad", "degrees", "divmod", "fabs",
    "float_power", "heaviside", "imag", "isfinite", "isinf", "isnan", "ldexp", "logaddexp2", "modf", "nan_to_num",
    "pow", "power", "rad2deg", "radians", "real", "round", "sign", "sinc", "where",
]
# fmt: on


def _arithmetic(dtype: np.dtype, name: str) -> np.dtype:
    if dtype == BOOL and name in ("subtract", "negative", "positive", "sign"):
        steps = {"subtract": "Use logical_xor or ^.", "negative": "Use logical_not or ~."}
        step = steps.get(name, "Convert with .astype(int) first.")
        raise TypeError(message(name, "booleans have no sign", "bool", "a number type", step))
    # what NumPy computes with bytes, because the result is no truth value
    return np.dtype(np.int8) if dtype == BOOL and name in _BYTES else dtype


_BYTES = ("square", "power", "floor_divide", "remainder", "fmod")


def _compare(dtype: np.dtype, name: str) -> np.dtype:
    if dtype.kind == "c" and name.startswith(("less", "greater")):
        raise TypeError(
            message(name, "complex numbers have no order", dtype, "a real dtype", "Compare abs(x) or x.real.")
        )
    return dtype


def _bitwise(dtype: np.dtype, name: str) -> np.dtype:
    if dtype.kind not in "biu":
        raise TypeError(message(name, "bits are defined for integers and booleans", dtype, "an integer type or bool"))
    return np.dtype(np.int8) if dtype == BOOL and name.endswith("shift") else dtype


RULES: dict[str, Callable[[np.dtype, str], np.dtype]] = {
    "arithmetic": _arithmetic,
    "float": lambda dtype, name: float_dtype(dtype),
    "compare": _compare,
    "predicate": lambda dtype, name: dtype,
    "complex": lambda dtype, name: dtype,
    "bitwise": _bitwise,
}


def call(name: str, *xs: Any, dtype: Any = None) -> Array:
    """Promote array-likes and apply the elementwise operation of an atom."""
    values, common = promote(xs, name, None if dtype is None else check_dtype(name, dtype))
    wanted = RULES[ATOMS[name].rule](common, name)
    if wanted != common:
        values = [convert(v, wanted) for v in values]
    return Array(op(name)(*values))


def call_internal(name: str, *xs: Array) -> Array:
    """Apply an atom that is not a public function to Arrays of one floating dtype."""
    return Array(op(name)(*(x._value for x in xs)))


def convert_like(x: Array, like: Array) -> Array:
    """x in another array's dtype."""
    return Array(convert(x._value, like.dtype))


def store(result: Array, out: Any, op_name: str) -> Array:
    """Honour `out=`: the name is bound to the result."""
    if out is None:
        return result
    if isinstance(out, tuple):
        (out,) = out
    if not isinstance(out, Array):
        raise TypeError(message(op_name, "out= must be an Array", type(out).__name__, "an Array", "Use x[...] = y."))
    return rebind(out, result, op_name)


def rebind(target: Array, result: Array, op_name: str) -> Array:
    """Bind the name `target` to a new value of its own shape and dtype."""
    value = result._value
    if value.shape != target.shape:
        raise ValueError(message(op_name, "the result does not fit in place", value.shape, target.shape))
    if value.dtype != target.dtype:
        if not np.can_cast(value.dtype, target.dtype, "same_kind"):
            raise TypeError(
                message(
                    op_name, "the result's dtype does not fit in place", value.dtype, target.dtype, "Use x = x + y."
                )
            )
        value = convert(value, target.dtype)
    target._value = value
    return target


def define(atom_name: str) -> Callable[..., Array]:
    """The public function of an atom."""
    atom, name, operation = ATOMS[atom_name], atom_name, op(atom_name)

    def unary(x: Any, /, out: Any = None, *, dtype: Any = None) -> Array:
        if isinstance(x, Array) and out is None and dtype is None and x._value.dtype.kind in INEXACT:
            return Array(operation(x._value))
        return store(call(atom_name, x, dtype=dtype), out, name)

    def binary(x: Any, y: Any, /, out: Any = None, *, dtype: Any = None) -> Array:
        return store(call(atom_name, x, y, dtype=dtype), out, name)

    function = unary if atom.arity == 1 else binary
    function.__name__ = function.__qualname__ = name
    function.__doc__ = atom.doc
    return function


def named(name: str, atom_name: str) -> Callable[..., Array]:
    """The function of an atom under a name of another namespace: operands only, without NumPy's options."""

    def unary(x: Any) -> Array:
        return call(atom_name, x)

    def binary(x: Any, y: Any) -> Array:
        return call(atom_name, x, y)

    function = unary if ATOMS[atom_name].arity == 1 else binary
    function.__name__ = function.__qualname__ = name
    function.__doc__ = ATOMS[atom_name].doc
    return function


def composed(name: str, expr: Expr, arity: int, rule: str, doc: str) -> Callable[..., Array]:
    """An elementwise function given as an expression of several atoms: still one kernel."""
    operation = map_op(name, (expr,), arity)

    def function(*xs: Any, out: Any = None) -> Array:
        if len(xs) != arity:
            raise TypeError(message(name, "wrong number of operands", len(xs), arity))
        values, common = promote(xs, name)
        wanted = RULES[rule](common, name)
        return store(Array(operation(*(convert(v, wanted) for v in values))), out, name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


_x, _y = arg(0), arg(1)
_RADIAN = np.pi / 180
deg2rad = composed("deg2rad", _x * _RADIAN, 1, "float", "Degrees to radians.")
rad2deg = composed("rad2deg", _x * (1 / _RADIAN), 1, "float", "Radians to degrees.")
radians, degrees = deg2rad, rad2deg
sinc = composed("sinc", sinc_of(_x), 1, "float", "sin(pi x) / (pi x), and 1 at 0; exact near 0 at every order.")
_LN2 = float(np.log(2.0))
logaddexp2 = composed(
    "logaddexp2",
    ATOMS["logaddexp"](_x * _LN2, _y * _LN2) * (1 / _LN2),
    2,
    "float",
    "log2(2**x + 2**y) without overflow.",
)
heaviside = composed(
    "heaviside",
    ATOMS["select"](
        ATOMS["equal"](_x, 0), _y, ATOMS["select"](_x > 0, 1 + 0 * _x, ATOMS["select"](_x < 0, 0 * _x, _x))
    ),
    2,
    "float",
    "0 for x < 0, 1 for x > 0, y at 0.",
)


def _complex_aware(real_name: str, complex_name: str) -> Callable[..., Array]:
    def function(x: Any, /, out: Any = None) -> Array:
        kind = value_of(x, real_name).dtype.kind
        return store(call(complex_name if kind == "c" else real_name, x), out, real_name)

    function.__name__ = function.__qualname__ = real_name
    function.__doc__ = ATOMS[real_name].doc
    return function


absolute = abs = _complex_aware("absolute", "modulus")


def _part(name: str) -> Callable[..., Array]:
    def function(x: Any, /) -> Array:
        value = value_of(x, name)
        if value.dtype.kind == "c":
            return call(name, x)
        return Array(own_zeros(concrete(value), value.shape, value.dtype) if name == "imag" else own(value, x))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = ATOMS[name].doc
    return function


real, imag = _part("real"), _part("imag")
conjugate = conj = _part("conjugate")


def fabs(x: Any, /) -> Array:
    """|x| in floating point."""
    return absolute(convert_to_float(x, "fabs"))


def convert_to_float(x: Any, op_name: str) -> Array:
    """Array-like as float64, unless it is floating or complex already."""
    value = owned(x, op_name)
    return Array(convert(value, float_dtype(value.dtype)))


def sign(x: Any, /, out: Any = None) -> Array:
    """-1, 0 or 1; z / |z| for complex; derivative 0 for real x."""
    value = value_of(x, "sign")
    if value.dtype.kind == "c":
        length = absolute(x)
        return store(where(length == 0, Array(value), Array(value) / where(length == 0, 1.0, length)), out, "sign")
    return store(call("sign", x), out, "sign")


def angle(z: Any, deg: bool = False) -> Array:
    """Argument of a complex number in radians (degrees if `deg`)."""
    turn = call("arctan2", imag(z), real(z))
    return rad2deg(turn) if deg else turn


def _predicate(name: str) -> Callable[..., Array]:
    def function(x: Any, /, out: Any = None) -> Array:
        if value_of(x, name).dtype.kind == "c":
            both = "logical_and" if name == "isfinite" else "logical_or"
            return store(call(both, call(name, real(x)), call(name, imag(x))), out, name)
        return store(call(name, x), out, name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = ATOMS[name].doc
    return function


isnan, isinf, isfinite = map(_predicate, ("isnan", "isinf", "isfinite"))


def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """x where the condition holds, else y; with the condition alone the indices of what holds (`nonzero`).

    The derivative goes to the chosen operand only, and the other cannot poison it with inf or nan.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.grad(lambda x: np.where(x > 0, np.sqrt(x), 0.0))(0.0)
    Array(0., dtype=float64)
    """
    chosen = host_value(condition, "where")
    if x is None and y is None:
        held = Array(chosen)._concrete("indices", "Use the three-argument where.")
        place = place_of(chosen) if isinstance(condition, Array) else default()
        return tuple(Array(placed(i, place)) for i in np.nonzero(held))
    if x is None or y is None:
        raise TypeError(message("where", "either both or neither of x and y", "one of them", "both"))
    values, _ = promote((x, y), "where")
    (chosen,), values = selected("where", (convert(own(chosen, condition), BOOL),), (x, y), values)
    return Array(op("select")(chosen, *values))


def clip(x: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None) -> Array:
    """x moved into [min, max]; a bound of None is no bound.

    Derivative: to x inside and at the bounds, to the active bound outside. Source: rule 2 of the conventions.
    """
    low = a_min if min is None else min
    high = a_max if max is None else max
    value = value_of(x, "clip")
    if value.dtype.kind == "c":
        raise TypeError(message("clip", "complex numbers have no order", value.dtype, "a real dtype"))
    limits = (
        (False, True)
        if value.dtype == BOOL
        else (-np.inf, np.inf)
        if value.dtype.kind in FLOATING
        else (np.iinfo(value.dtype).min, np.iinfo(value.dtype).max)
    )
    values, _ = promote((x, limits[0] if low is None else low, limits[1] if high is None else high), "clip")
    return store(Array(op("clip")(*values)), out, "clip")


def power(x: Any, y: Any, /, out: Any = None, *, dtype: Any = None) -> Array:
    """x ** y; see the conventions for 0 ** 0 and negative bases.

    Integer arrays to a negative integer power raise, as in NumPy.
    """
    if dtype is None and y.__class__ in (int, float) and isinstance(x, Array) and x.dtype.kind in INEXACT:
        root = "sqrt" if y == 0.5 and x.dtype.kind in FLOATING else None
        short = {2.0: "square", -1.0: "reciprocal"}.get(y, root)
        if short:
            return store(call(short, x), out, "power")
    values, common = promote((x, y), "power", None if dtype is None else check_dtype("power", dtype))
    if common.kind == "i" and _any_negative(values[1]):
        raise ValueError(
            message("power", "an integer to a negative integer power", "a negative exponent", "a float base")
        )
    return store(
        Array(op("power")(*(convert(v, np.dtype(np.int8)) if common == BOOL else v for v in values))), out, "power"
    )


pow = power


def _any_negative(value: Any) -> bool:
    if value.__class__ is np.ndarray:
        return bool((value < 0).any())
    negative = op("less")(value, np.zeros((), value.dtype))
    return bool(PRIMITIVES["reduce_any"](negative, axes=tuple(range(value.ndim))).item())


def float_power(x: Any, y: Any, /) -> Array:
    """x ** y in float64 or complex128."""
    values, common = promote((x, y), "float_power")
    wide = np.result_type(common, np.float64)
    return Array(op("power")(*(convert(v, wide) for v in values)))


def ldexp(x: Any, exponent: Any, /) -> Array:
    """x * 2 ** exponent, in the type of x if the exponent is an integer.

    Edge: 2 ** exponent itself may be out of range.
    """
    x, e = arrays_of("ldexp", x, exponent)
    x = convert_to_float(x, "ldexp")
    dtype = x.dtype if e.dtype.kind in "biu" else promote((x, e), "ldexp")[1]
    x, e = (Array(convert(v._value, FLOAT)) for v in (x, e))
    first = call("floor", e * 0.5)
    return Array(convert((x * call("exp2", first) * call("exp2", e - first))._value, dtype))


def divmod(x: Any, y: Any, /) -> tuple[Array, Array]:
    """floor_divide and remainder."""
    return call("floor_divide", x, y), call("remainder", x, y)


def modf(x: Any, /) -> tuple[Array, Array]:
    """Fractional and integral part, both with the sign of x."""
    whole = call("trunc", convert_to_float(x, "modf"))
    return call("subtract", x, whole), whole


def round(x: Any, decimals: int = 0, out: Any = None) -> Array:
    """To a number of decimals, halves to even; derivative 0."""
    value = value_of(x, "round")
    if value.dtype.kind == "c":
        return round(real(x), decimals) + 1j * round(imag(x), decimals)
    if value.dtype.kind in "biu" and decimals >= 0:
        return store(Array(own(value, x)), out, "round")
    scale = 10.0 ** builtins.abs(decimals)
    if decimals == 0:
        return store(call("rint", x), out, "round")
    moved = call("rint", call("multiply" if decimals > 0 else "divide", x, scale))
    result = call("divide" if decimals > 0 else "multiply", moved, scale)
    return store(Array(convert(result._value, value.dtype)), out, "round")


around = round


def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Array:
    """nan, inf and -inf replaced (by 0 and the largest numbers of the type). Their derivative is 0."""
    value = owned(x, "nan_to_num")
    if value.dtype.kind in "biu":
        return Array(value)
    if value.dtype.kind == "c":
        return nan_to_num(real(x), True, nan, posinf, neginf) + 1j * nan_to_num(imag(x), True, nan, posinf, neginf)
    limits = finfo(value.dtype)
    x = Array(value)
    x = where(isnan(x), nan, x)
    x = where(x == np.inf, float(limits.max) if posinf is None else posinf, x)
    return where(x == -np.inf, float(limits.min) if neginf is None else neginf, x)
