"""Arithmetic, rounding and powers."""

from __future__ import annotations

import numpy as np

from numbagrad.scalar.expr import ATOMS, atom

NONZERO = (0.3, 3.0)


@atom({"b": "{0} | {1}", "*": "{0} + {1}"}, partials=lambda x, y, out: (1, 1), reference=np.add)
def add(x, y):
    """x + y (logical or for booleans)."""


@atom("{0} - {1}", partials=lambda x, y, out: (1, -1), reference=np.subtract)
def subtract(x, y):
    """x - y."""


@atom({"b": "{0} & {1}", "*": "{0} * {1}"}, partials=lambda x, y, out: (y, x), reference=np.multiply)
def multiply(x, y):
    """x * y (logical and for booleans)."""


# The derivative of cotangent times partial is that of a product, never a select on cotangent == 0. In its second
# term the cotangent is the factor and the other one a tangent, or a cotangent, of the partial: if either is exactly
# 0, whatever the other is, the term is 0.
@atom(
    "{0} * {1} if {0} != {T}(0) else {T}(0)",
    vjp=lambda g, x, y, out: (ATOMS["zero_product"](g, y), ATOMS["null_product"](g, x)),
    jvp=lambda ts, x, y, out: _product_tangent(ts, x, y, "zero_product"),
    rule="internal",
)
def zero_product(x, y):
    """x * y, but exactly 0 where x is exactly 0: cotangent times partial. Its derivative is that of a product."""


@atom(
    "{0} * {1} if ({0} != {T}(0)) & ({1} != {T}(0)) else {T}(0)",
    vjp=lambda g, x, y, out: (ATOMS["null_product"](g, y), ATOMS["null_product"](g, x)),
    jvp=lambda ts, x, y, out: _product_tangent(ts, x, y, "null_product"),
    rule="internal",
)
def null_product(x, y):
    """x * y, but exactly 0 where x or y is exactly 0. Its derivative is that of a product."""


def _product_tangent(tangents, x, y, first):
    tx, ty = tangents
    terms = [] if tx is None else [ATOMS[first](tx, y)]
    terms += [] if ty is None else [ATOMS["null_product"](x, ty)]
    return terms[0] + terms[1] if len(terms) == 2 else terms[0]


@atom(
    {"c": "{T}(func.complex_divide({0}, {1}))", "*": "{0} / {1}"},
    partials=lambda x, y, out: (1 / y, -out / y),
    rule="float",
    domain=("real", NONZERO),
    reference=np.divide,
)
def divide(x, y):
    """x / y in floating point; x / 0 is inf or nan as in IEEE 754."""


@atom("-{0}", partials=lambda x, out: -1, reference=np.negative)
def negative(x):
    """-x."""


@atom("{0}", partials=lambda x, out: 1, reference=np.positive)
def positive(x):
    """+x."""


@atom(
    {"b": "{0}", "i": "{0} if {0} >= 0 else -{0}", "f": "abs({0})"},
    partials=lambda x, out: ATOMS["sign"](x),
    reference=np.abs,
    domain="nonzero",
)
def absolute(x):
    """|x| of a real number. Derivative at 0: 0."""


@atom(
    {
        "b": "{0}",
        "i": "({T}(1) if {0} > 0 else ({T}(-1) if {0} < 0 else {T}(0)))",
        "f": "{T}(1) if {0} > 0 else ({T}(-1) if {0} < 0 else {0})",
    },
    reference=np.sign,
)
def sign(x):
    """-1, 0 or 1 (nan for nan); derivative 0 everywhere."""


@atom("{0} * {0}", partials=lambda x, out: x + x, reference=np.square)
def square(x):
    """x * x."""


@atom(
    {"c": "{T}(func.complex_divide({T}(1), {0}))", "*": "{T}(1) / {0}"},
    partials=lambda x, out: -out * out,
    rule="float",
    domain=NONZERO,
    reference=np.reciprocal,
)
def reciprocal(x):
    """1 / x in floating point (also for integers)."""


@atom(
    {"f": "math.sqrt({0})", "c": "cmath.sqrt({0})"},
    partials=lambda x, out: 0.5 / out,
    rule="float",
    domain=NONZERO,
    reference=np.sqrt,
)
def sqrt(x):
    """Square root; nan below 0. Derivative at 0: inf, but a zero cotangent stays zero."""


@atom(
    "math.sqrt({0})",
    partials=lambda x, out: ATOMS["select"](ATOMS["equal"](out, 0), 0, 0.5 / out),
    rule="internal",
    domain=NONZERO,
)
def norm_sqrt(x):
    """Square root of a sum of squares: its derivative at 0 is the minimum-norm subgradient of a norm, 0."""


