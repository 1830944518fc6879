"""Short names of the pytree functions: `tree.map` is `tree_util.tree_map`."""

from numbagrad.core.tree import tree_all as all
from numbagrad.core.tree import tree_flatten as flatten
from numbagrad.core.tree import tree_flatten_with_path as flatten_with_path
from numbagrad.core.tree import tree_leaves as leaves
from numbagrad.core.tree import tree_leaves_with_path as leaves_with_path
from numbagrad.core.tree import tree_map as map
from numbagrad.core.tree import tree_map_with_path as map_with_path
from numbagrad.core.tree import tree_reduce as reduce
from numbagrad.core.tree import tree_structure as structure
from numbagrad.core.tree import tree_transpose as transpose
from numbagrad.core.tree import tree_unflatten as unflatten

# fmt: off
__all__ = [
    "all", "flatten", "flatten_with_path", "leaves", "leaves_with_path", "map", "map_with_path", "reduce",
    "structure", "transpose", "unflatten",
]
