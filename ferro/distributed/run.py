"""Starts the ranks of a script on this machine: ``python -m ferro.distributed.run --nproc-per-node 4 train.py --epochs 3``.

The ranks are started by the `mpiexec` beside this Python or on the PATH; each line that one prints begins with its rank. When a rank
fails, all end, and this program says which one it was; with ``--max-restarts 3`` they start again, at most so often.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from .launch import Job, Launcher


def mpiexec() -> str | None:
    """The program that starts ranks; None if there is none."""
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ferro.distributed.run", description="Starts the ranks of a script on this machine."
    )
    parser.add_argument("--nproc-per-node", type=int, default=1, metavar="N", help="how many ranks (default 1)")
    parser.add_argument(
        "--max-restarts",
        type=int,
        default=0,
        metavar="K",
        help="how often all start again when a rank fails (default 0)",
    )
    parser.add_argument(
        "--min-nproc",
        type=int,
        default=None,
        metavar="M",
        help="how many ranks are enough: after a rank that a signal ended, one fewer starts again (default N)",
    )
    parser.add_argument(
        "--log-dir",
        default=None,
        metavar="DIR",
        help="what each rank prints also goes into a file of its own: DIR/restart-0/rank-0.log",
    )
    parser.add_argument("--as-rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("script", help="the script")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the arguments, runs the ranks and returns the status."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.as_rank:
        from .ranked import run  # (in the rank)

        run([given.script, *given.args])
        return 0
    if given.nproc_per_node < 1:
        parser.error(f"--nproc-per-node must be at least 1, got {given.nproc_per_node}")
    if given.max_restarts < 0:
        parser.error(f"--max-restarts must not be negative, got {given.max_restarts}")
    if given.min_nproc is not None and not 1 <= given.min_nproc <= given.nproc_per_node:
        parser.error(
            f"--min-nproc must lie between 1 and --nproc-per-node ({given.nproc_per_node}), got {given.min_nproc}"
        )
    program = mpiexec()
    if program is None:
        parser.error("there is no mpiexec: pip install ferro[mpi], or load the MPI of this machine")
    least = given.nproc_per_node if given.min_nproc is None else given.min_nproc
    script = [given.script, *given.args]
    return Launcher(Job(program, script, given.nproc_per_node, least, given.max_restarts, given.log_dir)).run()


if __name__ == "__main__":
    sys.exit(main())
