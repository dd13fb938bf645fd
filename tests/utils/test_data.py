"""Datasets, samplers, collating and the loader: order, batches, workers, errors."""

from __future__ import annotations

import gc
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import ferro
from ferro.utils import data
from ferro.utils.data import DataLoader, TensorDataset, default_collate

# These tests are about order and threads, also of more workers than there are processors; one of them about the warning.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


class Point(NamedTuple):
    """A sample with named parts."""

    x: Any
    y: Any


class Squares(data.Dataset):
    """i -> i squared, with whatever delays, failures and shapes a test asks for."""

    def __init__(self, size: int, bad: int | None = None, odd: int | None = None, delay: bool = False) -> None:
        self.size, self.bad, self.odd, self.delay = size, bad, odd, delay

    def __getitem__(self, index: int) -> Any:
        if index == self.bad:
            raise KeyError("no such picture")
        if self.delay:  # later samples come sooner
            time.sleep(0.001 * ((self.size - index) % 7))
        return ferro.full((3 if index == self.odd else 2,), float(index**2))

    def __len__(self) -> int:
        return self.size


class Count(data.IterableDataset):
    """0, 1, 2, ... up to size; divided among workers if they are asked to."""

    def __init__(self, size: int, divide: bool = True, bad: int | None = None) -> None:
        self.size, self.divide, self.bad = size, divide, bad

    def __iter__(self) -> Iterator[int]:
        info = data.get_worker_info()
        share = (info.id, info.num_workers) if info and self.divide else (0, 1)
        for i in range(share[0], self.size, share[1]):
            if i == self.bad:
                raise OSError("broken stream")
            yield i


