"""The names a kernel imports from `frontend`, for kernels that are compiled for the CPU: `cuda`, types, functions.

A CUDA thread is one call of the kernel. What tells it who it is lies in the words of a launch (W_* below), as do the
hooks that hand control to another thread at a barrier (see emulator.py). Pointers carry the extent of what they point
into: an access outside is written down in the words, reads nothing and stores nothing.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import llvmlite.ir as ir
import numba
from numba import (  # noqa: F401  (names for kernels)
    boolean,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    types,
    uint8,
    uint16,
    uint32,
    uint64,
)
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

from numbagrad.kernels.cuda.checked import (  # noqa: F401  (enter, number, pointer, load and store: names for kernels)
    AT_BARRIER,
    AT_WARP,
    CONTEXT_BYTES,
    I8,
    I32,
    I64,
    W_BDIM,
    W_BID,
    W_CONTEXTS,
    W_GDIM,
    W_LANES,
    W_SHARED,
    W_STATE,
    W_THREAD,
    W_TID,
    Checked,
    current,
    enter,
    load2,
    load4,
    make_checked,
    number,
    pointer,
    store2,
    store4,
    word,
    word_at,
)
from numbagrad.scalar import functions as scalar_functions
from numbagrad.scalar import gpu, half, simd

shared_used = 0  # bytes of shared memory in the kernel being compiled; emulator.py resets it
_options: Any = dict(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)


# --- memory of a block and of a thread


@intrinsic(prefer_literal=True)
def _shared_array(typingctx, count, dtype, alignment=None):
    kind = Checked(dtype.dtype)
    given = (count, dtype, types.Omitted(None) if alignment is None else alignment)

    def codegen(context, builder, signature, args):
        global shared_used
        size = count.literal_value * context.get_abi_sizeof(context.get_data_type(kind.dtype))
        start = -(-shared_used // 16) * 16
        shared_used = start + size
        base = builder.load(word_at(builder, current(context, builder), W_SHARED))
        data = builder.inttoptr(builder.add(base, ir.Constant(I64, start)), I8.as_pointer())
        return make_checked(context, builder, kind, data, ir.Constant(I64, 0), ir.Constant(I64, count.literal_value))

    return kind(*given), codegen


@intrinsic(prefer_literal=True)
def _local_array(typingctx, count, dtype):
    kind = Checked(dtype.dtype)

    def codegen(context, builder, signature, args):
        element = context.get_data_type(kind.dtype)
        data = cgutils.alloca_once(builder, element, size=count.literal_value)
        size = count.literal_value * context.get_abi_sizeof(element)
        cgutils.memset(builder, builder.bitcast(data, I8.as_pointer()), ir.Constant(I64, size), 0xFF)
        return make_checked(context, builder, kind, data, ir.Constant(I64, 0), ir.Constant(I64, count.literal_value))

    return kind(count, dtype), codegen


# --- barriers and the exchange of values in a warp


@intrinsic
def _swap_context(typingctx, save, load):
    def codegen(context, builder, signature, args):
        both = ir.FunctionType(I32, [I8.as_pointer()] * 2)
        function = cgutils.get_or_insert_function(builder.module, both, "swapcontext")
        builder.call(function, [builder.inttoptr(a, I8.as_pointer()) for a in args])
        return context.get_dummy_value()

    return types.void(int64, int64), codegen


@intrinsic
def load64(typingctx, address):
    """The word at an address."""

    def codegen(context, builder, signature, args):
        return builder.load(builder.inttoptr(args[0], I64.as_pointer()))

    return int64(int64), codegen


@intrinsic
def store64(typingctx, address, value):
    """Set the word at an address."""

    def codegen(context, builder, signature, args):
        builder.store(args[1], builder.inttoptr(args[0], I64.as_pointer()))
        return context.get_dummy_value()

    return types.void(int64, int64), codegen


@numba.njit(**_options)
def _wait(state):
    """Hand control to the scheduler until the others have come as far."""
    thread = word(W_THREAD)
    store64(word(W_STATE) + 8 * thread, int64(state))
    contexts = word(W_CONTEXTS)
    _swap_context(contexts + CONTEXT_BYTES * (thread + 1), contexts)


@numba.njit(**_options)
def _syncthreads():
    _wait(AT_BARRIER)


@numba.njit(**_options)
def _syncwarp(mask=0xFFFFFFFF):
    _wait(AT_WARP)


@intrinsic
def _bits(typingctx, value):
    if value not in (int32, int64, float32, float64):
        return None  # as numba-cuda, which exchanges no other types

    def codegen(context, builder, signature, args):
        slot = cgutils.alloca_once(builder, I64)
        builder.store(ir.Constant(I64, 0), slot)
        builder.store(args[0], builder.bitcast(slot, args[0].type.as_pointer()))
        return builder.load(slot)

    return int64(value), codegen


@intrinsic
def _from_bits(typingctx, bits, like):
    def codegen(context, builder, signature, args):
        slot = cgutils.alloca_once(builder, I64)
        builder.store(args[0], slot)
        return builder.load(builder.bitcast(slot, args[1].type.as_pointer()))

    return like(int64, like), codegen


@numba.njit(**_options)
def _exchange(value, source):
    """What the thread `source` of this warp has brought along. The second meeting lets the slots be used again."""
    thread = word(W_THREAD)
    lanes = word(W_LANES)
    store64(lanes + 8 * thread, _bits(value))
    _wait(AT_WARP)
    found = load64(lanes + 8 * (thread - thread % 32 + source))
    _wait(AT_WARP)
    return _from_bits(found, value)


@numba.njit(**_options)
def _shfl(mask, value, source):
    return _exchange(value, int64(source) % 32)


@numba.njit(**_options)
def _shfl_down(mask, value, delta):
    lane = word(W_THREAD) % 32
    source = lane + int64(delta)
    return _exchange(value, source if source < 32 else lane)


@numba.njit(**_options)
def _shfl_up(mask, value, delta):
    lane = word(W_THREAD) % 32
    source = lane - int64(delta)
    return _exchange(value, source if source >= 0 else lane)


@numba.njit(**_options)
def _shfl_xor(mask, value, other):
    return _exchange(value, word(W_THREAD) % 32 ^ int64(other))


# --- scalar functions


def _by_type(name: str) -> Any:
    """One name for the CPU's functions of that name for float32 and float64."""

    def function(x): ...

    @overload(function)
    def choose(x):
        chosen = getattr(simd, f"{name}_{'f32' if x == float32 else 'f64'}")
        return lambda x: chosen(x)

    return function


