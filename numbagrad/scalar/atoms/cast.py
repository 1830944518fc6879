"""Conversion between types: one atom a pair, because the cotangent is converted back."""

from __future__ import annotations

from functools import cache

import numpy as np

from numbagrad.scalar.expr import ATOMS, Atom


@cache
def cast(source: np.dtype, target: np.dtype) -> Atom:
    """Atom that converts `source` to `target`. Complex to real takes the real part; to bool means nonzero."""
    kinds = source.kind + target.kind
    computed = "float32" if target == np.float16 else target.name  # only memory holds half numbers
    if target.kind == "b":
        code = "{0} != 0"
    elif kinds == "bc":
        code = f"{target.name}(1 if {{0}} else 0)"
    elif kinds[0] == "c" and kinds[1] != "c":
        code = f"{computed}({{0}}.real)"
    elif kinds[1] == "c" and kinds[0] != "c":
        code = f"{target.name}(complex({{0}}, 0))"
    else:
        code = f"{computed}({{0}})"
    smooth = source.kind in "fc" and target.kind in "fc"
    name = f"cast_{source.name}_{target.name}"
    new = Atom(
        name,
        1,
        {"*": code},
        vjp=(lambda g, x, out: (cast(target, source)(g),)) if smooth else None,
        jvp=(lambda t, x, out: cast(source, target)(t[0])) if smooth else None,
        result=target.name,
        rule="internal",
        doc=f"{source.name} to {target.name}.",
    )
    return ATOMS.setdefault(name, new)
