"""Nested tuples, lists and dictionaries of tensors: taken apart into leaves and a structure, and put together again."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

from ferro.core.base import TensorBase

SEQUENCES = (tuple, list, deque)
DICTIONARIES: tuple = (dict, OrderedDict, defaultdict)


class Structure(NamedTuple):
    """How a tree is nested: the type of a branch (None: a leaf), what else it needs to be made again, its branches."""

    kind: Any
    context: Any = None
    parts: tuple = ()

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

    What is no tuple, list, deque or dictionary is a leaf, and so is what `is_leaf` says is one.
    """
    leaves: list = []
    return leaves, _take(tree, leaves, is_leaf)


def _take(tree: Any, leaves: list, is_leaf: Callable[[Any], bool] | None = None) -> Structure:
    kind = type(tree)
    nested = kind in SEQUENCES or kind in DICTIONARIES or _named(tree)
    if isinstance(tree, TensorBase) or not nested or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return LEAF
    if kind in DICTIONARIES:
        parts = tuple([_take(value, leaves, is_leaf) for value in tree.values()])
        return Structure(kind, (tree.default_factory, tuple(tree)) if kind is defaultdict else tuple(tree), parts)
    return Structure(kind, tree.maxlen if kind is deque else None, tuple([_take(x, leaves, is_leaf) for x in tree]))


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
    kind = _take(tree, [])
    if kind.kind is None:
        return [tree] * leaf_count(structure)
    if (kind.kind, kind.context, len(kind.parts)) != (structure.kind, structure.context, len(structure.parts)):
        return None
    found: list = []
    for part, inner in zip(tree.values() if kind.kind in DICTIONARIES else tree, structure.parts, strict=True):
        leaves = spread(part, inner)
        if leaves is None:
            return None
        found += leaves
    return found


def leaf_count(structure: Structure) -> int:
    """The number of leaves of a structure."""
    return 1 if structure.kind is None else sum(map(leaf_count, structure.parts))
