"""Gathers and scatters of windows under their XLA names.

A window becomes the numbers of its elements (or of whole rows, where its last axes span the operand's), and rows are
picked or combined by number. Index arrays are not traced; those on a device stay there.
"""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import numbagrad.numpy as device_numpy
from numbagrad.core.arguments import host_value, own, owned, promote, value_of
from numbagrad.core.array import Array
from numbagrad.core.dtypes import INEXACT
from numbagrad.core.errors import message
from numbagrad.core.trace import Box
from numbagrad.kernels.cpu.places import as_int64
from numbagrad.numpy import elementwise as ew
from numbagrad.numpy.indexing import SCATTERS, holds
from numbagrad.numpy.updates import applied
from numbagrad.primitives import index as rows_of
from numbagrad.primitives.broadcast import reshape_to
from numbagrad.primitives.elementwise import op
from numbagrad.primitives.layout import transpose


class GatherDimensionNumbers(NamedTuple):
    """How axes of operand, indices (the last of which is a vector) and result of a gather belong together.

    offset_dims: axes of the result that run over a window. collapsed_slice_dims: axes of the operand left out of it.
    start_index_map: the operand's axis of each element of the vector. The batching pairs run in step.
    """

    offset_dims: Sequence[int]
    collapsed_slice_dims: Sequence[int]
    start_index_map: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    start_indices_batching_dims: Sequence[int] = ()


class ScatterDimensionNumbers(NamedTuple):
    """The same for a scatter: update_window_dims are axes of the updates, inserted_window_dims axes of the operand."""

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


class GatherScatterMode(enum.Enum):
    """What becomes of a window that does not fit: moved until it does, or filled (a gather) and dropped (a scatter).

    A promise that is broken is treated as CLIP by gathers, as FILL_OR_DROP by scatters.
    """

    CLIP = 0
    FILL_OR_DROP = 1
    PROMISE_IN_BOUNDS = 2

    @staticmethod
    def from_any(s: Any) -> GatherScatterMode:
        """A mode by its name; None is FILL_OR_DROP."""
        label = str(getattr(s, "name", s)).lower()
        found = {"none": "fill_or_drop", "fill": "fill_or_drop", "drop": "fill_or_drop"}.get(label, label).upper()
        if found not in GatherScatterMode.__members__:
            wanted = "'clip', 'fill', 'drop' or 'promise_in_bounds'"
            raise ValueError(message("GatherScatterMode", "no such mode", repr(s), wanted))
        return GatherScatterMode[found]


def _check_axes(name: str, ndim: int, indices: tuple[int, ...], numbers: Sequence[tuple[int, ...]]) -> None:
    """Every axis exists and is named once."""
    window, collapsed, index_map, batching, index_batching = numbers
    lead = max(0, len(indices) - 1)
    for what, axes, count in (
        ("axes of windows", window, lead + len(window)),
        ("axes of the operand left out", collapsed + batching, ndim),
        ("axes of the operand that indices are for", index_map + batching, ndim),
        ("batching axes of the indices", index_batching, lead),
    ):
        if len(set(axes)) < len(axes):
            raise ValueError(message(name, f"{what} are repeated", axes, "each once"))
        if not all(0 <= d < count for d in axes):
            raise ValueError(message(name, f"{what} out of range", axes, f"0 to {count - 1}"))


