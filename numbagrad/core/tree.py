"""Pytrees: nested containers of leaves, taken apart and put together again.

Names and arguments are those of ``jax.tree_util``; what counts as a container is in ``tree_kinds``.

A structure is kept as plain nested tuples ``(kind, aux, children)`` with ``None`` for a leaf (a ``Spec``):
making, hashing and comparing them runs in C, which matters because every call of a gradient flattens its
arguments. Key paths are worked out only when an error needs them, by walking two structures again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from numbagrad.core.tree_kinds import (
    Difference,
    Kind,
    Spec,
    describe,
    difference,
    keystr,
    kind_of,
    kinds,
    register_pytree_node,
    show,
)

IsLeaf: TypeAlias = Callable[[Any], bool] | None
KeyPath: TypeAlias = tuple[Any, ...]


class TreeDef:
    """The structure of a tree: what is left when the leaves are taken out. Immutable, hashable, picklable.

    ``num_leaves`` is the number of leaves. Two structures are equal when their containers have the same
    types, keys, lengths and static values.

    >>> tree_structure({"a": 1, "b": (2, None)})
    PyTreeDef({'a': *, 'b': (*, None)})
    >>> tree_structure([1, 2]).unflatten("xy")
    ['x', 'y']
    """

    __slots__ = ("_hash", "num_leaves", "spec")

    def __init__(self, spec: Spec, num_leaves: int) -> None:
        self.spec = spec
        self.num_leaves = num_leaves
        self._hash: int | None = None  # on demand: tree_map never needs it

    def __hash__(self) -> int:
        if self._hash is None:
            try:
                self._hash = hash(self.spec)
            except TypeError as e:
                raise _static_error("hashed", e) from None
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeDef):
            return NotImplemented
        try:
            return self.num_leaves == other.num_leaves and self.spec == other.spec
        except ValueError as e:
            raise _static_error("compared", e) from None

    def __repr__(self) -> str:
        return f"PyTreeDef({show(self.spec)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_spec, (self.spec,)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Put leaves into this structure; see ``tree_unflatten``."""
        return tree_unflatten(self, leaves)

    def flatten_up_to(
        self, tree: Any, *, op: str = "flatten_up_to", names: tuple[str, str] = ("the structure", "the tree")
    ) -> list[Any]:
        """The subtrees of ``tree`` that stand where this structure has its leaves.

        Errors: ValueError where ``tree`` lacks this structure, in the words of ``op`` and ``names``.
        """
        out: list[Any] = []
        if self.spec is None:
            return [tree]
        if not _flatten_up_to(self.spec, tree, out):
            raise _mismatch(op, difference(self.spec, tree_structure(tree).spec, False), names)
        return out

    def children(self) -> list[TreeDef]:
        """The structures one level down; none for a leaf."""
        return [] if self.spec is None else [_from_spec(child) for child in self.spec[2]]

    def node_data(self) -> tuple[type, Any] | None:
        """The class of the outermost container and what it keeps besides its children; None for a leaf."""
        return None if self.spec is None else (self.spec[0].cls, self.spec[1])


LEAF = TreeDef(None, 1)


def _count(spec: Spec) -> int:
    return 1 if spec is None else sum(map(_count, spec[2]))


def _from_spec(spec: Spec) -> TreeDef:
    return LEAF if spec is None else TreeDef(spec, _count(spec))


def _static_error(verb: str, cause: Exception) -> TypeError:
    return TypeError(
        f"tree structure: a static value cannot be {verb}: got {cause}; needed values with == and hash. "
        "Make a field that holds an array data (no static metadata), and a list or dict a tuple."
    )


# ------------------------------------------------------------------------------------------- apart, together


def _flatten(kind: Kind, node: Any, leaves: list[Any]) -> Spec:
    children, aux = kind.flatten(node)
    specs: list[Spec] = []
    for child in children:
        try:
            sub = kinds[type(child)]  # kind_of, written out: this line runs once a leaf
        except KeyError:
            sub = kind_of(type(child))
        if sub is None:
            leaves.append(child)
            specs.append(None)
        else:
            specs.append(_flatten(sub, child, leaves))
    return kind, aux, tuple(specs)


