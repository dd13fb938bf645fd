"""ProcessGroup: ranks that exchange data; here one process and itself.

It is the one place that knows how many processes there are.  Its methods from `broadcast` on move data; the functions of the other files
check arguments and call them. A group of several processes (mpi.py) replaces these methods and nothing else: what it has
begun and not ended it returns, with `wait` and `done`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ferro.core import dtypes

if TYPE_CHECKING:
    from ferro.tensor import Tensor


class ReduceOp(enum.Enum):
    """How the tensors of all ranks become one."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7


class Backend(str):
    """The name of a backend; "mpi", and "gloo", which means the same where there are several processes."""

    UNDEFINED, GLOO, NCCL, MPI = "undefined", "gloo", "nccl", "mpi"

    __slots__ = ()


class ProcessGroup:
    """Ranks that exchange data: rank 0 of 1. `init_process_group` and `new_group` make it."""

    def __init__(self, backend: str, name: str) -> None:
        self._backend, self._name = Backend(backend), name
        self.group_desc = name
        self.ranks = [0]  # of its processes in the default group

    def rank(self) -> int:
        """The number of this process in the group."""
        return 0

    def size(self) -> int:
        """The number of processes."""
        return 1

    def name(self) -> str:
        """The backend's name."""
        return str(self._backend)

    @property
    def group_name(self) -> str:
        """The group's name."""
        return self._name

    def check_root(self, name: str, rank: int) -> None:
        """RuntimeError unless the group has that rank."""
        if not 0 <= rank < self.size():
            count = f"{self.size()} process" + ("es" if self.size() > 1 else "")
            raise RuntimeError(f"ProcessGroup::{name}: invalid root rank: {rank}; this group has {count}")

    def broadcast(self, tensor: Tensor, root: int) -> Any:
        """Sends the root's `tensor` to all: it has it."""
        self.check_root("broadcast", root)

    def reduce(self, tensor: Tensor, op: ReduceOp, root: int | None) -> Any:
        """Reduces the tensors of all ranks into the root's, or (None) into everyone's: one tensor is its own reduction."""
        if root is not None:
            self.check_root("reduce", root)
        if tensor.dtype.is_complex and op in _REAL:
            raise ValueError(f"all_reduce does not support {op} on complex tensors")
        if op in _BITWISE and tensor.dtype.np in dtypes.INEXACT:
            raise RuntimeError(f"Cannot use {op} with non-integral dtype: got {tensor.dtype}")
        if op is ReduceOp.AVG and tensor.dtype.np not in dtypes.INEXACT:
            raise RuntimeError(
                f"result type Float can't be cast to the desired output type {tensor.dtype}: ReduceOp.AVG is for "
                "floating-point tensors"
            )

    def reduce_scatter(self, output: Tensor, inputs: Sequence[Tensor], op: ReduceOp) -> Any:
        """Writes the sum over ranks of entry i of their inputs into the output of rank i."""
        self.reduce(inputs[0], op, None)
        output.copy_(inputs[0])

    def exchanged(self, data: bytes) -> list[bytes]:
        """The bytes of every rank."""
        return [data]

    def free(self) -> None:
        """Gives back what the group holds."""

    def gather(self, outputs: Sequence[Tensor], tensor: Tensor, root: int | None) -> Any:
        """Writes the tensor of every rank into the outputs of the root, or (None) of everyone."""
        if root is not None:
            self.check_root("gather", root)
        outputs[0].copy_(tensor)

    def scatter(self, output: Tensor, tensors: Sequence[Tensor], root: int) -> Any:
        """Writes one of the root's tensors into the output of each rank."""
        self.check_root("scatter", root)
        output.copy_(tensors[0])

    def all_to_all(self, outputs: Sequence[Tensor], tensors: Sequence[Tensor]) -> Any:
        """Writes the tensor that rank i has for rank j into output i of rank j."""
        outputs[0].copy_(tensors[0])

    def barrier(self) -> Any:
        """Waits until all ranks are here: this one is."""


_BITWISE = {ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR}
_REAL = {ReduceOp.MIN, ReduceOp.MAX, ReduceOp.PRODUCT, *_BITWISE}  # (PyTorch multiplies no complex numbers, either)


@dataclass(frozen=True)
class GroupOptions:
    """What `init_process_group` takes as `pg_options`; `deterministic`: sums are made in the order of the ranks, on each run alike."""

    deterministic: bool = False
