"""What the ranks of a DistributedDataParallel tell each other besides gradients: that their models are alike, the order, errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.core.backend import is_host
from ferro.core.base import bump, wrap
from ferro.core.inplace import announce
from ferro.distributed.arrays import numpy_of
from ferro.distributed.process_group import ProcessGroup


def check_alike(group: ProcessGroup, named: list[tuple[str, Any]], dtype_of: Callable[[Any], Any]) -> None:
    """RuntimeError, on all ranks, unless the parameters of all are those of rank 0: names, shapes, dtypes, order of the elements.

    `dtype_of`: in which dtype the gradient of a parameter travels.
    """
    mine = []
    for name, p in named:
        travels = "" if dtype_of(p) is p.dtype else f" (gradients travel in {dtype_of(p)})"
        mine.append([name, list(p._data.shape), f"{p.dtype}{travels}", _order(p._data)])
    every = [json.loads(data) for data in group.exchanged(json.dumps(mine).encode())]
    for rank, other in enumerate(every):
        if len(other) != len(every[0]):
            raise RuntimeError(
                f"DistributedDataParallel: rank 0 has {len(every[0])} parameters that require a gradient, rank {rank} has {len(other)}"
            )
        for a, b in zip(every[0], other, strict=True):
            if a != b:
                raise RuntimeError(
                    f"DistributedDataParallel: parameter {a[0]} of rank 0 is {a[2]} of shape {a[1]}, that of rank {rank}, {b[0]}, is "
                    f"{b[2]} of shape {b[1]}{'' if a[:3] != b[:3] else ', in another order in memory'}"
                )


def _order(data: Any) -> list[int]:
    """The dimensions in the order in which elements lie in memory."""
    return [] if data.flags.c_contiguous else sorted(range(data.ndim), key=lambda d: -data.strides[d])


def first_order(group: ProcessGroup, seen: list[int], before: list[int]) -> list[int]:
    """The numbers `before` in the order in which rank 0 has seen them (the first time), then those that it has not."""
    told = json.loads(group.exchanged(json.dumps(seen).encode())[0])
    known = dict.fromkeys(before)
    found = [i for i in dict.fromkeys(told) if i in known]
    return found + [i for i in before if i not in set(found)]


def told_errors(group: ProcessGroup, error: BaseException | None) -> str:
    """What is raised where a backward has gone well, when those of other ranks have raised."""
    mine = "" if error is None else f"{type(error).__name__}: {error}"
    every = [data.decode() for data in group.exchanged(mine.encode())]
    told = "; ".join(f"rank {rank}: {text}" for rank, text in enumerate(every) if text)
    return f"DistributedDataParallel: backward has raised on other ranks, and the gradients of this step are no means. {told}"


def sent_from(rank: int, group: ProcessGroup, tensors: list[Any]) -> None:
    """Writes the tensors of a rank into those of all, in one message, and one more for tensors on a GPU."""
    for some in (True, False):
        _sent_from(rank, group, [t for t in tensors if is_host(t._data) is some])


def _sent_from(rank: int, group: ProcessGroup, tensors: list[Any]) -> None:
    if not tensors:
        return
    xp = numpy_of(tensors[0]._data)
    parts = [xp.ascontiguousarray(t._data).reshape(-1).view(np.uint8) for t in tensors]
    flat = xp.concatenate(parts)
    pending = group.broadcast(wrap(flat), rank)
    if pending is not None:
        pending.wait()
    if group.rank() == rank:
        return
    start = 0
    for t, part in zip(tensors, parts, strict=True):
        announce(t._data)
        t._data[...] = flat[start : start + part.size].view(t._data.dtype).reshape(t._data.shape)
        bump(t, "DistributedDataParallel")
        start += part.size