class _Windows:
    """Windows of an operand: where each begins, and the numbers of the rows it is made of."""

    def __init__(self, name: str, shape: tuple[int, ...], indices: Any, numbers: Any, sizes: Sequence[int]) -> None:
        window, collapsed, index_map, batching, index_batching = (tuple(map(operator.index, d)) for d in numbers)
        self.name, self.shape, self.sizes = name, shape, tuple(map(operator.index, sizes))
        _check_axes(name, len(shape), indices.shape, (window, collapsed, index_map, batching, index_batching))
        self.kept = [d for d in range(len(shape)) if d not in collapsed and d not in batching]
        self.window, self.batching = window, (batching, index_batching)
        ok = len(self.sizes) == len(shape) and indices.ndim > 0 and indices.shape[-1] == len(index_map)
        ok = ok and len(window) == len(self.kept) and len(batching) == len(index_batching)
        if not ok:
            got = f"{numbers}, indices {indices.shape}, windows {self.sizes} of {shape}"
            raise ValueError(message(name, "dimension numbers do not fit", got, "one axis for each"))
        if any(not 0 <= w <= n for w, n in zip(self.sizes, shape, strict=True)):
            raise ValueError(message(name, "a window is no part of the operand", self.sizes, f"at most {shape}"))
        if any(self.sizes[d] > 1 for d in (*collapsed, *batching)):
            raise ValueError(message(name, "windows of axes left out", self.sizes, f"1 along {collapsed + batching}"))
        self.lead = indices.shape[:-1]
        # NumPy, or for indices on a device the same functions there
        self.numpy: Any = np if isinstance(indices, np.ndarray) else device_numpy
        # the last axes that every window spans whole are one row
        used = {*index_map, *batching, *collapsed}
        self.split = len(shape)
        while self.split and self.split - 1 not in used and self.sizes[self.split - 1] == shape[self.split - 1]:
            self.split -= 1
        self.starts = self._starts(indices, index_map)

    def _starts(self, indices: Any, index_map: tuple[int, ...]) -> list[Any]:
        """Per axis of the operand where the windows begin."""
        starts: list[Any] = [np.zeros((1,) * len(self.lead), np.int64) for _ in self.shape]
        for k, d in enumerate(index_map):
            starts[d] = _signed(indices[..., k])
        for d, b in zip(*self.batching, strict=True):
            if self.lead[b] != self.shape[d]:
                got = f"{self.lead[b]} and {self.shape[d]}"
                raise ValueError(message(self.name, "lengths of batching axes differ", got, "equal lengths"))
            starts[d] = np.arange(self.lead[b]).reshape([-1 if k == b else 1 for k in range(len(self.lead))])
        return starts

    def rows(self, clip: bool) -> tuple[Any, Any]:
        """Row numbers (lead, window axes before the rows), -1 where the window does not fit; and which do."""
        inside: Any = np.ones(self.lead, bool)
        starts = list(self.starts)
        for d, (n, w) in enumerate(zip(self.shape, self.sizes, strict=True)):
            if clip:
                starts[d] = self.numpy.clip(starts[d], 0, n - w)
            else:
                inside = inside & (starts[d] >= 0) & (starts[d] <= n - w)
        axes = [d for d in self.kept if d < self.split]
        number: Any = np.zeros((*self.lead, *(self.sizes[d] for d in axes)), np.int64)
        for d in range(self.split):
            at = self.numpy.where(inside, starts[d], 0).reshape((*inside.shape, *(1,) * len(axes)))
            if d in axes:
                at = at + np.arange(self.sizes[d]).reshape([-1 if k == d else 1 for k in axes])
            number = number * self.shape[d] + at
        fits = inside.reshape((*inside.shape, *(1,) * len(axes)))
        return _plain(self.numpy.where(fits, number, -1)), inside

    def operand(self, x: Any) -> Any:
        """The operand as rows."""
        return reshape_to(x, (math.prod(self.shape[: self.split]), *self.shape[self.split :]))

    @property
    def order(self) -> tuple[int, ...]:
        """Axes of (lead, window) for each axis of the result of a gather, or of the updates of a scatter."""
        total = len(self.lead) + len(self.window)
        windows = iter(range(len(self.lead), total))
        leads = iter(range(len(self.lead)))
        return tuple(next(windows) if k in self.window else next(leads) for k in range(total))


def _signed(index: Any) -> Any:
    """Integers as int64; of those too large the largest."""
    if isinstance(index, np.ndarray):
        return as_int64(index)
    if index.dtype == np.uint64:
        index = device_numpy.minimum(index, np.uint64(np.iinfo(np.int64).max))
    return index.astype(np.int64)


def _plain(x: Any) -> Any:
    return x._value if isinstance(x, Array) else x


def _integers(name: str, indices: Any, traced: bool) -> Any:
    """An index array: NumPy's, or an Array on a device."""
    value = host_value(indices, name)
    value = own(value, indices) if traced else value
    found = Array(value)._buffer("an index", "Use stop_gradient(i).")
    if found.dtype.kind not in "iu" and found.size:
        raise TypeError(message(name, "indices are not integers", found.dtype, "an integer dtype"))
    return found if isinstance(found, np.ndarray) else Array(found)


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> Array:
    """Windows of the operand, one per index vector (the last axis of start_indices).

    mode: "clip" (the default) moves a window until it fits; "fill" fills the whole of one that does not with
    fill_value (default nan; for integers the smallest signed, the largest unsigned number; True).

    >>> import numbagrad as ng, numbagrad.numpy as np
    >>> numbers = ng.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(), start_index_map=(0,))
    >>> ng.lax.gather(np.arange(5), np.asarray([[0], [4]]), numbers, (2,))
    Array([[0, 1],
           [3, 4]], dtype=int64)
    """
    x = owned(operand, "gather")
    index = _integers("gather", start_indices, False)
    how = GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    windows = _Windows("gather", tuple(x.shape), index, GatherDimensionNumbers(*dimension_numbers), slice_sizes)
    numbers, inside = windows.rows(clip=how is not GatherScatterMode.FILL_OR_DROP)
    found = Array(rows_of.take(windows.operand(x), numbers, mode="drop"))
    if isinstance(inside, Array) or not inside.all():  # what a device finds is not looked at
        wide = inside.reshape((*inside.shape, *(1,) * (found.ndim - inside.ndim)))
        found = ew.where(wide, found, _fill(x.dtype, fill_value))
    return Array(transpose(found._value, axes=windows.order))


