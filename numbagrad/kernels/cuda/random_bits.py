"""Threefry-2x32-20 and the samplers by rejection: the CPU's texts, a thread for each element, so the same stream.

The key and the index of the first element stay on the device.
"""
# Checklist of docs/design/cuda.md: all 15 hold but 7 for the samplers, which are float64 throughout (as on the CPU: a
# rejection decided in float32 would be another stream), with 40 bytes of stack in libdevice's cosine for arguments that
# do not occur here; no atomics; registers <= 14, samplers <= 66 (sm_90).

from __future__ import annotations

from functools import cache

import numpy as np

from numbagrad.kernels.cpu.random_bits import SAMPLERS, threefry_source
from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.copy import contiguous
from numbagrad.kernels.cuda.kernel import THREADS, Kernel, blocks, index_type, kernel, short
from numbagrad.kernels.cuda.sort import argsort
from numbagrad.kernels.cuda.views import broadcast_to
from numbagrad.scalar.render import NAMES

_JIT = "@cuda.jit(device=True)"

_BITS = '''"""Threefry-2x32-20 of the element's index, {kind}."""

from numbagrad.kernels.cuda.frontend import {names}


{threefry}@cuda.jit
def {name}(key, offset, given, out, n):
    i = {I}(cuda.grid(1))
    if i < n:
        # 64-bit counters wrap
        first = offset[0] if given else uint64(0)
        index = uint64(first + uint64(i))
        x0, x1 = threefry(key[0], key[1], uint32(index >> uint64(32)), uint32(index))
        {write}
'''

_WRITE = {
    "u32": "out[i] = uint32(x0 ^ x1)",
    "u64": "out[i] = (uint64(x0) << uint64(32)) | uint64(x1)",
    "pairs": "store2(out, {I}(2 * i), (x0, x1))",
}

_REJECTION = '''"""{variate} of each element by rejection."""

import math

from numbagrad.kernels.cuda.frontend import {names}


{threefry}{samplers}@cuda.jit
def {name}(key, parameters, step, out, n):
    i = {I}(cuda.grid(1))
    if i < n:
        k0 = uint32(key[0] ^ uint32(uint64(i) >> uint64(32)))
        out[i] = {variate}(k0, key[1], i, float64(parameters[{I}(step * i)]))
'''


@cache
def _bits_kernel(kind: str, index: str) -> Kernel:
    name = f"random_{kind}" + ("" if index == "uint32" else "_large")
    names = {"cuda", "uint32", "uint64", index} | ({"store2"} if kind == "pairs" else set())
    fields = dict(kind=kind, name=name, names=", ".join(sorted(names)), threefry=threefry_source(_JIT), I=index)
    out = "u64*" if kind == "u64" else "u32*"
    text = _BITS.format(write=_WRITE[kind].format(I=index), **fields)
    return kernel(name, text, ["u32*", "u64*", "u32", out, short(index)])


def _fill(kind: str, key: Buffer, offset: Buffer | None, out: Buffer, n: int) -> Buffer:
    if n:
        found = _bits_kernel(kind, index_type(out.size))
        key = contiguous(key)
        # without an offset any buffer does in its place
        given = 0 if offset is None else 1
        out.device.launch(found, blocks(n), THREADS, key, key if offset is None else offset, given, out, n)
    return out


def random_bits(key: Buffer, offset: Buffer, *, shape: tuple[int, ...], dtype: np.dtype) -> Buffer:
    """Uniform uint32 or uint64."""
    out = key.device.empty(shape, dtype)
    return _fill("u64" if dtype.itemsize == 8 else "u32", key, offset, out, out.size)


def random_pairs(key: Buffer, offset: Buffer, *, shape: tuple[int, ...]) -> Buffer:
    """Both words of each index."""
    out = key.device.empty((*shape, 2), np.dtype(np.uint32))
    return _fill("pairs", key, offset, out, out.size // 2)


def random_order(key: Buffer, *, shape: tuple[int, ...]) -> Buffer:
    """A permutation of every row of the last axis."""
    bits = key.device.empty(shape, np.dtype(np.uint64))
    return argsort(_fill("u64", key, None, bits, bits.size), axis=-1)


@cache
def _rejection_kernel(variate: str, parameter: np.dtype, out: str, index: str) -> Kernel:
    t = NAMES[parameter.name]
    name = f"random_{variate}_{t}" + ("" if index == "uint32" else "_large")
    names = {"cuda", "float64", "int64", "uint32", "uint64"}
    fields = dict(threefry=threefry_source(_JIT), samplers=SAMPLERS.format(jit=_JIT), names=", ".join(sorted(names)))
    text = _REJECTION.format(name=name, variate=variate, I=index, **fields)
    return kernel(name, text, ["u32*", f"{t}*", short(index), out, short(index)])


def _reject(variate: str, key: Buffer, parameter: Buffer, shape: tuple[int, ...], dtype: np.dtype) -> Buffer:
    out = key.device.empty(shape, dtype)
    if out.size:
        one = parameter.size == 1
        values = parameter if one else contiguous(broadcast_to(parameter, shape=shape))
        if values.dtype.kind == "b":
            values = values.typed(np.dtype(np.uint8))
        found = _rejection_kernel(variate, values.dtype, f"{NAMES[dtype.name]}*", index_type(out.size))
        arguments = (contiguous(key), values, 0 if one else 1, out, out.size)
        out.device.launch(found, blocks(out.size), THREADS, *arguments)
    return out


def random_gamma(key: Buffer, a: Buffer, *, shape: tuple[int, ...]) -> Buffer:
    """Logarithms of gamma variates of shape parameter a."""
    return _reject("log_gamma_variate", key, a, shape, np.dtype(np.float64))


def random_poisson(key: Buffer, rate: Buffer, *, shape: tuple[int, ...]) -> Buffer:
    """Poisson variates; -1 for a negative or nan rate."""
    return _reject("poisson_variate", key, rate, shape, np.dtype(np.int64))