def threads() -> list[threading.Thread]:
    """The living workers. Nobody collects garbage here: a loader that is done with must not need that."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("DataLoader")]


def told(error: BaseException) -> str:
    """What an error says: its message, and its notes where it was raised in this thread."""
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


@pytest.fixture
def no_threads_yet() -> None:
    """Collect what the tracebacks that earlier tests have looked at keep alive."""
    gc.collect()
    assert not threads()


def first_numbers(loader: Any) -> list[list[float]]:
    """The batches of Squares, one number per sample."""
    return [batch[:, 0].tolist() for batch in loader]


# -- datasets and splits


def test_tensor_dataset() -> None:
    a, b = ferro.arange(6).reshape(3, 2), ferro.arange(3)
    dataset = TensorDataset(a, b)
    assert len(dataset) == 3
    assert [part.tolist() for part in dataset[1]] == [[2, 3], 1]
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        TensorDataset(a, ferro.arange(4))


def test_datasets_end_to_end() -> None:
    both = TensorDataset(ferro.arange(3)) + TensorDataset(ferro.arange(10, 12))
    assert isinstance(both, data.ConcatDataset)
    assert [both[i][0].item() for i in range(5)] == [0, 1, 2, 10, 11]
    assert both[-1][0].item() == 11
    with pytest.raises(ValueError, match="absolute value of index"):
        both[-6]
    with pytest.raises(IndexError):
        both[5]
    with pytest.raises(AssertionError, match="empty"):
        data.ConcatDataset([])


def test_datasets_side_by_side_and_streams_in_a_row() -> None:
    side = data.StackDataset(a=range(3), b=[5, 6, 7])
    assert side[1] == {"a": 1, "b": 6}
    assert data.StackDataset(range(3), [5, 6, 7])[2] == (2, 7)
    with pytest.raises(ValueError, match="Size mismatch"):
        data.StackDataset([1], [1, 2])
    assert list(Count(2) + Count(3)) == [0, 1, 0, 1, 2]


def test_random_split_by_lengths_and_fractions() -> None:
    parts = data.random_split(range(10), [7, 3], generator=ferro.Generator().manual_seed(1))
    again = data.random_split(range(10), [7, 3], generator=ferro.Generator().manual_seed(1))
    assert [len(part) for part in parts] == [7, 3]
    assert sorted([*parts[0], *parts[1]]) == list(range(10))
    assert list(parts[0]) == list(again[0])
    assert [len(part) for part in data.random_split(range(10), [0.35, 0.35, 0.3])] == [4, 3, 3]
    with pytest.raises(ValueError, match="does not equal the length"):
        data.random_split(range(10), [3, 3])
    with pytest.raises(ValueError, match="Fraction at index 0"):
        data.random_split(range(10), [-0.5, 1.5])


# -- samplers


def test_random_sampler_permutes_and_repeats() -> None:
    assert sorted(data.RandomSampler(range(9))) == list(range(9))
    sampler = data.RandomSampler(range(9), generator=ferro.Generator().manual_seed(3))
    first = list(sampler)
    assert first != list(sampler), "the next epoch must have another order"
    assert first == list(data.RandomSampler(range(9), generator=ferro.Generator().manual_seed(3)))
    more = list(data.RandomSampler(range(4), num_samples=10))
    assert len(more) == 10
    assert Counter(more[:8]) == dict.fromkeys(range(4), 2)
    drawn = list(data.RandomSampler(range(4), replacement=True, num_samples=3000))
    assert set(drawn) == set(range(4))
    assert len(drawn) == 3000


def test_weighted_and_subset_samplers() -> None:
    drawn = Counter(data.WeightedRandomSampler([0.0, 1.0, 3.0], 4000))
    assert drawn[0] == 0
    assert 2.5 < drawn[2] / drawn[1] < 3.6
    assert sorted(data.WeightedRandomSampler([1.0, 2.0, 3.0], 3, replacement=False)) == [0, 1, 2]
    assert sorted(data.SubsetRandomSampler([5, 7, 9])) == [5, 7, 9]


def test_batch_sampler() -> None:
    assert list(data.BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    assert list(data.BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]
    assert len(data.BatchSampler(range(5), 2, False)) == 3
    assert len(data.BatchSampler(range(5), 2, True)) == 2
    with pytest.raises(ValueError, match="batch_size should be a positive integer"):
        data.BatchSampler(range(5), 0, False)


# -- collating


def test_collate_numbers_and_arrays() -> None:
    cases = [
        ([1, 2], ferro.int64),
        ([1.5, 2.5], ferro.float64),
        ([True, False], ferro.bool),
        ([np.float32(1), np.float32(2)], ferro.float32),
        ([np.ones((2, 3), np.int16)] * 2, ferro.int16),
        ([ferro.ones(2)] * 3, ferro.float32),
    ]
    for batch, dtype in cases:
        collated = default_collate(batch)
        assert collated.dtype == dtype
        assert collated.shape[0] == len(batch)
    assert default_collate([1, 2]).tolist() == [1, 2]


def test_collate_nested() -> None:
    batch = [{"a": (1, "x"), "b": Point(1.0, [np.zeros(2)])}, {"a": (2, "y"), "b": Point(2.0, [np.ones(2)])}]
    collated = default_collate(batch)
    numbers, words = collated["a"]
    assert numbers.tolist() == [1, 2]
    assert list(words) == ["x", "y"]
    assert isinstance(collated["b"], Point)
    assert collated["b"].x.tolist() == [1.0, 2.0]
    assert collated["b"].y[0].tolist() == [[0.0, 0.0], [1.0, 1.0]]
    assert isinstance(default_collate([OrderedDict(a=1)]), OrderedDict)


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        ([ferro.ones(2), ferro.ones(2), ferro.ones(3)], RuntimeError, r"sample 2 of the batch has shape \[3\].*\[2\]"),
        ([(1, ferro.ones(2)), (1, ferro.ones(4))], RuntimeError, r"sample 1 .*shape \[4\]\[1\].*\[2\]"),
        ([[1, 2], [1, 2], [1]], RuntimeError, "equal size: sample 2 of the batch has 1 elements, sample 0 has 2"),
        ([{"a": 1}, {"b": 1}], KeyError, r"sample 1 of the batch has keys \['b'\]"),
        ([1, "x"], TypeError, "sample 1 of the batch is of type str, sample 0 of type int"),
        ([object()], TypeError, "found <class 'object'>"),
        ([np.array(["a"])], TypeError, "no tensors"),
        ([{"a": {1, 2}}], TypeError, r"found <class 'set'>\['a'\]"),
    ],
)
def test_collate_says_which_sample_differs(batch: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        default_collate(batch)


def test_without_batches_samples_are_converted() -> None:
    loader = DataLoader([np.ones(2), np.zeros(2)], batch_size=None)
    assert [sample.tolist() for sample in loader] == [[1.0, 1.0], [0.0, 0.0]]
    assert data.default_convert({"a": (np.ones(1), "x")})["a"][1] == "x"


# -- the loader


@pytest.mark.usefixtures("no_threads_yet")
@pytest.mark.parametrize("workers", [0, 1, 2, 5])
def test_order_is_that_of_the_sampler_for_any_number_of_workers(workers: int) -> None:
    loader = DataLoader(Squares(23, delay=True), batch_size=4, num_workers=workers)
    expected = [[float(i**2) for i in range(23)][k : k + 4] for k in range(0, 23, 4)]
    assert first_numbers(loader) == expected
    assert first_numbers(loader) == expected
    assert len(loader) == 6
    assert not threads()


def test_shuffling_is_decided_by_the_generator_alone() -> None:
    orders = []
    for workers in (0, 1, 3):
        loader = DataLoader(
            Squares(10), batch_size=3, shuffle=True, num_workers=workers, generator=ferro.Generator().manual_seed(7)
        )
        epochs = []
        for _ in range(3):
            epochs.append([])
            for batch in loader:
                ferro.rand(3)  # what training draws meanwhile makes no difference
                epochs[-1].append(batch[:, 0].tolist())
        assert epochs[0] != epochs[1]
        orders.append(epochs)
    assert orders[0] == orders[1] == orders[2]


def test_the_global_seed_decides_without_a_generator() -> None:
    orders = []
    for workers in (0, 2):
        ferro.manual_seed(5)
        orders.append(first_numbers(DataLoader(Squares(9), batch_size=2, shuffle=True, num_workers=workers)))
    assert orders[0] == orders[1]


@pytest.mark.parametrize("workers", [0, 2])
def test_drop_last_samplers_and_collate_fn(workers: int) -> None:
    loader = DataLoader(Squares(5), batch_size=2, drop_last=True, num_workers=workers)
    assert len(loader) == len(list(loader)) == 2
    loader = DataLoader(Squares(5), batch_sampler=[[4], [0, 1]], num_workers=workers)
    assert first_numbers(loader) == [[16.0], [0.0, 1.0]]
    loader = DataLoader(Squares(5), sampler=[3, 1], collate_fn=len, num_workers=workers, batch_size=2)
    assert list(loader) == [2]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_streams(workers: int) -> None:
    loader = DataLoader(Count(10), batch_size=2, num_workers=workers)
    batches = [batch.tolist() for batch in loader]
    assert sorted(i for batch in batches for i in batch) == list(range(10))
    assert batches == [batch.tolist() for batch in loader]
    if workers < 2:
        assert batches == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    else:  # in turn: worker 0 has 0, 3, 6, 9, worker 1 has 1, 4, 7, worker 2 has 2, 5, 8
        assert batches == [[0, 3], [1, 4], [2, 5], [6, 9], [7], [8]]
    whole = DataLoader(Count(5, divide=False), batch_size=2, drop_last=True, num_workers=workers)
    assert len(list(whole)) == 2 * max(workers, 1)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_names_the_sample(workers: int) -> None:
    loader = DataLoader(Squares(20, bad=13), batch_size=4, num_workers=workers)
    iterator = iter(loader)
    for _ in range(3):  # the batches before the bad one come first
        next(iterator)
    with pytest.raises(KeyError, match="no such picture") as caught:
        next(iterator)
    assert "sample 13 of Squares" in told(caught.value)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_of_collating_names_shapes_and_samples(workers: int) -> None:
    loader = DataLoader(Squares(8, odd=6), batch_size=4, num_workers=workers)
    with pytest.raises(RuntimeError, match=r"sample 2 of the batch has shape \[3\] and sample 0 has \[2\]") as caught:
        list(loader)
    assert "[4, 5, 6, 7]" in told(caught.value)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_in_a_stream_says_where(workers: int) -> None:
    with pytest.raises(OSError, match="broken stream") as caught:
        list(DataLoader(Count(10, bad=4), batch_size=2, num_workers=workers))
    assert "of the stream Count" in told(caught.value)


def test_a_loop_goes_on_after_an_error() -> None:
    iterator = iter(DataLoader(Squares(6, bad=2), batch_size=2, num_workers=2))
    assert next(iterator)[:, 0].tolist() == [0.0, 1.0]
    with pytest.raises(KeyError):
        next(iterator)
    assert next(iterator)[:, 0].tolist() == [16.0, 25.0]
    with pytest.raises(StopIteration):
        next(iterator)


@pytest.mark.usefixtures("no_threads_yet")
def test_an_early_break_leaves_no_thread() -> None:
    for _ in DataLoader(Squares(100, delay=True), batch_size=2, num_workers=3):
        break
    assert not threads()


@pytest.mark.usefixtures("no_threads_yet")
def test_an_error_leaves_no_thread() -> None:
    with pytest.raises(KeyError):
        list(DataLoader(Squares(100, bad=3), batch_size=2, num_workers=3))
    gc.collect()  # the traceback of an error refers to itself
    assert not threads()


@pytest.mark.usefixtures("no_threads_yet")
def test_workers_stay_only_if_they_are_persistent() -> None:
    loader = DataLoader(Squares(8), batch_size=2, num_workers=2, persistent_workers=True)
    first = first_numbers(loader)
    alive = threads()
    assert len(alive) == 2
    for _ in loader:
        break
    assert first_numbers(loader) == first, "batches of the epoch that was left must not come in the next"
    assert threads() == alive
    old = iter(loader)
    assert first_numbers(loader) == first
    with pytest.raises(RuntimeError, match="iterated over again"):
        next(old)
    del loader, old
    assert not threads()


def test_persistent_workers_start_streams_afresh() -> None:
    loader = DataLoader(Count(6), batch_size=2, num_workers=2, persistent_workers=True)
    assert [b.tolist() for b in loader] == [b.tolist() for b in loader] == [[0, 2], [1, 3], [4], [5]]


def test_workers_fetch_only_so_far_ahead() -> None:
    asked: list[int] = []

    class Watched(Squares):
        def __getitem__(self, index: int) -> Any:
            asked.append(index)
            return super().__getitem__(index)

    iterator = iter(DataLoader(Watched(100), num_workers=2, prefetch_factor=3))
    next(iterator)
    time.sleep(0.05)
    assert sorted(asked) == list(range(7)), "2 workers with 3 batches each, and one for the batch that was taken"


def test_batches_come_as_they_are_ready_if_order_is_not_asked_for() -> None:
    gate = threading.Event()

    class Waiting(data.Dataset):
        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> int:
            if index == 0:
                assert gate.wait(30)
            return index

    iterator = iter(DataLoader(Waiting(), None, num_workers=2, in_order=False))
    others = [next(iterator) for _ in range(4)]
    gate.set()
    assert others == [1, 3, 4, 5]  # 2 waits behind 0
    assert sorted(iterator) == [0, 2]


def test_timeout() -> None:
    class Slow(Squares):
        def __getitem__(self, index: int) -> Any:
            time.sleep(0.3)
            return super().__getitem__(index)

    with pytest.raises(RuntimeError, match=r"timed out after 0.02 seconds"):
        list(DataLoader(Slow(2), num_workers=1, timeout=0.02))


def test_workers_know_themselves() -> None:
    class Who(data.Dataset):
        def __getitem__(self, index: int) -> tuple[int, int, int]:
            info = data.get_worker_info()
            assert info is not None
            assert info.dataset is self
            return info.id, info.num_workers, info.seed - info.id

        def __len__(self) -> int:
            return 8

    started: list[int] = []
    loader = DataLoader(Who(), batch_size=2, num_workers=2, worker_init_fn=started.append)
    batches = list(loader)
    assert [batch[0].tolist() for batch in batches] == [[0, 0], [1, 1], [0, 0], [1, 1]]
    assert {n for batch in batches for n in batch[1].tolist()} == {2}
    assert len({seed for batch in batches for seed in batch[2].tolist()}) == 1
    assert sorted(started) == [0, 1]
    assert data.get_worker_info() is None


def test_an_error_while_a_worker_starts_is_raised() -> None:
    def fail(worker: int) -> None:
        raise ValueError(f"worker {worker} has no camera")

    with pytest.raises(ValueError, match="worker 0 has no camera"):
        list(DataLoader(Squares(4), num_workers=2, worker_init_fn=fail))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": -1}, "non-negative"),
        ({"timeout": -1}, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, "only be specified in multiprocessing.let num_workers > 0"),
        ({"num_workers": 1, "prefetch_factor": 0}, "positive"),
        ({"persistent_workers": True}, "needs num_workers > 0"),
        ({"sampler": [1], "shuffle": True}, "mutually exclusive with shuffle"),
        ({"batch_sampler": [[1]], "batch_size": 2}, "mutually exclusive with batch_size"),
        ({"batch_size": None, "drop_last": True}, "mutually exclusive with drop_last"),
        ({"batch_size": 0}, "batch_size should be a positive integer"),
    ],
)
def test_wrong_options_say_what_is_wrong(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataLoader(Squares(4), **options)


def test_what_decides_the_order_is_fixed() -> None:
    loader = DataLoader(Squares(4))
    with pytest.raises(ValueError, match="batch_size attribute should not be set"):
        loader.batch_size = 3
    with pytest.raises(ValueError, match="unspecified shuffle"):
        DataLoader(Count(4), shuffle=True)


@pytest.mark.parametrize("workers", [0, 2])
def test_datasets_that_fetch_whole_batches(workers: int) -> None:
    class Whole(Squares):
        def __getitems__(self, indices: list[int]) -> list[Any]:
            return [ferro.tensor([float(i)]) for i in indices]

    assert first_numbers(DataLoader(Whole(3), batch_size=2, num_workers=workers)) == [[0.0, 1.0], [2.0]]
    part = data.Subset(Whole(5), [4, 2])
    assert first_numbers(DataLoader(part, batch_size=2, num_workers=workers)) == [[4.0, 2.0]]


# -- what PyTorch's worker processes have of their own


class Ranged(data.IterableDataset):
    """The numbers from `start` to `end`; `worker_init_fn` narrows them, as PyTorch's documentation does it."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.end))


