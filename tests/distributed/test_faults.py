"""Ranks that die, hang, leave or mean another exchange: the others raise in time, say which rank it was, and all end."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import ferro
from tests.distributed.starting import OPEN_MPI, left_over, needs_mpi, slow, started

SCRIPT = Path(__file__).parent / "faults_on_ranks.py"
PLACE = r"\S*faults_on_ranks\.py:\d+"
pytestmark = pytest.mark.timeout(300)


@needs_mpi
@pytest.mark.parametrize(
    ("case", "said"),
    [
        (
            "hangs",
            f"DistBackendError: .*all_reduce #5 at {PLACE}.*rank 1 has not come: it last began .*#4 .* is at {PLACE} in hang",
        ),
        slow("stopped", "DistBackendError: .*all_reduce #5 .*rank 1 does not answer"),
        ("leaves", "DistBackendError: .*all_reduce #5 .*rank 1 has ended: it last began all_reduce #4"),
        slow("destroys", "DistBackendError: .*all_reduce #5 .*rank 1 has destroyed the group"),
        slow(
            "another", f"DistBackendError: .*: rank . began .* #5 at {PLACE}.*, where this rank began .* #5 at {PLACE}"
        ),
    ],
)
def test_a_rank_that_does_not_come_is_named(case: str, said: str) -> None:
    seconds = "8" if OPEN_MPI else "1.5"
    status, out, error = started(SCRIPT, case, "1", "3", seconds, options=("--nproc-per-node", "3"))
    assert status != 0
    assert re.search(
        f"^\\0*ferro.distributed.run: .* has ended with status 1: rank . of 3 raised {said}", error, re.MULTILINE
    ), error
    assert "all steps are done" not in out


@needs_mpi
@pytest.mark.parametrize(
    ("case", "said"),
    [
        slow("another", r"rank 1: broadcast #5 of \[3\] ferro.float32, root 1 at"),
        ("shape", r"rank 1: all_reduce #5 of \[4\] ferro.float32, SUM at"),
    ],
)
def test_exchanges_that_do_not_fit_are_found_before_they_begin(case: str, said: str) -> None:
    """Without the comparison some of these hang, some give wrong numbers, and one ends in MPI's own assertion."""
    options = ("--nproc-per-node", "3")
    status, _, error = started(SCRIPT, case, "1", "3", "60", options=options, FERRO_DISTRIBUTED_DEBUG="1")
    assert status == 1
    others = r"ranks 0, 2: all_reduce #5 of \[3\] ferro.float32, SUM at"
    assert re.search(f"DistError: .*{others} {PLACE}.*{said} {PLACE} in goes_wrong", error), error


@needs_mpi
@pytest.mark.skipif(OPEN_MPI, reason="Open MPI itself ends the others when a rank ends before MPI has begun")
def test_a_rank_that_never_begins_does_not_hold_up_the_others() -> None:
    """MPI's own beginning waits for all, and lets no other thread run."""
    status, _, error = started(SCRIPT, "absent", "1", "0", "2", options=("--nproc-per-node", "2"))
    assert status == 1
    assert re.search(r"^Timeout \(0:00:02\)!", error, re.MULTILINE)
    assert re.search('File "[^\n]*/group.py", line [0-9]+ in init_process_group', error)
    assert "rank 0 of 2 has ended with status 1" in error


@needs_mpi
def test_waiting_for_a_work_has_a_limit_and_can_go_on(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from datetime import timedelta\n"
        "import ferro, ferro.distributed as dist\n"
        "dist.init_process_group('mpi')\n"
        "short, x, late = timedelta(seconds=0.2), ferro.ones(2), ferro.ones(1)\n"
        "if dist.get_rank() == 0:\n"
        "    work = dist.all_reduce(x, async_op=True)\n"
        "    for wait in (work.wait, lambda t: dist.monitored_barrier(timeout=t)):\n"
        "        try:\n"
        "            wait(short)\n"
        "        except dist.DistBackendError as error:\n"
        "            print(error)\n"
        "    print(work.exception() is not None)\n"
        "    dist.send(late, 1)\n"
        "    print(work.wait(), work.exception(), x)\n"
        "else:\n"
        "    dist.recv(late, 0)\n"
        "    dist.all_reduce(x)\n"
        "    dist.monitored_barrier()\n"
        "print('ended')\n"
    )
    status, out, error = started(script, options=("--nproc-per-node", "2"))
    assert status == 0, error
    lines = [line for line in out.splitlines() if line.startswith("[0]")]
    assert re.search("waited 0.2 s for all_reduce #1 .*rank 1 has not come: it has begun nothing", lines[0])
    assert re.search("waited 0.2 s for monitored_barrier #2 .*rank 1 has not come", lines[1])
    assert lines[2:] == ["[0] True", "[0] True None tensor([2., 2.])", "[0] ended"]


