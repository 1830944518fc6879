"""Reductions over sliding windows under their XLA names, for any monoid and any pytree of operands."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from numbagrad.core.arguments import arrays_of, meet_with, own, owned, value_of
from numbagrad.core.array import Array
from numbagrad.core.device import beside
from numbagrad.core.dtypes import FLOATING
from numbagrad.core.errors import message
from numbagrad.core.registry import own_zeros
from numbagrad.core.trace import concrete
from numbagrad.core.tree import TreeDef, tree_flatten, tree_unflatten
from numbagrad.lax import elementwise
from numbagrad.lax.padding import integers, pairs, string_padding
from numbagrad.lax.structural import pad
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy import shaping, ufuncs
from numbagrad.primitives import barrier, slices
from numbagrad.primitives import window as prims
from numbagrad.primitives.elementwise import convert
from numbagrad.primitives.window import Axis, Geometry

Ints = Sequence[int]
Shape = tuple[int, ...]
Pads = Sequence[tuple[int, int]]
Padding = str | Pads

_LAX = elementwise.FUNCTIONS
_MONOIDS: list[tuple[Any, str]] = [
    *((f, "max") for f in (_LAX["max"], ufuncs.maximum, np.maximum)),
    *((f, "min") for f in (_LAX["min"], ufuncs.minimum, np.minimum)),
    *((f, "add") for f in (_LAX["add"], ufuncs.add, np.add, operator.add)),
]
_SELECTIONS: list[tuple[Any, str]] = [
    *((f, "max") for f in (_LAX["ge"], ufuncs.greater_equal, np.greater_equal, operator.ge)),
    *((f, "min") for f in (_LAX["le"], ufuncs.less_equal, np.less_equal, operator.le)),
]
_SELECTION_NAMES = {"ge": "max", "ge_p": "max", "le": "min", "le_p": "min"}
_REDUCTIONS = {"max": prims.window_max, "min": prims.window_min}
_ROUTES = {"max": prims.window_max_routed, "min": prims.window_min_routed}


def _known(table: list[tuple[Any, str]], function: Any) -> str | None:
    return next((kind for f, kind in table if f is function), None)


def _on_arrays(function: Any) -> Any:
    """This library's function for one of NumPy's."""
    return getattr(ufuncs, function.__name__, function) if isinstance(function, np.ufunc) else function


# ------------------------------------------------------------------------------------------------ geometry


def padtype_to_pads(in_shape: Ints, window_shape: Ints, window_strides: Ints, padding: Padding) -> Pads:
    """Amounts (low, high) per axis for "VALID", "SAME" (an odd one out goes to the end) or "SAME_LOWER".

    >>> import numbagrad as ng
    >>> ng.lax.padtype_to_pads((8, 8), (3, 3), (2, 1), "SAME")
    [(0, 1), (1, 1)]
    """
    if isinstance(padding, str):
        return list(string_padding("padtype_to_pads", in_shape, window_shape, window_strides, padding))
    return list(pairs("padtype_to_pads", padding, len(in_shape)))


def geometry(
    op: str,
    shape: tuple[int, ...],
    window_dimensions: Ints,
    window_strides: Ints | None = None,
    padding: Padding = "VALID",
    base_dilation: Ints | None = None,
    window_dilation: Ints | None = None,
) -> Geometry:
    """The windows of a shape from XLA's parameters; errors name the operation."""
    ndim = len(shape)
    sizes = integers(op, "window_dimensions", window_dimensions, ndim)
    strides = integers(op, "window_strides", window_strides, ndim)
    bases = integers(op, "base_dilation", base_dilation, ndim)
    dilations = integers(op, "window_dilation", window_dilation, ndim)
    if isinstance(padding, str):  # of the operand as it is: base dilation does not count, as in JAX
        extents = [(k - 1) * d + 1 for k, d in zip(sizes, dilations)]
        pads = string_padding(op, shape, extents, strides, padding)
    else:
        pads = pairs(op, padding, ndim)
    return _windows(shape, sizes, strides, pads, bases, dilations)


