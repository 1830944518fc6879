"""Threefry-2x32-20, a counter-based generator: element i of a stream is a function of the key and of i.

So the numbers do not depend on the device, the number of threads or the order of work. Source: Salmon, Moraes,
Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from numbagrad import config
from numbagrad.kernels.cpu import jobs, pool
from numbagrad.kernels.cpu.compiler import kernel_address

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))

_THREEFRY = '''{jit}
def threefry(k0, k1, x0, x1):
    """20 rounds on a pair of 32-bit words."""
    k2 = uint32(k0 ^ k1 ^ uint32(0x1BD11BDA))
    x0, x1 = uint32(x0 + k0), uint32(x1 + k1)
{rounds}
    return x0, x1


'''

_HEADER = '''"""{title}"""

import math
from numba import float64, int64, njit, uint32, uint64
from numbagrad.kernels.cpu.abi import {pointers}


'''

_BITS = """def {name}(n, ptrs, strides):
    out = {pointer}(ptrs, 0)
    k0, k1 = uint32(strides[2]), uint32(strides[3])
    first = (ptrs[0] - strides[1]) // {size} + strides[4]
    for i in range(n):
        index = first + i
        x0, x1 = threefry(k0, k1, uint32(index >> 32), uint32(index))
{write}
"""

_WRITE = {
    "u32": "        out[i] = x0 ^ x1",
    "u64": "        out[i] = (uint64(x0) << uint64(32)) | uint64(x1)",
    "pairs": "        out[2 * i] = x0\n        out[2 * i + 1] = x1",
}


def threefry_source(jit: str = "@njit(_nrt=False, forceinline=True)") -> str:
    """The generator as a function `threefry` with the given decorator."""
    lines = []
    for group in range(5):
        for r in _ROTATIONS[group % 2]:
            lines.append("x0 = uint32(x0 + x1)")
            lines.append(f"x1 = uint32((uint32(x1 << uint32({r})) | (x1 >> uint32({32 - r}))) ^ x0)")
        first, second = f"k{(group + 1) % 3}", f"k{(group + 2) % 3}"
        lines.append(f"x0, x1 = uint32(x0 + {first}), uint32(x1 + uint32({second} + uint32({group + 1})))")
    return _THREEFRY.format(jit=jit, rounds="\n".join(f"    {line}" for line in lines))


@cache
def _kernel(kind: str) -> int:
    pointer, size = ("u64", 8) if kind == "u64" else ("u32", 8 if kind == "pairs" else 4)
    text = _HEADER.format(title=f"Threefry-2x32-20 of the element's index, {kind}.", pointers=pointer)
    text += threefry_source()
    text += _BITS.format(name=f"random_{kind}", pointer=pointer, size=size, write=_WRITE[kind])
    return kernel_address(f"random_{kind}", text)


def _fill(kind: str, key: np.ndarray, offset: np.ndarray, out: np.ndarray, n: int, step: int) -> np.ndarray:
    if n:
        # offsets wrap like the 64-bit counter they belong to
        extras = (out.ctypes.data, int(key[0]), int(key[1]), int(np.uint64(offset).astype(np.int64)))
        jobs.run(_kernel(kind), n, (1,), ((out, (0,), step),), extras, chunk=config.CHUNK_ELEMENTS)
    return out


def random_bits(key: np.ndarray, offset: np.ndarray, *, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Uniform uint32 or uint64."""
    out = pool.empty(shape, dtype)
    return _fill("u64" if dtype.itemsize == 8 else "u32", key, offset, out, out.size, 1)


