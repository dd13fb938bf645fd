"""Groups on NCCL: what differs from MPI, faults, and mistakes in the order of streams that the stand-in finds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.placing import IS_GPU
from tests.distributed.starting import OPEN_MPI, left_over, needs_mpi, slow, started
from tests.distributed.test_mpi import HERE, needs_gpus, ranks

pytestmark = [pytest.mark.timeout(300), needs_mpi]
stand_in_only = pytest.mark.skipif(IS_GPU, reason="the stand-in alone sees the order of accesses")


@pytest.mark.parametrize("count", [2, *(slow(n) for n in (1, 3, 4))])
def test_tensors_of_gpus_travel_by_nccl(count: int) -> None:
    done = ranks(count, HERE / "nccl_on_ranks.py", device="cuda")
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"[0] {count} ranks agree on NCCL" in done.stdout.splitlines()


# -- mistakes that are planted -----------------------------------------------------------------------------------------

BEGIN = """
import ferro, ferro.distributed as dist
from tests.distributed.placing import BACKEND, checked
from ferro.cuda import communicators, pool
from ferro.distributed.device_pending import DevicePending
"""
RUN = """
dist.init_process_group(BACKEND)
RANK, SIZE = dist.get_rank(), dist.get_world_size()
x = ferro.ones(100, device="cuda") * (RANK + 1)
work = dist.all_reduce(x, async_op=True)
work.wait()
assert (x * 2).sum().item() == 100 * SIZE * (SIZE + 1)
side = ferro.cuda.Stream()
with ferro.cuda.stream(side):
    dist.all_reduce(ferro.ones(50, device="cuda"), async_op=True)
    y = ferro.zeros(50, device="cuda")
dist.barrier()
dist.destroy_process_group()
checked()
print("all is well")
"""
PLANTED = {
    "no fault": ("", ""),
    "an exchange that waits for no stream": (
        """
from contextlib import contextmanager
given = communicators.Communicator.given
communicators.Communicator.given = lambda self, *events: given(self)
""",
        r"Race: stream .* writes memory that stream 0x0 has written, and does not wait for it|reads memory that stream",
    ),
    "a wait that waits for nothing": (
        "DevicePending.wait = lambda self, seconds=None: None",
        r"Race: stream 0x0 reads memory that stream .* has written, and does not wait for it",
    ),
    "memory that is given back while it is used": (
        "pool.keep_until = lambda event, held: None",
        "memory was given back before an exchange had ended that uses it",
    ),
    "another operation on one rank": (
        """
reduce = communicators.Communicator.reduce
communicators.Communicator.reduce = lambda self, array, operation, root: reduce(
    self, array, "MAX" if dist.get_rank() else operation, root)
""",
        "ranks call NCCL otherwise",
    ),
}


def run_planted(planted: str, said: str, program: str, folder: Path) -> None:
    """Runs a program with a fault on two ranks: it ends with what is said of the fault, or well if nothing is."""
    script = folder / "script.py"
    script.write_text(BEGIN + planted + program)
    done = ranks(2, script, device="cuda")
    if said:
        assert done.returncode != 0
        assert re.search(said, done.stderr), done.stderr[-3000:]
    else:
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.stdout.count("all is well") == 2


@stand_in_only
@pytest.mark.parametrize("fault", [name if "waits for no stream" in name else slow(name) for name in PLANTED])
def test_mistakes_that_are_planted_are_found(fault: str, tmp_path: Path) -> None:
    run_planted(*PLANTED[fault], RUN, tmp_path)


IN_PARTS = """
from ferro.distributed.fsdp import fully_shard
dist.init_process_group(BACKEND)
layers = [fully_shard(ferro.nn.Linear(30, 30).to("cuda")) for _ in range(3)]
model = fully_shard(ferro.nn.Sequential(*layers))
for _ in range(2):
    model(ferro.ones(4, 30, device="cuda")).sum().backward()
dist.barrier()
dist.destroy_process_group()
checked()
print("all is well")
"""
PLANTED_IN_PARTS = {
    "no fault": ("", ""),
    "parameters that nobody waits for": (
        "from ferro.distributed.fsdp import parameters\nparameters.finish = lambda pending: None",
        r"Race: stream 0x0 reads memory that stream .* has written, and does not wait for it",
    ),
}


@stand_in_only
@pytest.mark.slow
@pytest.mark.parametrize("fault", PLANTED_IN_PARTS)
def test_mistakes_that_are_planted_in_modules_in_parts_are_found(fault: str, tmp_path: Path) -> None:
    run_planted(*PLANTED_IN_PARTS[fault], IN_PARTS, tmp_path)


# -- faults ------------------------------------------------------------------------------------------------------------

FAULTS = """
import sys, threading
from datetime import timedelta
import ferro, ferro.distributed as dist
from tests.distributed.placing import BACKEND

def hang():
    threading.Event().wait()

