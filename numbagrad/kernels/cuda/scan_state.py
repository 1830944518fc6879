"""What each scan keeps as its state.

A state is a tuple of numbers. `step` takes one element in, `join` puts the states of two neighbouring parts together
and is associative, `emit` is what is stored of the states before and after an element.
"""

# Checklist of docs/design/cuda.md: walked together with scan.py, which says the result.

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Running products keep their power of two apart, so a part that overflows harms no other: a prefix of 1e-30 times a
# part that multiplies by 1e60 is 1e30 here, as it is element by element; and 0 times it is 0, not nan. So is every
# prefix as if exponents had no limits: what overflowed on the way comes back, which one by one it does not.
_SCALED = '''@cuda.jit(device=True)
def normal(value, exponent):
    """value * 2**exponent as a number between 1/2 and 1 in size, and an exponent."""
    part, more = math.frexp(value)
    return part, int32(min(max(int32(exponent + more), int32(-{limit})), int32({limit})))


@cuda.jit(device=True)
def scaled(value, exponent):
    """value * 2**exponent"""
    return math.ldexp(value, exponent)
'''

_SCALED_COMPLEX = '''@cuda.jit(device=True)
def normal(value, exponent):
    """value * 2**exponent as a number whose larger part is between 1/2 and 1 in size, and an exponent."""
    part, more = math.frexp(max(abs(value.real), abs(value.imag)))
    fits = int32(min(max(int32(exponent + more), int32(-{limit})), int32({limit})))
    return scaled(value, int32(-more)), fits


@cuda.jit(device=True)
def scaled(value, exponent):
    """value * 2**exponent"""
    return {T}(complex(math.ldexp(value.real, exponent), math.ldexp(value.imag, exponent)))
'''

_TIMES = '''@cuda.jit(device=True)
def times(a, e, b, f):
    """The product of a * 2**e and b * 2**f, a already normal: subnormal numbers lose nothing on the way."""
    b, f = normal(b, f)
    return normal({T}(a * b), int32(e + f))
'''

_ORDER = '''@cuda.jit(device=True)
def takes(new, old):
    """Whether a running extremum is replaced: the latest of equals has it, a nan keeps it but from a later nan."""
    return (new {sign}= old and old == old) or new != new
'''

_SHIFTED = '''@cuda.jit(device=True)
def shrunk(a, b):
    """exp(-|a - b|), 1 for equal infinities."""
    return math.exp({T}(0) if a == b else -abs(a - b))
'''


class Scan:
    """A scan: operands, words of its state as (type, start), and bodies of the functions, in terms of `{T}`.

    `helpers` are texts of device functions; `sums` asks for those of sums.py.
    """

    def __init__(
        self,
        words: Sequence[tuple[str, str]],
        step: str,
        join: str,
        emit: str,
        *,
        inputs: tuple[str, ...] = ("x",),
        outputs: tuple[str, ...] = ("out",),
        helpers: Sequence[str] = (),
        sums: bool = False,
    ) -> None:
        self.words, self.step, self.join, self.emit = tuple(words), step, join, emit
        self.inputs, self.outputs, self.helpers, self.sums = inputs, outputs, tuple(helpers), sums


_LSE_WORDS = [("{T}", "-math.inf"), ("{T}", "0"), ("{T}", "0")]
_LSE_STEP = """    e = shrunk(x, s[0])
    if x > s[0]:
        high, low = add(s[1] * e, s[2] * e, {T}(1))
        return x, high, low
    high, low = add(s[1], s[2], e)
    return s[0], high, low"""
_LSE_JOIN = """    e = shrunk(b[0], a[0])
    if b[0] > a[0]:
        high, low = merge(a[1] * e, a[2] * e, b[1], b[2])
        return b[0], high, low
    high, low = merge(a[1], a[2], b[1] * e, b[2] * e)
    return a[0], high, low"""
_LSE_SHARES = """    e = shrunk(x, a[0])
    live = {T}(0) if b[0] == {T}(-math.inf) else {T}(1) / total(b[1], b[2])  # nothing but -inf has no derivative
    if x > a[0]:
        return live, total(a[1], a[2]) * e * live
    return e * live, total(a[1], a[2]) * live"""


