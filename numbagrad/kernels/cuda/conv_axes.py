"""Which elements the taps of a window read, as arithmetic in a kernel's text; the equation is that of cpu/taps.py.

From position p of an axis the taps first, first + step, ... read the sources q, q + hop, ...; a source outside the
axis is padding. With m == 1 ("plain") every tap reads: first is 0 and step 1. In uint32 everything wraps: a negative
source is larger than every length.

Names in a text, for axis k: p{k} the position, f{k} and q{k} the first tap and its source, t{k} and r{k} those of the
loop; parameters: n{k} sources, taps{k}, a{k}, c{k}, hop{k}, and what `first_tap` takes besides.
"""

# Checklist of docs/design/cuda.md: walked together with conv.py, which says the result.

from __future__ import annotations

import math
from collections.abc import Sequence

from numbagrad.kernels.cpu.taps import Relation
from numbagrad.kernels.cuda.kernel import LARGE, short
from numbagrad.kernels.cuda.places import division

_FIRST = '''@cuda.jit(device=True)
def first_tap(p, a, c, taps, e, g, g_m, g_s, step, step_m, step_s, inverse, m, m_m, m_s, shift):
    """The first tap that reads from p (`taps` if none does), and its source. c is so large that nothing is negative."""
    value = {I}({I}(p * a) + c)
    part = quotient(value, g, g_m, g_s)
    t = {I}({I}(part - {I}(quotient(part, step, step_m, step_s) * step)) * inverse)
    t = {I}(t - {I}(quotient(t, step, step_m, step_s) * step))
    q = {I}(quotient({I}(value + {I}(t * e)), m, m_m, m_s) - shift)
    return (t if {I}(part * g) == value else taps), q


'''


def is_plain(relations: Sequence[Relation]) -> bool:
    """Whether every tap of every position reads a source or padding."""
    return all(r.m == 1 for r in relations)


def _progression(r: Relation) -> tuple[int, int, int, int]:
    """Common divisor of e and m, step, hop, and what a position's part is multiplied with for its first tap."""
    g = math.gcd(r.e, r.m)
    step, hop = r.m // g, r.e // g
    return g, step, hop, -pow(hop, -1, step) % step if step > 1 else 0


