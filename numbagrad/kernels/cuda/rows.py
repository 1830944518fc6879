"""softmax, log_softmax and the maps of their derivatives, over the last axis.

A row of up to 11264 float32 is one launch: 1 to 1024 lanes read it once into shared memory, where every lane finds its
own elements again. A longer one is reduced to what the whole row shares (reduce.py, in pieces if there are few rows),
and then written by as many blocks as it takes.
"""

# Checklist of docs/design/cuda.md: all 15 hold; no atomics; registers <= 32 (sm_90, float32), <= 68 (float64).

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from numbagrad.kernels.cpu.reduce import SUM
from numbagrad.kernels.cuda import reduce
from numbagrad.kernels.cuda.buffer import Buffer
from numbagrad.kernels.cuda.copy import contiguous
from numbagrad.kernels.cuda.kernel import THREADS, Kernel, index_type, kernel, short
from numbagrad.kernels.cuda.reduce_text import MOST, State, exchange, exponential_state, imports, state
from numbagrad.scalar.render import NAMES

SMALL_CACHE, LARGE_CACHE = (
    16384,
    45056,
)  # bytes of a block of 256 threads (full occupancy), and of one of 1024 (float64: 512)
PIECE = 8192  # elements a block writes of a row that does not fit


class Form(NamedTuple):
    """What an operation does. x and y are elements; `first` are the operands its sum needs, `cached` the ones it keeps,
    `late` the ones only its results need. `shared` is what a row has in common, once its sum is known."""

    operands: tuple[str, ...]
    first: tuple[str, ...]
    cached: tuple[str, ...]
    late: tuple[str, ...]
    term: str
    shared: str
    value: str
    kept: str = ""  # of softmax: what is kept of an element in place of it
    fresh: str = ""  # of softmax: the result from the element itself


_SHIFTED = '''@cuda.jit(device=True)
def shifted(v, m):
    """v - m. Of a row whose largest element m is infinite, every +inf has an equal share, the others have none."""
    if m - m == {T}(0):
        return {T}(v - m)
    if v == m and m > {T}(0):
        return {T}(0)
    return v if v != v else {T}(-math.inf)
'''

# An exact 0 is absorbing.
_PRODUCT = '''@cuda.jit(device=True)
def times(a, b):
    """a * b, and 0 if a is 0, whatever b is."""
    return {T}(a * b) if a != {T}(0) else {T}(0)
'''

_X, _Y, _XY = ("x",), ("y",), ("x", "y")
FORMS = {
    "softmax": Form(
        _X, _X, _X, (), "math.exp(v)", "c = {T}(0) if {total} == {T}(0) else {T}(1) / {total}", "x * c",
        "e", "math.exp(shifted(x, m)) * c",
    ),
    "log_softmax": Form(
        _X, _X, _X, (), "math.exp(v)", "c = {T}(0) if s0 == {T}(0) else {log}", "x - c", "v", "shifted(x, m) - c"
    ),
    "softmax_pull": Form(_XY, _XY, _XY, (), "times(x, y)", "c = {total}", "times({T}(x - c), y)"),
    "log_softmax_push": Form(_XY, _XY, _X, (), "times(x, math.exp(y))", "c = {total}", "x - c"),
    "log_softmax_pull": Form(_XY, _X, _X, _Y, "x", "c = {total}", "x - times(c, math.exp(y))"),
}  # fmt: skip

_HEADER = '''"""{name} of the rows of {T}{rest}."""

{imports}


{functions}

'''

_FIT = """@cuda.jit
def {name}({pointers}, out, tasks, n, lane_bits):
{shared}
    thread = uint32(cuda.threadIdx.x)
    lanes = uint32(uint32(1) << lane_bits)
    lane = uint32(thread & uint32(lanes - 1))
    task = {I}({I}({I}(cuda.blockIdx.x) * {I}({threads} >> lane_bits)) + {I}(thread >> lane_bits))
    base = {I}(task * n)
    stop = uint32(n if task < tasks else 0)  # threads without a row go along: they meet the others at barriers
    several = uint32(lanes >> 5)  # warps of a row
    warp = uint32(thread >> 5)
    neighbour = uint32(uint32(warp - uint32(warp & uint32(several - 1))) + uint32(thread & uint32(several - 1)))
{start}
    i, slot = lane, thread
    while uint32(i + uint32(3 * lanes)) < stop:
{four}
        i, slot = uint32(i + uint32(4 * lanes)), uint32(slot + {threads_4})
    while i < stop:
{one}
        i, slot = uint32(i + lanes), uint32(slot + {threads})
{middle}
{meet}
    {common}
    i, slot = lane, thread
    while i < stop:
{write}
        i, slot = uint32(i + lanes), uint32(slot + {threads})
"""

