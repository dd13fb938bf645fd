"""Means of buckets on one machine: ranks write their gradients into memory that all of them see, and each adds them up.

Note [Means in shared memory]
    Between ranks of one machine an all-reduce of MPI's copies each number several times. Here a rank copies its bucket into its part of
    memory that all see, says so (a barrier that is not waited for), and when all have said so adds the parts of all, in the order of the ranks,
    into its own bucket: the bits are those of `GroupOptions(deterministic=True)`. At the end of a step a second barrier says that the parts
    may be written again. For few ranks, since each reads the parts of all.

    The memory is a file without a name that the first rank makes, and the others open while it has it: so nothing is left of it when the
    ranks end, however they do, and each gives it back by itself. Who does not find the first rank's bytes in it is on another machine. Ranks
    agree by exchanges that are watched as all are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ferro.core import shared_memory
from ferro.core.inplace import announce
from ferro.distributed.mpi import MPIGroup
from ferro.distributed.process_group import ProcessGroup

from .buckets import Bucket

MOST = 4  # ranks
BLOCK = 1 << 14  # numbers that are added at once, which stay in the processor's cache
_LINE = 64  # bytes of a line of the cache
_TOKEN = 16  # bytes by which ranks know the memory


class SharedMeans:
    """Memory with a part for each rank, and the place of each bucket in it."""

    def __init__(self, group: MPIGroup, memory: np.ndarray, buckets: Sequence[Bucket]) -> None:
        self.group = group
        self._free: Any = None
        self.parts: list[list[Any]] = []  # of each bucket: those of all ranks
        each = sum(map(_room, buckets))
        start = _LINE
        for bucket in buckets:
            count = (bucket.size + bucket.tail) * bucket.dtype.itemsize
            starts = [start + rank * each for rank in range(group.size())]
            self.parts.append([memory[at : at + count].view(bucket.dtype) for at in starts])
            start += _room(bucket)
        group.holders.add(self)

    def close(self) -> None:
        """Gives the memory back."""
        self.parts = []

    @classmethod
    def of(cls, group: ProcessGroup, buckets: Sequence[Bucket]) -> SharedMeans | None:
        """The memory, made by all ranks; None where it does not serve: other machines, many ranks, 16-bit gradients."""
        if not isinstance(group, MPIGroup) or not 1 < group.size() <= MOST or not buckets:
            return None
        if any(b.is_on_device or b.dtype not in (np.float32, np.float64) for b in buckets):
            return None
        memory = _shared(group, _LINE + group.size() * sum(map(_room, buckets)))
        return None if memory is None else cls(group, memory, buckets)

    def begin(self, bucket: Bucket) -> Mean:
        """Begins with the mean of what is in ``bucket.sent``."""
        if self._free is not None:
            self._free.wait()
            self._free = None
        np.copyto(self.parts[bucket.index][self.group.rank()], bucket.sent)
        return Mean(self, bucket)

    def end(self) -> None:
        """This rank has read all: see the note."""
        self._free = self.group.barrier()


class Mean:
    """One bucket of one step."""

    def __init__(self, means: SharedMeans, bucket: Bucket) -> None:
        self._target, self._parts = bucket.sent, means.parts[bucket.index]
        self._here: Any = means.group.barrier()  # (whose messages also see to it that what was written before is seen)

    def done(self) -> bool:
        """Whether all ranks have written their parts; then they are added."""
        if self._here is not None and self._here.done():
            self._add()
        return self._here is None

    def wait(self) -> None:
        """Waits for the parts of all, and adds them."""
        if self._here is not None:
            self._here.wait()
            self._add()

    def _add(self) -> None:
        self._here = None
        first, second, *others = self._parts
        announce(self._target)
        for start in range(0, self._target.size, BLOCK):
            here = slice(start, start + BLOCK)
            out = self._target[here]
            np.add(first[here], second[here], out=out)
            for part in others:
                np.add(out, part[here], out=out)
            np.divide(out, len(self._parts), out=out)


def _room(bucket: Bucket) -> int:
    """Bytes of a bucket, to the next line of the cache."""
    return -(-(bucket.size + bucket.tail) * bucket.dtype.itemsize // _LINE) * _LINE


def _shared(group: MPIGroup, size: int) -> Any:
    """So many bytes that all ranks see; None, on all of them, if one does not."""
    memory: Any = None
    offer: dict[str, Any] = {}
    if group.rank() == 0 and _are_near():
        memory, descriptor = shared_memory.offered(size)
        token = os.urandom(_TOKEN)
        memory[:_TOKEN] = np.frombuffer(token, np.uint8)
        offer = {"process": os.getpid(), "descriptor": descriptor, "token": token.hex()}
    told = json.loads(group.exchanged(json.dumps(offer).encode(), "memory for means")[0])
    if group.rank() > 0 and told and _are_near():
        try:
            memory = shared_memory.found(told["process"], told["descriptor"], size)
        except OSError:  # (on another machine, or of another user)
            memory = None
        if memory is not None and memory[:_TOKEN].tobytes().hex() != told["token"]:
            memory = None
    every = group.exchanged(b"" if memory is None else b"1", "memory for means")
    return memory if all(every) else None


def _are_near() -> bool:
    """Whether ranks of one machine may see each other's memory: not where MPI is told to take them for far ones, as bench/emulated.py does."""
    return Path("/proc/self/fd").is_dir() and os.environ.get("MPIR_CVAR_NOLOCAL", "0") in ("", "0")
