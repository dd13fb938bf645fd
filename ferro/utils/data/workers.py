"""Worker threads: each fetches the batches that it is handed, in order, ahead of the loop that uses them."""

from __future__ import annotations

import os
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from types import MethodType
from typing import Any, NamedTuple

from ferro.core.random import set_own

from .dataset import Dataset
from .fetch import ExhaustedError

_local = threading.local()
# How long closing waits for a worker that is still in the middle of a sample; it ends by itself after that sample.
PATIENCE = 5.0


class WorkerInfo(NamedTuple):
    """What a worker of a DataLoader can know about itself, from `get_worker_info()`.

    - `id` (int): the worker's number
    - `num_workers` (int): how many there are
    - `seed` (int): the base seed of the loader plus the worker's number, and the seed of the worker's random numbers
    - `dataset` (Dataset): the worker's own copy: what `worker_init_fn` sets there, no other worker sees

    Example::

        >>> import ferro
        >>> from ferro.utils.data import get_worker_info
        >>> get_worker_info() is None  # outside of workers
        True
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


def get_worker_info() -> WorkerInfo | None:
    """In a worker of a DataLoader, its number and seed; elsewhere None."""
    return getattr(_local, "info", None)


class Failure(NamedTuple):
    """Instead of a batch: what fetching it raised, and in which worker."""

    kind: type[BaseException]
    story: str
    worker: int
    error: BaseException | None  # the error itself, if it is of this process

    @classmethod
    def of(cls, error: BaseException, worker: int) -> Failure:
        """An error that was just caught."""
        return cls(type(error), "".join(traceback.format_exception(error)), worker, error)

    def __reduce__(self) -> Any:
        return _sent, (_kind(self.kind), self.story, self.worker)

    def reraised(self) -> BaseException:
        """What is raised where the batch is asked for: an error of the same class, as PyTorch's of a worker process.

        Its message goes on with the traceback in the worker; the cause of one from a thread is the error itself, with all its
        attributes.
        """
        if self.error is not None and not isinstance(self.error, Exception):
            return self.error
        kind = self.kind if issubclass(self.kind, Exception) else RuntimeError
        message = f"Caught {self.kind.__name__} in DataLoader worker process {self.worker}.\nOriginal {self.story}"
        try:
            raised = kind(_Lines(message) if issubclass(kind, KeyError) else message)
        except Exception:  # noqa: BLE001 - the class wants other arguments, and says so as it likes
            raised = RuntimeError(message)
        raised.__cause__ = self.error
        return raised


def _kind(kind: type[BaseException]) -> type[BaseException]:
    """A class of errors that another process finds: this one, or the nearest above it."""
    for known in kind.__mro__:
        module = sys.modules.get(known.__module__)
        if getattr(module, known.__qualname__, None) is known:
            return known
    return RuntimeError


def _sent(kind: type[BaseException], story: str, worker: int) -> Failure:
    return Failure(kind, story, worker, None)


class _Lines(str):
    """The message of a KeyError, which shows the repr of its argument: here the lines themselves."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class End:
    """Instead of a batch: the worker's stream is exhausted."""


class _Shared:
    """What the workers watch. They hold this and not the pool, so that a pool nobody uses is collected and closed."""

    def __init__(self) -> None:
        self.epoch = 0
        self.closed = False


class WorkerPool:
    """The worker threads of a loader and the queues to and from them; closed when it is collected, at the latest."""

    def __init__(
        self, dataset: Any, num_workers: int, seed: int, make_fetcher: Callable[..., Any], collate_fn: Any, init_fn: Any
    ) -> None:
        self.results: SimpleQueue[Any] = SimpleQueue()
        self.tasks: list[SimpleQueue[Any]] = [SimpleQueue() for _ in range(num_workers)]
        self.shared = _Shared()
        self.process = os.getpid()
        self.workers: list[threading.Thread] = []
        for i, tasks in enumerate(self.tasks):
            copies: dict[int, Any] = {}
            info = WorkerInfo(i, num_workers, seed + i, own(dataset, copies))
            make = partial(make_fetcher, info.dataset, own(collate_fn, copies))
            arguments = self.shared, tasks, self.results, info, make, own(init_fn, copies)
            thread = threading.Thread(target=_work, args=arguments, name=f"DataLoader worker {i}", daemon=True)
            self.workers.append(thread)
        self.close = weakref.finalize(self, _close, self.shared, self.tasks, self.workers)
        for thread in self.workers:
            thread.start()

    @property
    def epoch(self) -> int:
        """The epoch that was begun last."""
        return self.shared.epoch

    def here(self) -> bool:
        """Whether the threads are in this process, and not in the one that it was forked from."""
        return self.process == os.getpid()

    def begin(self) -> int:
        """Start a new epoch: what is still queued from the one before is dropped."""
        self.shared.epoch += 1
        return self.shared.epoch

    def send(self, worker: int, epoch: int, ticket: int, index: Any) -> None:
        """Hand a batch to a worker."""
        self.tasks[worker].put((epoch, ticket, index))

    def receive(self, epoch: int, timeout: float) -> tuple[int, Any]:
        """The next result of this epoch, in no particular order: its ticket, and the batch, a Failure or End."""
        if not self.here():
            raise RuntimeError(
                "DataLoader: the worker threads of this iterator stayed behind in the process that was forked; begin a new one "
                "with iter(loader)"
            )
        while True:
            try:
                came, ticket, outcome = self.results.get(timeout=timeout or None)
            except Empty:
                raise RuntimeError(f"DataLoader timed out after {timeout} seconds") from None
            if came == epoch:
                return ticket, outcome


