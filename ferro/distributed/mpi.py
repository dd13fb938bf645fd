"""Process groups over MPI, through mpi4py: the ranks that `mpiexec` has started exchange the memory of their tensors.

Note [What travels]
    Tensors that only move are bytes to MPI, so every dtype can travel. Sums and their like are MPI's own for the types that it
    knows. It knows no 16-bit floats: each rank gets one part of all tensors, adds these in the order of the ranks, in float32,
    and rounds once; then the parts are gathered (ordered.py). Whoever wants the same bits on each run asks for that way for all types
    (``deterministic``): MPI may add in any order.

    A tensor is written where it lies if its elements are contiguous, else through a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from ferro.core import dtypes
from ferro.core.backend import is_host
from ferro.core.base import bump, wrap
from ferro.core.inplace import announce
from ferro.core.provenance import caller
from ferro.distributed.compare import bytes_of_all, compare
from ferro.distributed.compare import is_on as compares
from ferro.distributed.control import Begun, Control, control, duplicate, end_all_with_one, mpi_of
from ferro.distributed.errors import DistBackendError
from ferro.distributed.ordered import Ordered, Queue, added
from ferro.distributed.pending import Pending, after, in_bytes
from ferro.distributed.process_group import ProcessGroup, ReduceOp
from ferro.distributed.recorded import refuse_recording

if TYPE_CHECKING:
    from ferro.tensor import Tensor

_NAMES = {
    ReduceOp.SUM: "SUM",
    ReduceOp.AVG: "SUM",
    ReduceOp.PRODUCT: "PROD",
    ReduceOp.MIN: "MIN",
    ReduceOp.MAX: "MAX",
    ReduceOp.BAND: "BAND",
    ReduceOp.BOR: "BOR",
    ReduceOp.BXOR: "BXOR",
}
_OF_TRUTH = {  # (a sum of truth values is whether one is true)
    ReduceOp.SUM: "BOR",
    ReduceOp.PRODUCT: "BAND",
    ReduceOp.MIN: "BAND",
    ReduceOp.MAX: "BOR",
    ReduceOp.BAND: "BAND",
    ReduceOp.BOR: "BOR",
    ReduceOp.BXOR: "BXOR",
}


def world(
    kind: type[MPIGroup], backend: str, name: str, rank: int, size: int, deterministic: bool, seconds: float
) -> MPIGroup:
    """The group of all ranks; RuntimeError without mpi4py, ValueError if MPI counts them otherwise."""
    MPI = mpi_of(size, seconds)
    communicator = MPI.COMM_WORLD
    counted = communicator.Get_rank(), communicator.Get_size()
    if (rank, size) != counted:
        alone = "; processes find each other by MPI alone, not by MASTER_ADDR, and none has been started with this one"
        raise ValueError(
            f"init_process_group: rank {rank} of {size} was asked for, but MPI says rank {counted[0]} of {counted[1]}"
            f"{alone if counted[1] == 1 else ''}. Start the script by mpiexec -n {size}, srun -n {size}, or "
            f"python -m ferro.distributed.run --nproc-per-node {size}"
        )
    if size > 1:
        end_all_with_one(communicator)
    found = control(communicator, seconds)
    if len(set(communicator.allgather(compares()))) > 1:
        raise ValueError("init_process_group: FERRO_DISTRIBUTED_DEBUG is set on some ranks and not on others")
    return kind(
        backend,
        name,
        duplicate(communicator, seconds),
        list(range(size)),
        deterministic,
        seconds,
        found,
        found.next_key(),
    )


class MPIGroup(ProcessGroup):
    """Some of the ranks, in an order of their own."""

    def __init__(
        self,
        backend: str,
        name: str,
        communicator: Any,
        ranks: Sequence[int],
        deterministic: bool,
        seconds: float,
        found: Control,
        key: str,
    ) -> None:
        super().__init__(backend, name)
        self._mpi, self.ranks, self.deterministic = communicator, list(ranks), deterministic
        self.seconds, self.control = seconds, found  # (how long a rank waits for an exchange)
        self._key, self._count, self._twins = key, 0, 0
        self._note = found.of_group(key).append
        self._beside = duplicate(communicator, seconds) if compares() else None
        self.queue = Queue(self)  # where reductions in the order of the ranks wait for their second exchange
        self.holders: WeakSet[Any] = WeakSet()  # of memory that ranks share: closed with the group

    def rank(self) -> int:
        """The number of this process in the group."""
        return self._mpi.Get_rank()

    def size(self) -> int:
        """The number of processes."""
        return self._mpi.Get_size()

    def title(self) -> str:
        """The group as errors name it."""
        some = ", ".join(map(str, self.ranks)) if len(self.ranks) < 9 else f"{self.ranks[0]} to {self.ranks[-1]}"
        return f"group {self.group_name!r} of ranks {some}"

    def subgroup(
        self, kind: type[MPIGroup], backend: str, name: str, ranks: Sequence[int], seconds: float | None
    ) -> MPIGroup | None:
        """A group of some ranks of the default group, in their order; None for those that are not in it. All ranks must ask."""
        from mpi4py import MPI

        mine = self.rank()
        self.barrier("new_group").wait()  # (which is watched: what comes is not)
        color = 0 if mine in ranks else MPI.UNDEFINED
        found = self._mpi.Split(color, ranks.index(mine) if mine in ranks else 0)
        key = self.control.next_key()  # (all ranks count the groups of all)
        if found == MPI.COMM_NULL:
            return None
        limit = self.seconds if seconds is None else seconds
        return kind(backend, name, found, ranks, self.deterministic, limit, self.control, key)

    def free(self) -> None:
        """Gives the group's communicators back, and the memory that its ranks share."""
        self.queue.free()
        for holder in list(self.holders):
            holder.close()
        self.control.give_back(self._key, self.ranks)
        self._mpi.Free()
        if self._beside is not None:
            self._beside.Free()

    def _begin(self, name: str, *what: Any, parts: Any = None) -> Begun:
        """Notes that this rank begins an exchange; `what` must be alike on all ranks."""
        refuse_recording(name)
        self.control.release()
        self._count += 1
        begun = (self._key, name, self._count, caller(2))
        self._note(begun)
        if self._beside is not None:
            compare(self, self._beside, begun, what, parts)
        return begun

    # -- what moves -----------------------------------------------------------------------------------------------------

    def broadcast(self, tensor: Tensor, root: int) -> Pending:
        """Sends the root's `tensor` to all."""
        self.check_root("broadcast", root)
        buffer, finish = _target("broadcast", tensor)
        begun = self._begin("broadcast", tensor, root)
        return Pending(self, begun, self._mpi.Ibcast(in_bytes(buffer), root), finish)

    def gather(self, outputs: Sequence[Tensor], tensor: Tensor, root: int | None) -> Pending:
        """Writes the tensor of every rank into the outputs of the root, or (None) of everyone."""
        given = _source("gather", tensor)
        if root is not None:
            self.check_root("gather", root)
        found = np.empty((self.size(), *given.shape), given.dtype)
        begun = self._begin("all_gather" if root is None else "gather", tensor, root)
        if root is None:
            request = self._mpi.Iallgather(in_bytes(given), in_bytes(found))
        else:
            request = self._mpi.Igather(in_bytes(given), in_bytes(found) if root == self.rank() else None, root)
        here = root is None or root == self.rank()

        def finish() -> None:
            for output, part in zip(outputs, found, strict=True) if here else ():
                _write("gather", output, part)

        return Pending(self, begun, request, after(finish, given))

    def scatter(self, output: Tensor, tensors: Sequence[Tensor], root: int) -> Pending:
        """Writes one of the root's tensors into the output of each rank."""
        self.check_root("scatter", root)
        buffer, finish = _target("scatter", output)
        whole = np.stack([_source("scatter", t) for t in tensors]) if self.rank() == root else None
        begun = self._begin("scatter", output, root)
        request = self._mpi.Iscatter(None if whole is None else in_bytes(whole), in_bytes(buffer), root)
        return Pending(self, begun, request, after(finish, whole))

    def all_to_all(self, outputs: Sequence[Tensor], tensors: Sequence[Tensor]) -> Pending:
        """Writes the tensor that rank i has for rank j into output i of rank j."""
        from mpi4py import MPI

        given = [_source("all_to_all", t).reshape(-1).view(np.uint8) for t in tensors]
        sizes = [a.nbytes for a in given]
        wanted = [t._data.nbytes for t in outputs]
        sent, found = np.concatenate(given), np.empty(sum(wanted), np.uint8)
        begun = self._begin("all_to_all", tensors[0].dtype, parts=(sizes, wanted))
        request = self._mpi.Ialltoallv([sent, sizes, MPI.BYTE], [found, wanted, MPI.BYTE])

        def finish() -> None:
            start = 0
            for output, count in zip(outputs, wanted, strict=True):
                data = output._data
                _write("all_to_all", output, found[start : start + count].view(data.dtype).reshape(data.shape))
                start += count

        return Pending(self, begun, request, after(finish, sent))

    def send(self, tensor: Tensor, peer: int, tag: int) -> Pending:
        """Sends a tensor to a rank."""
        given = _source("send", tensor)
        request = self._mpi.Isend(in_bytes(given), peer, tag)
        return Pending(self, self._to("send to", peer), request, after(None, given), None, [self.ranks[peer]])

    def receive(self, tensor: Tensor, peer: int | None, tag: int) -> Pending:
        """Receives a tensor from a rank, any if None."""
        from mpi4py import MPI

        buffer, finish = _target("recv", tensor)
        request = self._mpi.Irecv(in_bytes(buffer), MPI.ANY_SOURCE if peer is None else peer, tag)
        peers = self.ranks if peer is None else [self.ranks[peer]]
        return Pending(self, self._to("recv from", peer), request, finish, MPI.Status(), peers)

    def _to(self, name: str, peer: int | None) -> Begun:
        """An exchange with one rank, which is not counted."""
        refuse_recording(name)
        return (self._key, f"{name} {'any rank' if peer is None else f'rank {self.ranks[peer]}'}", None, caller(2))

    def barrier(self, name: str = "barrier") -> Pending:
        """Waits until all ranks are here."""
        begun = self._begin(name)
        return Pending(self, begun, self._mpi.Ibarrier())

    def exchanged(self, data: bytes, name: str = "exchange of objects") -> list[bytes]:
        """The bytes of every rank."""
        return bytes_of_all(self, self._mpi, self._begin(name), data)

    # -- what is added --------------------------------------------------------------------------------------------------

    def reduce(self, tensor: Tensor, op: ReduceOp, root: int | None) -> Pending | Ordered:
        """Reduces the tensors of all ranks into the root's, or (None) into everyone's."""
        super().reduce(tensor, op, root)
        return self._reduce(tensor, op, root)

    def reduce_numbers(self, numbers: np.ndarray, op: ReduceOp) -> Pending | Ordered:
        """Reduces arrays of the processor into everyone's, whatever library moves tensors."""
        return self._reduce(wrap(numbers), op, None)

    def _reduce(self, tensor: Tensor, op: ReduceOp, root: int | None) -> Pending | Ordered:
        buffer, finish = _target("reduce", tensor)
        here = root is None or root == self.rank()
        begun = self._begin("all_reduce" if root is None else "reduce", tensor, op, root)
        if self.deterministic or buffer.dtype in dtypes.HALF:
            return Ordered(self, begun, buffer, op, here, finish)
        from mpi4py import MPI

        is_truth = buffer.dtype.kind == "b"
        operation = getattr(MPI, _OF_TRUTH[op] if is_truth else _NAMES[op])
        given = buffer.view(np.uint8) if is_truth else buffer
        if root is None:
            request = self._mpi.Iallreduce(MPI.IN_PLACE, given, operation)
        else:
            request = self._mpi.Ireduce(MPI.IN_PLACE if here else given, given if here else None, operation, root)

        def end() -> None:
            if op is ReduceOp.AVG and here:
                np.divide(buffer, self.size(), out=buffer)
            if here and finish is not None:
                finish()

        return Pending(self, begun, request, end)

    def reduce_scatter(self, output: Tensor, inputs: Sequence[Tensor], op: ReduceOp) -> Pending:
        """Writes the sum over ranks of entry i of their inputs into the output of rank i: its parts in the order of the ranks."""
        super().reduce(output, op, None)
        parts = np.stack([_source("reduce_scatter", t) for t in inputs])
        found = np.empty_like(parts)
        begun = self._begin("reduce_scatter", output, op)
        request = self._mpi.Ialltoall(in_bytes(parts), in_bytes(found))
        return Pending(self, begun, request, after(lambda: _write("reduce_scatter", output, added(found, op)), parts))

    def gather_memory(self, whole: np.ndarray, part: np.ndarray) -> Pending:
        """Writes the contiguous memory of every rank into that of `whole`, one behind the other."""
        begun = self._begin("all_gather", part)
        request = self._mpi.Iallgather(in_bytes(part), in_bytes(whole))
        return Pending(self, begun, request, after(None, (whole, part)))

    def reduce_scatter_memory(self, output: np.ndarray, whole: np.ndarray, op: ReduceOp) -> Pending:
        """Writes the sum over ranks, in their order, of part i of their contiguous memory into the output of rank i."""
        found = np.empty((self.size(), *output.shape), whole.dtype)
        begun = self._begin("reduce_scatter", output, op)
        request = self._mpi.Ialltoall(in_bytes(whole), in_bytes(found))

        def finish() -> None:
            output[...] = added(found, op)

        return Pending(self, begun, request, after(finish, whole))

    def twin(self) -> MPIGroup:
        """A group of the same ranks whose exchanges have an order of their own; all of them must ask."""
        made = duplicate(self._mpi, self.seconds)
        self._twins += 1  # (which only these ranks make: its key is one of this group's)
        return type(self)(
            str(self._backend),
            self._name,
            made,
            self.ranks,
            self.deterministic,
            self.seconds,
            self.control,
            f"{self._key}.{self._twins}",
        )


# -- tensors as memory --------------------------------------------------------------------------------------------------


def _source(name: str, tensor: Any) -> np.ndarray:
    """The elements of a tensor, one behind the other."""
    if not is_host(tensor._data):
        raise DistBackendError(f"{name}: MPI moves tensors of the CPU, got one on {tensor.device}")
    return np.ascontiguousarray(tensor._data).reshape(tensor._data.shape)


def _target(name: str, tensor: Any) -> tuple[np.ndarray, Callable[[], None] | None]:
    """Where MPI writes a tensor, which has its content, and what is to be done when it has."""
    data = _source(name, tensor)
    if data is tensor._data or np.shares_memory(data, tensor._data):
        announce(data)
        return data, lambda: bump(tensor, name)
    return data, lambda: _write(name, tensor, data)


def _write(name: str, tensor: Any, values: np.ndarray) -> None:
    announce(tensor._data)
    tensor._data[...] = values
    bump(tensor, name)
