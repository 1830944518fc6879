"""Every elementwise operation: launch cost (100 elements) and throughput (a million)."""

import numpy as onp
from samples.atoms import SAMPLES

import numbagrad as ng
import numbagrad.numpy as np

# Atoms of the library itself: not those that a user's module has defined.
NAMES = sorted(name for name, s in SAMPLES.items() if set(s.dtypes()) & {"float64", "int64", "complex128"})
SIZES = [100, 1_000_000]


def dtype_of(sample, dtype):
    """The dtype asked for, or for atoms without floats the nearest that they have; None: not this one."""
    have = sample.dtypes()
    if dtype in have:
        return dtype
    if dtype == "float32":
        return None
    return next(d for d in ("complex128", "int64") if d in have)


class Forward:
    """One call."""

    params = (NAMES, SIZES, ["float64", "float32"])
    param_names = ["operation", "elements", "dtype"]

    def setup(self, name, size, dtype):
        self.sample = SAMPLES[name]
        dtype = dtype_of(self.sample, dtype)
        if dtype is None:
            raise NotImplementedError
        self.inputs = [np.asarray(x) for x in self.sample.inputs(dtype, size)]
        self.sample(*self.inputs)

    def time_forward(self, name, size, dtype):
        self.sample(*self.inputs)


class NumPy(Forward):
    """NumPy's (or SciPy's) function of the same name, to compare with."""

    def setup(self, name, size, dtype):
        super().setup(name, size, dtype)
        if self.sample.reference is None:
            raise NotImplementedError
        self.inputs = [onp.asarray(x) for x in self.inputs]
        with onp.errstate(all="ignore"):
            self.sample.reference(*self.inputs)

    def time_reference(self, name, size, dtype):
        self.sample.reference(*self.inputs)

    time_forward = None


class Gradient(Forward):
    """Value and gradients of the sum, for all operands."""

    def setup(self, name, size, dtype):
        super().setup(name, size, dtype)
        if self.sample.constant:
            raise NotImplementedError
        self.step = ng.grad(lambda *xs: np.sum(np.real(self.sample(*xs))), tuple(self.moving()))
        self.step(*self.inputs)

    def moving(self):
        return [k for k in self.sample.movable() if self.inputs[k].dtype.kind in "fc"]

    def time_gradient(self, name, size, dtype):
        self.step(*self.inputs)

    time_forward = None
