"""Compiled emulation: the same kernels as on a GPU, run on the CPU one CUDA thread after the other.

A kernel without barriers is simply called for every thread. Otherwise each thread of a block is a coroutine that runs
until it waits: at `syncthreads` for the block, at `syncwarp` and in shuffles for its warp. Blocks run one by one.

What hardware would pass over in silence is an error here: accesses outside a buffer, threads that wait at different
places, and races: every launch runs twice, with blocks and threads in opposite order, and both must give the same
bits. Fresh memory and the shared memory of a block are filled with nan (all bits set).
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from numbagrad.core.errors import KernelError
from numbagrad.kernels.cpu.compiler import kernel_address, module_address
from numbagrad.kernels.cuda import checked, emulated
from numbagrad.kernels.cuda.checked import (
    AT_BARRIER,
    AT_WARP,
    CONTEXT_BYTES,
    DIVERGED,
    DONE,
    I8,
    I32,
    I64,
    OUTSIDE,
    READY,
    SHARED_BYTES,
    W_AT_BLOCK,
    W_AT_THREAD,
    W_BDIM,
    W_BDIM_Y,
    W_BDIM_Z,
    W_BID,
    W_BID_Y,
    W_BID_Z,
    W_CONTEXTS,
    W_ERROR,
    W_GDIM,
    W_GDIM_Y,
    W_GDIM_Z,
    W_HIGH,
    W_INDEX,
    W_LANES,
    W_LOW,
    W_PARAMS,
    W_SHARED,
    W_STATE,
    W_THREAD,
    W_TID,
    W_TID_Y,
    W_TID_Z,
    WARP_DIVERGED,
)
from numbagrad.kernels.cuda.emulated import load64, store64

STACK_BYTES = 64 * 1024  # of a coroutine
MAX_THREADS = 1024
_lock = threading.RLock()  # one launch at a time: the words of a launch are found through a variable of the process

DRIVE_SIGNATURE = types.int64(types.CPointer(types.int64), types.int64, types.int64, types.int64, types.int64)


@intrinsic
def _call_entry(typingctx, address, words):
    """Call a compiled kernel for one thread."""

    def codegen(context, builder, signature, args):
        import llvmlite.ir as ir

        function = ir.FunctionType(ir.VoidType(), [I64.as_pointer()])
        builder.call(builder.inttoptr(args[0], function.as_pointer()), [args[1]])
        return context.get_dummy_value()

    return types.void(types.int64, types.CPointer(types.int64)), codegen


@intrinsic
def _prepare_context(typingctx, context_address, entry, words, stack):
    """A context that calls the kernel on a stack of its own, and then goes back to the scheduler's."""

    def codegen(context, builder, signature, args):
        import llvmlite.ir as ir

        at, entry, words, stack = args
        pointer = builder.inttoptr(at, I8.as_pointer())
        one = ir.FunctionType(I32, [I8.as_pointer()])
        builder.call(cgutils.get_or_insert_function(builder.module, one, "getcontext"), [pointer])
        scheduler = builder.load(builder.gep(words, [ir.Constant(I64, W_CONTEXTS)]))
        # ucontext_t: flags, link, and the stack's place, flags and size
        for offset, value in (
            (8, scheduler),
            (16, stack),
            (24, ir.Constant(I64, 0)),
            (32, ir.Constant(I64, STACK_BYTES)),
        ):
            place = builder.inttoptr(builder.add(at, ir.Constant(I64, offset)), I64.as_pointer())
            builder.store(value, place)
        many = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I8.as_pointer(), I32], var_arg=True)
        make = cgutils.get_or_insert_function(builder.module, many, "makecontext")
        function = builder.inttoptr(entry, I8.as_pointer())
        builder.call(make, [pointer, function, ir.Constant(I32, 1), words])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.CPointer(types.int64), types.int64), codegen


@intrinsic
def _switch(typingctx, save, load):
    """Run another context until it hands control back."""

    def codegen(context, builder, signature, args):
        import llvmlite.ir as ir

        both = ir.FunctionType(I32, [I8.as_pointer()] * 2)
        function = cgutils.get_or_insert_function(builder.module, both, "swapcontext")
        builder.call(function, [builder.inttoptr(a, I8.as_pointer()) for a in args])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


_helper = njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)


@_helper
def _become(words, thread):
    """Set the running thread."""
    words[W_THREAD] = thread
    words[W_TID] = thread % words[W_BDIM]
    words[W_TID_Y] = thread // words[W_BDIM] % words[W_BDIM_Y]
    words[W_TID_Z] = thread // (words[W_BDIM] * words[W_BDIM_Y])


