"""Process groups whose tensors on GPUs travel by NCCL, and those of the processor, where the group has a library for them, by MPI.

Note [Groups on NCCL]
    The ranks are those of MPI, which also carries what is not a tensor of a GPU: the identifiers of communicators, objects, the
    comparison before exchanges, and the answers of ranks that are waited for (control.py). A group has three communicators of NCCL, each
    with a stream: one for what all ranks do, and two for sends and receives, so that they do not wait for each other. They
    are made with the group, or where no library was named when a tensor of a GPU first travels.

    An exchange waits for the current stream, and `wait` lets the current stream wait for it. Tensors whose elements are not contiguous, and lists
    whose tensors do not lie one behind the other, travel through copies, which are made in the communicator's stream.

Note [Sums in order on a GPU]
    What NCCL does not add (int16, bits, ``deterministic``: the order of the ranks) is done in three steps: each rank gets one part of
    all tensors, adds these in the order of the ranks, of 16-bit floats in float32, and the parts are gathered.

Note [Sends and receives]
    A send of NCCL may keep its stream, and what comes behind it in its communicator, until the other rank receives. So those that a rank
    begins are held back until it waits for one, or begins another exchange in any group, and then begin together; and what goes to higher
    ranks has another communicator than what goes to lower ones. So two ranks may both send first, and so may all ranks of a ring.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core.base import bump
from ferro.core.inplace import announce
from ferro.core.provenance import caller
from ferro.cuda import communicators, driver, pool
from ferro.distributed.control import Begun, words
from ferro.distributed.device_pending import DevicePending
from ferro.distributed.errors import DistBackendError
from ferro.distributed.held_back import HeldBack
from ferro.distributed.mpi import MPIGroup
from ferro.distributed.nccl_joining import joined
from ferro.distributed.process_group import ReduceOp

if TYPE_CHECKING:
    from ferro.tensor import Tensor


class NcclGroup(MPIGroup):
    """Some of the ranks; see Note [Groups on NCCL]."""

    _all: communicators.Communicator | None = None  # for exchanges of all ranks
    _pairs: HeldBack | None = None  # for those of two
    _sends = True  # whether it has those

    def join(self) -> communicators.Communicator:
        """The communicator of all ranks, which make it together: DistBackendError where they cannot."""
        if self._all is None:
            count = 3 if self._sends else 1
            self._all, *ways = joined(
                self, count, lambda data: self.exchanged(data, "creation of NCCL's communicators")
            )
            self._pairs = HeldBack(self, ways) if ways else None
        return self._all

    def begin_together(self) -> None:
        """Makes the communicators."""
        self.join()

    def twin(self) -> NcclGroup:
        """A group of the same ranks, for exchanges of all of them; it has one communicator."""
        made = super().twin()
        assert isinstance(made, NcclGroup)
        made._sends = False
        return made

    def free(self) -> None:
        """Gives the communicators back, when they have done what they were given."""
        if self._all is not None:
            for communicator in (*(self._pairs.ended() if self._pairs is not None else ()), self._all):
                begun = (self._key, "destroy_process_group", None, caller(2))
                DevicePending(self, begun, communicator, communicator.stream.record(), True).wait()
                communicator.destroy()
            self._all = self._pairs = None
        super().free()

    def _exchange(
        self,
        begun: Begun,
        arrays: Sequence[Any],
        written: Sequence[Tensor],
        work: Callable[[communicators.Communicator], None],
        on_host: bool = False,
        until_waited: bool = False,
    ) -> DevicePending:
        """Gives work to the communicator's stream; `arrays` are held until it is done, `written` counts as changed.

        `until_waited`: arrays of the current stream are held until it waits; then the pool knows that they may be used again.
        """
        communicator = self.join()
        for tensor in written:
            announce(tensor._data)
        with communicator.given(driver.cupy().cuda.get_current_stream().record()):
            try:
                work(communicator)
            except communicator.error as error:
                raise DistBackendError(f"{words(begun)}, {self.title()}: NCCL says: {error}") from None
            end = communicator.stream.record()
        if not until_waited:
            pool.keep_until(end, [*arrays, *[t._data for t in written]])
        for tensor in written:
            bump(tensor, begun[1])
        return DevicePending(self, begun, communicator, end, on_host, held=arrays if until_waited else ())

    # -- what moves -----------------------------------------------------------------------------------------------------

    def broadcast(self, tensor: Tensor, root: int) -> Any:
        """Sends the root's `tensor` to all."""
        if self.library(tensor) != "nccl":
            return super().broadcast(tensor, root)
        self.check_root("broadcast", root)
        data = tensor._data

        def work(communicator: communicators.Communicator) -> None:
            buffer = _contiguous(data)
            communicator.broadcast(buffer, root)
            if buffer is not data:
                data[...] = buffer

        return self._exchange(self._begin("broadcast", tensor, root), [], [tensor], work)

    def gather(self, outputs: Sequence[Tensor], tensor: Tensor, root: int | None) -> Any:
        """Writes the tensor of every rank into the outputs of the root, or (None) of everyone."""
        if self.library(tensor, *outputs) != "nccl":
            return super().gather(outputs, tensor, root)
        if root is not None:
            self.check_root("gather", root)
        here, given = root is None or root == self.rank(), tensor._data
        targets = [t._data for t in outputs] if here else []
        begun = self._begin("all_gather" if root is None else "gather", tensor, root)

        def work(communicator: communicators.Communicator) -> None:
            part, whole = _contiguous(given), _joined(targets) if here else None
            if root is None:
                communicator.all_gather(part, whole)
            else:
                with communicator.together():
                    communicator.send(part, root)
                    for rank in range(self.size() if here else 0):
                        communicator.receive(whole[rank], rank)
            _spread(whole, targets)

        return self._exchange(begun, [given], outputs if here else [], work)

    def scatter(self, output: Tensor, tensors: Sequence[Tensor], root: int) -> Any:
        """Writes one of the root's tensors into the output of each rank."""
        given = tensors if self.rank() == root else []
        if self.library(output, *given) != "nccl":
            return super().scatter(output, tensors, root)
        self.check_root("scatter", root)
        target, sources = output._data, [t._data for t in given]

        def work(communicator: communicators.Communicator) -> None:
            parts = [_contiguous(data) for data in sources]
            found = _contiguous(target)
            with communicator.together():
                for rank, part in enumerate(parts):
                    communicator.send(part, rank)
                communicator.receive(found, root)
            if found is not target:
                target[...] = found

        return self._exchange(self._begin("scatter", output, root), sources, [output], work)

    def all_to_all(self, outputs: Sequence[Tensor], tensors: Sequence[Tensor]) -> Any:
        """Writes the tensor that rank i has for rank j into output i of rank j."""
        if self.library(*outputs, *tensors) != "nccl":
            return super().all_to_all(outputs, tensors)
        sources, targets = [t._data for t in tensors], [t._data for t in outputs]
        sizes = [a.nbytes for a in sources], [a.nbytes for a in targets]
        begun = self._begin("all_to_all", tensors[0].dtype, parts=sizes)

        def work(communicator: communicators.Communicator) -> None:
            given, found = [_contiguous(a) for a in sources], [_contiguous(a) for a in targets]
            communicator.all_to_all(given, found)
            for target, part in zip(targets, found, strict=True):
                if part is not target:
                    target[...] = part

        return self._exchange(begun, sources, outputs, work)

    def send(self, tensor: Tensor, peer: int, tag: int) -> Any:
        """Sends a tensor to a rank; a tag has no effect."""
        if self.library(tensor) != "nccl":
            return super().send(tensor, peer, tag)
        return self._between().send(self._to("send to", peer), tensor, peer)

    def receive(self, tensor: Tensor, peer: int | None, tag: int) -> Any:
        """Receives a tensor from a rank; RuntimeError unless one is named."""
        if self.library(tensor) != "nccl":
            return super().receive(tensor, peer, tag)
        if peer is None:
            raise RuntimeError("recv: Backend nccl does not support recvAnysource: the rank must be named")
        return self._between().receive(self._to("recv from", peer), tensor, peer)

    def _between(self) -> HeldBack:
        self.join()
        assert self._pairs is not None
        return self._pairs

    def begin_held_back(self) -> None:
        """Begins sends and receives that were held back."""
        self.control.release()

    def barrier(self, name: str = "barrier") -> Any:
        """Waits until all ranks are here, and their GPUs have done what they were given before."""
        if "cpu" in self.libraries or name != "barrier":
            return super().barrier(name)
        begun = self._begin(name)
        one = driver.cupy().zeros(1, np.float32)
        return self._exchange(begun, [one], [], lambda communicator: communicator.reduce(one, "SUM", None), True)

    # -- what is added --------------------------------------------------------------------------------------------------

    def _in_order(self, data: Any, op: ReduceOp) -> bool:
        """Whether a sum is made as Note [Sums in order on a GPU] says."""
        is_inexact = data.dtype.kind in "fcV"
        return (self.deterministic and is_inexact) or not communicators.adds(data.dtype, op.name)

    def _check_op(self, tensor: Tensor, op: ReduceOp, root: int | None) -> None:
        if op is not ReduceOp.AVG or not communicators.adds(tensor._data.dtype, "AVG"):  # (NCCL has means of integers)
            self.check_reduction(tensor, op)
        if root is not None:
            self.check_root("reduce", root)

    def reduce(self, tensor: Tensor, op: ReduceOp, root: int | None) -> Any:
        """Reduces the tensors of all ranks into the root's, or (None) into everyone's."""
        if self.library(tensor) != "nccl":
            return super().reduce(tensor, op, root)
        self._check_op(tensor, op, root)
        here, data = root is None or root == self.rank(), tensor._data

        def work(communicator: communicators.Communicator) -> None:
            buffer = _contiguous(data)
            if self._in_order(data, op):
                buffer = _added_in_order(communicator, buffer, op, self.size())
            else:
                communicator.reduce(buffer, op.name, root)
            if buffer is not data and here:
                data[...] = buffer

        begun = self._begin("all_reduce" if root is None else "reduce", tensor, op, root)
        return self._exchange(begun, [data], [tensor] if here else [], work)

    def reduce_scatter(self, output: Tensor, inputs: Sequence[Tensor], op: ReduceOp) -> Any:
        """Writes the sum over ranks of entry i of their inputs into the output of rank i."""
        if self.library(output, *inputs) != "nccl":
            return super().reduce_scatter(output, inputs, op)
        self._check_op(output, op, None)
        sources = [t._data for t in inputs]
        begun = self._begin("reduce_scatter", output, op)
        return self._exchange(begun, sources, [output], self._scattered(output._data, sources, op))

    def _scattered(self, target: Any, sources: list[Any], op: ReduceOp) -> Callable[[communicators.Communicator], None]:
        def work(communicator: communicators.Communicator) -> None:
            whole = _filled(sources)
            if self._in_order(target, op):
                found = driver.cupy().empty(whole.shape, whole.dtype)
                communicator.all_to_all(list(whole), list(found))
                target[...] = communicators.added(found, op.name)
                return
            found = _contiguous(target)
            communicator.reduce_scatter(whole, found, op.name)
            if found is not target:
                target[...] = found

        return work

    # -- memory ---------------------------------------------------------------------------------------------------------

    def gather_memory(self, whole: Any, part: Any) -> Any:
        """Writes the contiguous memory of every rank into that of `whole`, one behind the other."""
        if type(part) is np.ndarray:
            return super().gather_memory(whole, part)
        begun = self._begin("all_gather", part)

        def work(communicator: communicators.Communicator) -> None:
            communicator.all_gather(part, whole)

        return self._exchange(begun, [whole, part], [], work, until_waited=True)

    def reduce_scatter_memory(self, output: Any, whole: Any, op: ReduceOp) -> Any:
        """Writes the sum over ranks, in their order if the group is deterministic, of part i of their memory into the output of rank i."""
        if type(output) is np.ndarray:
            return super().reduce_scatter_memory(output, whole, op)
        parts = list(whole.reshape(self.size(), *output.shape))
        begun = self._begin("reduce_scatter", output, op)
        return self._exchange(begun, [output, whole], [], self._scattered(output, parts, op), until_waited=True)


