"""How tests run things on the emulated CUDA device, and compare with the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as onp

import numbagrad as ng
from numbagrad.core.array import Array
from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.devices import find
from numbagrad.testing import tolerance

DEVICE = "cuda-emulated"


def put(x: Any) -> Array:
    """A NumPy array as an Array on the emulated device."""
    return Array(find(DEVICE).put(onp.asarray(x)))


def put_strided(x: onp.ndarray, layout: str) -> Array:
    """The same numbers on the device, as a view that is not in C order."""
    if x.ndim == 0:
        return put(x)
    if layout == "step":
        wide = put(onp.repeat(x, 2, -1))
        value = wide._value
        return Array(value.view(x.shape, (*value.strides[:-1], 2 * x.itemsize)))
    if layout == "reverse":
        value = put(x[::-1])._value
        offset = value.strides[0] * (x.shape[0] - 1) if x.size else 0
        return Array(value.view(x.shape, (-value.strides[0], *value.strides[1:]), offset))
    value = put(x.T)._value
    return Array(value.view(x.shape, value.strides[::-1]))


def outputs(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (tuple, list)) else [found]


def on_device(found: Any) -> list[onp.ndarray]:
    """Results as NumPy arrays, which must have stayed on the device."""
    for out in outputs(found):
        assert out.device == DEVICE, f"a result on {out.device}"
        assert isinstance(out._value, Buffer)
    return [onp.asarray(out) for out in outputs(found)]


def close(got: Sequence[Any], want: Sequence[Any], scale: float = 1.0, **more: Any) -> None:
    """Same shapes and dtypes, numbers within the library's tolerance times a scale."""
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        g, w = onp.asarray(g), onp.asarray(w)
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        onp.testing.assert_allclose(g, w, **{**tolerance(w.dtype, scale), **more})


def reference(case: Any, got: Sequence[onp.ndarray]) -> list[onp.ndarray]:
    """What NumPy makes of a case that gave these results (a pair's reference may be one array of both)."""
    with onp.errstate(all="ignore"):
        want = case.reference(*case.args)
    return [onp.asarray(want)] if len(got) == 1 else [onp.asarray(w, g.dtype) for g, w in zip(got, want, strict=True)]


def derivatives(function: Callable[..., Any], args: Sequence[Any], order: int) -> list[Any]:
    """Forward and reverse derivatives with random tangents and cotangents; at order 2 of the reverse sweep, too."""
    rng = onp.random.default_rng(3)
    place = put if isinstance(args[0], Array) and args[0].device == DEVICE else Array

    def random(like: Any) -> Array:
        number = rng.standard_normal(like.shape)
        if like.dtype.kind == "c":
            number = number + 1j * rng.standard_normal(like.shape)
        return place(onp.asarray(number, like.dtype))

    tangents = [random(a) for a in args]
    outs, pushed = ng.jvp(function, tuple(args), tuple(tangents))
    found = [*outputs(outs), *outputs(pushed)]
    cotangents = [random(o) for o in outputs(outs)]

    def pulled(*xs: Any) -> list[Any]:
        outs, pull = ng.vjp(function, *xs)
        return list(pull(tuple(cotangents) if isinstance(outs, tuple) else cotangents[0]))

    found += pulled(*args)
    if order > 1:
        more = [random(a) for a in args]
        found += outputs(ng.jvp(pulled, tuple(args), tuple(more))[1])
        _, pull = ng.vjp(pulled, *args)
        found += list(pull(more))
    return found
