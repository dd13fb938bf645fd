"""Nested tuples, lists and dictionaries under the names that libraries import: `tree_map`, `tree_flatten`, `tree_unflatten`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ferro.core import trees
from ferro.core.trees import LEAF, Structure
from ferro.utils import _tree_paths
from ferro.utils._tree_paths import (
    SUPPORTED_NODES,
    GetAttrKey,
    MappingKey,
    NodeDef,
    SequenceKey,
    _dict_flatten,
    _dict_flatten_with_keys,
    _dict_unflatten,
    key_get,
    keystr,
)

__all__ = [
    "SUPPORTED_NODES",
    "GetAttrKey",
    "LeafSpec",
    "MappingKey",
    "NodeDef",
    "PyTree",
    "SequenceKey",
    "TreeSpec",
    "_dict_flatten",
    "_dict_flatten_with_keys",
    "_dict_unflatten",
    "_get_node_type",
    "_is_leaf",
    "_register_pytree_node",
    "key_get",
    "keystr",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
]

PyTree = Any
TreeSpec = Structure
Leaf = Callable[[Any], bool] | None


def LeafSpec() -> Structure:
    """The structure of a single leaf."""
    return LEAF


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_fn: Callable[[list[Any], Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[..., Any] | None = None,
    from_dumpable_context: Callable[..., Any] | None = None,
    flatten_with_keys_fn: Callable[..., Any] | None = None,
) -> None:
    """Makes the objects of a class branches, here and in `func`: `flatten_fn(object)` is its children and a context, from
    which `unflatten_fn(children, context)` makes one again.  `flatten_with_keys_fn(object)` has (key, child) for each child,
    for the functions `..._with_path`.  The other arguments are for files, which ferro has none of.

    Raises: ValueError for a class that is a branch already.

    >>> from ferro.utils import _pytree
    >>> class Pair:
    ...     def __init__(self, a, b): self.a, self.b = a, b
    >>> _pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda children, _: Pair(*children))
    >>> _pytree.tree_leaves([Pair(1, (2, 3))])
    [1, 2, 3]
    """
    if cls in trees.NODES:
        raise ValueError(f"{cls} is already registered as pytree node")
    trees.NODES[cls] = (flatten_fn, unflatten_fn)
    if flatten_with_keys_fn is not None:
        _tree_paths.KEYED[cls] = flatten_with_keys_fn


_register_pytree_node = register_pytree_node  # (its name of PyTorch 2.0 and 2.1, which libraries still look for)


def tree_flatten(tree: Any, is_leaf: Leaf = None) -> tuple[list[Any], Structure]:
    """The leaves in order, and the structure; `is_leaf(x)` may say that a branch is a leaf.

    >>> from ferro.utils import _pytree
    >>> leaves, structure = _pytree.tree_flatten({"a": 1, "b": (2, [3])})
    >>> leaves
    [1, 2, 3]
    >>> _pytree.tree_unflatten([x * 10 for x in leaves], structure)
    {'a': 10, 'b': (20, [30])}
    """
    return trees.flatten(tree, is_leaf)


def tree_unflatten(leaves: Iterable[Any], treespec: Structure) -> Any:
    """The tree of a structure with these leaves; ValueError where their number is another."""
    if not isinstance(treespec, Structure):
        raise TypeError(
            f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}. What `tree_structure` "
            "returns is one"
        )
    found = list(leaves)
    if len(found) != (asked := trees.leaf_count(treespec)):
        raise ValueError(
            f"treespec.unflatten(leaves): `leaves` has length {len(found)} but the spec refers to a pytree that holds {asked} "
            f"items ({treespec})."
        )
    return trees.unflatten(treespec, found)


def tree_leaves(tree: Any, is_leaf: Leaf = None) -> list[Any]:
    """The leaves in order."""
    return trees.flatten(tree, is_leaf)[0]


def tree_iter(tree: Any, is_leaf: Leaf = None) -> Iterable[Any]:
    """The leaves in order, one after another."""
    yield from tree_leaves(tree, is_leaf)


def tree_structure(tree: Any, is_leaf: Leaf = None) -> Structure:
    """The structure alone."""
    return trees.flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Leaf = None) -> Any:
    """The same tree with `func(leaf, *leaves of the other trees)` of every leaf; the others are nested alike or deeper.

    >>> from ferro.utils import _pytree
    >>> _pytree.tree_map(lambda a, b: a + b, {"x": 1, "y": [2]}, {"x": 10, "y": [20]})
    {'x': 11, 'y': [22]}
    """
    leaves, structure = trees.flatten(tree, is_leaf)
    others = [_beside(structure, rest) for rest in rests]
    return trees.unflatten(structure, [func(*each) for each in zip(leaves, *others, strict=True)])


def tree_flatten_with_path(tree: Any, is_leaf: Leaf = None) -> tuple[list[tuple[tuple[Any, ...], Any]], Structure]:
    """The leaves in order, each behind its path (a tuple of keys), and the structure.

    Raises: ValueError for an object of a class that was registered without `flatten_with_keys_fn`.
    """
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: Leaf = None) -> list[tuple[tuple[Any, ...], Any]]:
    """The leaves in order, each behind its path."""
    return list(_tree_paths.paths(tree, is_leaf))


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Leaf = None) -> Any:
    """The same tree with `func(path, leaf, *leaves of the other trees)` of every leaf.

    >>> from ferro.utils import _pytree
    >>> _pytree.tree_map_with_path(lambda path, x: f"{_pytree.keystr(path)} = {x}", {"a": [1, 2]})
    {'a': ["['a'][0] = 1", "['a'][1] = 2"]}
    """
    placed = iter(tree_leaves_with_path(tree, is_leaf))
    return tree_map(lambda x, *others: func(next(placed)[0], x, *others), tree, *rests, is_leaf=is_leaf)


def tree_is_leaf(tree: Any, is_leaf: Leaf = None) -> bool:
    """Whether this is a leaf."""
    return (is_leaf is not None and is_leaf(tree)) or trees.apart(tree)[0] is None


_is_leaf = tree_is_leaf


def _get_node_type(tree: Any) -> type[Any]:
    """The type under which SUPPORTED_NODES knows a branch."""
    return type(tree)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Leaf = None) -> Any:
    """Calls `func` as `tree_map` does, for what it does to the leaves, and returns the tree as it was given."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(types: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: Leaf = None) -> Any:
    """The same tree with `func` of the leaves of these types (or of which a predicate says yes); others stay."""
    meant = _meant(types)
    return tree_map(lambda x: func(x) if meant(x) else x, tree, is_leaf=is_leaf)


