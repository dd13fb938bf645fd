"""Arenas: arrays get the places of a table, whoever makes them; what is not as planned lies outside, and nothing is shared or lost."""

import re
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

from ferro.native import arena, handlers
from tests.helpers import run_python

pytestmark = pytest.mark.skipif(bool(arena.refusal()), reason=f"no arenas here: {arena.refusal()}")

SIZE = 1 << 16


class Placed:
    """An arena with a table of (size, offset, offsets that must be free) entries; a context in which arrays lie there."""

    def __init__(self, *entries, lent=()):
        self.arena = arena.Arena(SIZE)
        words = []
        for size, offset, *free in entries:
            place = 0 if offset is None else offset if offset > SIZE else self.arena.start + offset
            words += [size, place, len(free), *map(self.arena.begins, free)]
        self.table = np.array([*words, -1, 0, 0], np.int64)
        assert all(self.arena.lend(a) for a in lent)

    def __enter__(self):
        start, self.before = self.table.ctypes.data, self.arena.now()
        self.arena.begin(start)
        return self

    def __exit__(self, *_):
        self.at = (self.arena.end(self.before) - self.table.ctypes.data) // 8
        self.done = self.at == len(self.table) - 3

    def offset(self, x):
        return x.ctypes.data - self.arena.start


def test_arrays_get_their_places():
    with Placed((800, 0), (1600, 4096), (800, 0, 0)) as p:
        x = np.empty(100)
        y = np.empty(200)
        places = x.__array_interface__["data"][0], y.__array_interface__["data"][0]
        del x
        z = np.empty(100)
    assert p.done
    assert [place - p.arena.start for place in places] == [0, 4096]
    assert p.offset(z) == 0
    assert p.arena.live == 2
    assert (p.arena.count(0), p.arena.count(4096)) == (1, 1)
    del y, z
    assert p.arena.live == 0


def test_zeros_are_zero_in_a_place_that_was_used():
    with Placed((800, 0), (800, 0, 0)) as p:
        x = np.empty(100)
        x.fill(7)
        del x
        y = np.zeros(100)
    assert p.done
    assert p.offset(y) == 0
    assert not y.any()


def test_another_size_goes_outside_with_all_behind_it():
    with Placed((800, 0), (800, 4096), (800, 8192)) as p:
        x, y, z = np.empty(100), np.empty(101), np.empty(100)
    assert not p.done
    assert p.offset(x) == 0
    assert not 0 <= p.offset(y) < SIZE
    assert not 0 <= p.offset(z) < SIZE
    assert p.arena.words[arena.OUTSIDE] == 808 + 800


def test_a_place_that_is_not_free_is_not_given():
    with Placed((800, 0), (800, 64, 0)) as p:
        x = np.empty(100)
        y = np.empty(100)
    assert not p.done
    assert p.offset(x) == 0
    assert not 0 <= p.offset(y) < SIZE


def test_an_entry_may_lie_outside():
    with Placed((800, None), (800, 128)) as p:
        x, y = np.empty(100), np.empty(100)
    assert p.done
    assert not 0 <= p.offset(x) < SIZE
    assert p.offset(y) == 128
    assert p.arena.words[arena.OUTSIDE] == 800


def test_lent_memory_is_not_freed_with_the_arrays_in_it():
    mine = np.arange(300.0)
    start, count = mine.ctypes.data, sys.getrefcount(mine)
    with Placed((800, start), (800, start + 800), (800, start + 1600), lent=[mine]) as p:
        x, y, z = np.empty(100), np.empty(100), np.empty(100)
    assert p.done
    assert [a.ctypes.data - start for a in (x, y, z)] == [0, 800, 1600]
    x += 1
    z[:] = 7
    del x, z
    p.arena.settle()
    assert sys.getrefcount(mine) == count + 1  # (y lies there)
    assert p.arena.live == 0
    del y
    p.arena.settle()
    assert sys.getrefcount(mine) == count
    np.testing.assert_array_equal(mine[:200], np.arange(200.0) + (np.arange(200) < 100))
    np.testing.assert_array_equal(mine[200:], np.full(100, 7.0))


def test_not_everything_is_lent():
    a = arena.Arena(SIZE)
    some = [np.empty(8) for _ in range(20)]
    assert [a.lend(x) for x in some].count(True) == 16
    a.settle()
    assert a.lend(some[0])
    a.settle()


def test_an_array_that_grows_leaves_the_arena():
    with Placed((800, 0), (800, 4096)) as p:
        x = np.empty(100)
        for i in range(100):
            x[i] = i
        before = p.arena.live
        x.resize(1000, refcheck=False)
    assert before == 1
    assert p.arena.live == 0
    np.testing.assert_array_equal(x[:100], np.arange(100.0))
    assert not x[100:].any()
    x.resize(50, refcheck=False)
    np.testing.assert_array_equal(x, np.arange(50.0))


