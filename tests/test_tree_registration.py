"""Classes made containers by registration, and Partial."""

import dataclasses
import functools
import pickle

import pytest

from numbagrad import tree_util
from numbagrad.tree_util import (
    Partial,
    keystr,
    register_dataclass,
    register_leaf,
    register_pytree_node,
    register_static,
    tree_flatten,
    tree_leaves,
    tree_leaves_with_path,
    tree_map,
    tree_structure,
    treedef_is_leaf,
)


def static(default):
    return dataclasses.field(default=default, metadata={"static": True})


@dataclasses.dataclass
class Dense:
    w: object
    b: object = None
    act: object = static("relu")


class Registered:
    pass


register_pytree_node(Registered, lambda r: ((), None), lambda aux, children: Registered())


# ------------------------------------------------------------------------------------------ registration


def test_register_pytree_node_with_keys():
    class Pair:
        def __init__(self, x, y):
            self.x, self.y = x, y

    register_pytree_node(
        Pair,
        lambda p: ([p.x, p.y], None),
        lambda aux, children: Pair(*children),
        lambda p: ([(tree_util.GetAttrKey("x"), p.x), (tree_util.GetAttrKey("y"), p.y)], None),
    )
    assert [keystr(path) for path, _ in tree_leaves_with_path(Pair(1, [2]))] == [".x", ".y[0]"]
    assert tree_map(lambda x: x + 1, Pair(1, [2])).y == [3]


def test_register_after_use():
    class Late:
        x = 1

    assert treedef_is_leaf(tree_structure(Late()))
    register_pytree_node(Late, lambda p: ((p.x,), None), lambda aux, children: Late())
    assert tree_leaves(Late()) == [1]


def test_register_dataclass():
    @register_dataclass
    @dataclasses.dataclass
    class Scaled:
        w: object
        n: int = static(2)
        twice: object = dataclasses.field(init=False)

        def __post_init__(self):
            self.twice = 2 * self.w

    assert tree_leaves(Scaled(1)) == [1]
    assert tree_map(lambda x: x + 1, Scaled(1, 5)) == Scaled(2, 5)

    @dataclasses.dataclass
    class Named:
        w: object
        name: str
        cache: object = None

    assert register_dataclass(Named, ["w"], ["name"], drop_fields=["cache"]) is Named
    assert tree_leaves(Named(1, "a", 3)) == [1]
    assert tree_map(lambda x: x, Named(1, "a", 3)) == Named(1, "a", None)


def test_register_static_and_leaf():
    @register_static
    @dataclasses.dataclass(frozen=True)
    class Config:
        n: int

    @register_leaf
    @dataclasses.dataclass(frozen=True)
    class Shape:
        n: int

    assert tree_flatten([Config(1), Shape(2)])[0] == [Shape(2)]
    assert tree_structure(Config(1)) == tree_structure(Config(1)) != tree_structure(Config(2))
    assert tree_map(lambda x: x, Config(1)) == Config(1)


def test_registration_errors():
    with pytest.raises(ValueError, match=r"register_pytree_node: Registered is registered already"):
        register_pytree_node(Registered, None, None)
    with pytest.raises(ValueError, match="dict is registered already"):
        register_pytree_node(dict, None, None)
    with pytest.raises(TypeError, match=r"register_pytree_node: not a class: got 3"):
        register_pytree_node(3, None, None)
    with pytest.raises(TypeError, match="register_dataclass: not a dataclass"):
        register_dataclass(Registered)
    with pytest.raises(ValueError, match=r"wrong fields for Dense: got w; needed act, b, w\. "):
        register_dataclass(Dense, ["w"], [])

    class Bad:
        pass

    register_pytree_node(Bad, lambda b: [1, 2, 3], lambda aux, children: Bad())
    with pytest.raises(TypeError, match=r"flatten function of Bad returned a wrong value: got list; needed"):
        tree_flatten(Bad())


# ----------------------------------------------------------------------------------------------- Partial


def test_partial():
    p = Partial(pow, 2, exp=5)
    assert p() == 32 and tree_leaves(p) == [2, 5]
    doubled = tree_map(lambda x: 2 * x, p)
    assert isinstance(doubled, Partial) and doubled() == 4**10
    assert (
        tree_structure(p) == tree_structure(Partial(pow, 3, exp=1)) != tree_structure(Partial(max, 3, exp=1))
    )
    assert tree_leaves(Partial(Partial(pow, 2), exp=5)) == [2, 5]


def test_partial_keeps_a_plain_partial_static():
    inner = functools.partial(pow, exp=5)
    p, q = Partial(inner, 2), Partial(functools.partial(pow, exp=5), 3)
    assert p() == 32 and tree_leaves(p) == [2]
    assert tree_structure(p) == tree_structure(q) and hash(tree_structure(p)) == hash(tree_structure(q))
    assert tree_map(lambda x: x + 1, p)() == 3**5
    assert tree_structure(p) != tree_structure(Partial(functools.partial(pow, exp=6), 2))
    assert pickle.loads(pickle.dumps(tree_structure(p))) == tree_structure(p)
