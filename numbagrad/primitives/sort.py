"""Order along an axis: sort, and the constant permutations argsort, argpartition, top_k. Searching in sorted arrays.

The route of all is a permutation (or the first places of one), so nothing is picked twice.
"""

from __future__ import annotations

from typing import Any

from numbagrad.core.registry import Primitive, routed_pair
from numbagrad.primitives import along


def _apply(route: Any, tangents: Any, x: Any, *, axis: int, descending: bool = False) -> Any:
    return along.take_along(tangents[0], route, axis=axis, unique=True)


def _transpose(route: Any, g: Any, x: Any, *, axis: int, descending: bool = False) -> Any:
    return (along.unique_transpose(g, x, route, axis),)


sort, sort_routed = routed_pair(
    "sort",
    "sort:sort",
    "sort:sort_routed",
    _apply,
    _transpose,
    doc="Elements in order along an axis; nan last (first if descending). Derivative: along the stable permutation.",
)

argsort = Primitive(
    "argsort",
    "sort:argsort",
    doc="The stable permutation that sorts along an axis; -0.0 equals 0.0, nans equal each other.",
)
argpartition = Primitive(
    "argpartition",
    "sort:argpartition",
    doc="A permutation along an axis that puts the elements of sorted places `kth` there, smaller before.",
)
top_k = Primitive(
    "top_k",
    "sort:top_k",
    doc="Places of the k largest along the last axis, the largest first, equal ones in their order; nan is largest.",
)
searchsorted = Primitive(
    "searchsorted",
    "sort:searchsorted",
    doc="Where elements would go into a sorted line so that it stays sorted.",
)
