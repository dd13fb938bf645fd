"""Process groups over MPI, through mpi4py: the ranks that `mpiexec` has started exchange the memory of their tensors.

Note [What travels]
    Tensors that only move are bytes to MPI, so every dtype can travel. Sums and their like are MPI's own for the types that it
    knows. It knows no 16-bit floats: each rank gets one part of all tensors, adds these in the order of the ranks, in float32,
    and rounds once; then the parts are gathered. Whoever wants the same bits on each run asks for that way for all types
    (``deterministic``): MPI may add in any order.

    A tensor is written where it lies if its elements are contiguous, else through a copy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import dtypes
from ferro.core.backend import is_host
from ferro.core.base import bump
from ferro.core.inplace import announce
from ferro.distributed.errors import DistBackendError
from ferro.distributed.process_group import ProcessGroup, ReduceOp

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
_OF_TWO: dict[ReduceOp, Callable] = {
    ReduceOp.SUM: np.add,
    ReduceOp.AVG: np.add,
    ReduceOp.PRODUCT: np.multiply,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
    ReduceOp.BAND: np.bitwise_and,
    ReduceOp.BOR: np.bitwise_or,
    ReduceOp.BXOR: np.bitwise_xor,
}


def world(backend: str, name: str, rank: int, size: int, deterministic: bool) -> MPIGroup:
    """The group of all ranks; RuntimeError without mpi4py, ValueError if MPI counts them otherwise."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(
            f"init_process_group: {size} processes need MPI: pip install ferro[mpi] ({str(error).splitlines()[0]})"
        ) from None
    communicator = MPI.COMM_WORLD
    if (rank, size) != (communicator.Get_rank(), communicator.Get_size()):
        raise ValueError(
            f"init_process_group: rank {rank} of {size} was asked for, but MPI says rank {communicator.Get_rank()} of "
            f"{communicator.Get_size()}. Start the script by mpiexec -n {size}, or python -m ferro.distributed.run"
        )
    if size > 1:
        _end_all_with_one(communicator)
    return MPIGroup(backend, name, communicator.Dup(), list(range(size)), deterministic)


def _end_all_with_one(communicator: Any) -> None:
    """A rank that ends by an error ends all: the others would wait for it for ever."""
    before = sys.excepthook
    if before.__module__ == __name__:  # (a second group of all ranks)
        return

    def hook(kind: Any, error: Any, trace: Any) -> None:
        before(kind, error, trace)
        sys.stderr.write(f"rank {communicator.Get_rank()} of {communicator.Get_size()} has failed; all ranks end\n")
        sys.stderr.flush()
        communicator.Abort(1)

    sys.excepthook = hook


class Pending:
    """An exchange that MPI has begun, and what is to be done when it has ended."""

    def __init__(self, request: Any, finish: Callable[[], None] | None = None) -> None:
        from mpi4py import MPI

        self._request, self._finish, self._status = request, finish, MPI.Status()

    def wait(self) -> None:
        """Waits for the end."""
        self._request.Wait(self._status)
        self._end()

    def done(self) -> bool:
        """Whether it has ended."""
        if not self._request.Test(self._status):
            return False
        self._end()
        return True

    def source(self) -> int:
        """The rank from which something was received."""
        return self._status.Get_source()

    def _end(self) -> None:
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()


