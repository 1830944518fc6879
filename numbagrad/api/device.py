"""Where arrays are: moving them, and waiting for what computes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from numbagrad.core import device as places
from numbagrad.core.arguments import host_value, own
from numbagrad.core.array import Array
from numbagrad.core.device import default_device
from numbagrad.core.trace import concrete
from numbagrad.core.tree import tree_leaves, tree_map

__all__ = ["block_until_ready", "default_device", "device_put", "devices"]


def devices() -> list[str]:
    """Devices that arrays can be on: "cpu", and "cuda:0" and so on if there are NVIDIA GPUs.

    >>> import numbagrad as ng
    >>> ng.devices()[0]
    'cpu'
    """
    return places.names()


def device_put(x: Any, device: Any = None) -> Any:
    """x (any pytree) as Arrays on a device: "cpu", "cuda" (the first GPU), "cuda:1" and so on.

    "cuda-emulated" runs CUDA kernels on the CPU, slowly and checked. Without a device Arrays stay where they are, and
    other data goes where new arrays go (`default_device`). Derivative: the cotangent moves back, at any order.
    Errors: DeviceError for a device that is not there.

    >>> import numbagrad as ng
    >>> ng.device_put({"w": 1.0}, "cpu")
    {'w': Array(1., dtype=float64)}
    """
    place = places.chosen(device, "device_put")
    return tree_map(lambda leaf: _put(leaf, device is None, place), x)


def _put(leaf: Any, stay: bool, place: Any) -> Array:
    value = host_value(leaf, "device_put")
    if stay and (isinstance(leaf, Array) or not isinstance(value, np.ndarray)):
        return Array(value)
    moved = places.move(value, place)
    return Array(own(moved, leaf) if moved is value else moved)


def block_until_ready(x: Any) -> Any:
    """Wait until every array of a pytree is computed and return it (at once for the CPU's).

    Errors: IndexError for an index out of range, which GPUs find while they compute.
    """
    buffers = [concrete(leaf._value) for leaf in tree_leaves(x) if isinstance(leaf, Array)]
    for device in dict.fromkeys(b.device for b in buffers if hasattr(b, "address")):
        device.synchronize()
    return x
