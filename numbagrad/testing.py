"""Checks of derivatives, for this library's tests and for yours.

`check_grads` compares forward mode with differences, reverse mode with forward mode, and does the same to the
derivatives themselves. Cotangents and tangents are random, never all ones: a rule that returned ct**2 passes
every test that only sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from numbagrad.api.device import device_put
from numbagrad.api.grad import jvp, vjp
from numbagrad.core.array import Array
from numbagrad.core.dtypes import check_dtype, finfo, is_inexact
from numbagrad.core.errors import message
from numbagrad.core.tree import tree_flatten, tree_unflatten

Arrays = list[np.ndarray]

# Five-point differences: wrong by step**4 / 30 times the fifth derivative, and by 1.5e-16 / step in rounding.
STEP = 3e-4

_WIDE = {"f": np.dtype(np.float64), "V": np.dtype(np.float64), "c": np.dtype(np.complex128)}


def tolerance(dtype: Any, factor: float = 1.0) -> dict[str, float]:
    """rtol and atol for results of a dtype: a few dozen roundings of numbers of order one.

    >>> from numbagrad.testing import tolerance
    >>> tolerance("float64")["rtol"] < 1e-13 < tolerance("float32")["rtol"] < 1e-4
    True
    """
    found = check_dtype("tolerance", dtype)
    if not is_inexact(found):
        return {"rtol": 0.0, "atol": 0.0}
    eps = float(finfo(found).eps)
    return {"rtol": 64 * eps * factor, "atol": 64 * eps * factor}


class _Function:
    """A function of pytrees as one of the flat list of its floating leaves; the others stay as they are.

    Points and results are the CPU's; the function itself sees every leaf where it was given.
    """

    def __init__(self, f: Callable[..., Any], args: Sequence[Any]) -> None:
        self.f = f
        self.leaves, self.tree = tree_flatten(tuple(args))
        arrays = [np.asarray(x) for x in self.leaves]
        self.places = [k for k, a in enumerate(arrays) if is_inexact(a.dtype)]
        self.point = [arrays[k] for k in self.places]
        self.devices = [x.device if isinstance(x, Array) else None for x in self.leaves]
        if not self.places:
            got = [str(a.dtype) for a in arrays]
            raise TypeError(message("check_grads", "nothing to differentiate", got, "a float or complex argument"))

    def __call__(self, *values: Any) -> list[Any]:
        leaves = list(self.leaves)
        for k, v in zip(self.places, values, strict=True):
            leaves[k] = v if self.devices[k] in (None, "cpu") else device_put(v, self.devices[k])
        outputs = tree_flatten(self.f(*tree_unflatten(self.tree, leaves)))[0]
        return [device_put(x, "cpu") for x in outputs if isinstance(x, Array) and is_inexact(x.dtype)]


def _random(rng: np.random.Generator, like: Sequence[np.ndarray]) -> Arrays:
    """Entries between 1/2 and 3/2 in size with random signs: none is negligible, none stands out."""

    def part(shape: Any) -> Any:
        return rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)

    return [
        np.asarray(part(a.shape) + 1j * part(a.shape) if a.dtype.kind == "c" else part(a.shape), a.dtype) for a in like
    ]


def _numpy(values: Sequence[Any]) -> Arrays:
    return [np.asarray(v) for v in values]


def _pairing(a: Arrays, b: Arrays) -> tuple[float, float]:
    """Sum of Re(a * b), and the sum of the sizes of its terms."""
    wide = [(x.astype(_WIDE[x.dtype.kind]), y.astype(_WIDE[y.dtype.kind])) for x, y in zip(a, b, strict=True)]
    with np.errstate(invalid="ignore"):
        value = sum(float(np.sum((x * y).real)) for x, y in wide)
        return value, sum(float(np.sum(np.abs(x * y))) for x, y in wide)


def _differences(f: Callable[..., Any], point: Arrays, tangents: Arrays, step: float) -> tuple[Arrays, float]:
    """Central differences of f in float64 along the tangents, and the largest finite value met."""
    wide = [p.astype(_WIDE[p.dtype.kind]) for p in point]
    size = 0.0

    def at(k: int) -> Arrays:
        nonlocal size
        outs = _numpy(f(*(Array(np.asarray(p + (k * step) * t)) for p, t in zip(wide, tangents, strict=True))))
        size = max([size, *(_largest(o) for o in outs)])
        return outs

    rows = zip(at(-2), at(-1), at(1), at(2), strict=True)
    return [np.asarray((_minus(a, d) + 8 * _minus(c, b)) / (12 * step)) for a, b, c, d in rows], size


def _eps(arrays: Arrays) -> float:
    """That of the least precise type met."""
    return max(float(finfo(x.dtype).eps) for x in arrays)


def _largest(x: np.ndarray) -> float:
    """Size of the largest finite entry: one that is not finite has no rounding."""
    sizes = np.abs(x)
    return float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))


def _minus(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a - b, where an inf less itself is 0: it is constant."""
    if a.dtype.kind == "c":
        return np.asarray(_minus(a.real, b.real) + 1j * _minus(a.imag, b.imag))
    with np.errstate(invalid="ignore"):
        return np.where(a == b, 0.0, a - b)


