"""Whole functions through the transforms: time, number of launches, peak memory."""

from itertools import pairwise

import numpy as onp

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import nn, optim
from numbagrad.core.registry import Primitive
from numbagrad.core.trace import bind
from numbagrad.primitives.elementwise import MapOp


def chain(x):
    """Ten elementwise operations and a sum."""
    for _ in range(5):
        x = np.tanh(x * 0.5)
    return np.sum(x)


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def read_one_by_one(x):
    total = 0.0
    for i in range(x.shape[0]):
        total = total + x[i] * x[i]
    return total


def write_one_by_one(x):
    y = np.zeros(x.shape)
    for i in range(1, x.shape[0]):
        y[i] = y[i - 1] * 0.9 + x[i]
    return y[-1]


FUNCTIONS = {f.__name__: f for f in (chain, rosenbrock, read_one_by_one, write_one_by_one)}


def launches(function, *args):
    """Number of times that a call runs a primitive on buffers."""
    count = [0]

    def counted(run):
        def wrapped(self, args, params=None):
            count[0] += 1
            return run(self, args, params)

        return wrapped

    saved = Primitive.run, MapOp.run, MapOp.__call__
    Primitive.run, MapOp.run = counted(Primitive.run), counted(MapOp.run)
    MapOp.__call__ = lambda self, *xs: bind(self, xs, {})  # the short way past `run` is closed meanwhile
    try:
        function(*args)
    finally:
        Primitive.run, MapOp.run, MapOp.__call__ = saved
    return count[0]


class Transforms:
    """Forward, gradient and product with the Hessian."""

    params = (sorted(FUNCTIONS), [10, 100])
    param_names = ["function", "elements"]

    def setup(self, name, n):
        self.f = FUNCTIONS[name]
        self.x = np.linspace(-1.0, 1.0, n)
        self.ones = np.ones(n)
        self.gradient = ng.grad(self.f)
        self.gradient(self.x)
        ng.hvp(self.f, self.x, self.ones)

    def time_forward(self, name, n):
        self.f(self.x)

    def time_gradient(self, name, n):
        self.gradient(self.x)

    def time_hvp(self, name, n):
        ng.hvp(self.f, self.x, self.ones)

    def time_linearize(self, name, n):
        ng.linearize(self.f, self.x)

    def track_launches_forward(self, name, n):
        return launches(self.f, self.x)

    def track_launches_gradient(self, name, n):
        return launches(self.gradient, self.x)

    track_launches_forward.unit = track_launches_gradient.unit = "launches"


class Matrices:
    """All of the Jacobian or Hessian."""

    params = (["jacrev", "jacfwd", "hessian"], [5, 30])
    param_names = ["transform", "elements"]

    def setup(self, name, n):
        transform = getattr(ng, name)
        self.step = transform(rosenbrock if name == "hessian" else lambda x: np.cumsum(np.sin(x)))
        self.x = np.linspace(-1.0, 1.0, n)
        self.step(self.x)

    def time_matrix(self, name, n):
        self.step(self.x)


class Memory:
    """Peak memory of a gradient over a million elements, with and without checkpointing."""

    params = (["plain", "checkpoint"],)
    param_names = ["tape"]

    def peakmem_gradient(self, tape):
        block = lambda x: np.tanh(np.sin(x) * np.cos(x))
        block = ng.checkpoint(block) if tape == "checkpoint" else block

        def f(x):
            for _ in range(8):
                x = block(x)
            return np.sum(x)

        ng.grad(f)(np.linspace(-1.0, 1.0, 1_000_000))

    def peakmem_reading_one_by_one(self, tape):
        ng.grad(read_one_by_one)(np.linspace(-1.0, 1.0, 3000))


class Training:
    """A step of a small network: value, gradient and Adam."""

    params = ([32, 512],)
    param_names = ["batch"]

    def setup(self, batch):
        rng = onp.random.default_rng(0)
        sizes = (64, 128, 64, 10)
        self.params_ = [
            {"w": np.asarray(rng.normal(size=(n, m)).astype("float32") / 8), "b": np.zeros(m, dtype="float32")}
            for n, m in pairwise(sizes)
        ]
        self.x = np.asarray(rng.normal(size=(batch, 64)).astype("float32"))
        self.labels = rng.integers(0, 10, batch)
        self.gradient = ng.value_and_grad(self.loss)
        self.optimizer = optim.adam(1e-3)
        self.state = self.optimizer.init(self.params_)
        self.time_step(batch)

    @staticmethod
    def loss(params, x, labels):
        *hidden, last = params
        for layer in hidden:
            x = nn.relu(x @ layer["w"] + layer["b"])
        return np.mean(nn.softmax_cross_entropy_with_integer_labels(x @ last["w"] + last["b"], labels))

    def time_step(self, batch):
        _, grads = self.gradient(self.params_, self.x, self.labels)
        self.optimizer.update(grads, self.state, self.params_)

    def track_launches(self, batch):
        return launches(self.time_step, batch)

    track_launches.unit = "launches"