@atom(
    "{T}(1) / math.sqrt({0})",
    partials=lambda x, out: -0.5 * out / x,
    rule="float",
    domain=NONZERO,
    reference=lambda x: 1 / np.sqrt(x),
)
def rsqrt(x):
    """1 / sqrt(x)."""


def _power_partials(x, y, out):
    dx = ATOMS["select"](ATOMS["equal"](y, 0), 0, y * ATOMS["power"](x, y - 1))
    at_zero = ATOMS["logical_and"](ATOMS["equal"](x, 0), ATOMS["greater_equal_real"](y, 0))
    return dx, ATOMS["select"](at_zero, 0, out * ATOMS["log"](x))


@atom(
    {"i": "func.integer_power({0}, {1})", "f": "simd.pow({0}, {1})", "c": "{0} ** {1}"},
    partials=_power_partials,
    domain=(NONZERO, "real"),
    reference=np.power,
)
def power(x, y):
    """x ** y. 0 ** 0 is 1 with derivative 0 in both; a negative base has d/dx for integral y, d/dy is nan."""


@atom({"c": "{0}.real >= {1}.real", "*": "{0} >= {1}"}, result="bool", rule="internal")
def greater_equal_real(x, y):
    """x >= y, by real parts if complex."""


@atom(
    {"i": "func.int_floor_divide({0}, {1})", "f": "func.float_floor_divide({0}, {1})"},
    domain=("real", NONZERO),
    reference=np.floor_divide,
)
def floor_divide(x, y):
    """floor(x / y); 0 for an integer divided by 0, as NumPy. Derivative 0."""


@atom(
    {"i": "func.int_remainder({0}, {1})", "f": "func.float_remainder({0}, {1})"},
    partials=lambda x, y, out: (1, -ATOMS["floor_divide"](x, y)),
    domain=("real", NONZERO),
    reference=np.remainder,
)
def remainder(x, y):
    """x - floor(x / y) * y, with the sign of y; 0 for integers modulo 0."""


@atom(
    {"i": "func.int_fmod({0}, {1})", "f": "func.float_fmod({0}, {1})"},
    partials=lambda x, y, out: (1, -ATOMS["trunc"](x / y)),
    domain=("real", NONZERO),
    reference=np.fmod,
)
def fmod(x, y):
    """x - trunc(x / y) * y, with the sign of x."""


def _rounding(name, code, reference, doc, rule="arithmetic"):
    def rounded(x):
        pass

    rounded.__doc__ = doc
    return atom({"b": "{0}", "i": "{0}", "f": code}, name=name, reference=reference, rule=rule)(rounded)


floor = _rounding("floor", "func.round_down({0})", np.floor, "Largest integer <= x; derivative 0.")
ceil = _rounding("ceil", "func.round_up({0})", np.ceil, "Smallest integer >= x; derivative 0.")
trunc = _rounding("trunc", "func.truncate({0})", np.trunc, "x towards zero to an integer; derivative 0.")
rint = _rounding("rint", "func.round_even({0})", np.rint, "Nearest integer, halves to even; derivative 0.", "float")


@atom(
    "func.copy_sign({0}, {1})",
    partials=lambda x, y, out: (ATOMS["sign"](x) * ATOMS["sign"](out), None),
    rule="float",
    domain="nonzero",
    reference=np.copysign,
)
def copysign(x, y):
    """|x| with the sign bit of y."""


def _bits(name, code, reference, doc, arity=2):
    functions = {1: lambda x: None, 2: lambda x, y: None}
    functions[arity].__doc__ = doc
    return atom(code, name=name, rule="bitwise", reference=reference, domain="bits")(functions[arity])


bitwise_and = _bits("bitwise_and", {"i": "{0} & {1}", "b": "{0} & {1}"}, np.bitwise_and, "Bits set in both.")
bitwise_or = _bits("bitwise_or", {"i": "{0} | {1}", "b": "{0} | {1}"}, np.bitwise_or, "Bits set in x or y.")
bitwise_xor = _bits("bitwise_xor", {"i": "{0} ^ {1}", "b": "{0} ^ {1}"}, np.bitwise_xor, "Bits set in just one.")
invert = _bits("invert", {"i": "~{0}", "b": "not {0}"}, np.invert, "All bits flipped; not for booleans.", 1)
left_shift = _bits("left_shift", {"i": "func.shift_left({0}, {1})"}, np.left_shift, "x * 2 ** y of integers.")
right_shift = _bits("right_shift", {"i": "func.shift_right({0}, {1})"}, np.right_shift, "floor(x / 2 ** y).")
