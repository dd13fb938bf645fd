"""PyTorch's stream of random numbers on the CPU: the Mersenne twister, and how distributions are drawn from it.

The engine is MT19937 (Matsumoto and Nishimura 1998), seeded by the low 32 bits of a seed; NumPy runs it.  A number in float32
takes the low 24 bits of one draw, one in float64 the low 53 of two, of which the first is the higher one.  docs/random.md
says which functions agree with PyTorch to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from operator import length_hint
from typing import Any

import ml_dtypes
import numpy as np

from ferro.core.backend import HOST
from ferro.cpu.box_muller import BLOCK, fma, normals
from ferro.cpu.kernels import random as machine_code
from ferro.cpu.kernels import rejection
from ferro.native import locks

f4, f8, u8 = np.float32, np.float64, np.uint64
_F4, _F8 = np.dtype(f4), np.dtype(f8)
_CHUNK = 1 << 15  # draws that are made together: their arrays stay in a cache
_WORDS = 624  # of the engine's state
_MASK = (1 << 64) - 1
# PyTorch's CPUGeneratorImplState
_STATE = np.dtype(
    [
        ("seed", u8),
        ("left", "i4"),
        ("seeded", "i4"),
        ("next", u8),
        ("words", u8, _WORDS),
        ("unused", f8),
        ("spare", f8),
        ("unused_2", f8),
        ("has_spare", "i4"),
        ("gap", "i4"),
        ("spare_float", f4),
        ("has_spare_float", "u1"),
        ("gap_2", "u1", 3),
    ]
)


class Twister:
    """A stream; every method draws an array of a shape, and takes what the parameters of the distribution are."""

    FAST, STATE_BYTES = False, 5056

    def __init__(self, seed: int) -> None:
        self._bits = np.random.MT19937(0)
        self._memory = machine_code.memory_of(self._bits)
        self.lock = self._bits.lock
        locks.renewed(self.lock)
        self._spare = np.empty(1)  # the second normal number of a pair, in float64, or nan
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> None:
        """Starts again from the low 32 bits of a seed."""
        with self.lock:
            np.random.RandomState(self._bits).seed(seed & 0xFFFFFFFF)
            self._spare[0] = math.nan
            self._spare_float = f4(0), 0  # the one in float32, which PyTorch's CPU keeps and never takes

    # -- the state, as PyTorch writes it

    def state(self, seed: int) -> Any:
        """The state as 5056 bytes: as PyTorch has it in a generator of this seed."""
        with self.lock:
            inner: Any = self._bits.state["state"]
            s = np.zeros(1, _STATE)
            fresh = inner["pos"] == _WORDS and inner["key"][0] == seed & 0xFFFFFFFF  # nothing was drawn yet
            s["seed"], s["seeded"], s["words"] = seed, 1, inner["key"]
            s["next"], s["left"] = (0, 1) if fresh else (inner["pos"], _WORDS + 1 - inner["pos"])
            s["has_spare"], s["spare"] = (0, 0) if math.isnan(self._spare[0]) else (1, self._spare[0])
            s["spare_float"], s["has_spare_float"] = self._spare_float
        return s.view(np.uint8)

    def continue_from(self, state: Any) -> int:
        """Continues from such a state; returns its seed.  RuntimeError if it is none."""
        s = state.view(_STATE)[0]
        left, pos = int(s["left"]), int(s["next"])
        if not (s["seeded"] and 0 < left <= _WORDS and pos <= _WORDS):
            raise RuntimeError("Generator.set_state: Invalid mt19937 state")
        with self.lock:
            key = s["words"].astype(np.uint32)
            self._bits.state = {
                "bit_generator": "MT19937",
                "state": {"key": key, "pos": _WORDS if left == 1 else pos},
            }
            self._spare[0] = s["spare"] if s["has_spare"] else math.nan
            self._spare_float = s["spare_float"], s["has_spare_float"]
        return int(s["seed"])

    # -- uniform numbers

    def _words(self, n: int) -> Any:
        """n draws of 32 bits, in uint64."""
        return self._bits.random_raw(n)

    def _pairs(self, n: int) -> Any:
        """n draws of 64 bits."""
        words = self._bits.random_raw(2 * n)
        return words[0::2] << u8(32) | words[1::2]

    def _uniform(self, n: int, d: Any) -> Any:
        """n numbers of [0, 1) in float32 or float64."""
        out = np.empty(n, d)
        with self.lock:
            if machine_code.fill("uniform_numbers", self._memory, out):
                return out
            draw, mask = (self._words, u8(0xFFFFFF)) if d == f4 else (self._pairs, u8((1 << 53) - 1))
            unit = f4(2**-24) if d == f4 else f8(2**-53)
            for start in range(0, n, _CHUNK):
                part = out[start : start + _CHUNK]
                np.multiply((draw(len(part)) & mask).astype(d), unit, part)
        return out

    def uniform(self, shape: tuple, d: Any, low: float = 0.0, high: float = 1.0) -> Any:
        """Uniform numbers of [low, high) in a floating or complex dtype."""
        n = math.prod(shape)
        if d is _F4 or d is _F8:
            whole = low == 0 and high == 1
            return (self._uniform(n, d) if whole else self._uniform_between(n, d, low, high)).reshape(shape)
        wide = _computed_in(d)
        if d.kind == "c":
            return self._uniform_between(2 * n, wide, low, high).view(d).reshape(shape)
        u = self._uniform_between(n, wide, low, high).astype(d, copy=False)
        if wide != d:
            u[u == d.type(high)] = d.type(low)  # rounded up to the bound that is left out
        return u.reshape(shape)

    def _uniform_between(self, n: int, d: Any, low: float, high: float) -> Any:
        u = self._uniform(n, d)
        if low == 0 and high == 1:
            return u
        low, high = d.type(low), d.type(high)
        return fma(u, high - low, low)

    # -- normal numbers

    def normal(self, shape: tuple, d: Any, mean: float = 0.0, std: float = 1.0, dense: bool = True) -> Any:
        """Normal numbers in a floating or complex dtype; dense: for a tensor in C order, of which PyTorch fills 16 at a time."""
        n = math.prod(shape)
        if d is _F4 or d is _F8:
            return self._normal(n, d, mean, std, dense).reshape(shape)
        wide = _computed_in(d)
        if d.kind == "c":
            return self._normal(2 * n, wide, mean, std / math.sqrt(2), dense).view(d).reshape(shape)
        return _quiet(np.asarray, self._normal(n, wide, mean, std, dense, d == wide), d).reshape(shape)

    def _normal(self, n: int, d: Any, mean: float, std: float, dense: bool, at_once: bool = True) -> Any:
        """at_once: all uniform numbers are drawn first, in PyTorch where it computes in the dtype of the result."""
        if n < BLOCK or not dense:
            z = self._scalar_normals(n, mean, std)
            return z.astype(d, copy=False) if mean == 0 and std == 1 else _quiet(np.asarray, z, d)
        out = np.empty(n, d)
        with self.lock:
            if at_once and machine_code.fill("normal_numbers", self._memory, float(mean), float(std), out):
                return out
            whole = n - n % BLOCK
            self._fill_blocks(out[:whole], mean, std)
            if n > whole:  # the last 16 are made anew; those that were drawn for the rest are left out
                if at_once:
                    self._bits.random_raw((n - whole) * d.itemsize // 4, output=False)
                last = np.empty(BLOCK, d)
                self._fill_blocks(last, mean, std)
                out[-BLOCK:] = last
        return out

    def _fill_blocks(self, out: Any, mean: float, std: float) -> None:
        """Fills a row of whole blocks of 16."""
        if machine_code.fill("normal_numbers", self._memory, float(mean), float(std), out):
            return
        for start in range(0, len(out), _CHUNK):
            part = out[start : start + _CHUNK]
            part[:] = normals(self._uniform(len(part), out.dtype).reshape(-1, BLOCK), mean, std).reshape(-1)

    def _scalar_normals(self, n: int, mean: float, std: float) -> Any:
        """n normal numbers in float64, made in pairs of which the second member may wait for the next draw."""
        z = np.empty(n)
        with self.lock:
            if not machine_code.fill("pair_numbers", self._memory, self._spare, z):
                z = self._pairwise(n)
        return z if mean == 0 and std == 1 else fma(z, f8(std), f8(mean))

    def _pairwise(self, n: int) -> Any:
        """The same of the standard distribution, without machine code."""
        with self.lock:
            spare = [] if math.isnan(self._spare[0]) or not n else [self._spare[0]]
            pairs = (n - len(spare) + 1) // 2
            u = self._uniform(2 * pairs, f8)
            made = (
                _pairs_of(u)
                if pairs > 16
                else [z for k in range(pairs) for z in _pair(float(u[2 * k]), float(u[2 * k + 1]))]
            )
            z = np.concatenate([spare, made])
            if n:
                self._spare[0] = z[n] if len(z) > n else math.nan
        return z[:n]

    # -- integers

    def integers(self, shape: tuple, d: Any, low: int, high: int) -> Any:
        """Integers of [low, high) in any dtype but a complex one; the bounds are of 64 bits, `high` may be 2^64 above `low`."""
        return (
            self._whole(math.prod(shape), low, high - low, high - low >= 1 << 28).astype(d, copy=False).reshape(shape)
        )

    def any_integers(self, shape: tuple, d: Any) -> Any:
        """Integers from 0 to the largest one of an integer dtype, or to 2^digits in a floating one."""
        if d.kind == "b":
            most = 1
        elif d.kind in "iu":
            most = min(np.iinfo(d).max, (1 << 63) - 1)
        else:
            most = round(2 / float(ml_dtypes.finfo(d).eps))
        return self._whole(math.prod(shape), 0, most + 1, d.itemsize == 8).astype(d, copy=False).reshape(shape)

    def _whole(self, n: int, low: int, count: int, wide: bool) -> Any:
        """n integers of [low, low + count) in int64; wide: each from a draw of 64 bits, of which a count of 2^64 takes all."""
        low, count = (low & _MASK, count) if count <= _MASK else (0, 0)
        found = np.empty(n, np.int64)
        with self.lock:
            if not machine_code.fill_whole("whole_numbers", self._memory, _signed(low), _signed(count), wide, found):
                x = self._pairs(n) if wide else self._words(n)
                x = _remainder(x, count) if count else x
                x += u8(low)
                return x.view(np.int64)
        return found

    def permutation(self, n: int) -> Any:
        """The numbers 0 to n - 1 in random order: the shuffle of Fisher and Yates, from the front."""
        order = np.arange(n)
        with self.lock:
            if machine_code.fill_whole("shuffle", self._memory, order):
                return order
        left = np.arange(n, 1, -1, dtype=u8)
        partners = (self._words(len(left)) % left).astype(np.int64)
        partners += order[: len(left)]
        moved = order.tolist()
        for i, k in enumerate(partners.tolist()):
            moved[i], moved[k] = moved[k], moved[i]
        return np.array(moved, np.int64)

    # -- transformed uniform numbers

    def coins(self, shape: tuple, chance: Any) -> Any:
        """True with a probability, of one number, or an array of a floating dtype that is broadcast to the shape."""
        if not isinstance(chance, HOST):
            return self._uniform(math.prod(shape), _F8).reshape(shape) < chance
        d = _F8 if chance.dtype == f8 else _F4
        return self._uniform(math.prod(shape), d).reshape(shape) < (
            chance if chance.dtype is d else chance.astype(d, copy=False)
        )

    def exponential(self, shape: tuple, d: Any, rate: float = 1.0) -> Any:
        """Exponentially distributed numbers of a rate."""
        return _rounded(-1 / rate * np.log1p(-self._doubles(shape)), d)

    def log_normal(self, shape: tuple, d: Any, mean: float, std: float) -> Any:
        """Numbers whose logarithm is normal."""
        return _quiet(np.exp, self._scalar_normals(math.prod(shape), mean, std), d).reshape(shape)

    def cauchy(self, shape: tuple, d: Any, median: float, sigma: float) -> Any:
        """Cauchy distributed numbers."""
        z = fma(np.tan(np.pi * (self._doubles(shape) - 0.5)), f8(sigma), f8(median))
        return _quiet(np.asarray, z, d)

    def geometric(self, shape: tuple, d: Any, p: float) -> Any:
        """The number of trials up to the first success of probability p."""
        return _quiet(lambda u: np.ceil(np.log(u) / math.log1p(-p)), self._doubles(shape), d)

    def _doubles(self, shape: tuple) -> Any:
        return self._uniform(math.prod(shape), _F8).reshape(shape)

    # -- distributions drawn by rejection, element by element

    def gamma(self, alpha: Any) -> Any:
        """Gamma distributed numbers of shape parameters `alpha`, an array, and of rate 1."""
        return self._rejected("gamma", alpha)

    def poisson(self, rate: Any) -> Any:
        """Poisson numbers of the rates of an array."""
        return self._rejected("poisson", rate)

    def binomial(self, count: Any, p: Any) -> Any:
        """How many of `count` trials of probability `p` succeed: arrays of one shape and dtype."""
        return self._rejected("binomial", count, p)

    def _rejected(self, name: str, *parameters: Any) -> Any:
        """Numbers of a distribution in rejection.py."""
        sample, columns_of = getattr(rejection, name), getattr(rejection, f"{name}_columns")
        flat = [np.ravel(p) for p in parameters]
        found = np.empty(len(flat[0]), flat[0].dtype)
        with self.lock:
            for start in range(0, len(found), _CHUNK):
                columns = columns_of(*[p[start : start + _CHUNK] for p in flat])
                table, drawn = np.empty((len(columns), len(columns[0]))), np.empty(len(columns[0]))
                for row, column in zip(table, columns, strict=True):
                    row[:] = column
                if not machine_code.fill(f"{name}_numbers", self._memory, self._spare, table, drawn):
                    source = _Scalars.of(self)
                    drawn[:] = [sample(source, *row) for row in table.T.tolist()]
                    source.close()
                found[start : start + _CHUNK] = _rounded(drawn, found.dtype)
        return found.reshape(parameters[0].shape)


class _Scalars(chain):
    """Uniform and normal numbers one by one, in float64; those drawn ahead and not taken are given back at the end.

    next() of a `chain` costs no call of a Python function.
    """

    stream: Twister
    ahead: list

    @classmethod
    def of(cls, stream: Twister) -> _Scalars:
        """A source of numbers from a stream."""
        ahead: list = []
        source: Any = cls.from_iterable(_blocks(stream, ahead))
        source.stream, source.ahead = stream, ahead
        return source

    def normal(self) -> float:
        """The next normal number, or the one that a pair left over."""
        spare = self.stream._spare
        found = float(spare[0])
        if math.isnan(found):
            found, spare[0] = _pair(next(self), next(self))
        else:
            spare[0] = math.nan
        return found

    def close(self) -> None:
        """Puts the stream behind the last number that was taken."""
        if self.ahead:
            before, size, left = self.ahead
            self.stream._memory[:] = before
            self.stream._bits.random_raw(2 * (size - length_hint(left)), output=False)


def _blocks(stream: Twister, ahead: list) -> Iterator[Any]:
    """Uniform numbers in blocks; of the last one, `ahead` has the state before it, its size and what is left of it."""
    size = 8
    while True:
        size = min(2 * size, 1 << 14)
        before = stream._memory.copy()
        left = iter(stream._uniform(size, _F8).tolist())
        ahead[:] = before, size, left
        yield left


def _pairs_of(u: Any) -> Any:
    """Normal numbers from uniform ones, pair by pair (Box and Muller)."""
    radius, angle = np.sqrt(-2 * np.log1p(-u[1::2])), 2 * np.pi * u[0::2]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1).reshape(-1)


def _pair(first: float, second: float) -> tuple[float, float]:
    """The same for one pair by the functions of the C library, which PyTorch calls: quicker for a few, and the same bits."""
    radius, angle = math.sqrt(-2 * math.log1p(-second)), 2 * math.pi * first
    return radius * math.cos(angle), radius * math.sin(angle)


def _signed(x: int) -> int:
    """The number of int64 that has the bits of one of uint64."""
    return x - (x >> 63 << 64)


def _remainder(x: Any, n: int) -> Any:
    """x % n of uint64, by a division that NumPy has vectorised."""
    return x - x // u8(n) * u8(n)


def _computed_in(d: Any) -> Any:
    """The dtype in which PyTorch computes numbers of a floating or complex dtype."""
    return _F8 if d.itemsize == 8 * (1 + (d.kind == "c")) else _F4


def _quiet(function: Any, x: Any, d: Any) -> Any:
    """The function of x in a dtype, in which large numbers become infinite without a warning."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return _rounded(function(x), d)


def _rounded(x: Any, d: Any) -> Any:
    """Numbers in float64 in another dtype; in one of low precision by way of float32, as PyTorch does it."""
    return (x.astype(f4) if d.kind in "fV" and d.itemsize < 4 else x).astype(d, copy=False)
