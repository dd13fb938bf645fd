"""NCCL through CuPy: one rank's end of a communicator, whose exchanges run in a stream of its own.

Note [NCCL through CuPy]
    CuPy has NCCL twice: the communicator of `cupy.cuda.nccl`, which is NCCL's own interface, and `cupyx.distributed.NCCLBackend`
    on top of it. ferro takes the first. The second passes the identifier among all processes of MPI or through a server with an
    address of its own, so that it has no groups of some ranks; it has neither bfloat16, truth values and means, nor parts of
    different sizes, nor the question for errors that came later, nor a way to end an exchange that hangs.

    What only moves is bytes to NCCL, so every dtype travels. What NCCL adds is listed in `_TYPES` and `_OPERATIONS`: complex
    numbers are pairs of floats, which can be added alone; a sum of truth values is their maximum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from ferro.cuda import driver, pool

PACKAGE = "pip install ferro[nccl], or ferro[nccl12] for drivers of CUDA 12"
# What NCCL computes with, by NumPy's names.
_TYPES = {
    "bool": "NCCL_UINT8",
    "int8": "NCCL_INT8",
    "uint8": "NCCL_UINT8",
    "int32": "NCCL_INT32",
    "uint32": "NCCL_UINT32",
    "int64": "NCCL_INT64",
    "uint64": "NCCL_UINT64",
    "float16": "NCCL_FLOAT16",
    "bfloat16": "NCCL_BFLOAT16",
    "float32": "NCCL_FLOAT32",
    "float64": "NCCL_FLOAT64",
    "complex64": "NCCL_FLOAT32",
    "complex128": "NCCL_FLOAT64",
}
_OPERATIONS = {"SUM": "NCCL_SUM", "AVG": "NCCL_AVG", "PRODUCT": "NCCL_PROD", "MIN": "NCCL_MIN", "MAX": "NCCL_MAX"}


def missing() -> str | None:
    """What is missing, in one sentence; None where there are a GPU and NCCL. This loads CuPy."""
    said = driver.missing()
    if said is not None:
        return said
    found = driver.module("cupy.cuda.nccl")
    if not found.available:
        return f"CuPy finds no NCCL: {PACKAGE}"
    return None if hasattr(found, "NCCL_AVG") else "CuPy is too old: its NCCL has no means and no bfloat16"


def adds(dtype: Any, operation: str) -> bool:
    """Whether NCCL reduces arrays of a dtype by an operation of that name."""
    if dtype.name not in _TYPES or operation not in _OPERATIONS:
        return False
    return operation in ("SUM", "AVG") if dtype.kind == "c" else dtype.kind != "b" or operation != "AVG"


def unique_id() -> bytes:
    """What the ranks of a new communicator must all have, made by one of them."""
    return driver.module("cupy.cuda.nccl").get_unique_id()


def place() -> str:
    """The GPU of this process, as its machine names it."""
    return str(driver.cupy().cuda.runtime.deviceGetPCIBusId(0))


class Communicator:
    """One rank of a communicator; making it waits for the other ranks. Arrays lie one element behind the other."""

    def __init__(self, size: int, name: bytes, rank: int) -> None:
        self._library = driver.module("cupy.cuda.nccl")
        self._nccl = self._library.NcclCommunicator(size, name, rank)
        self.stream = driver.cupy().cuda.Stream(non_blocking=True)

    @property
    def error(self) -> type[RuntimeError]:
        """The class of what is raised."""
        return self._library.NcclError

    @contextmanager
    def given(self, *events: Any) -> Iterator[None]:
        """A block whose work and memory are of the communicator's stream, which waits for events before."""
        cuda = driver.cupy().cuda
        for event in events:
            self.stream.wait_event(event)
        with self.stream, cuda.using_allocator(partial(pool.allocate, self.stream)):
            yield

    def check(self) -> None:
        """Raises what has gone wrong since, in an exchange that had begun."""
        self._nccl.check_async_error()

    def abort(self) -> None:
        """Ends it, and exchanges that hang."""
        self._nccl.abort()

    def destroy(self) -> None:
        """Gives it back; all that it was given must be done."""
        self._nccl.destroy()

    # -- what moves: bytes ----------------------------------------------------------------------------------------------

    def broadcast(self, array: Any, root: int) -> None:
        """Writes the array of a rank into that of all."""
        start = array.data.ptr
        self._nccl.broadcast(start, start, array.nbytes, self._library.NCCL_UINT8, root, self.stream.ptr)

    def all_gather(self, part: Any, whole: Any) -> None:
        """Writes the arrays of all ranks one behind the other."""
        self._nccl.allGather(part.data.ptr, whole.data.ptr, part.nbytes, self._library.NCCL_UINT8, self.stream.ptr)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Sends and receives of the block begin together, so that none of them waits for another."""
        self._library.groupStart()
        try:
            yield
        finally:
            self._library.groupEnd()

    def send(self, array: Any, rank: int) -> None:
        """Sends an array to a rank. Nothing is sent of an empty one."""
        if array.nbytes:
            self._nccl.send(array.data.ptr, array.nbytes, self._library.NCCL_UINT8, rank, self.stream.ptr)

    def receive(self, array: Any, rank: int) -> None:
        """Receives an array from a rank."""
        if array.nbytes:
            self._nccl.recv(array.data.ptr, array.nbytes, self._library.NCCL_UINT8, rank, self.stream.ptr)

    def all_to_all(self, given: Sequence[Any], found: Sequence[Any]) -> None:
        """Writes array j of rank i into array i of rank j."""
        with self.together():
            for rank, (sent, received) in enumerate(zip(given, found, strict=True)):
                self.send(sent, rank)
                self.receive(received, rank)

    # -- what is added --------------------------------------------------------------------------------------------------

    def _kind(self, array: Any, operation: str) -> tuple[int, int, int]:
        """How many numbers of which type, and the operation."""
        name = "MAX" if array.dtype.kind == "b" and operation == "SUM" else operation
        count = array.size * (2 if array.dtype.kind == "c" else 1)
        kind, way = _TYPES[array.dtype.name], _OPERATIONS[name]
        return count, getattr(self._library, kind), getattr(self._library, way)

    def reduce(self, array: Any, operation: str, root: int | None) -> None:
        """Reduces the arrays of all ranks into that of a rank, or (None) of all; see `adds`."""
        start, (count, kind, way) = array.data.ptr, self._kind(array, operation)
        if root is None:
            self._nccl.allReduce(start, start, count, kind, way, self.stream.ptr)
        else:
            self._nccl.reduce(start, start, count, kind, way, root, self.stream.ptr)

    def reduce_scatter(self, whole: Any, output: Any, operation: str) -> None:
        """Writes the reduction over ranks of part i of their arrays into the output of rank i."""
        count, kind, way = self._kind(output, operation)
        self._nccl.reduceScatter(whole.data.ptr, output.data.ptr, count, kind, way, self.stream.ptr)


def added(parts: Any, operation: str) -> Any:
    """The reduction along the first dimension, from its beginning; of 16-bit floats in float32, rounded once."""
    cupy = driver.cupy()
    of_two = {
        "SUM": cupy.add,
        "AVG": cupy.add,
        "PRODUCT": cupy.multiply,
        "MIN": cupy.minimum,
        "MAX": cupy.maximum,
        "BAND": cupy.bitwise_and,
        "BOR": cupy.bitwise_or,
        "BXOR": cupy.bitwise_xor,
    }[operation]
    is_half = parts.dtype.itemsize == 2 and parts.dtype.kind in "fV"
    wide = parts.astype(np.float32) if is_half else parts
    total = wide[0].copy()
    for part in wide[1:]:
        of_two(total, part, out=total)
    if operation == "AVG":
        cupy.true_divide(total, len(parts), out=total)
    return total.astype(parts.dtype) if is_half else total