def _agree(left: float, right: float, allowed: float) -> bool:
    """Equal to within what is allowed; what is not finite equals only itself."""
    if np.isfinite(left) and np.isfinite(right):
        return abs(left - right) <= allowed
    return left == right or bool(np.isnan(left) and np.isnan(right))


def _complain(what: str, label: str, got: np.ndarray, want: np.ndarray, allowed: np.ndarray, leaf: int) -> None:
    """Raise with the worst entry if any difference is larger than allowed (nan and inf equal themselves)."""
    with np.errstate(invalid="ignore"):
        error = np.abs(got - want)
        error = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0.0, error)
        # where an inf is wanted, or nothing is known, only the entry itself is allowed
        excess = np.where(np.isfinite(error) & np.isfinite(allowed), error / allowed, np.where(error == 0, 0.0, np.inf))
    if excess.size and excess.max() > 1:
        index = tuple(int(k) for k in np.unravel_index(int(np.argmax(excess)), excess.shape))
        raise AssertionError(
            f"{what}: {label}: worst entry at index {index} of leaf {leaf}: got {got[index]!r}; "
            f"needed {want[index]!r} (off by {error[index]:.3g}, allowed {allowed[index]:.3g}; "
            f"{int((excess > 1).sum())} of {excess.size} entries are wrong)."
        )


def _check_forward(f: Any, point: Arrays, ts: Arrays, dots: Arrays, label: str, options: dict[str, Any]) -> None:
    """Forward mode against differences."""
    wanted, size = _differences(f, point, ts, options["eps"])
    for leaf, (got, want) in enumerate(zip(dots, wanted, strict=True)):
        rtol, atol = options["rtol"], options["atol"]
        eps = _eps([got, *point])
        # by default what rounding can do to the difference quotient, and to a lower precision's derivative
        rtol = max(1e-7, 100 * eps) if rtol is None else rtol
        largest = _largest(want)
        noise = 30 * np.finfo(np.float64).eps / options["eps"] * size + 100 * eps * largest
        allowed = rtol * np.abs(want) + (noise if atol is None else atol) + np.finfo(np.float64).tiny
        _complain("check_grads", f"{label}, forward mode against differences", got, want, allowed, leaf)


def _check_pairing(cts: Arrays, dots: Arrays, pulled: Arrays, ts: Arrays, label: str, what: str) -> None:
    """<ct, J t> == <J^T ct, t>, to rounding of the terms of both sums."""
    (left, left_size), (right, right_size) = _pairing(cts, dots), _pairing(pulled, ts)
    eps = _eps([*dots, *pulled])
    allowed = 200 * eps * (left_size + right_size)
    if not _agree(left, right, allowed):
        raise AssertionError(
            f"{what}: {label}: <ct, J t> is {left!r} and <J^T ct, t> is {right!r}: the modes disagree by "
            f"{abs(left - right):.3g}, allowed {allowed:.3g}."
        )


def inner_product_identity(f: Callable[..., Any], args: Sequence[Any], seed: int = 0) -> None:
    """Assert that reverse mode is the transpose of forward mode at a point, ties and edges included.

    For random t and ct: <ct, J t> == <J^T ct, t> to rounding, where <a, b> is the sum of Re(a * b).

    >>> import numbagrad.numpy as np
    >>> from numbagrad.testing import inner_product_identity
    >>> inner_product_identity(np.max, (np.asarray([1.0, 2.0, 2.0]),))
    """
    flat, rng = _Function(f, args), np.random.default_rng(seed)
    ts = _random(rng, flat.point)
    outs, dots = jvp(flat, flat.point, ts)
    cts = _random(rng, _numpy(outs))
    _, pull = vjp(flat, *flat.point)
    _check_pairing(cts, _numpy(dots), _numpy(pull(_boxed(cts))), ts, "order 1", "inner_product_identity")


