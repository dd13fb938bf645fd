"""DataLoader: batches of a dataset, in order, fetched ahead by worker threads or processes if there are any."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ferro.core.backend import accelerator

from ._utils.pin_memory import pin_memory
from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .fetch import ExhaustedError, IterableFetcher, MapFetcher

# What decides the order of the samples cannot be changed afterwards: the samplers are made from it.
from .loader_checks import check_context, check_stream, check_workers, warn_of_many
from .place import Place, state_of
from .sampler import BatchSampler, RandomSampler, SequentialSampler, new_seed
from .workers import End, Failure, WorkerPool

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")

if TYPE_CHECKING:
    from .processes import ProcessPool

T_co = TypeVar("T_co", covariant=True)


class _Endless:
    """The sampler of a stream, which has no indices."""

    def __iter__(self) -> Iterator[None]:
        return repeat(None)


class DataLoader(Generic[T_co]):
    """Iterates over a dataset in batches.

    - `dataset` (Dataset, list, array, IterableDataset, ...): has `__getitem__` and `__len__`, or `__iter__`
    - `batch_size` (int, default 1): samples in a batch; None gives the samples one by one, not joined
    - `shuffle` (bool, default None): True draws a new order for each iteration
    - `sampler` (Sampler, default None): gives the indices, in place of shuffle
    - `batch_sampler` (Sampler, default None): gives lists of indices, in place of batch_size, shuffle, sampler and
      drop_last
    - `num_workers` (int, default 0): threads, or processes, that fetch ahead; 0 fetches when asked
    - `collate_fn` (function, default None): makes a batch of a list of samples; None stacks tensors, arrays and
      numbers, also in tuples and dictionaries
    - `pin_memory` (bool, default False): gives batches in pinned memory, for copies to a GPU; without one a warning says so
    - `drop_last` (bool, default False): True leaves out a last batch that is smaller
    - `timeout` (float, default 0): how many seconds a worker's batch may take, else RuntimeError; 0 waits
    - `worker_init_fn` (function of an integer, default None): called with the worker's number in each worker at its
      start
    - `multiprocessing_context` (str or context, default None): "fork", "spawn" or "forkserver" makes the workers
      processes
    - `generator` (Generator, default None): draws the order and the workers' seeds, else the default one
    - `prefetch_factor` (int, default None): batches that each worker fetches ahead; None is 2
    - `persistent_workers` (bool, default False): True keeps the workers from one iteration to the next
    - `pin_memory_device` (str, default ''): see pin_memory
    - `in_order` (bool, default True): False gives batches as they are ready

    Threads start at once, and nothing is pickled or copied: right for samples that are read from files, decoded or
    computed by NumPy. Each has its own copy of the dataset object (what its attributes refer to is shared) and its own
    default generator; the global generators of `random` and `numpy.random` are one for all. Processes are right for
    datasets of much Python code, which threads would run one after the other, and for those that draw from `random` or
    `numpy.random`; the batches travel through a pipe. In each, ferro's generator and both of those are seeded as
    PyTorch seeds them.

    Worker i has the seed `get_worker_info().seed`, the loader's base seed plus i; the base seed is drawn from
    `generator` when an iteration begins. The order of the batches is the same for any number of workers. With a stream
    (IterableDataset) each worker iterates over it by itself and the batches come from the workers in turn, so that a
    dataset has to divide its samples by `get_worker_info()`. An error in a worker is raised where its batch is asked
    for; its message names the worker and the sample. A worker process that is killed is a RuntimeError at once. A loop
    that is left early takes the workers with it.

    ValueError for options that do not fit together. Warns of more workers than there are processors, and of a stream
    that gives more samples than the length that it was asked for.

    Example::

        >>> import ferro
        >>> from ferro.utils.data import DataLoader
        >>> [batch.tolist() for batch in DataLoader(range(5), batch_size=2)]
        [[0, 1], [2, 3], [4]]
    """

    _place: Place | None = None  # of the last iteration
    _resumed: dict[str, Any] | None = None  # where the next one begins

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        check_context(multiprocessing_context, num_workers)
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.generator = generator
        stream = isinstance(dataset, IterableDataset)
        if stream:
            check_stream(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            if stream:
                sampler = _Endless()
            else:
                sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        if collate_fn is None:
            collate_fn = default_convert if batch_sampler is None else default_collate
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._kept_pool: WorkerPool | ProcessPool | None = None
        self._told_length: int | None = None  # what len() answered for a stream
        self._fixed = True
        warn_of_many(num_workers)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and self.__dict__.get("_fixed"):
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept_pool": None, "_place": None}  # workers are neither copied nor pickled

    def __iter__(self) -> Iterator[Any]:
        return self._get_iterator()

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration stands that was begun last, for `load_state_dict`; PyTorch's loader has no such thing.

        What workers have drawn by chance while they made samples is not in it.

        Example::

            >>> from ferro.utils.data import DataLoader
            >>> loader, again = (DataLoader(range(6), batch_size=2) for _ in range(2))
            >>> first = next(iter(loader))
            >>> again.load_state_dict(loader.state_dict())
            >>> [batch.tolist() for batch in again]
            [[2, 3], [4, 5]]
        """
        return state_of(self, self._place)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Lets the next iteration go on where that of a `state_dict` stood, in the same order of a loader of the same options."""
        self._resumed = state_dict if state_dict["given"] >= 0 else None
        if state_dict["begin"] >= 0:
            self.sampler.load_state_dict(state_dict)

    def _get_iterator(self) -> _BaseDataLoaderIter:
        """A new iterator; loaders of other libraries put one of their own around it."""
        kind = _SingleProcessDataLoaderIter if self.num_workers == 0 else _MultiProcessingDataLoaderIter
        made = kind(self)
        made._place.skip_stream(made)
        return made

    def __len__(self) -> int:
        """The number of batches; of a stream, as far as the dataset knows its length."""
        if not isinstance(self.dataset, IterableDataset):
            return len(self._indices())
        samples = self._told_length = len(self.dataset)  # type: ignore[arg-type]  # if it has a length
        if self.batch_size is None:
            return samples
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)

    @property
    def _auto_collation(self) -> bool:
        """Whether samples are put together to batches."""
        return self.batch_sampler is not None

    def _indices(self) -> Any:
        """What is iterated over: lists of indices, or without batching single ones."""
        return self.batch_sampler if self._auto_collation else self.sampler

    def _fetcher(self) -> Callable[..., Any]:
        """What makes a fetcher of a dataset and a collate_fn. It knows no loader: workers must not keep one alive."""
        kind = IterableFetcher if isinstance(self.dataset, IterableDataset) else MapFetcher
        return partial(kind, auto_collation=self._auto_collation, drop_last=self.drop_last)

    def _pool(self, seed: int) -> WorkerPool | ProcessPool:
        """New workers, or with persistent_workers those of the last epoch."""
        if self._kept_pool is not None and self._kept_pool.here():
            return self._kept_pool
        told = self.dataset, self.num_workers, seed, self._fetcher(), self.collate_fn, self.worker_init_fn
        context = self.multiprocessing_context
        pool = WorkerPool(*told) if context is None else _processes(told, context)
        if self.persistent_workers:
            self._kept_pool = pool
        return pool


def _processes(told: tuple[Any, ...], context: Any) -> ProcessPool:
    """Worker processes, started by a context of multiprocessing or by one that has this name."""
    import multiprocessing  # here, as what it needs: `import ferro` stays light

    from .processes import ProcessPool

    context = multiprocessing.get_context(context) if isinstance(context, str) else context
    return ProcessPool(*told, context=context)


class _BaseDataLoaderIter:
    """One iteration over a loader. Every epoch draws a seed for its workers, whether or not there are any."""

    def __init__(self, loader: DataLoader) -> None:
        # From the loader's generator: the same numbers are left in it for any number of workers.
        self._place = loader._place = Place(loader, loader._resumed)
        loader._resumed = None
        self._seed = new_seed(loader.generator)
        self._indices = iter(loader._indices())
        self._place.skip(self._indices)
        self._loader = loader
        self._given = 0  # batches, or without batching samples
        self._length = loader._told_length
        self._pins = loader.pin_memory and accelerator() is not None
        if loader.pin_memory and not self._pins:
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.",
                stacklevel=5,
            )

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            batch = self._next()
        except StopIteration:
            self._place.ended = True
            raise
        self._place.given += 1
        if self._pins:
            batch = pin_memory(batch)
        self._given += 1
        if self._length is not None and self._given > self._length:
            self._warn_of_length(self._length)
        return batch

    def _next(self) -> Any:
        raise NotImplementedError

    def _warn_of_length(self, length: int) -> None:
        message = (
            f"Length of IterableDataset {self._loader.dataset} was reported to be {length}(when accessing "
            f"len(dataloader)), but {self._given} samples have been fetched. "
        )
        if self._loader.num_workers > 0:
            message += (
                "For multiprocessing data-loading, this could be caused by not properly configuring the IterableDataset "
                "replica at each worker: let each give its share of the samples by get_worker_info(). Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
            )
        warnings.warn(message, stacklevel=3)

    def __len__(self) -> int:
        return len(self._loader)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Fetches each batch when it is asked for."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        self._fetcher = loader._fetcher()(loader.dataset, collate_fn=loader.collate_fn)

    def _next(self) -> Any:
        index = next(self._indices)
        try:
            return self._fetcher.fetch(index)
        except ExhaustedError:
            raise StopIteration from None


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Hands indices to the workers in turn, some ahead, and gives the batches out in that order."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        self._timeout = loader.timeout
        self._in_order = loader.in_order
        self._pool = loader._pool(self._seed)
        self._epoch = self._pool.begin()
        self._running = list(range(loader.num_workers))
        self._turn = 0
        self._free = -1  # the worker of the batch that was taken last
        self._sent = 0  # tickets handed out
        self._taken = 0  # tickets whose batch was given out
        self._owners: dict[int, int] = {}
        self._arrived: dict[int, Any] = {}
        for _ in range(loader.num_workers * (loader.prefetch_factor or 1)):
            self._send_one()

    def _send_one(self) -> None:
        if not self._running:
            return
        try:
            index = next(self._indices)
        except StopIteration:
            return
        if not self._in_order and self._free in self._running:
            worker = self._free  # who is quick gets more
        else:
            worker = self._running[self._turn % len(self._running)]
            self._turn += 1
        self._owners[self._sent] = worker
        self._pool.send(worker, self._epoch, self._sent, index)
        self._sent += 1

    @property
    def _workers(self) -> list[Any]:
        return self._pool.workers

    def _next(self) -> Any:
        if self._epoch != self._pool.epoch:
            raise RuntimeError(
                "this iterator ended when its DataLoader, whose workers are persistent, was iterated over again"
            )
        while self._taken < self._sent:
            outcome = self._next_outcome()
            if not isinstance(outcome, End):
                self._send_one()
                break
        else:
            raise StopIteration
        if isinstance(outcome, Failure):
            try:
                raise outcome.reraised()
            finally:
                del outcome  # the error refers to this frame: without this both would live until the cycle is collected
        return outcome

    def __del__(self) -> None:
        """Lets go of the workers, which end when nobody refers to them."""
        self.__dict__.pop("_pool", None)

    def _next_outcome(self) -> Any:
        """What became of the next batch, in order or as it comes; a worker that is at its end is handed no more."""
        while not self._arrived or (self._in_order and self._taken not in self._arrived):
            ticket, outcome = self._pool.receive(self._epoch, self._timeout)
            self._arrived[ticket] = outcome
        ticket = self._taken if self._in_order else next(iter(self._arrived))
        outcome = self._arrived.pop(ticket)
        worker = self._free = self._owners.pop(ticket)
        self._taken += 1
        if isinstance(outcome, End) and worker in self._running:
            place = self._running.index(worker)
            self._running.remove(worker)
            # Whose turn it is stays: those after the one that left move up by one.
            self._turn = self._turn % (len(self._running) + 1)
            self._turn -= self._turn > place
            self._send_one()
        return outcome
