"""Conversion between types: one atom a pair, because the cotangent is converted back."""

from __future__ import annotations

from functools import cache

import numpy as np

from numbagrad.core.dtypes import computed, is_half, is_inexact, real_dtype
from numbagrad.scalar.expr import ATOMS, Atom


@cache
def cast(source: np.dtype, target: np.dtype) -> Atom:
    """Atom that converts `source` to `target`. Complex to real takes the real part; to bool means nonzero."""
    kinds = source.kind + target.kind
    made = computed(target).name
    if target.kind == "b":
        code = "{0} != 0"
    elif kinds == "bc":
        code = f"{target.name}(1 if {{0}} else 0)"
    elif is_half(target) and not np.can_cast(real_dtype(source), np.float32):
        part = "{0}.real" if source.kind == "c" else "{0}"  # what float32 would round is rounded once
        code = f"func.single_of({part if source.kind in 'fc' else f'float64({part})'})"
    elif kinds[0] == "c" and kinds[1] != "c":
        code = f"{made}({{0}}.real)"
    elif kinds[1] == "c" and kinds[0] != "c":
        code = f"{target.name}(complex({{0}}, 0))"
    else:
        code = f"{made}({{0}})"
    smooth = is_inexact(source) and is_inexact(target)
    name = f"cast_{source.name}_{target.name}"
    new = Atom(
        name,
        1,
        {"c" if source.kind == "c" else "*": code},
        vjp=(lambda g, x, out: (cast(target, source)(g),)) if smooth else None,
        jvp=(lambda t, x, out: cast(source, target)(t[0])) if smooth else None,
        result=target.name,
        rule="internal",
        doc=f"{source.name} to {target.name}.",
    )
    return ATOMS.setdefault(name, new)


@cache
def floored(target: np.dtype) -> Atom:
    """Atom that takes float32 down to the next number that a type of 16 bits has. Derivative: 1, as of any rounding."""
    name = f"floor_{target.name}"
    new = Atom(
        name,
        1,
        {"f": f"func.floor_{target.name}({{0}})"},
        vjp=lambda g, x, out: (g,),
        jvp=lambda t, x, out: t[0],
        rule="internal",
        doc=f"float32 rounded down to {target.name}.",
    )
    return ATOMS.setdefault(name, new)
