"""What the generated kernels compile to: vector instructions, and nothing outside the object file."""

import numba
import numpy as np
import pytest

import numbagrad.numpy  # noqa: F401  (registers the atoms)
from numbagrad.kernels.cpu import abi, compiler
from numbagrad.kernels.cpu.map import render
from numbagrad.kernels.cpu.pipeline import KernelCompiler
from numbagrad.primitives.elementwise import map_op
from numbagrad.scalar import ATOMS, arg

# Computed one element at a time on purpose: branches or long series (see scalar/functions.py).
SCALAR = {"remainder", "floor_divide", "fmod", "sinc_derivative", "polygamma", "log_ndtr", "ndtri"}
VECTORISED = sorted(
    name
    for name, atom in ATOMS.items()
    if atom.body is None and "simd." in str(atom.code.get("f", atom.code.get("*"))) and name not in SCALAR
) + ["add", "multiply", "divide", "sqrt", "maximum", "select", "zero_product", "hypot", "clip"]


def ir_of(name, dtype, derivative):
    atom = ATOMS[name]
    op = map_op(name, (atom(*(arg(k) for k in range(atom.arity))),), atom.arity)
    if derivative:
        op = op.vjp_plan((1 << atom.arity) - 1).op
    dtypes = tuple(np.dtype(dtype) for _ in range(op.arity))
    if name == "select" and not derivative:
        dtypes = (np.dtype(bool), *dtypes[1:])
    steps = (1,) * (op.arity + op.outputs)
    title, source = render(op.name, op.exprs, dtypes, dtypes[-1:] * op.outputs, steps)
    namespace = {"__name__": "kernel_under_test"}
    exec(source, namespace)
    options = {"nopython": True, "error_model": "numpy", "_nrt": False, "pipeline_class": KernelCompiler}
    made = numba.cfunc(abi.KERNEL_SIGNATURE, fastmath=set(compiler.SCALAR_FLAGS), **options)(namespace[title])
    return made._library.get_llvm_str()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", VECTORISED)
def test_map_kernel_is_vectorised_and_calls_nothing(name, dtype):
    """A loop that LLVM does not vectorise costs 4 to 10 times as much, silently."""
    ir = ir_of(name, dtype, derivative=False)
    kind = "float" if dtype == "float32" else "double"
    assert any(f"<{n} x {kind}>" in ir for n in (4, 8, 16)), f"{name} {dtype}: no vectors"
    assert compiler._external(ir) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanh", "sin", "divide", "multiply", "sigmoid", "power", "maximum", "logaddexp"])
def test_pullback_kernel_is_vectorised(name):
    ir = ir_of(name, "float32", derivative=True)
    assert any(f"<{n} x float>" in ir for n in (8, 16)), name
