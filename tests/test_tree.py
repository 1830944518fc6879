"""Pytrees: what is a container, round trips, equality of structures, and errors that name the place."""

import copy
import dataclasses
import pickle
from collections import OrderedDict, defaultdict, namedtuple
from typing import NamedTuple

import numpy as onp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from numbagrad import tree_util
from numbagrad.core.tree import LEAF, tree_difference
from numbagrad.tree_util import (
    all_leaves,
    broadcast_prefix,
    keystr,
    register_pytree_node_class,
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

Point = namedtuple("Point", "x y")


class Checked(NamedTuple):
    x: float
    y: float = 0.0


def static(default):
    return dataclasses.field(default=default, metadata={"static": True})


@dataclasses.dataclass
class Dense:
    w: object
    b: object = None
    act: object = static("relu")


@dataclasses.dataclass(frozen=True)
class Frozen:
    w: object

    def __post_init__(self):
        if not isinstance(self.w, (int, float)):
            raise TypeError("w must be a number")


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    x: object
    n: int = static(1)


@dataclasses.dataclass
class AllStatic:
    n: int = static(1)


@dataclasses.dataclass
class Derived:
    w: object
    twice: object = dataclasses.field(init=False)

    def __post_init__(self):
        self.twice = 2 * self.w


@dataclasses.dataclass
class DictLike(dict):
    x: int = 0


@register_pytree_node_class
class Registered:
    def __init__(self, x, y, name="r"):
        self.x, self.y, self.name = x, y, name

    def tree_flatten(self):
        return (self.x, self.y), self.name

    @classmethod
    def tree_unflatten(cls, aux, children):
        assert isinstance(children, tuple)
        return cls(*children, aux)

    def __eq__(self, other):
        return vars(self) == vars(other)


class Sub(list):
    pass


class SubDict(dict):
    pass


class SubTuple(tuple):
    pass


# ------------------------------------------------------------------------------------------- containers

CONTAINERS = [  # tree, leaves, repr
    (5, [5], "*"),
    ("text", ["text"], "*"),
    (None, [], "None"),
    ([], [], "[]"),
    ((), [], "()"),
    ({}, [], "{}"),
    ([None, ()], [], "[None, ()]"),
    ([1, 2], [1, 2], "[*, *]"),
    ((1,), [1], "(*,)"),
    ((1, (2, [3])), [1, 2, 3], "(*, (*, [*]))"),
    ({"b": 1, "a": 2}, [2, 1], "{'a': *, 'b': *}"),
    ({2: 1, 10: 2}, [1, 2], "{2: *, 10: *}"),
    (OrderedDict([("b", 1), ("a", 2)]), [1, 2], "OrderedDict({'b': *, 'a': *})"),
    (OrderedDict([(1, 1), ("a", 2)]), [1, 2], "OrderedDict({1: *, 'a': *})"),
    (defaultdict(list, b=1, a=2), [2, 1], "defaultdict(list, {'a': *, 'b': *})"),
    (defaultdict(None, a=1), [1], "defaultdict(None, {'a': *})"),
    (Point(1, [2]), [1, 2], "Point(x=*, y=[*])"),
    (Checked(1), [1, 0.0], "Checked(x=*, y=*)"),
    (Dense(1), [1], "Dense(w=*, b=None, act='relu')"),
    (Frozen(1), [1], "Frozen(w=*)"),
    (Slotted([1], n=3), [1], "Slotted(x=[*], n=3)"),
    (AllStatic(7), [], "AllStatic(n=7)"),
    (Derived(1), [1, 2], "Derived(w=*, twice=*)"),
    (Registered(1, {"a": 2}), [1, 2], "CustomNode(Registered[r], [*, {'a': *}])"),
    ({"a": 1, "b": (2, None)}, [1, 2], "{'a': *, 'b': (*, None)}"),
]


@pytest.mark.parametrize(("tree", "leaves", "text"), CONTAINERS, ids=[c[2] for c in CONTAINERS])
def test_container(tree, leaves, text):
    got, treedef = tree_flatten(tree)
    assert got == leaves
    assert repr(treedef) == f"PyTreeDef({text})"
    assert treedef.num_leaves == len(leaves)
    for rebuilt in (tree_unflatten(treedef, got), treedef.unflatten(iter(got))):
        assert rebuilt == tree and type(rebuilt) is type(tree)
    assert tree_leaves(tree) == leaves and tree_structure(tree) == treedef
    assert [leaf for _, leaf in tree_leaves_with_path(tree)] == leaves
    assert tree_flatten_with_path(tree)[1] == treedef
    assert tree_flatten(tree, lambda x: False) == (leaves, treedef)


@pytest.mark.parametrize(
    "leaf",
    [Sub([1]), SubDict(a=1), SubTuple((1,)), DictLike(), {1, 2}, onp.ones(2), Dense, slice(1), range(3)],
    ids=lambda x: type(x).__name__,
)
def test_leaf(leaf):
    leaves, treedef = tree_flatten(leaf)
    assert len(leaves) == 1 and leaves[0] is leaf
    assert treedef is LEAF and treedef_is_leaf(treedef)


def test_default_factory_is_kept():
    tree = tree_map(lambda x: x + 1, defaultdict(int, a=1))
    assert tree == {"a": 2} and tree["new"] == 0


def test_dataclasses_are_rebuilt_without_init():
    # object() would be refused by Frozen.__post_init__, and Derived would double its leaf again.
    assert isinstance(tree_map(lambda x: object(), Frozen(1)).w, object)
    assert tree_map(lambda x: x + 1, Derived(1)) == tree_unflatten(tree_structure(Derived(0)), [2, 3])


def test_flatten_does_not_alias_the_leaves():
    x = [1, 2]
    leaves, treedef = tree_flatten(x)
    leaves.append(3)
    assert x == [1, 2]
    tree_unflatten(treedef, [3, 4]).append(5)
    assert tree_unflatten(treedef, [3, 4]) == [3, 4]


def test_unflatten_does_not_alias_the_leaves_given():
    leaves = [1, 2]
    tree_unflatten(tree_structure([0, 0]), leaves).append(3)
    assert leaves == [1, 2]


# ----------------------------------------------------------------------------------------------- treedef


def test_equality_and_hash():
    a, b = tree_structure({"a": 1, "b": [2, None]}), tree_structure({"b": [3.0, None], "a": "x"})
    assert a == b and hash(a) == hash(b) and {a: 1}[b] == 1
    assert a != tree_structure({"a": 1, "b": [2]}) and a != "text" and tree_structure(1) == LEAF


DIFFERENT = [
    ([1], (1,)),
    ([1], [1, 2]),
    ([1], 1),
    (None, 1),
    (None, ()),
    ({"a": 1}, {"b": 1}),
    ({"a": 1}, OrderedDict(a=1)),
    ({"a": 1}, defaultdict(list, a=1)),
    (defaultdict(int, a=1), defaultdict(list, a=1)),
    (OrderedDict(a=1, b=2), OrderedDict(b=2, a=1)),
    (Point(1, 2), (1, 2)),
    (Dense(1), Dense(1, act="tanh")),
    (Slotted(1, n=1), Slotted(1, n=True)),  # equal values of two types make two programs
    (Slotted(1, n=1), Slotted(1, n=1.0)),
    (Registered(1, 2), Registered(1, 2, "other")),
    ([1, [2]], [[1], 2]),
]


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_different_structures(a, b):
    assert tree_structure(a) != tree_structure(b)
    assert tree_difference(tree_structure(a), tree_structure(b)) is not None
    if not treedef_is_leaf(tree_structure(a)):
        with pytest.raises(ValueError, match="tree_map: trees differ in structure"):
            tree_map(lambda x, y: None, [a], [b])


@pytest.mark.parametrize("tree", [c[0] for c in CONTAINERS], ids=[c[2] for c in CONTAINERS])
def test_pickle_and_copy(tree):
    treedef = tree_structure(tree)
    for other in (pickle.loads(pickle.dumps(treedef)), copy.deepcopy(treedef), copy.copy(treedef)):
        assert other == treedef and hash(other) == hash(treedef) and other.num_leaves == treedef.num_leaves
        assert other.unflatten(tree_leaves(tree)) == tree


def test_children():
    treedef = tree_structure((1, {"a": 2, "b": None}))
    assert treedef_children(treedef) == [LEAF, tree_structure({"a": 0, "b": None})]
    assert treedef.node_data() == (tuple, None) and LEAF.node_data() is None and LEAF.children() == []
    assert treedef_tuple(treedef.children()) == treedef


def test_unhashable_static_values():
    a, b = Slotted(1, n=onp.ones(2)), Slotted(1, n=onp.ones(2))
    assert tree_map(lambda x: x + 1, a).x == 2
    with pytest.raises(TypeError, match="static value cannot be hashed: got unhashable type"):
        hash(tree_structure(a))
    for compare in (lambda: tree_structure(a) == tree_structure(b), lambda: tree_map(max, a, b)):
        with pytest.raises(TypeError, match="static value cannot be compared"):
            compare()


# --------------------------------------------------------------------------------------------------- map


def test_map():
    assert tree_map(lambda x: -x, {"a": 1, "b": (2, None)}) == {"a": -1, "b": (-2, None)}
    assert tree_map(lambda x, y, z: x + y + z, [1, 2], [10, 20], [100, 200]) == [111, 222]
    assert tree_map(lambda x, y: (x, y), [1, 2], [[3], None]) == [(1, [3]), (2, None)]  # subtrees at leaves
    assert tree_map(lambda x, y: x + y, 1, 2) == 3
    assert tree_map(lambda x: x, None) is None


def test_map_is_leaf():
    is_none, is_pair = (lambda x: x is None), (lambda x: isinstance(x, tuple))
    assert tree_map(lambda x: 0 if x is None else x, [1, None], is_leaf=is_none) == [1, 0]
    assert tree_map(lambda x, y: (x, y), [(1, 2)], [(3, 4)], is_leaf=is_pair) == [((1, 2), (3, 4))]
    assert tree_leaves((1, 2), is_leaf=is_pair) == [(1, 2)]
    assert tree_structure((1, 2), is_leaf=is_pair) is LEAF


def test_map_with_path():
    tree = {"layers": [Dense(1, 2), Point(3, Registered(4, 5))], "n": (6,)}
    paths = tree_leaves(tree_map_with_path(lambda path, x, y: f"{keystr(path)} {x + y}", tree, tree))
    assert paths == [
        "['layers'][0].w 2",
        "['layers'][0].b 4",
        "['layers'][1].x 6",
        "['layers'][1].y[<flat index 0>] 8",
        "['layers'][1].y[<flat index 1>] 10",
        "['n'][0] 12",
    ]
    path = tree_leaves_with_path(tree)[3][0]
    assert keystr(path, simple=True, separator="/") == "layers/1/y/0"
    assert keystr(()) == "" and tree_leaves_with_path(1) == [((), 1)]


def test_reduce_and_all():
    assert tree_reduce(lambda x, y: x - y, {"b": 1, "a": (10, 2)}) == 7
    assert tree_reduce(lambda x, y: x + y, [[1], [2]], [], is_leaf=lambda x: x in ([1], [2])) == [1, 2]
    assert tree_reduce(max, [], 0) == 0
    assert tree_reduce(max, [3], 5) == 5
    assert tree_all([1, {"a": True}]) and tree_all(None) and not tree_all([1, [0]])
    assert (
        all_leaves([1, 2]) and not all_leaves([1, None]) and all_leaves([None], is_leaf=lambda x: x is None)
    )
    with pytest.raises(TypeError, match=r"tree_reduce: no leaves to reduce: got PyTreeDef\(\[\]\)"):
        tree_reduce(max, [])


def test_transpose():
    outer, inner = tree_structure([0, 0, 0]), tree_structure({"a": 0, "b": (0,)})
    tree = [{"a": i, "b": (10 * i,)} for i in range(3)]
    want = {"a": [0, 1, 2], "b": ([0, 10, 20],)}
    assert tree_transpose(outer, inner, tree) == tree_transpose(outer, None, tree) == want
    assert tree_transpose(inner, outer, want) == tree
    assert tree_transpose(LEAF, inner, tree[0]) == tree[0]
    assert tree_transpose(tree_structure([]), inner, []) == {"a": [], "b": ([],)}
    with pytest.raises(
        ValueError, match=r"tree_transpose: trees differ in structure at \['b'\]: .* a list of 1"
    ):
        tree_transpose(outer, inner, [*tree[:2], {"a": 1, "b": [1]}])
    with pytest.raises(ValueError, match="got a list of 3 in outer_treedef, a list of 2 in the tree"):
        tree_transpose(outer, inner, tree[:2])


def test_broadcast_prefix():
    full = {"x": (1, [2, 3]), "y": 4, "z": None}
    assert broadcast_prefix(0, full) == [0] * 4
    assert broadcast_prefix({"x": 0, "y": 1, "z": 2}, full) == [0, 0, 0, 1]
    assert broadcast_prefix({"x": (0, 5), "y": 1, "z": None}, full) == [0, 5, 5, 1]
    assert broadcast_prefix((None, 0), ([1, 2], 3), is_leaf=lambda x: x is None) == [None, None, 0]
    assert broadcast_prefix(1, None) == [] and broadcast_prefix((), ()) == []


# ------------------------------------------------------------------------------------------------ errors

MISMATCHES = [
    ([1], (1,), "at the top: got a list of 1 in tree 1, a tuple of 1 in tree 2; needed the same structure"),
    ({"a": [1]}, {"a": [1, 2]}, r"at ['a']: got a list of 1 in tree 1, a list of 2 in tree 2"),
    ({"a": 1}, {"b": 1}, "got a dict with keys 'a' in tree 1, a dict with keys 'b' in tree 2"),
    ({"a": 1}, {}, "a dict with no keys in tree 2"),
    ({"a": 1}, OrderedDict(a=1), "an OrderedDict with keys 'a' in tree 2"),
    ([None], [1], "at [0]: got None in tree 1, a leaf in tree 2"),
    ([(1, None)], [(1, 2)], "at [0][1]: got None in tree 1, a leaf in tree 2"),
    (Dense([1]), Dense([1], act="tanh"), "got Dense(w=..., b=..., act='relu') in tree 1, Dense("),
    (Point(1, [2]), Point(1, 2), "at .y: got a list of 1 in tree 1, a leaf in tree 2"),
    (Registered(1, [2]), Registered(1, 2), "at [<flat index 1>]: got a list of 1"),
]


@pytest.mark.parametrize(("a", "b", "text"), MISMATCHES)
def test_mismatch_says_where(a, b, text):
    with pytest.raises(ValueError) as error:
        tree_map(lambda x, y: None, a, b)
    assert str(error.value).startswith("tree_map: trees differ in structure at") and text in str(error.value)
    with pytest.raises(ValueError, match="in tree 3"):
        tree_map_with_path(lambda path, x, y, z: None, a, a, b)


def test_other_errors():
    with pytest.raises(
        ValueError, match=r"tree_unflatten: wrong number of leaves: got 1; needed 2 for PyTree"
    ):
        tree_unflatten(tree_structure([1, 2]), [1])
    with pytest.raises(ValueError, match="got 2; needed 1"):
        LEAF.unflatten(iter([1, 2]))
    with pytest.raises(TypeError, match=r"dict keys cannot be sorted: got 1 \(int\), 'a' \(str\); needed"):
        tree_flatten({1: 0, "a": 0, 2: 0})
    with pytest.raises(
        ValueError, match=r"broadcast_prefix: .* at \['x'\]: got a tuple of 1 in the prefix, a leaf"
    ):
        broadcast_prefix({"x": (0,)}, {"x": 1})
    with pytest.raises(
        ValueError, match=r"vjp: .* at \[0\]: got None in the output, a leaf in the cotangent"
    ):
        tree_structure([None]).flatten_up_to([1], op="vjp", names=("the output", "the cotangent"))


# ------------------------------------------------------------------------------------------- round trips

# No time limits: they measure the machine.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
KEYS = st.text("abc", max_size=3)


def containers(children):
    return st.one_of(
        st.lists(children, max_size=3),
        st.lists(children, max_size=3).map(tuple),
        st.dictionaries(KEYS, children, max_size=3),
        st.dictionaries(st.integers(), children, max_size=3),
        st.dictionaries(KEYS, children, max_size=3).map(OrderedDict),
        st.dictionaries(KEYS, children, max_size=3).map(lambda d: defaultdict(int, d)),
        st.builds(Point, children, children),
        st.builds(Dense, children, children, st.sampled_from(["relu", "tanh"])),
        st.builds(Slotted, children, st.integers()),
        st.builds(Registered, children, children),
    )


TREES = st.recursive(st.none() | st.integers(), containers, max_leaves=20)


@unhurried
@given(TREES)
def test_round_trip(tree):
    leaves, treedef = tree_flatten(tree)
    assert tree_unflatten(treedef, leaves) == tree
    assert all(isinstance(leaf, int) for leaf in leaves)
    assert treedef == tree_structure(tree_unflatten(treedef, leaves[::-1]))
    assert hash(treedef) == hash(tree_structure(copy.deepcopy(tree)))
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    assert sum(child.num_leaves for child in treedef.children()) == (0 if treedef is LEAF else len(leaves))


@unhurried
@given(TREES)
def test_map_agrees_with_itself(tree):
    assert tree_map(lambda x: x, tree) == tree
    assert tree_map(lambda x, y: x, tree, tree) == tree
    pairs = tree_map(lambda x: (x, 2 * x), tree)
    treedef = tree_structure(tree)
    assert tree_transpose(treedef, tree_structure((0, 0)), pairs) == (tree, tree_map(lambda x: 2 * x, tree))
    assert broadcast_prefix(tree, pairs) == [leaf for leaf in tree_leaves(tree) for _ in range(2)]


@unhurried
@given(TREES, TREES)
def test_equality_agrees_with_difference(a, b):
    a, b = tree_structure(a), tree_structure(b)
    assert (a == b) == (tree_difference(a, b) is None) == (repr(a) == repr(b))


@unhurried
@given(TREES)
def test_paths_lead_to_their_leaves(tree):
    paths = [path for path, _ in tree_leaves_with_path(tree)]
    assert len(set(paths)) == len(paths)
    if "flat index" not in "".join(map(keystr, paths)):
        for path, leaf in tree_leaves_with_path(tree):
            assert eval("tree" + keystr(path), {"tree": tree}) == leaf


def test_public_names():
    assert all(getattr(tree_util, name).__doc__ for name in tree_util.__all__)
