"""Cutting derivatives, and small things about devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from numbagrad.core.array import Array
from numbagrad.core.arguments import own, value_of
from numbagrad.core.errors import DeviceError, message
from numbagrad.core.tree import tree_map
from numbagrad.primitives import barrier


def stop_gradient(x: Any) -> Any:
    """x (any pytree) as a constant: the value passes, the derivative is zero.

    >>> import numbagrad as ng
    >>> ng.grad(lambda x: x * ng.stop_gradient(x))(3.0)
    Array(3., dtype=float64)
    """
    return tree_map(_stop, x)


def _stop(x: Any) -> Any:
    if isinstance(x, Array):
        return Array(barrier.stop_gradient(x._value))
    return Array(value_of(x)) if isinstance(x, np.ndarray) else x


def device_put(x: Any, device: Any = None) -> Any:
    """x (any pytree) as Arrays on a device."""
    if device is not None and str(device) != "cpu":
        raise DeviceError(message("device_put", "no such device", device, "'cpu'"))
    return tree_map(lambda leaf: Array(own(value_of(leaf, "device_put"), leaf)), x)


def devices() -> list[str]:
    """Devices that arrays can be on."""
    return ["cpu"]


def block_until_ready(x: Any) -> Any:
    """Wait until every array of a pytree is computed (at once on the CPU) and return it."""
    return x