def narrowed(worker: int) -> None:
    """Give the worker's copy of the dataset its share."""
    info = data.get_worker_info()
    assert info is not None
    stream = info.dataset
    while not isinstance(stream, Ranged):
        stream = stream.datasets[0]
    share = (stream.end - stream.start) // info.num_workers
    stream.start += worker * share
    stream.end = stream.start + share


@pytest.mark.parametrize("nested", [False, True])
def test_a_worker_has_its_own_copy_of_the_dataset(nested: bool) -> None:
    stream = Ranged(0, 8)
    dataset = data.ChainDataset([stream]) if nested else stream
    loader = DataLoader(dataset, batch_size=None, num_workers=2, worker_init_fn=narrowed)
    assert sorted(loader) == list(range(8))
    assert (stream.start, stream.end) == (0, 8)


def test_the_data_of_a_dataset_is_shared_and_methods_belong_to_the_copies() -> None:
    class Numbered(data.Dataset):
        worker = -1

        def __init__(self) -> None:
            self.cache: dict[int, int] = {}

        def begin(self, worker: int) -> None:
            self.worker = worker

        def __getitem__(self, index: int) -> int:
            self.cache[index] = index
            return self.worker

        def __len__(self) -> int:
            return 6

        def collated(self, batch: list[int]) -> tuple[int, list[int]]:
            return self.worker, batch

    dataset = Numbered()
    loader = DataLoader(dataset, 2, num_workers=2, worker_init_fn=dataset.begin, collate_fn=dataset.collated)
    assert list(loader) == [(0, [0, 0]), (1, [1, 1]), (0, [0, 0])]
    assert dataset.worker == -1
    assert sorted(dataset.cache) == list(range(6))


