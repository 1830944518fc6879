"""numbagrad: NumPy arrays with exact gradients at native speed, from Numba kernels.

>>> import numbagrad as ng, numbagrad.numpy as np
>>> ng.grad(lambda x: np.sum(np.tanh(x) ** 2))(np.asarray([0.0, 1.0]))
Array([0.        , 0.63970001], dtype=float64)
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from numbagrad import numpy, tree, tree_util
from numbagrad.api.custom import checkpoint, custom_jvp, custom_vjp, remat
from numbagrad.api.device import block_until_ready, default_device, device_put, devices
from numbagrad.api.elementwise import elementwise
from numbagrad.api.grad import grad, hvp, jvp, linearize, value_and_grad, vjp
from numbagrad.api.jacobian import hessian, jacfwd, jacrev
from numbagrad.core.array import Array
from numbagrad.core.errors import (
    DeviceError,
    EscapedTracerError,
    NumbagradError,
    TracerConversionError,
    ViewAssignmentError,
)
from numbagrad.core.registry import register_kernel
from numbagrad.core.tree import tree_map
from numbagrad.lax.structural import stop_gradient
from numbagrad.scalar import atom

if _TYPE_CHECKING:
    from numbagrad import lax, nn, ops, optim, random, scipy, testing

__version__ = "0.1.0"


def __getattr__(name: str) -> _Any:
    """Namespaces that not every program needs are imported when first used."""
    if name in ("lax", "nn", "ops", "optim", "random", "scipy", "testing"):
        import importlib

        return importlib.import_module(f"numbagrad.{name}")
    raise AttributeError(f"module 'numbagrad' has no attribute {name!r}")


# fmt: off
__all__ = [
    "Array", "DeviceError", "EscapedTracerError", "NumbagradError", "TracerConversionError", "ViewAssignmentError",
    "atom", "block_until_ready", "checkpoint", "custom_jvp", "custom_vjp", "default_device", "device_put", "devices",
    "elementwise", "grad", "hessian", "hvp", "jacfwd", "jacrev", "jvp", "lax", "linearize", "nn", "numpy", "ops",
    "optim", "random", "register_kernel", "remat", "scipy", "stop_gradient",
    "testing", "tree", "tree_map", "tree_util", "value_and_grad", "vjp",
]
