"""DataLoader with worker processes: PyTorch's numbers, order, errors, workers that are killed, and none left behind."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ferro
from ferro.utils import data
from ferro.utils.data import DataLoader

pytestmark = [
    pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork"),
    pytest.mark.filterwarnings(
        "ignore:This DataLoader will create", "ignore:This process .* is multi-threaded, use of fork"
    ),
]


class BrokenPictureError(Exception):
    """An error of a user's, with arguments that a message alone is not."""

    def __init__(self, name: str, line: int) -> None:
        super().__init__(f"{name} is broken in line {line}")


class Squares(data.Dataset):
    """i -> i squared, with the harm that a test asks for at one index."""

    def __init__(self, size: int, bad: int | None = None, harm: str = "") -> None:
        self.size, self.bad, self.harm = size, bad, harm

    def __getitem__(self, index: int) -> Any:
        if index == self.bad:
            if self.harm == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.harm == "exit":
                os._exit(7)
            if self.harm == "unpicklable":
                return lambda: 1
            if self.harm == "own":
                raise BrokenPictureError("cat", 3)
            raise KeyError("no such picture")
        return ferro.full((2,), float(index**2))

    def __len__(self) -> int:
        return self.size


class Count(data.IterableDataset):
    """0, 1, 2, ... up to size, divided among workers."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> Iterator[int]:
        info: Any = data.get_worker_info()
        yield from range(info.id, self.size, info.num_workers)


@pytest.fixture(autouse=True)
def _no_process_left() -> Iterator[None]:
    """Fail the test after which a worker is there, running or as a zombie."""
    before = children()
    yield
    assert children() == before


def children() -> set[int]:
    """The processes that this one started, in whatever state."""
    return {process.pid for process in multiprocessing.active_children() if process.pid is not None}


def forked(dataset: Any, *args: Any, **kwargs: Any) -> DataLoader:
    return DataLoader(dataset, *args, **{"num_workers": 2, "multiprocessing_context": "fork", **kwargs})


def drawn(t: Any, dataset: Any) -> list[Any]:
    """What two workers of a library draw from every generator, for a shuffled dataset."""
    t.manual_seed(11)
    loader = t.utils.data.DataLoader(dataset, 3, shuffle=True, num_workers=2, multiprocessing_context="fork")
    return [[column.tolist() for column in batch] for _ in range(2) for batch in loader]


def test_numbers_in_workers_are_pytorchs(torch: Any) -> None:
    def made(t: Any) -> Any:
        class Drawing(t.utils.data.Dataset):
            def __len__(self) -> int:
                return 8

            def __getitem__(self, index: int) -> Any:
                seed = t.utils.data.get_worker_info().seed
                return index, random.random(), np.random.random(), t.rand(2), seed  # noqa: NPY002

        return Drawing()

    assert drawn(ferro, made(ferro)) == drawn(torch, made(torch))


def test_threads_draw_pytorchs_numbers_from_ferros_generator(torch: Any) -> None:
    def draws(t: Any, **options: Any) -> list[Any]:
        class Drawing(t.utils.data.Dataset):
            def __len__(self) -> int:
                return 6

            def __getitem__(self, index: int) -> Any:
                return t.rand(2), t.randn(1)

        t.manual_seed(4)
        return [
            [part.tolist() for part in batch]
            for batch in t.utils.data.DataLoader(Drawing(), 2, num_workers=2, **options)
        ]

    assert draws(ferro) == draws(torch, multiprocessing_context="fork")


ABANDONED = """
import os, signal
from ferro.utils.data import DataLoader

