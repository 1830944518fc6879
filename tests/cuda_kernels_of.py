"""The CUDA kernels that the registry's samples need, found by running them on a device that only records."""

from __future__ import annotations

from typing import Any

import numpy as onp
from samples.atoms import SAMPLES
from samples.primitives import CASES

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import lax, nn, ops
from numbagrad.core.array import Array
from numbagrad.kernels.cuda.kernel import Kernel
from numbagrad.kernels.cuda.recorder import RecordingDevice

SINGLE = {"float64": "float32", "complex128": "complex64"}


def single(x: onp.ndarray) -> onp.ndarray:
    """The same in single precision."""
    return x.astype(SINGLE.get(x.dtype.name, x.dtype))


def run_atoms(device: Any, dtype: str, derivatives: bool = True) -> None:
    for sample in SAMPLES.values():
        if dtype not in sample.dtypes() or (dtype == "int32" and sample.atom.rule == "float"):
            continue  # integers become float64 first
        inputs = [Array(device.put(x)) for x in sample.inputs(dtype)]
        try:
            sample(*inputs)
        except TypeError:
            continue
        places = sample.movable()
        if sample.constant or not derivatives or onp.dtype(dtype).kind != "f":
            continue

        def function(*xs: Any, sample=sample, inputs=inputs, places=places) -> Any:
            whole = list(inputs)
            for k, x in zip(places, xs, strict=True):
                whole[k] = x
            return sample(*whole)

        out, pull = ng.vjp(function, *[inputs[k] for k in places])
        pull(out)


def run_cases(device: Any) -> None:
    for case in CASES:
        case(*[Array(device.put(single(a))) for a in case.args])


def run_large(device: Any) -> None:
    """Sizes at which tiles, pieces and further passes are chosen: no memory is needed to find out which."""

    def x(*shape: int, dtype: str = "float32") -> Array:
        return Array(device.empty(shape, onp.dtype(dtype)))

    def pull(function: Any, *xs: Any) -> None:
        out, back = ng.vjp(function, *xs)
        back(Array(device.empty(out.shape, out.dtype)))

    ids = x(1_000_000, dtype="int64")
    pull(lambda a, b: a @ b, x(2048, 1024), x(1024, 2048))
    pull(lambda a, b: a @ b, x(48, 8192), x(8192, 48))
    pull(lambda a, b: a @ b, x(4096, 4096), x(4096))
    pull(lambda a, b: a @ b, x(64, 100, 120), x(64, 120, 110))
    pull(lambda a, w: lax.conv(a, w, (1, 1), "SAME"), x(16, 64, 56, 56), x(128, 64, 3, 3))
    pull(lambda a, w: lax.conv(a, w, (2, 2), "SAME"), x(16, 16, 64, 64), x(32, 16, 3, 3))
    pull(
        lambda a, w: lax.conv_general_dilated(a, w, (1, 1), "SAME", feature_group_count=64),
        x(8, 64, 56, 56),
        x(64, 1, 3, 3),
    )
    for shape, axis in (((100_000_000,), None), ((10_000, 3000), 1), ((10_000, 3000), 0), ((100_000, 7), 1)):
        for function in (np.sum, np.max, np.argmax):
            function(x(*shape), axis)
    for shape in ((100_000, 10), (1000, 1000), (100, 100_000)):
        pull(nn.softmax, x(*shape))
        pull(nn.log_softmax, x(*shape))
        pull(lambda a: np.cumsum(a, 1), x(*shape))
        pull(lambda a: np.sort(a, 1), x(*shape))
    pull(lambda a: np.cumsum(a, 0), x(100_000, 64))
    pull(lambda a: a[ids], x(1000))
    pull(lambda a: a[ids], x(1_000_000, 32))
    pull(lambda a: ops.segment_sum(a, ids, 1000), x(1_000_000, 8))
    pull(lambda a: nn.max_pool(a, (3, 3), (2, 2), "SAME", channel_axis=1), x(16, 64, 56, 56))
    (x(4096, 4096).T).reshape(-1)


def run_halves(device: Any) -> None:
    """Maps whose elements are of 16 bits."""
    for name in ("float16", "bfloat16"):
        dtype = np.asarray(0, dtype=name).dtype
        x, y = (Array(device.empty((1000, 64), dtype)) for _ in range(2))
        for function in (lambda a, b: a + b, lambda a, b: np.tanh(a) * b, lambda a, b: nn.gelu(a * 2.0)):
            out, pull = ng.vjp(function, x, y)
            pull(out)
        for made in (x[:, ::2] * y[:, 1::2], x.astype("float32"), x.astype("float64")):
            made.astype(name)


def collect() -> list[Kernel]:
    """All of them, in single precision."""
    device = RecordingDevice()
    run_atoms(device, "float32")
    run_atoms(device, "int32", derivatives=False)
    run_cases(device)
    run_large(device)
    run_halves(device)
    return list(device.kernels)