def _flatten_until(node: Any, is_leaf: Callable[[Any], bool], leaves: list[Any]) -> Spec:
    kind = None if is_leaf(node) else kind_of(type(node))
    if kind is None:
        leaves.append(node)
        return None
    children, aux = kind.flatten(node)
    return kind, aux, tuple([_flatten_until(child, is_leaf, leaves) for child in children])


def _flatten_paths(node: Any, path: KeyPath, is_leaf: IsLeaf, out: list[tuple[KeyPath, Any]]) -> Spec:
    kind = None if is_leaf is not None and is_leaf(node) else kind_of(type(node))
    if kind is None:
        out.append((path, node))
        return None
    children, aux = kind.flatten(node)
    keys = kind.node_keys(node) if kind.node_keys else kind.keys(aux, len(children))
    pairs = zip(keys, children, strict=True)
    return kind, aux, tuple([_flatten_paths(child, (*path, key), is_leaf, out) for key, child in pairs])


def _flatten_up_to(spec: tuple[Kind, Any, tuple[Any, ...]], node: Any, out: list[Any]) -> bool:
    """Append the subtrees of node at the leaves of spec; False where node has another structure."""
    kind, aux, specs = spec
    if kind_of(type(node)) is not kind:
        return False
    children, node_aux = kind.flatten(node)
    try:
        if len(children) != len(specs) or node_aux != aux:
            return False
    except ValueError as e:
        raise _static_error("compared", e) from None
    for sub, child in zip(specs, children):
        if sub is None:
            out.append(child)
        elif not _flatten_up_to(sub, child, out):
            return False
    return True


def _unflatten(spec: tuple[Kind, Any, tuple[Any, ...]], leaves: Iterator[Any]) -> Any:
    kind, aux, specs = spec
    return kind.unflatten(aux, [next(leaves) if sub is None else _unflatten(sub, leaves) for sub in specs])


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeDef]:
    """Take a tree apart: ``(leaves, treedef)``, leaves from left to right, dicts in sorted key order.

    Edge: ``None`` and empty containers have no leaves. Where ``is_leaf(node)`` is true the walk stops.
    Errors: TypeError for a dict whose keys cannot be sorted.

    >>> tree_flatten({"b": [1, 2], "a": None})
    ([1, 2], PyTreeDef({'a': None, 'b': [*, *]}))
    """
    leaves: list[Any] = []
    if is_leaf is not None:
        spec = _flatten_until(tree, is_leaf, leaves)
    else:
        kind = kind_of(type(tree))
        if kind is None:
            return [tree], LEAF
        spec = _flatten(kind, tree, leaves)
    return leaves, (LEAF if spec is None else TreeDef(spec, len(leaves)))


def tree_unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """Put leaves into a structure: the inverse of ``tree_flatten``.

    Errors: ValueError for another number of leaves than the structure has.

    >>> tree_unflatten(tree_structure((0, {"a": 0})), ["x", "y"])
    ('x', {'a': 'y'})
    """
    leaves = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
    if len(leaves) != treedef.num_leaves:
        raise ValueError(
            f"tree_unflatten: wrong number of leaves: got {len(leaves)}; needed {treedef.num_leaves} for "
            f"{treedef}. Pass one leaf for each * of the structure."
        )
    return leaves[0] if treedef.spec is None else _unflatten(treedef.spec, iter(leaves))


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree, from left to right.

    >>> tree_leaves({"b": (1, None), "a": 2})
    [2, 1]
    """
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeDef:
    """The structure of a tree.

    >>> tree_structure([1, (2, 3)])
    PyTreeDef([*, (*, *)])
    """
    return tree_flatten(tree, is_leaf)[1]


def tree_flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[tuple[KeyPath, Any]], TreeDef]:
    """Like ``tree_flatten``, with each leaf as ``(key path, leaf)``.

    >>> [(keystr(path), leaf) for path, leaf in tree_flatten_with_path({"a": [1, 2]})[0]]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    out: list[tuple[KeyPath, Any]] = []
    spec = _flatten_paths(tree, (), is_leaf, out)
    return out, (LEAF if spec is None else TreeDef(spec, len(out)))


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """The leaves of a tree, each as ``(key path, leaf)``."""
    return tree_flatten_with_path(tree, is_leaf)[0]


