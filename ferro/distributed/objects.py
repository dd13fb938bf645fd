"""Python objects from rank to rank: each receiver gets a copy, made by pickling, as from another process."""

from __future__ import annotations

import pickle
from typing import Any

from .collectives import peer_of
from .group import resolved


def _copy(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


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
    size = resolved(group).size()
    _room("all_gather_object", object_list, size)
    object_list[0] = _copy(obj)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Writes the objects of all ranks into the list of rank `dst` (0 unless given)."""
    found = resolved(group)
    found.check_root("gather", 0 if dst is None and group_dst is None else peer_of(dst, group_dst))
    if not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    _room("gather_object", object_gather_list, found.size())
    object_gather_list[0] = _copy(obj)


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """Writes the objects in the list of rank `src` (0 unless given) into those of the others: of nobody."""
    found = resolved(group)
    found.check_root("broadcast", 0 if src is None and group_src is None else peer_of(src, group_src))
    pickle.dumps(object_list)  # (what cannot be sent is refused with one process, too)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Writes entry i of the list of rank `src` (0 unless given) into the first place of the output list of rank i."""
    found = resolved(group)
    found.check_root("scatter", 0 if src is None and group_src is None else peer_of(src, group_src))
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    if scatter_object_input_list is None:
        raise ValueError("source rank must provide non-None scatter_object_input_list")
    if len(scatter_object_input_list) != found.size():
        raise RuntimeError(
            f"ProcessGroup::scatter: Incorrect input list size {len(scatter_object_input_list)}. Input list size should "
            f"be {found.size()}, same as size of the process group."
        )
    scatter_object_output_list[0] = _copy(scatter_object_input_list[0])
