"""Samples of every atom, from its own domain and reference; the few that cannot say these are listed here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from numbagrad.core.array import Array
from numbagrad.numpy.elementwise import RULES, call
from numbagrad.primitives.elementwise import map_op, op
from numbagrad.scalar import ATOMS, arg
from numbagrad.scalar.expr import Atom

SIZE = 23  # more than one vector of any width, and a remainder

# Atoms whose code for all kinds of numbers ("*") takes complex ones. The others must refuse them.
COMPLEX = {"add", "subtract", "multiply", "zero_product", "divide", "negative", "positive", "square", "reciprocal"}
COMPLEX |= {"null_product", "select", "equal", "not_equal", "greater_equal_real"}
COMPLEX |= {"logical_and", "logical_or", "logical_xor", "logical_not"}


def _sinc_derivative(x: np.ndarray) -> np.ndarray:
    """Second derivative of sin(x) / x."""
    import mpmath

    with mpmath.workdps(40):
        value = [
            -mpmath.sin(t) / t - 2 * mpmath.cos(t) / t**2 + 2 * mpmath.sin(t) / t**3
            for t in map(mpmath.mpf, x.ravel().tolist())
        ]
    return np.array([float(v) for v in value], x.dtype).reshape(x.shape)


def _normal_hazard(x: np.ndarray) -> np.ndarray:
    """Density over distribution function of the standard normal distribution."""
    log_ndtr = importlib.import_module("scipy.special").log_ndtr
    return np.exp(-x * x / 2 - np.log(2 * np.pi).astype(x.dtype) / 2 - log_ndtr(x))


# What an internal atom does not say of itself.
OVERRIDES: dict[str, dict[str, Any]] = {
    "zero_product": dict(reference=lambda x, y: np.where(x == 0, np.zeros((), x.dtype), x * y)),
    "null_product": dict(reference=lambda x, y: np.where((x == 0) | (y == 0), np.zeros((), x.dtype), x * y)),
    "norm_sqrt": dict(reference=np.sqrt),
    "select": dict(reference=np.where, domain=("condition", "real", "real")),
    "to_complex": dict(reference=lambda x: x.astype(np.result_type(x, np.complex64))),
    "greater_equal_real": dict(reference=lambda x, y: x.real >= y.real, domain="ties"),
    "polygamma": dict(
        reference=lambda x: importlib.import_module("scipy.special").polygamma(2, x).astype(x.dtype),
        domain=(0.3, 6.0),
        literal=2,
        everywhere=False,
    ),
    "sinc_derivative": dict(reference=_sinc_derivative, domain=(0.2, 9.0), literal=2, everywhere=False),
    "normal_hazard": dict(reference=_normal_hazard, everywhere=False),
    "normal_hazard_excess": dict(reference=lambda x: x + _normal_hazard(x), everywhere=False),
}


@dataclass(frozen=True)
class AtomSample:
    """One atom: how to call it on array-likes, its reference on NumPy arrays, and inputs of a dtype."""

    atom: Atom
    reference: Callable[..., Any] | None
    domains: tuple[Any, ...]
    literal: int | None = None
    everywhere: bool = True  # whether the reference is right at nan, infinities, zeros and huge numbers too

    @property
    def name(self) -> str:
        return self.atom.name

    @property
    def public(self) -> bool:
        """Whether numbagrad.numpy promotes operands for it."""
        return self.atom.rule in RULES

    @property
    def constant(self) -> bool:
        return self.atom.constant

    def __call__(self, *xs: Any) -> Array:
        if self.literal is not None:
            expr = self.atom(arg(0), self.literal)
            operation = map_op(f"{self.name}_{self.literal}", (expr,), 1)
        elif self.public:
            return call(self.name, *xs)
        else:
            operation = op(self.name)
        return Array(operation(*(x._value if isinstance(x, Array) else np.asarray(x) for x in xs)))

    def dtypes(self) -> list[str]:
        """Every dtype the atom supports (one per kernel family)."""
        kinds = "".join(self.atom.code)
        found = []
        if "f" in kinds or "*" in kinds:
            found += ["float64", "float32"]
        if "c" in kinds or self.name in COMPLEX:
            found += ["complex128", "complex64"]
        if self.public and self._holds_integers() and ("i" in kinds or "*" in kinds or self.atom.rule == "float"):
            found += ["int64", "int32", "uint8", "int8", "uint64"]
        if self.public and ("b" in kinds or "*" in kinds or self.atom.rule == "float"):
            found += ["bool"]
        return found

    def _holds_integers(self) -> bool:
        return all(not isinstance(d, tuple) or np.ceil(d[0]) <= np.floor(d[1]) for d in self.domains)

    def inputs(self, dtype: Any, shape: Any = SIZE, seed: int = 0) -> list[np.ndarray]:
        """Operands inside the domain."""
        rng = np.random.default_rng([seed, len(self.name)])
        drawn = [draw(rng, domain, np.dtype(dtype), shape) for domain in self.domains]
        if self.name == "power" and np.dtype(dtype).kind == "i":
            drawn[1] = np.abs(drawn[1])  # NumPy refuses an integer to a negative integer power
        return drawn

    def movable(self) -> list[int]:
        """Operands that have a derivative (a condition has none)."""
        return [k for k, d in enumerate(self.domains) if d != "condition"]


def draw(rng: np.random.Generator, domain: Any, dtype: np.dtype, shape: Any) -> np.ndarray:
    """Random numbers of a dtype inside a domain."""
    if domain == "condition" or dtype.kind == "b":
        return (rng.random(shape) < 0.5) | (isinstance(domain, tuple) and domain[0] > 0)
    if dtype.kind in "iu" and isinstance(domain, tuple):
        return rng.integers(np.ceil(domain[0]), np.floor(domain[1]) + 1, shape).astype(dtype)
    if dtype.kind in "iu":
        low, high = (0, 9) if dtype.kind == "u" or domain == "bits" else (-5, 6)
        return rng.integers(low, high, shape).astype(dtype)
    if domain == "ties":
        x = rng.integers(-2, 3, shape).astype(float)
        return np.asarray(x + 1j * rng.integers(-1, 2, shape) if dtype.kind == "c" else x, dtype)
    if isinstance(domain, tuple):
        x = rng.uniform(*domain, shape)
    else:
        x = rng.uniform(0.3 if domain == "nonzero" else 0.01, 2.0, shape) * rng.choice([-1.0, 1.0], shape)
    if dtype.kind == "c":
        x = x + 1j * rng.uniform(0.2, 0.8, shape) * rng.choice([-1.0, 1.0], shape)
    return np.asarray(x, dtype)


def _resolve(reference: Any) -> Callable[..., Any] | None:
    if isinstance(reference, str):
        module, _, name = reference.rpartition(".")
        return getattr(importlib.import_module(module), name)
    return reference


def _domains(domain: Any, arity: int) -> tuple[Any, ...]:
    pair = isinstance(domain, tuple) and all(isinstance(d, (int, float)) for d in domain)
    return (domain,) * arity if isinstance(domain, str) or pair else tuple(domain)


def sample(atom: Atom) -> AtomSample:
    """The sample of one atom."""
    given = OVERRIDES.get(atom.name, {})
    domain = given.get("domain", atom.domain)
    literal = given.get("literal")
    arity = atom.arity if literal is None else 1
    reference = _resolve(given.get("reference", atom.reference))
    return AtomSample(atom, reference, _domains(domain, arity), literal, given.get("everywhere", True))


# Casts are made when first used, one a pair of dtypes: test_table_elementwise has a test of them all.
SAMPLES = {name: sample(atom) for name, atom in ATOMS.items() if not name.startswith("cast_")}
