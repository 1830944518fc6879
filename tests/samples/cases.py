"""What a case of a structural primitive is: operands, parameters, and what NumPy makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import numbagrad  # noqa: F401  (registers every primitive)
from numbagrad.core.arguments import value_of
from numbagrad.core.array import Array
from numbagrad.core.registry import PRIMITIVES, Primitive


@dataclass(frozen=True)
class Case:
    """One call. `reference` takes NumPy arrays; `order` is 0 where there is no derivative to check."""

    primitive: str
    args: tuple[Any, ...]
    reference: Callable[..., Any]
    params: dict[str, Any]
    order: int = 2

    def __call__(self, *args: Any) -> Any:
        out = PRIMITIVES[self.primitive](*(value_of(a) for a in args), **self.params)
        return tuple(map(Array, out)) if isinstance(out, tuple) else Array(out)

    def __str__(self) -> str:
        shown = [f"{k}={v}" for k, v in self.params.items()]
        return f"{self.primitive}({', '.join([*(f'{a.dtype}{list(a.shape)}' for a in self.args), *shown])})"


CASES: list[Case] = []

# Primitives whose results only their own tests can judge: where those are.
ELSEWHERE = dict.fromkeys(
    ("random_bits", "random_pairs", "random_order", "random_gamma", "random_poisson"), "test_random*.py"
)


def case(name: str, *args: Any, reference: Callable[..., Any], order: int = 2, **params: Any) -> None:
    CASES.append(Case(name, tuple(np.asarray(a) for a in args), reference, params, order))


def r(*shape: int, dtype: Any = np.float64, seed: int = 0) -> np.ndarray:
    """Distinct random numbers between 0.3 and 2 in size."""
    rng = np.random.default_rng([seed, *shape])
    x = rng.uniform(0.3, 2.0, shape) * rng.choice([-1.0, 1.0], shape)
    if np.dtype(dtype).kind == "c":
        return np.asarray(x + 1j * rng.standard_normal(shape), dtype)
    return np.asarray(x if np.dtype(dtype).kind == "f" else x * 5, dtype)


def structural() -> list[str]:
    """Names of the registered structural primitives."""
    own = [(name, p) for name, p in PRIMITIVES.items() if isinstance(p, Primitive)]
    return [name for name, p in own if p.home]  # those without a kernel's address are examples of the docs
