"""A script for several ranks: objects of every kind of plain data, others, and a rank that sends pickles. Argument: a folder."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np

import ferro
import ferro.distributed as dist
from ferro.core.base import wrap

dist.init_process_group("mpi")
RANK, SIZE = dist.get_rank(), dist.get_world_size()


class Bomb:
    """A pickle of it creates a file when it is read."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path(sys.argv[1], f"of rank {RANK}"),)


def of(rank: int) -> dict:
    """What a rank has: of another size on each."""
    return {
        "rank": rank,
        "names": tuple("x" * k for k in range(rank)),
        ("loss", rank): [0.1 * rank, 2**70, None, 1j],
        "numbers": np.arange(rank + 1, dtype=np.float32),
        "tensor": ferro.arange(3 * rank).reshape(rank, 3).to(ferro.bfloat16),
    }


def same(got: Any, rank: int) -> None:
    want = of(rank)
    assert [k for k in got if k != "numbers"] == [k for k in want if k != "numbers"]
    for key in ("rank", "names", ("loss", rank)):
        assert got[key] == want[key], (got, want)
    np.testing.assert_array_equal(got["numbers"], want["numbers"])
    assert got["numbers"].dtype == np.float32
    assert got["tensor"].dtype is ferro.bfloat16
    assert got["tensor"].shape == (rank, 3)
    assert got["tensor"].float().tolist() == want["tensor"].float().tolist()


def raises(kind: type[Exception], words: str, call: Any) -> None:
    said = ""
    try:
        call()
    except kind as error:
        said = str(error)
    assert words in said, said


# what each exchange gives
found: list = [None] * SIZE
dist.all_gather_object(found, of(RANK))
for rank, value in enumerate(found):
    same(value, rank)
last = SIZE - 1
found = [None] * SIZE
dist.gather_object(of(RANK), found if last == RANK else None, last)
for rank in range(SIZE if last == RANK else 0):
    same(found[rank], rank)
told: list = [of(last), "text"] if last == RANK else [None, None]
dist.broadcast_object_list(told, last)
same(told[0], last)
assert told[1] == "text"
mine: list = [None]
dist.scatter_object_list(mine, [of(r) for r in range(SIZE)] if last == RANK else None, last)
same(mine[0], RANK)

# from one rank to another: around a ring, and from any
after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
got: list = [None, None]
if RANK == 0:
    dist.send_object_list([of(0), "sent"], after)
    assert dist.recv_object_list(got, before) == before
else:
    assert dist.recv_object_list(got) == before
    dist.send_object_list([of(RANK), "sent"], after)
same(got[0], before)
assert got[1] == "sent"

# what is no plain data is refused before anything is sent: all go on
raises(TypeError, "GroupOptions(allow_pickle=True)", lambda: dist.all_gather_object(found, Bomb()))
dist.barrier()

# a rank that sends what it should not
group: Any = dist.group.WORLD
evil = b"p" + pickle.dumps(Bomb())
if last == RANK:
    group.exchanged(evil, "all_gather_object")
    group.exchanged(b"j" + evil, "broadcast_object_list")
    for to in range(last):
        dist.send(wrap(np.array([len(evil)])), to)
        dist.send(wrap(np.frombuffer(evil, np.uint8).copy()), to)
else:
    raises(dist.DistError, f"rank {last} has sent a pickle", lambda: dist.all_gather_object([None] * SIZE, 1))
    raises(dist.DistError, f"rank {last} has sent bytes", lambda: dist.broadcast_object_list([None], last))
    raises(dist.DistError, f"rank {last} has sent a pickle", lambda: dist.recv_object_list([None], last))
dist.barrier()

# lists of other lengths
if RANK == 0:
    dist.broadcast_object_list([1, 2], 0)
else:
    raises(dist.DistError, "a list of 2 where a list of 1", lambda: dist.broadcast_object_list([None], 0))
dist.destroy_process_group()

# where pickles are allowed, also in groups made of that one
dist.init_process_group("mpi", pg_options=dist.GroupOptions(allow_pickle=True))
for where in (None, dist.new_group(list(range(SIZE)))):
    found = [None] * SIZE
    dist.all_gather_object(found, slice(RANK, SIZE), where)
    assert found == [slice(r, SIZE) for r in range(SIZE)]
dist.destroy_process_group()
if RANK == 0:
    print(f"{SIZE} ranks agree on objects")
