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

import numpy as np

from ferro.core import dtypes

from .libraries import Backend, of_devices

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
    PREMUL_SUM = 8  # with a factor: `_make_nccl_premul_sum(factor)` of premultiplied.py


class ProcessGroup:
    """Ranks that exchange data: rank 0 of 1. `init_process_group` and `new_group` make it."""

    def __init__(self, backend: str, name: str) -> None:
        self._backend, self._name = Backend(backend), name
        self.group_desc = name
        self.libraries = of_devices(backend)  # by the kind of device
        self.ranks = [0]  # of its processes in the default group
        self.allow_pickle = False  # whether exchanges of objects may pickle them

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

    def library(self, *tensors: Tensor) -> str:
        """The library that moves these tensors; RuntimeError where there is none for their device, or where they have several."""
        kinds = {t.device.type for t in tensors}
        if len(kinds) > 1:
            raise RuntimeError(f"the tensors of one exchange are on several devices: {', '.join(sorted(kinds))}")
        found = self.libraries.get(kind := kinds.pop())
        if found is None:
            raise RuntimeError(
                f"No backend type associated with device type {kind}: group {self._name!r} has {str(self._backend)!r} alone"
            )
        return found

    def broadcast(self, tensor: Tensor, root: int) -> Any:
        """Sends the root's `tensor` to all: it has it."""
        self.library(tensor)
        self.check_root("broadcast", root)

    def reduce(self, tensor: Tensor, op: ReduceOp, root: int | None) -> Any:
        """Reduces the tensors of all ranks into the root's, or (None) into everyone's: one tensor is its own reduction."""
        self.library(tensor)
        if root is not None:
            self.check_root("reduce", root)
        self.check_reduction(tensor, op)

    def check_reduction(self, tensor: Tensor, op: ReduceOp) -> None:
        """RuntimeError or ValueError unless tensors of this dtype are reduced by this operation."""
        if tensor.dtype.is_complex and op in _REAL:
            raise ValueError(f"all_reduce does not support {op} on complex tensors")
        if op in _BITWISE and tensor.dtype.np in dtypes.INEXACT:
            raise RuntimeError(f"Cannot use {op} with non-integral dtype: got {tensor.dtype}")
        if op is ReduceOp.AVG and tensor.dtype.np not in dtypes.INEXACT:
            raise RuntimeError(
                f"result type Float can't be cast to the desired output type {tensor.dtype}: ReduceOp.AVG is for "
                "floating-point tensors"
            )

    def reduce_numbers(self, numbers: np.ndarray, op: ReduceOp) -> Any:
        """Reduces arrays of the processor into everyone's, whatever library moves tensors."""

    def reduce_scatter(self, output: Tensor, inputs: Sequence[Tensor], op: ReduceOp) -> Any:
        """Writes the sum over ranks of entry i of their inputs into the output of rank i."""
        self.reduce(inputs[0], op, None)
        output.copy_(inputs[0])

    def gather_memory(self, whole: np.ndarray, part: np.ndarray) -> Any:
        """Writes the contiguous memory of every rank into that of `whole`, one behind the other."""
        whole.reshape(-1)[...] = part.reshape(-1)

    def reduce_scatter_memory(self, output: np.ndarray, whole: np.ndarray, op: ReduceOp) -> Any:
        """Writes the sum over ranks of part i of their contiguous memory into the output of rank i."""
        output[...] = whole.reshape(output.shape)

    def twin(self) -> ProcessGroup:
        """A group of the same ranks whose exchanges have an order of their own; all of them must ask."""
        return self

    def begin_together(self) -> None:
        """Makes what is else made when a tensor of a GPU first travels; all ranks must ask."""

    def exchanged(self, data: bytes, name: str = "exchange of objects") -> list[bytes]:
        """The bytes of every rank."""
        return [data]

    def begin_held_back(self) -> None:
        """Begins sends and receives that were held back, where the library holds them back."""

    def free(self) -> None:
        """Gives back what the group holds."""

    def gather(self, outputs: Sequence[Tensor], tensor: Tensor, root: int | None) -> Any:
        """Writes the tensor of every rank into the outputs of the root, or (None) of everyone."""
        self.library(tensor, *outputs)
        if root is not None:
            self.check_root("gather", root)
        outputs[0].copy_(tensor)

    def scatter(self, output: Tensor, tensors: Sequence[Tensor], root: int) -> Any:
        """Writes one of the root's tensors into the output of each rank."""
        self.library(output, *tensors)
        self.check_root("scatter", root)
        output.copy_(tensors[0])

    def all_to_all(self, outputs: Sequence[Tensor], tensors: Sequence[Tensor]) -> Any:
        """Writes the tensor that rank i has for rank j into output i of rank j."""
        self.library(*outputs, *tensors)
        outputs[0].copy_(tensors[0])

    def barrier(self, name: str = "barrier") -> Any:
        """Waits until all ranks are here: this one is."""


_BITWISE = {ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR}
_REAL = {ReduceOp.MIN, ReduceOp.MAX, ReduceOp.PRODUCT, *_BITWISE}  # (PyTorch multiplies no complex numbers, either)


@dataclass(frozen=True)
class GroupOptions:
    """What `init_process_group` takes as `pg_options`; groups made of the default group have the same.

    - `deterministic` (bool, default False): sums are made in the order of the ranks, on each run alike
    - `allow_pickle` (bool, default False): exchanges of objects pickle what is no plain data; any rank can then make the others execute
      code. FERRO_DISTRIBUTED_PICKLE=1 in the environment does the same
    """

    deterministic: bool = False
    allow_pickle: bool = False
