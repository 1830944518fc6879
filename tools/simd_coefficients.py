"""Fit the polynomials of numbagrad/scalar/simd and write them to its coefficients.py.

python tools/simd_coefficients.py            print every fit with its largest weighted error
python tools/simd_coefficients.py NAME...    only those
python tools/simd_coefficients.py --write    all, and write coefficients.py
"""

import math
import sys
import textwrap
from pathlib import Path

import mpmath as mp
import numpy as np
from minimax import fit
from scipy.special import erfcinv

OUTPUT = Path(__file__).parents[1] / "numbagrad" / "scalar" / "simd" / "coefficients.py"


def root(f):
    """g of z = x*x from a function of x."""
    return lambda z: f(mp.sqrt(z))


def tail(f, terms, power):
    """(f(x) - terms(x)) / x**power."""
    return lambda x: (f(x) - terms(x)) / x**power


def erfcx_map(k):
    """

    1 + 2a) exp(a^2) erfc(a) as a function of t = (a - k)/(a + k), after Shepherd and Laframboise (1981).
    """

    def g(t):
        a = k * (1 + t) / (1 - t)
        return (1 + 2 * a) * mp.exp(a * a) * mp.erfc(a) - 1

    return g


def erfinv_head(w):
    """erfinv(x)/x of w = -log(1 - x^2), after Giles (2010); Newton from SciPy's float64 value."""
    x = mp.sqrt(-mp.expm1(-w))
    c = mp.exp(-w) / (1 + x)  # 1 - x
    y = mp.mpf(float(erfcinv(float(c))))
    for _ in range(3):
        y += (mp.erfc(y) - c) * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
    return y / x


def erfinv_tail(s):
    """The same as a function of s = sqrt(w)."""
    return erfinv_head(s * s)


def stirling(z):
    """

    he part of log Gamma(a) after (a - 1/2) log a - a + log(2 pi)/2, times a, as a function of z = 1/a^2.
    """
    a = 1 / mp.sqrt(z)
    return a * (mp.loggamma(a) - (a - mp.mpf("0.5")) * mp.log(a) + a - mp.log(2 * mp.pi) / 2)


def digamma_tail(z):
    """(log a - 1/(2a) - digamma(a)) a^2 as a function of z = 1/a^2."""
    a = 1 / mp.sqrt(z)
    return (mp.log(a) - 1 / (2 * a) - mp.digamma(a)) / z


R = mp.log(2) / 2 * mp.mpf("1.002")
exp_tail = tail(mp.exp, lambda r: 1 + r, 2)
exp2_head = tail(lambda r: mp.mpf(2) ** r, lambda r: 1, 1)
log_tail = tail(mp.log1p, lambda f: f - f * f / 2, 3)
log_atanh = root(lambda s: (2 * mp.atanh(s) - 2 * s) / s**3)
sin_tail = root(tail(mp.sin, lambda x: x, 3))
cos_tail = root(tail(mp.cos, lambda x: 1 - x * x / 2, 4))
atan_tail = root(tail(mp.atan, lambda x: x, 3))
asin_tail = root(tail(mp.asin, lambda x: x, 3))
tanh_tail = root(tail(mp.tanh, lambda x: x, 3))
sinh_tail = root(tail(mp.sinh, lambda x: x, 3))
S2, F4 = mp.sqrt(mp.mpf("0.5")), np.float32
F8 = np.float64


def square(z):
    return z


