"""Scripts started as several ranks, as a user does it, and the processes that are left of them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ferro
from ferro.distributed import run

needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or run.mpiexec() is None,
    reason="mpi4py is absent: pip install ferro[mpi]",
)

# Open MPI takes seconds to begin, and ends all ranks itself when one ends before MPI has begun.
OPEN_MPI = (Path(sys.executable).parent / "ompi_info").exists()


def slow(*values: Any) -> Any:
    """Parameters that `make test` leaves out: another case goes the same way, and most of the time Python starts."""
    return pytest.param(*values, marks=pytest.mark.slow)


def environment(**given: str) -> dict[str, str]:
    """That of this process, without what an mpiexec has told it, and with this ferro."""
    told = ("PMI", "OMPI_COMM_WORLD", "HYDI")  # (OMPI_ALLOW_... and OMPI_MCA_... are options of Open MPI's)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(told)}
    own = {"PYTHONPATH": str(Path(ferro.__file__).parents[1]), "FERRO_KERNELS": "off", "PYTHONWARNINGS": "error"}
    return inherited | own | given


def begun(script: Path, *arguments: str, options: tuple[str, ...] = (), **variables: str) -> subprocess.Popen[str]:
    """`ferro.distributed.run` with its options, a script and its arguments."""
    return subprocess.Popen(
        [sys.executable, "-m", "ferro.distributed.run", *options, str(script), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**variables),
    )


def started(
    script: Path, *arguments: str, options: tuple[str, ...] = (), seconds: float = 120, **variables: str
) -> tuple[int, str, str]:
    """The status, and what was printed on both streams; raises when it has not ended in so many seconds."""
    process = begun(script, *arguments, options=options, **variables)
    try:
        out, error = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.communicate(timeout=30)
        raise
    return process.returncode, out, error


def left_over(mark: str) -> list[str]:
    """The processes whose command contains some words: none, if all have ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # (it has ended)
            continue
        if mark in line and int(path.parent.name) != os.getpid():
            found.append(line)
    return found
