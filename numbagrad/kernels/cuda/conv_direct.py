"""Texts of convolutions without tiles: a thread a result (few output channels, few products), or the threads of a
block for some results of the weight gradient (depthwise, or few products)."""

# Checklist of docs/design/cuda.md: walked together with conv.py, which says the result.

from __future__ import annotations

from functools import cache

import numpy as np

from numbagrad.kernels.cuda import conv_axes, sums
from numbagrad.kernels.cuda.gemm import accumulator
from numbagrad.kernels.cuda.kernel import THREADS, Kernel, kernel, short
from numbagrad.kernels.cuda.places import quotient_text
from numbagrad.scalar.render import NAMES

_HEADER = '''"""{title} of {T}, {count} axes."""

from numbagrad.kernels.cuda.frontend import {names}


'''

_PROJECT = """@cuda.jit
def {name}({parameters}):
    i = {I}(cuda.grid(1))
    if i < n:
{apart}
        plane = {plane}
        origin = {I}({I}({I}(batch * groups) + group) * {I}(depth * plane))
        w_origin = {I}({I}(group * w_group) + {I}(target * w_target))
        absorbing = uint32(0)  # only what is not finite is computed again with absorbing zeros
        again = True
        while again:
            high, low = {A}(0), {A}(0)
            base, w_base = origin, w_origin
            channel = {I}(0)
            while channel < depth:
{loops}
                base, w_base = {I}(base + plane), {I}(w_base + w_depth)
                channel = {I}(channel + 1)
            again = {again}
            absorbing = flags
        out[i] = {T}({result})
"""

_WEIGHT = """@cuda.jit
def {name}({parameters}):
    highs = cuda.shared.array({threads}, {A})
    lows = cuda.shared.array({threads}, {A})
    me = uint32(cuda.threadIdx.x)
    lane = {I}(me >> shift)  # of the threads that share a result
    lanes = {I}({threads} >> shift)
    i = {I}({I}({I}(cuda.blockIdx.x) << shift) + {I}(me & uint32((1 << shift) - 1)))
    part = {I}(cuda.blockIdx.y)
    first = {I}(part * span)
    last = {I}(min({I}(first + span), products))
    high, low = {A}(0), {A}(0)
    if i < n:
{apart}
        each = {I}(first + lane)
        while each < last:
{plain}
            each = {I}(each + lanes)
    highs[me] = high
    lows[me] = low
    cuda.syncthreads()
    # a tree over the lanes: those of one result lie 1 << shift apart
    half = uint32({half})
    while half >= uint32(1 << shift):
        if me < half:
            other = uint32(me + half)
            high, low = merge(highs[me], lows[me], highs[other], lows[other])
            highs[me] = high
            lows[me] = low
        cuda.syncthreads()
        half = uint32(half >> 1)
    if lane == 0 and i < n:
        high, low = highs[me], lows[me]
{mend}
        out[{I}({I}(part * n) + i)] = {O}(total(high, low))
"""

_MEND = """        if flags != 0 and not (total(high, low) - total(high, low) == {A}(0)):
            high, low = {A}(0), {A}(0)
            each = first
            while each < last:
{absorbing}
                each = {I}(each + 1)
"""

_FINISH = '''"""Sum of the parts of results of {T}."""

from numbagrad.kernels.cuda.frontend import {names}


{sums}

@cuda.jit
def {name}(parts, out, n, count):
    i = {I}(cuda.grid(1))
    if i < n:
        high, low = {A}(0), {A}(0)
        part = {I}(0)
        at = i
        while part < count:
            high, low = add(high, low, parts[at])
            at, part = {I}(at + n), {I}(part + 1)
        out[i] = {T}(total(high, low))
'''


def _indent(lines: list[str], depth: int) -> str:
    return "\n".join(" " * 4 * depth + line for line in lines)


def absorbed(a: str, b: str, flags: str, acc: str) -> str:
    """Whether a product counts as 0: flag 1 makes zeros of a absorbing, flag 2 those of b."""
    return f"({flags} & 1) != 0 and {a} == {acc}(0) or ({flags} & 2) != 0 and {b} == {acc}(0)"


def _header(title: str, dtype: np.dtype, count: int, index: str, acc: np.dtype) -> str:
    names = sorted({"cuda", "uint32", "uint64", index, dtype.name, acc.name})
    return _HEADER.format(title=title, T=dtype.name, count=count, names=", ".join(names))


