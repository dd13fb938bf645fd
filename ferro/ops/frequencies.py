"""The frequencies of a Fourier transform, and shifting them to the middle."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import dtypes
from ferro.core.arguments import need_tensor, sizes
from ferro.core.dtypes import FROM_NUMPY, INEXACT
from ferro.core.into import into
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.creation import finish
from ferro.ops.fourier_operations import _one_dim
from ferro.ops.structure import clone
from ferro.ops.turning import roll

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def _frequencies(
    name: str, numbers: Any, n: int, d: Any, dtype: Any, requires_grad: bool, device: Any, out: Any
) -> Any:
    wanted = dtypes.default().np if dtype is None else dtypes.to_numpy(dtype)
    if out is not None and dtype is None:
        wanted = need_tensor(name, "out", out)._data.dtype
    if wanted not in INEXACT:
        raise RuntimeError(f"{name} requires a floating point or complex dtype, got {FROM_NUMPY[wanted]}")
    total = n * float(d)
    data = np.asarray(numbers, np.float64) * (1 / total) if total else np.full(len(numbers), math.nan)
    if not total and n:
        data = np.where(numbers, np.copysign(math.inf, numbers), math.nan)
    result = finish(name, data.astype(wanted), requires_grad, device)
    return result if out is None else into(name, out, result)


def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies of the bins of :func:`fft` of n elements: 0, 1, ..., -2, -1, divided by n d.

    - `n` (int): how many elements there are, positive
    - `d` (float, default 1.0): their distance
    - `out` (Tensor, default None): where to write the result
    - `dtype` (dtype, default None): None: the default dtype
    - `layout` (layout, default None): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    The result is (n). RuntimeError for an n that is not positive.

    Example::

        >>> import ferro
        >>> ferro.fft.fftfreq(4)
        tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    (n,) = sizes("fftfreq", (n,))
    if n < 0:
        raise RuntimeError(f"fftfreq: Trying to create tensor with negative dimension {n}")
    numbers = np.arange(n)
    numbers[(n + 1) // 2 :] -= n
    return _frequencies("fftfreq", numbers, n, d, dtype, requires_grad, device, out)


def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies of the bins of :func:`rfft` of n elements: 0, 1, ..., n // 2, divided by n d.

    - `n` (int): how many elements there are, positive
    - `d` (float, default 1.0): their distance
    - `out` (Tensor, default None): where to write the result
    - `dtype` (dtype, default None): None: the default dtype
    - `layout` (layout, default None): only ferro.strided
    - `device` (device, default None): where it lies; None: the default one
    - `requires_grad` (bool, default False): whether the result is a leaf that collects gradients

    The result is (n // 2 + 1). RuntimeError for an n that is not positive.

    Example::

        >>> import ferro
        >>> ferro.fft.rfftfreq(4)
        tensor([0.0000, 0.2500, 0.5000])
    """
    (n,) = sizes("rfftfreq", (n,))
    if n < 0:
        raise RuntimeError(f"rfftfreq: expected a number of elements of at least 0, got {n}")
    return _frequencies("rfftfreq", np.arange(n // 2 + 1), n, d, dtype, requires_grad, device, out)


def _shifted(name: str, input: Any, dim: Any, up: bool) -> Any:
    shape = need_tensor(name, "input", input)._data.shape
    dims = range(len(shape)) if dim is None else [_one_dim(name, input, d) for d in sizes(name, (dim,))]
    by = [shape[d] // 2 if up else (shape[d] + 1) // 2 for d in dims]
    return roll(input, by, list(dims)) if by else clone(input)


def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The bins of :func:`fftn` in ascending order of their frequencies, along all dimensions or `dim`.

    Example::

        >>> import ferro
        >>> ferro.fft.fftshift(ferro.fft.fftfreq(5))
        tensor([-0.4000, -0.2000,  0.0000,  0.2000,  0.4000])
    """
    return _shifted("fftshift", input, dim, True)


def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The inverse of :func:`fftshift`."""
    return _shifted("ifftshift", input, dim, False)


for _name in ("fftshift", "ifftshift"):
    declare(
        f"fft.{_name}",
        [Sample(Arg(5)), Sample(Arg(3, 4)), Sample(Arg(3, 4), 1), Sample(Arg(2, 3, 5), (2, 0))],
        complex=True,
    )
for _name in ("fftfreq", "rfftfreq"):
    declare(
        f"fft.{_name}",
        [Sample(n, dtype=dtypes.float64) for n in (1, 4, 5)] + [Sample(6, 0.3, dtype=dtypes.float64)],
        differentiable=False,
    )
