"""The team of threads that takes chunks of kernels: who computes what, and that nobody is waited for in vain."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from ferro.cpu import kernels, team, threads
from ferro.cpu.kernels import background
from ferro.cpu.kernels.board import SHARED
from tests.configuration import with_kernels

numba = pytest.importorskip("numba")
from ferro.cpu.kernels import jit_team  # noqa: E402 - it needs Numba

_load = jit_team._load


@pytest.fixture(autouse=True)
def _two_threads(monkeypatch):
    before, told = threads.get_num_threads(), SHARED.copy()
    threads.set_num_threads(2)
    monkeypatch.setattr(team, "_MOST", 2)
    yield
    SHARED[:] = told  # the teams made here are no longer there
    threads.set_num_threads(before)


@pytest.fixture
def own_team(monkeypatch):
    """A team that never sleeps, and ends with the test."""
    monkeypatch.setattr(team, "PATIENCE", 1 << 60)
    found = team._Team()
    monkeypatch.setattr(team, "_made", found)
    yield found
    found.halt()
    assert not any(member.is_alive() for member in found.members)


def twin(function, *args):
    """The twin of a function, compiled here and now."""
    found = jit_team.rows_of(numba.njit(nogil=True)(function))
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
def test_every_row_is_computed_once(own_team, chunks, length):
    out = np.zeros(length, np.int64)
    run = twin(mark_rows, 0, 0, out)
    for _ in range(50):
        out[:] = 0
        team.share(run, 1, chunks, length, (0, length, out), whole=-1, span=0)
        assert (out == np.arange(1, length + 1)).all()


@pytest.mark.timeout(300)
def test_members_compute_at_the_same_time_as_the_caller(own_team):
    places, looks = np.zeros(2, np.int64), np.zeros(2, np.int64)
    run = twin(meet, 0, 0, places, looks)
    own_team.gather(1)  # on its way now, and never asleep: sooner or later it takes the chunk that the caller waits for
    team.share(run, 1, 2, 2, (0, 2, places, looks), whole=-1, span=0)
    assert places.tolist() == [1, 1]
    assert looks.max() < LIMIT


def test_arrays_are_cut_along_their_first_axis_and_whole_ones_are_not(own_team):
    def scale(x, w, factor, out):
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = x[i, j] * w[j] * factor + x.size

    x, w, out = np.arange(12.0).reshape(4, 3), np.array([1.0, 2.0, 3.0]), np.zeros((4, 3))
    run = twin(scale, x, w, 2.0, out)
    team.share(run, 1, 4, 4, (x, w, 2.0, out), whole=0b10, span=-2)
    assert (out == x * w * 2 + 3).all()  # a chunk is one row of three numbers


def test_members_are_called_before_the_work_begins(own_team):
    def run(*_):
        counts.append(len(own_team.members))
        return 0

    counts: list = []
    assert team.share(run, 1, 2, 10, (), whole=-1, span=0)
    assert counts == [1]


def test_the_kernel_answers_while_there_is_no_machine_code_of_its_twin(monkeypatch):
    """And what the twin has not been compiled for is ordered, not computed by it."""
    x, out = np.linspace(-5, 5, 8).astype(np.float32), np.empty(8, np.float32)
    ordered = []
    monkeypatch.setattr(background, "ready_for", lambda kernel, args: ordered.append(kernel.name))
    monkeypatch.setattr(kernels.get("gelu.rows"), "runs", ())
    threads.set_num_threads(2)
    team.run_rows("gelu", 8, len(x), (x, out))
    threads.set_num_threads(1)
    assert ordered == ["gelu.rows"]
    expected = np.empty_like(out)
    team.run_rows("gelu", 8, len(x), (x, expected))
    assert (out == expected).all()


def test_a_chunk_that_fails_is_told(own_team):
    def fail(start, stop, out):
        if start > 0:
            raise ValueError
        out[start] = 1

    out = np.zeros(4)
    run = twin(fail, 0, 0, out)
    with pytest.raises(MemoryError, match="chunk"):
        team.share(run, 1, 4, 4, (0, 4, out), whole=-1, span=0)
    assert out[0] == 1


def test_two_callers_at_once_both_get_everything(own_team):
    out = [np.zeros(1000, np.int64) for _ in range(3)]
    run = twin(mark_rows, 0, 0, out[0])

    def call(mine):
        for _ in range(200):
            team.share(run, 1, 10, 1000, (0, 1000, mine), whole=-1, span=0)

    callers = [threading.Thread(target=call, args=(mine,)) for mine in out]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert all((mine == 200 * np.arange(1, 1001)).all() for mine in out)


def test_a_thread_that_sleeps_is_woken_for_the_next_kernel(monkeypatch):
    monkeypatch.setattr(team, "PATIENCE", 0)  # goes to sleep at once
    found = team._Team()
    monkeypatch.setattr(team, "_made", found)
    out = np.zeros(10, np.int64)
    run = twin(mark_rows, 0, 0, out)
    for _ in range(100):
        team.share(run, 1, 2, 10, (0, 10, out), whole=-1, span=0)
    assert (out == 100 * np.arange(1, 11)).all()
    assert len(found.members) == 1  # the same one every time
    found.halt()


@with_kernels
@pytest.mark.parametrize(("name", "args"), [
    ("gelu", (np.linspace(-5, 5, 40_000, dtype=np.float32), np.empty(40_000, np.float32))),
    ("max_pool_vjp", (np.ones((64, 9)), np.tile(np.arange(9), (64, 1)), np.zeros((64, 36)))),
])  # fmt: skip
def test_kernels_give_the_same_numbers_whoever_computes_them(name, args):
    threads.set_num_threads(1)
    team.run_rows(name, 8, len(args[0]), args)
    expected, args[-1][:] = args[-1].copy(), 0
    threads.set_num_threads(2)
    team.run_rows(name, 8, len(args[0]), args)  # the twin is being made: the kernel itself answers
    background.finish()
    assert (args[-1] == expected).all()
    args[-1][:] = 0
    assert kernels.get(f"{name}.rows").runs
    team.run_rows(name, 8, len(args[0]), args)
    assert (args[-1] == expected).all()


def test_inside_a_worker_nobody_helps():
    counts = []
    threads.run_workers(lambda index: counts.append(team.helpers()), 2)
    assert counts == [0, 0]
    assert team.helpers() == 1


def test_the_process_ends_while_members_watch():
    code = (
        "import numpy as np\n"
        "from ferro.cpu import team, threads\n"
        "team.PATIENCE = 1 << 60\n"
        "threads.set_num_threads(3)\n"
        "team._team().gather(2)\n"
        "print('done')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_makes_a_team_of_its_own():
    code = (
        "import os, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "import numpy as np\n"
        "from ferro.cpu import team, threads\n"
        "from ferro.cpu.kernels import background\n"
        "threads.set_num_threads(2)\n"
        "x = np.ones(100000, np.float32); out = np.empty_like(x)\n"
        "for _ in range(3):\n"
        "    team.run_rows('sigmoid', 8, len(x), (x, out)); background.finish()\n"
        "child = os.fork()\n"
        "out[:] = 0\n"
        "for _ in range(3):\n"
        "    team.run_rows('sigmoid', 8, len(x), (x, out))\n"
        "assert abs(out - 0.7310586).max() < 1e-6\n"
        "assert len(team._made.members) == 1\n"
        "if child:\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "else:\n"
        "    os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
