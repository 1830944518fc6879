"""Explicit vectors: the register tiles of convolution, and moves of part vectors.

LLVM vectorises a plain loop over a long run by itself. It does not keep a tile of sums in registers, nor does it use
vectors for runs of a few elements, which are the rows of most images.
"""

from __future__ import annotations

import llvmlite.ir as ir
from numba import types
from numba.extending import intrinsic

from numbagrad.kernels.cpu.compiler import vector_bytes

I32, I64 = ir.IntType(32), ir.IntType(64)


class _Vectors:
    """LLVM vectors of one element type in a function that is being built."""

    def __init__(self, context, builder, numba_type) -> None:
        self.builder = builder
        self.element = context.get_value_type(numba_type)
        self.width = vector_bytes() // (numba_type.bitwidth // 8)
        self.type = ir.VectorType(self.element, self.width)
        self.align = numba_type.bitwidth // 8
        self.suffix = f"v{self.width}f{numba_type.bitwidth}"
        self.mask_type = ir.VectorType(ir.IntType(1), self.width)
        self.zero = ir.Constant(self.type, [0.0] * self.width)

    def call(self, name, result, *args):
        kinds = [a.type for a in args]
        function = self.builder.module.declare_intrinsic(name, fnty=ir.FunctionType(result, kinds))
        return self.builder.call(function, args)

    def place(self, pointer, at):
        return self.builder.bitcast(self.builder.gep(pointer, [at]), self.type.as_pointer())

    def load(self, pointer, at):
        return self.builder.load(self.place(pointer, at), align=self.align)

    def store(self, value, pointer, at):
        self.builder.store(value, self.place(pointer, at), align=self.align)

    def splat(self, scalar):
        kind = ir.VectorType(scalar.type, self.width)
        one = self.builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(I32, 0))
        zeros = ir.Constant(ir.VectorType(I32, self.width), [0] * self.width)
        return self.builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)

    def prefetch(self, pointer, at):
        """Bring what will be written into the cache."""
        place = self.builder.bitcast(self.builder.gep(pointer, [at]), ir.IntType(8).as_pointer())
        self.call("llvm.prefetch.p0", ir.VoidType(), place, *(ir.Constant(I32, k) for k in (1, 3, 1)))

    def fma(self, a, b, c):
        return self.call(f"llvm.fma.{self.suffix}", self.type, a, b, c)

    def iota(self):
        return ir.Constant(ir.VectorType(I64, self.width), list(range(self.width)))

    def mask(self, low, high):
        """Lanes in [low, high)."""
        lane = ir.Constant(ir.VectorType(I32, self.width), list(range(self.width)))
        above = self.builder.icmp_signed(">=", lane, self.splat(self._lane_number(low)))
        return self.builder.and_(above, self.builder.icmp_signed("<", lane, self.splat(self._lane_number(high))))

    def _lane_number(self, k):
        """A place among the lanes, or just outside, in 32 bits: half the vectors in the comparison."""
        zero, width = ir.Constant(I64, 0), ir.Constant(I64, self.width)
        k = self.builder.select(self.builder.icmp_signed("<", k, zero), zero, k)
        k = self.builder.select(self.builder.icmp_signed(">", k, width), width, k)
        return self.builder.trunc(k, I32)

    def masked_load(self, pointer, at, mask):
        place = self.place(pointer, at)
        align = ir.Constant(I32, self.align)
        return self.call(f"llvm.masked.load.{self.suffix}.p0", self.type, place, align, mask, self.zero)

    def masked_store(self, value, pointer, at, mask):
        place, align = self.place(pointer, at), ir.Constant(I32, self.align)
        self.call(f"llvm.masked.store.{self.suffix}.p0", ir.VoidType(), value, place, align, mask)

    def gather(self, pointer, at, step, mask):
        """Elements at a step."""
        index = self.builder.add(self.splat(at), self.builder.mul(self.iota(), self.splat(step)))
        offset = self.builder.mul(index, self.splat(ir.Constant(I64, self.align)))
        address = self.builder.add(self.splat(self.builder.ptrtoint(pointer, I64)), offset)
        places = self.builder.inttoptr(address, ir.VectorType(pointer.type, self.width))
        align, none = ir.Constant(I32, self.align), self.zero
        name = f"llvm.masked.gather.{self.suffix}.v{self.width}p0"
        return self.call(name, self.type, places, align, mask, none)

    def total(self, value):
        """Sum of the lanes, in halves."""
        width, undefined = self.width, ir.Constant(self.type, ir.Undefined)
        while width > 1:
            width //= 2
            moved = [(k + width) if k < width else k for k in range(self.width)]
            turned = self.builder.shuffle_vector(value, undefined, ir.Constant(ir.VectorType(I32, self.width), moved))
            value = self.builder.fadd(value, turned)
        return self.builder.extract_element(value, ir.Constant(I32, 0))