def test_a_dataset_that_makes_its_objects_in_its_own_way_is_shared() -> None:
    class Slotted(data.Dataset):
        __slots__ = ("size",)

        def __init__(self) -> None:
            self.size = 3

        def __getitem__(self, index: int) -> int:
            return self.size

    assert list(DataLoader(Slotted(), None, sampler=[0, 1], num_workers=1)) == [3, 3]


def test_each_worker_draws_from_a_generator_of_its_own() -> None:
    class Drawn(data.Dataset):
        def __getitem__(self, index: int) -> tuple[float, int]:
            return ferro.rand(()).item(), ferro.initial_seed()

        def __len__(self) -> int:
            return 12

    def epoch() -> list[Any]:
        return list(DataLoader(Drawn(), None, num_workers=2, generator=ferro.Generator().manual_seed(3)))

    state = ferro.get_rng_state()
    first = epoch()
    assert first == epoch(), "the order in which threads run must not show"
    assert len({number for number, _ in first}) == 12
    assert len({seed for _, seed in first}) == 2
    assert ferro.get_rng_state().equal(state)


@pytest.mark.parametrize("kind", [ValueError, KeyError, UnicodeDecodeError])
def test_an_error_of_a_worker_is_raised_in_pytorchs_words(kind: type[Exception]) -> None:
    class Broken(data.Dataset):
        def __getitem__(self, index: int) -> None:
            raise kind(*(("utf-8", b"x", 0, 1, "bad file") if kind is UnicodeDecodeError else ("bad file",)))

    iterator = iter(DataLoader(Broken(), sampler=[5], num_workers=1))
    with pytest.raises(RuntimeError if kind is UnicodeDecodeError else kind) as caught:
        next(iterator)
    text = str(caught.value)
    assert (
        f"Caught {kind.__name__} in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n" in text
    )
    assert "bad file" in text
    assert type(caught.value.__cause__) is kind


