"""The parent of one rank, a program of its own that needs no other file: starts the rank, waits, and writes down how it ended.

``python supervise.py FOLDER COMMAND...``. mpiexec does not tell how its processes ended, nor which one was the first. It ends ranks by
ending this program: the rank ends with it.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")
_DEATH_SIGNAL = 1  # (prctl's number for "a signal when the parent dies", which Linux alone has)


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Called in a child before its program begins: it gets the signal when its parent ends."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, int(number))


def birth(pid: int) -> str:
    """When a process began, by the system's clock; "" if there is none, or if the system does not tell."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def write(folder: str, name: str, what: dict[str, object]) -> None:
    """Writes a record, whole or not at all."""
    part = Path(folder, f".{name}.{os.getpid()}")
    part.write_text(json.dumps(what))
    part.replace(Path(folder, name))


def main(folder: str, command: list[str]) -> int:
    """Runs a command; its status, 128 and the signal if one ended it."""
    rank = next((os.environ[name] for name in RANKS if name in os.environ), "0")
    # MPI's connections are open files of this process, which the rank needs.
    process = subprocess.Popen(command, close_fds=False, preexec_fn=end_with_parent)  # noqa: PLW1509 (it has one thread)
    record = {"pid": process.pid, "birth": birth(process.pid)}
    write(folder, f"rank-{rank}.json", record)

    def forward(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, forward)
    status = process.wait()
    write(folder, f"rank-{rank}.json", {**record, "status": status, "time": time.time()})
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
