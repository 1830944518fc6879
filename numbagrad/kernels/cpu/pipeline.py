"""Numba's compiler with a plain C entry: what a kernel is compiled with.

Numba's own C entry prints an exception that the function raised. No kernel raises, but wherever LLVM cannot prove
it, that code stays and refers to Numba's runtime: such an object file could not be mapped without Numba. Imported
only when something is compiled.
"""

from __future__ import annotations

import importlib
from functools import cache, partial
from typing import Any

import llvmlite.ir as ir
from numba.core.compiler import Compiler
from numba.np import linalg


def _import_array_functions() -> None:
    """Load Numba's array functions without SciPy's linear algebra, which they import only to see that it is there.

    It is (this package requires SciPy), no kernel uses it, and it is a tenth of a first call's time.
    """
    check = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = check


_import_array_functions()


def _plain_entry(context: Any, library: Any, fndesc: Any, env: Any, call_helper: Any) -> None:
    """A C function that calls the compiled one and ignores its status."""
    module = context.create_module("entry")
    callee = ir.Function(
        module, context.call_conv.get_function_type(fndesc.restype, fndesc.argtypes), fndesc.llvm_func_name
    )
    values = [context.get_value_type(t) for t in fndesc.argtypes]
    signature = ir.FunctionType(context.get_value_type(fndesc.restype), values)
    entry = ir.Function(module, signature, fndesc.llvm_cfunc_wrapper_name)
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    _, out = context.call_conv.call_function(builder, callee, fndesc.restype, fndesc.argtypes, entry.args)
    builder.ret(out)
    library.add_ir_module(module)


@cache
def _with_plain_entry(context: Any) -> Any:
    """Numba's target with that entry (made once: a target of its own loads all registries again)."""
    return context.subtarget(create_cfunc_wrapper=partial(_plain_entry, context))


class KernelCompiler(Compiler):
    """The `pipeline_class` of a kernel."""

    def __init__(self, typingctx: Any, targetctx: Any, *rest: Any) -> None:
        super().__init__(typingctx, _with_plain_entry(targetctx), *rest)