def test_a_stream_longer_than_its_length_is_warned_of() -> None:
    class Counted(Count):
        def __len__(self) -> int:
            return self.size

    loader = DataLoader(Counted(4, divide=False), None, num_workers=2)
    assert len(list(loader)) == 8, "no warning before len() was asked"
    assert len(loader) == 4
    iterator = iter(loader)
    assert [next(iterator) for _ in range(4)] == [0, 0, 1, 1]
    for fetched in (5, 6):
        with pytest.warns(
            UserWarning, match=f"but {fetched} samples have been fetched. For multiprocessing data-loading, this"
        ):
            next(iterator)


@pytest.mark.filterwarnings("error:This DataLoader will create")
def test_warnings_of_many_workers_and_of_pinned_memory() -> None:
    with pytest.warns(UserWarning, match="excessive worker creation might get DataLoader running slow or even freeze"):
        DataLoader(Squares(2), num_workers=1000)
    loader = DataLoader(Squares(2), pin_memory=True)
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but no accelerator is found"):
        (batch, _) = loader
    assert not batch.is_pinned()
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
        batch.pin_memory()


def test_contexts_of_multiprocessing_are_checked() -> None:
    with pytest.raises(ValueError, match=r"multi-process loading \(num_workers > 0\), but got num_workers=0"):
        DataLoader(Squares(2), multiprocessing_context="spawn")
    with pytest.raises(ValueError, match="should specify a valid start method in"):
        DataLoader(Squares(2), num_workers=1, multiprocessing_context="thread")
    with pytest.raises(TypeError, match="multiprocessing_context option should be a valid context object"):
        DataLoader(Squares(2), num_workers=1, multiprocessing_context=object())


