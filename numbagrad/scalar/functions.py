"""Scalar functions without a vectorised form of their own, for Numba to specialise by type.

`func.NAME` in an atom's code refers to these; `double.NAME` to the ones at the end, which are float64 only.
"""

from __future__ import annotations

import math

import llvmlite.ir as ir
import numpy as np
from numba import types
from numba.extending import intrinsic

from numbagrad.scalar.half import floor_bfloat16, floor_float16, single_of  # noqa: F401  (names for kernels)
from numbagrad.scalar.simd.bits import simd

PI = math.pi


@intrinsic
def round_even(typingctx, x):
    """Nearest integer, halves to even (one instruction)."""

    def codegen(context, builder, signature, args):
        function = builder.module.declare_intrinsic("llvm.rint", [args[0].type])
        return builder.call(function, args)

    return x(x), codegen


@intrinsic
def truncate(typingctx, x):
    """Towards zero to an integer (one instruction)."""

    def codegen(context, builder, signature, args):
        function = builder.module.declare_intrinsic("llvm.trunc", [args[0].type])
        return builder.call(function, args)

    return x(x), codegen


@intrinsic
def float_fmod(typingctx, x, y):
    """Exact remainder with the sign of x: C's fmod, which Numba has no name for in `math`."""

    def codegen(context, builder, signature, args):
        return builder.frem(*args)

    return x(x, x), codegen


@intrinsic
def round_down(typingctx, x):
    """Largest integer <= x, as a floating number: of any size, nan and -0.0 too (one instruction)."""

    def codegen(context, builder, signature, args):
        function = builder.module.declare_intrinsic("llvm.floor", [args[0].type])
        return builder.call(function, args)

    return x(x), codegen


@intrinsic
def round_up(typingctx, x):
    """Smallest integer >= x, as a floating number (one instruction)."""

    def codegen(context, builder, signature, args):
        function = builder.module.declare_intrinsic("llvm.ceil", [args[0].type])
        return builder.call(function, args)

    return x(x), codegen


@intrinsic
def copy_sign(typingctx, x, y):
    """|x| with the sign bit of y (one instruction)."""

    def codegen(context, builder, signature, args):
        number = args[0].type
        both = ir.FunctionType(number, [number, number])  # llvmlite would guess a function of one argument
        function = builder.module.declare_intrinsic("llvm.copysign", [number], both)
        return builder.call(function, args)

    return x(x, x), codegen


@simd
def is_nan(x):
    """x is not a number: a function of its own, whose flags do not let the compiler assume otherwise."""
    return x != x


@simd
def int_floor_divide(x, y):
    """floor(x / y), 0 where y is 0."""
    if y == 0:
        return y
    return x // y


