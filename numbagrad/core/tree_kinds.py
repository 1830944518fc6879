"""What a tree node is: how each container class is taken apart, rebuilt, and named in messages.

A tree is a leaf, or one of: ``None`` (no leaves), ``list``, ``tuple``, named tuple, ``dict`` (children in
sorted key order), ``OrderedDict`` (in its own order), ``defaultdict``, a dataclass, or a registered class.
Everything else is a leaf, subclasses of ``list`` and ``dict`` included.
"""

from __future__ import annotations

import dataclasses
import operator
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T", bound=type)


class Kind:
    """How one container class is taken apart; equal only to itself, pickled as a reference to its class."""

    __slots__ = ("cls", "flatten", "keys", "node_keys", "show", "unflatten")

    def __init__(
        self,
        cls: type,
        flatten: Callable[[Any], tuple[Sequence[Any], Any]],
        unflatten: Callable[[Any, list[Any]], Any],
        keys: Callable[[Any, int], Iterable[Any]],
        show: Callable[[Any, list[str]], str],
        node_keys: Callable[[Any], Iterable[Any]] | None = None,
    ) -> None:
        self.cls, self.flatten, self.unflatten = cls, flatten, unflatten
        self.keys, self.show, self.node_keys = keys, show, node_keys

    def __reduce__(self) -> tuple[Any, ...]:
        return kind_of, (self.cls,)


Spec: TypeAlias = tuple[Kind, Any, tuple[Any, ...]] | None  # a structure: (kind, aux, children), None for a leaf
Difference: TypeAlias = tuple[tuple[Any, ...], Spec, Spec] | None  # key path, part of a, part of b

kinds: dict[type, Kind | None] = {}  # every type seen so far; None: a leaf
_registered: set[type] = set()


def kind_of(cls: type) -> Kind | None:
    try:
        return kinds[cls]
    except KeyError:
        return _resolve(cls)


def _resolve(cls: type) -> Kind | None:
    """Decide once what a type that nobody registered is."""
    kind = None
    if issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple):
        kind = _namedtuple_kind(cls)
    elif dataclasses.is_dataclass(cls) and not issubclass(cls, (list, tuple, dict, set, BaseException)):
        # A dataclass that is also a dict would lose its items: it stays a leaf until it is registered.
        names = [f.name for f in dataclasses.fields(cls)]
        static = [f.name for f in dataclasses.fields(cls) if f.metadata.get("static")]
        kind = _dataclass_kind(cls, [n for n in names if n not in static], static, _without_init(cls))
    return kinds.setdefault(cls, kind)


# ---------------------------------------------------------------------------------------------- key paths