# -- PyTorch gives the same


def test_a_distributed_sampler_gives_each_process_pytorchs_share() -> None:
    torch = pytest.importorskip("torch")
    for size, replicas, drop_last in [
        (10, 4, False),
        (10, 4, True),
        (3, 4, False),
        (3, 4, True),
        (1, 3, False),
        (8, 4, True),
    ]:
        for rank in range(replicas):
            options = {"num_replicas": replicas, "rank": rank, "shuffle": False, "drop_last": drop_last}
            mine = data.DistributedSampler(range(size), **options)
            theirs = torch.utils.data.DistributedSampler(range(size), **options)
            assert (list(mine), len(mine)) == (list(theirs), len(theirs))
    parts = [data.DistributedSampler(range(9), 3, rank, seed=1) for rank in range(3)]
    orders = []
    for epoch in range(2):
        for part in parts:
            part.set_epoch(epoch)
        orders.append([list(part) for part in parts])
        assert sorted(i for share in orders[-1] for i in share) == list(range(9))
    assert orders[0] != orders[1]
    with pytest.raises(ValueError, match=r"Invalid rank 3, rank should be in the interval \[0, 2\]"):
        data.DistributedSampler(range(9), 3, 3)
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        data.DistributedSampler(range(9))
    ferro.distributed.init_process_group("gloo", rank=0, world_size=1)
    try:
        assert list(data.DistributedSampler(range(3), shuffle=False)) == [0, 1, 2]
    finally:
        ferro.distributed.destroy_process_group()