@cache
def project_kernel(dtype: np.dtype, count: int, plain: bool, precise: bool, index: str) -> Kernel:
    """conv and conv_input, a thread a result. `precise`: sums in pairs, for many products."""
    acc = accumulator(dtype)
    a, t, i = acc.name, NAMES[dtype.name], short(index)
    given = [("source", f"{t}*"), ("weights", f"{t}*"), ("out", f"{t}*"), ("n", i), ("flags", "u32")]
    given += [*conv_axes.divisor("groups", index), *conv_axes.divisor("targets", index), ("depth", i)]
    given += [("w_group", i), ("w_target", i), ("w_depth", i)]
    for k in range(count):
        given += [*conv_axes.divisor(f"outputs{k}", index), *conv_axes.parameters(k, plain, index)]
    places = [f"p{k}" for k in range(count)]
    lengths = [f"outputs{k}" for k in range(count)]
    apart = conv_axes.take_apart("i", ["group", "target", *places], ["groups", "targets", *lengths], "batch", index)
    apart += [conv_axes.begin(k, plain, index) for k in range(count)]
    fma = f"high, low = add(high, low, {a}(u * v))" if precise else f"high = {a}(high + u * v)"
    body = [f"u, v = {a}(source[{index}(base + place)]), {a}(weights[{index}(w_base + tap)])"]
    if acc.kind in "fc":
        body += [f"if not ({absorbed('u', 'v', 'absorbing', a)}):", f"    {fma}"]
    else:
        body.append(fma)
    loops = conv_axes.nest(count, plain, index, body, numbers=True)
    name = f"conv_direct_{t}_{count}" + "".join(
        s for s, yes in (("_phases", not plain), ("_precise", precise), ("_large", index != "uint32")) if yes
    )
    result = "total(high, low)" if precise else "high"
    text = _PROJECT.format(
        name=name, parameters=", ".join(p for p, _ in given), I=index, A=a, T=dtype.name, apart=_indent(apart, 2),
        plane=conv_axes.product([f"n{k}" for k in range(count)], index), loops=_indent(loops, 4), result=result,
        again=f"flags != absorbing and not ({result} - {result} == {a}(0))" if acc.kind in "fc" else "False",
    )  # fmt: skip
    text = quotient_text(index) + conv_axes.helpers(plain, index) + text
    text = _header("Convolution without tiles", dtype, count, index, acc) + (
        sums.text(acc) + "\n\n" + text if precise else text
    )
    return kernel(name, text, [kind for _, kind in given])


@cache
def weight_kernel(dtype: np.dtype, split: bool, count: int, plain: bool, index: str) -> Kernel:
    """conv_weight; the axes' roles are exchanged: positions are taps, and the taps that read are the places.

    `split`: `out` is of the accumulator's type, a part after the other.
    """
    acc = accumulator(dtype)
    a, t, i = acc.name, NAMES[dtype.name], short(index)
    out = acc if split else dtype
    given = [("x", f"{t}*"), ("g", f"{t}*"), ("out", f"{NAMES[out.name]}*"), ("n", i), ("flags", "u32")]
    given += [("shift", "u32"), ("span", i), ("products", i), ("groups", i)]
    given += [*conv_axes.divisor("targets", index), *conv_axes.divisor("depth", index)]
    for k in range(count):
        given += [*conv_axes.divisor(f"outputs{k}", index), *conv_axes.parameters(k, plain, index)]
        given += conv_axes.divisor(f"counts{k}", index)
    each = [[f"{letter}{k}" for k in range(count)] for letter in ("p", "outputs", "j", "counts", "t", "r", "n", "taps")]
    places, lengths, numbers, counts, reads, sources, sizes, outputs = each
    apart = conv_axes.take_apart("i", ["target", "channel", *places], ["targets", "depth", *lengths], "group", index)
    apart += [conv_axes.begin(k, plain, index) for k in range(count)]
    term = [
        *conv_axes.take_apart("each", numbers, counts, "image", index),
        *conv_axes.pick(count, plain, index),
        "if there:",
        f"    row = {index}({index}(image * groups) + group)",
        f"    plane = {index}({index}({index}(row * depth) + channel) * {conv_axes.product(sizes, index)})",
        f"    u = {a}(x[{index}(plane + {conv_axes.flat(sources, sizes, index)})])",
        f"    plane = {index}({index}({index}(row * targets) + target) * {conv_axes.product(outputs, index)})",
        f"    v = {a}(g[{index}(plane + {conv_axes.flat(reads, outputs, index)})])",
    ]
    plain_term = [*term, f"    high, low = add(high, low, {a}(u * v))"]
    mend = ""
    if acc.kind in "fc":
        careful = [*term, f"    if not ({absorbed('u', 'v', 'flags', a)}):"]
        careful.append(f"        high, low = add(high, low, {a}(u * v))")
        mend = _MEND.format(A=a, I=index, absorbing=_indent(careful, 4))
    name = f"conv_weight_direct_{t}_{count}" + "".join(
        s for s, yes in (("_phases", not plain), ("_split", split), ("_large", index != "uint32")) if yes
    )
    text = _WEIGHT.format(
        name=name, parameters=", ".join(p for p, _ in given), I=index, A=a, O=out.name, threads=THREADS,
        half=THREADS // 2, apart=_indent(apart, 2), plain=_indent(plain_term, 3), mend=mend,
    )  # fmt: skip
    text = sums.text(acc) + "\n\n" + quotient_text(index) + conv_axes.helpers(plain, index) + text
    return kernel(
        name, _header("Weight gradient without tiles", dtype, count, index, acc) + text, [kind for _, kind in given]
    )


@cache
def finish_kernel(dtype: np.dtype, index: str) -> Kernel:
    """Results from their parts, added in order."""
    acc = accumulator(dtype)
    name = f"conv_finish_{NAMES[dtype.name]}" + ("" if index == "uint32" else "_large")
    names = ", ".join(sorted({"cuda", index, acc.name, dtype.name}))
    text = _FINISH.format(T=dtype.name, A=acc.name, I=index, name=name, sums=sums.text(acc), names=names)
    return kernel(name, text, [f"{NAMES[acc.name]}*", f"{NAMES[dtype.name]}*", short(index), short(index)])
