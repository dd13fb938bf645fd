"""Generators of random numbers, and the default one."""

from __future__ import annotations

import operator
import secrets
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from ferro.batched.array import plain
from ferro.batched.levels import ALIVE, RUNNING
from ferro.core.backend import HOST, device_of, xp_of
from ferro.core.base import TensorBase, wrap
from ferro.core.captures import CAPTURES, capturing
from ferro.core.device import CPU, DEVICE_BACKENDS, device, known
from ferro.core.dtypes import FROM_NUMPY
from ferro.cpu.by_kernels import Make, by_kernels, sides
from ferro.native import locks
from ferro.native.thresholds import SMALL

_MASK = (1 << 64) - 1
# Devices that draw themselves: their default generators, and the class of their generators, by type.
GENERATORS: dict[str, Generator] = {}
KINDS: dict[str, type[Generator]] = {}
FAST = [False]  # whether generators draw from NumPy's streams: what use_fast_streams says


class Generator:
    """A stream of random numbers with its own seed and state: that of PyTorch's generator on the CPU with the same seed.

    device: "cuda" makes one of a GPU (RuntimeError where there is none), whose numbers are its own: see docs/cuda.md.

    Example::

        >>> import ferro
        >>> g = ferro.Generator().manual_seed(0)
        >>> ferro.rand(2, generator=g).shape
        ferro.Size([2])
    """

    def __new__(cls, device: Any = None) -> Generator:
        where = known(device)
        return object.__new__(KINDS.get(where.type, cls) if where is not None else cls)

    def __init__(self, device: Any = None) -> None:
        self._seed = 67280421310721  # PyTorch's default seed
        self._twister: Any = None
        self._fast: Any = None

    @property
    def stream(self) -> Any:
        """What draws, made when the first number is wanted: a program without one need not import numpy.random."""
        stream = (self._fast if FAST[0] else self._twister) or self._made(FAST[0])
        capture = capturing() if CAPTURES else None
        return stream if capture is None else capture.drawing(self, stream)

    def _made(self, fast: bool) -> Any:
        if fast:
            from ferro.core.fast_streams import Fast

            return locks.once(self, "_fast", None, Fast(self._seed))
        from ferro.core.twister import Twister

        return locks.once(self, "_twister", None, Twister(self._seed))

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
        if CAPTURES and (capture := capturing()) is not None:
            capture.seeded(self, number)
        self._begin(number & _MASK)
        return self

    def _begin(self, seed: int) -> None:
        self._seed = seed
        for made in (self._twister, self._fast):
            if made is not None:
                made.manual_seed(seed)

    def seed(self) -> int:
        """Seeds from the operating system; returns the seed."""
        if CAPTURES and (capture := capturing()) is not None:
            capture.refuse("a generator is seeded from the operating system")
        seed = secrets.randbits(64)
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed the stream was started from."""
        return self._seed

    def get_state(self) -> Any:
        """The state as a uint8 tensor: the 5056 bytes that PyTorch's generator has, or with fast streams 56 bytes of its own."""
        return wrap(self.stream.state(self._seed))

    def set_state(self, new_state: Any) -> Generator:
        """Continues from a state that get_state() returned, here or in PyTorch; returns the generator."""
        if not isinstance(new_state, TensorBase):
            raise TypeError(f"Generator.set_state: expected a torch.ByteTensor, but got {type(new_state).__name__}")
        data = new_state._data
        data = np.ascontiguousarray(data) if type(data) is HOST else xp_of(data).contiguous(data)
        if data.dtype != np.uint8:
            raise TypeError(f"Generator.set_state: RNG state must be a torch.ByteTensor, got {FROM_NUMPY[data.dtype]}")
        stream = self.stream
        if data.size != stream.STATE_BYTES:
            other = {
                5056: ": those are PyTorch's; ferro.random.use_fast_streams(False) turns its streams on",
                56: ": those are a fast stream's; ferro.random.use_fast_streams(True) turns them on",
            }.get(data.size, "")
            raise RuntimeError(
                f"Generator.set_state: Expected a CPUGeneratorImplState of size {stream.STATE_BYTES} but found the input RNG "
                f"state size to be {data.size}{other}"
            )
        self._seed = stream.continue_from(data.reshape(-1))
        return self

    def __reduce__(self) -> tuple:
        return Generator, (self.device,), (self._seed, None, self.get_state())  # the parts that PyTorch pickles

    def __setstate__(self, state: tuple) -> None:
        self.set_state(state[2])

    def get_offset(self) -> int:
        """RuntimeError: the Mersenne twister counts no draws."""
        raise RuntimeError("Generator.get_offset: CPU Generator does not use offset")

    def set_offset(self, offset: int) -> Generator:
        """RuntimeError: the Mersenne twister counts no draws."""
        raise RuntimeError("Generator.set_offset: CPU Generator does not use offset")

    def graphsafe_get_state(self) -> Generator:
        """NotImplementedError: it is for graphs of GPUs."""
        raise NotImplementedError("graphsafe_get_state is not supported in this Generator: use clone_state()")

    def graphsafe_set_state(self, state: Generator) -> Generator:
        """NotImplementedError: it is for graphs of GPUs."""
        raise NotImplementedError(
            "graphsafe_set_state is not supported in this Generator: use set_state(other.get_state())"
        )

    def clone_state(self) -> Generator:
        """A new generator in the same state."""
        g = Generator(self.device)
        g.set_state(self.get_state())
        return g


