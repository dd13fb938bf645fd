"""A stream of random numbers of NumPy's, quicker for large draws than PyTorch's: what `ferro.random.use_fast_streams` turns on."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ferro.core.backend import HOST
from ferro.native import locks

_MASK = (1 << 64) - 1


def most_of(d: Any) -> int:
    """The largest integer that `Tensor.random_` draws in a dtype."""
    if d.kind == "b":
        return 1
    return min(np.iinfo(d).max, (1 << 63) - 1) if d.kind in "iu" else round(2 / float(ml_dtypes.finfo(d).eps))


class Fast:
    """A stream (PCG64, O'Neill 2014) with the methods of `Twister`; its numbers are its own."""

    FAST, STATE_BYTES = True, 56

    def __init__(self, seed: int) -> None:
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> None:
        """Starts again from a seed of 64 bits."""
        bits = np.random.PCG64(seed)
        locks.renewed(bits.lock)
        self._numpy = np.random.Generator(bits)

    def state(self, seed: int) -> Any:
        """The state as 56 bytes."""
        s: Any = self._numpy.bit_generator.state
        numbers = [
            seed,
            s["state"]["state"] & _MASK,
            s["state"]["state"] >> 64,
            s["state"]["inc"] & _MASK,
            s["state"]["inc"] >> 64,
            s["has_uint32"],
            s["uinteger"],
        ]
        return np.array(numbers, np.uint64).view(np.uint8)

    def continue_from(self, state: Any) -> int:
        """Continues from such a state; returns its seed."""
        seed, low, high, inc_low, inc_high, has, value = [int(v) for v in state.view(np.uint64)]
        self._numpy.bit_generator.state = {
            "bit_generator": "PCG64",
            "state": {"state": low | high << 64, "inc": inc_low | inc_high << 64},
            "has_uint32": has,
            "uinteger": value,
        }
        return seed

    def uniform(self, shape: tuple, d: Any, low: float = 0.0, high: float = 1.0) -> Any:
        """Uniform numbers of [low, high) in a floating or complex dtype."""
        u = self._made(self._numpy.random, shape, d)
        return u if low == 0 and high == 1 else (low + (high - low) * u).astype(d)

    def normal(self, shape: tuple, d: Any, mean: float = 0.0, std: float = 1.0, dense: bool = True) -> Any:
        """Normal numbers in a floating or complex dtype."""
        z = self._made(self._numpy.standard_normal, shape, d, 0.5**0.5)
        return z if mean == 0 and std == 1 else (mean + std * z).astype(d)

    def _made(self, make: Any, shape: tuple, d: Any, scale: float = 1.0) -> Any:
        if d.kind == "c":
            real = np.dtype(d.type(0).real.dtype)
            return (make((*shape, 2), real) * real.type(scale)).view(d).reshape(shape)
        return np.asarray(make(shape, d if d.itemsize >= 4 else np.float32)).astype(d, copy=False)

    def integers(self, shape: tuple, d: Any, low: int, high: int) -> Any:
        """Integers of [low, high)."""
        return np.asarray(self._numpy.integers(low, high, shape)).astype(d)

    def any_integers(self, shape: tuple, d: Any) -> Any:
        """Integers from 0 to the largest one of an integer dtype, or to 2^digits in a floating one."""
        return self.integers(shape, d, 0, min(most_of(d) + 1, (1 << 63) - 1))

    def permutation(self, n: int) -> Any:
        """The numbers 0 to n - 1 in random order."""
        return self._numpy.permutation(n)

    def coins(self, shape: tuple, chance: Any) -> Any:
        """True with a probability, of one number or of an array that is broadcast to the shape."""
        d = np.float64 if isinstance(chance, HOST) else np.float32
        return self._numpy.random(shape, d) < np.asarray(chance, d)

    def exponential(self, shape: tuple, d: Any, rate: float = 1.0) -> Any:
        """Exponentially distributed numbers of a rate."""
        return np.asarray(self._numpy.standard_exponential(shape) / rate).astype(d)

    def log_normal(self, shape: tuple, d: Any, mean: float, std: float) -> Any:
        """Numbers whose logarithm is normal."""
        return np.asarray(self._numpy.lognormal(mean, std, shape)).astype(d)

    def cauchy(self, shape: tuple, d: Any, median: float, sigma: float) -> Any:
        """Cauchy distributed numbers."""
        return np.asarray(median + sigma * self._numpy.standard_cauchy(shape)).astype(d)

    def geometric(self, shape: tuple, d: Any, p: float) -> Any:
        """The number of trials up to the first success of probability p."""
        return np.asarray(self._numpy.geometric(p, shape)).astype(d)

    def gamma(self, alpha: Any) -> Any:
        """Gamma distributed numbers of shape parameters `alpha`, and of rate 1."""
        least = float(ml_dtypes.finfo(alpha.dtype).tiny)
        return np.maximum(self._numpy.standard_gamma(alpha.astype(np.float64)), least).astype(alpha.dtype)

    def poisson(self, rate: Any) -> Any:
        """Poisson numbers of the rates of an array."""
        return np.asarray(self._numpy.poisson(rate.astype(np.float64))).astype(rate.dtype)

    def binomial(self, count: Any, p: Any) -> Any:
        """How many of `count` trials of probability `p` succeed."""
        return np.asarray(self._numpy.binomial(count.astype(np.int64), p.astype(np.float64))).astype(p.dtype)
