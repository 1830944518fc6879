"""The speed phases of gpu_check.py: operations against other libraries, and what decisions of the design are worth.

A figure is the time of many calls and one wait, divided by their number: where the GPU is the bottleneck it is the
GPU's time, where the host is, the host's. Inputs rotate, so that large ones are not found in a cache. Bandwidth is what
an operation must read and write at least, against what a copy by the driver reaches.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as onp

Op = tuple[str, Callable[..., Any], int]  # name, function of a namespace and arrays, passes over memory


class Library:
    """How a library makes arrays, waits, and what its functions are called."""

    def __init__(
        self, name: str, put: Callable[[Any], Any], wait: Callable[[Any], None], functions: dict[str, Any]
    ) -> None:
        self.name, self.put, self.wait, self.functions = name, put, wait, functions


def ours(device: str) -> Library:
    import numbagrad as ng
    import numbagrad.numpy as np
    from numbagrad import nn

    def loss(w, v, x, t):
        return np.mean((np.tanh(x @ w) @ v - t) ** 2)

    return Library(
        "numbagrad",
        lambda a: ng.device_put(a, device),
        lambda out: ng.block_until_ready(out),
        dict(
            add=lambda x, y: x + y,
            tanh=np.tanh,
            sum=np.sum,
            rows=lambda x: np.sum(x, 1),
            columns=lambda x: np.sum(x, 0),
            softmax=nn.softmax,
            transpose=lambda x: x.T.reshape(-1),
            cumsum=lambda x: np.cumsum(x, 1),
            sort=lambda x: np.sort(x, 1),
            matmul=lambda x, y: x @ y,
            step=ng.grad(loss, (0, 1)),
        ),
    )


def torch_library(device: str) -> Library:
    import torch

    place = "cpu" if device.endswith("emulated") else "cuda"

    def step(w, v, x, t):
        w, v = w.detach().requires_grad_(), v.detach().requires_grad_()
        return torch.autograd.grad((((x @ w).tanh() @ v - t) ** 2).mean(), (w, v))

    return Library(
        "torch",
        lambda a: torch.from_numpy(a).to(place),
        lambda out: None if place == "cpu" else torch.cuda.synchronize(),
        dict(
            add=lambda x, y: x + y,
            tanh=torch.tanh,
            sum=torch.sum,
            rows=lambda x: x.sum(1),
            columns=lambda x: x.sum(0),
            softmax=lambda x: torch.softmax(x, -1),
            transpose=lambda x: x.T.contiguous(),
            cumsum=lambda x: torch.cumsum(x, 1),
            sort=lambda x: torch.sort(x, 1).values,
            matmul=lambda x, y: x @ y,
            step=step,
        ),
    )


def cupy_library(device: str) -> Library:
    import cupy

    def softmax(x):
        e = cupy.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return Library(
        "cupy",
        cupy.asarray,
        lambda out: cupy.cuda.get_current_stream().synchronize(),
        dict(
            add=lambda x, y: x + y,
            tanh=cupy.tanh,
            sum=cupy.sum,
            rows=lambda x: x.sum(1),
            columns=lambda x: x.sum(0),
            softmax=softmax,
            transpose=lambda x: cupy.ascontiguousarray(x.T),
            cumsum=lambda x: cupy.cumsum(x, 1),
            sort=lambda x: cupy.sort(x, 1),
            matmul=lambda x, y: x @ y,
        ),
    )


def jax_library(device: str) -> Library:
    import jax
    import jax.numpy as jnp

    def loss(w, v, x, t):
        return jnp.mean((jnp.tanh(x @ w) @ v - t) ** 2)

    functions = dict(
        add=lambda x, y: x + y,
        tanh=jnp.tanh,
        sum=jnp.sum,
        rows=lambda x: x.sum(1),
        columns=lambda x: x.sum(0),
        softmax=jax.nn.softmax,
        transpose=lambda x: x.T + 0,
        cumsum=lambda x: jnp.cumsum(x, 1),
        sort=lambda x: jnp.sort(x, 1),
        matmul=lambda x, y: x @ y,
        step=jax.grad(loss, (0, 1)),
    )
    jitted = {k: jax.jit(f) for k, f in functions.items()}
    return Library("jax", jnp.asarray, jax.block_until_ready, jitted)


LIBRARIES = {"torch": torch_library, "cupy": cupy_library, "jax": jax_library}
PASSES = dict(add=3, tanh=2, sum=1, rows=1, columns=1, softmax=2, transpose=2, cumsum=2)  # over memory, at least
TWO = ("add", "matmul")


def seconds(library: Library, name: str, sets: Sequence[Sequence[Any]], deadline: Any, least: float) -> float:
    """Seconds a call: the best of some rounds of enough calls to take `least` seconds."""
    function = library.functions[name]
    out = function(*sets[0])
    library.wait(out)
    count, best = 1, float("inf")
    for _ in range(12):
        start = time.perf_counter()
        for k in range(count):
            out = function(*sets[k % len(sets)])
        library.wait(out)
        spent = time.perf_counter() - start
        best = min(best, spent / count)
        if spent < least:
            count = max(count + 1, min(4 * count, int(count * least / max(spent, 1e-9))))
        elif deadline.over:
            break
    return best


def arrays(library: Library, name: str, n: int, copies: int) -> list[list[Any]]:
    """Sets of operands of about n elements."""
    rng = onp.random.default_rng(0)
    if name == "step":
        hidden = max(4, int(n**0.5) // 4)
        shapes = [(64, hidden), (hidden, 8), (max(4, n // 64), 64), (max(4, n // 64), 8)]
    elif name == "matmul":
        side = max(4, int(n**0.5))
        shapes = [(side, side)] * 2
    elif name in ("sum", "add", "tanh"):
        shapes = [(n,)] * (2 if name in TWO else 1)
    else:
        side = max(4, int(n**0.5))
        shapes = [(side, max(1, n // side))]
    return [[library.put(rng.standard_normal(s, dtype="f4")) for s in shapes] for _ in range(copies)]


def copy_bandwidth(device: str, n: int) -> float:
    """Bytes a second that a copy by the driver reads and writes."""
    if device.endswith("emulated"):
        return float("nan")
    from cuda.bindings import driver

    from numbagrad.kernels.cuda.devices import find

    place = find(device)
    a, b = (place.empty((n,), onp.dtype("f4")) for _ in range(2))
    best = float("inf")
    for _ in range(5):
        place.synchronize()
        start = time.perf_counter()
        for _ in range(20):
            driver.cuMemcpyDtoDAsync(b.address, a.address, 4 * n, driver.CUstream(int(place.stream.handle)))
        place.synchronize()
        best = min(best, (time.perf_counter() - start) / 20)
    return 2 * 4 * n / best


def speed(device: str, deadline: Any, small: bool) -> dict[str, Any]:
    """Microseconds a call of every operation, size and library."""
    names = [k for k in LIBRARIES if importlib.util.find_spec(k)] if not small else []
    libraries, failures = [ours(device)], []
    for name in names:
        try:
            libraries.append(LIBRARIES[name](device))
        except Exception as error:  # a peer that does not start is no fault of ours
            failures.append(f"{name} left out: {type(error).__name__}: {error}")
    sizes = (1000,) if small else (1000, 100_000, 10_000_000, 100_000_000)
    bandwidth = copy_bandwidth(device, 1000 if small else 1 << 28)
    table: dict[str, dict[str, float]] = {}
    faults = []
    for n in reversed(sizes):
        for name in libraries[0].functions:
            if (n > 10_000_000 and name not in PASSES) or deadline.over:
                continue
            row = table.setdefault(f"{name} {n:.0e}", {})
            for library in libraries:
                if name in library.functions:
                    try:
                        sets = arrays(library, name, n, 1 if n < 10_000_000 else 3)
                        row[library.name] = 1e6 * seconds(library, name, sets, deadline, 0.002 if small else 0.05)
                    except Exception as error:
                        text = f"speed {name} {n} {library.name}: {type(error).__name__}: {error}"
                        (faults if library.name == "numbagrad" else failures).append(text)
    rows = [f"{'us a call':16s} " + " ".join(f"{lib.name:>11s}" for lib in libraries) + "   of copy bandwidth"]
    for key, row in table.items():
        name, n = key.split()
        share = PASSES.get(name, 0) * 4 * float(n) / (row.get("numbagrad", float("inf")) * 1e-6) / bandwidth
        cells = " ".join(f"{row[lib.name]:11.1f}" if lib.name in row else " " * 11 for lib in libraries)
        rows.append(f"{key:16s} {cells}" + (f"   {share:6.1%}" if float(n) >= 1e7 and name in PASSES else ""))
    facts = {
        "copy (GB/s)": round(bandwidth / 1e9, 1),
        "peers": ", ".join(names) or "none",
        "notes": "; ".join(failures),
    }
    return {"facts": facts, "rows": rows, "table": table, "failures": faults}


def ablations(device: str, deadline: Any, small: bool) -> dict[str, Any]:
    """What vectors of 16 bytes, 32-bit indices, the size of blocks and our launcher are worth."""
    from numbagrad.kernels.cuda.devices import find
    from numbagrad.kernels.cuda.map_text import MapText
    from numbagrad.scalar import ATOMS, arg

    place, n = find(device), 4096 if small else 1 << 26
    dtype = onp.dtype("f4")
    x, out = place.put(onp.ones(n, dtype)), place.empty((n,), dtype)
    facts: dict[str, Any] = {}

    def timed(launch: Callable[[], None]) -> float:
        launch()
        best = float("inf")
        for _ in range(2 if small else 10):
            place.synchronize()
            start = time.perf_counter()
            for _ in range(1 if small else 10):
                launch()
            place.synchronize()
            best = min(best, (time.perf_counter() - start) / (1 if small else 10))
        return round(1e6 * best, 1)

    text = MapText("negative", (ATOMS["negative"](arg(0)),), (dtype,))
    for width in (1, 2, 4):
        for index in ("uint32", "int64"):
            text.width = width
            kernel = text.runs("v", index)
            for threads in (128, 256, 512):
                vectors = n // width if width > 1 else 0
                count = vectors + n - width * vectors
                key = f"{width} wide, {index}, blocks of {threads} (us)"
                facts[key] = timed(
                    lambda k=kernel, c=count, t=threads, v=vectors: place.launch(k, -(-c // t), t, x, out, n, v)
                )
    facts["host us a launch"] = host_cost(place)
    return {"facts": facts, "failures": []}


def host_cost(place: Any) -> float:
    """Microseconds of the host's for one small operation, launches queued without waiting."""
    from numbagrad.primitives.elementwise import op

    add, x = op("add"), place.put(onp.ones(100, "f4"))
    add(x, x)
    best = float("inf")
    for _ in range(5):
        place.synchronize()
        start = time.perf_counter()
        for _ in range(200):
            add(x, x)
        best = min(best, (time.perf_counter() - start) / 200)
    return round(1e6 * best, 2)