@lru_cache(maxsize=1024)
def _windows(shape: Shape, sizes: Shape, strides: Shape, pads: Any, bases: Shape, dilations: Shape) -> Geometry:
    parts = zip(shape, sizes, strides, pads, bases, dilations)
    return Geometry(tuple(Axis(n, k, s, low, high, b, d) for n, k, s, (low, high), b, d in parts))


def reduce_window_shape_tuple(
    operand_shape: Ints,
    window_dimensions: Ints,
    window_strides: Ints,
    padding: Padding,
    base_dilation: Ints | None = None,
    window_dilation: Ints | None = None,
) -> tuple[int, ...]:
    """Shape of the result of a reduce_window."""
    rest = window_dimensions, window_strides, padding, base_dilation, window_dilation
    return geometry("reduce_window_shape_tuple", tuple(operand_shape), *rest).out_shape


# ------------------------------------------------------------------------------------------- reduce_window


def _scalar(op: str, init: Any, x: Any) -> Any:
    """An initial value in the operand's dtype."""
    (value,), dtype = meet_with(op, Array(x), init), x.dtype
    value = own(value, init)
    if value.shape != ():
        raise TypeError(message(op, "the initial value is not a scalar", f"shape {value.shape}", "shape ()"))
    if value.dtype == dtype:
        return value
    order, integers = "biufVc".index, {value.dtype.kind, dtype.kind} <= {"i", "u"}
    fits = order(value.dtype.kind) <= order(dtype.kind) or integers
    if integers and isinstance(value, np.ndarray):
        fits = np.iinfo(dtype).min <= int(value) <= np.iinfo(dtype).max
    if not fits:
        step = "Pass a value of the operand's dtype, such as np.iinfo(dtype).min."
        raise TypeError(
            message(op, "the initial value does not fit the operand", f"{init} ({value.dtype})", f"{dtype}", step)
        )
    return convert(value, dtype)


def _is_identity(kind: str, init: Any) -> bool:
    if init.__class__ is not np.ndarray:  # traced, or on a device, where looking at it would mean waiting
        return False
    if kind == "add":
        return bool(init == 0)
    if init.dtype.kind in FLOATING:
        return bool(init == (-np.inf if kind == "max" else np.inf))
    if init.dtype.kind == "b":
        return bool(init) == (kind == "min")
    limits = np.iinfo(init.dtype)
    return bool(init == (limits.min if kind == "max" else limits.max))


def _reduce_known(kind: str, x: Any, init: Any, window: Geometry) -> Array:
    boolean = x.dtype.kind == "b"
    if kind != "add" or boolean:
        if x.dtype.kind == "c":
            needed = "a real dtype"
            raise TypeError(message("reduce_window", "complex numbers have no order", x.dtype, needed, "Use abs(x)."))
        kind = "max" if kind == "add" else kind
        out = Array(_REDUCTIONS[kind](x, window=window))
        if _is_identity(kind, init):
            return out
        if boolean:
            return (ufuncs.logical_or if kind == "max" else ufuncs.logical_and)(out, Array(init))
        return (ufuncs.maximum if kind == "max" else ufuncs.minimum)(out, Array(init))
    total = Array(prims.window_sum(x, window=window))
    return total if _is_identity(kind, init) else total + Array(init)


def _padded(x: Any, init: Any, window: Geometry) -> Array:
    config = [(a.low, a.high, a.base - 1) for a in window.axes]
    return pad(Array(x), Array(init), config) if any(map(any, config)) else Array(x)


def _part(x: Array, starts: Sequence[int], axes: Sequence[int], window: Geometry) -> Array:
    """What one tap of some axes reads, from the padded operand."""
    key: list[slice] = [slice(None)] * x.ndim
    for k, start in zip(axes, starts):
        a = window.axes[k]
        key[k] = slice(start, start + (a.outputs - 1) * a.stride + 1 if a.outputs else start, a.stride)
    return Array(slices.getitem(x._value, key=tuple(key)))


