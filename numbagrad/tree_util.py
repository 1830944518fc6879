"""Pytrees: nested containers of arrays as arguments and results. The names are those of ``jax.tree_util``.

>>> from numbagrad import tree_util
>>> tree_util.tree_map(lambda x: 2 * x, {"w": 1.0, "b": (2.0, None)})
{'b': (4.0, None), 'w': 2.0}
"""

from numbagrad.core.tree import (
    Partial,
    all_leaves,
    broadcast_prefix,
    tree_all,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_leaves_with_path,
    tree_map,
    tree_map_with_path,
    tree_reduce,
    tree_structure,
    tree_transpose,
    tree_unflatten,
    treedef_children,
    treedef_is_leaf,
    treedef_tuple,
)
from numbagrad.core.tree import TreeDef as PyTreeDef
from numbagrad.core.tree_kinds import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    SequenceKey,
    keystr,
    register_dataclass,
    register_leaf,
    register_pytree_node,
    register_pytree_node_class,
    register_static,
)

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "broadcast_prefix",
    "keystr",
    "register_dataclass",
    "register_leaf",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_static",
    "tree_all",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]