def _loop(builder, count, carried):
    """Open a loop of `count` >= 1 rounds: its index and phis for the carried values; close it with `close(new)`."""
    function, before = builder.function, builder.block
    body, end = function.append_basic_block("rounds"), function.append_basic_block("rounds.end")
    builder.branch(body)
    builder.position_at_end(body)
    index = builder.phi(I64)
    index.add_incoming(ir.Constant(I64, 0), before)
    phis = [builder.phi(v.type) for v in carried]
    for phi, v in zip(phis, carried, strict=True):
        phi.add_incoming(v, before)

    def close(new):
        following = builder.add(index, ir.Constant(I64, 1))
        index.add_incoming(following, builder.block)
        for phi, v in zip(phis, new, strict=True):
            phi.add_incoming(v, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, count), body, end)
        builder.position_at_end(end)

    return index, phis, close


def _tile_sums(v, rows, vectors, n, a, a_at, a_row, a_step, b, b_at, b_step):
    """Sums of n products, one vector after the other, row by row: a[r * a_row + i * a_step] * b[i * b_step + j]."""
    builder = v.builder
    i, sums, close = _loop(builder, n, [v.zero] * (rows * vectors))
    b_here = builder.add(b_at, builder.mul(i, b_step))
    right = [v.load(b, builder.add(b_here, ir.Constant(I64, j * v.width))) for j in range(vectors)]
    a_here = builder.add(a_at, builder.mul(i, a_step))
    new = []
    for r in range(rows):
        at = builder.add(a_here, builder.mul(a_row, ir.Constant(I64, r)))
        left = v.splat(builder.load(builder.gep(a, [at])))
        new += [v.fma(left, right[j], sums[r * vectors + j]) for j in range(vectors)]
    close(new)
    return new


def _tile_places(v, rows, vectors, c_at, c_step):
    return [
        v.builder.add(c_at, v.builder.add(v.builder.mul(c_step, ir.Constant(I64, r)), ir.Constant(I64, j * v.width)))
        for r in range(rows)
        for j in range(vectors)
    ]


def multiply_tile(numba_type, rows, vectors, a_row, a_step):
    """Intrinsic `(n, a, a_at, b, b_at, b_step, c, c_at, c_step)`: a tile of sums of n products, kept in registers.

    c[r * c_step + j] += sum over i < n of a[r * a_row + i * a_step] * b[i * b_step + j], for r < rows and j < vectors'
    lanes; every `_at` is the place of element 0. n >= 1. The n products are added up before they meet c: long sums
    are sums of short ones, whose rounding does not grow with the length.
    """
    pointer_type = types.CPointer(numba_type)
    word = types.int64

    @intrinsic
    def tile(typingctx, n, a, a_at, b, b_at, b_step, c, c_at, c_step):
        def codegen(context, builder, signature, args):
            n, a, a_at, b, b_at, b_step, c, c_at, c_step = args
            v = _Vectors(context, builder, numba_type)
            steps = ir.Constant(I64, a_row), ir.Constant(I64, a_step)
            sums = _tile_sums(v, rows, vectors, n, a, a_at, *steps, b, b_at, b_step)
            for value, p in zip(sums, _tile_places(v, rows, vectors, c_at, c_step), strict=True):
                v.store(builder.fadd(v.load(c, p), value), c, p)
            return context.get_dummy_value()

        kinds = [word, pointer_type, word, pointer_type, word, word, pointer_type, word, word]
        return types.void(*kinds), codegen

    return tile


def matrix_tile(numba_type, rows, vectors, a_step):
    """Intrinsic `(n, a, a_at, b, b_at, c, c_at, c_step, first)`: as `multiply_tile`, of packed matrices.

    a holds its columns side by side, as many rows as a vector has lanes; b its rows. c is not read if `first`.
    """
    pointer_type = types.CPointer(numba_type)
    word = types.int64

    @intrinsic
    def tile(typingctx, n, a, a_at, b, b_at, c, c_at, c_step, first):
        def codegen(context, builder, signature, args):
            n, a, a_at, b, b_at, c, c_at, c_step, first = args
            v = _Vectors(context, builder, numba_type)
            places = _tile_places(v, rows, vectors, c_at, c_step)
            for p in places:
                v.prefetch(c, p)
            steps = ir.Constant(I64, 1), ir.Constant(I64, a_step)
            b_step = ir.Constant(I64, vectors * v.width)
            sums = _tile_sums(v, rows, vectors, n, a, a_at, *steps, b, b_at, b_step)
            with builder.if_else(builder.icmp_signed("!=", first, ir.Constant(I64, 0))) as (then, otherwise):
                with then:
                    for value, p in zip(sums, places, strict=True):
                        v.store(value, c, p)
                with otherwise:
                    for value, p in zip(sums, places, strict=True):
                        v.store(builder.fadd(v.load(c, p), value), c, p)
            return context.get_dummy_value()

        kinds = [word, pointer_type, word, pointer_type, word, pointer_type, word, word, word]
        return types.void(*kinds), codegen

    return tile


