"""Python objects from rank to rank: each receiver gets a copy.

Note [Objects]
    Plain data (plain.py) travel in a format whose reading executes nothing. Other objects are pickled, if the group allows it: reading a
    pickle executes what it says, so a rank takes none unless it has been told to. The first byte says which of both follows.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from ferro.core.base import wrap

from . import plain
from .collectives import peer_of
from .errors import DistError
from .group import resolved
from .point_to_point import recv, send
from .process_group import ProcessGroup

_PLAIN, _PICKLED = b"j", b"p"
_ASK = "dist.GroupOptions(allow_pickle=True) as pg_options of init_process_group, or FERRO_DISTRIBUTED_PICKLE=1"


def _packed(group: ProcessGroup, name: str, value: Any) -> bytes:
    """A value on its way; TypeError for one that is no plain data, unless the group pickles."""
    try:
        return _PLAIN + plain.dumps(value)
    except plain.NotPlain as error:
        if not group.allow_pickle:
            raise TypeError(
                f"{name}: {error.kind} is no plain data ({plain.WHAT}). {_ASK} in the environment of all ranks, lets ranks pickle "
                "other objects: each can then make the others execute code"
            ) from None
    return _PICKLED + pickle.dumps(value)


def _unpacked(group: ProcessGroup, name: str, data: bytes, source: int) -> Any:
    """What a rank (as the group numbers it) has sent; DistError for what this one does not read."""
    rank = group.ranks[source]
    if data[:1] == _PICKLED:
        if not group.allow_pickle:
            raise DistError(f"{name}: rank {rank} has sent a pickle, which this rank does not read: {_ASK}")
        return pickle.loads(data[1:])
    try:
        if data[:1] != _PLAIN:
            raise ValueError(f"they begin with {data[:1]!r}")
        return plain.loads(memoryview(data)[1:])
    except ValueError as error:
        raise DistError(f"{name}: rank {rank} has sent bytes that are none of its objects: {error}") from None


def _entry(group: ProcessGroup, name: str, data: bytes, source: int, count: int) -> list[Any]:
    """A list of so many objects that a rank has sent."""
    found = _unpacked(group, name, data, source)
    if type(found) is not list or len(found) != count:
        what = f"a list of {len(found)}" if type(found) is list else f"{type(found)}"
        raise DistError(
            f"{name}: rank {group.ranks[source]} has sent {what} where a list of {count} objects is expected"
        )
    return found


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

    Plain data (numbers, texts, tensors, arrays, lists, dictionaries and the like) can be sent; of others a TypeError says how ranks are
    told to pickle them. DistError for a rank that has sent what this one does not read. Both hold for all exchanges of objects.
    """
    found = resolved(group)
    _room("all_gather_object", object_list, found.size())
    name = "all_gather_object"
    told = found.exchanged(_packed(found, name, obj), name)
    object_list[: found.size()] = [_unpacked(found, name, data, source) for source, data in enumerate(told)]


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
    told = found.exchanged(_packed(found, "gather_object", obj), "gather_object")
    if found.rank() == root:
        gathered = [_unpacked(found, "gather_object", data, source) for source, data in enumerate(told)]
        object_gather_list[: found.size()] = gathered  # type: ignore[index]


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """Writes the objects in the list of rank `src` (0 unless given) into those of the others: of nobody."""
    found = resolved(group)
    root = 0 if src is None and group_src is None else peer_of(found, src, group_src)
    found.check_root("broadcast", root)
    name = "broadcast_object_list"
    # (what cannot be sent is refused with one process, too)
    told = found.exchanged(_packed(found, name, list(object_list)) if found.rank() == root else b"", name)
    if found.rank() != root:
        object_list[:] = _entry(found, name, told[root], root, len(object_list))


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
    name = "scatter_object_list"
    told = found.exchanged(_packed(found, name, list(given)) if found.rank() == root else b"", name)
    scatter_object_output_list[0] = _entry(found, name, told[root], root, found.size())[found.rank()]


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Sends the objects in the list to another rank. Raises as `send` and `all_gather_object` do."""
    found = resolved(group)
    data = np.frombuffer(_packed(found, "send_object_list", list(object_list)), np.uint8).copy()
    send(wrap(np.array([data.size])), dst, group, group_dst=group_dst)
    send(wrap(data), dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receives as many objects as the list has from another rank, any if none is named; which one it was. Raises as `recv` does."""
    found, count = resolved(group), wrap(np.zeros(1, np.int64))
    rank = recv(count, src, group, group_src=group_src)
    data = wrap(np.empty(count._data[0], np.uint8))
    recv(data, rank, group)
    source = found.ranks.index(rank)
    object_list[:] = _entry(found, "recv_object_list", data._data.tobytes(), source, len(object_list))
    return rank