Fold = Callable[[list[Array], list[Array]], list[Array]]


def _checked(computation: Any, tree: TreeDef, dtypes: Sequence[np.dtype]) -> Fold:
    """The user's function on lists of leaves, with its results checked."""
    function = _on_arrays(computation)

    def combine(xs: list[Array], ys: list[Array]) -> list[Array]:
        result, found = tree_flatten(function(tree_unflatten(tree, xs), tree_unflatten(tree, ys)))
        if found != tree:
            raise TypeError(message("reduce_window", "computation returns another structure", found, tree))
        outs = [Array(value_of(r, "reduce_window")) for r in result]
        got, wanted = [(o.shape, str(o.dtype)) for o in outs], [(x.shape, str(d)) for x, d in zip(xs, dtypes)]
        if got != wanted:
            raise TypeError(message("reduce_window", "computation changes shape or dtype", got, wanted))
        return outs

    return combine


def _reduce_any(values: list[Any], inits: list[Any], combine: Fold, window: Geometry) -> list[Array]:
    """Any monoid: the last axis first keeps the window's order, at a cost of the sum of the sizes, not the product.

    Padding and holes hold the initial value, but are passed over: along each axis they are known beforehand.
    """
    total = [_padded(x, init, window) for x, init in zip(values, inits)]
    full = np.ones((), bool)  # windows that have read an element
    for k, a in reversed(list(enumerate(window.axes))):
        parts, column = total, (a.outputs,) + (1,) * (len(window.axes) - k - 1)
        total = [_part(p, (0,), (k,), window) for p in parts]
        read = _reads(a, 0)
        for t in range(1, a.size):
            new, there = [_part(p, (t * a.dilation,), (k,), window) for p in parts], _reads(a, t)
            if there.any():
                both, keep = (read & there).reshape(column), (read & ~there).reshape(column)
                total = _either(both, combine(total, new) if both.any() else new, _either(keep, total, new))
                read = read | there
        full = full & read.reshape(column)
    starts = [shaping.broadcast_to(Array(init), window.out_shape) for init in inits]
    return _either(full, combine(starts, total), starts)


def _reads(a: Axis, tap: int) -> np.ndarray:
    """Which windows read an element by a tap of an axis."""
    places, holes = np.divmod(np.arange(a.outputs) * a.stride + tap * a.dilation - a.low, a.base)
    return (holes == 0) & (places >= 0) & (places < a.n)


def _either(mask: np.ndarray, xs: list[Array], ys: list[Array]) -> list[Array]:
    """xs where the mask holds, else ys."""
    if mask.all():
        return xs
    return [ew.where(mask, x, y) for x, y in zip(xs, ys)] if mask.any() else ys


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[..., Any],
    window_dimensions: Ints,
    window_strides: Ints | None = None,
    padding: Padding = "VALID",
    base_dilation: Ints | None = None,
    window_dilation: Ints | None = None,
) -> Any:
    """Reduce every window with an associative function and its identity.

    computation: lax.add, max and min (or NumPy's) run as one loop; any other function of two arrays, or of two pytrees
    like `operand`, is folded over slices in window order. Padding: "VALID", "SAME", "SAME_LOWER" or (low, high) per
    axis, negative ones crop. Padding and the holes of base_dilation are passed over; init_value counts once a window.
    Derivative of max and min: to the first of equal elements in window order, to the first nan; padding has none. An
    init_value that is not the identity counts as in maximum: half the derivative is its where it equals the extremum.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> pool = lambda x: ng.lax.reduce_window(x, -np.inf, ng.lax.max, (2,), (2,))
    >>> pool(np.asarray([1.0, 3.0, 2.0, 2.0])), ng.grad(lambda x: np.sum(pool(x)))(np.asarray([1.0, 3.0, 2.0, 2.0]))
    (Array([3., 2.], dtype=float64), Array([0., 1., 1., 0.], dtype=float64))
    """
    name = "reduce_window"
    leaves, tree = tree_flatten(operand)
    given, init_tree = tree_flatten(init_value)
    if not leaves or tree != init_tree:
        raise TypeError(message(name, "one initial value per operand", init_tree, tree))
    values = [x._value for x in arrays_of(name, *leaves)]
    shapes = {v.shape for v in values}
    if len(shapes) > 1:
        raise ValueError(message(name, "operands have different shapes", sorted(shapes), "one shape"))
    inits = [_scalar(name, i, v) for i, v in zip(given, values)]
    rest = window_dimensions, window_strides, padding, base_dilation, window_dilation
    window = geometry(name, values[0].shape, *rest)
    kind = _known(_MONOIDS, computation) if len(values) == 1 else None
    if kind is not None:
        outs = [_reduce_known(kind, values[0], inits[0], window)]
    else:
        outs = _reduce_any(values, inits, _checked(computation, tree, [v.dtype for v in values]), window)
    return tree_unflatten(tree, outs)


