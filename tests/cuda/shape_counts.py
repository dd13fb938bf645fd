"""A plugin of pytest (``-p tests.cuda.shape_counts``): counts the shapes that each emulated kernel is launched with, by what its arrays hold.

FERRO_SHAPE_COUNTS names the file that gets them: a list of (kernel, dtype, number).
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from ferro.cuda.printer import STORED
from tests.cuda import emulated

_SEEN: dict[tuple[str, str], set] = defaultdict(set)
_INIT, _CALL = emulated.Kernel.__init__, emulated.Kernel.__call__


def dtype_of(kinds: set[str]) -> str:
    """The dtype that a kernel with arrays of these types is for: the narrowest."""
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        if STORED[dtype] in kinds:
            return dtype
    return "any"


def _init(self: emulated.Kernel, text: str, name: str) -> None:
    _INIT(self, text, name)
    kinds = {word.partition("*")[0].split()[-1] for word in self._words if "*" in word}
    self._seen = _SEEN[name, dtype_of(kinds)]  # type: ignore[attr-defined]


def _call(self: Any, grid: tuple, block: tuple, args: tuple, **more: Any) -> None:
    numbers = [int(a) for a in args if isinstance(a, np.integer)]
    self._seen.add((*numbers, *grid, *block, *[getattr(a, "shape", ()) for a in args]))
    _CALL(self, grid, block, args, **more)


def pytest_configure() -> None:
    """Begins to count."""
    emulated.Kernel.__init__, emulated.Kernel.__call__ = _init, _call


def pytest_sessionfinish() -> None:
    """Writes the counts."""
    found = [(name, dtype, len(shapes)) for (name, dtype), shapes in _SEEN.items()]
    Path(os.environ["FERRO_SHAPE_COUNTS"]).write_text(json.dumps(found))