def _shift(r: Relation) -> int:
    """What to add to sources so that no numerator is negative."""
    _, step, _, _ = _progression(r)
    return -(min(0, r.c + min(0, r.e * (step - 1))) // r.m)


def reach(r: Relation) -> int:
    """A bound on the numbers in the arithmetic of an axis: where it is 2**31 or more, indices are int64."""
    _, step, hop, _ = _progression(r)
    values = max(1, r.positions) * r.a + abs(r.c) + (abs(r.e) + 1) * (max(r.taps, step) + 1) + 2 * r.m
    return max(values, step * step, r.sources + abs(hop) * r.taps)


def needs_large(relations: Sequence[Relation], *sizes: int) -> bool:
    """Whether an index or a number on the way to it does not fit into 31 bits."""
    return max(*sizes, *map(reach, relations)) >= LARGE


def most_taps(r: Relation) -> int:
    """Most taps that read from one position."""
    return -(-r.taps // _progression(r)[1])


def helpers(plain: bool, index: str) -> str:
    """The device functions that `begin` calls, besides `quotient`."""
    return "" if plain else _FIRST.format(I=index)


def _names(k: int, plain: bool) -> list[str]:
    names = [f"n{k}", f"taps{k}", f"a{k}", f"c{k}", f"hop{k}"]
    return names if plain else [*names, *_more(k)]


def _more(k: int) -> list[str]:
    divisors = [f"{d}{k}{part}" for d in ("g", "step", "m") for part in ("", "_m", "_s")]
    return [f"e{k}", *divisors[:6], f"inverse{k}", *divisors[6:], f"shift{k}"]


def divisor(name: str, index: str) -> list[tuple[str, str]]:
    """Parameters of a number that is divided by."""
    wide = "u64" if index == "uint32" else "i64"
    return [(name, short(index)), (f"{name}_m", wide), (f"{name}_s", wide)]


def parameters(k: int, plain: bool, index: str) -> list[tuple[str, str]]:
    """Names and types of an axis's parameters."""
    wide = "u64" if index == "uint32" else "i64"
    return [(name, wide if name.endswith(("_m", "_s")) else short(index)) for name in _names(k, plain)]


def arguments(r: Relation, plain: bool, index: str) -> list[int]:
    """Their values; in uint32 a negative number is what it wraps to."""
    g, step, hop, inverse = _progression(r)
    shift = 0 if plain else _shift(r)
    found = [r.sources, r.taps, r.a, r.c + shift * r.m, hop]
    if not plain:
        found += [r.e, *division(g, index), *division(step, index), inverse, *division(r.m, index), shift]
    return [v & 0xFFFFFFFF if v < 0 else v for v in found] if index == "uint32" else found


def begin(k: int, plain: bool, index: str) -> str:
    """The line that sets f{k} and q{k} from p{k}."""
    if plain:
        return f"f{k}, q{k} = {index}(0), {index}({index}(p{k} * a{k}) + c{k})"
    more = ", ".join(_more(k))
    return f"f{k}, q{k} = first_tap(p{k}, a{k}, c{k}, taps{k}, {more})"


def inside(value: str, length: str, index: str) -> str:
    """Whether a source is no padding."""
    return f"{value} < {length}" if index == "uint32" else f"0 <= {value} < {length}"


def take_apart(source: str, names: Sequence[str], lengths: Sequence[str], rest: str, index: str) -> list[str]:
    """Lines that take a flat index apart, the last axis first; `rest` is what is left of it."""
    lines = [f"{rest} = {source}"]
    for name, length in zip(reversed(names), reversed(lengths), strict=True):
        lines.append(f"whole = quotient({rest}, {length}, {length}_m, {length}_s)")
        lines.append(f"{name} = {index}({rest} - {index}(whole * {length}))")
        lines.append(f"{rest} = whole")
    return lines


def nest(count: int, plain: bool, index: str, body: Sequence[str], numbers: bool = False) -> list[str]:
    """Loops over the taps that read an element: `place` is where it lies in the axes, `tap` (if wanted) its number."""
    lines: list[str] = []
    for k in range(count):
        pad = " " * 8 * k
        row = f"{index}({index}(place{k - 1} * n{k}) + r{k})" if k else "r0"
        tap = f"{index}({index}(tap{k - 1} * taps{k}) + t{k})" if k else "t0"
        lines += [
            f"{pad}t{k}, r{k} = f{k}, q{k}",
            f"{pad}while t{k} < taps{k}:",
            f"{pad}    if {inside(f'r{k}', f'n{k}', index)}:",
            f"{pad}        place{k} = {row}",
            *([f"{pad}        tap{k} = {tap}"] if numbers else []),
        ]
    inner = " " * 8 * count
    lines += [f"{inner}place = place{count - 1}", *([f"{inner}tap = tap{count - 1}"] if numbers else [])]
    lines += [inner + line for line in body]
    for k in reversed(range(count)):
        step = "1" if plain else f"step{k}"
        lines.append(" " * 8 * k + f"    t{k}, r{k} = {index}(t{k} + {step}), {index}(r{k} + hop{k})")
    return lines


def pick(count: int, plain: bool, index: str) -> list[str]:
    """Lines that set t{k} and r{k} from the numbers j{k} of an axis's reading taps, and `there`: no padding."""
    lines = []
    for k in range(count):
        step = f"j{k}" if plain else f"{index}(j{k} * step{k})"
        lines.append(f"t{k}, r{k} = {index}(f{k} + {step}), {index}(q{k} + {index}(j{k} * hop{k}))")
    tests = [] if plain else [f"t{k} < taps{k}" for k in range(count)]
    tests += [f"({inside(f'r{k}', f'n{k}', index)})" for k in range(count)]
    return [*lines, f"there = {' and '.join(tests)}"]


def flat(names: Sequence[str], lengths: Sequence[str], index: str) -> str:
    """The flat index of places along axes."""
    text = names[0]
    for name, length in zip(names[1:], lengths[1:], strict=True):
        text = f"{index}({index}({text} * {length}) + {name})"
    return text


def product(names: Sequence[str], index: str) -> str:
    """The product of numbers of the index type."""
    text = names[0]
    for name in names[1:]:
        text = f"{index}({text} * {name})"
    return text