# ------------------------------------------------------------------------------ select, then scatter or gather


def _route(op: str, select: Any, x: Any, window: Geometry) -> Any:
    """Which element each window selects: an index for primitives.window.gather and scatter, a constant."""
    x = barrier.stop_gradient(x)
    if x.dtype.kind == "c":
        raise TypeError(message(op, "complex numbers have no order", x.dtype, "a real dtype"))
    name = select if isinstance(select, str) else getattr(select, "name", None)
    kind = _known(_SELECTIONS, select) or (_SELECTION_NAMES.get(name) if isinstance(name, str) else None)
    if kind is not None:
        return _ROUTES[kind](x, window=window)[1]
    if not callable(select):
        raise TypeError(message(op, "no such selection", repr(select), "lax.ge, lax.le or a function of two arrays"))
    numbers = beside(_places(window), x)
    values, places = _padded(x, np.zeros((), x.dtype), window), _padded(numbers, np.asarray(-1), window)
    every = range(len(window.axes))
    best = Array(own_zeros(concrete(x), window.out_shape, x.dtype))
    index = Array(beside(np.full(window.out_shape, -1), x))
    for tap in product(*(range(a.size) for a in window.axes)):
        starts = [t * a.dilation for t, a in zip(tap, window.axes)]
        v, i = _part(values, starts, every, window), _part(places, starts, every, window)
        kept = ufuncs.logical_and(index >= 0, select(best, v))
        wins = ufuncs.logical_and(i >= 0, ufuncs.logical_not(kept))
        best, index = ew.where(wins, v, best), ew.where(wins, i, index)
    return index._value


def _places(window: Geometry) -> np.ndarray:
    """Every element's own index in the windowed block."""
    line = np.arange(window.flat[1])[None, :, None]
    return np.ascontiguousarray(np.broadcast_to(line, window.flat)).reshape(window.shape)


def _fits(op: str, source: Any, window: Geometry, dtype: np.dtype) -> Any:
    value = owned(Array(source), op)
    if value.shape != window.out_shape:
        raise ValueError(message(op, "not one number per window", value.shape, f"shape {window.out_shape}"))
    if value.dtype != dtype:
        raise TypeError(message(op, "dtypes differ", f"{value.dtype} and {dtype}", "equal dtypes"))
    return value


