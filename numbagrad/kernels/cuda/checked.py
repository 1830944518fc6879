"""Words of an emulated launch, and pointers that know their extent: what emulated.py and emulator.py are made of.

An access outside is written down in the words, reads nothing and stores nothing.
"""

from __future__ import annotations

import operator
from typing import Any

import llvmlite.ir as ir
from numba import int64, types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

# --- the words of a launch
(
    W_ERROR,  # one of the errors below; then who and where
    W_INDEX,
    W_LOW,
    W_HIGH,
    W_AT_THREAD,
    W_AT_BLOCK,
    W_THREAD,  # the running thread of the block: linear, then x, y, z
    W_TID,
    W_TID_Y,
    W_TID_Z,
    W_BID,
    W_BID_Y,
    W_BID_Z,
    W_BDIM,
    W_BDIM_Y,
    W_BDIM_Z,
    W_GDIM,
    W_GDIM_Y,
    W_GDIM_Z,
    W_SHARED,  # address of the block's shared memory
    W_LANES,  # address of two slots per thread, for values on their way between the threads of a warp
    W_STATE,  # address of a word per thread: ready, at a barrier, at a warp's meeting, done
    W_CONTEXTS,  # address of the threads' contexts, the scheduler's own first
    W_PARAMS,  # from here the kernel's parameters: pointers take three words (address, low, high), numbers one
) = range(24)
OUTSIDE, DIVERGED, WARP_DIVERGED = 1, 2, 3
READY, AT_BARRIER, AT_WARP, DONE = range(4)
CONTEXT_BYTES = 5120  # room for a ucontext_t: 968 bytes on x86-64, 4560 on aarch64
SHARED_BYTES = 48 * 1024

I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
WORDS = types.CPointer(types.int64)
ENTRY_SIGNATURE = types.void(WORDS)


def current(context: Any, builder: Any) -> Any:
    """The words of the running launch: a variable that every call of a kernel sets first."""
    module = builder.module
    name = "numbagrad_emulated_words"
    found = module.globals.get(name)
    if found is None:
        found = ir.GlobalVariable(module, I64.as_pointer(), name)
        found.linkage = "linkonce_odr"
        found.initializer = ir.Constant(I64.as_pointer(), None)
    return builder.load(found)


def word_at(builder: Any, words: Any, k: Any) -> Any:
    return builder.gep(words, [ir.Constant(I64, k) if isinstance(k, int) else k])


@intrinsic
def enter(typingctx, words):
    """Make these the words of the running launch."""

    def codegen(context, builder, signature, args):
        current(context, builder)
        builder.store(args[0], builder.module.globals["numbagrad_emulated_words"])
        return context.get_dummy_value()

    return types.void(WORDS), codegen


@intrinsic(prefer_literal=True)
def word(typingctx, k):
    """Word k of the running launch."""
    place = k.literal_value

    def codegen(context, builder, signature, args):
        return builder.load(word_at(builder, current(context, builder), place))

    return types.int64(k), codegen


@intrinsic(prefer_literal=True)
def set_word(typingctx, k, value):
    """Set word k of the running launch."""
    place = k.literal_value

    def codegen(context, builder, signature, args):
        builder.store(args[1], word_at(builder, current(context, builder), place))
        return context.get_dummy_value()

    return types.void(k, types.int64), codegen


# --- pointers with an extent


