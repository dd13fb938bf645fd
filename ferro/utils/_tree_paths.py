"""Where a leaf stands in nested tuples, lists and dictionaries: paths of keys, and the flattening that gives them.

Classes of a program have paths if `register_pytree_node` was given their `flatten_with_keys_fn`, which is kept in KEYED.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from ferro.core import trees

KEYED: dict[type, Callable[[Any], tuple[list[tuple[Any, Any]], Any]]] = {}


@dataclass(frozen=True)
class SequenceKey:
    """The place of a child in a tuple, list or deque."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """The child."""
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """The key of a child in a dictionary."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """The child."""
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """The name of a child in a named tuple or an object."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The child."""
        return getattr(obj, self.name)


class NodeDef(NamedTuple):
    """How branches of a type are taken apart and made again."""

    type: type[Any]
    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Any, Any], Any]


class _Nodes(Mapping):
    """The types of branches: Python's own, named tuples, and those that a program has registered."""

    def __getitem__(self, kind: Any) -> NodeDef:
        if not self._known(kind):
            raise KeyError(kind)
        return NodeDef(kind, _apart, partial(_again, kind))

    def __contains__(self, kind: Any) -> bool:
        return self._known(kind)

    def _known(self, kind: Any) -> bool:
        named = (
            isinstance(kind, type) and issubclass(kind, tuple) and (hasattr(kind, "_fields") or hasattr(kind, "fields"))
        )
        return kind in trees.NODES or kind in trees.SEQUENCES or kind in trees.DICTIONARIES or named

    def __iter__(self) -> Iterator[type]:
        return iter((*trees.SEQUENCES, *trees.DICTIONARIES, *trees.NODES))

    def __len__(self) -> int:
        return len(list(iter(self)))


SUPPORTED_NODES: Mapping[Any, NodeDef] = _Nodes()


def _apart(tree: Any) -> tuple[list[Any], Any]:
    _, context, children = trees.apart(tree)
    return children, context


def _again(kind: Any, children: Any, context: Any) -> Any:
    children = list(children)
    return trees.unflatten(trees.Structure(kind, context, (trees.LEAF,) * len(children)), children)


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    """The values of a dictionary, and its keys."""
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], list[Any]]:
    """The values of a dictionary beside the keys of a path, and the keys."""
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _dict_unflatten(values: Any, context: Any) -> dict[Any, Any]:
    """The dictionary of these values and keys."""
    return dict(zip(context, values, strict=True))


def children_with_keys(tree: Any) -> list[tuple[Any, Any]]:
    """The children of a branch with their keys.  Raises: ValueError for a class that was registered without."""
    kind, _, children = trees.apart(tree)
    if kind in KEYED:
        return list(KEYED[kind](tree)[0])
    if kind in trees.NODES:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {kind}. Please pass a flatten_with_keys_fn argument to "
            "register_pytree_node."
        )
    if kind in trees.DICTIONARIES:
        return _dict_flatten_with_keys(tree)[0]
    if hasattr(kind, "_fields"):
        return [(GetAttrKey(name), child) for name, child in zip(kind._fields, children, strict=True)]
    return [(SequenceKey(i), child) for i, child in enumerate(children)]


def paths(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Each leaf in order, behind its path."""
    if (is_leaf is not None and is_leaf(tree)) or trees.apart(tree)[0] is None:
        yield (), tree
        return
    for key, child in children_with_keys(tree):
        for path, leaf in paths(child, is_leaf):
            yield (key, *path), leaf


def keystr(kp: tuple[Any, ...]) -> str:
    """How Python writes a path behind the name of the tree.

    >>> from ferro.utils import _pytree
    >>> [_pytree.keystr(path) for path, _ in _pytree.tree_leaves_with_path({"a": [1, (2,)]})]
    ["['a'][0]", "['a'][1][0]"]
    """
    return "".join(map(str, kp))


def key_get(obj: Any, kp: tuple[Any, ...]) -> Any:
    """The part of a tree at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj
