"""SobolEngine: points that fill the unit cube more evenly than random ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.core import dtypes
from ferro.core.base import wrap
from ferro.core.random import Generator, stream_of
from ferro.tensor import Tensor

__all__ = ["SobolEngine"]


class SobolEngine:
    """The Sobol sequence in `dimension` dimensions, points of [0, 1), with the direction numbers of Joe and Kuo (2008).

    scramble: permute the sequence at random (linear matrix scramble and digital shift, Owen 1998); seed: with it, the points are
    those that PyTorch draws with that seed. SciPy computes the sequence.

    Example::

        >>> import ferro
        >>> ferro.quasirandom.SobolEngine(2).draw(3)
        tensor([[0.0000, 0.0000],
                [0.5000, 0.5000],
                [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}], got {dimension}"
            )
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        from scipy.stats import qmc

        self._sequence = qmc.Sobol(dimension, scramble=False, bits=self.MAXBIT)
        self._shift, self._rows = self._scrambling() if scramble else (None, None)
        self.num_generated = 0

    def _scrambling(self) -> tuple[Any, Any]:
        """Shifts of the dimensions, and the rows of their unit lower triangular matrices over the field of two, as numbers of 30 bits."""
        bits, powers = self.MAXBIT, 1 << np.arange(self.MAXBIT)
        count = self.dimension * bits * (bits + 1)
        generator = None if self.seed is None else Generator().manual_seed(self.seed)
        coins = stream_of(generator).integers((count,), np.dtype(np.int64), 0, 2)
        shift = coins[: self.dimension * bits].reshape(-1, bits) @ powers
        lower = np.tril(coins[self.dimension * bits :].reshape(-1, bits, bits), -1) + np.eye(bits, dtype=np.int64)
        return shift, lower @ powers[::-1]

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: dtypes.dtype | None = None) -> Tensor:
        """The next `n` points, as the rows of a matrix of a floating dtype (the default one unless given)."""
        if n < 0:
            raise ValueError(f"SobolEngine.draw: the number of points must not be negative, got {n}")
        points = np.concatenate([self._next(k) for k in ((1, n - 1) if self.num_generated == 0 < n else (n,))])
        self.num_generated += n
        if self._rows is not None:
            points = self._scrambled(points)
        d = dtypes.default() if dtype is None else dtype
        found: Any = wrap(points.astype(dtypes.to_numpy(d)))
        return found if out is None else out.resize_as_(found).copy_(found)

    def _next(self, n: int) -> Any:
        """The next points of the sequence. (The first one is drawn alone: SciPy warns of a first number that is no power of 2.)"""
        return self._sequence.random(n) if n else np.empty((0, self.dimension))

    def _scrambled(self, points: Any) -> Any:
        """The scramble of the points: bit by bit of each number, the parity of what a row of the matrix selects."""
        digits = np.round(points * (1 << self.MAXBIT)).astype(np.int64)
        found = np.zeros_like(digits)
        for k in range(self.MAXBIT):
            parity = np.bitwise_count(digits & self._rows[:, k]) & 1
            found |= parity.astype(np.int64) << (self.MAXBIT - 1 - k)
        return (found ^ self._shift) / (1 << self.MAXBIT)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: dtypes.dtype | None = None) -> Tensor:
        """The next 2^m points; ValueError unless the number of points drawn so far becomes a power of 2 with them."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points have been "
                f"previously generated, then: n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Back to the first point; returns the engine."""
        self._sequence.reset()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leaves out `n` points; returns the engine."""
        self._sequence.fast_forward(n)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        shown = [f"dimension={self.dimension}"]
        if self.scramble:
            shown.append("scramble=True")
        if self.seed is not None:
            shown.append(f"seed={self.seed}")
        return f"SobolEngine({', '.join(shown)})"
