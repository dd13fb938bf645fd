"""A script for several ranks in which one goes wrong: `faults_on_ranks.py CASE RANK STEP SECONDS`.

All ranks exchange tensors, step by step. In the given step the given rank does what CASE says; the others shall raise. After a restart
all goes well.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from datetime import timedelta

import ferro
import ferro.distributed as dist

CASE, BAD, STEP, SECONDS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
IS_FIRST = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
if CASE == "dies" and IS_FIRST and int(os.environ["RANK"]) == BAD:
    signal.setitimer(
        signal.ITIMER_REAL, 0.05 * (STEP + 1)
    )  # (at any moment from then on, that of the beginning included)
if CASE in ("absent", "late") and IS_FIRST and int(os.environ["RANK"]) == BAD:
    if CASE == "absent":
        sys.exit(0)
    threading.Event().wait()
dist.init_process_group("mpi", timeout=timedelta(seconds=SECONDS))
RANK, SIZE = dist.get_rank(), dist.get_world_size()
pair = dist.new_group(sorted({BAD % SIZE, (BAD + 1) % SIZE}))


def hang() -> None:
    """Waits for what never comes."""
    threading.Event().wait()


def goes_wrong() -> None:
    x = ferro.ones(3)
    if CASE == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif CASE == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif CASE == "hangs":
        hang()
    elif CASE == "raises":
        raise ValueError(f"of step {STEP}")
    elif CASE in ("leaves", "exits"):
        sys.exit(0 if CASE == "leaves" else 7)
    elif CASE == "vanishes":
        os._exit(5)
    elif CASE == "destroys":
        dist.destroy_process_group()
        hang()
    elif CASE == "another":
        dist.broadcast(x, BAD)
    elif CASE == "shape":
        dist.all_reduce(ferro.ones(4))
    elif CASE == "dtype":
        dist.all_reduce(ferro.ones(3, dtype=ferro.float64))
    elif CASE == "operation":
        dist.all_reduce(x, dist.ReduceOp.MAX)
    elif CASE == "order":
        dist.barrier(pair)
    elif CASE == "receives":
        dist.recv(x, (BAD + 1) % SIZE)


step = 0
while step < STEP + 2 or (CASE == "dies" and IS_FIRST):
    if step == STEP and RANK == BAD and IS_FIRST:
        goes_wrong()
    dist.all_reduce(ferro.ones(3))
    step += 1
print("all steps are done")
