"""How the ranks of a group make communicators of NCCL: identifiers and GPUs are told by MPI, and looked at first."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ferro.cuda import communicators
from ferro.distributed.errors import DistBackendError


def joined(group: Any, count: int, told: Callable[[bytes], list[bytes]]) -> list[communicators.Communicator]:
    """So many communicators of a group's ranks; `told` gives the bytes of every rank, and waits for all of them.

    DistBackendError, on all ranks, if one has no GPU or no NCCL, or if two have the same GPU.
    """
    from mpi4py import MPI

    said, names, place = communicators.missing(), [], ""
    if said is None:
        place = communicators.place()
        if group.rank() == 0:
            try:
                names = [communicators.unique_id().hex() for _ in range(count)]
            except RuntimeError as error:
                said = str(error)
    mine = json.dumps([said, MPI.Get_processor_name(), place, names]).encode()
    every = [json.loads(data) for data in told(mine)]
    _check(group, every)
    try:
        return [communicators.Communicator(group.size(), bytes.fromhex(name), group.rank()) for name in every[0][3]]
    except RuntimeError as error:
        raise DistBackendError(f"{group.title()}: rank {group.ranks[group.rank()]}: NCCL says: {error}") from None


def _check(group: Any, every: list[Any]) -> None:
    """Raises what `joined` says."""
    lacking = [f"rank {rank}: {said}" for rank, (said, *_) in zip(group.ranks, every, strict=True) if said]
    if lacking:
        raise DistBackendError(f"{group.title()} cannot exchange tensors by NCCL: {'; '.join(lacking)}")
    seen: dict[tuple[str, str], int] = {}
    for rank, (_, machine, place, _) in zip(group.ranks, every, strict=True):
        other = seen.setdefault((machine, place), rank)
        if other != rank:
            raise DistBackendError(
                f"{group.title()}: ranks {other} and {rank} have the same GPU ({place} of {machine}), and NCCL needs one for each. "
                "CUDA_VISIBLE_DEVICES chooses that of a rank; ferro.distributed.run sets it where there are several"
            )