@dataclasses.dataclass(frozen=True, slots=True)
class DictKey:
    """A step into a dict; prints as ``['key']``."""

    key: Hashable

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclasses.dataclass(frozen=True, slots=True)
class SequenceKey:
    """A step into a list or tuple; prints as ``[2]``."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx}]"


@dataclasses.dataclass(frozen=True, slots=True)
class GetAttrKey:
    """A step to a field of a named tuple or dataclass; prints as ``.name``."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class FlattenedIndexKey:
    """A step into a registered class that does not name its children; prints as ``[<flat index 0>]``."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


def keystr(keys: tuple[Any, ...], *, simple: bool = False, separator: str = "") -> str:
    """A key path as the user would write it.

    >>> keystr((DictKey("layers"), SequenceKey(0), GetAttrKey("w")))
    "['layers'][0].w"
    >>> keystr((DictKey("layers"), SequenceKey(0)), simple=True, separator="/")
    'layers/0'
    """
    if not simple:
        return separator.join(map(str, keys))
    return separator.join(str(getattr(k, "key", getattr(k, "idx", getattr(k, "name", k)))) for k in keys)


# --------------------------------------------------------------------------------------- kinds of container


def _index_keys(aux: Any, n: int) -> list[SequenceKey]:
    return [SequenceKey(i) for i in range(n)]


def _flat_keys(aux: Any, n: int) -> list[FlattenedIndexKey]:
    return [FlattenedIndexKey(i) for i in range(n)]


def _dict_keys(aux: Any, n: int) -> list[DictKey]:
    return [DictKey(k) for k in aux]


def _sorted_keys(node: dict[Any, Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(node))
    except TypeError:
        found: dict[type, Any] = {}
        for key in node:
            found.setdefault(type(key), key)
        raise TypeError(
            "tree_flatten: dict keys cannot be sorted: got "
            + ", ".join(f"{k!r} ({type(k).__name__})" for k in found.values())
            + "; needed keys of one type that has an order. Convert the keys, for example with str, or use a "
            "collections.OrderedDict, which keeps its own order."
        ) from None


def _flatten_dict(node: dict[Any, Any]) -> tuple[list[Any], tuple[Any, ...]]:
    keys = _sorted_keys(node)
    return [node[k] for k in keys], keys


def _flatten_defaultdict(node: defaultdict[Any, Any]) -> tuple[list[Any], Any]:
    keys = _sorted_keys(node)
    return [node[k] for k in keys], (node.default_factory, keys)


def _show_dict(keys: Iterable[Any], parts: list[str]) -> str:
    return "{" + ", ".join(f"{k!r}: {p}" for k, p in zip(keys, parts)) + "}"


def _show_fields(cls: type, names: Iterable[str], parts: list[str]) -> str:
    return f"{cls.__name__}({', '.join(f'{n}={p}' for n, p in zip(names, parts))})"


def _namedtuple_kind(cls: Any) -> Kind:
    names = cls._fields
    return Kind(
        cls,
        lambda node: (node, None),
        lambda aux, xs: tuple.__new__(cls, xs),  # the class may have a __new__ that checks
        lambda aux, n: [GetAttrKey(name) for name in names],
        lambda aux, parts: _show_fields(cls, names, parts),
    )


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda node: tuple(getattr(node, n) for n in names)


def _without_init(cls: type) -> Callable[[dict[str, Any]], Any]:
    """Rebuild by setting the fields: ``__init__`` and ``__post_init__`` may refuse or convert the leaves."""

    def build(values: dict[str, Any]) -> Any:
        node: Any = object.__new__(cls)
        for name, value in values.items():
            object.__setattr__(node, name, value)  # frozen classes refuse setattr
        return node

    return build


def _dataclass_kind(
    cls: type, data: Sequence[str], static: Sequence[str], build: Callable[[dict[str, Any]], Any]
) -> Kind:
    get_data, get_static, names = _getter(data), _getter(static), (*data, *static)

    def flatten(node: Any) -> tuple[Sequence[Any], Any]:
        if not static:
            return get_data(node), None
        values = get_static(node)
        # With the types: 1, 1.0 and True are equal, but a program compiled for one is wrong for the others.
        return get_data(node), (values, tuple(map(type, values)))

    return Kind(
        cls,
        flatten,
        lambda aux, xs: build(dict(zip(names, (*xs, *aux[0]) if aux else xs))),
        lambda aux, n: [GetAttrKey(name) for name in data],
        lambda aux, parts: _show_fields(cls, names, parts + ([repr(v) for v in aux[0]] if aux else [])),
    )


def _add(kind: Kind) -> None:
    cls = kind.cls
    if not isinstance(cls, type):
        raise TypeError(f"register_pytree_node: not a class: got {cls!r}; needed a class. Pass its type.")
    if cls in _registered:
        raise ValueError(
            f"register_pytree_node: {cls.__name__} is registered already: got a second registration; "
            "needed one. Register a class once, next to its definition."
        )
    _registered.add(cls)
    kinds[cls] = kind


_add(Kind(type(None), lambda x: ((), None), lambda aux, xs: None, _flat_keys, lambda aux, parts: "None"))
_add(Kind(list, lambda x: (x, None), lambda aux, xs: xs, _index_keys, lambda aux, parts: f"[{', '.join(parts)}]"))
_add(
    Kind(
        tuple,
        lambda x: (x, None),
        lambda aux, xs: tuple(xs),
        _index_keys,
        lambda aux, parts: f"({', '.join(parts)}{',' if len(parts) == 1 else ''})",
    )
)
_add(Kind(dict, _flatten_dict, lambda keys, xs: dict(zip(keys, xs)), _dict_keys, _show_dict))
_add(
    Kind(
        OrderedDict,
        lambda x: (list(x.values()), tuple(x)),
        lambda keys, xs: OrderedDict(zip(keys, xs)),
        _dict_keys,
        lambda keys, parts: f"OrderedDict({_show_dict(keys, parts)})",
    )
)
_add(
    Kind(
        defaultdict,
        _flatten_defaultdict,
        lambda aux, xs: defaultdict(aux[0], zip(aux[1], xs)),
        lambda aux, n: _dict_keys(aux[1], n),
        lambda aux, parts: f"defaultdict({getattr(aux[0], '__name__', aux[0])}, {_show_dict(aux[1], parts)})",
    )
)


# -------------------------------------------------------------------------------------------- registration


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, tuple[Any, ...]], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Make a class a container: ``flatten_func(node) -> (children, aux)`` and its inverse.

    The inverse is ``unflatten_func(aux, children) -> node``; ``flatten_with_keys_func`` is like
    ``flatten_func`` with ``(key, child)`` for each child.

    Edge: ``aux`` is part of the structure: it needs ``==``, and ``hash`` where a jitted function takes it.
    ``unflatten_func`` must accept any object as a child. The class itself is registered, not its subclasses.
    Errors: TypeError for what is no class, ValueError for a class registered before.

    >>> class Pair:
    ...     def __init__(self, x, y): self.x, self.y = x, y
    >>> register_pytree_node(Pair, lambda p: ((p.x, p.y), None), lambda aux, children: Pair(*children))
    """

    def flatten(node: Any) -> tuple[Sequence[Any], Any]:
        out = flatten_func(node)
        if not (isinstance(out, tuple) and len(out) == 2):
            raise TypeError(
                f"tree_flatten: the flatten function of {nodetype.__name__} returned a wrong value: got "
                f"{type(out).__name__}; needed (children, aux). Return a tuple of two, aux may be None."
            )
        return tuple(out[0]), out[1]

    with_keys = flatten_with_keys_func
    _add(
        Kind(
            nodetype,
            flatten,
            lambda aux, xs: unflatten_func(aux, tuple(xs)),
            _flat_keys,
            lambda aux, parts: f"CustomNode({nodetype.__name__}[{aux}], [{', '.join(parts)}])",
            None if with_keys is None else lambda node: [key for key, _ in with_keys(node)[0]],
        )
    )