def correlate_tile(numba_type, vectors):
    """Intrinsic `(n, weights, w_at, offsets, o_at, x, x_at, out, out_at)`: out[j] = sum over i < n of
    weights[w_at + i] * x[x_at + offsets[o_at + i] + j], for j < vectors' lanes. n >= 1."""
    pointer_type, word = types.CPointer(numba_type), types.int64

    @intrinsic
    def tile(typingctx, n, weights, w_at, offsets, o_at, x, x_at, out, out_at):
        def codegen(context, builder, signature, args):
            n, weights, w_at, offsets, o_at, x, x_at, out, out_at = args
            v = _Vectors(context, builder, numba_type)
            i, sums, close = _loop(builder, n, [v.zero] * vectors)
            weight = v.splat(builder.load(builder.gep(weights, [builder.add(w_at, i)])))
            here = builder.add(x_at, builder.load(builder.gep(offsets, [builder.add(o_at, i)])))
            new = [
                v.fma(weight, v.load(x, builder.add(here, ir.Constant(I64, j * v.width))), sums[j])
                for j in range(vectors)
            ]
            close(new)
            for j, value in enumerate(new):
                v.store(value, out, builder.add(out_at, ir.Constant(I64, j * v.width)))
            return context.get_dummy_value()

        kinds = [word, pointer_type, word, types.CPointer(types.int64), word, pointer_type, word, pointer_type, word]
        return types.void(*kinds), codegen

    return tile


def dot_tile(numba_type, rows):
    """Intrinsic `(n, g, g_at, x, x_at, offsets, o_at, sums, s_at)`: products of runs of n >= 1 elements, added by lane.

    The r-th vector at sums[s_at] += g[g_at + j] * x[x_at + offsets[o_at + r] + j] over j < n, for r < rows.
    """
    pointer_type, word = types.CPointer(numba_type), types.int64

    @intrinsic
    def tile(typingctx, n, g, g_at, x, x_at, offsets, o_at, sums, s_at):
        def codegen(context, builder, signature, args):
            n, g, g_at, x, x_at, offsets, o_at, sums, s_at = args
            v = _Vectors(context, builder, numba_type)
            number = lambda k: ir.Constant(I64, k)
            read = [builder.load(builder.gep(offsets, [builder.add(o_at, number(r))])) for r in range(rows)]
            starts = [builder.add(x_at, start) for start in read]
            places = [builder.add(s_at, number(r * v.width)) for r in range(rows)]
            count = builder.sdiv(builder.add(n, number(v.width - 1)), number(v.width))
            i, totals, close = _loop(builder, count, [v.load(sums, p) for p in places])
            at = builder.mul(i, number(v.width))
            inside = v.mask(number(0), builder.sub(n, at))
            left = v.masked_load(g, builder.add(g_at, at), inside)
            new = [
                v.fma(left, v.masked_load(x, builder.add(s, at), inside), total)
                for s, total in zip(starts, totals, strict=True)
            ]
            close(new)
            for value, p in zip(new, places, strict=True):
                v.store(value, sums, p)
            return context.get_dummy_value()

        words = types.CPointer(types.int64)
        kinds = [word, pointer_type, word, pointer_type, word, words, word, pointer_type, word]
        return types.void(*kinds), codegen

    return tile


