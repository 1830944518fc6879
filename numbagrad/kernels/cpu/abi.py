"""What a CPU kernel is made of: raw memory for Numba code.

Every kernel is a C function `kernel(n, ptrs, strides)` over one run of `n` elements: `ptrs[k]` is the
address of operand k, `strides[k]` its step in elements; extra integers follow the strides. Typed pointers
(`f32(ptrs, k)`) are indexed without bounds or wraparound checks, which is what lets LLVM vectorise the loop,
and compile in a third of the time of Numba arrays.
"""

from __future__ import annotations

import llvmlite.ir as ir
from numba import types
from numba.extending import intrinsic

I64 = ir.IntType(64)
WORDS = types.CPointer(types.int64)
KERNEL_SIGNATURE = types.void(types.int64, WORDS, WORDS)


def _pointer_loader(numba_type):
    """Intrinsic `(words, k)` -> typed pointer to operand k."""

    @intrinsic
    def pointer(typingctx, words, k):
        pointer_type = types.CPointer(numba_type)

        def codegen(context, builder, signature, args):
            # loaded as a pointer, not made from an integer: LLVM then knows that it is no constant table's
            place = builder.bitcast(builder.gep(args[0], [args[1]]), context.get_value_type(pointer_type).as_pointer())
            return builder.load(place)

        return pointer_type(WORDS, types.int64), codegen

    return pointer


b1 = _pointer_loader(types.uint8)  # Numba cannot load booleans through a pointer: 0 and 1 as bytes
i8, i16, i32, i64 = map(_pointer_loader, (types.int8, types.int16, types.int32, types.int64))
u8, u16, u32, u64 = map(_pointer_loader, (types.uint8, types.uint16, types.uint32, types.uint64))
f16, bf16 = u16, u16  # kernels compute with neither, see scalar/half.py
f32, f64 = map(_pointer_loader, (types.float32, types.float64))
c64, c128 = map(_pointer_loader, (types.complex64, types.complex128))


@intrinsic
def words_at(typingctx, address):
    """The int64 words at an address."""

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], I64.as_pointer())

    return WORDS(types.int64), codegen


@intrinsic
def offset(typingctx, words, count):
    """Address of `words[count]`."""

    def codegen(context, builder, signature, args):
        return builder.ptrtoint(builder.gep(args[0], [args[1]]), I64)

    return types.int64(WORDS, types.int64), codegen


@intrinsic
def int32_at(typingctx, address):
    """The C int at an address, widened."""

    def codegen(context, builder, signature, args):
        value = builder.load(builder.inttoptr(args[0], ir.IntType(32).as_pointer()))
        return builder.sext(value, I64)

    return types.int64(types.int64), codegen


def stack_of(numba_type, count, align=None):
    @intrinsic
    def scratch(typingctx):
        """Uninitialised stack memory of the calling kernel."""
        pointer_type = types.CPointer(numba_type)

        def codegen(context, builder, signature, args):
            with builder.goto_entry_block():
                block = builder.alloca(context.get_data_type(numba_type), size=count)
                block.align = align
            return builder.bitcast(block, context.get_value_type(pointer_type))

        return pointer_type(), codegen

    return scratch


LANE_BLOCK = 512  # columns a column reduction accumulates at a time: 4 KiB of float64, well inside L1
MAX_DIMS = 64
MAX_OPERANDS = 32
stack_f32, stack_f64, stack_c64, stack_c128 = (
    stack_of(t, LANE_BLOCK) for t in (types.float32, types.float64, types.complex64, types.complex128)
)
stack_i8, stack_i16, stack_i32, stack_i64 = (
    stack_of(t, LANE_BLOCK) for t in (types.int8, types.int16, types.int32, types.int64)
)
stack_u8, stack_u16, stack_u32, stack_u64 = (
    stack_of(t, LANE_BLOCK) for t in (types.uint8, types.uint16, types.uint32, types.uint64)
)
stack_operands = stack_of(types.int64, 2 * MAX_OPERANDS)
stack_grid = stack_of(types.int64, MAX_DIMS * (MAX_OPERANDS + 2))


@intrinsic
def call_kernel(typingctx, address, n, ptrs, strides):
    """Call a compiled kernel by its address."""

    def codegen(context, builder, signature, args):
        words = I64.as_pointer()
        function = ir.FunctionType(ir.VoidType(), [I64, words, words])
        builder.call(builder.inttoptr(args[0], function.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, WORDS, WORDS), codegen


def _caller(count):
    """Intrinsic that calls a C function of `count` word arguments by its address."""

    def codegen(context, builder, signature, args):
        function = ir.FunctionType(I64, [I64] * count)
        return builder.call(builder.inttoptr(args[0], function.as_pointer()), args[1:])

    return types.int64(*[types.int64] * (count + 1)), codegen


@intrinsic
def call_c1(typingctx, address, a):
    """C function of one word by its address."""
    return _caller(1)


@intrinsic
def call_c3(typingctx, address, a, b, c):
    """C function of three words by its address."""
    return _caller(3)


@intrinsic
def call_c4(typingctx, address, a, b, c, d):
    """C function of four words by its address."""
    return _caller(4)


@intrinsic
def load_word(typingctx, words, k):
    """Atomic load of `words[k]`."""

    def codegen(context, builder, signature, args):
        return builder.load_atomic(builder.gep(args[0], [args[1]]), "acquire", 8)

    return types.int64(WORDS, types.int64), codegen


@intrinsic
def swap_word(typingctx, words, k, expected, new):
    """Atomic `if words[k] == expected: words[k] = new`; whether it was."""

    def codegen(context, builder, signature, args):
        place = builder.gep(args[0], [args[1]])
        pair = builder.cmpxchg(place, args[2], args[3], "seq_cst", "acquire")
        return builder.zext(builder.extract_value(pair, 1), I64)

    return types.int64(WORDS, types.int64, types.int64, types.int64), codegen


@intrinsic
def fetch_add(typingctx, words, k, value):
    """Atomic `old = words[k]; words[k] += value`; with value 0 an atomic load."""

    def codegen(context, builder, signature, args):
        return builder.atomic_rmw("add", builder.gep(args[0], [args[1]]), args[2], "seq_cst")

    return types.int64(WORDS, types.int64, types.int64), codegen
