"""Compile a kernel once per machine: source text -> machine code in the cache folder -> address.

A compiled kernel is an object file that refers to nothing outside itself, so a later process maps it with
LLVM alone and never imports Numba (0.3 s, and 0.5 s more for its registries). The name of the file holds a
hash of everything the code depends on: the kernel's source, the scalar library, versions and processor.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numbagrad import config

_lock = threading.RLock()
if hasattr(os, "register_at_fork"):  # a child forked while another thread compiles would wait for it for ever
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_addresses: dict[str, int] = {}
_keep: list[Any] = []  # compiled code lives as long as the process

compilations = 0  # kernels compiled by this process (tests count on it)
loads = 0  # kernels taken from the cache folder

# Never "reassoc": it destroys two-part argument reductions. Never "contract": a * b + c * d has two ways to become
# an fma, the vector and the scalar form of a loop choose different ones, and LLVM enters one or the other by how
# near to each other the buffers happen to be. The functions of scalar/simd set it for themselves: a Horner step has
# only one way.
SCALAR_FLAGS = frozenset({"nsz"})


KERNEL = "numbagrad.kernels.cpu.abi:KERNEL_SIGNATURE"


def kernel_address(
    name: str,
    source: str,
    signature: str = KERNEL,
    flags: frozenset[str] = SCALAR_FLAGS,
    *,
    module: str = "",
    label: str = "",
) -> int:
    """Address of the function `name` of a module with this source, compiled now or found in the cache.

    `signature` says where its type is; `module` is where the function already exists; `label` names its files.
    """
    key = f"{label or name}-{_digest(source + signature + str(sorted(flags)))}"
    address = _addresses.get(key)
    if address is None:
        with _lock:
            address = _addresses.get(key)
            if address is None:
                address = _load(key) or _compile(key, name, source, signature, flags, module)
                _addresses[key] = address
    return address


def module_address(module: str, name: str, signature: str) -> int:
    """Address of a hand-written native function of a module of this package."""
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None
    return kernel_address(name, Path(spec.origin).read_text(), f"{module}:{signature}", module=module)


def _digest(text: str) -> str:
    return hashlib.sha256((_toolchain() + text).encode()).hexdigest()[:20]


@cache
def _toolchain() -> str:
    """Everything outside a kernel's own source that its machine code depends on."""
    import llvmlite.binding as llvm

    here = Path(__file__).parent
    scalar = here.parent.parent / "scalar"
    library = [scalar / "functions.py", *sorted((scalar / "simd").glob("*.py"))]
    library += [here / name for name in ("abi.py", "layout.py", "pipeline.py", "vector.py")]
    texts = hashlib.sha256(b"".join(p.read_bytes() for p in library)).hexdigest()
    versions = [importlib.metadata.version(p) for p in ("numba", "llvmlite")]
    host = [sys.version, llvm.get_host_cpu_name(), str(sorted(llvm.get_host_cpu_features().items()))]
    return "|".join([texts, *versions, *host])


@cache
def vector_bytes() -> int:
    """Width of this processor's vectors."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx2") else 16


@cache
def _engine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def _load(key: str) -> int | None:
    """Map the cached object file of a kernel, if there is one."""
    global loads
    path = config.cache_dir() / f"{key}.o"
    try:
        content = path.read_bytes()
    except OSError:
        return None
    import llvmlite.binding as llvm

    head, _, code = content.partition(b"\n")
    symbol, _, checksum = head.partition(b" ")
    if checksum != _checksum(code):  # LLVM would crash on half a file: compile again and replace it
        return None
    engine = _engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    loads += 1
    return engine.get_function_address(symbol.decode()) or None


def _checksum(code: bytes) -> bytes:
    return hashlib.sha256(code).hexdigest()[:20].encode()


def _compile(key: str, name: str, source: str, signature: str, flags: frozenset[str], module: str) -> int:
    """Compile with Numba and leave source and machine code in the cache folder."""
    global compilations
    import numba

    from numbagrad.kernels.cpu.pipeline import KernelCompiler

    folder = config.cache_dir()
    home, _, signature_name = signature.partition(":")
    declared = getattr(importlib.import_module(home), signature_name)
    if module:
        namespace = vars(importlib.import_module(module))
    else:
        path = store(folder / f"{key}.py", source.encode())
        namespace = {"__name__": f"numbagrad_{key.replace('-', '_')}", "__file__": str(path)}
        exec(compile(source, str(path), "exec"), namespace)
    options = dict(nopython=True, error_model="numpy", fastmath=set(flags), _nrt=False)
    function = numba.cfunc(declared, pipeline_class=KernelCompiler, **options)(namespace[name])
    _keep.append(function)
    compilations += 1
    library = function._library
    if not _external(library.get_llvm_str()):
        code = library._get_compiled_object()
        head = function._wrapper_name.encode() + b" " + _checksum(code)
        store(folder / f"{key}.o", head + b"\n" + code)
    return function.address


def _external(ir: str) -> list[str]:
    """Functions the code calls that a process without Numba may not have."""
    declared = [line.partition("@")[2].partition("(")[0] for line in ir.splitlines() if line.startswith("declare")]
    return [n for n in declared if not n.startswith("llvm.") and n not in _LIBC]


_LIBC = frozenset(
    f"{name}{suffix}"
    for suffix in ("", "f")
    for name in (
        "exp exp2 expm1 log log2 log10 log1p pow sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh"
        " atanh hypot sqrt fmod erf erfc lgamma tgamma cbrt floor ceil trunc rint nextafter ldexp frexp copysign"
    ).split()
) | {"memset", "memcpy", "memmove", "getcontext", "makecontext", "swapcontext"}


def store(path: Path, content: bytes) -> Path:
    """Write a file so that no other process ever sees half of it. A read-only cache is no error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        pass
    return path


def builtin(address: int, bound: Any, name: str) -> Callable[..., Any]:
    """A Python builtin that calls native code as `(self, args, nargs)` with `self` the given object."""
    import ctypes

    class MethodDef(ctypes.Structure):
        _fields_ = [
            ("name", ctypes.c_char_p),
            ("function", ctypes.c_void_p),
            ("flags", ctypes.c_int),
            ("doc", ctypes.c_char_p),
        ]

    definition = MethodDef(name.encode(), address, 0x80, None)  # METH_FASTCALL
    _keep.append(definition)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(definition), bound, None)