# ---------------------------------------------------------------------------------------------------- map


def _columns(op: str, leaves: list[Any], treedef: TreeDef, rest: tuple[Any, ...]) -> list[list[Any]]:
    rows = [leaves]
    for i, other in enumerate(rest, 2):
        rows.append(treedef.flatten_up_to(other, op=op, names=("tree 1", f"tree {i}")))
    return rows


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Apply ``f`` to every leaf, or to the leaves of several trees side by side.

    The result has the structure of the first tree.

    Edge: where ``tree`` has a leaf, the others may have a whole subtree, which ``f`` is given as it is.
    Errors: ValueError that names the place where the structures differ.

    >>> tree_map(lambda x, y: x + y, {"w": 1, "b": (2, None)}, {"w": 10, "b": (20, None)})
    {'b': (22, None), 'w': 11}
    """
    leaves, treedef = tree_flatten(tree, is_leaf)
    if not rest:
        return tree_unflatten(treedef, [f(x) for x in leaves])
    return tree_unflatten(treedef, list(map(f, *_columns("tree_map", leaves, treedef, rest))))


def tree_map_with_path(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Like ``tree_map``, with the key path of the leaf as the first argument of ``f``.

    >>> tree_map_with_path(lambda path, x: keystr(path) + f"={x}", {"w": 1, "b": [2]})
    {'b': ["['b'][0]=2"], 'w': "['w']=1"}
    """
    pairs, treedef = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = [path for path, _ in pairs], [leaf for _, leaf in pairs]
    return tree_unflatten(treedef, list(map(f, paths, *_columns("tree_map_with_path", leaves, treedef, rest))))


_no_initializer = object()


def tree_reduce(
    function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _no_initializer, is_leaf: IsLeaf = None
) -> Any:
    """Fold the leaves from left to right, as ``functools.reduce`` does.

    Errors: TypeError for a tree without leaves and no ``initializer``.

    >>> tree_reduce(lambda x, y: x + y, {"a": 1, "b": (2, 3)})
    6
    """
    leaves = tree_leaves(tree, is_leaf)
    if initializer is not _no_initializer:
        return functools.reduce(function, leaves, initializer)
    if not leaves:
        raise TypeError(
            f"tree_reduce: no leaves to reduce: got {tree_structure(tree, is_leaf)}; needed one leaf or "
            "more. Pass an initializer for the empty tree."
        )
    return functools.reduce(function, leaves)


