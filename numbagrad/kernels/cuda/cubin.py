"""Machine code for a GPU, in the cache folder: text -> PTX (NVVM) -> cubin (nvJitLink). Neither needs a GPU.

The name of a file holds a hash of everything the code depends on, so a folder filled on one machine
(`python -m numbagrad warmup --target sm_90`) serves another that has no compiler at all.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from numbagrad import config
from numbagrad.core.errors import DeviceError, message
from numbagrad.kernels.cpu.compiler import store
from numbagrad.kernels.cuda.kernel import Kernel

compilations = 0  # kernels compiled by this process
STEP = "Install numbagrad[cuda13] (or [cuda12])."


@cache
def _toolchain() -> str:
    here = Path(__file__).parent
    scalar = here.parent.parent / "scalar"
    sources = [here / "frontend.py", scalar / "functions.py", scalar / "gpu.py"]
    return hashlib.sha256(b"".join(p.read_bytes() for p in sources)).hexdigest()


def digest(kernel: Kernel, arch: str) -> str:
    """Hash of all that a cubin depends on but the compiler's version: an older cubin is as good."""
    parts = (_toolchain(), kernel.source, kernel.name, ",".join(kernel.signature), arch)
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:20]


def path_of(kernel: Kernel, arch: str) -> Path:
    """Where the cubin is kept."""
    return config.cache_dir() / f"{kernel.name}-{digest(kernel, arch)}.{arch}.cubin"


def cubin(kernel: Kernel, arch: str) -> tuple[bytes, str]:
    """Machine code for an architecture such as "sm_90", and the name of its entry."""
    path = path_of(kernel, arch)
    try:
        head, _, code = path.read_bytes().partition(b"\n")
        entry, _, checksum = head.decode().partition(" ")
        if checksum == _checksum(code):
            return code, entry
    except OSError:
        pass
    code, entry, _ = build(kernel, arch)
    store(path, f"{entry} {_checksum(code)}".encode() + b"\n" + code)
    return code, entry


def _checksum(code: bytes) -> str:
    return hashlib.sha256(code).hexdigest()[:20]


def ptx(kernel: Kernel, arch: str) -> tuple[str, str]:
    """PTX of a kernel, and the name of its entry."""
    global compilations
    try:
        from numbagrad.kernels.cuda import frontend
    except ImportError as error:
        raise DeviceError(message(kernel.name, "no CUDA compiler", error, "numba-cuda", STEP)) from None
    compilations += 1
    number = arch.removeprefix("sm_")  # the last digit is the minor one
    types = [_numba_type(frontend, t) for t in kernel.signature]
    return frontend.compile_ptx(kernel.name, kernel.source, types, (int(number[:-1]), int(number[-1])))


def _numba_type(frontend: object, kind: str) -> object:
    base = kind.rstrip("*")
    names = {"i": "int", "u": "uint", "f": "float", "c": "complex"}
    name = {"b1": "uint8", "f16": "uint16", "bf16": "uint16"}.get(base) or names[base[0]] + base[1:]
    found = getattr(frontend, name)
    return frontend.types.CPointer(found) if kind.endswith("*") else found  # type: ignore[attr-defined]


def assemble(text: str, arch: str) -> tuple[bytes, str]:
    """Machine code of a PTX text, and what the assembler says of registers and spills."""
    try:
        from cuda.core import Linker, LinkerOptions, ObjectCode
    except ImportError as error:
        raise DeviceError(message("compile", "no CUDA linker", error, "cuda-core", STEP)) from None
    linker = Linker(ObjectCode.from_ptx(text.encode()), options=LinkerOptions(arch=arch, ptxas_options=["-v"]))
    return bytes(linker.link("cubin").code), str(linker.get_info_log())


def build(kernel: Kernel, arch: str) -> tuple[bytes, str, str]:
    """Machine code, entry, and the assembler's words."""
    text, entry = ptx(kernel, arch)
    code, log = assemble(text, arch)
    return code, entry, log