def _cumsum(dtype: np.dtype) -> Scan:
    if dtype in (np.dtype(np.float32), np.dtype(np.complex64)):
        return Scan(
            [("{T}", "0"), ("{T}", "0")],
            "    return add(s[0], s[1], x)",
            "    return merge(a[0], a[1], b[0], b[1])",
            "    return (total(b[0], b[1]),)",
            sums=True,
        )
    return Scan([("{T}", "0")], "    return ({T}(s[0] + x),)", "    return ({T}(a[0] + b[0]),)", "    return (b[0],)")


def _scaled(dtype: np.dtype) -> str:
    return _SCALED_COMPLEX if dtype.kind == "c" else _SCALED


def _cumprod(dtype: np.dtype) -> Scan:
    if dtype.kind in "biu":
        step, join = "    return ({T}(s[0] * x),)", "    return ({T}(a[0] * b[0]),)"
        return Scan([("{T}", "1")], step, join, "    return (b[0],)")
    return Scan(
        [("{T}", "1"), ("int32", "0")],
        "    return times(s[0], s[1], x, int32(0))",
        "    return times(a[0], a[1], b[0], b[1])",
        "    return (scaled(b[0], b[1]),)",
        helpers=[_scaled(dtype), _TIMES],
    )


def _linear_recurrence(dtype: np.dtype) -> Scan:
    """States are maps y -> p * y + q of the value before a part; an exact zero passes nothing on."""
    two = ("x", "y")
    if dtype.kind in "biu":
        return Scan(
            [("{T}", "1"), ("{T}", "0")],
            "    return {T}(s[0] * x), {T}({T}(x * s[1]) + y)",
            "    return {T}(a[0] * b[0]), {T}({T}(b[0] * a[1]) + b[1])",
            "    return (b[1],)",
            inputs=two,
        )
    return Scan(
        [("{T}", "1"), ("int32", "0"), ("{T}", "0")],
        "    p, e = times(s[0], s[1], x if s[0] != {T}(0) else {T}(0), int32(0))\n"
        "    q = {T}(x * s[2]) if s[2] != {T}(0) else {T}(0)\n"
        "    return p, e, {T}(q + y)",
        "    p, e = times(a[0], a[1], b[0] if a[0] != {T}(0) else {T}(0), b[1])\n"
        "    q = scaled({T}(b[0] * a[2]), b[1]) if a[2] != {T}(0) else {T}(0)\n"
        "    return p, e, {T}(q + b[2])",
        "    return (b[2],)",
        inputs=two,
        helpers=[_scaled(dtype), _TIMES],
    )


def _extremum(sign: str, start: str, routed: bool) -> Scan:
    order = [_ORDER.replace("{sign}", sign)]
    if not routed:
        return Scan(
            [("{T}", start)],
            "    return (x if takes(x, s[0]) else s[0],)",
            "    return (b[0] if takes(b[0], a[0]) else a[0],)",
            "    return (b[0],)",
            helpers=order,
        )
    return Scan(
        [("{T}", start), ("{I}", "0")],
        "    new = takes(x, s[0])\n    return x if new else s[0], {I}(p) if new else s[1]",
        "    new = takes(b[0], a[0])\n    return b[0] if new else a[0], b[1] if new else a[1]",
        "    return b[0], b[1]",
        outputs=("out", "place"),
        helpers=order,
    )


def scan_of(name: str, dtype: np.dtype) -> Scan:
    """The scan of a name for elements of a type."""
    if name in ("cumsum", "cumprod", "linear_recurrence"):
        return {"cumsum": _cumsum, "cumprod": _cumprod, "linear_recurrence": _linear_recurrence}[name](dtype)
    if name.startswith("cumlogsumexp"):
        helpers = [_SHIFTED]
        if name == "cumlogsumexp":
            emit = "    return (b[0] + math.log(total(b[1], b[2])),)"
            return Scan(_LSE_WORDS, _LSE_STEP, _LSE_JOIN, emit, helpers=helpers, sums=True)
        outputs = ("out", "kept")
        return Scan(_LSE_WORDS, _LSE_STEP, _LSE_JOIN, _LSE_SHARES, outputs=outputs, helpers=helpers, sums=True)
    limits = ("-math.inf", "math.inf")
    if dtype.kind in "biu":
        limits = (str(np.iinfo(dtype).min), str(np.iinfo(dtype).max))
    largest = name.startswith("cummax")
    return _extremum(">" if largest else "<", limits[0 if largest else 1], name.endswith("_routed"))
