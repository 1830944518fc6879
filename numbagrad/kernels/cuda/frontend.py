"""The one module that knows which compiler turns `@cuda.jit` functions into PTX: numba-cuda today.

Kernels import from here `cuda`, the number types, and the functions that `math` lacks; emulated.py has the same names.
Compiling needs no GPU. To move to another front-end, change this module: nothing else imports numba-cuda.
"""

from __future__ import annotations

import re
import threading
import types as python_types
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.ir as ir
from numba import (  # noqa: F401  (names for kernels)
    boolean,
    complex64,
    complex128,
    cuda,
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
from numba.cuda import dispatcher
from numba.extending import intrinsic

from numbagrad.scalar import functions as scalar_functions
from numbagrad.scalar import gpu, half

_lock = threading.Lock()
_I32 = ir.IntType(32)


def _libdevice(name: str, arity: int = 1) -> Any:
    """The function of NVIDIA's mathematical library for the operands' type."""

    def emit(context, builder, signature, args):
        kind = args[0].type
        full = f"__nv_{name}{'f' if kind == ir.FloatType() else ''}"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * arity), full)
        return builder.call(function, args)

    def unary(typingctx, x):
        return x(x), emit

    def binary(typingctx, x, y):
        return x(x, x), emit

    return intrinsic(binary if arity == 2 else unary)


exp2, cbrt, erfinv = _libdevice("exp2"), _libdevice("cbrt"), _libdevice("erfinv")
float_fmod = _libdevice("fmod", 2)  # LLVM's frem is not exact here
round_even, truncate = _libdevice("rint"), _libdevice("trunc")
round_down, round_up, copy_sign = _libdevice("floor"), _libdevice("ceil"), _libdevice("copysign", 2)
type_of = scalar_functions.type_of
_OWN = dict(
    float_fmod=float_fmod, round_even=round_even, truncate=truncate, round_down=round_down, round_up=round_up,
    copy_sign=copy_sign,
)  # fmt: skip


def _device_function(function: Callable[..., Any]) -> Any:
    """A plain scalar function compiled for the GPU: what it calls is this module's."""
    called = {name: globals()[name] for name in function.__code__.co_names if name in _OWN}
    for name in function.__code__.co_names:
        found = function.__globals__.get(name)
        plain = getattr(found, "py_func", None)
        if name not in called and plain is not None:
            called[name] = _device_function(plain)
    scope = {**function.__globals__, **called}
    return cuda.jit(device=True)(python_types.FunctionType(function.__code__, scope, function.__name__))


def __getattr__(name: str) -> Any:
    """Scalar functions by name, made when a kernel first imports one."""
    for home in (gpu, half, scalar_functions):
        if name in vars(home) and not name.startswith("__"):
            found = vars(home)[name]
            made = _device_function(found.py_func) if hasattr(found, "py_func") else found
            globals()[name] = made
            return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# --- vectors of 2 or 4 neighbours: one instruction of 128 bits, which no other spelling gives


def _vector_pair(width: int) -> tuple[Any, Any]:
    def address(context: Any, builder: Any, pointer: Any, index: Any, kind: Any) -> Any:
        i = context.cast(builder, index, kind, types.int64)
        element = builder.gep(pointer, [i])
        kind = pointer.type.pointee
        parts = kind.elements if isinstance(kind, ir.BaseStructType) else [kind]  # complex: two
        return builder.bitcast(element, ir.VectorType(parts[0], width * len(parts)).as_pointer())

    @intrinsic
    def load(typingctx, p, i):
        """`width` neighbours from p[i] on, which lie at a multiple of their size."""
        kind = types.UniTuple(p.dtype, width)

        def codegen(context, builder, signature, args):
            place = address(context, builder, *args, signature.args[1])
            vector = builder.load(place)
            vector.align = width * context.get_abi_sizeof(args[0].type.pointee)
            items = [builder.extract_element(vector, ir.Constant(_I32, k)) for k in range(vector.type.count)]
            if len(items) > width:
                items = [cgutils.pack_struct(builder, items[k : k + 2]) for k in range(0, len(items), 2)]
            return context.make_tuple(builder, kind, items)

        return kind(p, i), codegen

    @intrinsic
    def store(typingctx, p, i, values):
        """The same, stored."""

        def codegen(context, builder, signature, args):
            place = address(context, builder, args[0], args[1], signature.args[1])
            vector = ir.Constant(place.type.pointee, ir.Undefined)
            values = [
                context.cast(builder, item, signature.args[2].types[k], p.dtype)
                for k, item in enumerate(cgutils.unpack_tuple(builder, args[2], width))
            ]
            if vector.type.count > width:
                values = [part for value in values for part in cgutils.unpack_tuple(builder, value, 2)]
            for k, value in enumerate(values):
                vector = builder.insert_element(vector, value, ir.Constant(_I32, k))
            builder.store(vector, place, align=width * context.get_abi_sizeof(args[0].type.pointee))
            return context.get_dummy_value()

        return types.void(p, i, values), codegen

    return load, store


load2, store2 = _vector_pair(2)
load4, store4 = _vector_pair(4)


# --- compiling


def compile_ptx(name: str, source: str, signature: Sequence[Any], capability: tuple[int, int]) -> tuple[str, str]:
    """PTX of the kernel `name` of a module's text, and the name of its entry. `signature` is of Numba types."""
    namespace: dict[str, Any] = {"__name__": f"numbagrad_cuda_{name}"}
    with _lock:
        usual = dispatcher.get_current_device
        # device functions ask the current GPU what to compile for: it may be another, or none
        dispatcher.get_current_device = lambda: python_types.SimpleNamespace(compute_capability=capability)
        try:
            exec(compile(source, f"<{name}>", "exec"), namespace)
            text, _ = cuda.compile_ptx(namespace[name].py_func, tuple(signature), cc=capability)
        finally:
            dispatcher.get_current_device = usual
    entry = re.search(r"\.visible \.entry (\w+)", text)
    assert entry is not None, f"{name}: no entry in the PTX"
    return text, entry[1]