if __name__ == "__main__":
    iterator = iter(DataLoader(range(100), num_workers=2, multiprocessing_context="fork"))
    next(iterator)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_end_when_the_process_of_the_loop_is_killed() -> None:
    # They have its output open: it ends when the last of them does.
    done = subprocess.run([sys.executable, "-c", ABANDONED], capture_output=True, timeout=100, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_order_streams_and_batches_are_those_of_threads() -> None:
    cases: list[dict[str, Any]] = [{}, {"drop_last": True}, {"prefetch_factor": 5}, {"persistent_workers": True}]
    for options in cases:
        loader = forked(Squares(7), 2, **options)
        threads = DataLoader(Squares(7), 2, num_workers=2, **options)
        for _ in range(2):
            assert [batch.tolist() for batch in loader] == [batch.tolist() for batch in threads]
        del loader, threads
    assert [batch.tolist() for batch in forked(Count(7), 2)] == [[0, 2], [1, 3], [4, 6], [5]]
    assert sorted(x.item() for batch in forked(Squares(9), 2, in_order=False) for x in batch[:, 0]) == [
        i * i for i in range(9)
    ]


def test_large_tasks_and_large_batches_do_not_block_one_another() -> None:
    class Large(data.Dataset):
        def __getitems__(self, indices: list[int]) -> list[Any]:
            return [ferro.full((len(indices),), float(indices[0]))]

    batches = [list(range(i, i + 100_000)) for i in range(6)]
    loader = forked(Large(), batch_sampler=batches, num_workers=1, prefetch_factor=6)
    assert [(batch[0, 0].item(), batch.numel()) for batch in loader] == [(i, 100_000) for i in range(6)]


@pytest.mark.parametrize(
    ("harm", "kind", "message"),
    [
        ("", KeyError, r"Caught KeyError in DataLoader worker process 1.*no such picture.*sample 5 of Squares"),
        ("own", RuntimeError, r"Caught BrokenPictureError in DataLoader worker process 1.*cat is broken in line 3"),
        ("unpicklable", Exception, r"DataLoader worker process 1.*has to pickle what it fetched"),
    ],
)
def test_an_error_is_raised_with_its_type_and_the_sample(harm: str, kind: type[Exception], message: str) -> None:
    iterator = iter(forked(Squares(8, bad=5, harm=harm), None))
    for _ in range(5):
        next(iterator)
    with pytest.raises(kind, match=f"(?s){message}"):
        next(iterator)
    assert [x[0].item() for x in iterator] == [36.0, 49.0], "a loop goes on after an error"


@pytest.mark.parametrize(("harm", "message"), [("kill", "is killed by signal: Killed"), ("exit", "exit code 7")])
def test_a_worker_that_dies_is_reported_at_once(harm: str, message: str) -> None:
    loader = forked(Squares(50, bad=20, harm=harm), 2, persistent_workers=True)
    iterator = iter(loader)
    with pytest.raises(RuntimeError, match=rf"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly.*{message}"):
        list(iterator)
    assert not children()
    with pytest.raises(RuntimeError, match="have ended"):
        next(iterator)
    assert next(iter(loader)).shape == (2, 2), "a new iteration has new workers"
    del iterator, loader


def test_an_early_break_and_a_timeout_leave_no_process() -> None:
    for batch in forked(Squares(100), 2):
        assert batch.shape == (2, 2)
        break
    assert not children()

    class Endless(data.Dataset):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> int:
            while True:
                signal.pause()

    loader = forked(Endless(), num_workers=1, timeout=0.05)
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.05 seconds"):
        next(iter(loader))


def test_workers_know_themselves_and_change_only_their_own_copies() -> None:
    dataset = Squares(4)

    def init(worker: int) -> None:
        info: Any = data.get_worker_info()
        assert (info.id, info.num_workers) == (worker, 2)
        info.dataset.size = 100 + worker

    class Sized(Squares):
        def __getitem__(self, index: int) -> int:
            return self.size

    dataset = Sized(4)
    assert list(forked(dataset, None, worker_init_fn=init)) == [100, 101, 100, 101]
    assert dataset.size == 4

    def fail(worker: int) -> None:
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        list(forked(dataset, worker_init_fn=fail))


def test_persistent_workers_are_the_same_processes_and_forget_an_epoch_that_was_left() -> None:
    class Who(data.Dataset):
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> tuple[int, int]:
            return os.getpid(), index

    loader = forked(Who(), None, persistent_workers=True)
    first = {pid for pid, _ in loader}
    next(iter(loader))
    epoch = list(loader)
    assert {pid for pid, _ in epoch} == first
    assert [index for _, index in epoch] == list(range(8))
    assert len(first) == 2
    assert os.getpid() not in first
    del loader


def test_spawned_workers_get_what_they_need_pickled() -> None:
    loader = DataLoader(Squares(5), 2, num_workers=1, multiprocessing_context=multiprocessing.get_context("spawn"))
    assert [batch[:, 0].tolist() for batch in loader] == [[0.0, 1.0], [4.0, 9.0], [16.0]]
    with pytest.raises(Exception, match=r"lambda|local"):
        list(DataLoader(Squares(5), num_workers=1, multiprocessing_context="spawn", collate_fn=lambda batch: batch))
