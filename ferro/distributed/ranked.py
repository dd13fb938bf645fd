"""A script as one rank: its lines begin with the rank, and it finds RANK, WORLD_SIZE and LOCAL_RANK in its environment."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ferro.core.provenance import CodeLocation, at

from .control import current, is_of_program
from .errors import DistError
from .group import launched
from .word import leave


class Prefixed:
    """A stream whose lines begin with some words; what is left of a line is written when it ends. A log gets them without the words."""

    def __init__(self, stream: Any, words: str, log: Path | None = None) -> None:
        self._stream, self._words, self._log, self._line = stream, words, log, ""

    def write(self, text: str) -> int:
        """Writes the lines that are complete."""
        *lines, self._line = (self._line + text).split("\n")
        if lines:
            self._stream.write("".join([f"{self._words}{line}\n" for line in lines]))
            self._stream.flush()
            if self._log is not None:
                with self._log.open("a", encoding="utf-8") as log:  # (whenever the process ends, all is in it)
                    log.write("".join([f"{line}\n" for line in lines]))
        return len(text)

    def flush(self) -> None:
        """Lines are written when they end."""

    def close_line(self) -> None:
        """Writes what has no end yet."""
        if self._line:
            self.write("\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def run(script: Sequence[str]) -> None:
    """Runs a script with its arguments as the rank that mpiexec says."""
    found = launched()
    if found is not None:
        rank, size = found
        os.environ.update(RANK=rank, WORLD_SIZE=size)
        os.environ.setdefault("LOCAL_RANK", rank)
        _take_gpu(int(os.environ["LOCAL_RANK"]))
        log = None
        if "FERRO_LOG_FOLDER" in os.environ:
            log = Path(os.environ["FERRO_LOG_FOLDER"], f"rank-{rank}.log")
            log.write_text("")
        sys.stdout, sys.stderr = (Prefixed(stream, f"[{rank}] ", log) for stream in (sys.stdout, sys.stderr))  # type: ignore[assignment]
    sys.argv = list(script)
    sys.path.insert(0, os.path.dirname(os.path.abspath(script[0])))  # noqa: PTH100, PTH120 (as Python itself does)
    try:
        runpy.run_path(script[0], run_name="__main__")
    except BaseException as error:
        if not isinstance(error, SystemExit) or error.code:
            _told(error)
        raise
    finally:
        for stream in (sys.stdout, sys.stderr):
            getattr(stream, "close_line", bool)()


def _take_gpu(rank: int) -> None:
    """Where the machine has several GPUs, this rank sees one of them: ferro uses the first that it sees."""
    folder, names = Path("/proc/driver/nvidia/gpus"), os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if "CUDA_VISIBLE_DEVICES" not in os.environ and folder.is_dir():
        names = [str(number) for number, _ in enumerate(folder.iterdir())]
    if len(names) > 1:
        os.environ["CUDA_VISIBLE_DEVICES"] = names[rank % len(names)]


def _told(error: BaseException) -> None:
    """Leaves word for the launcher; a status that is not 0 ends all ranks, as an error does."""
    if isinstance(error, SystemExit):
        said = f"has called sys.exit({error.code!r})"
    else:
        where = "" if isinstance(error, DistError) else at(_place(error))  # (those say it themselves)
        said = f"raised {type(error).__name__}: {error}{where}"
    leave(said)
    found = current()
    if isinstance(error, SystemExit) and found is not None and found.size > 1:
        found.abort(said, error.code if isinstance(error.code, int) else 1)


def _place(error: BaseException) -> CodeLocation | None:
    """The innermost line of the script's own that led to an error."""
    place, trace = None, error.__traceback__
    while trace is not None:
        if is_of_program(trace.tb_frame):
            place = trace.tb_frame.f_code, trace.tb_lasti
        trace = trace.tb_next
    return place
