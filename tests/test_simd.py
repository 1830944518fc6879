"""The vectorised scalar functions in cfunc kernels: error over the whole range, special values, LLVM code."""

import ctypes
import functools
import re

import mpmath as mp
import numba
import numpy as np
import pytest
from numba import types
from scipy import special

from numbagrad.scalar import simd
from numbagrad.scalar.simd import bits

F4, F8 = np.float32, np.float64
INF, NAN = np.inf, np.nan

# Largest error in units in the last place, float32 and float64; the docstrings quote it.
# lgamma and digamma: in units of the last place of max(1, |value|).
MAX_ULP = {
    "exp": (1.1, 1.1),
    "exp2": (0.9, 0.9),
    "expm1": (1.4, 1.4),
    "log": (0.9, 0.9),
    "log1p": (0.9, 1.0),
    "log2": (0.8, 0.9),
    "log10": (0.8, 0.9),
    "pow": (0.6, 1.0),
    "cbrt": (0.8, 0.8),
    "sin": (1.6, 1.8),
    "cos": (1.6, 2.0),
    "tan": (0.6, 0.9),
    "asin": (1.7, 1.7),
    "acos": (1.3, 1.3),
    "atan": (1.6, 1.6),
    "atan2": (1.8, 1.8),
    "tanh": (1.6, 1.6),
    "sinh": (1.1, 1.1),
    "cosh": (1.1, 1.1),
    "asinh": (0.6, 1.6),
    "acosh": (0.6, 1.9),
    "atanh": (0.6, 1.9),
    "sigmoid": (1.1, 1.1),
    "softplus": (1.6, 1.6),
    "erf": (1.2, 1.2),
    "erfc": (0.6, 2.0),
    "erfinv": (0.6, 2.5),
    "lgamma": (0.6, 2.5),
    "digamma": (0.6, 3.5),
}
SLACK = 1 if bits.HAS_FMA else 1.5  # without FMA the polynomials round twice a step
BINARY = ("pow", "atan2")
ABSOLUTE_BELOW_ONE = ("lgamma", "digamma")
CASES = [(name, dtype) for name in MAX_ULP for dtype in (F4, F8)]


def case_id(value):
    return value if isinstance(value, str) else np.dtype(value).name


def compiled(name, dtype):
    """The cfunc of a loop over the function."""
    scalar = getattr(simd, f"{name}_{'f32' if dtype is F4 else 'f64'}")
    pointer = types.CPointer(numba.from_dtype(np.dtype(dtype)))
    options = dict(nopython=True, error_model="numpy", _nrt=False, fastmath={"contract", "nsz"})
    if name in BINARY:

        @numba.cfunc(types.void(pointer, pointer, pointer, types.intp), **options)
        def kernel(x, y, out, n):
            for i in range(n):
                out[i] = scalar(x[i], y[i])
    else:

        @numba.cfunc(types.void(pointer, pointer, types.intp), **options)
        def kernel(x, out, n):
            for i in range(n):
                out[i] = scalar(x[i])

    return kernel


@functools.cache
def kernel(name, dtype):
    return compiled(name, dtype)


def evaluate(name, dtype, *arrays):
    arrays = [np.ascontiguousarray(a, dtype) for a in arrays]
    out = np.empty_like(arrays[0])
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(arrays) + 1), ctypes.c_ssize_t)
    signature(kernel(name, dtype).address)(*[a.ctypes.data for a in arrays], out.ctypes.data, out.size)
    return out


def bounded(f, low, high):
    """f, its argument clipped where the result has long overflowed, underflowed or saturated."""
    return lambda x: f(min(max(x, mp.mpf(low)), mp.mpf(high)))


def exact_erfinv(x):
    """Newton on erf, or on erfc in the tail, from SciPy's value."""
    a, sign = abs(x), mp.sign(x)
    if a == 0 or a < mp.mpf("1e-30"):
        return x * mp.sqrt(mp.pi) / 2
    y = mp.mpf(float(special.erfinv(float(a)) if a < 0.5 else special.erfcinv(float(1 - a))))
    for _ in range(3):
        step = mp.erf(y) - a if a < 0.5 else (1 - a) - mp.erfc(y)
        y -= step * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
    return sign * y


def exact_lgamma(x):
    if x > 0:
        return mp.loggamma(x) if x < mp.mpf("1e300") else x * (mp.log(x) - 1)
    if x == mp.floor(x):
        return mp.inf
    return mp.log(mp.pi / abs(x * mp.sin(mp.pi * x))) - mp.loggamma(-x)


