"""Files that are replaced as a whole: under a name there is the old content or all of the new one, and nothing between."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: Any) -> Iterator[Any]:
    """A new binary file beside `path`, which takes its place when the block is left without an exception.

    A process that is killed meanwhile leaves the old file as it was, and the unfinished one beside it, with a name that
    ends in ``.tmp``. What is no ordinary file (a device, a pipe), or lies in a folder where no file can be made, is
    written in place. RuntimeError if there is no such folder.
    """
    given = Path(os.fsdecode(path))
    target = given.resolve()  # a link stays a link
    if not target.parent.is_dir():
        raise RuntimeError(f"Parent directory {given.parent} does not exist.")
    before = target.stat() if target.exists() else None
    beside = target.parent / f".{target.name[:100]}.{os.urandom(6).hex()}.tmp"
    in_place = before is not None and (not stat.S_ISREG(before.st_mode) or not os.access(target, os.W_OK))
    if in_place or not os.access(target.parent, os.W_OK):
        with target.open("wb") as file:  # its error, if it may not be written
            yield file
        return
    try:
        with beside.open("x+b") as file:
            if before is not None:
                beside.chmod(stat.S_IMODE(before.st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())  # before the name says that it is there
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