def random_pairs(key: np.ndarray, offset: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    """Both words of each index."""
    out: Any = np.empty((*shape, 2), np.uint32)
    return _fill("pairs", key, offset, out, out.size // 2, 2)


def random_order(key: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    """A permutation of every row of the last axis."""
    bits = random_bits(key, np.zeros((), np.uint64), shape=shape, dtype=np.dtype(np.uint64))
    return np.argsort(bits, axis=-1, kind="stable")


# --- distributions by rejection: element i reads the words of counters (attempt, i), so its value needs no other

SAMPLERS = '''{jit}
def uniform(k0, k1, attempt, index):
    """In (0, 1), 52 bits."""
    x0, x1 = threefry(k0, k1, uint32(attempt), uint32(index))
    return (float64(((uint64(x0) << uint64(32)) | uint64(x1)) >> uint64(12)) + 0.5) * 2.0**-52


{jit}
def log_gamma_variate(k0, k1, index, a):
    """Marsaglia and Tsang, "A simple method for generating gamma variables", 2000; a < 1 by their section 6."""
    if not (a > 0) or a == math.inf:
        return math.nan if a != a or a < 0 else (math.inf if a > 0 else -math.inf)
    boost = 0.0
    if a < 1:
        boost = math.log(uniform(k0, k1, 0, index)) / a
        a += 1
    d = a - 1 / 3
    c = 1 / math.sqrt(9 * d)
    attempt = 1
    while True:
        radius = math.sqrt(-2 * math.log(uniform(k0, k1, attempt, index)))
        x = radius * math.cos(6.283185307179586 * uniform(k0, k1, attempt + 1, index))
        t = 1 + c * x
        if t > 0:
            v = t * t * t
            u = uniform(k0, k1, attempt + 2, index)
            if math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
                return math.log(d) + math.log(v) + boost
        attempt += 3


{jit}
def poisson_variate(k0, k1, index, rate):
    """Below 10 by products of uniforms (Knuth 3.4.1), else the transformed rejection PTRS (Hoermann 1993)."""
    if not (rate > 0):
        return int64(0) if rate == 0 else int64(-1)
    if rate < 10:
        limit, product, k = math.exp(-rate), 1.0, -1
        while product > limit:
            k += 1
            product *= uniform(k0, k1, k, index)
        return int64(k)
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)
    attempt = 0
    while True:
        u = uniform(k0, k1, attempt, index) - 0.5
        v = uniform(k0, k1, attempt + 1, index)
        attempt += 2
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= v_r:
            return int64(k)
        if k < 0 or (us < 0.013 and v > us):
            continue
        chance = math.log(v * inverse / (a / (us * us) + b))
        if chance <= k * math.log(rate) - rate - math.lgamma(k + 1.0):
            return int64(k)


'''

_REJECTION = """def {name}(n, ptrs, strides):
    p, out = f64(ptrs, 0), {pointer}(ptrs, 1)
    k0, k1 = uint32(strides[3]), uint32(strides[4])
    first = (ptrs[1] - strides[2]) // 8
    for i in range(n):
        out[i] = {variate}(uint32(k0 ^ uint32((first + i) >> 32)), k1, first + i, p[i])
"""


@cache
def _rejection_kernel(variate: str, pointer: str) -> int:
    name = f"random_{variate}"
    pointers = ", ".join(sorted({"f64", pointer}))
    text = _HEADER.format(title=f"{variate} of each element by rejection.", pointers=pointers) + threefry_source()
    text += SAMPLERS.format(jit='@njit(_nrt=False, error_model="numpy")')
    return kernel_address(name, text + _REJECTION.format(name=name, pointer=pointer, variate=variate))


def _reject(variate: str, key: np.ndarray, parameter: np.ndarray, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    values = np.ascontiguousarray(np.broadcast_to(parameter, shape), np.float64)
    out: Any = np.empty(shape, dtype)
    if out.size:
        extras = (out.ctypes.data, int(key[0]), int(key[1]))
        address = _rejection_kernel(variate, "f64" if dtype is np.float64 else "i64")
        jobs.run(address, out.size, (1,), ((values, (0,), 1), (out, (0,), 1)), extras, chunk=1024)
    return out


def random_gamma(key: np.ndarray, a: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    """Logarithms of gamma variates of shape parameter a."""
    return _reject("log_gamma_variate", key, a, shape, np.float64)


def random_poisson(key: np.ndarray, rate: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    """Poisson variates; -1 for a negative or nan rate."""
    return _reject("poisson_variate", key, rate, shape, np.int64)