# Between reading and writing: the largest element is known, now the sum.
_MIDDLE = """{meet}
    i, slot = lane, thread
    while i < stop:
        v = shifted(cache_x[slot], m)
        e = {term}
        cache_x[slot] = {kept}
        {add_e}
        i, slot = uint32(i + lanes), uint32(slot + {threads})"""

# Every lane of a row gets what all have together: in its warp, then from the row's other warps.
_MEET = """    d = uint32(uint32(min(lanes, uint32(32))) >> 1)
    while d > 0:
{exchange}
        {merge}
        d = uint32(d >> 1)
    if lanes > 32:
        if uint32(thread & 31) == 0:
{to_shared}
        cuda.syncthreads()
{from_shared}
        d = uint32(several >> 1)
        while d > 0:
{exchange_deeper}
            {merge}
            d = uint32(d >> 1)"""

_LONG = """@cuda.jit
def {name}({pointers}, out, n, pieces, size):
    task = {I}(cuda.blockIdx.x)
    row = {I}(task // pieces)
    first = {I}({I}(task - {I}(row * pieces)) * size)
    last = {I}(first + {I}(min({I}(n - first), size)))
    base = {I}(row * n)
{start}
    {common}
    i = {I}(first + {I}(cuda.threadIdx.x))
    while {I}(i + {three}) < last:
{four}
        i = {I}(i + {threads_4})
    while i < last:
{one}
        i = {I}(i + {threads})
"""


def _indent(lines: list[str], depth: int) -> str:
    return "\n".join(" " * depth + line for line in lines)


def _meet(names: list[str], t: str, merge: str, shared: str) -> str:
    exchanges = [exchange("xor", t, f"o{name[1:]}", name, "d") for name in names]
    return _MEET.format(
        exchange=_indent(exchanges, 8),
        exchange_deeper=_indent(exchanges, 12),
        merge=merge,
        to_shared=_indent([f"{shared}{k}[warp] = {name}" for k, name in enumerate(names)], 12),
        from_shared=_indent([f"{name} = {shared}{k}[neighbour]" for k, name in enumerate(names)], 8),
    )


class _Sum(NamedTuple):
    """The texts of a sum: a pair of float32, or a float64."""

    names: list[str]
    functions: str
    total: str
    log: str

    @property
    def state(self) -> str:
        return ", ".join(self.names)

    def add(self, value: str) -> str:
        return f"{'add' if len(self.names) > 1 else 'merge'}({self.state}, {value})"

    @property
    def merge(self) -> str:
        return f"{self.state} = merge({self.state}, {self.state.replace('s', 'o')})"


def _sum(dtype: np.dtype) -> _Sum:
    functions = state(SUM, dtype, dtype).functions
    if dtype == np.float32:  # what rounding left over counts where the sum is close to 1
        return _Sum(["s0", "s1"], functions, "(s0 + s1)", "math.log(s0) + s1 / s0")
    return _Sum(["s0"], functions, "s0", "math.log(s0)")


def _renamed(text: str, k: int | str) -> str:
    """x and y of the k-th element."""
    return re.sub(r"\b([xy])\b", rf"\g<1>{k}", text)


def _slots(form: Form, dtype: np.dtype, threads: int) -> int:
    """Elements of a row that a lane can keep."""
    size = SMALL_CACHE if threads == THREADS else LARGE_CACHE
    return size // threads // dtype.itemsize // len(form.cached)


