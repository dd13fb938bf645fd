"""ferro.utils._pytree takes trees apart and puts them together as PyTorch's does."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from typing import Any, NamedTuple

import pytest

import ferro
from ferro.utils import _pytree


class Pair(NamedTuple):
    """Two fields."""

    a: Any
    b: Any


TREES: dict[str, Any] = {
    "leaf": 3,
    "None": None,
    "list": [1, 2],
    "dictionary": {"b": 1, "a": (2, [3, None])},
    "ordered": OrderedDict(z=1, y=[2]),
    "default": defaultdict(list, x=1),
    "deque": deque([1, 2], maxlen=3),
    "named tuple": Pair(1, {"c": 2}),
    "empty": ([], {}, ()),
}


@pytest.fixture
def theirs(torch: Any) -> Any:
    return pytest.importorskip("torch.utils._pytree")


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_leaves_and_the_tree_made_of_others_are_pytorchs(theirs: Any, tree: Any) -> None:
    leaves, structure = _pytree.tree_flatten(tree)
    expected, their_structure = theirs.tree_flatten(tree)
    assert leaves == expected == _pytree.tree_leaves(tree) == list(_pytree.tree_iter(tree))
    assert structure == _pytree.tree_structure(tree)
    others = [str(leaf) for leaf in leaves]
    made = _pytree.tree_unflatten(others, structure)
    assert made == theirs.tree_unflatten(others, their_structure) == _pytree.tree_map(str, tree)
    assert type(made) is type(theirs.tree_map(str, tree))


def test_a_branch_may_be_a_leaf(theirs: Any) -> None:
    tree = {"a": (1, 2), "b": [3, (4,)]}
    for module in (_pytree, theirs):
        assert module.tree_leaves(tree, is_leaf=lambda x: isinstance(x, tuple)) == [(1, 2), 3, (4,)]
        assert module.tree_map(len, [(1, 2), [(4,)]], is_leaf=lambda x: isinstance(x, tuple)) == [2, [1]]


def test_several_trees_and_only_some_leaves(theirs: Any) -> None:
    tree, other = {"a": 1, "b": [2.0, "c"]}, {"b": [20, [1]], "a": 10}
    for module in (_pytree, theirs):
        assert module.tree_map(lambda x, y: (x, y), tree, other) == {"a": (1, 10), "b": [(2.0, 20), ("c", [1])]}
        assert module.tree_map_only(int, lambda x: -x, tree) == {"a": -1, "b": [2.0, "c"]}
        assert module.tree_map_only((int, float), lambda x: -x, tree) == {"a": -1, "b": [-2.0, "c"]}
        assert module.tree_map_only(lambda x: x == "c", str.upper, tree) == {"a": 1, "b": [2.0, "C"]}
        seen: list[Any] = []
        assert module.tree_map_(seen.append, tree) is tree
        assert module.tree_map_only_(str, seen.append, tree) is tree
        assert seen == [1, 2.0, "c", "c"]
        assert module.tree_all(bool, tree)
        assert not module.tree_any(lambda x: x == 3, tree)
        assert module.tree_all_only(int, lambda x: x == 1, tree)
        assert module.tree_any_only(float, lambda x: x == 2, tree)


@pytest.mark.parametrize(
    "call",
    [
        lambda module: module.tree_map(max, [1, 2], [1]),
        lambda module: module.tree_map(max, [1, 2], (1, 2)),
        lambda module: module.tree_map(max, {"a": 1}, {"b": 1}),
        lambda module: module.tree_unflatten([1], module.tree_structure([1, 2])),
        lambda module: module.tree_unflatten([1], "[*]"),
    ],
    ids=["arity", "type", "keys", "too few leaves", "no structure"],
)
def test_what_does_not_fit_is_refused_with_pytorchs_error(theirs: Any, call: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as expected:
        call(theirs)
    with pytest.raises(expected.type) as found:
        call(_pytree)
    head = str(expected.value).partition(";")[0].partition(" (TreeSpec")[0].rstrip(".")
    assert head in str(found.value)


def test_tensors_are_leaves() -> None:
    tree = {"w": ferro.ones(2), "b": [ferro.zeros(1)]}
    assert [x.shape for x in _pytree.tree_leaves(tree)] == [(2,), (1,)]
    assert _pytree.tree_map_only(ferro.Tensor, lambda x: x + 1, tree)["b"][0].tolist() == [1]


def test_paths_of_leaves_are_pytorchs(theirs: Any) -> None:
    tree = {"x": [1, (2, 3)], "y": Pair(4, 5), "z": deque([6]), "o": OrderedDict(q=7), "d": defaultdict(int, {1: 8})}
    found, structure = _pytree.tree_flatten_with_path(tree)
    expected, _ = theirs.tree_flatten_with_path(tree)
    assert [repr(x) for x in found] == [repr(x) for x in expected]
    assert structure == _pytree.tree_structure(tree)
    assert [_pytree.keystr(path) for path, _ in found] == [theirs.keystr(path) for path, _ in expected]
    assert [_pytree.key_get(tree, path) for path, _ in found] == list(range(1, 9))
    for module in (_pytree, theirs):
        made = module.tree_map_with_path(lambda path, x, y: (len(path), x, y), {"a": 1, "b": [2]}, {"a": 3, "b": [4]})
        assert made == {"a": (1, 1, 3), "b": [(2, 2, 4)]}
        assert module.tree_leaves_with_path([(1,), 2], is_leaf=lambda x: isinstance(x, tuple)) == [
            ((module.SequenceKey(0),), (1,)),
            ((module.SequenceKey(1),), 2),
        ]
        assert module.tree_is_leaf(3)
        assert not module.tree_is_leaf([3])


@pytest.mark.parametrize("name", ["ferro.utils._pytree", "torch.utils._pytree"])
def test_paths_of_registered_classes(name: str) -> None:
    module: Any = pytest.importorskip(name)

    class Named(dict):
        """A dictionary of its own class."""

    class Plain:
        """Registered without keys."""

    module.register_pytree_node(
        Named,
        module._dict_flatten,
        lambda values, names: Named(module._dict_unflatten(values, names)),
        flatten_with_keys_fn=module._dict_flatten_with_keys,
    )
    module.register_pytree_node(Plain, lambda x: ([1], None), lambda children, context: Plain())
    [(path, leaf)] = module.tree_leaves_with_path([Named(a=1)])
    assert (module.keystr(path), leaf) == ("[0]['a']", 1)
    with pytest.raises(ValueError, match="Did not find a flatten_with_keys_fn for type: "):
        module.tree_leaves_with_path([Plain()])


def test_supported_nodes_take_branches_apart(theirs: Any) -> None:
    for module in (_pytree, theirs):
        for tree in ([1, 2], (1, 2), {"a": 1, "b": 2}, deque([1, 2]), OrderedDict(a=1, b=2), Pair(1, 2)):
            node = module.SUPPORTED_NODES[module._get_node_type(tree)]
            children, context = node.flatten_fn(tree)
            assert list(children) == [1, 2]
            assert node.unflatten_fn([1, 2], context) == tree
        assert int not in module.SUPPORTED_NODES
        assert module._get_node_type(3) not in module.SUPPORTED_NODES
