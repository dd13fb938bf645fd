"""Processes that `multiprocessing` starts from one in which `torch` is ferro: there, too, it is."""

from __future__ import annotations

from multiprocessing import spawn
from pathlib import Path
from typing import Any

from ferro._public import ferro

# Note [Before the child reads the program]
#   A process started by "spawn" or "forkserver" first unpickles a dict of its parent's name, paths and main program, and
#   then imports that program, which says `import torch`.  So the dict gets one more value, whose unpickling installs.
_described = spawn.get_preparation_data


class _Install:
    """A value that is the statement itself once it is unpickled: before `sys.path` is the parent's."""

    def __reduce__(self) -> Any:
        folder = str(Path(ferro.__file__).parent.parent)
        code = (
            f"import sys; sys.path.append({folder!r}); from ferro import as_torch; as_torch.install(); sys.path.pop()"
        )
        return exec, (code, {})


def _description(name: str) -> dict[str, Any]:
    return {"ferro.as_torch": _Install(), **_described(name)}


def begin() -> None:
    """Processes started from now on take `torch` for ferro."""
    spawn.get_preparation_data = _description


def end() -> None:
    """... and from now on no longer."""
    spawn.get_preparation_data = _described