def exact_digamma(x):
    if x > 0:
        return mp.digamma(x)
    return mp.nan if x == mp.floor(x) else mp.digamma(-x) - 1 / x - mp.pi / mp.tan(mp.pi * x)


def real_only(f, low, high):
    """f on [low, high], nan outside."""
    return lambda x: f(x) if low <= x <= high else mp.nan


EXACT = {
    "exp": bounded(mp.exp, -2000, 2000),
    "exp2": bounded(lambda x: mp.mpf(2) ** x, -2000, 2000),
    "expm1": bounded(mp.expm1, -2000, 2000),
    "log": real_only(mp.log, 0, INF),
    "log1p": real_only(mp.log1p, -1, INF),
    "log2": real_only(lambda x: mp.log(x, 2), 0, INF),
    "log10": real_only(mp.log10, 0, INF),
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "pow": lambda x, y: mp.power(x, y),
    "sin": mp.sin,
    "cos": mp.cos,
    "tan": mp.tan,
    "asin": real_only(mp.asin, -1, 1),
    "acos": real_only(mp.acos, -1, 1),
    "atan": mp.atan,
    "atan2": mp.atan2,
    "tanh": bounded(mp.tanh, -2000, 2000),
    "sinh": bounded(mp.sinh, -2000, 2000),
    "cosh": bounded(mp.cosh, -2000, 2000),
    "asinh": mp.asinh,
    "acosh": real_only(mp.acosh, 1, INF),
    "atanh": real_only(mp.atanh, -1, 1),
    "sigmoid": bounded(lambda x: 1 / (1 + mp.exp(-x)), -2000, 2000),
    "softplus": lambda x: mp.log1p(mp.exp(max(x, mp.mpf(-2000)))) if x < 2000 else x,
    "erf": bounded(mp.erf, -40, 40),
    "erfc": bounded(mp.erfc, -40, 40),
    "erfinv": real_only(exact_erfinv, -1 + 2.0**-60, 1 - 2.0**-60),
    "lgamma": exact_lgamma,
    "digamma": exact_digamma,
}
# Where each function changes method or has a zero, a pole or an end.
TRICKY = {
    "exp": (88.7, -87.4, -103.9, 709.78, -708.4, -745.1, 0.34657),
    "exp2": (128, -126, -149, 1024, -1022, -1074, 0.5),
    "expm1": (0.34657, -0.34657, 88.7, 709.78, -17.3, -37),
    "log": (1, 0.70710678, 1.41421356),
    "log1p": (-1, 0.41421356, -0.29289322, 1),
    "log2": (1, 0.70710678, 1.41421356),
    "log10": (1, 0.70710678, 1000),
    "cbrt": (1, 8, 27, 0.125),
    "sin": (np.pi, 2 * np.pi, np.pi / 2, 355, 0.5),
    "cos": (np.pi / 2, 1.5 * np.pi, 0.5, 11),
    "tan": (np.pi / 4, np.pi / 2, np.pi, 0.5),
    "asin": (1, -1, 0.5),
    "acos": (1, -1, 0.5, 0),
    "atan": (0.5, 1, 2),
    "tanh": (0.55, 9.01, 19, 0.35),
    "sinh": (1, 89.4, 710.4),
    "cosh": (0, 89.4, 710.4),
    "asinh": (1, 1e-4, 1e10),
    "acosh": (1, 2, 1e10),
    "atanh": (1, -1, 0.24, 1e-4),
    "sigmoid": (0, -88.7, -103.9, -745.1, 17, 37),
    "softplus": (0, -88.7, -103.9, -745.1, 17, 37),
    "erf": (0.92, 1, 3.9, 5.9),
    "erfc": (0.6, 10.05, 9.2, 26.5, 27.2),
    "erfinv": (1, 0.99663, 0.99999994, 1e-4),
    "lgamma": (1, 2, 3, 8, -2.4570247, -2.7476826, -3.1435809, -10, -19, -0.5),
    "digamma": (1.4616321449683622, 8, 3, -0.5040830083, -1.5734984732, -4.6292, -10, -100.7),
}
# Close to multiples of pi/2, worst of each format: Muller, Handbook of Floating-Point Arithmetic, chapter 11.
HARDEST = (
    6381956970095103.0 * 2.0**797,
    16367173.0 * 2.0**72,
    5.319372648326541e255,
    1.5707963267948966,
    1e22,
    3e38,
)


