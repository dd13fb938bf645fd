"""ferro.distributed.run: which rank failed and how, restarts, signals, and no process left behind."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ferro.distributed import run
from tests.distributed.starting import begun, left_over, needs_mpi, started

pytestmark = pytest.mark.timeout(300)

TRAINS = """
import os, signal, sys
from pathlib import Path
import ferro, ferro.distributed as dist

dist.init_process_group("mpi")
saved, again = Path(sys.argv[1]), os.environ["TORCHELASTIC_RESTART_COUNT"]
first, total = map(float, saved.read_text().split()) if saved.exists() else (0, 0.0)
for step in range(int(first), 5):
    x = ferro.ones(1)
    dist.all_reduce(x)
    total += x.item()
    if step == 2 and again == "0" and dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if dist.get_rank() == 0:
        part = saved.with_suffix(".part")
        part.write_text(f"{step + 1} {total}")
        part.replace(saved)
    dist.barrier()
print(f"restart {again}: steps {int(first)} to 4, total {total}, {os.environ['TORCHELASTIC_MAX_RESTARTS']} allowed")
"""


@needs_mpi
def test_a_rank_that_is_killed_is_named_and_all_start_again_with_fewer(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    options = ("--nproc-per-node", "3", "--max-restarts", "2", "--min-nproc", "2")
    status, out, error = started(script, str(tmp_path / "saved"), options=options)
    assert status == 0, error
    report = [line for line in error.splitlines() if line.startswith("ferro.distributed.run: ")]
    ended = f"{script} has ended with status 137: rank 1 of 3 was ended by signal 9 (SIGKILL)"
    assert report == [
        f"ferro.distributed.run: {ended}; the others were ended with it",
        "ferro.distributed.run: starts again with 2 ranks (restart 1 of 2)",
    ]
    lines = sorted(line for line in out.splitlines() if "restart" in line)
    # Rank 0 may or may not have saved the step in which rank 1 was killed.
    want = [
        {f"[{r}] restart 1: steps {n} to 4, total {3 * n + 2 * (5 - n)}.0, 2 allowed" for r in "01"} for n in (2, 3)
    ]
    assert set(lines) in want
    assert not left_over(str(tmp_path))


@needs_mpi
@pytest.mark.slow
def test_restarts_end_with_the_last_status(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os, sys\nif os.environ['RANK'] == '1':\n    sys.exit(3)\n")
    status, _, error = started(script, options=("--nproc-per-node", "2", "--max-restarts", "1"))
    assert status == 3
    ended = f"ferro.distributed.run: {script} has ended with status 3: rank 1 of 2 has called sys.exit(3)"
    assert [line for line in error.splitlines() if line.startswith("ferro.")] == [
        ended,
        "ferro.distributed.run: starts again with 2 ranks (restart 1 of 1)",
        ended,
    ]


@needs_mpi
def test_each_rank_has_a_log_of_each_run(tmp_path: Path) -> None:
    script, logs = tmp_path / "script.py", tmp_path / "some" / "logs"
    script.write_text(
        "import os, sys\n"
        "rank, again = os.environ['RANK'], os.environ['TORCHELASTIC_RESTART_COUNT']\n"
        "print('out of', rank, end='')\n"
        "print(' in run', again)\n"
        "print('error of', rank, file=sys.stderr)\n"
        "if rank == '1' and again == '0':\n"
        "    raise ValueError('of rank one')\n"
        "print('no end', end='')\n"
    )
    options = ("--nproc-per-node", "2", "--max-restarts", "1", "--log-dir", str(logs))
    status, out, error = started(script, options=options)
    assert status == 0, error
    assert "[1] out of 1 in run 0" in out.splitlines()
    assert sorted(str(p.relative_to(logs)) for p in logs.rglob("*.log")) == [
        f"restart-{again}/rank-{rank}.log" for again in (0, 1) for rank in (0, 1)
    ]
    for rank in (0, 1):
        text = (logs / "restart-1" / f"rank-{rank}.log").read_text()
        assert text == f"out of {rank} in run 1\nerror of {rank}\nno end\n"
    lines = (logs / "restart-0" / "rank-1.log").read_text().splitlines()
    assert lines[:2] == ["out of 1 in run 0", "error of 1"]
    assert lines[-1] == "ValueError: of rank one"


@needs_mpi
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGKILL]
)
def test_a_signal_to_the_launcher_ends_all_ranks(number: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import threading, ferro.distributed as dist\n"
        "dist.init_process_group('mpi')\n"
        "dist.barrier()\n"
        "print('here')\n"
        "threading.Event().wait()\n"
    )
    process = begun(script, options=("--nproc-per-node", "2", "--max-restarts", "3"))
    assert process.stdout is not None
    here = 0
    while here < 2:
        here += process.stdout.readline().endswith("here\n")
    process.send_signal(number)
    _, error = process.communicate(timeout=60)  # (which ends when the last process has closed its streams)
    if number is signal.SIGKILL:
        assert process.returncode == -number
    else:
        assert process.returncode == 128 + number
        assert f"it was told to end ({number.name}), and all ranks have" in error
    assert "starts again" not in error
    assert not left_over(str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--max-restarts", "-1"], "--max-restarts must not be negative, got -1"),
        (
            ["--nproc-per-node", "2", "--min-nproc", "3"],
            "--min-nproc must lie between 1 and --nproc-per-node (2), got 3",
        ),
        (
            ["--nproc-per-node", "2", "--min-nproc", "0"],
            "--min-nproc must lie between 1 and --nproc-per-node (2), got 0",
        ),
    ],
)
def test_bad_options_are_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main([*arguments, "script.py"])
    assert said in " ".join(capsys.readouterr().err.split())


def test_without_mpiexec_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "mpiexec", lambda: None)
    with pytest.raises(SystemExit):
        run.main(["script.py"])
    assert "there is no mpiexec: pip install ferro[mpi]" in " ".join(capsys.readouterr().err.split())
