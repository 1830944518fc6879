"""Operations and training steps on an NVIDIA GPU; where there is none each benchmark is left out with the reason.

`Launch` is the host's part alone: it needs a GPU, or a driver that does nothing as tests/null_driver.c, but no results.
"""

import numpy as onp

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import nn


def put(x):
    """An array on the first GPU; asv takes NotImplementedError in a setup as "left out"."""
    try:
        return ng.device_put(x, "cuda")
    except ng.DeviceError as error:
        raise NotImplementedError(f"no GPU: {error}") from None


OPERATIONS = {
    "add": lambda x: x + x,
    "tanh": np.tanh,
    "sum": np.sum,
    "row sums": lambda x: np.sum(x, 1),
    "column sums": lambda x: np.sum(x, 0),
    "softmax": nn.softmax,
    "transposed copy": lambda x: x.T.reshape(-1),
    "cumsum": lambda x: np.cumsum(x, 1),
    "sort": lambda x: np.sort(x, 1),
    "matmul": lambda x: x @ x.T,
}


class Operation:
    """Value and gradient of one operation on a matrix."""

    params = (list(OPERATIONS), [100, 1000, 4000])
    param_names = ["operation", "side"]

    def setup(self, name, side):
        self.x = put(onp.random.default_rng(0).standard_normal((side, side)).astype("float32"))
        self.function = OPERATIONS[name]
        self.step = ng.grad(lambda x: np.sum(self.function(x) ** 2))
        ng.block_until_ready([self.function(self.x), self.step(self.x)])

    def time_forward(self, name, side):
        ng.block_until_ready(self.function(self.x))

    def time_gradient(self, name, side):
        ng.block_until_ready(self.step(self.x))


class Launch:
    """What an operation of a few elements costs the host: many are queued, nothing waits."""

    params = (["x + y", "x * 2", "tanh", "sum", "gradient"],)
    param_names = ["operation"]

    def setup(self, name):
        x, y = (put(onp.ones(16, "float32")) for _ in range(2))
        self.call = {
            "x + y": lambda: x + y,
            "x * 2": lambda: x * 2.0,
            "tanh": lambda: np.tanh(x),
            "sum": lambda: np.sum(x),
            "gradient": lambda: gradient(x),
        }[name]
        gradient = ng.grad(lambda v: np.sum(np.tanh(v * 2.0)))
        for _ in range(3):
            self.call()

    def time_host(self, name):
        for _ in range(100):
            self.call()
