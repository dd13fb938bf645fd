"""Generators of random numbers, and the default one."""

from __future__ import annotations

import operator
import threading
from typing import Any

import numpy as np

from ferro.batched.levels import ALIVE, RUNNING
from ferro.core.base import TensorBase, wrap
from ferro.core.device import CPU, check, device
from ferro.core.dtypes import FROM_NUMPY
from ferro.cpu import locks

_MASK = (1 << 64) - 1


def _stream(seed: int) -> np.random.Generator:
    """NumPy's generator, whose own lock a forked child finds open."""
    bits = np.random.PCG64(seed)
    locks.renewed(bits.lock)
    return np.random.Generator(bits)


class Generator:
    """A stream of random numbers with its own seed and state (PCG64, O'Neill 2014).

    Example::

        >>> import ferro
        >>> g = ferro.Generator().manual_seed(0)
        >>> ferro.rand(2, generator=g).shape
        ferro.Size([2])
    """

    def __init__(self, device: Any = None) -> None:
        check(device)
        self._seed = 67280421310721  # PyTorch's default seed
        self._numpy: np.random.Generator | None = None

    @property
    def numpy(self) -> np.random.Generator:
        """NumPy's generator, made when the first number is wanted: a program without one need not import numpy.random."""
        made = self._numpy
        return made or locks.once(self, "_numpy", None, _stream(self._seed & _MASK))

    @property
    def device(self) -> device:
        """Where the numbers are made."""
        return CPU

    def manual_seed(self, seed: int) -> Generator:
        """Starts the stream that belongs to `seed`, a number of 64 bits (-1 is 2**64 - 1); returns the generator."""
        try:
            number = operator.index(seed)
        except TypeError:
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}") from None
        if not -(1 << 63) <= number <= _MASK:
            raise ValueError(f"manual_seed: Overflow when unpacking long long: {number} is no number of 64 bits")
        self._seed = number & _MASK
        self._numpy = _stream(self._seed)
        return self

    def seed(self) -> int:
        """Seeds from the operating system; returns the seed."""
        seed = int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed the stream was started from."""
        return self._seed

    def get_state(self) -> Any:
        """The state as a uint8 tensor."""
        s: Any = self.numpy.bit_generator.state
        numbers = [self._seed & _MASK, s["state"]["state"] & _MASK, s["state"]["state"] >> 64, s["state"]["inc"] & _MASK,
                   s["state"]["inc"] >> 64, s["has_uint32"], s["uinteger"]]  # fmt: skip
        return wrap(np.array(numbers, np.uint64).view(np.uint8))

    def set_state(self, state: Any) -> Generator:
        """Continues from a state that get_state() returned; returns the generator."""
        if not isinstance(state, TensorBase):
            raise TypeError(f"Generator.set_state: expected a torch.ByteTensor, but got {type(state).__name__}")
        data = np.ascontiguousarray(state._data)
        if data.dtype != np.uint8:
            raise TypeError(f"Generator.set_state: RNG state must be a torch.ByteTensor, got {FROM_NUMPY[data.dtype]}")
        if data.size != 56:
            raise RuntimeError(f"Generator.set_state: expected the uint8 tensor of 56 bytes that get_state() returns, got {FROM_NUMPY[data.dtype]} "
                               f"of shape {list(data.shape)}")  # fmt: skip
        seed, low, high, inc_low, inc_high, has, value = [int(v) for v in data.view(np.uint64)]
        self._seed = seed
        self.numpy.bit_generator.state = {"bit_generator": "PCG64", "state": {"state": low | high << 64, "inc": inc_low | inc_high << 64},
                                          "has_uint32": has, "uinteger": value}  # fmt: skip
        return self

    def clone_state(self) -> Generator:
        """A new generator in the same state."""
        g = Generator()
        g.set_state(self.get_state())
        return g


default_generator = Generator()
_own = threading.local()  # .generator: that of a worker of a DataLoader


def default() -> Generator:
    """The default generator of this thread: that of the process, or in a worker of a DataLoader the worker's own."""
    return getattr(_own, "generator", default_generator)


def set_own(seed: int) -> None:
    """Gives this thread a default generator of its own, as the process of a worker has one in PyTorch."""
    _own.generator = Generator().manual_seed(seed)


def numpy_generator(generator: Generator | None) -> Any:
    """The NumPy generator behind `generator` (None: the default one), or what draws from it for every slice of a vmap."""
    numbers = (generator or default()).numpy
    if ALIVE and (running := RUNNING.get()):
        from ferro.batched.draws import drawing

        return drawing(numbers, running)
    return numbers


def manual_seed(seed: int) -> Generator:
    """Seeds the default generator: see :meth:`Generator.manual_seed`."""
    return default().manual_seed(int(seed))


def seed() -> int:
    """Seeds the default generator from the operating system."""
    return default().seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return default().initial_seed()


def get_rng_state() -> Any:
    """The state of the default generator."""
    return default().get_state()


def set_rng_state(new_state: Any) -> None:
    """Continues the default generator from a state."""
    default().set_state(new_state)
