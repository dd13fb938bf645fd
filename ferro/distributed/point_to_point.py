"""Tensors from one rank to another, one by one or several at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ferro.autograd.grad_mode import no_grad

from .collectives import check_tensor, peer_of
from .group import resolved
from .work import Work

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


class P2POp:
    """What `batch_isend_irecv` begins: `isend` or `irecv` (ValueError for others) of a tensor, with its other arguments.

    Example::

        >>> import ferro
        >>> import ferro.distributed as dist
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> dist.P2POp(dist.isend, ferro.ones(2), 0)
        P2POp(isend pg=0, group_src=0, group_dst=0,  ferro.Size([2]), ferro.float32)
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        op: Callable[..., Work],
        tensor: Tensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or ``torch.distributed.irecv``."
            )
        check_tensor("tensor", tensor)
        self.op, self.tensor, self.tag = op, tensor, tag
        self.group = resolved(group)
        self.group_peer = peer_of(self.group, peer, group_peer)
        self.peer = self.group.ranks[self.group_peer]

    def __repr__(self) -> str:
        ends = [self.group.rank(), self.group_peer]
        source, target = ends if self.op is isend else reversed(ends)
        return (
            f"P2POp({self.op.__name__} pg={self.group.group_name}, group_src={source}, group_dst={target},  "
            f"{self.tensor.shape}, {self.tensor.dtype})"
        )


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begins several sends and receives of one group; a Work for each. ValueError for what is no list of them, or of several groups."""
    if not isinstance(p2p_op_list, list) or not all(isinstance(one, P2POp) for one in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``.")
    if not p2p_op_list:
        raise ValueError("batch_isend_irecv: p2p_op_list is empty")
    if any(one.group is not p2p_op_list[0].group for one in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    works = [one.op(one.tensor, one.peer, one.group, one.tag) for one in p2p_op_list]
    p2p_op_list[0].group.begin_held_back()
    return works
