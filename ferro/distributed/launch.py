"""Runs a script's ranks until they end well: which one failed and how, again from the beginning, and no process left behind.

Note [Restarts]
    When a rank fails, all end. With `--max-restarts` all start again; the script finds TORCHELASTIC_RESTART_COUNT in its environment and
    goes on from its own last checkpoint. As many ranks start as before, unless a signal ended one (the system has no memory left, say):
    then one fewer, but not fewer than `--min-nproc`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import supervise

# Open MPI refuses them unless it is told (from version 5 on, and before); MPICH does not ask.
_MORE_RANKS_THAN_CORES = {
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}
_PATIENCE = 5.0  # seconds for ranks to end when they are asked to


@dataclass(frozen=True)
class Job:
    """What is run: the mpiexec, the script with its arguments, how many ranks at first and at least, how often again.

    `logs`: the folder for what each rank prints, if it is wanted.
    """

    program: str
    script: Sequence[str]
    ranks: int
    least: int
    restarts: int
    logs: str | None = None


@dataclass(frozen=True)
class Ending:
    """How a run of all ranks ended: the status, why, and whether a rank was ended by a signal."""

    status: int
    why: str = ""
    is_lost: bool = False


def say(text: str) -> None:
    """A line of the report."""
    sys.stderr.write(f"ferro.distributed.run: {text}\n")
    sys.stderr.flush()


def command(job: Job, ranks: int, folder: str) -> list[str]:
    """What is run for so many ranks."""
    rank = [sys.executable, "-m", "ferro.distributed.run", "--as-rank", *job.script]
    return [job.program, "-n", str(ranks), sys.executable, "-S", supervise.__file__, folder, *rank]


class Launcher:
    """Runs a job; a signal to it ends all ranks."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._running: subprocess.Popen[bytes] | None = None
        self._signal: int | None = None

    def run(self) -> int:
        """The status: 0 if the ranks have ended well, in whichever run."""
        ranks, job = self.job.ranks, self.job
        with self._signals():
            for again in range(job.restarts + 1):
                ending = self._once(ranks, again)
                if not ending.status:
                    return 0
                say(f"{job.script[0]} has ended with status {ending.status}: {ending.why}")
                if self._signal is not None or again == job.restarts:
                    break
                ranks = max(job.least, ranks - ending.is_lost)
                say(f"starts again with {ranks} rank{'s' * (ranks > 1)} (restart {again + 1} of {job.restarts})")
        return ending.status

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def end(number: int, frame: Any) -> None:
            self._signal = number
            if self._running is not None:
                self._running.send_signal(signal.SIGTERM)

        before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _once(self, ranks: int, again: int) -> Ending:
        """One run of all ranks."""
        environment = {"OMP_NUM_THREADS": "1", "FERRO_NUM_THREADS": "1", **_MORE_RANKS_THAN_CORES, **os.environ}
        with tempfile.TemporaryDirectory(prefix="ferro-run-", ignore_cleanup_errors=True) as folder:
            environment |= {
                "FERRO_RUN_FOLDER": folder,
                "LOCAL_WORLD_SIZE": str(ranks),
                "TORCHELASTIC_RESTART_COUNT": str(again),
                "TORCHELASTIC_MAX_RESTARTS": str(self.job.restarts),
            }
            if self.job.logs is not None:
                logs = Path(self.job.logs).absolute() / f"restart-{again}"
                logs.mkdir(parents=True, exist_ok=True)
                environment["FERRO_LOG_FOLDER"] = str(logs)
            self._running = subprocess.Popen(
                command(self.job, ranks, folder),
                env=environment,
                preexec_fn=lambda: supervise.end_with_parent(signal.SIGTERM),  # noqa: PLW1509 (this process has one thread)
            )
            try:
                status = self._waited(self._running)
            finally:
                self._running = None
                end_ranks(folder)
            if self._signal is not None:
                name = signal.Signals(self._signal).name
                return Ending(128 + self._signal, f"it was told to end ({name}), and all ranks have")
            return Ending(0) if not status else cause(folder, ranks, status)

    def _waited(self, running: subprocess.Popen[bytes]) -> int:
        """The status of mpiexec, which is ended when it takes too long to follow a signal."""
        told = None
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return running.wait(0.2)
            if self._signal is not None:
                told = told or time.monotonic()
                if time.monotonic() - told > _PATIENCE:
                    running.kill()


def _records(folder: str, kind: str) -> dict[int, dict[str, Any]]:
    """What ranks have left of one kind ("rank": how it ended; "error": what it raised)."""
    return {int(p.stem.partition("-")[2]): json.loads(p.read_text()) for p in Path(folder).glob(f"{kind}-*.json")}


def end_ranks(folder: str) -> None:
    """Ends what is left of the ranks: mpiexec may have been killed itself."""
    left = [(r["pid"], r["birth"]) for r in _records(folder, "rank").values() if r["birth"]]
    end = time.monotonic() + _PATIENCE
    for pid, born in left:
        if supervise.birth(pid) == born:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    while any(supervise.birth(pid) == born for pid, born in left) and time.monotonic() < end:
        time.sleep(0.01)


def cause(folder: str, ranks: int, status: int) -> Ending:
    """Which rank failed first, and how."""
    errors, endings = _records(folder, "error"), _records(folder, "rank")
    failed = [(e["time"], rank) for rank, e in errors.items()]
    failed += [(e["time"], rank) for rank, e in endings.items() if e.get("status")]
    if not failed:
        return Ending(status, f"mpiexec has ended all {ranks} ranks, and none has said why")
    rank = min(failed)[1]
    name = f"rank {rank} of {ranks}"
    if rank in errors:
        return Ending(status, f"{name} {errors[rank]['said']}")
    found = endings[rank]["status"]
    if found >= 0:
        return Ending(found, f"{name} has ended with status {found}")
    text = f"{name} was ended by signal {-found} ({signal.Signals(-found).name}); the others were ended with it"
    return Ending(128 - found, text, is_lost=True)
