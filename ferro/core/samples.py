"""Samples: recipes of the calls with which every operation is tested, documented and timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np


class Arg:
    """The recipe of a random tensor argument.

    `shape`; values uniform in [low, high) (for complex dtypes both parts); `dtype` None means the floating dtype under
    test, otherwise a fixed one such as "int64" or "bool"; `values` are explicit numbers instead of random ones;
    `grad` False marks a floating argument that is never differentiated; `make` (rng, shape) -> array of float64 for
    structured values (permutations, symmetric matrices, distinct numbers).
    """

    __slots__ = ("dtype", "grad", "high", "low", "make", "shape", "values")

    def __init__(
        self,
        *shape: int,
        low: float = -2.0,
        high: float = 2.0,
        dtype: str | None = None,
        values: Any = None,
        grad: bool = True,
        make: Callable | None = None,
    ) -> None:
        self.shape, self.low, self.high, self.dtype = shape, low, high, dtype
        self.values, self.grad, self.make = values, grad and dtype is None, make

    def array(self, rng: np.random.Generator, float_dtype: Any) -> np.ndarray:
        """The argument as a NumPy array, drawn from `rng`."""
        dtype = np.dtype(self.dtype) if self.dtype else np.dtype(float_dtype)
        if self.values is not None:
            return np.array(self.values).astype(dtype).reshape(self.shape or np.shape(self.values))
        if self.make is not None:
            return np.asarray(self.make(rng, self.shape)).astype(dtype)
        if dtype.kind == "b":
            return np.asarray(rng.random(self.shape) < 0.5)
        if dtype.kind in "iu":
            return rng.integers(int(self.low), int(self.high), self.shape).astype(dtype)
        a = rng.uniform(self.low, self.high, self.shape)
        if dtype.kind == "c":
            a = a + 1j * rng.uniform(self.low, self.high, self.shape)
        return np.asarray(a).astype(dtype)

    def __repr__(self) -> str:
        text = ",".join(map(str, self.shape)) if self.values is None else str(self.values)
        return f"Arg({text}{', ' + self.dtype if self.dtype else ''})"


class Sample:
    """One call: positional and keyword arguments, in which `Arg`s (also inside lists and tuples) become tensors.

    `smooth` False marks a point where the derivative is a chosen sub-gradient: compared with PyTorch, not with finite
    differences.  `twice` False: likewise for the second order only.  `complex` False: not meaningful for complex dtypes.
    """

    __slots__ = ("args", "complex", "kwargs", "smooth", "twice")

    def __init__(
        self, *args: Any, smooth: bool = True, twice: bool = True, complex: bool = True, **kwargs: Any
    ) -> None:
        self.args, self.kwargs = args, kwargs
        self.smooth, self.twice, self.complex = smooth, twice, complex

    def __repr__(self) -> str:
        parts = [repr(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.kwargs.items()]
        return f"Sample({', '.join(parts)})"


class Entry:
    """What is declared of a public function: its path below `ferro`, its samples and what holds for them."""

    __slots__ = ("complex", "differentiable", "method", "order", "path", "reference", "samples", "why")

    def __init__(
        self,
        path: str,
        samples: Sequence[Sample],
        complex: bool,
        order: int,
        differentiable: bool,
        reference: Any,
        method: bool,
        why: str,
    ) -> None:
        self.path, self.samples, self.complex, self.order = path, list(samples), complex, order
        self.differentiable, self.reference, self.method, self.why = differentiable, reference, method, why


ENTRIES: dict[str, Entry] = {}


def declare(
    path: str,
    samples: Sequence[Sample],
    *,
    complex: bool = False,
    order: int = 2,
    differentiable: bool = True,
    reference: Any = "torch",
    method: bool = False,
    why: str = "",
) -> None:
    """Declares the samples of the public function `ferro.<path>`.

    complex: defined for complex dtypes; order: derivatives exist to any order (2) or only the first (1, then `why`
    says why); reference: "torch" for the function of the same path there, else a callable on NumPy arrays; method: the
    path names a Tensor method (called on the first argument).
    """
    if not samples:
        raise ValueError(f"{path}: an operation without samples cannot be declared; give at least one Sample")
    if path in ENTRIES:
        raise ValueError(f"{path} is declared twice")
    ENTRIES[path] = Entry(path, samples, complex, order, differentiable, reference, method, why)


class Singular(NamedTuple):
    """A point at which a derivative is a convention: the call, in words where it is, and why the gradient is what it is."""

    path: str
    where: str
    sample: Sample
    why: str


SINGULAR: list[Singular] = []


def singular(path: str, where: str, sample: Sample, why: str) -> None:
    """Declares a singular point of `ferro.<path>`, for docs/subgradients.md."""
    SINGULAR.append(Singular(path, where, sample, why))


def unary_samples(low: float = -2.0, high: float = 2.0, *points: float, smooth: bool = True) -> list[Sample]:
    """Samples of an elementwise function of one argument: shapes, plus special `points` (kinks, edges)."""
    found = [Sample(Arg(*shape, low=low, high=high)) for shape in ((), (5,), (3, 4), (2, 1, 3), (0,), (2, 0))]
    if points:
        found.append(Sample(Arg(values=list(points)), smooth=smooth, complex=False))
    return found


def points_complex() -> list[Sample]:
    """Samples of a function of complex (and, trivially, real) numbers: shapes only."""
    return [Sample(Arg(*shape)) for shape in ((), (5,), (3, 4), (0,))]


def binary_samples(
    low: float = -2.0,
    high: float = 2.0,
    low2: float | None = None,
    high2: float | None = None,
    scalars: Sequence[float] = (1.5,),
) -> list[Sample]:
    """Samples of an elementwise function of two arguments: equal and broadcast shapes, 0-d, empty, Python numbers."""
    lo, hi = (low if low2 is None else low2), (high if high2 is None else high2)
    pairs = [
        ((), ()),
        ((4,), (4,)),
        ((3, 4), (4,)),
        ((3, 1), (1, 4)),
        ((2, 3), ()),
        ((), (2, 2)),
        ((0,), (1,)),
        ((2, 1, 3), (4, 1)),
    ]
    found = [Sample(Arg(*a, low=low, high=high), Arg(*b, low=lo, high=hi)) for a, b in pairs]
    return found + [Sample(Arg(2, 3, low=low, high=high), s) for s in scalars]


def permuted(scale: float = 1.0, offset: float = 0.0) -> Callable:
    """A `make` for Arg: distinct, well separated numbers in random order (no ties within a finite difference)."""

    def make(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        n = int(np.prod(shape))
        return (rng.permutation(n).reshape(shape) - n / 2 + 0.25) * (scale / max(n, 1) * 4) + offset

    return make