#          g(t), weight(t), a, b, degree, dtype, coefficients refitted after rounding
FITS = {
    "EXP_F32": (exp_tail, lambda r: r * r, -R, R, 4, F4, 9),
    "EXPM1_F32": (exp_tail, lambda r: r, -R, R, 5, F4, 9),
    "EXP2_F32": (exp2_head, lambda r: r, -0.5, 0.5, 5, F4, 9),
    "LOG_F32": (log_tail, lambda f: f * f, S2 - 1, 2 * S2 - 1, 8, F4, 9),
    "SIN_F32": (sin_tail, square, 1e-12, 2.79, 4, F4, 9),
    "EXP_F64": (exp_tail, lambda r: r * r, -R, R, 9, F8, 3),
    "EXPM1_F64": (exp_tail, lambda r: r, -R, R, 10, F8, 3),
    "EXP2_F64": (exp2_head, lambda r: r, -0.5, 0.5, 11, F8, 3),
    "LOG_F64": (log_atanh, square, 1e-12, 0.0295, 7, F8, 3),
    "SIN_F64": (sin_tail, square, 1e-12, 2.4725, 9, F8, 3),  # half turns, for sin and cos
    "SIN_SMALL_F64": (sin_tail, square, 1e-12, 0.6175, 6, F8, 3),  # quarter turns, for tan
    "COS_SMALL_F64": (cos_tail, lambda z: z * z, 1e-12, 0.6175, 6, F8, 3),
    "SIN_SMALL_F32": (sin_tail, square, 1e-12, 0.785, 3, F8, 3),  # float64, to float32 accuracy
    "COS_SMALL_F32": (cos_tail, lambda z: z * z, 1e-12, 0.785, 2, F8, 3),
    "ATAN_F32": (atan_tail, square, 1e-12, 0.2502, 5, F4, 9),
    "ATAN_F64": (atan_tail, square, 1e-12, 0.2502, 12, F8, 3),
    "ASIN_F32": (asin_tail, square, 1e-12, 0.2501, 5, F4, 9),
    "ASIN_F64": (asin_tail, square, 1e-12, 0.2501, 12, F8, 3),
    "TANH_F32": (tanh_tail, square, 1e-12, 0.3025, 4, F4, 9),
    "TANH_F64": (tanh_tail, square, 1e-12, 0.3025, 10, F8, 3),
    "SINH_F32": (sinh_tail, square, 1e-12, 1.001, 3, F4, 9),
    "SINH_F64": (sinh_tail, square, 1e-12, 1.001, 6, F8, 3),
    "ATANH_F64": (log_atanh, square, 1e-12, 0.0755, 8, F8, 3),
    "LOG2_D32": (root(lambda s: 2 * mp.atanh(s) / s / mp.log(2)), lambda z: 1, 1e-12, 0.0295, 5, F8, 3),
    "EXP2_D32": (lambda r: mp.mpf(2) ** r, lambda r: 1, -0.5, 0.5, 7, F8, 3),
    "POW_F64": (
        root(lambda s: ((mp.atanh(s) - s) / s**3 * 2 - mp.mpf(2) / 3) / s**2),
        lambda z: z * z,
        1e-12,
        0.0295,
        7,
        F8,
        3,
    ),
    "ERF_F32": (root(lambda x: mp.erf(x) / x - 1), lambda z: 1, 1e-12, 0.8465, 6, F4, 9),
    "LOG_ERFC_F32": (lambda a: mp.log(mp.erfc(a)), mp.erfc, 0.9, 4.01, 7, F4, 9),
    "ERF_F64": (root(lambda x: mp.erf(x) / x - 1), lambda z: 1, 1e-12, 1.001, 12, F8, 3),
    "ERFCX_D32": (erfcx_map(2), lambda t: 1, -1, 0.68, 13, F8, 3),
    "ERFCX_F64": (erfcx_map(4), lambda t: 1, -1, 0.75, 24, F8, 0),
    "ERFINV_D32": (lambda t: erfinv_head(t + 2.5), lambda t: 1, -2.5 + 1e-9, 2.5, 11, F8, 3),
    "ERFINV_TAIL_D32": (lambda t: erfinv_tail(t + 3), lambda t: 1, -0.77, 1.02, 12, F8, 3),
    "ERFINV_F64": (lambda t: erfinv_head(t + 2.5), lambda t: 1, -2.5 + 1e-9, 2.5, 22, F8, 0),
    "ERFINV_MID_F64": (lambda t: erfinv_tail(t + 3), lambda t: 1, -0.77, 1.01, 21, F8, 0),
    "ERFINV_TAIL_F64": (lambda t: erfinv_tail(t + 5), lambda t: 1, -1.01, 1.06, 18, F8, 0),
    "LGAMMA_F64": (lambda t: mp.loggamma(2 + t) / t, lambda t: t, 1e-9, 1, 17, F8, 3),
    "STIRLING_F64": (stirling, lambda z: 1, 1e-3, 0.015626, 6, F8, 3),
    "DIGAMMA_F64": (lambda t: mp.digamma(2 + t), lambda t: 1, 0, 1, 18, F8, 3),
    "DIGAMMA_TAIL_F64": (digamma_tail, lambda z: 1, 1e-3, 0.015626, 6, F8, 3),
}


def turns(groups):
    """2^k/pi mod 2 in [-1, 1] times 2^-k, as two float64, for each k; the first k is 0 and not reduced."""
    columns = []
    with mp.workdps(420):
        for k in groups:
            rest = mp.mpf(2) ** k / mp.pi
            rest -= 2 * mp.nint(rest / 2) if k else 0
            high = float(rest)
            columns.append([math.ldexp(high, -k), math.ldexp(float(rest - mp.mpf(high)), -k)])
    return list(zip(*columns))


TABLES = {"TURNS_F32": lambda: turns((0, 27, 53, 79))}


def main(arguments):
    names = [a for a in arguments if not a.startswith("--")] or list(FITS)
    head = '"""Written by tools/simd_coefficients.py: lowest coefficient first, the error of each fit."""'
    lines = [head, ""]
    for name in names:
        coefficients, error = fit(*FITS[name])
        size = f"weighted error 2^{float(mp.log(error, 2)):.1f}, degree {len(coefficients) - 1}"
        lines.append(f"{name} = (  # {size}")
        print(lines[-1], flush=True)
        body = ", ".join(repr(float(c)) for c in coefficients)
        lines += textwrap.wrap(body, 108, initial_indent="    ", subsequent_indent="    ") + [")"]
    for name, table in TABLES.items():
        lines.append(f"{name} = (")
        for row in table():
            lines += ["    ("] + [f"        {value!r}," for value in row] + ["    ),"]
        lines.append(")")
    with mp.workdps(420):  # 1280 bits of 1/(2 pi), for the reduction of float64 arguments
        digits = f"{int(mp.floor(mp.ldexp(1 / (2 * mp.pi), 1280))):0320x}"
    digits = [f'    "{digits[i : i + 80]}"' for i in range(0, 320, 80)]
    lines += ["INVERSE_TURN = int(", *digits, "    , 16)"]
    if "--write" in arguments:
        OUTPUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
