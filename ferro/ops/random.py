"""Random tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import dtypes
from ferro.core.arguments import sizes
from ferro.core.base import TensorBase
from ferro.core.random import numpy_generator
from ferro.ops.creation import finish

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["rand", "randint", "randn", "randperm"]


def draw(kind: str, shape: tuple, dtype: Any, generator: Any) -> Any:
    """Uniform or normal numbers of a floating or complex dtype as an array."""
    d = dtypes.default().np if dtype is None else dtypes.to_numpy(dtype)
    rng = numpy_generator(generator)
    make = rng.random if kind == "uniform" else rng.standard_normal
    if d.kind == "c":
        real = d.type(0).real.dtype
        scale = 1.0 if kind == "uniform" else 0.5**0.5
        return (make(shape, real) * scale + 1j * (make(shape, real) * scale)).astype(d)
    if d not in dtypes.INEXACT:
        raise RuntimeError(f"{kind} random numbers are not implemented for {dtypes.FROM_NUMPY[d]}; use a floating-point dtype")
    return np.asarray(make(shape, d if d.itemsize >= 4 else np.float32)).astype(d, copy=False)


def rand(*size: Any, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
         requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Uniform random numbers from [0, 1)."""
    return finish("rand", draw("uniform", sizes("rand", size), dtype, generator), requires_grad, device)


def randn(*size: Any, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
          requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Standard normal random numbers."""
    return finish("randn", draw("normal", sizes("randn", size), dtype, generator), requires_grad, device)


def randint(low: Any, high: Any = None, size: Any = None, *, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
            device: Any = None, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Random integers from [low, high); randint(high, size) counts from 0."""
    if size is None:
        low, high, size = 0, low, high
    if isinstance(high, (tuple, list)):
        low, high, size = 0, low, high
    low, high = [int(v._data) if isinstance(v, TensorBase) else v for v in (low, high)]
    if low >= high:
        raise RuntimeError(f"randint: random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    d = dtypes.int64.np if dtype is None else dtypes.to_numpy(dtype)
    return finish("randint", np.asarray(numpy_generator(generator).integers(low, high, sizes("randint", (size,)))).astype(d), requires_grad, device)


def randperm(n: int, *, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
             requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """The numbers 0 to n - 1 in random order."""
    d = dtypes.int64.np if dtype is None else dtypes.to_numpy(dtype)
    return finish("randperm", numpy_generator(generator).permutation(n).astype(d), requires_grad, device)
