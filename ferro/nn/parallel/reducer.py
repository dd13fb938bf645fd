"""The mean of gradients over ranks, in buckets that travel while backward goes on.

Note [Buckets]
    Parameters lie in buckets, at first in the reverse of their order; the first backward learns the order in which gradients
    become ready on rank 0, and buckets are made anew in that order for all ranks. A hook behind each gradient puts it into its
    place; a bucket begins to travel when all its gradients are there and the buckets before it have begun: all ranks must begin them in one
    order. Where a parameter had no part in the loss, its bucket waits for the end of backward, and takes the gradient that it has, or zeros.
    Behind the last bucket travels, for each parameter, whether it has a gradient, and whether the backward of a rank has raised.
    Where no rank has a gradient it stays None. Gradients on a GPU are reduced in the stream of the group's communicator, for which the
    stream of backward waits at its end; the processor waits for no GPU, since what else is told goes by MPI.

Note [All ranks take part]
    A backward is known from the gradient of the model's output (or the first of a parameter), so that a rank whose loss reaches no
    parameter takes part with zeros. If a backward raises, this rank sends zeros in place of what is missing, and says
    so: then all raise when their backwards end, and a program that goes on from the error goes on everywhere.

Note [Backwards inside of another]
    A checkpoint runs a backward inside of the one that goes on: a parameter may be ready more than once. So its bucket waits for the end
    of the outermost backward, unless ``static_graph`` has counted in the first one how often each is ready.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import numpy as np

from ferro.autograd.grad_mode import no_grad
from ferro.core.backend import is_host
from ferro.core.base import wrap
from ferro.core.graph_task import current_run, outermost
from ferro.distributed.errors import DistError
from ferro.distributed.process_group import ProcessGroup, ReduceOp
from ferro.distributed.seen import note

from .agreement import check_alike, first_order, told_errors
from .buckets import Bucket, arranged
from .communication import Communication
from .shared_means import SharedMeans
from .sparse_gradients import travelled


class Options:
    """How gradients travel: `megabytes` of a bucket (None: see `caps`), what DistributedDataParallel was given, and the dtype.

    `dtype_of` gives that of a parameter's gradient, None for its own.
    """

    def __init__(
        self, megabytes: float | None, is_fixed: bool, static_graph: bool, dtype_of: Callable[[Any], Any] | None = None
    ) -> None:
        self.megabytes, self.is_fixed, self.static_graph = megabytes, is_fixed, static_graph
        self._dtype_of = dtype_of

    def dtype_of(self, parameter: Any) -> Any:
        """The dtype in which the gradient of a parameter travels."""
        return (None if self._dtype_of is None else self._dtype_of(parameter)) or parameter.dtype

    def caps(self, whole: int) -> tuple[float, float]:
        """Megabytes of the first bucket, and of the others, for so many bytes of gradients.

        Where nothing is asked for, buckets are a quarter of all, so that most of them travel within backward.
        """
        if self.megabytes is not None:
            return min(self.megabytes, 1.0), self.megabytes
        most = min(25.0, max(whole / 4 / (1 << 20), 0.0625))
        return min(most, 1.0), most


class Reducer:
    """Averages the gradients of parameters over the ranks of a group at the end of each backward."""

    def __init__(
        self,
        named: list[tuple[str, Any]],
        sparse: set[int],
        group: ProcessGroup,
        options: Options,
        is_on: Callable[[], bool],
    ) -> None:
        self.group, self.options, self._is_on = group, options, is_on  # (the last is asked at each gradient)
        check_alike(group, named, options.dtype_of)
        self.names = {id(p): name for name, p in named}
        self.parameters = [p for _, p in named]
        self.sparse = [p for p in self.parameters if id(p) in sparse]
        self.hook: Callable[[Any], Any] | None = None  # (of a GradBucket: what communicates in place of the mean)
        self.ranks: Callable[[], float] | None = None  # (how many take part, in a `join`)
        self.communication = Communication(group.size())
        self._lock = threading.RLock()
        self._shared: SharedMeans | None = None  # (from the second backward on, where all ranks are on one machine)
        self._order: list[int] | None = []  # ids as they become ready, while they are learned
        self._times: dict[int, int] | None = None  # how often each is ready (static_graph, after the first backward)
        self._arrange([p for p in reversed(self.parameters) if id(p) not in sparse])
        self._next: int | None = None  # the bucket that begins next; None outside of backward
        self._run: Any = None
        self._ready_times: dict[int, int] = {}
        self._kept: dict[int, int] = {}
        self._idle: list[set[int]] = []  # what no output of each forward since the last backward leads to
        self._passed: set[int] = set()  # of these, and of what the first backward did not reach: in this backward
        self._absent: set[int] = set()
        self._handles = [p.register_post_accumulate_grad_hook(self._ready) for p in self.parameters]

    def _arrange(self, parameters: list[Any]) -> None:
        """Puts parameters, in the order in which their gradients become ready, into buckets."""
        whole = sum(p._data.nbytes for p in parameters)
        tail = len(self.parameters) + 1 if all(is_host(p._data) for p in parameters) else 0  # (see `_ended`)
        caps, options = self.options.caps(whole), self.options
        self.buckets, self._place = arranged(parameters, *caps, tail, options.is_fixed, options.dtype_of)
        self.communication.begin([b.bytes for b in self.buckets])

    # -- while backward goes on ----------------------------------------------------------------------------------------

    def forward_begins(self) -> None:
        """Notes which gradients are there; see Note [Gradients lie in buckets]."""
        self._kept = {id(p): id(p.grad) for p in self.parameters if p.grad is not None}

    def forward_ends(self, unused: set[int] | None) -> None:
        """Notes the ids of parameters that will get no gradient (None: not known): their buckets need not wait for them."""
        self._idle.append(set() if unused is None else unused)

    def backward_begins(self) -> None:
        """The gradient of the model's output is there, or the first of a parameter."""
        with self._lock:
            run: Any = outermost()
            if (self._next is not None and self._run is run) or not self._is_on():
                return
            run.callbacks.append(self._end)
            run.failures.append(self._fail)
            self._begin(run)
            self._begin_ready()

    def _begin(self, run: Any) -> None:
        self._next, self._run, self._ready_times = 0, run, {}
        for bucket in self.buckets:
            bucket.close()
        idle = self._absent if self._times is not None else set.intersection(*self._idle) if self._idle else set()
        self._idle = []
        self._passed = idle & self._place.keys()
        for key in self._passed:
            self._place[key][0].missing -= 1

    def _ready(self, parameter: Any) -> None:
        """A gradient is there."""
        if not self._is_on():
            return
        with self._lock:
            self.backward_begins()
            key = id(parameter)
            if self._order is not None:
                self._order.append(key)
            if key not in self._place:
                return
            if parameter.grad.is_sparse:
                raise RuntimeError(
                    f"DistributedDataParallel: the gradient of {self.names[key]} is sparse; only those of nn.Embedding and "
                    "nn.EmbeddingBag with sparse=True may be"
                )
            self._put(parameter, key)
            self._begin_ready()
            self._progress()

    def _progress(self) -> None:
        """MPI goes on while it is called: asks for the first bucket that travels."""
        for bucket in self.buckets[: self._next]:
            if bucket.pending is not None and not bucket.ended:
                if bucket.pending.done():
                    bucket.note_end()
                return

    def _put(self, parameter: Any, key: int) -> None:
        """Puts a gradient into its bucket, and counts it."""
        bucket, i = self._place[key]
        if bucket.begun:
            raise RuntimeError(
                f"DistributedDataParallel: the gradient of {self.names[key]} became ready once more when it had begun to "
                "travel: its layer runs both in a checkpoint and outside of it, or no output of the model had led to it. "
                "static_graph=True waits for as many gradients as there were in the first backward"
            )
        run: Any = current_run()
        seen = self._ready_times[key] = self._ready_times.get(key, 0) + 1
        bucket.put(i, run.record, self._kept.get(key))
        if seen == (1 if self._times is None else self._times.get(key, 1)) and key not in self._passed:
            bucket.missing -= 1
        if self._times is None and (self.options.static_graph or run.outer is not None):
            bucket.is_late = True

    def _begin_ready(self) -> None:
        """Begins the buckets whose gradients are all there."""
        while self._next is not None and self._next < len(self.buckets):
            bucket = self.buckets[self._next]
            if bucket.missing > 0 or bucket.is_late:
                return
            self._next += 1
            self._send(bucket, False, False)

    def _send(self, bucket: Bucket, failed: bool, joined: bool) -> None:
        """Begins to add the gradients of all ranks in a bucket; zeros of one that has `failed` or `joined`."""
        with no_grad():
            if failed or joined:
                bucket.clear()
            else:
                bucket.fill()
            if bucket.tail:
                bucket.sent[bucket.size :] = self._flags(failed, joined)
            bucket.begun = perf_counter_ns()
            if self.hook is not None:
                bucket.pending = self.hook(bucket)
                return
            if self._shared is not None:
                bucket.pending = self._shared.begin(bucket)
            else:
                bucket.pending = self.group.reduce(wrap(bucket.sent), ReduceOp.AVG, None)
            if bucket.pending is None:
                bucket.note_end()

    def _flags(self, failed: bool, joined: bool) -> list[float]:
        """Which parameters have a gradient, in the order of the buckets; and whether this backward has raised."""
        ordered = [p for b in self.buckets for p in b.parameters]
        found = [float(not joined and p.grad is not None) for p in (*ordered, *self.sparse)]
        return [*found, float(failed)]

    # -- its end -------------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """The end of backward: what has not begun begins, and the means are written."""
        self._finish(None, False)

    def _fail(self, error: Exception) -> None:
        """Backward has raised: the others are told, unless it is because they cannot be reached."""
        if self._next is not None and not isinstance(error, DistError):
            self._finish(error, False)
        self._next = self._run = None

    def shadow(self) -> None:
        """Takes part in a backward of the others with zeros."""
        self._begin(None)
        self._finish(None, True)

    def _finish(self, error: Exception | None, joined: bool) -> None:
        over = perf_counter_ns()
        rest, self._next, self._run = self.buckets[self._next :], None, None
        with no_grad():
            for bucket in rest:
                self._send(bucket, error is not None, joined)
            flags = self._ended(error is not None, joined)
            if flags[-1]:
                told = told_errors(self.group, error)
                if error is None:
                    raise RuntimeError(told)
                return
            start = 0
            for bucket in self.buckets if not joined else ():
                bucket.give(flags[start : start + len(bucket.parameters)])
                start += len(bucket.parameters)
            for p in self.sparse:
                travelled(self.group, p, joined, self._ranks())
        self.communication.step(self.buckets, over)
        for bucket in self.buckets:
            note(f"distributed::all_reduce of bucket {bucket.index}", bucket.begun, bucket.ended)
        for bucket in self.buckets:
            bucket.close()
        self._learn()

    def _ranks(self) -> float:
        return self.group.size() if self.ranks is None else self.ranks()

    def _ended(self, failed: bool, joined: bool) -> list[float]:
        """Waits for all buckets; returns the flags of all ranks, each 0 where no rank has set it."""
        for bucket in self.buckets:
            if bucket.pending is not None:
                bucket.pending.wait()
            bucket.note_end()
            if self.ranks is not None and self.hook is None:
                bucket.sent[: bucket.size] *= self.group.size() / self._ranks()
        if self._shared is not None and self.hook is None:
            self._shared.end()
        if self.buckets and self.buckets[-1].tail and self.hook is None:
            last = self.buckets[-1]
            return last.sent[last.size :].real.astype(np.float32).tolist()
        told = np.array(
            self._flags(failed, joined), np.uint8
        )  # (a small exchange of its own, by which no GPU is waited for)
        pending = self.group.reduce_numbers(told, ReduceOp.MAX)
        if pending is not None:
            pending.wait()
        return told.tolist()

    def _learn(self) -> None:
        """After the first backward: the order of rank 0's gradients, and with static_graph how often each is ready."""
        if self._order is None:
            return
        order, self._order = self._order, None
        if self.options.static_graph:
            self._times = self._ready_times
            self._absent = {id(p) for p in self.parameters} - self._times.keys()
        numbers = {id(p): i for i, p in enumerate(self.parameters)}
        dense = first_order(self.group, [numbers[key] for key in order], [numbers[key] for key in self._place])
        self._arrange([self.parameters[i] for i in dense])
        self._shared = SharedMeans.of(self.group, self.buckets)