class _Texts:
    """What both kernels of an operation have in common."""

    def __init__(self, name: str, dtype: np.dtype) -> None:
        self.name, self.form, self.t, self.sum = name, FORMS[name], dtype.name, _sum(dtype)
        self.values = dict(T=self.t, total=self.sum.total, log=self.sum.log)
        self.functions = self.sum.functions + "\n\n" + (_SHIFTED if self.form.kept else _PRODUCT).format(T=self.t)
        self.common = self.form.shared.format(**self.values)

    def take(self, k: int) -> str:
        if self.form.kept:
            return f"m = x{k} if x{k} > m else m"
        return f"{self.sum.state} = {self.sum.add(_renamed(self.form.term, k))}"

    def store(self, k: int, value: str, at: str) -> str:
        return f"out[{at}] = {_renamed(value.format(**self.values), k)}"

    def finished(self, name: str, rest: str, code: str, signature: list[str]) -> Kernel:
        lines = imports(self.functions + code)
        head = _HEADER.format(name=self.name, T=self.t, rest=rest, imports=lines, functions=self.functions)
        return kernel(name, head + code, signature)


@cache
def fit_kernel(name: str, dtype: np.dtype, threads: int, index: str) -> Kernel:
    """The kernel of rows that fit in the shared memory of a block of so many threads."""
    texts = _Texts(name, dtype)
    form, t, sums = texts.form, texts.t, texts.sum
    slots = threads * _slots(form, dtype, threads)
    shared = [f"cache_{c} = cuda.shared.array({slots}, {t})" for c in form.cached]
    shared += [f"sum{k} = cuda.shared.array({MOST // 32}, {t})" for k in range(len(sums.names))]
    start = [f"{s} = {t}(0)" for s in sums.names]
    middle = ""
    if form.kept:
        shared.append(f"largest0 = cuda.shared.array({MOST // 32}, {t})")
        start.append(f"m = {t}(-math.inf)")
        meet = _meet(["m"], t, "m = o if o > m else m", "largest")
        add_e = f"{sums.state} = {sums.add('e')}"
        middle = _MIDDLE.format(meet=meet, term=form.term, kept=form.kept, add_e=add_e, threads=threads)
    four = [f"{c}{k} = {c}[base + uint32(i + uint32({k} * lanes))]" for k in range(4) for c in form.first]
    four += [f"cache_{c}[slot + {k * threads}] = {c}{k}" for k in range(4) for c in form.cached]
    one = [f"{c}0 = {c}[base + i]" for c in form.first] + [f"cache_{c}[slot] = {c}0" for c in form.cached]
    write = [f"{c}0 = cache_{c}[slot]" for c in form.cached] + [f"{c}0 = {c}[base + i]" for c in form.late]
    full = f"{name}_{NAMES[t]}_{threads}" + ("" if index == "uint32" else "_large_sizes")
    code = _FIT.format(
        name=full,
        I=index,
        pointers=", ".join(form.operands),
        shared=_indent(shared, 4),
        start=_indent(start, 4),
        four=_indent(four + [texts.take(k) for k in range(4)], 8),
        one=_indent([*one, texts.take(0)], 8),
        middle=middle,
        meet=_meet(sums.names, t, sums.merge, "sum"),
        common=texts.common,
        write=_indent([*write, texts.store(0, form.value, "base + i")], 8),
        threads=threads,
        threads_4=4 * threads,
    )
    pointers = [f"{NAMES[t]}*"] * (len(form.operands) + 1)
    return texts.finished(full, f", in blocks of {threads} threads", code, [*pointers, *[short(index)] * 2, "u32"])