class Checked(types.Type):
    """A pointer to elements of a type, of which those from `low` to `high` - 1 may be touched."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(f"Checked({dtype})")


@register_model(Checked)
class _CheckedModel(models.StructModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, [("data", types.CPointer(kind.dtype)), ("low", int64), ("high", int64)])


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args, kws):
        if isinstance(args[0], Checked) and isinstance(args[1], types.Integer):
            return signature(args[0].dtype, args[0], args[1])
        return None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args, kws):
        if isinstance(args[0], Checked) and isinstance(args[1], types.Integer):
            return signature(types.none, args[0], args[1], args[0].dtype)
        return None


def _inside(context: Any, builder: Any, kind: Any, pointer: Any, index: Any, index_type: Any, count: int = 1) -> Any:
    """Address of an element and whether it may be touched; if not, that is written down."""
    view = cgutils.create_struct_proxy(kind)(context, builder, value=pointer)
    i = context.cast(builder, index, index_type, int64)
    last = builder.add(i, ir.Constant(I64, count - 1))
    good = builder.and_(builder.icmp_signed(">=", i, view.low), builder.icmp_signed("<", last, view.high))
    with builder.if_then(builder.not_(good), likely=False):
        words = current(context, builder)
        first = builder.icmp_signed("==", builder.load(word_at(builder, words, W_ERROR)), ir.Constant(I64, 0))
        with builder.if_then(first):
            block = builder.load(word_at(builder, words, W_BID))
            thread = builder.load(word_at(builder, words, W_THREAD))
            for k, value in (
                (W_ERROR, ir.Constant(I64, OUTSIDE)),
                (W_INDEX, i),
                (W_LOW, view.low),
                (W_HIGH, view.high),
                (W_AT_THREAD, thread),
                (W_AT_BLOCK, block),
            ):
                builder.store(value, word_at(builder, words, k))
    return builder.gep(view.data, [i]), good


@lower_builtin(operator.getitem, Checked, types.Integer)
def _load(context, builder, sig, args):
    place, good = _inside(context, builder, sig.args[0], args[0], args[1], sig.args[1])
    kind = context.get_value_type(sig.return_type)
    result = cgutils.alloca_once(builder, kind)
    builder.store(ir.Constant(kind, None), result)
    with builder.if_then(good):
        builder.store(builder.load(place), result)
    return builder.load(result)


@lower_builtin(operator.setitem, Checked, types.Integer, types.Any)
def _store(context, builder, sig, args):
    place, good = _inside(context, builder, sig.args[0], args[0], args[1], sig.args[1])
    value = context.cast(builder, args[2], sig.args[2], sig.args[0].dtype)
    with builder.if_then(good):
        builder.store(value, place)
    return context.get_dummy_value()


def make_checked(context: Any, builder: Any, kind: Any, data: Any, low: Any, high: Any) -> Any:
    view = cgutils.create_struct_proxy(kind)(context, builder)
    view.data = builder.bitcast(data, context.get_value_type(types.CPointer(kind.dtype)))
    view.low, view.high = low, high
    return view._getvalue()


@intrinsic(prefer_literal=True)
def pointer(typingctx, words, k, dtype):
    """The pointer parameter that starts at word k."""
    kind, place = Checked(dtype.dtype), k.literal_value

    def codegen(context, builder, signature, args):
        address, low, high = (builder.load(word_at(builder, args[0], place + j)) for j in range(3))
        return make_checked(context, builder, kind, builder.inttoptr(address, I8.as_pointer()), low, high)

    return kind(WORDS, k, dtype), codegen


@intrinsic(prefer_literal=True)
def number(typingctx, words, k, dtype):
    """The number at word k, of any type of up to 8 bytes."""
    kind, place = dtype.dtype, k.literal_value

    def codegen(context, builder, signature, args):
        at = builder.bitcast(word_at(builder, args[0], place), context.get_value_type(kind).as_pointer())
        return builder.load(at)

    return kind(WORDS, k, dtype), codegen


# --- vectors of 2 or 4 neighbours


def _vector_pair(width: int) -> tuple[Any, Any]:
    @intrinsic
    def load(typingctx, p, i):
        """`width` neighbours from p[i] on, which lie at a multiple of their size."""
        if not isinstance(p, Checked):
            return None
        kind = types.UniTuple(p.dtype, width)

        def codegen(context, builder, signature, args):
            place, good = _inside(context, builder, p, args[0], args[1], signature.args[1], width)
            element = context.get_value_type(p.dtype)
            slot = cgutils.alloca_once(builder, ir.ArrayType(element, width))
            builder.store(ir.Constant(ir.ArrayType(element, width), None), slot)
            with builder.if_then(good):
                for k in range(width):
                    value = builder.load(builder.gep(place, [ir.Constant(I64, k)]))
                    builder.store(value, builder.gep(slot, [ir.Constant(I32, 0), ir.Constant(I32, k)]))
            return builder.load(slot)

        return kind(p, i), codegen

    @intrinsic
    def store(typingctx, p, i, values):
        """The same, stored."""
        if not isinstance(p, Checked):
            return None

        def codegen(context, builder, signature, args):
            place, good = _inside(context, builder, p, args[0], args[1], signature.args[1], width)
            items = cgutils.unpack_tuple(builder, args[2], width)
            with builder.if_then(good):
                for k, item in enumerate(items):
                    value = context.cast(builder, item, signature.args[2].types[k], p.dtype)
                    builder.store(value, builder.gep(place, [ir.Constant(I64, k)]))
            return context.get_dummy_value()

        return types.void(p, i, values), codegen

    return load, store


load2, store2 = _vector_pair(2)
load4, store4 = _vector_pair(4)
