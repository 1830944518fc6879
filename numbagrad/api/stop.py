"""Small things about devices; `stop_gradient` is lax's."""

from __future__ import annotations

from typing import Any

from numbagrad.core.arguments import owned
from numbagrad.core.array import Array
from numbagrad.core.errors import DeviceError, message
from numbagrad.core.tree import tree_map
from numbagrad.lax.structural import stop_gradient

__all__ = ["block_until_ready", "device_put", "devices", "stop_gradient"]


def device_put(x: Any, device: Any = None) -> Any:
    """x (any pytree) as Arrays on a device."""
    if device is not None and str(device) != "cpu":
        raise DeviceError(message("device_put", "no such device", device, "'cpu'"))
    return tree_map(lambda leaf: Array(owned(leaf, "device_put")), x)


def devices() -> list[str]:
    """Devices that arrays can be on."""
    return ["cpu"]


def block_until_ready(x: Any) -> Any:
    """Wait until every array of a pytree is computed (at once on the CPU) and return it."""
    return x
