"""Arguments of transformed functions: which are differentiated, as flat lists of values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numbagrad.core.arguments import own, owned, value_of
from numbagrad.core.array import Array
from numbagrad.core.dtypes import is_inexact
from numbagrad.core.errors import message
from numbagrad.core.transform import lower
from numbagrad.core.tree import TreeDef, tree_flatten, tree_map

Argnums = int | Sequence[int]


def check_function(fun: Any, name: str) -> None:
    """A transform needs something to call."""
    if not callable(fun):
        raise TypeError(message(name, "the first argument is not a function", type(fun).__name__, "a function"))


def check_argnums(argnums: Any, name: str) -> tuple[int, ...]:
    """argnums as a tuple of ints."""
    nums = argnums if isinstance(argnums, (tuple, list)) else (argnums,)
    if not nums or not all(isinstance(k, (int, np.integer)) and not isinstance(k, bool) for k in nums):
        raise TypeError(message(name, "argnums must be an int or a tuple of ints", repr(argnums), "e.g. 0 or (0, 1)"))
    return tuple(int(k) for k in nums)


class Split:
    """The positional arguments of a call with the differentiated ones taken out and flattened."""

    __slots__ = ("args", "kwargs", "leaves", "nums", "single", "trees", "values")

    def __init__(
        self, name: str, fun: Any, argnums: Any, args: Sequence[Any], kwargs: dict[str, Any], keep: bool
    ) -> None:
        self.single = not isinstance(argnums, (tuple, list))
        self.args, self.kwargs = args, kwargs
        nums = check_argnums(argnums, name)
        for k in nums:
            if not -len(args) <= k < len(args):
                got = f"argnums={argnums} for a call with {len(args)} positional arguments"
                step = "Pass differentiated arguments by position." if kwargs else ""
                raise ValueError(message(name, "argnums out of range", got, "the number of an argument", step))
        self.nums = tuple(k % len(args) for k in nums)
        self.leaves: list[Any] = []
        self.trees: list[tuple[TreeDef, int]] = []
        for k in self.nums:
            leaves, tree = tree_flatten(args[k])
            self.leaves += leaves
            self.trees.append((tree, len(leaves)))
        self.values = [value_of(x, name) for x in self.leaves]
        if keep:  # results or residuals outlive the call: they must not change with the caller's buffers
            self.values = [own(v, x) for v, x in zip(self.values, self.leaves, strict=True)]

    def require_inexact(self, name: str, fun: Any, allow_int: bool, holomorphic: bool) -> None:
        """Only floating and complex arguments have a derivative."""
        at = 0
        for k, (_, count) in zip(self.nums, self.trees, strict=True):
            for v in self.values[at : at + count]:
                if not is_inexact(v.dtype) and not allow_int:
                    step = "Convert it with x.astype(float), or pass allow_int=True for a zero gradient."
                    label = argument_name(fun, k)
                    raise TypeError(
                        message(name, f"{label} is not differentiable", v.dtype, "a float or complex dtype", step)
                    )
                if holomorphic and v.dtype.kind != "c":
                    label = argument_name(fun, k)
                    raise TypeError(
                        message(name, f"holomorphic=True, but {label} is not complex", v.dtype, "a complex dtype")
                    )
            at += count

    def call(self, fun: Callable[..., Any], values: Sequence[Any]) -> Any:
        """The function on other values of the differentiated leaves."""
        args = list(self.args)
        for k, part in zip(self.nums, self.unflatten([Array(v) for v in values]), strict=True):
            args[k] = part
        return fun(*args, **self.kwargs)

    def unflatten(self, leaves: Sequence[Any]) -> list[Any]:
        """One tree per differentiated argument."""
        parts, at = [], 0
        for tree, count in self.trees:
            parts.append(tree.unflatten(leaves[at : at + count]))
            at += count
        return parts

    def result(self, leaves: Sequence[Any]) -> Any:
        """As the caller asked: one tree for an int argnums, else a tuple."""
        parts = self.unflatten(leaves)
        return parts[0] if self.single else tuple(parts)


def argument_name(fun: Any, k: int) -> str:
    """`argument 0 (x)`."""
    try:
        return f"argument {k} ({list(inspect.signature(fun).parameters)[k]})"
    except (TypeError, ValueError, IndexError):
        return f"argument {k}"


def flatten_output(out: Any, name: str) -> tuple[list[Any], TreeDef]:
    """Leaves of a function's result as values."""
    leaves, tree = tree_flatten(out)
    return [owned(x, f"{name}: output") for x in leaves], tree


def split_aux(out: Any, name: str) -> tuple[Any, Any]:
    """(output, aux) of a function called with has_aux=True."""
    if not isinstance(out, tuple) or len(out) != 2:
        got = f"a tuple of {len(out)}" if isinstance(out, tuple) else type(out).__name__
        raise TypeError(message(name, "has_aux=True needs a pair (output, aux)", got, "a tuple of two"))
    return out


class FlatCall:
    """A function from flat values to flat values that remembers the structure of its result, and aux."""

    def __init__(self, name: str, fun: Callable[..., Any], split: Split, has_aux: bool) -> None:
        self.name, self.fun, self.split, self.has_aux = name, fun, split, has_aux
        self.aux: Any = None
        self.tree: TreeDef

    def __call__(self, values: list[Any]) -> list[Any]:
        out = self.split.call(self.fun, values)
        if self.has_aux:
            out, self.aux = split_aux(out, self.name)
        leaves, self.tree = flatten_output(out, self.name)
        return leaves

    def result(self, values: Sequence[Any]) -> Any:
        """Values in the structure of the function's result."""
        return self.tree.unflatten([Array(v) for v in values])


def strip(tree: Any, trace: Any) -> Any:
    """Auxiliary results without the boxes of a finished trace; what is no array stays as it is."""
    return tree_map(lambda x: Array(lower(x._value, trace)) if isinstance(x, Array) else x, tree)