def samples(name, dtype):
    """A few hundred arguments: log-spaced with subnormals, uniform, dense at the tricky points."""
    rng = np.random.default_rng(sum(name.encode()))
    info = np.finfo(dtype)
    low, high = np.log10(float(info.smallest_subnormal)), np.log10(float(info.max))
    spread = 10.0 ** np.concatenate([rng.uniform(low, high, 40), rng.uniform(-6, 3, 60)])
    edge = np.array([float(info.max), float(info.tiny), float(info.smallest_subnormal), float(info.tiny) / 3])
    positive = np.concatenate([spread, edge])
    near = [t * (1 + rng.normal(size=8) * s) for t in TRICKY[name] for s in (1e-6, 1e-2, float(info.eps))]
    extra = HARDEST if name in ("sin", "cos", "tan") else ()
    x = np.concatenate(
        [positive, -positive, rng.uniform(-1, 1, 80), rng.uniform(-12, 12, 80), *near, TRICKY[name], extra]
    )
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    return x[np.isfinite(x)]


def pairs(name, dtype):
    rng = np.random.default_rng(7)
    info = np.finfo(dtype)
    low, high = np.log10(float(info.tiny)) + 1, np.log10(float(info.max)) - 1
    if name == "pow":
        x = np.concatenate(
            [
                10.0 ** rng.uniform(-3, 3, 150),
                1 + rng.normal(size=100) * 1e-4,
                10.0 ** rng.uniform(low, high, 80),
            ]
        )
        top = 0.99 * np.log(float(info.max))
        y = rng.uniform(-1, 1, x.size) * np.minimum(top / np.abs(np.log(x)), 1e9)
        return x.astype(dtype), y.astype(dtype)
    x, y = (
        rng.choice([-1, 1], 300)
        * 10.0 ** np.concatenate([rng.uniform(-2, 2, 200), rng.uniform(low, high, 100)])
        for _ in range(2)
    )
    return x.astype(dtype), y.astype(dtype)


def ulp_error(got, exact, dtype, absolute):
    """|got - exact| in units in the last place of exact; where exact overflows or is nan, 0 or inf."""
    if mp.isnan(exact):
        return 0.0 if np.isnan(got) else INF
    with np.errstate(over="ignore"):
        nearest = (
            dtype(float(exact))
            if abs(exact) < mp.mpf("1e400")
            else dtype(np.copysign(INF, float(mp.sign(exact))))
        )
    if not np.isfinite(nearest) or not np.isfinite(got):
        return 0.0 if got == nearest else INF
    size = min(
        max(abs(nearest), dtype(1) if absolute else np.finfo(dtype).tiny), np.finfo(dtype).max * dtype(0.75)
    )
    return float(abs(mp.mpf(float(got)) - exact) / mp.mpf(float(np.spacing(size))))


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=case_id)
def test_error_against_mpmath(name, dtype):
    arguments = pairs(name, dtype) if name in BINARY else (samples(name, dtype),)
    got = evaluate(name, dtype, *arguments)
    worst = (0.0, None)
    with mp.workprec(1300 if name in ("sin", "cos", "tan") else 170):
        for value, *args in zip(got, *arguments):
            exact = (
                EXACT[name](*[mp.mpf(float(a)) for a in args])
                if not is_pole(name, args[0])
                else POLES[name](args[0])
            )
            worst = max(
                worst,
                (ulp_error(value, exact, dtype, name in ABSOLUTE_BELOW_ONE), tuple(args)),
                key=lambda w: w[0],
            )
    assert worst[0] <= MAX_ULP[name][dtype is F8] * SLACK, worst


POLES = {
    "log": lambda x: -mp.inf,
    "log2": lambda x: -mp.inf,
    "log10": lambda x: -mp.inf,
    "log1p": lambda x: -mp.inf,
    "atanh": lambda x: mp.inf * mp.sign(x),
    "erfinv": lambda x: mp.inf * mp.sign(x),
}


def is_pole(name, x):
    return name in POLES and x == {"log1p": -1, "atanh": np.copysign(1, x), "erfinv": np.copysign(1, x)}.get(
        name, 0
    )


REFERENCE64 = {
    "pow": np.power,
    "sigmoid": special.expit,
    "softplus": lambda x: np.logaddexp(0, x),
    "lgamma": special.gammaln,
    "digamma": special.digamma,
    "erf": special.erf,
    "erfc": special.erfc,
    "erfinv": special.erfinv,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}