def turn_tile(numba_type):
    """Intrinsic `(out, out_at, out_step, x, x_at, x_step)`: out[i * out_step + j] = x[j * x_step + i], a square of
    as many rows as a vector has lanes."""
    pointer_type, word = types.CPointer(numba_type), types.int64

    @intrinsic
    def turn(typingctx, out, out_at, out_step, x, x_at, x_step):
        def codegen(context, builder, signature, args):
            out, out_at, out_step, x, x_at, x_step = args
            v = _Vectors(context, builder, numba_type)
            place = lambda at, step, k: builder.add(at, builder.mul(step, ir.Constant(I64, k)))
            rows = [v.load(x, place(x_at, x_step, k)) for k in range(v.width)]
            half = 1
            while half < v.width:  # swap blocks of that size across the diagonal
                for k in range(v.width):
                    if k & half == 0:
                        a, b = rows[k], rows[k + half]
                        low = [j if j & half == 0 else v.width + j - half for j in range(v.width)]
                        high = [j + half if j & half == 0 else v.width + j for j in range(v.width)]
                        kind = ir.VectorType(I32, v.width)
                        rows[k] = builder.shuffle_vector(a, b, ir.Constant(kind, low))
                        rows[k + half] = builder.shuffle_vector(a, b, ir.Constant(kind, high))
                half *= 2
            for k, row in enumerate(rows):
                v.store(row, out, place(out_at, out_step, k))
            return context.get_dummy_value()

        kinds = [pointer_type, word, word, pointer_type, word, word]
        return types.void(*kinds), codegen

    return turn


def weave(numba_type):
    """Intrinsic `(out, out_at, a, a_at, b, b_at, count)`: a[0], b[0], a[1], ... of two vectors, `count` in all."""
    pointer_type, word = types.CPointer(numba_type), types.int64

    @intrinsic
    def weave_vectors(typingctx, out, out_at, a, a_at, b, b_at, count):
        def codegen(context, builder, signature, args):
            out, out_at, a, a_at, b, b_at, count = args
            v = _Vectors(context, builder, numba_type)
            first, second = v.load(a, a_at), v.load(b, b_at)
            for half in range(2):
                done = ir.Constant(I64, half * v.width)
                order = [(k + half * v.width) // 2 + v.width * (k % 2) for k in range(v.width)]
                woven = builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(I32, v.width), order))
                there = v.mask(ir.Constant(I64, 0), builder.sub(count, done))
                v.masked_store(woven, out, builder.add(out_at, done), there)
            return context.get_dummy_value()

        return types.void(pointer_type, word, pointer_type, word, pointer_type, word, word), codegen

    return weave_vectors


def lane_total(numba_type):
    """Intrinsic `(x, at)`: the sum of a vector's lanes, in halves."""
    pointer_type = types.CPointer(numba_type)

    @intrinsic
    def total(typingctx, x, at):
        def codegen(context, builder, signature, args):
            v = _Vectors(context, builder, numba_type)
            return v.total(v.load(*args))

        return numba_type(pointer_type, types.int64), codegen

    return total


def move(numba_type, step):
    """Intrinsic `(out, out_at, x, x_at, low, high, count[, step])`: one vector of a run, zeros around what there is.

    out[j] = x[x_at + step * j] if low <= j < high else 0, for j < min(count, lanes). Reads and writes nothing else.
    Step 1, 2, or 0 for any, which is then the last operand.
    """
    pointer_type, word = types.CPointer(numba_type), types.int64

    def build(context, builder, args):
        out, out_at, x, x_at, low, high, count = args[:7]
        v = _Vectors(context, builder, numba_type)
        inside = v.mask(low, high)
        if step == 1:
            value = v.masked_load(x, x_at, inside)
        elif step == 2:  # two vectors, of which every other element is wanted; the last one's neighbour is not there
            double = lambda k: builder.sub(builder.mul(k, ir.Constant(I64, 2)), ir.Constant(I64, 1))
            low2, high2 = builder.add(double(low), ir.Constant(I64, 1)), double(high)
            width = ir.Constant(I64, v.width)
            first = v.masked_load(x, x_at, v.mask(low2, high2))
            rest = v.mask(builder.sub(low2, width), builder.sub(high2, width))
            second = v.masked_load(x, builder.add(x_at, width), rest)
            even = ir.Constant(ir.VectorType(I32, v.width), [2 * k for k in range(v.width)])
            value = builder.shuffle_vector(first, second, even)
        else:
            value = v.gather(x, x_at, args[7], inside)
        v.masked_store(value, out, out_at, v.mask(ir.Constant(I64, 0), count))
        return context.get_dummy_value()

    kinds = [pointer_type, word, pointer_type, word, word, word, word]
    if step:

        @intrinsic
        def move_vector(typingctx, out, out_at, x, x_at, low, high, count):
            return types.void(*kinds), lambda context, builder, signature, args: build(context, builder, args)
    else:

        @intrinsic
        def move_vector(typingctx, out, out_at, x, x_at, low, high, count, step):
            return types.void(*kinds, word), lambda context, builder, signature, args: build(context, builder, args)

    return move_vector
