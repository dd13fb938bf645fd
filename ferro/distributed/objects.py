"""Python objects from rank to rank: each receiver gets a copy, made by pickling, as from another process."""

from __future__ import annotations

import pickle
from typing import Any

from .collectives import peer_of
from .group import resolved
from .process_group import ProcessGroup


def _of_all(group: ProcessGroup, value: Any) -> list[Any]:
    """The values of all ranks."""
    return [pickle.loads(data) for data in group.exchanged(pickle.dumps(value))]


def _room(name: str, values: Any, size: int) -> None:
    if not isinstance(values, list) or len(values) < size:
        raise ValueError(f"{name}: a list with a place for each of the {size} ranks is needed, got {values!r}")


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Writes the objects of all ranks into the list.

    Example::

        >>> import ferro.distributed as dist
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> found = [None] * dist.get_world_size()
        >>> dist.all_gather_object(found, {"loss": 0.5})
        >>> found
        [{'loss': 0.5}]
        >>> dist.destroy_process_group()
    """
    found = resolved(group)
    _room("all_gather_object", object_list, found.size())
    object_list[: found.size()] = _of_all(found, obj)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Writes the objects of all ranks into the list of rank `dst` (0 unless given)."""
    found = resolved(group)
    root = 0 if dst is None and group_dst is None else peer_of(found, dst, group_dst)
    found.check_root("gather", root)
    if found.rank() == root:
        if not object_gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        _room("gather_object", object_gather_list, found.size())
    gathered = _of_all(found, obj)
    if found.rank() == root:
        object_gather_list[: found.size()] = gathered  # type: ignore[index]


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """Writes the objects in the list of rank `src` (0 unless given) into those of the others: of nobody."""
    found = resolved(group)
    root = 0 if src is None and group_src is None else peer_of(found, src, group_src)
    found.check_root("broadcast", root)
    # (what cannot be sent is refused with one process, too)
    sent = found.exchanged(pickle.dumps(object_list if found.rank() == root else None))
    if found.rank() != root:
        object_list[:] = pickle.loads(sent[root])


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Writes entry i of the list of rank `src` (0 unless given) into the first place of the output list of rank i."""
    found = resolved(group)
    root = 0 if src is None and group_src is None else peer_of(found, src, group_src)
    found.check_root("scatter", root)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    given = scatter_object_input_list if found.rank() == root else []
    if given is None:
        raise ValueError("source rank must provide non-None scatter_object_input_list")
    if found.rank() == root and len(given) != found.size():
        raise RuntimeError(
            f"ProcessGroup::scatter: Incorrect input list size {len(given)}. Input list size should "
            f"be {found.size()}, same as size of the process group."
        )
    scatter_object_output_list[0] = pickle.loads(found.exchanged(pickle.dumps(given))[root])[found.rank()]
