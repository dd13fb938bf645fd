"""What runs how in this process, and why: ``ferro.show_config()``, which ``python -m ferro.env`` calls."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

from ferro._version import __version__
from ferro.cpu import memory
from ferro.cpu.kernels import entries
from ferro.native import disk_cache, isa, loader, packaged, readiness, recorder, threads
from ferro.native.notices import notices
from ferro.native.slots import TABLE

__all__ = ["parallel_info", "show", "show_config"]

_PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "ml_dtypes")


def show_config(mode: str = "stdout") -> dict[str, dict[str, Any]] | None:
    """Says what runs how in this process, and why: versions, processor, machine code, kernels, memory, threads.

    Put what it prints into a report of a bug; ``python -m ferro.env`` prints the same.

    Args:
        mode: ``"stdout"`` prints it; ``"dicts"`` returns it instead, section by section.

    Raises:
        ValueError: for any other mode.

    Example::

        >>> import ferro
        >>> ferro.show_config("dicts")["machine code"]["tape"].split(":")[0] in ("on", "off")
        True
    """
    if mode not in ("stdout", "dicts"):
        raise ValueError(f"show_config: mode is {mode!r}; it may be 'stdout' or 'dicts'")
    found = {
        "versions": _versions(),
        "processor": {"model": _model(), "instruction set": isa.describe(), "cores": len(_cores())},
        "machine code": _machine_code(),
        "kernels": _kernels(),
        "memory": {
            "freed blocks are kept": _on(memory._keeps_freed_blocks),
            "arrays begin with a cache line": _on(memory._aligns_arrays),
        },
        "threads": {"number": threads.get_num_threads()},
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(("FERRO_", "NUMBA_", "OPENBLAS_"))},
        "switched off": {part: "; ".join(why) for part, why in notices().items()},
    }
    if mode == "dicts":
        return found
    print(_text(found))  # noqa: T201 (it is asked to print)
    return None


def show() -> str:
    """What `show_config` prints, and the settings that programs look for in PyTorch's text: ``USE_MKL=OFF`` and its like.

    >>> import ferro
    >>> "USE_CUDA=0" in ferro.__config__.show()
    True
    """
    return f"{_BUILD}\n{_text(show_config('dicts') or {})}\n"


def parallel_info() -> str:
    """How many threads an operation may use, as text.

    >>> import ferro
    >>> "at::get_num_threads()" in ferro.__config__.parallel_info()
    True
    """
    return f"ATen/Parallel:\n    at::get_num_threads() : {threads.get_num_threads()}\n    hardware threads : {len(_cores())}\n"


# The parts that builds of PyTorch have or have not.
_BUILD = """Build settings:
    BLAS_INFO=openblas, LAPACK_INFO=openblas, USE_CUDA=0, USE_CUDNN=OFF, USE_MKL=OFF, USE_MKLDNN=OFF, USE_MPI=OFF,
    USE_NCCL=OFF, USE_NNPACK=OFF, USE_OPENMP=OFF, USE_ROCM=OFF, USE_XPU=OFF"""


def _text(sections: dict[str, dict[str, Any]]) -> str:
    lines = []
    for section, rows in sections.items():
        lines.append(f"{section}:")
        lines += [f"    {name}: {value}" for name, value in rows.items() or (("-", "nothing"),)]
    return "\n".join(lines)


def _on(value: object) -> str:
    return "on" if value else "off"


def _versions() -> dict[str, str]:
    from importlib import metadata  # (half a hundred modules, for those who ask)

    build = "free-threaded" if "t" in sys.abiflags else "debug" if "d" in sys.abiflags else ""
    found = {
        "ferro": __version__,
        "python": f"{sys.implementation.name} {platform.python_version()} {build}".strip(),
    }
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    found["system"] = platform.platform()
    return found


def _model() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as stream:
            lines = [line for line in stream if line.startswith("model name")]
    except OSError:
        lines = []
    return lines[0].partition(":")[2].strip() if lines else platform.processor() or platform.machine()


def _cores() -> Any:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)


def _machine_code() -> dict[str, str]:
    """Which parts of ferro run as machine code, and which as Python."""
    if not loader.SUPPORTED:
        off = f"off: {loader.REFUSAL}"
        return {"kernels": f"called through Numba ({off})", "functions of arrays": off, "tape": off}
    if readiness.MODE == "off":
        return dict.fromkeys(("kernels", "functions of arrays", "tape"), "off: FERRO_KERNELS switches it off")
    found = {"kernels": "on"}
    for part, files in {"functions of arrays": entries.FILES.values(), "tape": (recorder.FILE,)}.items():
        there = all(file.code is not None for file in files)
        found[part] = "on" if there else "off: it was not on disk, or could not be loaded, when this process began"
    if not recorder.WANTED:
        found["tape"] = "off: FERRO_TAPE=python"
    elif not TABLE.any():
        found["tape"] = f"off: {'; '.join(notices().get('machine code of the tape', ()))}"
    return found


def _kernels() -> dict[str, Any]:
    folders = [str(folder) for folder in disk_cache.folders()]
    counts = sum(len(files) for files in disk_cache.listed().values())
    return {
        "mode": readiness.MODE or "made in the background",
        "folders": ", ".join(folders),
        "in the package": packaged.count(),
        "on disk at the start": counts,
    }
