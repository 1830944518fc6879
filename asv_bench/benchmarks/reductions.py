"""Structural operations: every primitive on its sample (the cost of a call), and the heavy ones on large arrays."""

import numpy as onp
from samples.primitives import CASES, structural

import numbagrad as ng
import numbagrad.numpy as np
from numbagrad import random

# Primitives without samples of their own, by the public function that calls them.
RANDOM = {
    "random_bits": lambda key: random.bits(key, (1000,)),
    "random_pairs": lambda key: random.split(key, 1000),
    "random_order": lambda key: random.permutation(key, 1000),
    "random_gamma": lambda key: random.gamma(key, 2.0, (1000,)),
    "random_poisson": lambda key: random.poisson(key, 3.0, (1000,)),
}
NAMES = sorted(structural())


def largest_case(name):
    """The sample of a primitive with most elements; None if it has none."""
    cases = [c for c in CASES if c.primitive == name]
    return max(cases, key=lambda c: (c.order, sum(a.size for a in c.args)), default=None)


class Primitives:
    """One call of each, and its gradient."""

    params = (NAMES,)
    param_names = ["operation"]

    def setup(self, name):
        self.case = largest_case(name)
        if self.case is None:
            key = random.key(0)
            self.call = lambda: RANDOM[name](key)
        else:
            args = self.case.args
            self.call = lambda: self.case(*args)
        self.call()

    def time_forward(self, name):
        self.call()


class PrimitiveGradients(Primitives):
    """The gradient of the sum."""

    time_forward = None

    def setup(self, name):
        super().setup(name)
        case = self.case
        if case is None or case.order == 0:
            raise NotImplementedError
        moving = tuple(k for k, a in enumerate(case.args) if a.dtype.kind in "fc")
        step = ng.grad(lambda *xs: np.sum(np.real(case(*xs))), moving)
        self.call = lambda: step(*case.args)
        self.call()

    def time_gradient(self, name):
        self.call()


class Reductions:
    """Over all elements, over rows, over columns."""

    params = (
        ["sum", "max", "prod", "mean", "var", "argmax", "any"],
        [None, 0, 1],
        ["float64", "float32"],
    )
    param_names = ["operation", "axis", "dtype"]

    def setup(self, name, axis, dtype):
        x = onp.random.default_rng(0).uniform(0.9, 1.1, (1000, 1000)).astype(dtype)
        self.x, self.theirs = np.asarray(x), x
        self.ours, self.numpy = getattr(np, name), getattr(onp, name)
        self.step = ng.grad(lambda x: np.sum(self.ours(x, axis=axis))) if name not in ("argmax", "any") else None
        self.ours(self.x, axis=axis)
        if self.step:
            self.step(self.x)

    def time_forward(self, name, axis, dtype):
        self.ours(self.x, axis=axis)

    def time_numpy(self, name, axis, dtype):
        self.numpy(self.theirs, axis=axis)

    def time_gradient(self, name, axis, dtype):
        if self.step:
            self.step(self.x)


class Products:
    """Matrix products, forward and backward."""

    params = ([8, 64, 512], ["float64", "float32"])
    param_names = ["n", "dtype"]

    def setup(self, n, dtype):
        rng = onp.random.default_rng(0)
        self.x, self.y = (np.asarray(rng.normal(size=(n, n)).astype(dtype)) for _ in range(2))
        self.step = ng.grad(lambda x, y: np.sum(x @ y), (0, 1))
        self.step(self.x, self.y)

    def time_matmul(self, n, dtype):
        self.x @ self.y

    def time_gradient(self, n, dtype):
        self.step(self.x, self.y)


class Rows:
    """Gathers and scatters."""

    params = (["take", "add", "set"], [1000, 100_000])
    param_names = ["operation", "rows"]

    def setup(self, name, rows):
        rng = onp.random.default_rng(0)
        index = rng.integers(0, rows, rows)
        x, v = np.asarray(rng.normal(size=(rows, 8))), np.asarray(rng.normal(size=(rows, 8)))
        run = (lambda x: x[index]) if name == "take" else (lambda x: getattr(x.at[index], name)(v))
        step = ng.grad(lambda x: np.sum(run(x) ** 2))
        self.forward, self.backward = lambda: run(x), lambda: step(x)
        self.backward()

    def time_forward(self, name, rows):
        self.forward()

    def time_gradient(self, name, rows):
        self.backward()
