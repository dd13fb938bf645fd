"""The generator of a GPU: its seed, and its state as PyTorch has it. It loads what draws (philox.py) with the first number."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from ferro.core import backend
from ferro.core.base import TensorBase
from ferro.core.device import device as _Device
from ferro.core.dtypes import FROM_NUMPY
from ferro.core.random import GENERATORS, KINDS, Generator
from ferro.native import locks

__all__ = ["RECORDING", "CudaGenerator", "default_generator", "record"]

_MASK = (1 << 64) - 1
_BYTES = 16  # of a state
_DEVICE = _Device("cuda", 0)
RECORDING = threading.local()  # .graph: what the graph that this thread records has drawn, by stream


def record(drawn: dict[Any, Any] | None) -> None:
    """From now on the draws of this thread are those of a graph, and are added to `drawn`, by stream; None: no longer."""
    RECORDING.graph = drawn


class CudaGenerator(Generator):
    """A generator of a GPU: what ``ferro.Generator("cuda")`` makes. Its numbers are those of Philox4x32-10.

    Raises: RuntimeError without a GPU.
    """

    make: Any = None  # what draws from a seed on: Philox, entered by functions.py, which has the kernels

    def __init__(self, device: Any = None) -> None:
        super().__init__()

    def _made(self, fast: bool) -> Any:
        self._fast = locks.once(self, "_twister", None, CudaGenerator.make(self._seed))
        return self._fast

    @property
    def device(self) -> Any:
        """Where the numbers are made."""
        return _DEVICE

    def set_state(self, new_state: Any) -> CudaGenerator:
        """Continues from a state that get_state() returned; returns the generator."""
        if not isinstance(new_state, TensorBase):
            raise TypeError(f"Generator.set_state: expected a torch.ByteTensor, but got {type(new_state).__name__}")
        data = backend.on_host(new_state._data)
        if data.dtype != np.uint8:
            raise TypeError(f"Generator.set_state: RNG state must be a torch.ByteTensor, got {FROM_NUMPY[data.dtype]}")
        if data.size != _BYTES:
            raise RuntimeError(f"RNG state is wrong size: a generator of a GPU has {_BYTES} bytes, got {data.size}")
        self._seed = self.stream.continue_from(np.ascontiguousarray(data).reshape(-1))
        return self

    def get_offset(self) -> int:
        """How many words of 32 bits have been drawn."""
        return self.stream.offset

    def set_offset(self, offset: int) -> CudaGenerator:
        """Continues behind so many words, a multiple of 4 (RuntimeError); returns the generator."""
        if offset % 4:
            raise RuntimeError("offset must be a multiple of 4")
        self.stream.offset = offset & _MASK
        return self

    def graphsafe_get_state(self) -> CudaGenerator:
        """A new generator in the same state."""
        return self.clone_state()

    def graphsafe_set_state(self, state: Generator) -> CudaGenerator:
        """Continues from the state of another generator; returns this one."""
        return self.set_state(state.get_state())

    def clone_state(self) -> CudaGenerator:
        """A new generator in the same state."""
        found: Any = CudaGenerator()
        found.set_state(self.get_state())
        return found


default_generator = CudaGenerator()
GENERATORS["cuda"] = default_generator
KINDS["cuda"] = CudaGenerator