@pytest.mark.parametrize("name", MAX_ULP)
def test_float32_error_on_many_arguments(name):
    """Random bit patterns and the ordinary range, against float64."""
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2**32, 100_000, dtype=np.uint64).astype(np.uint32).view(F4)
    x = np.concatenate(
        [bits, rng.uniform(-1, 1, 50_000).astype(F4), rng.normal(size=50_000).astype(F4) * F4(9)]
    )
    args = (
        (np.abs(x), rng.permutation(x))
        if name == "pow"
        else (x, rng.permutation(x))
        if name == "atan2"
        else (x,)
    )
    with np.errstate(all="ignore"):
        got = evaluate(name, F4, *args).astype(F8)
        exact = REFERENCE64.get(name, getattr(np, name, None))(*[a.astype(F8) for a in args])
        size = np.maximum(np.abs(exact), 1 if name in ABSOLUTE_BELOW_ONE else np.finfo(F4).tiny)
        error = np.abs(got - exact) / np.spacing(size.astype(F4))
        nearest = exact.astype(F4)
    if name == "digamma":  # SciPy has -inf and signed zero at the pole
        nearest[args[0] == 0] = NAN
    finite = np.isfinite(nearest) & np.isfinite(got)
    np.testing.assert_array_equal(got[~finite], nearest[~finite])
    assert error[finite].max() <= MAX_ULP[name][0] * SLACK, (
        name,
        *[a[finite][error[finite].argmax()] for a in args],
    )


TINY = "tiny"  # the smallest subnormal of the dtype
ODD = [(0.0, 0.0), (-0.0, -0.0), (NAN, NAN), (TINY, TINY)]
SPECIAL = {
    "exp": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0.0), (NAN, NAN), (1e30, INF), (-1e30, 0.0), (TINY, 1)],
    "exp2": [(0.0, 1), (INF, INF), (-INF, 0.0), (NAN, NAN), (10, 1024), (-3, 0.125), (-126, 2.0**-126)],
    "expm1": [*ODD, (INF, INF), (-INF, -1), (-1e30, -1), (1e30, INF)],
    "log": [(0.0, -INF), (-0.0, -INF), (1, 0.0), (INF, INF), (-1, NAN), (-INF, NAN), (NAN, NAN)],
    "log1p": [*ODD, (-1, -INF), (INF, INF), (-2, NAN), (-INF, NAN)],
    "log2": [
        (0.0, -INF),
        (-0.0, -INF),
        (1, 0.0),
        (INF, INF),
        (-1, NAN),
        (NAN, NAN),
        (8, 3),
        (0.25, -2),
        (2.0**-126, -126),
    ],
    "log10": [
        (0.0, -INF),
        (-0.0, -INF),
        (1, 0.0),
        (INF, INF),
        (-1, NAN),
        (NAN, NAN),
        (10, 1),
        (1000, 3),
        (1e10, 10),
    ],
    "cbrt": [(0.0, 0.0), (-0.0, -0.0), (NAN, NAN), (INF, INF), (-INF, -INF), (27, 3), (-8, -2), (1e9, 1000)],
    "sin": [*ODD, (INF, NAN), (-INF, NAN)],
    "tan": [*ODD, (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN), (NAN, NAN), (TINY, 1)],
    "asin": [*ODD, (2, NAN), (INF, NAN), (1, np.pi / 2), (-1, -np.pi / 2)],
    "acos": [(1, 0.0), (-1, np.pi), (0.0, np.pi / 2), (-0.0, np.pi / 2), (2, NAN), (-INF, NAN), (NAN, NAN)],
    "atan": [*ODD, (INF, np.pi / 2), (-INF, -np.pi / 2), (1, np.pi / 4)],
    "tanh": [*ODD, (INF, 1), (-INF, -1), (50, 1)],
    "sinh": [*ODD, (INF, INF), (-INF, -INF), (-1e30, -INF)],
    "cosh": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, INF), (NAN, NAN), (TINY, 1)],
    "asinh": [*ODD, (INF, INF), (-INF, -INF)],
    "acosh": [(1, 0.0), (INF, INF), (0.5, NAN), (-1, NAN), (-INF, NAN), (NAN, NAN)],
    "atanh": [*ODD, (1, INF), (-1, -INF), (2, NAN), (INF, NAN)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (INF, 1), (-INF, 0.0), (NAN, NAN), (-1e30, 0.0)],
    "softplus": [(INF, INF), (-INF, 0.0), (NAN, NAN), (1e30, 1e30), (-1e30, 0.0), (0.0, np.log(2))],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (NAN, NAN), (INF, 1), (-INF, -1), (TINY, TINY)],
    "erfc": [(0.0, 1), (-0.0, 1), (INF, 0.0), (-INF, 2), (NAN, NAN), (1e30, 0.0)],
    "erfinv": [
        (0.0, 0.0),
        (-0.0, -0.0),
        (1, INF),
        (-1, -INF),
        (1.5, NAN),
        (-INF, NAN),
        (NAN, NAN),
        (TINY, TINY),
    ],
    "lgamma": [
        (0.0, INF),
        (-0.0, INF),
        (1, 0.0),
        (2, 0.0),
        (INF, INF),
        (-INF, INF),
        (-1, INF),
        (-1e30, INF),
        (NAN, NAN),
    ],
    "digamma": [(0.0, NAN), (-0.0, NAN), (INF, INF), (-INF, NAN), (-3, NAN), (-1e30, NAN), (NAN, NAN)],
}


