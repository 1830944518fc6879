"""The kernels of sorting, as text."""

from __future__ import annotations


def key_of(kind: str, bits: int) -> str:
    """Statements from the element's bits `w` to its unsigned key `key`, in the order of the elements."""
    top = f"uint64({1 << (bits - 1):#x})"
    if kind == "u":
        return "key = uint64(w)"
    if kind == "i":
        return f"key = uint64(w) ^ {top}"
    infinite = {32: 0x7F800000, 64: 0x7FF0000000000000}[bits]
    ones = (1 << bits) - 1
    return f"""w = uint64(w)
        size = w & uint64({ones >> 1:#x})
        key = (w ^ uint64({ones:#x})) if w & {top} else (w | {top})
        key = {top} if size == uint64(0) else key
        key = uint64({ones:#x}) if size > uint64({infinite:#x}) else key"""


PACK = '''"""Words of key and place, for {bits}-bit elements of kind {kind!r}."""

from numba import uint64
from numbagrad.kernels.cpu.abi import {pointers}


def {name}(n, ptrs, strides):
    x, out = {u}(ptrs, 0), u64(ptrs, 1)
    flip, base, lead, mask = uint64(strides[2]), uint64(strides[3]), uint64(strides[4]), uint64(strides[5])
    first = ((ptrs[0] - strides[6]) // {item}) % strides[7]
    for i in range(n):
        w = x[i]
        {key}
        key = key ^ flip
        out[i] = (((key - base) << lead) & ~mask) | uint64(first + i)
'''

KEY_RANGE = '''"""Smallest and largest key of a run of {bits}-bit elements of kind {kind!r}."""

from numba import uint64
from numbagrad.kernels.cpu.abi import {pointers}


def {name}(n, ptrs, strides):
    x, out = {u}(ptrs, 0), u64(ptrs, 1)
    flip = uint64(strides[2])
    low, high = ~uint64(0), uint64(0)
    for i in range(n):
        w = x[i]
        {key}
        key = key ^ flip
        low = min(low, key)
        high = max(high, key)
    out[0] = low
    out[1] = high
'''

UNPACK = '''"""Places out of words."""

from numba import int64, uint64
from numbagrad.kernels.cpu.abi import i64, u64


def {name}(n, ptrs, strides):
    words, out = u64(ptrs, 0), i64(ptrs, 1)
    mask = uint64(strides[2])
    for i in range(n):
        out[i] = int64(words[i] & mask)
'''

# Words that agree but for the place lie in the order of places: insertion by the whole key keeps equal ones so. Keys
# that are equal cost nothing; a run that takes too many moves is given up.
MEND = '''"""Places out of sorted words, in the order of the whole {bits}-bit keys of kind {kind!r}."""

from numba import int64, njit, uint64
from numbagrad.kernels.cpu.abi import i64, u64


@njit(error_model="numpy", _nrt=False, forceinline=True)
def key_at(x, i):
        w = x[i]
        {key}
        return key


def {name}(n, ptrs, strides):
    words, out, x, failed = u64(ptrs, 0), i64(ptrs, 1), u64(ptrs, 2), i64(ptrs, 3)
    mask = uint64(strides[4])
    flip = uint64(strides[5])
    moves = 64 + 4 * n
    out[0] = int64(words[0] & mask)
    for i in range(1, n):
        place = int64(words[i] & mask)
        j = i
        if (words[i] ^ words[i - 1]) <= mask:
            key = key_at(x, place) ^ flip
            while j > 0 and (words[j - 1] ^ words[i]) <= mask and (key_at(x, out[j - 1]) ^ flip) > key:
                out[j] = out[j - 1]
                j -= 1
        out[j] = place
        moves -= i - j
        if moves < 0:
            failed[0] = 1
            for k in range(i + 1, n):
                out[k] = int64(words[k] & mask)
            return
'''

# From the front and from the back at once: a step waits for the one before (5 ms a million elements where the choice
# is a branch, 2.7 without, less with two chains). The nans, which are last in both runs, are not merged but copied.
MERGE = '''"""A piece of the merger of two sorted runs of {t}."""

from numba import int64, njit
from numbagrad.kernels.cpu.abi import {t}


@njit(error_model="numpy", _nrt=False, forceinline=True)
def numbers(a, n):
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if a[middle] == a[middle]:
            low = middle + 1
        else:
            high = middle
    return low


@njit(error_model="numpy", _nrt=False, forceinline=True)
def split(a, na, b, nb, count):
    # how many of the first `count` are from a
    low, high = max(0, count - nb), min(count, na)
    while low < high:
        middle = (low + high) // 2
        if a[middle] <= b[count - middle - 1]:
            low = middle + 1
        else:
            high = middle
    return low


def {name}(n, ptrs, strides):
    a, b, out = {t}(ptrs, 0), {t}(ptrs, 1), {t}(ptrs, 2)
    na, nb = numbers(a, strides[3]), numbers(b, strides[4])
    done = (ptrs[2] - strides[5]) // strides[6]
    first, last = min(done, na + nb), min(done + n, na + nb)
    i, ie = split(a, na, b, nb, first), split(a, na, b, nb, last)
    j, je = first - i, last - ie
    k, e = 0, last - first
    for t in range(e, n):
        at = done + t - nb
        out[t] = a[at] if at < strides[3] else b[at - strides[3] + nb]
    steps = min(ie - i, je - j) // 2
    while steps > 0:
        for m in range(steps):
            p, q = a[i], b[j]
            take = int64(p <= q)
            out[k + m] = p if take != 0 else q
            i += take
            j += 1 - take
            p, q = a[ie - 1], b[je - 1]
            take = int64(p <= q)
            out[e - 1 - m] = q if take != 0 else p
            je -= take
            ie -= 1 - take
        k += steps
        e -= steps
        steps = min(ie - i, je - j) // 2
    while k < e:
        if i < ie and (j >= je or a[i] <= b[j]):
            out[k] = a[i]
            i += 1
        else:
            out[k] = b[j]
            j += 1
        k += 1
'''

# A block of values takes each step of its binary searches together: misses of the cache overlap (gathers, where there
# are such), and nothing branches on data.
SEARCH = '''"""Where values of {t} go into a sorted line; nan is last."""

from numbagrad.kernels.cpu.abi import LANE_BLOCK, {pointers}, stack_i64


def {name}(n, ptrs, strides):
    line, x, out = {t}(ptrs, 0), {t}(ptrs, 1), i64(ptrs, 2)
    count = strides[3]
    low = stack_i64()
    for block in range(0, n, LANE_BLOCK):
        width = min(LANE_BLOCK, n - block)
        for j in range(width):
            low[j] = 0
        size = count
        while size > 0:
            half = (size + 1) // 2
            for j in range(width):
                p, q = line[low[j] + half - 1], x[block + j]
                low[j] += half if {before} else 0
            size -= half
        for j in range(width):
            out[block + j] = low[j]
'''


def before(kind: str, side: str) -> str:
    """Whether an element `p` of the line stays before `q`."""
    if kind != "f":
        return "p < q" if side == "left" else "p <= q"
    return "(p < q) | ((q != q) & (p == p))" if side == "left" else "(p <= q) | (q != q)"