@_helper
def _count(states, first, last, state):
    found = 0
    for thread in range(first, last):
        found += load64(states + 8 * thread) == state
    return found


@_helper
def _release(states, first, last, waiting):
    for thread in range(first, last):
        if load64(states + 8 * thread) == waiting:
            store64(states + 8 * thread, READY)


@_helper
def _run_ready(words, first, last, backwards):
    """Let the ready threads of a warp run until each waits or is done."""
    states, contexts = words[W_STATE], words[W_CONTEXTS]
    for k in range(last - first):
        thread = last - 1 - k if backwards else first + k
        if load64(states + 8 * thread) == READY:
            _become(words, thread)
            _switch(contexts, contexts + CONTEXT_BYTES * (thread + 1))
            if load64(states + 8 * thread) == READY:
                store64(states + 8 * thread, DONE)


@_helper
def _run_warp(words, first, last, backwards):
    """Run a warp until all of its threads are at the block's barrier or done; False if they wait apart."""
    states = words[W_STATE]
    while True:
        _run_ready(words, first, last, backwards)
        meeting = _count(states, first, last, AT_WARP)
        if meeting == 0:
            return True
        if meeting != last - first:
            return False
        _release(states, first, last, AT_WARP)


@_helper
def _run_block(words, entry, stacks, threads, backwards):
    """All threads of a block as coroutines; the error, or 0."""
    states, contexts = words[W_STATE], words[W_CONTEXTS]
    for thread in range(threads):
        store64(states + 8 * thread, READY)
        place = contexts + CONTEXT_BYTES * (thread + 1)
        _prepare_context(place, entry, words, stacks + STACK_BYTES * thread)
    warps = (threads + 31) // 32
    while True:
        for k in range(warps):
            first = 32 * (warps - 1 - k if backwards else k)
            if not _run_warp(words, first, min(first + 32, threads), backwards):
                return WARP_DIVERGED
        waiting = _count(states, 0, threads, AT_BARRIER)
        if waiting == 0:
            return 0
        if waiting != threads:
            return DIVERGED
        _release(states, 0, threads, AT_BARRIER)


@_helper
def _poison(words):
    """Fill the shared memory with nan."""
    for place in range(words[W_SHARED], words[W_SHARED] + SHARED_BYTES, 8):
        store64(place, -1)


def drive(words, entry, stacks, waits, backwards):
    """Run every thread of a launch; 0, or the error."""
    threads = words[W_BDIM] * words[W_BDIM_Y] * words[W_BDIM_Z]
    blocks = words[W_GDIM] * words[W_GDIM_Y] * words[W_GDIM_Z]
    for k in range(blocks):
        block = blocks - 1 - k if backwards else k
        words[W_BID] = block % words[W_GDIM]
        words[W_BID_Y] = block // words[W_GDIM] % words[W_GDIM_Y]
        words[W_BID_Z] = block // (words[W_GDIM] * words[W_GDIM_Y])
        if waits:
            _poison(words)
            error = _run_block(words, entry, stacks, threads, backwards)
            if error:
                words[W_ERROR] = error
                words[W_AT_BLOCK] = block
                return error
        else:
            for j in range(threads):
                _become(words, threads - 1 - j if backwards else j)
                _call_entry(entry, words)
        if words[W_ERROR] != 0:
            return words[W_ERROR]
    return 0


# --- compiling and launching


def entry_source(name: str, source: str, signature: Sequence[str]) -> str:
    """A kernel's text with a function that calls it for the thread whose turn it is."""
    text = source.replace("numbagrad.kernels.cuda.frontend", emulated.__name__) + _library_line()
    place, parameters = W_PARAMS, []
    for kind in signature:
        form = "pointer" if kind.endswith("*") else "number"
        parameters.append(f"_emulated.{form}(words, {place}, _emulated.{TYPES[kind.rstrip('*')]})")
        place += 3 if kind.endswith("*") else 1
    lines = ["", "", "from numbagrad.kernels.cuda import emulated as _emulated", "", ""]
    lines += ["def entry(words):", "    _emulated.enter(words)", f"    {name}({', '.join(parameters)})"]
    return text + "\n".join(lines) + "\n"


@cache
def _library_line() -> str:
    """The machine code depends on the emulated library, so its hash is part of the text."""
    texts = b"".join(Path(str(module.__file__)).read_bytes() for module in (checked, emulated))
    return f"\n# {hashlib.sha256(texts).hexdigest()}\n"


TYPES = {
    **{f"{'iu'[u]}{bits}": f"{'u' * u}int{bits}" for u in (0, 1) for bits in (8, 16, 32, 64)},
    "b1": "uint8",
    "f16": "uint16",
    "bf16": "uint16",
    "f32": "float32",
    "f64": "float64",
    "c64": "complex64",
    "c128": "complex128",
}
_BARRIER = re.compile(r"\bcuda\.(sync|shfl_)")
_SHARED = re.compile(r"\bcuda\.shared\b")


