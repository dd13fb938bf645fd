"""Nested tuples, lists and dictionaries of tensors: taken apart into leaves and a structure, and put together again."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

from ferro.core.base import TensorBase

SEQUENCES = (tuple, list, deque)
DICTIONARIES: tuple = (dict, OrderedDict, defaultdict)
# Classes that a program has made branches (`utils._pytree`): (object -> children, context), (children, context -> object).
NODES: dict[type, tuple[Callable, Callable]] = {}


class Structure(NamedTuple):
    """How a tree is nested: the type of a branch (None: a leaf), what else it needs to be made again, its branches."""

    kind: Any
    context: Any = None
    parts: tuple = ()

    @property
    def num_leaves(self) -> int:
        """The number of leaves."""
        return leaf_count(self)

    def __str__(self) -> str:
        if self.kind is None:
            return "*"
        if self.kind in DICTIONARIES:
            names = self.context if self.kind is not defaultdict else self.context[1]
            return "{" + ", ".join(f"{k!r}: {p}" for k, p in zip(names, self.parts, strict=True)) + "}"
        inner = ", ".join(map(str, self.parts))
        if self.kind is list:
            return f"[{inner}]"
        return f"({inner}{',' * (len(self.parts) == 1)})" if self.kind is tuple else f"{self.kind.__name__}({inner})"


LEAF = Structure(None)


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list, Structure]:
    """The leaves of a tree in order, and its structure.

    What is no tuple, list, deque or dictionary, and no object of a class in NODES, is a leaf; so is what `is_leaf` says.
    """
    leaves: list = []
    return leaves, _take(tree, leaves, is_leaf)


def _take(tree: Any, leaves: list, is_leaf: Callable[[Any], bool] | None = None) -> Structure:
    kind, context, children = (None, None, ()) if is_leaf is not None and is_leaf(tree) else apart(tree)
    if kind is None:
        leaves.append(tree)
        return LEAF
    return Structure(kind, context, tuple([_take(child, leaves, is_leaf) for child in children]))


def apart(tree: Any) -> tuple[Any, Any, Any]:
    """The kind of a branch (None of a leaf), its context, and its children."""
    kind = type(tree)
    if kind in NODES:
        children, context = NODES[kind][0](tree)
        return kind, context, list(children)
    if isinstance(tree, TensorBase) or not (kind in SEQUENCES or kind in DICTIONARIES or _named(tree)):
        return None, None, ()
    if kind in DICTIONARIES:
        return kind, (tree.default_factory, tuple(tree)) if kind is defaultdict else tuple(tree), list(tree.values())
    return kind, tree.maxlen if kind is deque else None, list(tree)


def _named(tree: Any) -> bool:
    """Whether a tuple has named fields: a NamedTuple or a result such as ferro.return_types.max."""
    return isinstance(tree, tuple) and (hasattr(tree, "_fields") or hasattr(tree, "fields"))


def unflatten(structure: Structure, leaves: Any) -> Any:
    """The tree of a structure with the given leaves."""
    return _make(structure, iter(leaves))


def _make(structure: Structure, leaves: Any) -> Any:
    kind: Any = structure.kind
    context, parts = structure.context, structure.parts
    if kind is None:
        return next(leaves)
    made = [_make(p, leaves) for p in parts]
    if kind in NODES:
        return NODES[kind][1](made, context)
    if kind is defaultdict:
        return defaultdict(context[0], zip(context[1], made, strict=True))
    if kind in DICTIONARIES:
        return kind(zip(context, made, strict=True))
    if kind is deque:
        return deque(made, maxlen=context)
    return kind(*made) if hasattr(kind, "_fields") else kind(made)


def tree_map(f: Callable, tree: Any) -> Any:
    """The same tree with `f` of every leaf."""
    leaves, structure = flatten(tree)
    return unflatten(structure, [f(x) for x in leaves])


def map_tensors(f: Callable, tree: Any) -> Any:
    """The same tree with `f` of every tensor; other leaves stay."""
    return tree_map(lambda x: f(x) if isinstance(x, TensorBase) else x, tree)


def spread(tree: Any, structure: Structure) -> list | None:
    """The leaves of `tree` once for every leaf of `structure` that they stand for; None if it is nested otherwise.

    Where `structure` branches and `tree` has a leaf, that holds for the whole branch.
    """
    kind, context, children = apart(tree)
    if kind is None:
        return [tree] * leaf_count(structure)
    if (kind, context, len(children)) != (structure.kind, structure.context, len(structure.parts)):
        return None
    found: list = []
    for part, inner in zip(children, structure.parts, strict=True):
        leaves = spread(part, inner)
        if leaves is None:
            return None
        found += leaves
    return found


def leaf_count(structure: Structure) -> int:
    """The number of leaves of a structure."""
    return 1 if structure.kind is None else sum(map(leaf_count, structure.parts))
