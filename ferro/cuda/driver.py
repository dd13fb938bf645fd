"""CuPy, loaded when a device "cuda" is first used, and what is missing where it cannot be: a package, a driver, or a device."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from typing import Any

PACKAGES = "pip install ferro[cuda], or ferro[cuda12] for drivers of CUDA 12"
_UNAVAILABLE = {35: "driver", 36: "driver", 100: "device", 101: "device", 3: "driver", 999: "driver"}


@cache
def missing() -> str | None:
    """What is missing, in one sentence; None where there is a GPU that ferro can use."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        return f"the package CuPy is missing ({_first_line(error)}): {PACKAGES}"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # noqa: BLE001 (of a class that CuPy makes while it is loaded)
        if _UNAVAILABLE.get(getattr(error, "status", 0)) == "device":
            return f"CuPy {cupy.__version__} finds no device ({_first_line(error)})"
        return f"CuPy {cupy.__version__} finds no driver that it can use ({_first_line(error)})"
    return None if count else f"CuPy {cupy.__version__} finds no device: nvidia-smi lists those of the driver"


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def available() -> bool:
    """Whether there is a GPU that ferro can use. This loads CuPy, if there is such a package."""
    return missing() is None


def cupy() -> Any:
    """CuPy; RuntimeError with what is missing."""
    said = missing()
    if said is not None:
        raise RuntimeError(f"device 'cuda' is not available: {said}")
    return sys.modules["cupy"]


def generation() -> int:
    """The major compute capability of the GPU."""
    return int(cupy().cuda.runtime.getDeviceProperties(0)["major"])


def module(name: str) -> Any:
    """A module of CuPy's, by its name."""
    cupy()
    return importlib.import_module(name)
