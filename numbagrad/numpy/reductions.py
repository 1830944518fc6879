"""Reductions over any axes."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from numbagrad.core.arguments import arrays_of, host_value, meet_with, owned, value_of
from numbagrad.core.array import Array
from numbagrad.core.device import beside
from numbagrad.core.dtypes import BOOL, FLOATING, INEXACT, INT, check_dtype, computed, float_dtype, real_dtype
from numbagrad.core.errors import message
from numbagrad.core.trace import bind
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy.halves import in_float32
from numbagrad.primitives import reduce as prims
from numbagrad.primitives.broadcast import broadcast_to, count, expand_axes, reduce_sum
from numbagrad.primitives.elementwise import convert

# fmt: off
__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "average", "count_nonzero", "logsumexp", "max", "mean", "min",
    "nanargmax", "nanargmin", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar",
    "prod", "ptp", "std", "sum", "var",
]
# fmt: on

Axis = int | tuple[int, ...] | None
UINT = np.dtype(np.uint64)
Axes = tuple[int, ...]


def normalize_axis(axis: Any, ndim: int, name: str) -> int:
    """An axis as a number in [0, ndim)."""
    try:
        k = operator.index(axis)
    except TypeError:
        raise TypeError(
            message(name, "an axis must be an integer", repr(axis), "an int, a tuple of ints or None")
        ) from None
    if not -ndim <= k < ndim:
        raise np.exceptions.AxisError(message(name, "axis out of range", k, f"{-ndim} to {ndim - 1} for {ndim} axes"))
    return k % ndim


def normalize_axes(axis: Any, ndim: int, name: str) -> Axes:
    """None, an axis or several as a sorted tuple."""
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    found = sorted(normalize_axis(a, ndim, name) for a in axes)
    if len(set(found)) != len(found):
        raise ValueError(message(name, "an axis is given twice", axis, "different axes"))
    return tuple(found)


def _finish(value: Any, axes: Axes, ndim: int, keepdims: bool, out: Any, name: str) -> Array:
    return ew.store(Array(expand_axes(value, axes, ndim) if keepdims else value), out, name)


def _masked(value: Any, where: Any, identity: Any, name: str) -> Any:
    if where is None or where is True:
        return value
    return ew.where(where, Array(value), Array(np.asarray(identity, value.dtype)))._value


def _sum_dtype(dtype: np.dtype, wanted: Any, name: str) -> np.dtype:
    """NumPy's accumulator: small integers and bool become 64-bit."""
    if wanted is not None:
        return check_dtype(name, wanted)
    kind = dtype.kind
    return INT if kind in "bi" else UINT if kind == "u" else dtype