def register_pytree_node_class(cls: T) -> T:
    """Class decorator: registers a class by its ``tree_flatten()`` and ``tree_unflatten(aux, children)``.

    >>> @register_pytree_node_class
    ... class Point:
    ...     def __init__(self, x, y): self.x, self.y = x, y
    ...     def tree_flatten(self): return (self.x, self.y), None
    ...     @classmethod
    ...     def tree_unflatten(cls, aux, children): return cls(*children)
    """
    register_pytree_node(cls, operator.methodcaller("tree_flatten"), cls.tree_unflatten)  # type: ignore[attr-defined]
    return cls


def register_dataclass(
    nodetype: T,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> T:
    """Say which fields of a dataclass are data and which are static; usable as a decorator.

    Every dataclass is a tree already, with ``metadata={"static": True}`` marking the static fields.
    Registering one chooses other fields, and a rebuild by ``nodetype(**fields)``: ``__post_init__`` runs,
    as in JAX.

    Edge: without ``data_fields`` and ``meta_fields``, the fields that ``__init__`` takes, by their metadata.
    Errors: TypeError for what is no dataclass, ValueError for fields unknown, named twice or left out.

    >>> import dataclasses
    >>> @register_dataclass
    ... @dataclasses.dataclass
    ... class Dense:
    ...     w: object
    ...     act: str = dataclasses.field(default="relu", metadata={"static": True})
    """
    if not (isinstance(nodetype, type) and dataclasses.is_dataclass(nodetype)):
        raise TypeError(f"register_dataclass: not a dataclass: got {nodetype!r}; needed one. Make it one.")
    init = [f for f in dataclasses.fields(nodetype) if f.init]
    if data_fields is None and meta_fields is None:
        kept = [f for f in init if f.name not in drop_fields]
        data_fields = [f.name for f in kept if not f.metadata.get("static")]
        meta_fields = [f.name for f in kept if f.metadata.get("static")]
    data, static = tuple(data_fields or ()), tuple(meta_fields or ())
    got, needed = sorted([*data, *static]), sorted({f.name for f in init} - set(drop_fields))
    if got != needed:
        raise ValueError(
            f"register_dataclass: wrong fields for {nodetype.__name__}: got {', '.join(got) or 'none'}; "
            f"needed {', '.join(needed) or 'none'}. Name each field once, in data_fields, meta_fields or "
            "drop_fields."
        )
    _add(_dataclass_kind(nodetype, data, static, lambda values: nodetype(**values)))
    return nodetype


def register_static(cls: T) -> T:
    """Class decorator: instances are part of the structure, without leaves; needs ``==`` and ``hash``."""
    register_pytree_node(cls, lambda node: ((), node), lambda node, _: node)
    return cls


def register_leaf(cls: T) -> T:
    """Class decorator: instances are leaves, for a dataclass or named tuple that stands for one value."""
    kinds[cls] = None
    return cls


for _key in (DictKey, SequenceKey, GetAttrKey, FlattenedIndexKey):
    register_leaf(_key)


# -------------------------------------------------------------------------------------- showing, differences


def show(spec: Spec) -> str:
    """The whole structure, as the text of a container with * for the leaves."""
    return "*" if spec is None else spec[0].show(spec[1], [show(child) for child in spec[2]])


def describe(spec: Spec) -> str:
    """One container in words; what is inside it is left out."""
    if spec is None:
        return "a leaf"
    kind, aux, children = spec
    name = kind.cls.__name__
    article = "an" if name[0] in "AEIOUaeiou" else "a"
    if kind.cls in (list, tuple):
        return f"a {name} of {len(children)}"
    if kind.cls in (dict, OrderedDict, defaultdict):
        keys = aux[1] if kind.cls is defaultdict else aux
        return f"{article} {name} with " + (f"keys {', '.join(map(repr, keys))}" if keys else "no keys")
    return kind.show(aux, ["*" if child is None else "..." for child in children])


def difference(a: Spec, b: Spec, exact: bool, path: tuple[Any, ...] = ()) -> Difference:
    """The first place where b does not have a's structure; unless exact, a leaf of a is any subtree."""
    if a is None and (b is None or not exact):
        return None
    if a is None or b is None or a[0] is not b[0] or a[1] != b[1] or len(a[2]) != len(b[2]):
        return path, a, b
    for key, sub_a, sub_b in zip(a[0].keys(a[1], len(a[2])), a[2], b[2]):
        if found := difference(sub_a, sub_b, exact, (*path, key)):
            return found
    return None