def test_a_timeout_must_be_a_timedelta() -> None:
    ferro.distributed.init_process_group("gloo", rank=0, world_size=1)
    try:
        for call in (ferro.distributed.barrier, ferro.distributed.monitored_barrier):
            with pytest.raises(TypeError, match=r"timeout must be a datetime.timedelta, got 3"):
                call(timeout=3)
        with pytest.raises(TypeError, match=r"datetime\.timedelta"):
            ferro.distributed.new_group([0], timeout=3)  # type: ignore[arg-type]
    finally:
        ferro.distributed.destroy_process_group()


# What each case makes some rank say; with "debug" exchanges are compared.
SAID = {
    "killed": r"rank BAD of \d was ended by signal 9 \(SIGKILL\)",
    "dies": r"rank BAD of \d was ended by signal 14 \(SIGALRM\)",
    "vanishes": r"rank BAD of \d has ended with status 5",
    "raises": r"rank BAD of \d raised ValueError: of step \d+ at",
    "exits": r"rank BAD of \d has called sys.exit\(7\)",
    "leaves": "raised DistBackendError: .*rank BAD has ended",
    "hangs": "raised DistBackendError: .*rank BAD has not come: .* is at .* in hang",
    "stopped": "raised DistBackendError: .*rank BAD does not answer",
    "destroys": "raised DistBackendError: .*rank BAD has destroyed the group",
    "absent": r"rank \d of \d has ended with status 1",
    "late": r"rank \d of \d has ended with status 1",
    "order": r"raised DistBackendError: .*rank \d has not come",
    "receives": r"raised DistBackendError: .*rank \d has not come",
    "another": r"raised DistBackendError: .*rank \d began .*, where this rank began",
    "debug another": "raised DistError: .*rank BAD: broadcast #",
    "debug shape": r"raised DistError: .*rank BAD: all_reduce #\d+ of \[4\]",
    "debug dtype": r"raised DistError: .*rank BAD: all_reduce #\d+ of \[3\] ferro.float64",
    "debug operation": r"raised DistError: .*rank BAD: all_reduce #\d+ of \[3\] ferro.float32, MAX",
}


@needs_mpi
@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(200))
def test_random_faults_end_in_a_clear_error_or_a_restart(seed: int, tmp_path: Path) -> None:
    """Of 2 to 4 ranks one goes wrong at some step; a third of the runs start again, and end well."""
    rng = np.random.default_rng(seed)
    name = list(SAID)[seed % len(SAID)]
    ranks, again = int(rng.integers(2, 5)), bool(rng.integers(3) == 0)
    bad, step = int(rng.integers(ranks)), int(rng.integers(30))
    script = Path(shutil.copy(SCRIPT, tmp_path))
    least = int(rng.integers(1, ranks + 1))
    options = ("--nproc-per-node", str(ranks), *(("--max-restarts", "1", "--min-nproc", str(least)) if again else ()))
    debug = {"FERRO_DISTRIBUTED_DEBUG": "1"} if name.startswith("debug ") else {}
    case = name.removeprefix("debug ")
    status, out, error = started(script, case, str(bad), str(step), "2", options=options, seconds=90, **debug)
    report = [line for line in error.splitlines() if line.startswith("ferro.distributed.run: ")]
    assert re.search(SAID[name].replace("BAD", str(bad)), report[0]), error
    if case in ("absent", "late"):
        assert re.search('^Timeout .*"[^\n]*faults_on_ranks.py", line', error, re.MULTILINE | re.DOTALL), error
    if again:
        assert status == 0, error
        assert f"starts again with {max(least, ranks - (case in ('killed', 'dies')))} rank" in report[1]
        assert "all steps are done" in out
    else:
        assert status != 0
        assert len(report) == 1
    assert not left_over(str(tmp_path))
