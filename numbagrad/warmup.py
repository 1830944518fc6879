"""Compile the common kernels ahead of time, on all cores: `python -m numbagrad warmup`.

A kernel is compiled when it is first met, in some 0.1 s; a program that meets many new ones starts slowly. The
warm-up meets them all: every public elementwise function of floats with its gradient, arithmetic with scalars,
sums and extrema, convolution, pooling, order and segments. Elementwise functions are chosen from the registry, so
that a new one is warmed up without being listed.

`--target sm_90` compiles the same for a GPU, without one: the operations run on a device that only notes which kernels
they would launch. The cache folder then serves a machine that has a GPU but no compiler.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np

from numbagrad.core.dtypes import FLOATING

FLOATS = ("float32", "float64")
ARITHMETIC = ("add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "arctan2", "hypot")
PUBLIC_RULES = ("arithmetic", "float", "compare", "predicate")
Task = tuple[str, str]  # what to meet, dtype


def tasks() -> list[Task]:
    """What `meet` is called with, the slowest to compile first: the pool then ends evenly."""
    import numbagrad.numpy  # noqa: F401 - defines every atom
    from numbagrad.scalar import ATOMS

    atoms = [
        name
        for name, atom in ATOMS.items()
        if atom.rule in PUBLIC_RULES and atom.source is None and ({"f", "*"} & set(atom.code))
    ]
    work = [f"atom {name}" for name in atoms] + [f"scalar {name}" for name in ARITHMETIC]
    work += ["reduce sum", "reduce max", "reduce min", "reduce mean", "convert", "select"]
    work += [f"structural {name}" for name in _STRUCTURAL]
    order = sorted(work, key=lambda w: not w.startswith("atom"))
    return [(w, dtype) for w in order for dtype in FLOATS]


class Met(NamedTuple):
    """What became of a task."""

    name: str
    compiled: int  # kernels compiled for it
    kernels: set[str]  # all that its process has met so far
    error: str  # why it failed, or ""


def meet(task: Task, target: str = "") -> Met:
    """Run an operation and its gradient on small arrays; for a target, compile the kernels that they would launch."""
    from numbagrad.kernels.cpu import compiler

    before, error = compiler.compilations, ""
    kind, _, name = task[0].partition(" ")
    try:
        with np.errstate(all="ignore"):
            if target:
                return _meet_target(kind, name, np.dtype(task[1]), target)
            _KINDS[kind](name, np.dtype(task[1]))
    except Exception as failure:  # the others are worth having all the same
        error = f"{' '.join(task)}: {type(failure).__name__}: {failure}"
    return Met(name or kind, compiler.compilations - before, set(compiler._addresses), error)


_recorder: Any = None  # the device whose kernels are noted, in a process that compiles for a target


def _meet_target(kind: str, name: str, dtype: np.dtype, target: str) -> Met:
    global _recorder
    from numbagrad.kernels.cuda import cubin
    from numbagrad.kernels.cuda.recorder import RecordingDevice

    before, _recorder = cubin.compilations, RecordingDevice()
    if kind != "native":
        _KINDS[kind](name, dtype)
    for kernel in _recorder.kernels:
        cubin.cubin(kernel, target)
    files = {cubin.path_of(kernel, target).name for kernel in _recorder.kernels}
    return Met(name or kind, cubin.compilations - before, files, "")


def _placed(x: np.ndarray) -> Any:
    """An array where the task's operations are to run."""
    return x if _recorder is None else _recorder.put(x)


def _native(name: str, dtype: np.dtype) -> None:
    """The native functions that every other kernel is run by."""
    from numbagrad.kernels.cpu import threads
    from numbagrad.primitives.elementwise import op

    for size in (4, 1 << 17):
        op("add")(np.ones(size), np.ones(size))
    for entry in ("drive", "serve", "dismiss"):
        threads._native(entry)


def _pull(function: Callable[..., Any], values: list[np.ndarray]) -> None:
    """Forward and backward, for a cotangent that is an array and for one that is a repeated number."""
    from numbagrad.core.transform import Tape

    tape = Tape(lambda v: [function(*v)], [_placed(v) for v in values], "warmup")
    (out,) = tape.values()
    if out.dtype.kind in FLOATING:
        tape.back([_placed(np.ones(out.shape, out.dtype))])
        tape.back([_placed(np.broadcast_to(np.ones((), out.dtype), out.shape))])


def _atom(name: str, dtype: np.dtype) -> None:
    from numbagrad.primitives.elementwise import op
    from numbagrad.scalar import ATOMS

    _pull(op(name), [np.full(8, 0.5, dtype) for _ in range(ATOMS[name].arity)])


def _scalar(name: str, dtype: np.dtype) -> None:
    """x * 2.0 and 2.0 * x: the number is an operand of one element."""
    from numbagrad.primitives.elementwise import op

    x, two = np.full(8, 0.5, dtype), np.full((), 2, dtype)
    _pull(lambda v: op(name)(v, two), [x])
    _pull(lambda v: op(name)(two, v), [x])


