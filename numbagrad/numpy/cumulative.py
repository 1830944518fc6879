"""Running sums, products and extrema along an axis, and the `accumulate` and `reduce` of NumPy's ufuncs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from numbagrad.core.arguments import value_of
from numbagrad.core.array import Array
from numbagrad.core.dtypes import BOOL, INEXACT, check_dtype, float_dtype
from numbagrad.core.errors import message
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy import reductions, shaping, ufuncs
from numbagrad.numpy.reductions import normalize_axis
from numbagrad.primitives import cumulative as prims
from numbagrad.primitives.elementwise import convert

# fmt: off
__all__ = [
    "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "nancumprod", "nancumsum",
]
# fmt: on


def along(name: str, a: Any, axis: Any) -> tuple[Any, int]:
    """The value to run along and the axis; None is the flat array, of which a number has one element."""
    value = value_of(a, name)
    ndim = len(value.shape)
    k = 0 if axis is None else normalize_axis(axis, max(ndim, 1), name)
    if ndim == 0 or (axis is None and ndim > 1):
        value = shaping.ravel(Array(value))._value
    return value, k


def wide_dtype(dtype: np.dtype, wanted: Any, name: str) -> np.dtype:
    """NumPy's accumulator: small integers and bool become 64-bit."""
    if wanted is not None:
        return check_dtype(name, wanted)
    if dtype.kind in "bi":
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if dtype.kind == "u" else dtype


def accumulate(primitive: Any, value: Any, axis: int, target: np.dtype, reverse: bool = False) -> Any:
    """A running sum or product in a dtype."""
    if target == BOOL:  # any so far, or all
        return _OF_BOOL[primitive](convert(value, BOOL), axis=axis, reverse=reverse)
    if value.dtype.kind in INEXACT or target.kind in INEXACT:
        return primitive(convert(value, target), axis=axis, reverse=reverse)
    return primitive(value, axis=axis, reverse=reverse, dtype=target)


_OF_BOOL = {prims.cumsum: prims.cummax, prims.cumprod: prims.cummin}


