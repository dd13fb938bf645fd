"""What a GPU does besides: its load, memory, temperature, power and clock, from NVIDIA's management library where that is installed.

The package is `nvidia-ml-py`, whose module is `pynvml`; ModuleNotFoundError without it, as in PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ferro.cuda import driver
from ferro.cuda.devices import checked, needs_gpu

__all__ = ["clock_rate", "memory_usage", "power_draw", "temperature", "utilization"]


def _asked(device: Any) -> tuple[Any, Any]:
    """The library, and its name of the GPU that is used."""
    checked(device)
    try:
        library = import_module("pynvml")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "nvidia-ml-py does not seem to be installed or it can't be imported: pip install nvidia-ml-py"
        ) from error
    library.nvmlInit()
    return library, library.nvmlDeviceGetHandleByPciBusId(driver.cupy().cuda.runtime.deviceGetPCIBusId(0).encode())


@needs_gpu
def utilization(device: Any = None) -> int:
    """The percentage of the last sampled time in which the GPU computed."""
    library, handle = _asked(device)
    return int(library.nvmlDeviceGetUtilizationRates(handle).gpu)


@needs_gpu
def memory_usage(device: Any = None) -> int:
    """The percentage of the last sampled time in which memory of the GPU was read or written."""
    library, handle = _asked(device)
    return int(library.nvmlDeviceGetUtilizationRates(handle).memory)


@needs_gpu
def temperature(device: Any = None) -> int:
    """The temperature of the GPU, in degrees Celsius."""
    library, handle = _asked(device)
    return int(library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU))


@needs_gpu
def power_draw(device: Any = None) -> int:
    """The power that the GPU takes, in milliwatts."""
    library, handle = _asked(device)
    return int(library.nvmlDeviceGetPowerUsage(handle))


@needs_gpu
def clock_rate(device: Any = None) -> int:
    """The clock of the GPU's multiprocessors, in megahertz."""
    library, handle = _asked(device)
    return int(library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM))