exp2, cbrt, erfinv = _by_type("exp2"), _by_type("cbrt"), _by_type("erfinv")


def __getattr__(name: str) -> Any:
    """Scalar functions by name."""
    for home in (gpu, half, scalar_functions):
        if name in vars(home) and not name.startswith("__"):
            return vars(home)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# --- the module `cuda` as kernels see it


class _Dim3:
    """threadIdx and its like: a constant of the kernel, whose parts are read from the words."""

    def __init__(self, first: int) -> None:
        self.first = first


class _Dim3Type(types.Opaque):
    def __init__(self, first: int) -> None:
        self.first = first
        super().__init__(f"Dim3({first})")


@numba.extending.typeof_impl.register(_Dim3)
def _typeof_dim3(value, context):
    return _Dim3Type(value.first)


register_model(_Dim3Type)(models.OpaqueModel)


@numba.core.imputils.lower_constant(_Dim3Type)
def _constant_dim3(context, builder, kind, value):
    return context.get_dummy_value()


class _Dim3Attributes(numba.core.typing.templates.AttributeTemplate):
    key = _Dim3Type

    def generic_resolve(self, kind, attribute):
        return int32 if attribute in ("x", "y", "z") else None


numba.core.typing.templates.infer_getattr(_Dim3Attributes)


@numba.core.imputils.lower_getattr_generic(_Dim3Type)
def _dim3_part(context, builder, kind, value, attribute):
    place = kind.first + "xyz".index(attribute)
    return builder.trunc(builder.load(word_at(builder, current(context, builder), place)), I32)


@numba.njit(**_options)
def _grid(dimensions):
    return word(W_BID) * word(W_BDIM) + word(W_TID)


@numba.njit(**_options)
def _gridsize(dimensions):
    return word(W_BDIM) * word(W_GDIM)


def _jit(function: Any = None, *, device: bool = False, **options: Any) -> Any:
    """`@cuda.jit`: kernels and device functions alike are functions that the entry can call."""
    if function is None:
        return lambda f: _jit(f, device=device)
    return numba.njit(**_options)(function)


def _module(name: str, **members: Any) -> ModuleType:
    module = ModuleType(name)  # Numba looks names up in modules only
    vars(module).update(members)
    return module


cuda = _module(
    "cuda",
    jit=_jit,
    threadIdx=_Dim3(W_TID),
    blockIdx=_Dim3(W_BID),
    blockDim=_Dim3(W_BDIM),
    gridDim=_Dim3(W_GDIM),
    grid=_grid,
    gridsize=_gridsize,
    syncthreads=_syncthreads,
    syncwarp=_syncwarp,
    shfl_sync=_shfl,
    shfl_down_sync=_shfl_down,
    shfl_up_sync=_shfl_up,
    shfl_xor_sync=_shfl_xor,
    shared=_module("shared", array=_shared_array),
    local=_module("local", array=_local_array),
)