@cache
def long_kernel(name: str, dtype: np.dtype, index: str) -> Kernel:
    """The kernel that writes a piece of a row, given what the row shares."""
    texts = _Texts(name, dtype)
    form, t = texts.form, texts.t
    operands = [*form.cached, *form.late]
    stats = (["m"] if form.kept else []) + texts.sum.names
    value = form.fresh or form.value
    ahead = [f"{index}(i + {k * THREADS})" if k else "i" for k in range(4)]
    four = [f"{c}{k} = {c}[base + {ahead[k]}]" for k in range(4) for c in operands]
    four += [texts.store(k, value, f"base + {ahead[k]}") for k in range(4)]
    one = [f"{c}0 = {c}[base + i]" for c in operands] + [texts.store(0, value, "base + i")]
    full = f"{name}_{NAMES[t]}_long" + ("" if index == "uint32" else "_large_sizes")
    code = _LONG.format(
        name=full,
        I=index,
        pointers=", ".join([*operands, *(f"p{k}" for k in range(len(stats)))]),
        start=_indent([f"{s} = p{k}[row]" for k, s in enumerate(stats)], 4),
        common=texts.common,
        three=3 * THREADS,
        four=_indent(four, 8),
        one=_indent(one, 8),
        threads=THREADS,
        threads_4=4 * THREADS,
    )
    pointers = [f"{NAMES[t]}*"] * (len(operands) + len(stats) + 1)
    return texts.finished(full, ", a piece of a long one a block", code, [*pointers, *[short(index)] * 3])


def long_state(name: str, dtype: np.dtype) -> State:
    """What the elements of a long row are reduced to."""
    form = FORMS[name]
    if form.kept:
        return exponential_state(dtype)
    base = state(SUM, dtype, dtype)
    if form.first == _X:
        return base
    texts = _Texts(name, dtype)
    take = re.sub(r"\b([xy])\b", r"{\1}", texts.sum.add(form.term))
    return base._replace(
        name=f"{name}_sum_{NAMES[dtype.name]}", operands=(dtype, dtype), functions=texts.functions, take=take
    )


class _Plan(NamedTuple):
    kernel: Kernel
    grid: int
    block: int
    numbers: tuple[int, ...]
    reduction: reduce.Plan | None  # of rows that do not fit


def _power(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def _plan(name: str, shape: tuple[int, ...], dtype: np.dtype) -> _Plan:
    n, rows, form = shape[-1], math.prod(shape[:-1]), FORMS[name]
    index = index_type(rows * n)
    for threads in (THREADS, 4096 // dtype.itemsize):  # float64 takes up to 70 registers: too many for 1024 threads
        slots = _slots(form, dtype, threads)
        if n <= threads * slots:
            most = 32 if rows * 32 >= THREADS * reduce.FEW else threads
            lanes = max(min(_power(-(-n // 4)), most), _power(-(-n // slots)))
            numbers = (rows, n, lanes.bit_length() - 1)
            grid = -(-rows * lanes // threads)
            return _Plan(fit_kernel(name, dtype, threads, index), grid, threads, numbers, None)
    steps = reduce.steps(long_state(name, dtype), [(False, rows), (True, n)], None)
    pieces = -(-n // PIECE)
    plan = reduce.Plan(None, False, steps)
    return _Plan(long_kernel(name, dtype, index), rows * pieces, THREADS, (n, pieces, PIECE), plan)


_plans: dict[Any, _Plan] = {}


def _rows(name: str) -> Callable[..., Buffer]:
    form = FORMS[name]
    sources = [form.operands.index(c) for c in form.first]
    late = [form.operands.index(c) for c in (*form.cached, *form.late)]

    def kernel(*operands: Buffer) -> Buffer:
        first = operands[0]
        shape, dtype, device = first.shape, first.dtype, first.device
        out = device.empty(shape, dtype)
        if not out.size:
            return out
        key = name, shape, dtype
        found = _plans.get(key)
        if found is None:
            if len(_plans) >= reduce.PLANS:
                _plans.clear()
            found = _plans[key] = _plan(name, shape, dtype)
        launched, grid, block, numbers, reduction = found
        arrays: Any = [a if a.flat else contiguous(a) for a in operands]
        if reduction is not None:
            states = reduce.run(reduction, *[arrays[k] for k in sources])
            arrays = [*[arrays[k] for k in late], *states]
        if block == THREADS:
            device.run(launched, grid, *[a.address for a in arrays], out.address, *numbers)
        else:
            device.launch(launched, grid, block, *arrays, out, *numbers)
        return out

    kernel.__name__ = name
    return kernel


softmax, log_softmax = _rows("softmax"), _rows("log_softmax")
softmax_pull = _rows("softmax_pull")
log_softmax_push, log_softmax_pull = _rows("log_softmax_push"), _rows("log_softmax_pull")