class MPIGroup(ProcessGroup):
    """Some of the ranks, in an order of their own."""

    def __init__(self, backend: str, name: str, communicator: Any, ranks: Sequence[int], deterministic: bool) -> None:
        super().__init__(backend, name)
        self._mpi, self.ranks, self.deterministic = communicator, list(ranks), deterministic

    def rank(self) -> int:
        """The number of this process in the group."""
        return self._mpi.Get_rank()

    def size(self) -> int:
        """The number of processes."""
        return self._mpi.Get_size()

    def subgroup(self, backend: str, name: str, ranks: Sequence[int]) -> MPIGroup | None:
        """A group of some ranks of the default group, in their order; None for those that are not in it. All ranks must ask."""
        from mpi4py import MPI

        mine = self.rank()
        color = 0 if mine in ranks else MPI.UNDEFINED
        found = self._mpi.Split(color, ranks.index(mine) if mine in ranks else 0)
        return None if found == MPI.COMM_NULL else MPIGroup(backend, name, found, ranks, self.deterministic)

    def free(self) -> None:
        """Gives the group's communicator back."""
        self._mpi.Free()

    # -- what moves -----------------------------------------------------------------------------------------------------

    def broadcast(self, tensor: Tensor, root: int) -> Pending:
        """Sends the root's `tensor` to all."""
        self.check_root("broadcast", root)
        buffer, finish = _target("broadcast", tensor)
        return Pending(self._mpi.Ibcast(_bytes(buffer), root), finish)

    def gather(self, outputs: Sequence[Tensor], tensor: Tensor, root: int | None) -> Pending:
        """Writes the tensor of every rank into the outputs of the root, or (None) of everyone."""
        given = _source("gather", tensor)
        if root is not None:
            self.check_root("gather", root)
        found = np.empty((self.size(), *given.shape), given.dtype)
        if root is None:
            request = self._mpi.Iallgather(_bytes(given), _bytes(found))
        else:
            request = self._mpi.Igather(_bytes(given), _bytes(found) if root == self.rank() else None, root)
        here = root is None or root == self.rank()

        def finish() -> None:
            for output, part in zip(outputs, found, strict=True) if here else ():
                _write("gather", output, part)

        return Pending(request, _after(finish, given))

    def scatter(self, output: Tensor, tensors: Sequence[Tensor], root: int) -> Pending:
        """Writes one of the root's tensors into the output of each rank."""
        self.check_root("scatter", root)
        buffer, finish = _target("scatter", output)
        whole = np.stack([_source("scatter", t) for t in tensors]) if self.rank() == root else None
        request = self._mpi.Iscatter(None if whole is None else _bytes(whole), _bytes(buffer), root)
        return Pending(request, _after(finish, whole))

    def all_to_all(self, outputs: Sequence[Tensor], tensors: Sequence[Tensor]) -> Pending:
        """Writes the tensor that rank i has for rank j into output i of rank j."""
        from mpi4py import MPI

        given = [_source("all_to_all", t).reshape(-1).view(np.uint8) for t in tensors]
        sizes = [a.nbytes for a in given]
        wanted = [t._data.nbytes for t in outputs]
        sent, found = np.concatenate(given), np.empty(sum(wanted), np.uint8)
        request = self._mpi.Ialltoallv([sent, sizes, MPI.BYTE], [found, wanted, MPI.BYTE])

        def finish() -> None:
            start = 0
            for output, count in zip(outputs, wanted, strict=True):
                data = output._data
                _write("all_to_all", output, found[start : start + count].view(data.dtype).reshape(data.shape))
                start += count

        return Pending(request, _after(finish, sent))

    def send(self, tensor: Tensor, peer: int, tag: int) -> Pending:
        """Sends a tensor to a rank."""
        given = _source("send", tensor)
        return Pending(self._mpi.Isend(_bytes(given), peer, tag), _after(None, given))

    def receive(self, tensor: Tensor, peer: int | None, tag: int) -> Pending:
        """Receives a tensor from a rank, any if None."""
        from mpi4py import MPI

        buffer, finish = _target("recv", tensor)
        return Pending(self._mpi.Irecv(_bytes(buffer), MPI.ANY_SOURCE if peer is None else peer, tag), finish)

    def barrier(self) -> Pending:
        """Waits until all ranks are here."""
        return Pending(self._mpi.Ibarrier())

    def exchanged(self, data: bytes) -> list[bytes]:
        """The bytes of every rank."""
        return self._mpi.allgather(data)

    # -- what is added --------------------------------------------------------------------------------------------------

    def reduce(self, tensor: Tensor, op: ReduceOp, root: int | None) -> Pending | None:
        """Reduces the tensors of all ranks into the root's, or (None) into everyone's."""
        super().reduce(tensor, op, root)
        buffer, finish = _target("reduce", tensor)
        here = root is None or root == self.rank()
        if self.deterministic or buffer.dtype in dtypes.HALF:
            found = self._in_rank_order(buffer, op)
            if here:
                buffer[...] = found
                (finish or bool)()
            return None
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

        return Pending(request, end)

    def reduce_scatter(self, output: Tensor, inputs: Sequence[Tensor], op: ReduceOp) -> None:
        """Writes the sum over ranks of entry i of their inputs into the output of rank i: its parts in the order of the ranks."""
        super().reduce(output, op, None)
        parts = np.stack([_source("reduce_scatter", t) for t in inputs])
        found = np.empty_like(parts)
        self._mpi.Alltoall(_bytes(parts), _bytes(found))
        _write("reduce_scatter", output, _added(found, op))

    def _in_rank_order(self, buffer: np.ndarray, op: ReduceOp) -> np.ndarray:
        """The reduction of the arrays of all ranks, in the order of the ranks; see Note [What travels]."""
        count = -(-buffer.size // self.size())
        mine = np.zeros((self.size(), count), buffer.dtype)
        mine.reshape(-1)[: buffer.size] = buffer.reshape(-1)
        found, whole = np.empty_like(mine), np.empty_like(mine)
        self._mpi.Alltoall(_bytes(mine), _bytes(found))
        self._mpi.Allgather(_bytes(_added(found, op)), _bytes(whole))
        return whole.reshape(-1)[: buffer.size].reshape(buffer.shape)


def _added(parts: np.ndarray, op: ReduceOp) -> np.ndarray:
    """The reduction along the first dimension, from its beginning; of 16-bit floats in float32, rounded once."""
    wide = parts.astype(np.float32) if parts.dtype in dtypes.HALF else parts
    total = wide[0].copy()
    for part in wide[1:]:
        _OF_TWO[op](total, part, out=total)
    if op is ReduceOp.AVG:
        np.divide(total, len(parts), out=total)
    return np.ascontiguousarray(total.astype(parts.dtype, copy=False))


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


def _after(finish: Callable[[], None] | None, held: Any) -> Callable[[], None]:
    """`finish`, which holds what MPI reads until then."""

    def end() -> None:
        nonlocal held
        held = None
        if finish is not None:
            finish()

    return end


def _bytes(array: np.ndarray) -> Any:
    from mpi4py import MPI

    return [array.reshape(-1).view(np.uint8), MPI.BYTE]
