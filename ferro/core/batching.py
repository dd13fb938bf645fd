"""The operations by which tensors enter and leave the function of a vmap, and what becomes of gradients that leave it.

Note [Levels and the tape].  A function under vmap records on the same tape as any other code; its tensors hold batched
arrays (ferro/batched), and so do the gradients that come back.  What was made before the vmap began is the same for all
slices.  So where a gradient leaves the function, for a node or leaf that is older than the level, it is summed over
the slices.  A backward that runs inside of the function (or begins at tensors of it) does not leave it: there each slice
has its own gradient by whatever it asks for.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from ferro.batched.array import Batched, batch, by, expanded, levels_of, pulled
from ferro.batched.levels import Level, running
from ferro.batched.rules import functions
from ferro.core import backend
from ferro.core.apply import apply
from ferro.core.base import TensorBase
from ferro.core.node import next_sequence
from ferro.core.op import LINEAR, Op
from ferro.core.transforms import inside


def _entered(x: Any, level: Level, dim: int) -> Any:
    """An array whose dimension `dim` lists slices, as a batched one."""
    return batch(by(np.moveaxis, x, dim, 0) if dim else x, level)


def _left(x: Any, level: Level, dim: int) -> Any:
    """A batched array (or one that is the same for all slices) with its slices along `dim`."""
    p = pulled(x, level) if level in levels_of(x) else expanded(x, level)
    return by(np.moveaxis, p, 0, dim) if dim else p


ENTER = Op(
    "vmap_enter",
    lambda xp, x, /, level, dim: _entered(x, level, dim),
    kind=LINEAR,
    view=True,
    x=lambda xp, g, level, dim: leave(g, level, dim),
)
LEAVE = Op(
    "vmap_leave",
    lambda xp, x, /, level, dim: _left(x, level, dim),
    kind=LINEAR,
    view=True,
    x=lambda xp, g, level, dim: enter(g, level, dim),
)


def enter(x: Any, level: Level, dim: int) -> Any:
    """A tensor or array whose dimension `dim` lists the slices of a level, as one slice."""
    return apply(ENTER, (x,), (level, dim)) if isinstance(x, TensorBase) else _entered(x, level, dim)


def leave(x: Any, level: Level, dim: int) -> Any:
    """A tensor or array of a level as one that lists the slices along `dim`."""
    return apply(LEAVE, (x,), (level, dim)) if isinstance(x, TensorBase) else _left(x, level, dim)


def dim_of(x: Any, level: Level) -> int:
    """Where the slices of a tensor lay when it entered the level; 0 for what was computed there."""
    view = None if x._meta is None else x._meta.view
    steps = () if view is None else view.steps
    return steps[0][1][1] if len(steps) == 1 and steps[0][0] is ENTER and steps[0][1][0] is level else 0


def begin(size: int, randomness: str = "error", transform: bool = True) -> Level:
    """A new level."""
    import ferro.batched.backend  # noqa: F401 (the rules are read when they are first wanted)

    return Level(size, randomness, next_sequence(), transform)


def over_rows(function: Any, tensors: list, size: int, randomness: str = "error", transform: bool = True) -> list:
    """function(rows) for each row of tensors (None stays): its results, tensors or None, with the rows along dimension 0.

    transform: whether the function runs as in a transform of the program's, with all that is not allowed there.
    """
    level = begin(size, randomness, transform)
    with running(level), inside("vmap") if transform else nullcontext():
        found = function([None if t is None else enter(t, level, 0) for t in tensors])
        return [None if o is None else leave(o, level, 0) for o in found]


backend.register(Batched, functions)