def tree_all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether every leaf is true; True for a tree without leaves."""
    return all(tree_leaves(tree, is_leaf))


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf = None) -> bool:
    """Whether every element is a leaf.

    >>> all_leaves([1, "x"]), all_leaves([1, (2,)])
    (True, False)
    """
    return all((is_leaf is not None and is_leaf(x)) or kind_of(type(x)) is None for x in iterable)


def broadcast_prefix(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """Each leaf of ``prefix_tree`` once for every leaf of ``full_tree`` below its place.

    The list has one value for each leaf of ``full_tree``.

    Edge: ``is_leaf`` looks at the prefix only; ``None`` is a container without leaves unless it says so.
    Errors: ValueError that names the place where ``full_tree`` does not have the structure of the prefix.

    >>> broadcast_prefix({"x": 0, "y": 1}, {"x": (5, 6, 7), "y": 8})
    [0, 0, 0, 1]
    """
    leaves, treedef = tree_flatten(prefix_tree, is_leaf)
    subtrees = treedef.flatten_up_to(full_tree, op="broadcast_prefix", names=("the prefix", "the full tree"))
    return [leaf for leaf, sub in zip(leaves, subtrees) for _ in range(tree_structure(sub).num_leaves)]


def tree_transpose(outer_treedef: TreeDef, inner_treedef: TreeDef | None, pytree_to_transpose: Any) -> Any:
    """Turn an outer tree of inner trees into an inner tree of outer trees.

    Edge: ``inner_treedef=None`` takes the structure below the first outer leaf.
    Errors: ValueError that names the place where the tree is not an outer tree of inner trees.

    >>> outer, inner = tree_structure({"a": 0, "b": 0}), tree_structure((0, 0))
    >>> tree_transpose(outer, inner, {"a": (1, 2), "b": (3, 4)})
    ({'a': 1, 'b': 3}, {'a': 2, 'b': 4})
    """
    op, names = "tree_transpose", ("outer_treedef", "the tree")
    subtrees = outer_treedef.flatten_up_to(pytree_to_transpose, op=op, names=names)
    if inner_treedef is None:
        inner_treedef = tree_structure(subtrees[0]) if subtrees else LEAF
    rows = []
    for sub in subtrees:
        leaves, treedef = tree_flatten(sub)
        if treedef != inner_treedef:
            raise _mismatch(op, difference(inner_treedef.spec, treedef.spec, True), ("inner_treedef", "a subtree"))
        rows.append(leaves)
    columns = [[row[i] for row in rows] for i in range(inner_treedef.num_leaves)]
    return inner_treedef.unflatten([outer_treedef.unflatten(column) for column in columns])


def treedef_children(treedef: TreeDef) -> list[TreeDef]:
    """The structures one level down; none for a leaf."""
    return treedef.children()


def treedef_is_leaf(treedef: TreeDef) -> bool:
    """Whether a structure is a single leaf."""
    return treedef.spec is None


def treedef_tuple(treedefs: Iterable[TreeDef]) -> TreeDef:
    """The structure of a tuple of trees.

    >>> treedef_tuple([tree_structure(1), tree_structure([2])])
    PyTreeDef((*, [*]))
    """
    return _from_spec((_TUPLE, None, tuple([t.spec for t in treedefs])))


# ------------------------------------------------------------------------------------- differences


def _mismatch(op: str, found: Difference, names: tuple[str, str]) -> ValueError:
    if found is None:  # the containers' own flatten functions gave two answers for one tree
        return ValueError(f"{op}: trees differ in structure: got a tree that changes; needed one that does not.")
    path, a, b = found
    place = f"at {keystr(path)}" if path else "at the top"
    return ValueError(
        f"{op}: trees differ in structure {place}: got {describe(a)} in {names[0]}, {describe(b)} in "
        f"{names[1]}; needed the same structure in both. Change {names[1]} {place} to match {names[0]}."
    )


def tree_difference(a: TreeDef, b: TreeDef) -> tuple[str, str, str] | None:
    """Where two structures differ first: ``(key path, part of a, part of b)`` in words, or None if nowhere.

    >>> tree_difference(tree_structure({"x": [1, 2]}), tree_structure({"x": (1, 2)}))
    ("['x']", 'a list of 2', 'a tuple of 2')
    """
    found = difference(a.spec, b.spec, True)
    return found and (keystr(found[0]), describe(found[1]), describe(found[2]))


# ------------------------------------------------------------------------------------------------- Partial


class _StaticCallable:
    """A functools.partial as one static value: equal to another of the same function and arguments.

    Plain partials compare by identity, so a jitted function would be compiled anew for each.
    """

    __slots__ = ("func",)

    def __init__(self, func: functools.partial[Any]) -> None:
        self.func = func

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs)

    def _parts(self) -> tuple[Any, ...]:
        return self.func.func, self.func.args, tuple(sorted(self.func.keywords.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _StaticCallable) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __repr__(self) -> str:
        return repr(self.func)


class Partial(functools.partial):  # type: ignore[type-arg]  # mypy and Python 3.11 disagree on partial[Any] as a base
    """``functools.partial`` as a tree: the arguments are its children, the function is static.

    A ``Partial`` of a ``Partial`` has the arguments of both as children; a plain ``functools.partial`` inside
    stays static.

    >>> tree_leaves(Partial(pow, 2, exp=5)), tree_map(lambda x: x + 1, Partial(pow, 2, exp=5))()
    ([2, 5], 729)
    """

    def __new__(cls, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Partial:
        if isinstance(func, functools.partial) and not isinstance(func, Partial):
            func = _StaticCallable(func)
        return super().__new__(cls, func, *args, **kwargs)


register_pytree_node(Partial, lambda p: ((p.args, p.keywords), p.func), lambda func, xs: Partial(func, *xs[0], **xs[1]))
_TUPLE: Any = kinds[tuple]
