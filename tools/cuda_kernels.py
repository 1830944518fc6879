"""Compile CUDA kernels without a GPU and say what became of them: registers, spills, float64 instructions, size.

    python tools/cuda_kernels.py                 a table of all kernels of the registry for sm_90
    python tools/cuda_kernels.py --arch sm_80    for another architecture
    python tools/cuda_kernels.py --write         renew tests/cuda_baseline.json (both architectures)

The figures come from the assembler (nvJitLink) and from the disassembled code (nvdisasm). tests/test_cuda_code.py
checks them against the limits and against the stored baseline.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
BASELINE = ROOT / "tests" / "cuda_baseline.json"
ARCHITECTURES = ("sm_80", "sm_90")
FLOAT64 = re.compile(r"^(D(ADD|MUL|FMA|SETP|MNMX)|MUFU\.(RCP|RSQ)64|(F2F|I2F|F2I)\S*F64)")
LOCAL = re.compile(r"^(LDL|STL)")


@cache
def disassembler() -> str | None:
    """Path of nvdisasm, from the package nvidia-cuda-nvdisasm or a toolkit."""
    import shutil

    try:
        import nvidia

        for folder in nvidia.__path__:
            found = sorted(Path(folder).glob("**/bin/nvdisasm"))
            if found:
                return str(found[0])
    except ImportError:
        pass
    return shutil.which("nvdisasm")


def instructions(code: bytes) -> list[str]:
    """Opcodes of a cubin's machine code."""
    tool = disassembler()
    assert tool is not None, "nvdisasm: not found. Install nvidia-cuda-nvdisasm."
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        text = subprocess.run([tool, "-c", file.name], capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", text, re.M)
    return [op for op in lines if op != "NOP"]


def figures(kernel: Any, arch: str) -> dict[str, int]:
    """What the assembler made of a kernel."""
    from numbagrad.kernels.cuda import cubin

    text, _ = cubin.ptx(kernel, arch)
    code, log = cubin.assemble(text, arch)
    found = Counter()
    for op in instructions(code):
        found["instructions"] += 1
        found["float64"] += bool(FLOAT64.match(op))
        found["local"] += bool(LOCAL.match(op))
    head = text[text.index(".visible .entry") :].split("{")[0]

    def number(pattern: str) -> int:
        match = re.search(pattern, log)
        return int(match[1]) if match else 0

    return {
        "registers": number(r"Used (\d+) registers"),
        "spills": number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads"),
        "shared": number(r"(\d+) bytes smem"),
        "instructions": found["instructions"],
        "float64": found["float64"],
        "local": found["local"],
        "parameters": len(re.findall(r"\.param ", head)),
    }


def toolchain() -> str:
    """Versions that the figures depend on."""
    return ", ".join(f"{p} {version(p)}" for p in ("numba-cuda", "nvidia-nvvm", "nvidia-nvjitlink"))


def survey(kernels: Iterable[tuple[str, Any]], arch: str) -> dict[str, dict[str, int]]:
    """Figures by kernel; what was surveyed before with the same compiler is taken from the cache folder."""
    from numbagrad import config
    from numbagrad.kernels.cpu.compiler import store
    from numbagrad.kernels.cuda import cubin

    found = {}
    for name, k in kernels:
        key = hashlib.sha256(f"{toolchain()}{inspect.getsource(figures)}{cubin.digest(k, arch)}".encode()).hexdigest()
        path = config.cache_dir() / f"{key[:24]}.figures"
        try:
            found[name] = json.loads(path.read_text())
        except (OSError, ValueError):
            found[name] = figures(k, arch)
            store(path, json.dumps(found[name]).encode())
    return found


def label(kernel: Any) -> str:
    """A kernel's name and parameters."""
    return f"{kernel.name}({', '.join(kernel.signature)})"


def labelled(kernels: Iterable[Any]) -> list[tuple[str, Any]]:
    """Kernels with the labels that the baseline knows them by; a number tells those apart that differ in text alone."""
    found: dict[str, Any] = {}
    for k in sorted(kernels, key=lambda k: (label(k), k.source)):
        name, count = label(k), 1
        while name in found:
            count += 1
            name = f"{label(k)} {count}"
        found[name] = k
    return sorted(found.items())


# Kernels with float32 operands that compute in float64 on purpose, by the beginning of their names.
DOUBLE = {
    "polygamma": "a sum over many terms that cancel",
    "sinc_derivative": "a recurrence that cancels",
    "log_ndtr": "differences of erfc far out in the tail",
    "ndtri": "the inverse of a tail probability",
    "normal_hazard": "a quotient of tail probabilities",
    "gamma_function": "exp of log gamma, whose error grows with its value",
    "digamma_vjp": "its derivative is polygamma",
    "prod_f32": "the range of the partial products",
    "random_gamma": "the rejection test is that of the CPU's stream",
    "random_poisson": "the rejection test is that of the CPU's stream",
}
# Registers a thread may use: 64 let blocks of 1024 threads run. Blocks of 256 may have more: register tiles, scans and
# sorts that keep their elements, rejection samplers.
REGISTERS = {
    "gemm": 128, "conv": 128, "cum": 96, "linear_recurrence": 112, "sort": 72, "random_poisson": 72, "random_gamma": 72,
}  # fmt: skip
MOST_REGISTERS = 64


def faults(kernel: Any, row: dict[str, int]) -> list[str]:
    """What is wrong with a kernel's figures."""
    wrong = []
    single = not any(t.rstrip("*") in ("f64", "c128", "c64") for t in kernel.signature)
    if row["spills"]:
        wrong.append(f"{row['spills']} bytes of spilled registers")
    if single and row["float64"] and not kernel.name.startswith(tuple(DOUBLE)):
        wrong.append(f"{row['float64']} float64 instructions")
    if single and row["local"] and not kernel.name.startswith(tuple(DOUBLE)):
        wrong.append(f"{row['local']} accesses to local memory")
    most = next((n for start, n in REGISTERS.items() if kernel.name.startswith(start)), MOST_REGISTERS)
    if row["registers"] > most:
        wrong.append(f"{row['registers']} registers, more than {most}")
    if row["shared"] > 48 * 1024:
        wrong.append(f"{row['shared']} bytes of shared memory")
    if row["parameters"] != len(kernel.signature):
        wrong.append(f"{row['parameters']} parameters in the PTX, {len(kernel.signature)} in the signature")
    return wrong


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--part", default="0/1", help="of all kernels the k-th of n parts, as k/n")
    parser.add_argument("--json", action="store_true", help="figures and what is wrong with them, for the tests")
    parser.add_argument("--write", action="store_true", help="renew the stored baseline")
    options = parser.parse_args()
    from cuda_kernels_of import collect

    part, parts = map(int, options.part.split("/"))
    kernels = [pair for pair in labelled(collect()) if options.only in pair[0]][part::parts]
    if options.write:
        rows = {arch: survey(kernels, arch) for arch in ARCHITECTURES}
        kept = {a: {k: [r["registers"], r["instructions"]] for k, r in rows[a].items()} for a in rows}
        lines = [f'"toolchain": {json.dumps(toolchain())}']
        lines += [
            f'"{a}": {{\n' + ",\n".join(f"{json.dumps(k)}: {v}" for k, v in sorted(kept[a].items())) + "}" for a in kept
        ]
        BASELINE.write_text("{" + ",\n".join(lines) + "}\n")
        return
    found = survey(kernels, options.arch)
    if options.json:
        print(json.dumps({name: [found[name], faults(k, found[name])] for name, k in kernels}))
        return
    for name, k in kernels:
        row, wrong = found[name], faults(k, found[name])
        print(f"{name:80s} " + " ".join(f"{n} {v}" for n, v in row.items() if v), *[f"<- {w}" for w in wrong])


if __name__ == "__main__":
    main()