def test_stacked_datasets_fetch_whole_batches() -> None:
    class Whole(data.Dataset):
        short = 0

        def __getitem__(self, index: int) -> int:
            raise AssertionError("one by one")

        def __getitems__(self, indices: list[int]) -> list[int]:
            return [10 * i for i in indices][self.short :]

        def __len__(self) -> int:
            return 4

    whole = Whole()
    assert data.StackDataset(whole, range(4)).__getitems__([2, 0]) == [(20, 2), (0, 0)]
    named = data.StackDataset(tens=whole, ones=range(4))
    assert [batch["tens"].tolist() for batch in DataLoader(named, 2)] == [[0, 10], [20, 30]]
    whole.short = 1
    with pytest.raises(ValueError, match=r"output size mismatch\. Expected 2, got 1"):
        named.__getitems__([2, 0])


def test_a_subset_that_overrides_half_is_refused_and_an_empty_split_warned_of() -> None:
    class Half(data.Subset):
        def __getitem__(self, index: int) -> int:
            return -1

    with pytest.raises(NotImplementedError, match="Half overrides __getitem__ but not __getitems__"):
        Half(range(3), [0])
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0. This might result in an empty dataset."):
        assert len(data.random_split(range(1), [0.5, 0.5])[0]) == 1


class Tagged(list):
    """A list that has an attribute."""

    tag = "none"


def test_collating_keeps_classes_and_attributes() -> None:
    first = Tagged([1, 2])
    first.tag = "mine"
    for made in (default_collate([first, Tagged([3, 4])]), data.default_convert(first)):
        assert (type(made), made.tag) == (Tagged, "mine")
    assert first == [1, 2]
    assert isinstance(default_collate([range(2), range(2)]), list)
    counted = Counter(a=1)
    assert type(default_collate([counted, counted])) is Counter
    with pytest.raises(RuntimeError, match="Batches of sparse tensors are not currently supported"):
        default_collate([ferro.eye(2).to_sparse()])
    loader: DataLoader[int] = DataLoader([1])
    assert len(loader) == 1


def test_collating_takes_functions_for_classes_and_numbers_of_numpy() -> None:
    from ferro.utils.data._utils.collate import collate, default_collate_fn_map

    class Word(str):
        """Text that is put together."""

        __slots__ = ()

    def joined(batch: list[Word], *, collate_fn_map: Any) -> str:
        return " ".join(batch)

    samples = [{"text": Word("a"), "n": 1}, {"text": Word("b"), "n": np.int64(2), "more": None}]
    assert collate(samples, collate_fn_map={str: joined})["text"] == "a b"
    assert default_collate(samples)["text"] == ["a", "b"]
    default_collate_fn_map[Word] = joined
    try:
        made = default_collate(samples)
    finally:
        del default_collate_fn_map[Word]
    assert (made["text"], made["n"].tolist(), list(made)) == ("a b", [1, 2], ["text", "n"])
    assert default_collate([np.int64(1), 2]).tolist() == [1, 2]


def test_what_cannot_be_iterated_is_refused_when_it_is_made() -> None:
    class Nothing(data.IterableDataset):
        """Forgets __iter__."""

    with pytest.raises(TypeError, match="abstract"):
        Nothing()  # type: ignore[abstract]
    with pytest.raises(AssertionError, match="ChainDataset only supports IterableDataset"):
        len(data.ChainDataset([range(3)]))
    with pytest.raises(ValueError, match="num_samples should be a positive integer value, but got num_samples=0"):
        DataLoader([], shuffle=True)


def test_loaders_of_other_libraries_put_an_iterator_around_ours() -> None:
    class Doubled(DataLoader):
        def _get_iterator(self) -> Any:
            return (2 * batch for batch in super()._get_iterator())

    for workers in (0, 1):
        assert [b.tolist() for b in Doubled(ferro.arange(4), batch_size=2, num_workers=workers)] == [[0, 2], [4, 6]]
