"""The mean of gradients over ranks, in buckets that travel while backward goes on.

Note [Buckets]
    Parameters lie in buckets in the reverse of their order, which is about that in which their gradients become ready. A
    hook behind each gradient notes that it is there; a bucket begins to travel when all its gradients are, and the buckets before it have begun:
    all ranks must begin them in one order. Where a parameter had no part in the loss, its bucket waits for the end of backward
    and takes the gradient that it has, or zeros; a second, small exchange says which parameters have a gradient on some rank, and the
    others keep none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.autograd.grad_mode import no_grad
from ferro.core.base import bump, wrap
from ferro.core.graph_task import queue_callback
from ferro.core.inplace import announce
from ferro.distributed.process_group import ProcessGroup, ReduceOp

MEGABYTE = 1 << 20


class Bucket:
    """Parameters of one dtype whose gradients travel together."""

    def __init__(self) -> None:
        self.parameters: list[Any] = []
        self.bytes = 0
        self.missing = 0
        self.flat: Any = None
        self.pending: Any = None

    def begin(self, group: ProcessGroup) -> None:
        """Begins to add the gradients of all ranks."""
        parts = [p._data * 0 if p.grad is None else p.grad._data for p in self.parameters]
        self.flat = wrap(np.concatenate([np.ascontiguousarray(a).reshape(-1) for a in parts]))
        self.pending = group.reduce(self.flat, ReduceOp.AVG, None)

    def end(self) -> None:
        """Waits, and writes the means."""
        if self.pending is not None:
            self.pending.wait()
        start, flat = 0, self.flat._data
        for p in self.parameters:
            part = flat[start : start + p._data.size].reshape(p._data.shape)
            start += p._data.size
            if p.grad is None:
                p.grad = wrap(part.copy())
            else:
                announce(p.grad._data)
                p.grad._data[...] = part
                bump(p.grad, "DistributedDataParallel")
        self.flat = self.pending = None


class Reducer:
    """Averages the gradients of parameters over the ranks of a group at the end of each backward."""

    def __init__(self, parameters: list[Any], group: ProcessGroup, megabytes: float, is_on: Callable[[], bool]) -> None:
        self.group, self._is_on = group, is_on  # (which is asked at each gradient)
        self.buckets = _in_buckets(parameters, megabytes)
        self._bucket_of = {id(p): bucket for bucket in self.buckets for p in bucket.parameters}
        self._next: int | None = None  # the bucket that begins next; None outside of backward
        self._handles = [p.register_post_accumulate_grad_hook(self._ready) for p in parameters]

    def _ready(self, parameter: Any) -> None:
        """A gradient is there."""
        if not self._is_on():
            return
        if parameter.grad.is_sparse:
            raise NotImplementedError("DistributedDataParallel: sparse gradients do not travel; use dense ones")
        if self._next is None:
            queue_callback(self._end)
            self._next, self._seen = 0, set[int]()
            for bucket in self.buckets:
                bucket.missing = len(bucket.parameters)
        if id(parameter) not in self._seen:
            self._seen.add(id(parameter))
            self._bucket_of[id(parameter)].missing -= 1
        while self._next < len(self.buckets) and not self.buckets[self._next].missing:
            self._begin_next()
        for bucket in self.buckets[: self._next]:  # (MPI goes on while it is called)
            if bucket.pending is not None:
                bucket.pending.done()

    def _begin_next(self) -> None:
        with no_grad():
            self.buckets[self._next].begin(self.group)  # type: ignore[index]
        self._next += 1  # type: ignore[operator]

    def _end(self) -> None:
        """The end of backward: what has not begun begins, and the means are written."""
        assert self._next is not None
        while self._next < len(self.buckets):
            self._begin_next()
        self._next = None
        every = [p for bucket in self.buckets for p in bucket.parameters]
        used = wrap(np.array([p.grad is not None for p in every], np.uint8))
        with no_grad():
            pending = self.group.reduce(used, ReduceOp.MAX, None)
            for bucket in self.buckets:
                bucket.end()
            if pending is not None:
                pending.wait()
        for p, had in zip(every, used._data.tolist(), strict=True):
            if not had:
                p.grad = None


def _in_buckets(parameters: list[Any], megabytes: float) -> list[Bucket]:
    """Buckets of at most so many megabytes, the first of at most one, which can begin early."""
    buckets: list[Bucket] = []
    most = min(megabytes, 1.0)
    for p in reversed(parameters):
        last = buckets[-1] if buckets else None
        if last is None or last.parameters[0].dtype is not p.dtype or last.bytes + p._data.nbytes > most * MEGABYTE:
            most = megabytes if buckets else most
            buckets.append(last := Bucket())
        last.parameters.append(p)
        last.bytes += p._data.nbytes
    return buckets
