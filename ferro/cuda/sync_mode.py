"""set_sync_debug_mode: what happens where the program waits for the GPU; waiting.py says where that is."""

from __future__ import annotations

from ferro.cuda.devices import needs_gpu
from ferro.cuda.waiting import MODE

__all__ = ["get_sync_debug_mode", "set_sync_debug_mode"]

_NAMES = {"default": 0, "warn": 1, "error": 2}


@needs_gpu
def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Chooses what happens where the program waits for the GPU: "default" (0) nothing, "warn" (1) a warning, "error" (2) a RuntimeError.

    Both name the line. It holds for all threads. RuntimeError for other modes.

    Example, on a machine with a GPU::

        ferro.cuda.set_sync_debug_mode("warn")
        loss.item()  # UserWarning: called a synchronizing CUDA operation: item ...
    """
    if isinstance(debug_mode, str):
        if debug_mode not in _NAMES:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        debug_mode = _NAMES[debug_mode]
    if debug_mode not in (0, 1, 2):
        raise RuntimeError("invalid value of debug_mode, expected 0 (default), 1 (warn) or 2 (error)")
    MODE[0] = debug_mode


@needs_gpu
def get_sync_debug_mode() -> int:
    """The mode that was set: 0, 1 or 2."""
    return MODE[0]