def run():
    case = sys.argv[1]
    dist.init_process_group(BACKEND, timeout=timedelta(seconds=SECONDS))
    rank = dist.get_rank()
    x = ferro.ones(3, device="cuda")
    dist.all_reduce(x)
    if case == "error" and rank == 0:
        from tests.cuda import stand_in_nccl
        stand_in_nccl.FAULT["status"] = 6
    if rank == 1:
        if case == "leaves":
            sys.exit(0)
        if case == "another":
            dist.broadcast(x, 0)
        if case == "shape":
            dist.all_reduce(ferro.ones(4, device="cuda"))
        hang()
    if case == "barrier":
        dist.barrier()
    work = dist.all_reduce(x, async_op=True)
    if case == "seconds":
        work.wait(timedelta(seconds=0.5))
    work.wait()
    print(x.tolist())

run()
"""
PLACE = r"\S*script\.py:\d+"


@stand_in_only
@pytest.mark.parametrize(
    ("case", "environment", "said"),
    [
        ("hangs", {}, f"all_reduce #3 at {PLACE}.*rank 1 has not come: it last began all_reduce #2 .* in hang"),
        slow("hangs", {"TORCH_NCCL_BLOCKING_WAIT": "1"}, f"all_reduce #3 at {PLACE}.*rank 1 has not come: .* in hang"),
        slow("barrier", {}, f"barrier #3 at {PLACE}.*rank 1 has not come: .* in hang"),
        slow("seconds", {}, f"waited 0.5 s for all_reduce #3 at {PLACE}.*rank 1 has not come: .* in hang"),
        slow("leaves", {}, f"all_reduce #3 at {PLACE}.*rank 1 has ended: it last began all_reduce #2"),
        # (which of its exchanges failed NCCL does not say: it is the first that has not been seen to end)
        ("error", {}, f"all_reduce #[23] at {PLACE}.*NCCL says: NCCL_ERROR_REMOTE_ERROR"),
    ],
)
def test_an_exchange_that_does_not_end_is_named(
    case: str, environment: dict[str, Any], said: str, tmp_path: Path
) -> None:
    """By whoever waits on the processor, else by the thread that looks at exchanges: all ranks end."""
    script = tmp_path / "script.py"
    script.write_text(FAULTS.replace("SECONDS", "8" if OPEN_MPI else "1.5"))
    options = ("--nproc-per-node", "2")
    status, out, error = started(script, case, options=options, FERRO_TEST_DEVICE="cuda", **environment)
    assert status != 0
    report = [line for line in error.splitlines() if line.lstrip("\0").startswith("ferro.distributed.run: ")]
    assert re.search(f"rank 0 of 2 raised DistBackendError: .*{said}", report[0]), error
    assert "[3.0" not in out
    assert not left_over(str(tmp_path))


@pytest.mark.parametrize(
    ("case", "said"),
    [
        slow("another", r"rank 1: broadcast #3 of \[3\] ferro.float32 on cuda:0, root 0 at"),
        ("shape", r"rank 1: all_reduce #3 of \[4\] ferro.float32 on cuda:0, SUM at"),
    ],
)
def test_exchanges_that_do_not_fit_are_found_before_they_begin(case: str, said: str, tmp_path: Path) -> None:
    needs_gpus(2)
    script = tmp_path / "script.py"
    script.write_text(FAULTS.replace("SECONDS", "8" if OPEN_MPI else "1.5"))
    options = ("--nproc-per-node", "2")
    debug: dict[str, Any] = {"FERRO_TEST_DEVICE": "cuda", "FERRO_DISTRIBUTED_DEBUG": "1"}
    status, _, error = started(script, case, options=options, **debug)
    assert status == 1
    assert re.search(rf"DistError: .*rank 0: all_reduce #3 of \[3\] ferro.float32 on cuda:0, SUM at.*{said}", error), (
        error
    )


@stand_in_only
def test_two_ranks_on_one_gpu_are_refused(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(BEGIN + RUN)
    options = ("--nproc-per-node", "2")
    status, _, error = started(script, options=options, FERRO_TEST_DEVICE="cuda", STAND_IN_GPU="4")
    assert status != 0
    assert re.search(r"ranks 0 and 1 have the same GPU \(0000:04:00.0 of .*CUDA_VISIBLE_DEVICES", error), error


@pytest.mark.parametrize(("asked", "seen"), [("3,5", ["3", "5", "3"]), slow("GPU-a", ["GPU-a"] * 3)])
def test_each_rank_sees_one_of_several_gpus(asked: str, seen: list[str], tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os\nprint(os.environ.get('CUDA_VISIBLE_DEVICES'))\n")
    status, out, error = started(script, options=("--nproc-per-node", "3"), CUDA_VISIBLE_DEVICES=asked)
    assert status == 0, error
    assert sorted(out.split()) == sorted([w for r, s in enumerate(seen) for w in (f"[{r}]", s)])