def _cumulative(name: str, primitive: Any, doc: str) -> Callable[..., Array]:
    def function(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Array:
        value, k = along(name, a, axis)
        target = wide_dtype(value.dtype, dtype, name)
        return ew.store(Array(accumulate(primitive, value, k, target)), out, name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


cumsum = _cumulative(
    "cumsum",
    prims.cumsum,
    """Sum of the elements so far along an axis (of the flat array).

    Dtypes: integers and bool are summed in 64 bits, float32 in float64 and then rounded. Derivative: the sum from the
    other end.

    >>> import numbagrad.numpy as np
    >>> np.cumsum(np.asarray([1.0, 2.0, 3.0]))
    Array([1., 3., 6.], dtype=float64)
    """,
)
cumprod = _cumulative(
    "cumprod",
    prims.cumprod,
    """Product of the elements so far along an axis (of the flat array).

    Edge: the derivative is exact with any number of zeros, at any order.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> ng.grad(lambda x: np.cumprod(x).sum())(np.asarray([2.0, 0.0, 3.0]))
    Array([1., 8., 0.], dtype=float64)
    """,
)


def _ignoring_nan(name: str, function: Callable[..., Array], fill: int, doc: str) -> Callable[..., Array]:
    def ignoring(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Array:
        x = Array(value_of(a, name))
        if x.dtype.kind in INEXACT:
            x = ew.where(ew.isnan(x), np.asarray(fill, x.dtype), x)
        return function(x, axis, dtype, out)

    ignoring.__name__ = ignoring.__qualname__ = name
    ignoring.__doc__ = doc
    return ignoring


nancumsum = _ignoring_nan("nancumsum", cumsum, 0, "Cumulative sum that takes nan as 0.")
nancumprod = _ignoring_nan("nancumprod", cumprod, 1, "Cumulative product that takes nan as 1.")


def _standard(name: str, primitive: Any, start: int, doc: str) -> Callable[..., Array]:
    def function(
        x: Any, /, *, axis: int | None = None, dtype: Any = None, out: Any = None, include_initial: bool = False
    ) -> Array:
        value = value_of(x, name)
        ndim = len(value.shape)
        if axis is None and ndim != 1:
            got = f"axis=None for {ndim} axes"
            raise ValueError(message(name, "an axis must be named", got, "axis= of an array", "Or ravel it first."))
        if ndim == 0:
            raise ValueError(message(name, "no axis to run along", "shape ()", "at least one axis"))
        k = normalize_axis(0 if axis is None else axis, ndim, name)
        target = wide_dtype(value.dtype, dtype, name)
        result = Array(accumulate(primitive, value, k, target))
        if include_initial:
            first = np.full((*value.shape[:k], 1, *value.shape[k + 1 :]), start, target)
            result = shaping.concatenate([first, result], k)
        return ew.store(result, out, name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


cumulative_sum = _standard(
    "cumulative_sum",
    prims.cumsum,
    0,
    """Sum of the elements so far along an axis; with `include_initial` a 0 in front.

    >>> import numbagrad.numpy as np
    >>> np.cumulative_sum(np.asarray([1, 2, 3]), include_initial=True)
    Array([0, 1, 3, 6], dtype=int64)
    """,
)
cumulative_prod = _standard(
    "cumulative_prod",
    prims.cumprod,
    1,
    "Product of the elements so far along an axis; with `include_initial` a 1 in front.",
)


def running(name: str, primitive: Any, a: Any, axis: int, reverse: bool = False) -> Array:
    """A running extremum or log-sum-exp."""
    value = value_of(a, name)
    reductions._ordered(value, name)
    if primitive is prims.cumlogsumexp:
        value = convert(value, float_dtype(value.dtype))
    if value.shape == ():
        raise ValueError(message(name, "no axis to run along", "shape ()", "at least one axis"))
    return Array(primitive(value, axis=normalize_axis(axis, len(value.shape), name), reverse=reverse))


# --- the methods of NumPy's ufuncs


def _accumulate(name: str, run: Callable[[Any, int], Array], keeps: bool) -> Callable[..., Array]:
    def accumulate(array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Array:
        value = value_of(array, f"{name}.accumulate")
        if value.shape == ():
            needed = "at least one axis"
            raise TypeError(message(f"{name}.accumulate", "a number has nothing to run along", "shape ()", needed))
        if dtype is not None:
            value = convert(value, check_dtype(name, dtype))
        elif keeps and value.dtype.kind in "biu":
            value = convert(value, wide_dtype(value.dtype, None, name))
        return ew.store(run(Array(value), axis), out, f"{name}.accumulate")

    accumulate.__doc__ = f"`{name}` of the elements so far along an axis."
    return accumulate


def _reduce(name: str, function: Callable[..., Array], typed: bool) -> Callable[..., Array]:
    def reduce(
        array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False, **more: Any
    ) -> Any:
        if dtype is not None and not typed:
            array = convert(value_of(array), check_dtype(name, dtype))
            array = Array(array)
        options = {"dtype": dtype} if typed and dtype is not None else {}
        return function(array, axis=axis, out=out, keepdims=keepdims, **options, **more)

    reduce.__doc__ = f"`{name}` of all elements along axes."
    return reduce


ACCUMULATE: dict[str, Callable[..., Array]] = {
    "add": _accumulate("add", cumsum, True),
    "multiply": _accumulate("multiply", cumprod, True),
    "maximum": _accumulate("maximum", lambda x, k: running("maximum", prims.cummax, x, k), False),
    "minimum": _accumulate("minimum", lambda x, k: running("minimum", prims.cummin, x, k), False),
    "logaddexp": _accumulate("logaddexp", lambda x, k: running("logaddexp", prims.cumlogsumexp, x, k), False),
}
REDUCE: dict[str, Callable[..., Array]] = {
    "add": _reduce("add", reductions.sum, True),
    "multiply": _reduce("multiply", reductions.prod, True),
    "maximum": _reduce("maximum", reductions.max, False),
    "minimum": _reduce("minimum", reductions.min, False),
    "logaddexp": _reduce(
        "logaddexp",
        lambda x, axis, out, keepdims: ew.store(reductions.logsumexp(x, axis, keepdims), out, "logaddexp"),
        False,
    ),
    "logical_and": _reduce("logical_and", reductions.all, False),
    "logical_or": _reduce("logical_or", reductions.any, False),
}

for _method, _table in (("accumulate", ACCUMULATE), ("reduce", REDUCE)):
    for _name, _function in _table.items():
        setattr(getattr(ufuncs, _name), _method, _function)
