"""Ranks of a benchmark over MPI, on one thread each: started here, and what the first one says at its end."""

import json
import os
import subprocess
from collections.abc import Sequence
from typing import Any


def last_word(arguments: Sequence[str], what: str, timeout: float, **variables: str) -> dict[str, Any]:
    """The last line of JSON that is printed by ranks which `mpiexec` starts with these arguments; SystemExit if there is none.

    What they do at their end counts for nothing: PyTorch may fail there.
    """
    from ferro.distributed.run import mpiexec

    program = mpiexec()
    if program is None:
        raise SystemExit("there is no mpiexec: pip install ferro[mpi]")
    done = subprocess.run(
        [program, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", "FERRO_NUM_THREADS": "1", **variables},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"{what}: status {done.returncode}\n{done.stderr[-3000:]}")
    return json.loads(lines[-1])