def _boxed(values: Sequence[Any]) -> list[Array]:
    return [Array(v) for v in values]


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("fwd", "rev"),
    eps: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> None:
    """Assert that the derivatives of `f` at `args` are right, up to `order`, in forward and reverse mode.

    f: any function of pytrees, with any pytree of arrays as result. Forward mode is compared with central
    differences in float64 along a random tangent, reverse mode with forward mode through the inner-product
    identity. Order n does the same to x, t -> J(x) t and x, ct -> J(x)^T ct.

    eps: step of the differences. rtol, atol: for the comparison with them (by default what rounding and the
    step can explain). Integer arguments are constants. Arrays on a device are checked there.

    Errors: AssertionError that names the order, the mode and the worst entry with its index.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> from numbagrad.testing import check_grads
    >>> check_grads(lambda x: np.sin(x) * x, (np.asarray([0.5, 2.0]),), order=3)
    >>> wrong = ng.custom_vjp(np.sin)
    >>> wrong.defvjp(lambda x: (np.sin(x), x), lambda x, g: (g * g * np.cos(x),))
    >>> check_grads(wrong, (0.5,), modes=["rev"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: check_grads: order 1 (rev): <ct, J t> is ...
    """
    unknown = [m for m in modes if m not in ("fwd", "rev")]
    if unknown or not modes:
        raise ValueError(message("check_grads", "no such mode", list(modes), "'fwd', 'rev' or both"))
    options = {"eps": STEP if eps is None else eps, "rtol": rtol, "atol": atol, "modes": tuple(modes)}
    _check(_Function(f, args), order, "order", options, np.random.default_rng(seed))


def _check(flat: Any, order: int, path: str, options: dict[str, Any], rng: np.random.Generator) -> None:
    point, modes = flat.point, options["modes"]
    depth = path.count(",") + 1
    label = f"order {depth} ({path.removeprefix('order').strip(' ,') + ', ' if depth > 1 else ''}{{}})"
    ts = _random(rng, point)
    outs = _numpy(flat(*_boxed(point)))
    cts = _random(rng, outs)
    if "fwd" in modes:
        dots = _numpy(jvp(flat, point, ts)[1])
        _check_forward(flat, point, ts, dots, label.format("fwd"), options)
    if "rev" in modes:
        pulled = _numpy(vjp(flat, *point)[1](_boxed(cts)))
        if "fwd" in modes:
            _check_pairing(cts, dots, pulled, ts, label.format("rev"), "check_grads")
        else:
            _check_reverse(flat, cts, pulled, ts, label.format("rev"), options)
    if order > 1:
        for mode in modes:
            _check(_derivative(flat, mode, ts, cts), order - 1, f"{path} {mode},", options, rng)


def _check_reverse(f: Any, cts: Arrays, pulled: Arrays, ts: Arrays, label: str, options: dict[str, Any]) -> None:
    """Reverse mode against differences along one tangent."""
    wanted, size = _differences(f, f.point, ts, options["eps"])
    (left, terms), (right, more) = _pairing(cts, wanted), _pairing(pulled, ts)
    eps = _eps(pulled)
    rtol = max(1e-7, 200 * eps) if options["rtol"] is None else options["rtol"]
    count = sum(c.size for c in cts)
    noise = 30 * np.finfo(np.float64).eps / options["eps"] * size * count
    allowed = rtol * (terms + more) + (noise if options["atol"] is None else options["atol"])
    if not _agree(left, right, allowed):
        raise AssertionError(
            f"check_grads: {label}: <ct, J t> is {left!r} by differences and <J^T ct, t> is {right!r}: "
            f"off by {abs(left - right):.3g}, allowed {allowed:.3g}."
        )


def _derivative(flat: Any, mode: str, ts: Arrays, cts: Arrays) -> _Function:
    """The derivative as a function of the point and of the tangent or cotangent."""
    n = len(flat.point)
    if mode == "fwd":

        def forward(*values: Any) -> Any:
            return jvp(flat, values[:n], values[n:])[1]

        return _Function(forward, (*flat.point, *ts))

    def reverse(*values: Any) -> Any:
        return vjp(flat, *values[:n])[1](list(values[n:]))

    return _Function(reverse, (*flat.point, *cts))


class KernelCount:
    """Kernels compiled and kernels taken from the cache folder while the block ran."""

    compilations = 0
    loads = 0


@contextmanager
def count_kernels() -> Iterator[KernelCount]:
    """Count what a block compiles (`compilations`) and what it takes from the cache folder (`loads`).

    >>> import numbagrad.numpy as np
    >>> from numbagrad.testing import count_kernels
    >>> x = np.sin(np.ones(3))
    >>> with count_kernels() as kernels:
    ...     x = np.sin(np.ones(3))
    >>> kernels.compilations, kernels.loads
    (0, 0)
    """
    from numbagrad.kernels.cpu import compiler

    counted = KernelCount()
    before = compiler.compilations, compiler.loads
    try:
        yield counted
    finally:
        counted.compilations, counted.loads = compiler.compilations - before[0], compiler.loads - before[1]
