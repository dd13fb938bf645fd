"""What draws random numbers on a GPU: words by counter, distributions, masks; the state is a seed and how far words are drawn.

Note [Random numbers of a GPU]
    The state is a seed and an offset, counted in words of 32 bits: PyTorch's 16 bytes. A draw takes the next whole blocks of four words
    (by_hand/draws.py) and moves the offset on before anything is launched, so a state is known without a wait. While a graph is
    recorded, draws count from 0, and the kernels add what the graph's `state` array says: each replay sets that to the
    generator's seed and offset of then, and moves the offset on by all that the graph draws (`Recorded`). Numbers that are made by
    rejection take a block each, however often they are rejected (by_hand/rejection.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro.core.fast_streams import most_of
from ferro.cuda import driver
from ferro.cuda.by_hand import draws, rejection
from ferro.cuda.generator import RECORDING
from ferro.native import locks

__all__ = ["Mask", "Philox", "Recorded"]

_MASK = (1 << 64) - 1


def _signed(number: int) -> int:
    """The bits of a number of 64 bits as int64 has them."""
    number &= _MASK
    return number - (1 << 64) if number >> 63 else number


class Recorded:
    """What a recorded graph draws from one stream: how many blocks, and the array in which its kernels look for seed and block."""

    def __init__(self) -> None:
        self.blocks, self.state = 0, driver.cupy().ndarray((2,), np.int64)


class Philox:
    """A stream; every method draws an array of a shape on the device."""

    FAST, STATE_BYTES = False, 16

    def __init__(self, seed: int) -> None:
        self.lock = locks.new()
        self.seed, self.offset = seed & _MASK, 0

    def manual_seed(self, seed: int) -> None:
        """Starts again from a seed of 64 bits."""
        with self.lock:
            self.seed, self.offset = seed & _MASK, 0

    def state(self, seed: int) -> Any:
        """The state as 16 bytes."""
        with self.lock:
            return np.array([seed, self.offset], np.uint64).view(np.uint8)

    def continue_from(self, state: Any) -> int:
        """Continues from such a state; returns its seed."""
        seed, offset = [int(v) for v in np.ascontiguousarray(state).view(np.uint64)]
        if offset % 4:
            raise RuntimeError("offset must be a multiple of 4")
        with self.lock:
            self.seed, self.offset = seed, offset
        return seed

    def taken(self, blocks: int) -> tuple:
        """The next blocks, as kernels take them: the seed, the first one, and an array with what is to be added (or 0)."""
        graph = getattr(RECORDING, "graph", None)
        if graph is not None:
            found = graph.get(self) or graph.setdefault(self, Recorded())
            start, found.blocks = found.blocks, found.blocks + blocks
            return 0, start, found.state
        with self.lock:
            seed, start = self.seed, self.offset // 4
            self.offset = (self.offset + 4 * blocks) & _MASK
        return _signed(seed), start, 0

    def replayed(self, recorded: Recorded) -> None:
        """Sets what a graph draws from now on, in the current stream."""
        seed, start, _ = self.taken(recorded.blocks)
        recorded.state[0:1].fill(seed)
        recorded.state[1:2].fill(start)

    def _take(self, n: int, per: int) -> tuple:
        return self.taken(-(-n // per))

    # -- distributions; dtypes are NumPy's, parameters those of Twister's methods

    def _real(self, make: Any, shape: tuple, d: Any, *parameters: float) -> Any:
        """make(n, dtype, source, ...) in a shape; of complex numbers for both parts."""
        n = math.prod(shape)
        if not n:
            return driver.cupy().empty(shape, d)
        if d.kind == "c":
            wide = np.dtype(d.type(0).real.dtype)
            return make(2 * n, wide, self._take(2 * n, draws.each(wide)), *parameters).view(d).reshape(shape)
        return make(n, d, self._take(n, draws.each(d)), *parameters).reshape(shape)

    def uniform(self, shape: tuple, d: Any, low: float = 0.0, high: float = 1.0) -> Any:
        """Uniform numbers of [low, high) in a floating or complex dtype."""
        return self._real(draws.uniform, shape, d, low, high)

    def normal(self, shape: tuple, d: Any, mean: float = 0.0, std: float = 1.0, dense: bool = True) -> Any:
        """Normal numbers in a floating or complex dtype."""
        return self._real(draws.normal, shape, d, mean, std / math.sqrt(2) if d.kind == "c" else std)

    def integers(self, shape: tuple, d: Any, low: int, high: int) -> Any:
        """Integers of [low, high), of 64 bits; `high` may be 2^64 above `low`."""
        n, count = math.prod(shape), high - low
        if not n:
            return driver.cupy().empty(shape, d)
        return draws.whole(n, self._take(n, 2), _signed(low), _signed(count)).astype(d, copy=False).reshape(shape)

    def any_integers(self, shape: tuple, d: Any) -> Any:
        """Integers from 0 to the largest one of an integer dtype, or to 2^digits in a floating one."""
        return self.integers(shape, d, 0, most_of(d) + 1)

    def permutation(self, n: int) -> Any:
        """The numbers 0 to n - 1 in the order of n random numbers of 64 bits."""
        return driver.cupy().argsort(self.integers((n,), np.dtype(np.int64), 0, 1 << 64), kind="stable")

    def coins(self, shape: tuple, chance: Any) -> Any:
        """True with a probability, of one number, or an array of a floating dtype that is broadcast to the shape."""
        n = math.prod(shape)
        if not n:
            return driver.cupy().empty(shape, np.bool_)
        if isinstance(chance, (int, float)):
            return draws.coins(n, self._take(n, 4), float(chance)).reshape(shape)
        cupy = driver.cupy()
        each = cupy.ascontiguousarray(cupy.broadcast_to(cupy.asarray(chance), shape)).reshape(-1)
        return draws.coins(n, self._take(n, draws.each(each.dtype)), each).reshape(shape)

    def _made(self, name: str, shape: tuple, d: Any, a: float, b: float = 0.0) -> Any:
        n = math.prod(shape)
        if not n:
            return driver.cupy().empty(shape, d)
        kind = d if d.kind in "fV" else np.dtype(np.float64)
        return draws.made(name, n, kind, self._take(n, 1), a, b).astype(d, copy=False).reshape(shape)

    def exponential(self, shape: tuple, d: Any, rate: float = 1.0) -> Any:
        """Exponentially distributed numbers of a rate; none is 0."""
        return self._made("exponential", shape, d, rate)

    def log_normal(self, shape: tuple, d: Any, mean: float, std: float) -> Any:
        """Numbers whose logarithm is normal."""
        return self._made("log_normal", shape, d, mean, std)

    def cauchy(self, shape: tuple, d: Any, median: float, sigma: float) -> Any:
        """Cauchy distributed numbers."""
        return self._made("cauchy", shape, d, median, sigma)

    def geometric(self, shape: tuple, d: Any, p: float) -> Any:
        """The number of trials up to the first success of probability p."""
        return self._made("geometric", shape, d, math.log1p(-p))

    def _rejected(self, name: str, *parameters: Any) -> Any:
        cupy = driver.cupy()
        shape = np.broadcast_shapes(*[p.shape for p in parameters])
        given = [cupy.ascontiguousarray(cupy.broadcast_to(p, shape)) for p in parameters]
        if not given[0].size:
            return cupy.empty(shape, given[0].dtype)
        return rejection.rejected(name, self._take(given[0].size, 1), *given).reshape(shape)

    def gamma(self, alpha: Any) -> Any:
        """Gamma distributed numbers of shape parameters `alpha`, an array, and of rate 1; none is below the dtype's least normal one."""
        return self._rejected("gamma", alpha)

    def poisson(self, rate: Any) -> Any:
        """Poisson numbers of the rates of an array."""
        return self._rejected("poisson", rate)

    def binomial(self, count: Any, p: Any) -> Any:
        """How many of `count` trials of probability `p` succeed: arrays of one dtype, with broadcasting."""
        return self._rejected("binomial", count, p)

    def mask(self, x: Any, chance: float) -> Mask:
        """Which elements of an array stay, each with a probability: drawn where it is needed, and the same each time."""
        return Mask(self._take(x.size, 4), chance)


class Mask:
    """A dropout's mask that lies nowhere: where its words begin, and the probability with which an element stays."""

    def __init__(self, source: tuple, chance: float) -> None:
        self._source, self._chance = source, chance

    def __call__(self, x: Any) -> Any:
        """x divided by the probability where it stays, elsewhere 0."""
        found = draws.dropped(driver.cupy().ascontiguousarray(x), self._source, self._chance)
        return found.reshape(x.shape)  # (of no dimension: the copy has one)