def tree_map_only_(types: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: Leaf = None) -> Any:
    """Calls `func` as `tree_map_only` does, and returns the tree as it was given."""
    tree_map_only(types, func, tree, is_leaf=is_leaf)
    return tree


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Leaf = None) -> bool:
    """Whether `pred` holds for every leaf."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Leaf = None) -> bool:
    """Whether `pred` holds for some leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(types: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: Leaf = None) -> bool:
    """Whether `pred` holds for every leaf of these types."""
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, types))


def tree_any_only(types: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: Leaf = None) -> bool:
    """Whether `pred` holds for some leaf of these types."""
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, types))


def _meant(types: Any) -> Any:
    """Whether a leaf is of these types; a function is the question itself."""
    if callable(types) and not isinstance(types, type):
        return types
    return lambda x: isinstance(x, types)


def _beside(structure: Structure, rest: Any) -> list[Any]:
    """The parts of `rest` that stand where `structure` has its leaves; ValueError where it is nested otherwise."""
    if structure.kind is None:
        return [rest]
    if type(rest) is not structure.kind:
        raise ValueError(f"Node type mismatch; expected {structure.kind}, but got {type(rest)}.")
    children = trees.apart(rest)[2]
    if len(children) != len(structure.parts):
        raise ValueError(f"Node arity mismatch; expected {len(structure.parts)}, but got {len(children)}.")
    if structure.kind in trees.DICTIONARIES:
        names = structure.context[1] if isinstance(rest, trees.defaultdict) else structure.context
        if set(names) != set(rest):
            raise ValueError(f"Node keys mismatch; expected {list(names)}, but got {list(rest)}.")
        children = [rest[name] for name in names]
    return [found for part, inner in zip(children, structure.parts, strict=True) for found in _beside(inner, part)]
