"""`python -m numbagrad info | warmup | cache`: what is installed, kernels ahead of time, the kernel cache."""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from numbagrad import config

# name-hash.o is machine code, name-hash.py the source it was compiled from, name-hash.sm_90.cubin code for a GPU
KERNEL_FILE = re.compile(r"\w+-[0-9a-f]{20}\.(o|py|sm_\d+\.cubin)")


def kernel_files() -> list[Path]:
    """The files of the cache that are ours: nothing else in the folder is counted or removed."""
    folder = config.cache_dir()
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if KERNEL_FILE.fullmatch(p.name))


def cache_summary() -> str:
    """Number of kernels and size on disk."""
    files = kernel_files()
    size = sum(p.stat().st_size for p in files)
    return f"{sum(p.suffix != '.py' for p in files)} kernels, {size / 1e6:.1f} MB"


def version(package: str) -> str:
    """Installed version, or that there is none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def blas() -> str:
    """The library that matrix products run on, as NumPy was built."""
    import numpy as np

    found = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    return f"{found.get('name', 'unknown')} {found.get('version', '')} (NumPy's)"


def processor() -> str:
    """The processor kernels are compiled for."""
    import llvmlite.binding as llvm

    wide = [f for f in ("avx512f", "avx2", "neon", "sve") if llvm.get_host_cpu_features().get(f)]
    return f"{llvm.get_host_cpu_name()} {platform.machine()}" + (f", {wide[0]}" if wide else "")


def cuda() -> str:
    """What of CUDA is installed."""
    parts = {p: version(p) for p in ("numba-cuda", "cuda-core", "nvmath-python")}
    if all(v == "not installed" for v in parts.values()):
        return "not installed (pip install numbagrad[cuda13])"
    return ", ".join(f"{p} {v}" for p, v in parts.items())


def info(arguments: argparse.Namespace) -> int:
    """Print what a bug report needs."""
    import numbagrad

    threads = config.num_threads()
    rows = {
        "numbagrad": numbagrad.__version__,
        **{p: version(p) for p in ("numpy", "numba", "llvmlite", "scipy")},
        "python": f"{platform.python_version()} ({platform.python_implementation()}, {platform.system()})",
        "devices": ", ".join(numbagrad.devices()),
        "processor": processor(),
        "threads": f"{threads}: the caller and {threads - 1} worker threads, asleep between large kernels",
        "BLAS": blas(),
        "CUDA": cuda(),
        "cache": f"{config.cache_dir()} ({cache_summary()})",
    }
    for name, value in rows.items():
        print(f"{name:<10} {value}")
    return 0


def warm(arguments: argparse.Namespace) -> int:
    """Compile the common kernels."""
    from numbagrad.warmup import warmup

    errors = warmup(arguments.jobs, arguments.only, target=arguments.target)
    for error in errors[:3]:
        print(f"warmup: {error}", file=sys.stderr)
    if errors[3:]:
        print(f"warmup: {len(errors) - 3} more could not be compiled", file=sys.stderr)
    return 1 if errors else 0


def cache(arguments: argparse.Namespace) -> int:
    """Print where the cache is and how large, or remove its kernels."""
    if arguments.action == "clear":
        before = cache_summary()
        for path in kernel_files():
            path.unlink(missing_ok=True)  # another process may have removed it meanwhile
        print(f"{config.cache_dir()}: removed {before}")
    else:
        print(f"{config.cache_dir()}: {cache_summary()}")
    return 0


def architecture(text: str) -> str:
    """An NVIDIA architecture as written on the command line."""
    if not re.fullmatch(r"sm_\d{2,3}", text):
        raise argparse.ArgumentTypeError(f"not an NVIDIA architecture: got {text}; needed e.g. sm_80 or sm_90")
    return text


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m numbagrad", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="command")
    commands.add_parser("info", help="versions, processor, threads, cache").set_defaults(run=info)
    warming = commands.add_parser("warmup", help="compile the common kernels on all cores")
    warming.add_argument("--jobs", type=int, help="processes (default: the number of cores)")
    warming.add_argument("--only", help="only the operations whose name contains this")
    warming.add_argument("--target", type=architecture, help="compile for this NVIDIA GPU instead, such as sm_90")
    warming.set_defaults(run=warm)
    caching = commands.add_parser("cache", help="the folder of compiled kernels: where, how many, how large")
    caching.add_argument("action", nargs="?", choices=["show", "clear"], default="show")
    caching.set_defaults(run=cache)
    return top


def main(words: Sequence[str] | None = None) -> int:
    """Run a command."""
    arguments = parser().parse_args(words)
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
