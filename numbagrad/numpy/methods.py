"""The operators and methods of Array, and the protocols that let NumPy's own functions work on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from numbagrad.config import OPENED
from numbagrad.core.arguments import scalar_cell
from numbagrad.core.array import Array, ViewArray
from numbagrad.core.device import find, meet, move
from numbagrad.core.dtypes import FLOATING, INEXACT, check_dtype
from numbagrad.core.errors import TracerConversionError, message
from numbagrad.core.trace import Box
from numbagrad.numpy import creation, cumulative, indexing, order, products, reductions, shaping, ufuncs
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy.updates import IndexUpdater
from numbagrad.primitives.elementwise import convert, op

ndarray = np.ndarray


def _operator(atom_name: str, function: Callable[..., Array], swap: bool, floating: bool) -> Callable[..., Any]:
    """A binary operator. The first lines are the fast path: equal types, or a Python number beside an array."""
    operation = op(atom_name)
    kinds = INEXACT if floating else "iu" + INEXACT

    def method(self: Array, other: Any) -> Any:
        x = self._value
        dtype = x.dtype
        if dtype.kind in kinds:
            if isinstance(other, Array):
                y = other._value
                if y.dtype is dtype:
                    if OPENED and (x.__class__ is not y.__class__ or (x.__class__ is not ndarray and x.level)):
                        x, y = meet(atom_name, x, y)
                    return Array(operation(y, x) if swap else operation(x, y))
            else:
                kind = other.__class__
                if (kind is float and dtype.kind in FLOATING) or (kind is int and dtype.kind in INEXACT):
                    y = scalar_cell(other, dtype)
                    return Array(operation(y, x) if swap else operation(x, y))
        if other is None or isinstance(other, (str, bytes, dict, set)):
            return NotImplemented
        return function(other, self) if swap else function(self, other)

    return method


BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
}
SYMBOLS = dict(zip((*BINARY, "pow", "matmul"), "+ - * / // % & | ^ << >> ** @".split(), strict=True))
COMPARE = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}


def _in_place(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    def update(self: Array, other: Any) -> Any:
        result = method(self, other)
        return result if result is NotImplemented else ew.rebind(self, result, name)

    return update


def _attach_operators() -> None:
    for short, atom_name in BINARY.items():
        function = getattr(ufuncs, atom_name)
        floating = short in ("truediv", "floordiv", "mod")
        plain = _operator(atom_name, function, False, floating)
        bitwise = short in ("and", "or", "xor", "lshift", "rshift")
        if bitwise:
            plain = _slow(function, False)
        setattr(Array, f"__{short}__", plain)
        setattr(
            Array, f"__r{short}__", _slow(function, True) if bitwise else _operator(atom_name, function, True, floating)
        )
        setattr(Array, f"__i{short}__", _in_place(plain, f"x {SYMBOLS[short]}= y"))
    for short, atom_name in COMPARE.items():
        setattr(Array, f"__{short}__", _operator(atom_name, getattr(ufuncs, atom_name), False, False))
    for short, function in (("pow", ew.power), ("matmul", products.matmul)):
        setattr(Array, f"__{short}__", _slow(function, False))
        setattr(Array, f"__r{short}__", _slow(function, True))
        setattr(Array, f"__i{short}__", _in_place(_slow(function, False), f"x {SYMBOLS[short]}= y"))
    for short, function in {
        "neg": ufuncs.negative,
        "pos": ufuncs.positive,
        "abs": ew.absolute,
        "invert": ufuncs.invert,
    }.items():
        setattr(Array, f"__{short}__", _unary(function))


def _unary(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda self: function(self)


def _slow(function: Callable[..., Array], swap: bool) -> Callable[..., Any]:
    def method(self: Array, other: Any) -> Any:
        if other is None or isinstance(other, (str, bytes, dict, set)):
            return NotImplemented
        return function(other, self) if swap else function(self, other)

    return method


def _getitem(self: Array, key: Any) -> Array:
    return indexing.getitem(self, key)


def _setitem(self: Array, key: Any, new: Any) -> None:
    indexing.setitem(self, key, new)


def _iter(self: Array) -> Iterator[Array]:
    if not self.shape:
        raise TypeError(message("iter", "a 0-d array has no elements to iterate", "shape ()", "at least one axis"))
    return (indexing.getitem(self, k) for k in range(self.shape[0]))


def _contains(self: Array, item: Any) -> bool:
    return bool(reductions.any(self == item))


def astype(self: Array, dtype: Any, copy: bool = True, device: Any = None) -> Array:
    """Converted to another dtype; complex to real takes the real part."""
    found = convert(self._value, check_dtype("astype", dtype))
    return Array(found if device is None else move(found, find(device, "astype")))


def reshape(self: Array, *shape: Any, order: str = "C") -> Array:
    """The same elements under another shape."""
    return shaping.reshape(self, shape[0] if len(shape) == 1 else shape, order)


def transpose(self: Array, *axes: Any) -> Array:
    """Axes in another order."""
    order = axes[0] if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))) else axes or None
    return shaping.transpose(self, order)


def to_device(self: Array, device: Any, /, *, stream: Any = None) -> Array:
    """On another device; the derivative moves back. All work of a device is on one stream, so `stream` says nothing."""
    return Array(move(self._value, find(device, "to_device")))


def _namespace(self: Array, /, *, api_version: str | None = None) -> Any:
    import numbagrad.numpy

    return numbagrad.numpy


def _attach_methods() -> None:
    special = (_getitem, _setitem, _iter, _contains)
    named: dict[str, Any] = {f"__{f.__name__[1:]}__": f for f in special}
    named |= {f.__name__: f for f in (astype, reshape, transpose, to_device)}
    named |= {
        name: getattr(reductions, name) for name in "sum prod max min any all argmax argmin mean var std ptp".split()
    }
    named |= {name: getattr(shaping, name) for name in "ravel squeeze swapaxes repeat".split()}
    named |= {"cumsum": cumulative.cumsum, "cumprod": cumulative.cumprod}
    named |= {name: getattr(order, name) for name in "argsort argpartition searchsorted".split()}
    named |= {"sort": order.sort_in_place, "partition": order.partition_in_place}
    named |= {"flatten": shaping.ravel, "dot": products.dot, "trace": products.trace, "diagonal": products.diagonal}
    named |= {"clip": ew.clip, "round": ew.round, "conj": ew.conj, "conjugate": ew.conj, "copy": creation.copy}
    named |= {
        "T": property(lambda self: shaping.transpose(self), doc="Axes reversed."),
        "mT": property(shaping.matrix_transpose, doc="The last two axes swapped."),
        "real": property(ew.real, doc="Real part."),
        "imag": property(ew.imag, doc="Imaginary part."),
        "at": property(IndexUpdater, doc="Functional updates: x.at[i].set(v), .add, .multiply, .min, .max, .get."),
        "flat": property(lambda self: iter(shaping.ravel(self)), doc="Iterator over all elements."),
        "__array_namespace__": _namespace,
        "__array_ufunc__": _array_ufunc,
        "__array_function__": _array_function,
    }
    for name, attribute in named.items():
        setattr(Array, name, attribute)


# --- NumPy's own functions on Arrays


def _ours(name: str) -> Any:
    import numbagrad.numpy as namespace

    aliases = {"divide": "divide", "true_divide": "divide", "conjugate": "conj", "absolute": "absolute"}
    return getattr(namespace, aliases.get(name, name), None)


def _array_ufunc(self: Array, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """np.sin(x) on an Array: the function of the same name here. Into a NumPy array: NumPy, on concrete numbers."""
    out = kwargs.pop("out", None)
    out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if isinstance(out, np.ndarray):
        plain = [_plain(x, ufunc.__name__) for x in inputs]
        return getattr(ufunc, method)(*plain, out=out, **kwargs)
    if method == "__call__":
        function = _ours(ufunc.__name__)
        if function is not None and (not kwargs or set(kwargs) <= {"dtype"}):
            result = function(*inputs, **kwargs)
            return result if out is None else ew.store(result, out, ufunc.__name__)
    elif method in METHODS and ufunc.__name__ in METHODS[method]:
        kwargs = {k: v for k, v in kwargs.items() if v is not np._NoValue}
        return METHODS[method][ufunc.__name__](*inputs, out=out, **kwargs)
    elif method == "outer" and _ours(ufunc.__name__) is not None:
        x, y = (creation.asarray(v) for v in inputs)
        return _ours(ufunc.__name__)(x.reshape(x.shape + (1,) * y.ndim), y)
    raise TypeError(
        message(
            f"np.{ufunc.__name__}", f"{method} is not available on Arrays", kwargs or "no options", "numbagrad.numpy's"
        )
    )


METHODS = {"reduce": cumulative.REDUCE, "accumulate": cumulative.ACCUMULATE}


def _plain(x: Any, name: str) -> Any:
    if isinstance(x, Array):
        if isinstance(x._value, Box):
            raise TracerConversionError(
                message(
                    f"np.{name}",
                    "a traced value cannot be written into a NumPy array",
                    repr(x),
                    "an Array",
                    "Use numbagrad.numpy.",
                )
            )
        return np.asarray(x._value)
    return x


# Called to be sure of a NumPy array, like np.asarray: scipy.optimize hands their results to compiled code.
CONVERSIONS = {np.atleast_1d, np.atleast_2d, np.atleast_3d}


def _array_function(self: Array, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """np.concatenate(xs) and the like: the function of the same name here."""
    if func in CONVERSIONS and not any(isinstance(x, Array) and isinstance(x._value, Box) for x in args):
        return func(*(np.array(x) for x in args))
    module = func.__module__.removeprefix("numpy").lstrip(".")
    import numbagrad.numpy as namespace

    holder = getattr(namespace, module, None) if module in ("linalg", "fft") else namespace
    function = getattr(holder, func.__name__, None)
    if function is None:
        raise TypeError(
            message(
                f"{func.__module__.replace('numpy', 'np', 1)}.{func.__name__}",
                "not available on Arrays",
                "an Array",
                "a NumPy array",
                "Convert with np.asarray(x).",
            )
        )
    kwargs = {k: v for k, v in kwargs.items() if v is not np._NoValue}
    out = kwargs.get("out")
    if isinstance(out, np.ndarray):
        out[...] = function(*args, **{k: v for k, v in kwargs.items() if k != "out"})
        return out
    return function(*args, **kwargs)


_attach_operators()
_attach_methods()
__all__ = ["ViewArray"]