# -- arrays, in the communicator's stream -------------------------------------------------------------------------------


def _contiguous(array: Any) -> Any:
    """The array itself, or a copy with its elements one behind the other."""
    return array if array.flags.c_contiguous else driver.cupy().ascontiguousarray(array)


def _joined(arrays: Sequence[Any]) -> Any:
    """Memory for arrays of one shape one behind the other: that of the arrays, if they lie so, else new memory."""
    first = arrays[0]
    size, shape = first.nbytes, (len(arrays), *first.shape)
    if all(a.flags.c_contiguous and a.data.ptr == first.data.ptr + i * size for i, a in enumerate(arrays)) and size:
        return driver.cupy().ndarray(shape, first.dtype, first.data)
    return driver.cupy().empty(shape, first.dtype)


def _filled(arrays: Sequence[Any]) -> Any:
    """The same, with the numbers of the arrays."""
    whole = _joined(arrays)
    for part, array in zip(whole, arrays, strict=True):
        if part.data.ptr != array.data.ptr:
            part[...] = array
    return whole


def _spread(whole: Any, targets: Sequence[Any]) -> None:
    """Writes the parts of `_joined` into the arrays, where they are not those."""
    for part, target in zip(whole if targets else (), targets, strict=True):
        if part.data.ptr != target.data.ptr:
            target[...] = part


def _added_in_order(communicator: communicators.Communicator, array: Any, op: ReduceOp, size: int) -> Any:
    """The reduction of the arrays of all ranks, in the order of the ranks."""
    cupy = driver.cupy()
    count = -(-array.size // size)
    mine = cupy.zeros((size, count), array.dtype)
    mine.reshape(-1)[: array.size] = array.reshape(-1)
    found = cupy.empty(mine.shape, mine.dtype)
    communicator.all_to_all(list(mine), list(found))
    communicator.all_gather(communicators.added(found, op.name), mine)
    return mine.reshape(-1)[: array.size].reshape(array.shape)