def assert_same(got, expected):
    """Equal, with the sign of zeros, nan equal to nan."""
    np.testing.assert_array_equal(got, expected)
    zeros = expected == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(expected[zeros]))


@pytest.mark.parametrize("dtype", (F4, F8), ids=case_id)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name, dtype):
    small = float(np.finfo(dtype).smallest_subnormal)
    x, expected = np.array([[small if v is TINY else v for v in row] for row in SPECIAL[name]], dtype).T
    assert_same(evaluate(name, dtype, x), expected)


@pytest.mark.parametrize("dtype", (F4, F8), ids=case_id)
@pytest.mark.parametrize(("name", "reference"), (("pow", np.power), ("atan2", np.arctan2)))
def test_special_pairs(name, reference, dtype):
    """All pairs of special values: C99's tables, which NumPy follows; ordinary results to a last place."""
    info = np.finfo(dtype)
    values = [0, 0.5, 1, 2, 2.5, 3, INF, info.max, info.smallest_subnormal, 2.0**24 + 2, 2 / info.eps - 1]
    values = np.array([NAN, *values, *[-v for v in values]], dtype)
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        expected = reference(x, y)
    got = evaluate(name, dtype, x, y)
    exact = ~np.isfinite(expected) | (expected == 0) | (np.abs(expected) == 1)
    assert_same(got[exact], expected[exact])
    np.testing.assert_array_max_ulp(got[~exact], expected[~exact], 3)


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=case_id)
def test_loop_is_vectorised_and_calls_nothing(name, dtype):
    module = kernel(name, dtype).inspect_llvm()
    loops = [body for body in re.split(r"\n(?=define )", module) if "vector.body:" in body]
    assert loops
    kind = "(?:float|double)" if dtype is F4 else "double"  # some float32 functions compute in float64
    for body in loops:
        assert re.search(rf"fm(?:ul|a)[^\n]*<\d+ x {kind}>|<\d+ x {kind}> @llvm\.fma", body)
        assert not [f for f in re.findall(r"call [^\n@]*@([\w.$\"-]+)", body) if not f.startswith("llvm.")]
    assert not set(re.findall(r"declare [^\n@]*@(\w+)", module)) & {
        "fma",
        "fmaf",
        "exp",
        "log",
        "sin",
        "rint",
        "floor",
    }


@pytest.mark.skipif(not bits.HAS_FMA, reason="the replacement of fma computes in float64")
@pytest.mark.parametrize(
    "name", ("exp", "expm1", "log", "log1p", "log2", "sinh", "asin", "atan", "erf", "cbrt")
)
def test_float32_stays_in_float32(name):
    assert "double" not in kernel(name, F4).inspect_llvm()


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=case_id)
def test_docstring_quotes_the_bound(name, dtype):
    text = getattr(simd, f"{name}_{'f32' if dtype is F4 else 'f64'}").__doc__
    assert float(re.search(r"Max ([\d.]+) ulp", " ".join(text.split()))[1]) == MAX_ULP[name][dtype is F8]


def test_wide_vectors_asks_for_512_bits():
    @numba.njit(error_model="numpy")
    def kernel(x, out):
        simd.wide_vectors()
        for i in range(x.size):
            out[i] = x[i] + x[i]

    x = np.arange(40, dtype=F4)
    kernel(x, out := np.empty_like(x))
    np.testing.assert_array_equal(out, x + x)
    assert '"prefer-vector-width"="512"' in next(iter(kernel.inspect_llvm().values()))