def test_what_is_recorded_is_what_happened():
    a = arena.Arena(0)
    log = np.zeros(100, np.int64)
    a.log(log)
    before = a.now()
    a.begin(a.none)
    x = np.empty(100)
    y = np.empty(200)
    places = x.__array_interface__["data"][0], y.__array_interface__["data"][0]
    del x
    a.end(before)
    count = (a.logged - log.ctypes.data) // 8
    a.log(None)
    assert log[:count].reshape(-1, 2).tolist() == [[800, places[0]], [1600, places[1]], [0, places[0]]]
    del y
    assert count == 6


def test_a_log_that_is_full_ends():
    a = arena.Arena(0)
    log = np.zeros(4 + 2, np.int64)
    a.log(log[:4])
    before = a.now()
    a.begin(a.none)
    kept = [np.empty(100) for _ in range(5)]
    a.end(before)
    assert a.logged == log.ctypes.data + 32
    assert not log[4:].any()
    assert len(kept) == 5


def test_other_threads_take_memory_as_ever():
    found = []
    with Placed((800, 0)) as p:
        thread = threading.Thread(target=lambda: found.append(np.empty(100)))
        thread.start()
        thread.join(60)
        x = np.empty(100)
    assert p.done
    assert p.offset(x) == 0
    assert not 0 <= p.offset(found[0]) < SIZE


def test_two_arenas_of_one_memory():
    first = Placed((800, 0))
    other = arena.Arena(0, first.arena)
    assert (other.start, other.size) == (first.arena.start, first.arena.size)
    table = np.array([800, first.arena.start + 4096, 1, first.arena.begins(0), -1, 0, 0], np.int64)
    with first:
        x = np.empty(100)
    start, before = table.ctypes.data, other.now()
    other.begin(start)
    y = np.empty(100)  # x is still there
    other.end(before)
    assert not 0 <= first.offset(y) < SIZE
    del x
    start, before = table.ctypes.data, other.now()
    other.begin(start)
    y = np.empty(100)
    other.end(before)
    assert first.offset(y) == 4096
    place = first.arena.start
    first.arena.close()
    other.close()
    y.fill(3)  # the memory stays while an array lies in it
    assert y.ctypes.data == place + 4096
    assert y.sum() == 300


def test_contexts_are_used_again():
    def one():
        with Placed((800, 0)) as p:
            x = np.empty(100)
        assert p.done
        del x
        context = p.arena._context
        p.arena.close()
        return context

    assert len({id(one()) for _ in range(20)}) == 1


# Arrays in arenas come and go until the very end of the process, and a module that is loaded again finds its arenas in place.
END = """
import sys
import numpy as np
from ferro.native import arena
kept = []
for i in range(50):
    a = arena.Arena(1 << 16)
    table = np.array([800, a.start, 0, 800, a.start + 4096, 0, -1, 0, 0], np.int64)
    start, before = table.ctypes.data, a.now()
    a.begin(start)
    kept += [np.empty(100), np.empty(100), np.empty(5000)]
    a.end(before)
    if i % 2:
        a.close()
for x in kept:
    x.fill(1)
sys.kept = kept
print(sum(x.sum() for x in kept))
"""


def test_arrays_outlive_everything():
    assert float(run_python(END)) == 50 * 5200


@pytest.mark.skipif(not shutil.which("objdump"), reason="no objdump to ask")
def test_the_bytes_say_what_stands_beside_them(tmp_path):
    """A disassembler reads the machine code as the text does."""
    code, labels = arena._assembled()
    (tmp_path / "code").write_bytes(code)
    command = ["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "-M", "intel", str(tmp_path / "code")]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    found = [m[1] for line in text.splitlines() if (m := re.match(r"\s+[0-9a-f]+:\t(?:[0-9a-f]{2} )+\s*\t(.*)", line))]
    lines = [line.strip().partition("  ") for line in arena._CODE.strip().splitlines() if not line.endswith(":")]
    assert len(found) == len(lines)
    names = {f"{8 * k}": name for k, name in enumerate(arena.WORDS)}

    def plain(line):
        line = re.sub(r"\s+", " ", line.strip()).replace("QWORD PTR ", "").replace("BYTE PTR ", "byte ")
        line = re.sub(r"0x([0-9a-f]+)", lambda m: str(int(m[1], 16)), line)
        line = re.sub(r"\[rdi(?:\+(\d+))?\]", lambda m: f"[{names[m[1] or '0']}]", line)
        target = re.fullmatch(r"(j\w+|call) (\d+)", line)
        if target:
            place = int(target[2])
            line = f"{target[1]} {next(n for n, at in labels.items() if at == place)}"
        return re.sub(r"(movabs rax,)(\d+|\w+)", r"\1...", line)

    for got, (_, _, want) in zip(found, lines, strict=True):
        assert plain(got) == plain(want)


def test_where_handlers_are_not_known_there_are_no_arenas(monkeypatch):
    def refuses():
        raise RuntimeError("planted")

    monkeypatch.setattr(arena, "handlers", refuses)
    arena._base.cache_clear()
    arena.refusal.cache_clear()
    try:
        assert "planted" in arena.refusal()
    finally:
        monkeypatch.undo()
        arena.refusal.cache_clear()
    assert arena.refusal() == ""
    assert handlers.current_name() in ("ferro", "default_allocator")
