"""The functions that are one atom each. What they compute, and their derivatives, stands in scalar/atoms."""

from numbagrad.numpy.elementwise import define

# fmt: off
__all__ = [
    "acos",
    "acosh",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "greater",
    "greater_equal",
    "hypot",
    "invert",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "not_equal",
    "positive",
    "reciprocal",
    "remainder",
    "right_shift",
    "rint",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "true_divide",
    "trunc",
]
# fmt: on

add = define("add")
subtract = define("subtract")
multiply = define("multiply")
divide = define("divide")
negative = define("negative")
positive = define("positive")
square = define("square")
reciprocal = define("reciprocal")
sqrt = define("sqrt")
cbrt = define("cbrt")
floor_divide = define("floor_divide")
remainder = define("remainder")
fmod = define("fmod")
floor = define("floor")
ceil = define("ceil")
trunc = define("trunc")
rint = define("rint")
copysign = define("copysign")
exp = define("exp")
exp2 = define("exp2")
expm1 = define("expm1")
log = define("log")
log2 = define("log2")
log10 = define("log10")
log1p = define("log1p")
logaddexp = define("logaddexp")
sin = define("sin")
cos = define("cos")
tan = define("tan")
arcsin = define("arcsin")
arccos = define("arccos")
arctan = define("arctan")
arctan2 = define("arctan2")
hypot = define("hypot")
sinh = define("sinh")
cosh = define("cosh")
tanh = define("tanh")
arcsinh = define("arcsinh")
arccosh = define("arccosh")
arctanh = define("arctanh")
equal = define("equal")
not_equal = define("not_equal")
less = define("less")
less_equal = define("less_equal")
greater = define("greater")
greater_equal = define("greater_equal")
logical_and = define("logical_and")
logical_or = define("logical_or")
logical_xor = define("logical_xor")
logical_not = define("logical_not")
signbit = define("signbit")
maximum = define("maximum")
minimum = define("minimum")
fmax = define("fmax")
fmin = define("fmin")
bitwise_and = define("bitwise_and")
bitwise_or = define("bitwise_or")
bitwise_xor = define("bitwise_xor")
invert = define("invert")
left_shift = define("left_shift")
right_shift = define("right_shift")

# other names of the same
true_divide = divide
mod = remainder
acos = arccos
asin = arcsin
atan = arctan
atan2 = arctan2
acosh = arccosh
asinh = arcsinh
atanh = arctanh
bitwise_not = invert
bitwise_invert = invert
bitwise_left_shift = left_shift
bitwise_right_shift = right_shift
