"""The registry in float16 and bfloat16: every atom and primitive against itself in float32, rounded."""

import numpy as onp
import pytest
from cuda_emulated import DEVICE
from samples.atoms import SAMPLES
from samples.primitives import CASES

import numbagrad as ng
import numbagrad.numpy as np

EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
ATOMS = [n for n, s in SAMPLES.items() if "float32" in s.dtypes()]


def halves(xs, name):
    """Floating operands in 16 bits, and the same elements in float32."""
    given = [np.asarray(x, dtype=name if x.dtype.kind == "f" else x.dtype) for x in xs]
    return given, [x.astype("float32") if x.dtype.name == name else x for x in given]


def close(got, want, name, roundings=1):
    got, want = (out if isinstance(out, (tuple, list)) else [out] for out in (got, want))
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape and g.dtype.name == w.dtype.name.replace("float32", name)
        limit = roundings * EPS[name] if g.dtype.name == name else 1e-6
        with onp.errstate(all="ignore"):
            g, w = onp.asarray(g.astype("complex128")), onp.asarray(w.astype(g.dtype).astype("complex128"))
        finite = abs(w)[onp.isfinite(w)]
        floor = limit * finite.max(initial=0) * (roundings > 1) + 2.0**-24
        onp.testing.assert_allclose(g, w, rtol=limit, atol=floor)


def derivatives(function, args, order):
    """The function's products with fixed tangents and cotangents, numbers that 16 bits hold."""
    moving = [k for k, a in enumerate(args) if a.dtype.kind in "fV"]

    def of(*xs):
        whole = list(args)
        for k, x in zip(moving, xs, strict=True):
            whole[k] = x
        out = function(*whole)
        outs = [o for o in (out if isinstance(out, tuple) else (out,)) if o.dtype.kind in "fV"]
        return tuple(outs)

    def direction(x, seed):
        numbers = onp.random.default_rng(seed).integers(-4, 5, x.shape) / 4
        return ng.device_put(np.asarray(numbers, dtype=x.dtype), x.device)

    point = tuple(args[k] for k in moving)
    outs, pushed = ng.jvp(of, point, tuple(direction(x, k) for k, x in enumerate(point)))
    cotangents = tuple(direction(o, 7 + k) for k, o in enumerate(outs))
    pull = lambda *xs: ng.vjp(of, *xs)[1](cotangents)
    found = [*pushed, *pull(*point)]
    if order > 1:
        found += ng.jvp(pull, point, tuple(direction(x, 11 + k) for k, x in enumerate(point)))[1]
    return found


@pytest.mark.parametrize("name", EPS)
@pytest.mark.parametrize("atom", [pytest.param(a, marks=pytest.mark.xdist_group(f"atom_{a}")) for a in ATOMS])
def test_atoms(atom, name):
    sample = SAMPLES[atom]
    given, same = halves(sample.inputs("float64"), name)
    close(sample(*given), sample(*same), name)
    if not sample.constant:
        close(derivatives(sample, given, 1), derivatives(sample, same, 1), name, 8)


FLOATING = [c for c in CASES if any(a.dtype.kind == "f" for a in c.args) and not c.primitive.endswith("_into")]


@pytest.mark.slow
@pytest.mark.parametrize("place, name", [("cpu", "float16"), ("cpu", "bfloat16"), (DEVICE, "bfloat16")])
@pytest.mark.parametrize("case", [pytest.param(c, id=f"{k}-{c.primitive}") for k, c in enumerate(FLOATING)])
def test_primitives(case, place, name):
    given, same = ([ng.device_put(x, place) for x in xs] for xs in halves(case.args, name))
    close(case(*given), case(*same), name, 8)
    if case.order:
        close(derivatives(case, given, case.order), derivatives(case, same, case.order), name, 16)
