"""The word that a rank leaves for the launcher, of what has ended it."""

from __future__ import annotations

import os
import time

from .supervise import write


def leave(said: str) -> None:
    """Leaves it, where a launcher has asked for it."""
    if "FERRO_RUN_FOLDER" in os.environ:
        record = {"said": said, "time": time.time()}
        write(os.environ["FERRO_RUN_FOLDER"], f"error-{os.environ.get('RANK', '0')}.json", record)
