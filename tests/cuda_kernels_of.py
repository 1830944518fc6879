"""The CUDA kernels that the registry's samples need, found by running them on a device that only records."""

from __future__ import annotations

from typing import Any

import numpy as onp
from samples.atoms import SAMPLES
from samples.primitives import CASES

import numbagrad as ng
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


def collect() -> list[Kernel]:
    device = RecordingDevice()
    run_atoms(device, "float32")
    run_atoms(device, "int32", derivatives=False)
    run_cases(device)
    return list(device.kernels)