@simd
def int_remainder(x, y):
    """x - floor(x / y) * y, 0 where y is 0."""
    if y == 0:
        return y
    return x - (x // y) * y


@simd
def int_fmod(x, y):
    """Remainder with the sign of x, 0 where y is 0."""
    if y == 0:
        return y
    rest = x - (x // y) * y
    if rest != 0 and ((x < 0) != (y < 0)):
        rest -= y
    return rest


@simd
def float_remainder(x, y):
    """Remainder with the sign of y."""
    rest = float_fmod(x, y)
    if rest != 0:
        if (rest < 0) != (y < 0):
            rest += y
    else:
        rest = copy_sign(rest, y)
    return rest


@simd
def float_floor_divide(x, y):
    """floor(x / y) by way of the exact remainder, so that it agrees with `remainder`."""
    if y == 0:
        return x / y
    rest = float_fmod(x, y)
    quotient = (x - rest) / y
    one = type_of(x, 1.0)
    if rest != 0 and ((rest < 0) != (y < 0)):
        quotient -= one
    if quotient == 0:
        return copy_sign(quotient, x / y)
    whole = round_down(quotient)
    if quotient - whole > type_of(x, 0.5):
        whole += one
    return whole


@simd
def integer_power(x, y):
    """x ** y by squaring, wrapping on overflow; a negative exponent leaves 0 except for x = 1, -1."""
    one = x - x + 1
    if y < 0:
        if x == 1:
            return one
        if x == -1:
            return one if y % 2 == 0 else -one
        return x - x
    result = one
    while y > 0:
        if y & 1:
            result = result * x
        x = x * x
        y = y >> 1
    return result


@simd
def shift_left(x, y):
    """x * 2 ** y; 0 when every bit is shifted out."""
    return x << y if (y >= 0) & (y < 64) else x - x


@simd
def shift_right(x, y):
    """floor(x / 2 ** y); the sign alone when every bit is shifted out."""
    shifted = x >> (y if (y >= 0) & (y < 63) else type_of(y, 63.0))
    return x - x if (y >= 64) & (x >= 0) else shifted


@simd
def log_add_exp(x, y, correction):
    """max(x, y) + correction; equal operands, infinities included, only add log 2."""
    larger = x if (x > y) | (x != x) else y
    if x == y:
        return x + type_of(x, 0.6931471805599453)
    return larger + correction


@intrinsic
def type_of(typingctx, x, value):
    """`value` converted to the type of x."""

    def codegen(context, builder, signature, args):
        return context.cast(builder, args[1], types.float64, x)

    return x(x, value), codegen


@simd
def complex_divide(x, y):
    """x / y by Smith's method, so that large and small parts do not overflow; x / 0 as IEEE 754 divides the parts."""
    a, b, c, d = x.real, x.imag, y.real, y.imag
    if abs(c) >= abs(d):
        if c == 0:
            return complex(a / abs(c), b / abs(c))
        ratio = d / c
        scale = c + d * ratio
        return complex((a + b * ratio) / scale, (b - a * ratio) / scale)
    ratio = c / d
    scale = c * ratio + d
    return complex((a * ratio + b) / scale, (b * ratio - a) / scale)


@simd
def hypotenuse(x, y):
    """sqrt(x * x + y * y), scaled by the larger against overflow; inf if one is inf."""
    x, y = abs(x), abs(y)
    large = x if x > y else y
    small = y if x > y else x
    infinite = (x == np.inf) | (y == np.inf)
    ratio = small / large if large > 0 else small
    length = large * math.sqrt(ratio * ratio + type_of(x, 1.0))
    return type_of(x, np.inf) if infinite else (x + y if (length != length) | (large == 0) else length)


# --- float64 only


@simd
def sinc_derivative(x, order):
    """The k-th derivative of sin(x)/x = integral over t in (0, 1) of t^k cos(x t + k pi/2).

    Near 0 (|x| < k + 2) its Taylor series; beyond, s_k = (sin^(k)(x) - k s_(k-1)) / x, which is stable there.
    """
    k = int(order)
    if x != x:
        return x
    if abs(x) == np.inf:
        return 0.0
    if abs(x) < k + 2.0:
        # sum over j with j + k even of (-1)^((j+k)/2) x^j / (j! (j + k + 1))
        total, j = 0.0, k % 2
        term = x if j == 1 else 1.0
        while j < 200:
            piece = term / (j + k + 1)
            total += piece if ((j + k) // 2) % 2 == 0 else -piece
            if abs(piece) < 1e-18 * abs(total) and j > abs(x):
                break
            j += 2
            term *= x * x / (j * (j - 1))
        return total
    s, c = math.sin(x), math.cos(x)
    value = s / x
    for i in range(1, k + 1):
        turn = i % 4
        wave = c if turn == 1 else (-s if turn == 2 else (-c if turn == 3 else s))
        value = (wave - i * value) / x
    return value


@simd
def _hurwitz_zeta(s, x):
    """Sum over n >= 0 of (x + n)^-s for s > 1, x > 0: direct terms, then Euler-Maclaurin (DLMF 25.11.5)."""
    total = 0.0
    while x < 15.0 + s:
        total += x ** (-s)
        x += 1.0
    total += x ** (1.0 - s) / (s - 1.0) + 0.5 * x ** (-s)
    # Bernoulli numbers over factorials: B_2j / (2j)!
    term = s * x ** (-s - 1.0)
    square = x * x
    total += term / 12.0
    term *= (s + 1) * (s + 2) / square
    total -= term / 720.0
    term *= (s + 3) * (s + 4) / square
    total += term / 30240.0
    term *= (s + 5) * (s + 6) / square
    total -= term / 1209600.0
    term *= (s + 7) * (s + 8) / square
    total += term / 47900160.0
    term *= (s + 9) * (s + 10) / square
    return total - term * 691.0 / 1307674368000.0


@simd
def _reflected(x, k, factorial, sign):
    """psi^(k) at negative x: zeta(k+1, x) by the terms left of 0 and the rest right of it."""
    steps = math.floor(-x) + 1.0
    shifted = x + steps  # in (0, 1]
    total = _hurwitz_zeta(k + 1.0, shifted)
    if steps <= 1e4:
        i = 0.0
        while i < steps:
            total += (x + i) ** (-(k + 1))
            i += 1.0
        return sign * factorial * total
    # far left: the terms left of 0 are zeta(k+1, 1 - shifted) - zeta(k+1, 1 - x), up to sign
    other = _hurwitz_zeta(k + 1.0, 1.0 - shifted) - _hurwitz_zeta(k + 1.0, 1.0 - x)
    return sign * factorial * (total + (other if (k + 1) % 2 == 0 else -other))


@simd
def polygamma(x, order):
    """psi^(k)(x) = (-1)^(k+1) k! zeta(k+1, x); for x < 0 by reflection (DLMF 5.15.6)."""
    k = int(order)
    factorial = 1.0
    for i in range(2, k + 1):
        factorial *= i
    sign = 1.0 if k % 2 == 1 else -1.0
    if x > 0:
        return sign * factorial * _hurwitz_zeta(k + 1.0, x)
    if x == math.floor(x):
        return np.inf if k % 2 == 1 else np.nan
    return np.nan if x != x else _reflected(x, k, factorial, sign)