class EmulatedKernel:
    """A compiled kernel: how to call it, and whether its threads wait for each other."""

    def __init__(self, name: str, source: str, signature: Sequence[str]) -> None:
        text = entry_source(name, source, signature)
        with _lock:
            emulated.shared_used = 0
            self.address = kernel_address("entry", text, f"{checked.__name__}:ENTRY_SIGNATURE", label=name)
            if emulated.shared_used > SHARED_BYTES:
                raise KernelError(
                    f"{name}: too much shared memory: got {emulated.shared_used}; needed <= {SHARED_BYTES}."
                )
        self.name, self.signature = name, tuple(signature)
        self.waits = bool(_BARRIER.search(source) or _SHARED.search(source))


@cache
def _drive() -> Any:
    import ctypes

    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3)
    return kind(module_address(__name__, "drive", "DRIVE_SIGNATURE"))


@cache
def _memory() -> dict[str, np.ndarray]:
    """What the coroutines of a block need; made once, for the largest block."""
    return {
        "shared": np.empty(SHARED_BYTES // 8 + 2, np.int64),
        "lanes": np.zeros(MAX_THREADS, np.int64),
        "states": np.zeros(MAX_THREADS, np.int64),
        "contexts": np.zeros(CONTEXT_BYTES * (MAX_THREADS + 1) + 64, np.uint8),
        "stacks": np.empty(STACK_BYTES * MAX_THREADS + 64, np.uint8),
    }


def _aligned(array: np.ndarray) -> int:
    return -(-array.ctypes.data // 16) * 16


def words_of(kernel: EmulatedKernel, grid: Sequence[int], block: Sequence[int], params: Sequence[Any]) -> np.ndarray:
    """A launch as words. Parameters: (address, low, high) of a pointer, or a number."""
    memory = _memory()
    words = np.zeros(W_PARAMS + 3 * len(params), np.int64)
    words[W_BDIM : W_BDIM + 3], words[W_GDIM : W_GDIM + 3] = block, grid
    words[W_SHARED] = _aligned(memory["shared"])
    words[W_LANES], words[W_STATE] = memory["lanes"].ctypes.data, memory["states"].ctypes.data
    words[W_CONTEXTS] = _aligned(memory["contexts"])
    place = W_PARAMS
    for kind, value in zip(kernel.signature, params, strict=True):
        if kind.endswith("*"):
            words[place : place + 3] = value
            place += 3
        else:
            cell = words[place : place + 1].view(TYPES[kind])
            cell[0] = value
            place += 1
    return words


def launch(
    kernel: EmulatedKernel,
    grid: Sequence[int],
    block: Sequence[int],
    params: Sequence[Any],
    written: Sequence[np.ndarray],
) -> None:
    """Run a kernel in both orders. `written` is the memory its pointers lead to, which must come out the same."""
    with _lock:
        before = [m.copy() for m in written]
        _run(kernel, grid, block, params, backwards=True)
        other = [m.copy() for m in written]
        for memory, old in zip(written, before, strict=True):
            memory[...] = old
        _run(kernel, grid, block, params, backwards=False)
    for k, (memory, found) in enumerate(zip(written, other, strict=True)):
        if not np.array_equal(memory, found):
            where = np.flatnonzero(memory != found)
            raise KernelError(
                f"{kernel.name}: a race: got other bytes at {where[:4]} of buffer {k} with threads in opposite order;"
                " needed one result. Put a barrier between writing and reading."
            )


def _run(
    kernel: EmulatedKernel, grid: Sequence[int], block: Sequence[int], params: Sequence[Any], backwards: bool
) -> None:
    words = words_of(kernel, grid, block, params)
    stacks = _aligned(_memory()["stacks"])
    error = _drive()(words.ctypes.data, kernel.address, stacks, kernel.waits, backwards)
    if error:
        raise KernelError(_message(kernel.name, error, words))


def _message(name: str, error: int, words: np.ndarray) -> str:
    where = f"block {words[W_AT_BLOCK]}"
    if error == OUTSIDE:
        return (
            f"{name}: an access outside a buffer: got index {words[W_INDEX]} in thread {words[W_AT_THREAD]} of {where};"
            f" needed {words[W_LOW]} <= index < {words[W_HIGH]}."
        )
    what = "a barrier" if error == DIVERGED else "a shuffle or syncwarp"
    return f"{name}: some threads of {where} wait at {what} and others do not. Call it in all of them."
