"""Exchanges while a CUDA graph is recorded: refused by name, on every rank that records.

A graph would repeat what NCCL was given, with the memory of the recording. But whoever begins an exchange here also tells MPI and a
thread of it, which watch it until it has ended: a replay would tell nobody, so that a rank that hangs in it could not be named.
"""

from __future__ import annotations

from ferro.core.device import DEVICE_BACKENDS


def refuse_recording(name: str) -> None:
    """RuntimeError if the current stream is recorded into a CUDA graph."""
    for library in DEVICE_BACKENDS.values():
        if library.is_recording():
            raise RuntimeError(
                f"{name}: exchanges between ranks cannot be recorded in a CUDA graph. Record what comes before and behind the exchange in "
                "graphs of their own, and exchange between their replays"
            )
