"""Writes cupy_names.txt, the names of CuPy that the stand-in has: ``python tests/cuda/write_names.py`` where CuPy is installed.

One line for each name of a namespace, with its parameters where Python knows them, or for NCCL where the documentation begins with them.
No GPU and no driver are needed; the names of NCCL are left out where its library is not installed (pip install nvidia-nccl-cu13).
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "cupy_names.txt"
SPACES = ("cupy", "cupy.ndarray", "cupy.linalg", "cupy.fft", "cupyx.scipy.special")
SPACES += ("cupy.cuda.nccl", "cupy.cuda.nccl.NcclCommunicator")
SPACES += tuple(["cupy.cuda" + name for name in ("", ".Stream", ".ExternalStream", ".Event", ".Graph", ".MemoryPool")])


def found(space: str) -> Any:
    """A namespace by its dotted name."""
    module, _, last = space.rpartition(".")
    if last[0].isupper() or last == "ndarray":  # (a class)
        return getattr(importlib.import_module(module), last)
    return importlib.import_module(space)


def documented(value: Any) -> str:
    """The parameters that the first line of the documentation gives, as Cython writes it: `send(self, size_t count, int peer)`."""
    first, _, given = ((getattr(value, "__doc__", "") or "").strip().splitlines() or [""])[0].partition("(")
    names = [part.strip().split("=")[0].split(" ")[-1] for part in given.rstrip(")").split(",")]
    return f"({' '.join(names)})" if given.endswith(")") and " " not in first else ""


def parameters(value: Any) -> str:
    """The parameters of a function, without annotations and defaults; nothing where Python does not know them."""
    try:
        given = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return "(" + " ".join([marks.get(p.kind, "") + p.name for p in given]) + ")"


def lines(space: str) -> Iterator[str]:
    """The lines of a namespace."""
    whole = found(space)
    for name in sorted(dir(whole)):
        if name.startswith("_"):
            continue
        value = getattr(whole, name, None)
        if inspect.ismodule(value):
            continue
        given = parameters(value) if inspect.isfunction(value) else documented(value) if ".nccl" in space else ""
        yield f"{space}.{name}{given}"


if __name__ == "__main__":
    version = importlib.import_module("cupy").__version__
    text = [f"# CuPy {version}"] + [line for space in SPACES for line in lines(space)]
    HERE.write_text("\n".join(text) + "\n")