def _accumulating(name: str, identity: int, doc: str) -> Any:
    primitive = reduce_sum if name == "sum" else prims.reduce_prod
    combine = "add" if name == "sum" else "multiply"

    def function(
        a: Any,
        axis: Axis = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Array:
        value = value_of(a, name)
        if where is not None:
            value = _masked(value, where, identity, name)
        ndim = len(value.shape)
        axes = normalize_axes(axis, ndim, name)
        target = _sum_dtype(value.dtype, dtype, name)
        if target is value.dtype:
            result = bind(primitive, (value,), {"axes": axes})
        elif value.dtype.kind in INEXACT or target.kind in INEXACT:
            result = primitive(convert(value, target), axes=axes)
        else:
            result = primitive(value, axes=axes, dtype=target)
        if initial is not None:
            result = ew.call(combine, Array(result), initial)._value
        return _finish(result, axes, ndim, keepdims, out, name) if keepdims or out is not None else Array(result)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


sum = _accumulating(
    "sum",
    0,
    """Sum over axes; integers and bool are summed in 64 bits, float32 in float64 and then rounded.

    Edge: empty is 0. Derivative: ones.

    >>> import numbagrad.numpy as np
    >>> np.sum(np.ones((2, 3)), axis=0)
    Array([2., 2., 2.], dtype=float64)
    """,
)
prod = _accumulating("prod", 1, "Product over axes; empty is 1. The derivative is exact with zeros, at any order.")


def _extremum(name: str, primitive: Any, binary: str, doc: str) -> Any:
    def function(
        a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None
    ) -> Array:
        value = value_of(a, name)
        _ordered(value, name)
        if where is not None and where is not True:
            if initial is None:
                raise ValueError(message(name, "where= needs a start value", "no initial", "initial="))
            value = _masked(value, where, initial, name)
        ndim = len(value.shape)
        axes = normalize_axes(axis, ndim, name)
        if count(value.shape, axes) == 0:
            if initial is None:
                _empty(value, name)
            kept = tuple(n for k, n in enumerate(value.shape) if k not in axes)
            filled = beside(np.full(kept, initial, value.dtype), value)
            return _finish(filled, axes, ndim, keepdims, out, name)
        result = primitive(value, axes=axes)
        if initial is not None:
            result = ew.call(binary, Array(result), initial)._value
        return _finish(result, axes, ndim, keepdims, out, name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _ordered(value: Any, name: str) -> None:
    if value.dtype.kind == "c":
        raise TypeError(message(name, "complex numbers have no order", value.dtype, "a real dtype", "Use abs(x)."))


def _empty(value: Any, name: str) -> None:
    raise ValueError(
        message(
            name, "an empty axis has no such element", f"shape {value.shape}", "at least one element", "Pass initial=."
        )
    )


_SHARES = "nan if one is. Ties share the derivative equally; nans share all of it."
max = amax = _extremum("max", prims.reduce_max, "maximum", f"Maximum over axes; {_SHARES}")
min = amin = _extremum("min", prims.reduce_min, "minimum", f"Minimum over axes; {_SHARES}")


def _logical(name: str, primitive: Any, doc: str) -> Any:
    def function(a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False, *, where: Any = None) -> Array:
        value = value_of(a, name)
        if value.dtype.kind == "c":
            value = ew.call("not_equal", Array(value), 0)._value
        value = _masked(convert(value, BOOL), where, name == "all", name)
        ndim = len(value.shape)
        axes = normalize_axes(axis, ndim, name)
        return _finish(primitive(value, axes=axes), axes, ndim, keepdims, out, name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


any = _logical("any", prims.reduce_any, "Whether any element is nonzero; False if there is none.")
all = _logical("all", prims.reduce_all, "Whether all elements are nonzero; True if there is none.")


def _arg(name: str, primitive: Any) -> Any:
    def function(a: Any, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Array:
        value = value_of(a, name)
        _ordered(value, name)
        ndim = len(value.shape)
        if axis is None:
            value = value.reshape(-1) if isinstance(value, np.ndarray) else Array(value).reshape(-1)._value
            k, axes = 0, tuple(range(ndim))
        else:
            k = normalize_axis(axis, ndim, name)
            axes = (k,)
        if value.shape[k] == 0:
            _empty(value, name)
        return _finish(primitive(value, axis=k), axes, ndim, keepdims, out, name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Index of the first {name[3:]}imum along an axis (of the flat array); the first nan counts as one."
    )
    return function


argmax, argmin = _arg("argmax", prims.argmax), _arg("argmin", prims.argmin)


@in_float32
def mean(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = None
) -> Array:
    """Arithmetic mean over axes; integers in float64. Empty: nan."""
    value = value_of(a, "mean")
    axes = normalize_axes(axis, len(value.shape), "mean")
    target = float_dtype(value.dtype) if dtype is None else check_dtype("mean", dtype)
    if where is None or where is True:
        n: Any = count(value.shape, axes)
    else:
        mask = broadcast_to(beside(host_value(where, "mean"), value), shape=value.shape)
        n = sum(Array(mask), axis=axes, keepdims=keepdims)
    wide = computed(target)
    total = sum(a, axes, None if wide is value.dtype else wide, None, keepdims, None, where)
    if isinstance(n, Array) or wide.kind not in FLOATING:
        found = ew.call("divide", total, n if isinstance(n, Array) else float(n), dtype=wide)
    else:
        found = total / float(n)
    return ew.store(Array(convert(found._value, target)), out, "mean")


@in_float32
def average(a: Any, axis: Axis = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """Mean weighted by `weights` (of the array's shape, or one per element of the axis)."""
    if weights is None:
        result = mean(a, axis, keepdims=keepdims)
        share = np.full(result.shape, value_of(a).size / np.maximum(result.size, 1))
        total = Array(beside(share, result._value))
    else:
        x, w = arrays_of("average", a, weights)
        if w.shape != x.shape:
            k = normalize_axis(axis, x.ndim, "average")
            if w.shape != (x.shape[k],):
                raise ValueError(message("average", "weights do not fit", w.shape, f"{x.shape} or ({x.shape[k]},)"))
            w = w.reshape([w.size if d == k else 1 for d in range(x.ndim)])
        total = sum(Array(broadcast_to(w._value, shape=x.shape)), axis, keepdims=keepdims)
        result = sum(x * w, axis, keepdims=keepdims) / total
    return (result, total) if returned else result


@in_float32
def var(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    mean: Any = None,
    correction: float | None = None,
) -> Array:
    """Variance over axes with `ddof` degrees of freedom taken off; real for complex input."""
    value = value_of(a, "var")
    axes = normalize_axes(axis, len(value.shape), "var")
    target = float_dtype(value.dtype) if dtype is None else check_dtype("var", dtype)
    x = Array(convert(value, computed(target)))
    centred = x - (_mean(x, axes, keepdims=True) if mean is None else mean)
    squares = centred * centred if x.dtype.kind != "c" else ew.real(centred * ew.conj(centred))
    n = count(value.shape, axes) - (ddof if correction is None else correction)
    divisor = np.asarray(n if n > 0 else 0, squares.dtype)
    found = sum(squares, axes, keepdims=keepdims) / Array(divisor)
    return ew.store(Array(convert(found._value, real_dtype(target))), out, "var")


_mean = mean


@in_float32
def std(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    mean: Any = None,
    correction: float | None = None,
) -> Array:
    """Square root of the variance. Derivative 0 where all elements are equal."""
    variance = var(a, axis, _wide(dtype, "std"), None, ddof, keepdims, mean=mean, correction=correction)
    return _root(variance, dtype, out, "std")


def ptp(a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False) -> Array:
    """Maximum minus minimum over axes."""
    return ew.store(max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims), out, "ptp")


def count_nonzero(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Number of nonzero elements over axes."""
    return sum(ew.call("not_equal", a, 0), axis, keepdims=keepdims)


def logsumexp(a: Any, axis: Axis = None, keepdims: bool = False, *, b: Any = None, where: Any = None) -> Array:
    """log(sum(b * exp(a))) over axes without overflow.

    Edge: -inf for nothing, or only -inf (derivative 0); +inf takes all of the derivative, several share.
    """
    value = value_of(a, "logsumexp")
    value = convert(value, float_dtype(value.dtype))
    _ordered(value, "logsumexp")
    if b is not None:
        value = (Array(value) + ew.call("log", Array(meet_with("logsumexp", Array(value), b)[0])))._value
    value = _masked(value, where, -np.inf, "logsumexp")
    axes = normalize_axes(axis, len(value.shape), "logsumexp")
    return _finish(prims.logsumexp(value, axes=axes), axes, len(value.shape), keepdims, None, "logsumexp")


# --- reductions that ignore nan


def _without_nan(a: Any, fill: Any, name: str) -> tuple[Array, Array | None]:
    x = Array(owned(a, name))
    if x.dtype.kind not in INEXACT:
        return x, None
    missing = ew.isnan(x)
    return ew.where(missing, np.asarray(fill, x.dtype), x), missing


def nansum(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Array:
    """Sum that takes nan as 0."""
    return sum(_without_nan(a, 0, "nansum")[0], axis, dtype, out, keepdims)


def nanprod(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Array:
    """Product that takes nan as 1."""
    return prod(_without_nan(a, 1, "nanprod")[0], axis, dtype, out, keepdims)


def _nan_extremum(name: str, extremum: Any, fill: float) -> Any:
    def function(a: Any, axis: Axis = None, out: Any = None, keepdims: bool = False) -> Array:
        x, missing = _without_nan(a, fill, name)
        found = extremum(x, axis, keepdims=keepdims)
        if missing is not None:  # nothing but nan stays nan
            found = ew.where(all(missing, axis, keepdims=keepdims), np.asarray(np.nan, x.dtype), found)
        return ew.store(found, out, name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name[3:].title()}imum that ignores nan; nan where there is nothing else."
    return function


nanmax, nanmin = _nan_extremum("nanmax", max, -np.inf), _nan_extremum("nanmin", min, np.inf)


@in_float32
def nanmean(a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Array:
    """Mean of what is not nan."""
    x, missing = _without_nan(a, 0, "nanmean")
    if missing is None:
        return mean(x, axis, dtype, out, keepdims)
    target = x.dtype if dtype is None else check_dtype("nanmean", dtype)
    x = Array(convert(x._value, computed(target)))
    n = sum(ew.call("logical_not", missing), axis, keepdims=keepdims)
    found = sum(x, axis, None, None, keepdims) / ew.convert_like(n, x)
    return ew.store(Array(convert(found._value, target)), out, "nanmean")


@in_float32
def nanvar(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False
) -> Array:
    """Variance of what is not nan."""
    x, missing = _without_nan(a, 0, "nanvar")
    if missing is None:
        return var(x, axis, dtype, out, ddof, keepdims)
    target = x.dtype if dtype is None else check_dtype("nanvar", dtype)
    x = Array(convert(x._value, computed(target)))
    n = ew.convert_like(sum(ew.call("logical_not", missing), axis, keepdims=True), x)
    centred = ew.where(missing, np.asarray(0, x.dtype), x - sum(x, axis, keepdims=True) / n)
    squares = ew.real(centred * ew.conj(centred))
    left = ew.real(n if keepdims else n.reshape(sum(squares, axis).shape)) - ddof
    found = sum(squares, axis, None, None, keepdims) / left
    return ew.store(Array(convert(found._value, real_dtype(target))), out, "nanvar")


@in_float32
def nanstd(
    a: Any, axis: Axis = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False
) -> Array:
    """Standard deviation of what is not nan."""
    return _root(nanvar(a, axis, _wide(dtype, "nanstd"), None, ddof, keepdims), dtype, out, "nanstd")


def _wide(dtype: Any, name: str) -> np.dtype | None:
    """The type to compute in, of a result asked for."""
    return None if dtype is None else computed(check_dtype(name, dtype))


def _root(variance: Array, dtype: Any, out: Any, name: str) -> Array:
    """A standard deviation in the type asked for."""
    root = ew.call_internal("norm_sqrt", variance)
    return ew.store(root if dtype is None else root.astype(real_dtype(check_dtype(name, dtype))), out, name)


def _nan_arg(name: str, search: Any, fill: float) -> Any:
    def function(a: Any, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Array:
        x, missing = _without_nan(a, fill, name)
        if missing is not None and bool(any(all(missing, axis))):
            raise ValueError(message(name, "a slice is all nan", "no number", "at least one number per slice"))
        return search(x, axis, out, keepdims=keepdims)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{search.__doc__.split(';')[0]}, ignoring nan; all nan raises."
    return function


nanargmax, nanargmin = _nan_arg("nanargmax", argmax, -np.inf), _nan_arg("nanargmin", argmin, np.inf)


# --- norm


@in_float32
def norm(x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Array:
    """Vector norm of order 1, 2, inf, -inf, 0 or any p over an axis; Frobenius norm over two.

    Derivative at the zero vector: 0. Matrix norms 2, -2 and "nuc" belong to the linear algebra module.
    """
    a = Array(owned(x, "norm"))
    a = Array(convert(a._value, float_dtype(a.dtype)))
    axes = normalize_axes(axis, a.ndim, "norm")
    size = ew.absolute(a)
    if ord is None or (ord == 2 and len(axes) == 1) or (ord == "fro" and len(axes) == 2):
        squares = size * size if a.dtype.kind != "c" else ew.real(a * ew.conj(a))
        return ew.call_internal("norm_sqrt", sum(squares, axes, keepdims=keepdims))
    if len(axes) == 2:
        return _matrix_norm(size, ord, axes, keepdims)
    if len(axes) > 2 or isinstance(ord, str):
        got = f"ord={ord!r} over {len(axes)} axes"
        raise ValueError(message("norm", "no such norm", got, "a vector or matrix norm"))
    if ord == np.inf:
        return max(size, axes, keepdims=keepdims)
    if ord == -np.inf:
        return min(size, axes, keepdims=keepdims)
    if ord == 0:
        return sum(ew.convert_like(size != 0, size), axes, keepdims=keepdims)
    if ord == 1:
        return sum(size, axes, keepdims=keepdims)
    return ew.power(sum(ew.power(size, ord), axes, keepdims=keepdims), 1.0 / ord)


def _matrix_norm(size: Array, ord: Any, axes: Axes, keepdims: bool) -> Array:
    rows, columns = axes
    if ord not in (1, -1, np.inf, -np.inf):
        raise ValueError(message("norm", "no such matrix norm", f"ord={ord!r}", "'fro', 1, -1, inf or -inf"))
    summed, other = (rows, columns) if ord in (1, -1) else (columns, rows)
    largest = max if ord in (1, np.inf) else min
    result = largest(sum(size, summed, keepdims=True), other, keepdims=True)
    kept = tuple(n for k, n in enumerate(result.shape) if k not in axes)
    return result if keepdims else result.reshape(kept)
