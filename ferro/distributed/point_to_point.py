"""Tensors from one rank to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.autograd.grad_mode import no_grad

from .collectives import Work, check_tensor, peer_of
from .group import resolved

if TYPE_CHECKING:
    from ferro.tensor import Tensor


def _with(name: str, tensor: Any, rank: int | None, group_rank: int | None, group: Any, end: str) -> tuple:
    """The group, and the other rank (None: any). Refuses an exchange with oneself, and any where there is nobody else."""
    check_tensor("tensor", tensor)
    found = resolved(group)
    peer = None if rank is None and group_rank is None and end == "source" else peer_of(found, rank, group_rank)
    if peer == found.rank():
        raise ValueError(f"Invalid {end} rank: {end} rank should not be the same as the rank of the current process.")
    if found.size() == 1:
        raise RuntimeError(
            f"{name}: {'any rank' if peer is None else f'rank {peer}'}: this group has one process, and nobody else to "
            "exchange tensors with"
        )
    return found, peer


def send(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Sends a tensor to another rank. ValueError for the rank itself, RuntimeError where there is no other."""
    isend(tensor, dst, group, tag, group_dst).wait()


def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receives a tensor of this shape and dtype from another rank, any if none is named; which one it was. Raises as `send` does."""
    found, peer = _with("recv", tensor, src, group_src, group, "source")
    pending = found.receive(tensor, peer, tag)
    with no_grad():
        pending.wait()
    return found.ranks[pending.source()]


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work:
    """Begins to send a tensor. Raises as `send` does."""
    found, peer = _with("isend", tensor, dst, group_dst, group, "destination")
    return Work([tensor], found.send(tensor, peer, tag))


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Work:
    """Begins to receive a tensor. Raises as `send` does."""
    found, peer = _with("irecv", tensor, src, group_src, group, "source")
    return Work([tensor], found.receive(tensor, peer, tag))
