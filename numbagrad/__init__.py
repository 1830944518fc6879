"""numbagrad: NumPy arrays with exact gradients at native speed, from Numba kernels.

>>> import numbagrad as ng, numbagrad.numpy as np
>>> ng.grad(lambda x: np.sum(np.tanh(x) ** 2))(np.asarray([0.0, 1.0]))
Array([0.        , 0.63970001], dtype=float64)
"""

from numbagrad import lax, nn, numpy, optim, random, scipy, tree_util
from numbagrad.api.custom import checkpoint, custom_jvp, custom_vjp, remat
from numbagrad.api.elementwise import elementwise
from numbagrad.api.grad import grad, hvp, jvp, linearize, value_and_grad, vjp
from numbagrad.api.jacobian import hessian, jacfwd, jacrev
from numbagrad.api.stop import block_until_ready, device_put, devices, stop_gradient
from numbagrad.core.array import Array
from numbagrad.core.errors import (
    DeviceError,
    EscapedTracerError,
    NumbagradError,
    TracerConversionError,
    ViewAssignmentError,
)
from numbagrad.core.registry import register_kernel
from numbagrad.scalar import atom

__version__ = "0.1.0"