def _fill(dtype: np.dtype, fill_value: Any) -> np.ndarray:
    if fill_value is None:
        if dtype.kind in INEXACT:
            fill_value = np.nan
        elif dtype.kind == "b":
            fill_value = True
        else:
            fill_value = np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max
    return np.asarray(fill_value).astype(dtype)


def _scatter_windows(
    name: str, x: Any, indices: Any, numbers: Any, updates: tuple[int, ...], mode: Any, traced: bool
) -> tuple[_Windows, Any]:
    """Windows that updates go to, and their row numbers."""
    dims = ScatterDimensionNumbers(*numbers)
    index = _integers(name, indices, traced)
    if len(updates) != index.ndim - 1 + len(dims.update_window_dims):
        wanted = f"{max(0, index.ndim - 1)} axes of the indices and {len(dims.update_window_dims)} of windows"
        raise ValueError(message(name, "updates do not match the windows", f"shape {updates}", wanted))
    _check_axes(name, len(x.shape), index.shape, tuple(tuple(map(operator.index, d)) for d in dims))
    left_out = {*dims.inserted_window_dims, *dims.operand_batching_dims}
    spans = iter([updates[d] for d in dims.update_window_dims if d < len(updates)])
    sizes = [1 if d in left_out else next(spans, -1) for d in range(len(x.shape))]
    windows = _Windows(name, tuple(x.shape), index, dims, sizes)
    clip = GatherScatterMode.from_any(mode) is GatherScatterMode.CLIP
    whole = (*windows.lead, *(sizes[d] for d in windows.kept))
    if updates != tuple(whole[k] for k in windows.order):
        wanted = f"shape {tuple(whole[k] for k in windows.order)}"
        raise ValueError(message(name, "updates do not match the windows", f"shape {updates}", wanted))
    return windows, windows.rows(clip)[0]


def _scatter(name: str, how: str, operand: Any, indices: Any, updates: Any, numbers: Any, mode: Any) -> Array:
    dtype = value_of(operand, name).dtype
    holds(name, dtype, host_value(updates, name).dtype, fractions=how == "set")
    (x, new), _ = promote((operand, updates), name, dtype)
    traced = isinstance(x, Box) or isinstance(new, Box)
    windows, rows = _scatter_windows(name, x, indices, numbers, tuple(new.shape), mode, traced)
    if name == "scatter_sub":
        new = op("negative")(new)
    new = transpose(new, axes=tuple(np.argsort(windows.order).tolist()))
    out = SCATTERS[how](windows.operand(x), rows, new, "drop")
    return Array(reshape_to(out, tuple(x.shape)))


def _scatter_function(name: str, how: str, doc: str) -> Callable[..., Array]:
    def scatter(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Array:
        return _scatter(name, how, operand, scatter_indices, updates, dimension_numbers, mode)

    scatter.__name__ = scatter.__qualname__ = name
    scatter.__doc__ = f"{doc} Windows that do not fit are dropped as a whole, or moved with mode 'clip'."
    return scatter


scatter = _scatter_function("scatter", "set", "Windows replaced by updates; of several the last wins.")
scatter_add = _scatter_function("scatter_add", "add", "Updates added to windows.")
scatter_sub = _scatter_function("scatter_sub", "add", "Updates subtracted from windows.")
scatter_mul = _scatter_function(
    "scatter_mul", "multiply", "Windows multiplied by updates, derivatives exact with zeros."
)
scatter_min = _scatter_function("scatter_min", "min", "The smaller of windows and updates; ties share the derivative.")
scatter_max = _scatter_function("scatter_max", "max", "The larger of windows and updates; ties share the derivative.")


def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: Any,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """An elementwise function applied to windows, to an element as often as windows cover it. Differentiable.

    update_shape: the shape updates of these windows would have.
    """
    x = owned(operand, "scatter_apply")
    shape = tuple(map(operator.index, update_shape))
    windows, rows = _scatter_windows("scatter_apply", x, scatter_indices, dimension_numbers, shape, mode, False)
    width, rows = math.prod(windows.shape[windows.split :]), np.asarray(rows)
    elements = np.where(rows[..., None] < 0, -1, rows[..., None] * width + np.arange(width))
    return Array(applied(x, elements.reshape(-1), func))