def _reduce(name: str, dtype: np.dtype) -> None:
    import numbagrad.numpy as namespace
    from numbagrad.core.array import Array

    function = getattr(namespace, name)
    for axis in (0, 1, None):
        _pull(lambda v, axis=axis: function(Array(v), axis=axis)._value, [np.ones((4, 4), dtype)])


def _convert(name: str, dtype: np.dtype) -> None:
    from numbagrad.primitives.elementwise import convert

    for source in ("bool", "int64", *FLOATS):
        convert(_placed(np.ones(8, source)), dtype)


def _select(name: str, dtype: np.dtype) -> None:
    from numbagrad.primitives.elementwise import op

    condition, x, zero = _placed(np.ones(8, bool)), np.ones(8, dtype), np.zeros((), dtype)
    _pull(lambda a, b: op("select")(condition, a, b), [x, x])
    _pull(lambda a: op("select")(condition, a, zero), [x])


def _conv(x: Any, w: Any, **options: Any) -> Any:
    from numbagrad import lax

    return lax.conv_general_dilated(x, w, (1, 1), "SAME", **options)


def _matmul(x: Any) -> Any:
    """A product that is not left to BLAS."""
    wide = _namespace("numpy").tile(x.reshape(256, 1), (1, 40))
    return wide @ wide.T


# A public function on an array (4, 8, 8), and on a kernel where it needs one.
_STRUCTURAL: dict[str, Callable[..., Any]] = {
    "conv": lambda x: _conv(x[None], x[:, :3, :3][:, None].repeat(4, 1)),
    "conv of one channel": lambda x: _conv(x[:, None], x[:, :3, :3][:, None].repeat(4, 0)),
    "depthwise conv": lambda x: _conv(x[None], x[:, :3, :3][:, None], feature_group_count=4),
    "matmul": _matmul,
    "max_pool": lambda x: _namespace("nn").max_pool(x[None], (2, 2), (2, 2), channel_axis=1),
    "avg_pool": lambda x: _namespace("nn").avg_pool(x[None], (2, 2), (2, 2), channel_axis=1),
    "sort": lambda x: _namespace("numpy").sort(x),
    "cumsum": lambda x: _namespace("numpy").cumsum(x, 0) + _namespace("numpy").cumsum(x, 2),
    "segment_sum": lambda x: _namespace("ops").segment_sum(x, [0, 1, 1, 0]),
    "segment_max": lambda x: _namespace("ops").segment_max(x, [0, 1, 1, 0]),
    "softmax": lambda x: _namespace("nn").softmax(x) + _namespace("nn").log_softmax(x),
}


def _namespace(name: str) -> Any:
    import importlib

    return importlib.import_module(f"numbagrad.{name}")


def _structural(name: str, dtype: np.dtype) -> None:
    from numbagrad.core.array import Array

    _pull(lambda v: _STRUCTURAL[name](Array(v))._value, [np.ones((4, 8, 8), dtype)])


_KINDS: dict[str, Callable[[str, np.dtype], None]] = {
    "native": _native,
    "atom": _atom,
    "scalar": _scalar,
    "reduce": _reduce,
    "convert": _convert,
    "select": _select,
    "structural": _structural,
}


def results(workers: int, work: list[Task], target: str = "") -> Iterator[Met]:
    """`meet` over a pool of processes, in the order they finish."""
    # spawned, not forked: a fork copies Numba's locks and the worker threads' state
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        first: Task = ("native", "float64")
        yield pool.submit(meet, first, target).result()  # alone: all others need what it compiles
        for future in as_completed([pool.submit(meet, task, target) for task in work]):
            yield future.result()


def warmup(
    workers: int | None = None, only: str | None = None, stream: Any = None, target: str | None = None
) -> list[str]:
    """Compile the common kernels (those whose name contains `only`); what could not be compiled, and why.

    `target`: an NVIDIA architecture such as "sm_90", to compile for it in place of this processor.
    """
    from numbagrad import config

    stream = stream or sys.stderr
    work = [t for t in tasks() if only is None or only in t[0]]
    workers = min(workers or os.cpu_count() or 1, len(work) + 1)
    # each process is one of the workers already: no threads below it
    os.environ["NUMBAGRAD_NUM_THREADS"] = "1"
    compiled, kernels, errors, start = 0, set[str](), list[str](), time.perf_counter()
    for done, met in enumerate(results(workers, work, target or "")):
        compiled += met.compiled
        kernels |= met.kernels
        errors += [met.error] if met.error else []
        show_progress(stream, done, len(work), met.name, time.perf_counter() - start)
    if stream.isatty():
        stream.write("\r\x1b[K")
    found = max(0, len(kernels) - compiled)
    seconds = time.perf_counter() - start
    kind = f" for {target}" if target else ""
    print(f"{compiled} kernels compiled{kind}, {found} found in {config.cache_dir()} ({seconds:.1f} s)")
    return errors


def show_progress(stream: Any, done: int, total: int, name: str, seconds: float) -> None:
    """A bar on one line of a terminal; nothing into a file."""
    if not stream.isatty():
        return
    width = 30
    filled = width * done // max(1, total)
    stream.write(f"\r\x1b[K[{'#' * filled}{'.' * (width - filled)}] {done}/{total} {seconds:3.0f} s  {name}")
    stream.flush()
