"""Starts the ranks of a script on this machine: ``python -m ferro.distributed.run --nproc-per-node 4 train.py --epochs 3``.

The ranks are started by the `mpiexec` beside this Python or on the PATH; each line that one prints begins with its rank. When a rank
fails, all end, and so does this program, with a status that is not 0.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def mpiexec() -> str | None:
    """The program that starts ranks; None if there is none."""
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec")


def command(count: int, script: Sequence[str], program: str) -> list[str]:
    """What is run for `count` ranks of a script with its arguments."""
    return [program, "-n", str(count), sys.executable, "-m", "ferro.distributed.run", "--as-rank", *script]


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the arguments, runs the ranks and returns the status."""
    parser = argparse.ArgumentParser(
        prog="ferro.distributed.run", description="Starts the ranks of a script on this machine."
    )
    parser.add_argument("--nproc-per-node", type=int, default=1, metavar="N", help="how many ranks (default 1)")
    parser.add_argument("--as-rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("script", help="the script")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    given = parser.parse_args(arguments)
    if given.as_rank:
        from .ranked import run  # (in the rank)

        run([given.script, *given.args])
        return 0
    if given.nproc_per_node < 1:
        parser.error(f"--nproc-per-node must be at least 1, got {given.nproc_per_node}")
    program = mpiexec()
    if program is None:
        parser.error("there is no mpiexec: pip install ferro[mpi], or load the MPI of this machine")
    environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    environment.setdefault("FERRO_NUM_THREADS", "1")
    done = subprocess.run(
        command(given.nproc_per_node, [given.script, *given.args], program), env=environment, check=False
    )
    if done.returncode:
        sys.stderr.write(f"ferro.distributed.run: {given.script} has ended with status {done.returncode}\n")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
