"""The worker pool that takes chunks of kernels: who computes what, and that nobody is waited for in vain."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from ferro.native import loader, thread_pool, threads, workers
from ferro.native.readiness import get
from ferro.native.work_queue import SHARED
from tests.configuration import with_kernels

numba = pytest.importorskip("numba")
from ferro.native import jit_work_queue  # noqa: E402 - it needs Numba

_load = jit_work_queue._load


@pytest.fixture(autouse=True)
def _two_threads(monkeypatch):
    before, told = threads.get_num_threads(), SHARED.copy()
    threads.set_num_threads(2)
    monkeypatch.setattr(workers, "_MOST", 2)
    monkeypatch.setattr(workers, "_made", workers._made)  # it and the numbers of its queue belong together
    yield
    SHARED[:] = told
    threads.set_num_threads(before)


@pytest.fixture
def own_pool(monkeypatch):
    """A pool that never sleeps, and ends with the test."""
    monkeypatch.setattr(workers, "PATIENCE", 1 << 60)
    found = workers._WorkerPool()
    monkeypatch.setattr(workers, "_made", found)
    yield found
    found.halt()
    assert not any(member.is_alive() for member in found.members)


def parallel(function, *args):
    """The parallel version of a function, compiled here and now."""
    found = jit_work_queue.parallel_version(numba.njit(nogil=True)(function), function.__name__)
    found.compile((*[numba.int64] * 6, *map(numba.typeof, args)))
    return found


def mark_rows(start, stop, out):
    for k in range(start, stop):
        out[k] += 1 + k


LIMIT = 20_000_000_000  # looks; nobody waits that long where two compute at the same time


def meet(start, stop, places, looks):
    """Chunk k says that it is here, and waits for the other one."""
    for k in range(start, stop):
        places[k] = 1
        while _load(places.ctypes.data, 1 - k) == 0 and looks[k] < LIMIT:
            looks[k] += 1


@pytest.mark.parametrize("chunks", [1, 2, 3, 7, 32])
@pytest.mark.parametrize("length", [1, 5, 100, 1001])
def test_every_row_is_computed_once(own_pool, chunks, length):
    out = np.zeros(length, np.int64)
    run = parallel(mark_rows, 0, 0, out)
    for _ in range(50):
        out[:] = 0
        workers.share(run, 1, chunks, length, (0, length, out), whole=-1, span=0)
        assert (out == np.arange(1, length + 1)).all()


@pytest.mark.timeout(300)
def test_members_compute_at_the_same_time_as_the_caller(own_pool):
    places, looks = np.zeros(2, np.int64), np.zeros(2, np.int64)
    run = parallel(meet, 0, 0, places, looks)
    own_pool.gather(1)  # on its way now, and never asleep: sooner or later it takes the chunk that the caller waits for
    workers.share(run, 1, 2, 2, (0, 2, places, looks), whole=-1, span=0)
    assert places.tolist() == [1, 1]
    assert looks.max() < LIMIT


def test_arrays_are_cut_along_their_first_axis_and_whole_ones_are_not(own_pool):
    def scale(x, w, factor, out):
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = x[i, j] * w[j] * factor + x.size

    x, w, out = np.arange(12.0).reshape(4, 3), np.array([1.0, 2.0, 3.0]), np.zeros((4, 3))
    run = parallel(scale, x, w, 2.0, out)
    workers.share(run, 1, 4, 4, (x, w, 2.0, out), whole=0b10, span=-2)
    assert (out == x * w * 2 + 3).all()  # a chunk is one row of three numbers


def test_members_are_called_before_the_work_begins(own_pool):
    def run(*_):
        counts.append(len(own_pool.members))
        return 0

    counts: list = []
    assert workers.share(run, 1, 2, 10, (), whole=-1, span=0)
    assert counts == [1]


def test_a_chunk_that_fails_is_told(own_pool):
    def fail(start, stop, out):
        if start > 0:
            raise ValueError
        out[start] = 1

    out = np.zeros(4)
    run = parallel(fail, 0, 0, out)
    with pytest.raises(MemoryError, match="chunk"):
        workers.share(run, 1, 4, 4, (0, 4, out), whole=-1, span=0)
    assert out[0] == 1


def test_two_callers_at_once_both_get_everything(own_pool):
    out = [np.zeros(1000, np.int64) for _ in range(3)]
    run = parallel(mark_rows, 0, 0, out[0])

    def call(mine):
        for _ in range(200):
            workers.share(run, 1, 10, 1000, (0, 1000, mine), whole=-1, span=0)

    callers = [threading.Thread(target=call, args=(mine,)) for mine in out]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert all((mine == 200 * np.arange(1, 1001)).all() for mine in out)


def test_a_thread_that_sleeps_is_woken_for_the_next_kernel(monkeypatch):
    monkeypatch.setattr(workers, "PATIENCE", 0)  # goes to sleep at once
    found = workers._WorkerPool()
    monkeypatch.setattr(workers, "_made", found)
    out = np.zeros(10, np.int64)
    run = parallel(mark_rows, 0, 0, out)
    for _ in range(100):
        workers.share(run, 1, 2, 10, (0, 10, out), whole=-1, span=0)
    assert (out == 100 * np.arange(1, 11)).all()
    assert len(found.members) == 1  # the same one every time
    found.halt()


@with_kernels
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("gelu", (np.linspace(-5, 5, 40_000, dtype=np.float32), np.empty(40_000, np.float32))),
        ("max_pool_vjp", (np.ones((64, 9)), np.tile(np.arange(9), (64, 1)), np.zeros((64, 36)))),
    ],
)
def test_kernels_give_the_same_numbers_whoever_computes_them(name, args):
    threads.set_num_threads(1)
    workers.run_rows(name, 8, len(args[0]), args)
    expected, args[-1][:] = args[-1].copy(), 0
    threads.set_num_threads(2)
    workers.run_rows(name, 8, len(args[0]), args)
    if loader.SUPPORTED:  # they have the same machine code (a test before this one may have asked for more)
        assert get(f"{name}.rows").tags <= get(name).tags
    assert (args[-1] == expected).all()


def test_inside_a_worker_nobody_helps():
    counts = []
    thread_pool.run_workers(lambda index: counts.append(workers.helpers()), 2)
    assert counts == [0, 0]
    assert workers.helpers() == 1


def test_the_process_ends_while_members_watch():
    code = (
        "import numpy as np\n"
        "from ferro.native import workers, threads\n"
        "workers.PATIENCE = 1 << 60\n"
        "threads.set_num_threads(3)\n"
        "workers._workers().gather(2)\n"
        "print('done')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_makes_a_pool_of_its_own():
    code = (
        "import os, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "import numpy as np\n"
        "from ferro.native import workers, threads\n"
        "from ferro.native import readiness\n"
        "threads.set_num_threads(2)\n"
        "x = np.ones(100000, np.float32); out = np.empty_like(x)\n"
        "for _ in range(3):\n"
        "    workers.run_rows('sigmoid', 8, len(x), (x, out)); readiness.finish()\n"
        "child = os.fork()\n"
        "out[:] = 0\n"
        "for _ in range(3):\n"
        "    workers.run_rows('sigmoid', 8, len(x), (x, out))\n"
        "assert abs(out - 0.7310586).max() < 1e-6\n"
        "assert len(workers._made.members) == 1\n"
        "if child:\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "else:\n"
        "    os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