default_generator = Generator()


class _Own(threading.local):
    generator: Generator | None = None  # that of a worker of a DataLoader


_own = _Own()


def default() -> Generator:
    """The default generator of this thread: that of the process, or in a worker of a DataLoader the worker's own."""
    return _own.generator or default_generator


def set_own(seed: int) -> None:
    """Gives this thread a default generator of its own, as the process of a worker has one in PyTorch."""
    _own.generator = Generator().manual_seed(seed)


def stream_of(generator: Generator | None, at: Any = None) -> Any:
    """The stream behind `generator` (None: the default one), or what draws from it for every slice of a vmap.

    at: where the numbers are to lie, a device or an array that lies there (None: the processor). RuntimeError if the generator
    is one of another device.
    """
    if generator is not None or (at is not None and type(at) is not HOST):
        generator = _own_of(generator, at)
    numbers = (generator or default()).stream
    if ALIVE and (running := RUNNING.get()):
        from ferro.batched.draws import drawing

        return drawing(numbers, running)
    return numbers


def _own_of(generator: Generator | None, at: Any) -> Generator | None:
    """The generator for numbers at a place; None for the default one of the processor."""
    where = CPU if at is None else known(at) if isinstance(at, (str, device)) else device_of(plain(at))
    if generator is None:
        return GENERATORS.get(where.type)
    kind = where.type if where.type in GENERATORS else CPU.type
    if generator.device.type != kind:
        raise RuntimeError(f"Expected a '{kind}' device type for generator but found '{generator.device.type}'")
    return generator


def _in_use() -> list[Generator]:
    """The default generators of the devices that are used."""
    return [g for name, g in GENERATORS.items() if name in DEVICE_BACKENDS]


def all_states() -> list[tuple[Generator, Any]]:
    """The default generators of this thread, of all devices that are used, with their states."""
    return [(g, g.get_state()) for g in (default(), *_in_use())]


def restore(states: list[tuple[Generator, Any]]) -> None:
    """Continues from what `all_states` gave."""
    for g, state in states:
        g.set_state(state)


def manual_seed(seed: int) -> Generator:
    """Seeds the default generators of all devices: see :meth:`Generator.manual_seed`.

    Example::

        >>> import ferro
        >>> _ = ferro.manual_seed(3)
        >>> x = ferro.rand(2)
        >>> _ = ferro.manual_seed(3)
        >>> bool((ferro.rand(2) == x).all())
        True
    """
    found = default().manual_seed(int(seed))
    _seed_others(found.initial_seed())
    return found


def _seed_others(seed: int) -> None:
    for g in GENERATORS.values():
        g._begin(seed)
    for g in _in_use():
        g.manual_seed(seed)  # (which a capture is told of)


def seed() -> int:
    """Seeds the default generators of all devices from the operating system."""
    number = default().seed()
    _seed_others(number)
    return number


def initial_seed() -> int:
    """The seed of the default generator."""
    return default().initial_seed()


def get_rng_state() -> Any:
    """The state of the default generator."""
    return default().get_state()


def set_rng_state(new_state: Any) -> None:
    """Continues the default generator from a state."""
    default().set_state(new_state)


def use_fast_streams(on: bool = True) -> None:
    """Has every generator draw from NumPy's PCG64 instead of PyTorch's stream: quicker for large draws, and other numbers.

    A generator has one stream of each kind: the second one starts from its seed, and both wait where they are while the other is
    in use. States of one kind do not fit the other.

    Example::

        >>> import ferro
        >>> ferro.random.use_fast_streams()
        >>> ferro.Generator().get_state().shape
        ferro.Size([56])
        >>> ferro.random.use_fast_streams(False)
    """
    FAST[0] = bool(on)


# -- kernels -----------------------------------------------------------------------------------------------------------


def _draws(make: Make) -> Iterator[tuple]:
    for n in (20, *sides(SMALL), 40_000):
        yield "uniform", (n,), make().dtype
        yield "normal", (n,), make().dtype, 1.0, 2.0
        yield "normal", (n,), make().dtype, 1.0, 2.0, False
        yield "integers", (n,), np.dtype(np.int64), -3, 1000
        yield "permutation", n
    for name, *parameters in (("gamma", 0.7), ("poisson", 30), ("binomial", 50, 0.4)):
        yield name, *[abs(make(40)) * p / 2 + p / 2 for p in parameters]


@by_kernels(
    "jit_random.uniform_numbers normal_numbers pair_numbers whole_numbers shuffle gamma_numbers poisson_numbers binomial_numbers",
    _draws,
)
def drawn(name: str, *args: Any) -> Any:
    """What a new stream draws by its method of that name, see twister.py: with and without kernels the same bits."""
    return getattr(Generator()._made(False), name)(*args)
