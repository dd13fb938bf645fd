"""The default group, or another, divided into smaller ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from .group import get_process_group_ranks, get_rank, get_world_size, new_group


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of so many ranks each, in the order of the ranks; all ranks must ask. The one of this rank (None if it is in none), and all.

    - `group_size` (int, default None): None is a ValueError here, as in PyTorch where there is no GPU
    - `group` (default None): the group that is divided; None: the default one
    - `timeout`, `backend`, `pg_options`, `group_desc` (default None): as of `new_group`

    ValueError for a size that does not divide the group's.

    Example::

        >>> import ferro.distributed as dist
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> mine, every = dist.new_subgroups(1)
        >>> dist.get_process_group_ranks(mine), len(every)
        ([0], 1)
        >>> dist.destroy_process_group()
    """
    if group_size is None:
        raise ValueError("Default group size only takes effect when CUDA is available. Please pass in 'group_size'.")
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    size = get_world_size(group)
    if size < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})")
    if size % group_size:
        raise ValueError(f"The world size ({size}) must be divisible by '{group_size=}'")
    ranks = get_process_group_ranks(group)
    parts = [ranks[i : i + group_size] for i in range(0, len(ranks), group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of the ranks that are listed; all ranks must ask. The one of this rank (None if it is in none), and all.

    ValueError for an empty list, and for a rank that is in two groups.
    """
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    known: dict[int, Sequence[int]] = {}
    for ranks in ranks_per_subgroup_list:
        for rank in ranks:
            if rank in known:
                raise ValueError(f"Rank {rank} has appeared in both subgroup {known[rank]} and {ranks}")
            known[rank] = ranks
    made = [new_group(ranks, timeout, backend, pg_options, group_desc=group_desc) for ranks in ranks_per_subgroup_list]
    mine = [one for one, ranks in zip(made, ranks_per_subgroup_list, strict=True) if get_rank() in ranks]
    return (mine[0] if mine else None), made
