"""Compile CUDA kernels without a GPU and say what became of them: registers, spills, float64 instructions, size.

    python tools/cuda_kernels.py                 a table of all kernels of the registry for sm_90
    python tools/cuda_kernels.py --arch sm_80    for another architecture
    python tools/cuda_kernels.py --write         renew tests/cuda_baseline.json (both architectures)

The figures come from the assembler (nvJitLink) and from the disassembled code (nvdisasm). tests/test_cuda_code.py
checks them against the limits and against the stored baseline.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
BASELINE = ROOT / "tests" / "cuda_baseline.json"
ARCHITECTURES = ("sm_80", "sm_90")
DOUBLE = re.compile(r"^(D(ADD|MUL|FMA|SETP|MNMX)|MUFU\.(RCP|RSQ)64|(F2F|I2F|F2I)\S*F64)")
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
        found["float64"] += bool(DOUBLE.match(op))
        found["local"] += bool(LOCAL.match(op))
    head = text.split("{")[0]

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


def registry_kernels() -> list[Any]:
    """Kernels of every primitive's samples and of every atom's value and first derivative, in float32 and int32."""
    from cuda_kernels_of import collect

    return collect()


def survey(kernels: Iterable[Any], arch: str) -> dict[str, dict[str, int]]:
    """Figures by kernel."""
    kernels = list(kernels)
    return {label(k): figures(k, arch) for k in kernels}


def label(kernel: Any) -> str:
    """A kernel's name and parameters, as the baseline knows it."""
    return f"{kernel.name}({', '.join(kernel.signature)})"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--write", action="store_true", help="renew the stored baseline")
    options = parser.parse_args()
    kernels = registry_kernels()
    if options.write:
        found = {arch: survey(kernels, arch) for arch in ARCHITECTURES}
        BASELINE.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")
        return
    for name, row in sorted(survey(kernels, options.arch).items()):
        print(f"{name:70s} " + " ".join(f"{k} {v}" for k, v in row.items()))


if __name__ == "__main__":
    main()