def own(value: Any, copies: dict[int, Any]) -> Any:
    """`value` for one worker: datasets, also inside of datasets, are copied, and methods bound to the copies.

    So each worker sees the attributes that it sets itself, as a forked process would. What the attributes refer to (arrays,
    lists, files) is not copied: all workers share it. `copies` are the datasets that were copied already, by id.
    """
    if isinstance(value, MethodType):
        return MethodType(value.__func__, own(value.__self__, copies))
    if type(value) in (list, tuple) and value and isinstance(value[0], Dataset):
        return type(value)(own(part, copies) for part in value)
    if type(value) is dict and value and isinstance(next(iter(value.values())), Dataset):
        return {name: own(part, copies) for name, part in value.items()}
    if not isinstance(value, Dataset) or not _plain(type(value)):
        return value
    if id(value) not in copies:
        twin = copies[id(value)] = object.__new__(type(value))
        twin.__dict__.update({name: own(held, copies) for name, held in vars(value).items()})
    return copies[id(value)]


def _plain(kind: type) -> bool:
    """Whether an object of this class is its `__dict__`. Others are not copied behind their backs, and shared."""
    return kind.__new__ is object.__new__ and not any(vars(base).get("__slots__") for base in kind.__mro__)


def _close(shared: _Shared, tasks: list[SimpleQueue[Any]], threads: list[threading.Thread]) -> None:
    shared.closed = True
    for queue in tasks:
        queue.put(None)
    for thread in threads:
        # The garbage collector may run this in a worker; a worker cannot wait for itself.
        if thread is not threading.current_thread() and thread.is_alive():
            thread.join(PATIENCE)


def enter(info: WorkerInfo) -> None:
    """Make this thread the worker that `get_worker_info` tells of."""
    _local.info = info


class Fetching:
    """What a worker does with the batches that it is handed; `init_fn` is called when it is made."""

    def __init__(
        self, info: WorkerInfo, make_fetcher: Callable[[], Any], init_fn: Callable[[int], None] | None
    ) -> None:
        self.worker, self.make_fetcher = info.id, make_fetcher
        self.fetcher, self.epoch = None, 0
        self.started: BaseException | None = None
        if init_fn is not None:
            try:
                init_fn(info.id)
            except BaseException as error:  # noqa: BLE001 - it is raised where the batch is asked for
                self.started = error

    def outcome(self, epoch: int, index: Any) -> Any:
        """The batch of an index, a Failure, or End."""
        try:
            if self.started is not None:
                raise self.started
            if epoch != self.epoch:
                self.fetcher, self.epoch = self.make_fetcher(), epoch
            fetcher: Any = self.fetcher
            return fetcher.fetch(index)
        except ExhaustedError:
            return End()
        except BaseException as error:  # noqa: BLE001 - it is raised where the batch is asked for
            return Failure.of(error, self.worker)


def _work(
    shared: _Shared,
    tasks: SimpleQueue[Any],
    results: SimpleQueue[Any],
    info: WorkerInfo,
    make_fetcher: Callable[[], Any],
    init_fn: Callable[[int], None] | None,
) -> None:
    """The life of a worker."""
    enter(info)
    set_own(info.seed)
    fetching = Fetching(info, make_fetcher, init_fn)
    while (task := tasks.get()) is not None and not shared.closed:
        epoch, ticket, index = task
        if epoch == shared.epoch:
            results.put((epoch, ticket, fetching.outcome(epoch, index)))
        del task, index