def select_and_scatter(
    operand: Any,
    select: Any,
    window_dimensions: Ints,
    window_strides: Ints | None,
    padding: Padding,
    source: Any,
    init_value: Any,
    scatter: Callable[..., Any],
) -> Array:
    """init_value everywhere, and each window's number of `source` put by `scatter` to the element the window selects.

    select: lax.ge, lax.le, or a function that tells whether the element so far stays. Of ties the first is selected,
    of nans the first nan. Derivative: of source and init_value; the selection has none.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> x, s = np.asarray([1.0, 3.0, 2.0, 2.0]), np.asarray([10.0, 20.0])
    >>> ng.lax.select_and_scatter(x, ng.lax.ge, (2,), (2,), "VALID", s, 0.0, ng.lax.add)
    Array([ 0., 10., 20.,  0.], dtype=float64)
    """
    name = "select_and_scatter"
    x, value = (v._value for v in arrays_of(name, operand, source))
    window = geometry(name, x.shape, window_dimensions, window_strides, padding)
    updates = _fits(name, value, window, x.dtype)
    target = shaping.broadcast_to(Array(_scalar(name, init_value, x)), x.shape)
    route = _route(name, select, x, window)
    if _known(_MONOIDS, scatter) == "add" and x.dtype.kind != "b":
        return Array(prims.scatter(target._value, route, updates, window))
    return _scatter_any(scatter, target, route, updates, window)


def _scatter_any(scatter: Any, target: Array, route: Any, updates: Any, window: Geometry) -> Array:
    """By any function: tap by tap the numbers of the windows that see an element, in the order of the windows."""
    if 0 in window.out_shape:
        return target
    scatter = _on_arrays(scatter)
    places, source, chosen = Array(beside(_places(window), updates)), Array(updates), Array(route)
    zero, none = np.zeros((), updates.dtype), np.asarray(-1)
    for tap in product(*(reversed(range(a.size)) for a in window.axes)):
        config = []
        for t, a in zip(tap, window.axes):
            low = t * a.dilation - a.low
            config.append((low, a.n - low - (a.outputs - 1) * a.stride - 1, a.stride - 1))
        here = pad(chosen, none, config) == places
        target = ew.where(here, scatter(target, pad(source, zero, config)), target)
    return target


def select_and_scatter_add(
    source: Any, operand: Any, select_prim: Any, window_dimensions: Ints, window_strides: Ints | None, padding: Padding
) -> Array:
    """Each window's number of `source` added to the element the window selects: the adjoint of select_and_gather_add.

    select_prim: lax.ge or lax.le ("ge", "le"), or a function as in select_and_scatter.
    """
    name = "select_and_scatter_add"
    x, value = (v._value for v in arrays_of(name, operand, source))
    window = geometry(name, x.shape, window_dimensions, window_strides, padding)
    updates = _fits(name, value, window, value.dtype)
    zeros, route = own_zeros(concrete(x), x.shape, updates.dtype), _route(name, select_prim, x, window)
    if updates.dtype.kind == "b":
        return _scatter_any(ufuncs.logical_or, Array(zeros), route, updates, window)
    return Array(prims.scatter(zeros, route, updates, window))


def select_and_gather_add(
    tangents: Any,
    operand: Any,
    select_prim: Any,
    window_dimensions: Ints,
    window_strides: Ints | None,
    padding: Padding,
    base_dilation: Ints | None = None,
    window_dilation: Ints | None = None,
) -> Array:
    """The element of `tangents` at the place that each window of `operand` selects; 0 for windows of padding.

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> x, t = np.asarray([1.0, 3.0, 2.0, 2.0]), np.asarray([1.0, 2.0, 3.0, 4.0])
    >>> ng.lax.select_and_gather_add(t, x, ng.lax.ge, (2,), (2,), "VALID")
    Array([2., 3.], dtype=float64)
    """
    name = "select_and_gather_add"
    x, t = (v._value for v in arrays_of(name, operand, tangents))
    if t.shape != x.shape:
        raise ValueError(message(name, "shapes differ", f"{t.shape} and {x.shape}", "equal shapes"))
    rest = window_dimensions, window_strides, padding, base_dilation, window_dilation
    window = geometry(name, x.shape, *rest)
    return Array(prims.gather(t, _route(name, select_prim, x, window), window))
