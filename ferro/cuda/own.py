"""Array functions of a GPU for which the CPU's formula is none: sums in float64 without a look at the numbers, views of memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ferro import cpu, xp
from ferro.cpu.reductions import count
from ferro.cuda import layouts
from ferro.cuda.by_hand.launching import is_float
from ferro.cuda.by_hand.reductions import reduced
from ferro.cuda.driver import cupy
from ferro.cuda.kernels import launched
from ferro.cuda.own_variance import total
from ferro.cuda.twins import twin

__all__ = ["amax", "amin", "argsort", "as_strided", "count_nonzero", "diagonal", "euclidean", "expand", "geometry",
           "in_one_pass", "is_within", "logical_and",
           "logical_not", "logical_or", "logical_xor", "mean",
           "memory_bytes", "memory_of", "nan_to_num", "new_zeros", "ones_like", "over_norm", "prod", "sign", "storage_bytes", "sum", "typed",
           "windows", "zeros_like"]  # fmt: skip

expand, geometry, memory_of = layouts.expand, layouts.geometry, layouts.memory_of
memory_bytes, storage_bytes = layouts.memory_bytes, layouts.storage_bytes
_WIDE, _SINGLE = np.dtype(np.float64), np.dtype(np.float32)


def typed(value: Any, like: Any) -> Any:
    """A Python number as a scalar of the dtype of `like`."""
    return like.dtype.type(value)


# -- views -------------------------------------------------------------------------------------------------------------


def diagonal(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    """The diagonal of the matrices in dim1 and dim2, as the last dimension: a view."""
    rows, columns = x.shape[dim1], x.shape[dim2]
    n = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    rest = [d for d in range(x.ndim) if d not in (dim1, dim2)]
    shape, strides = (*[x.shape[d] for d in rest], n), [x.strides[d] for d in rest]
    start = max(-offset, 0) * x.strides[dim1] + max(offset, 0) * x.strides[dim2] if n else 0
    return layouts.strided(x, shape, (*strides, x.strides[dim1] + x.strides[dim2]), start)


def windows(x: Any, dim: int, size: int, step: int) -> Any:
    """Windows of `size` elements along `dim`, `step` apart; the window is the last dimension."""
    if x.ndim == 0:
        return layouts.strided(x, (size,), (0,))
    count = (x.shape[dim] - size) // step + 1
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :], size)
    return layouts.strided(x, shape, (*x.strides[:dim], x.strides[dim] * step, *x.strides[dim + 1 :], x.strides[dim]))


def as_strided(x: Any, size: tuple, stride: tuple, offset: int, source: tuple) -> Any:
    """The view (size, stride, offset) of the storage of x, whose own geometry was `source` when the view was made."""
    if geometry(x) != source:
        from ferro import cpu

        return twin(cpu.as_strided_read)(x, size, stride, offset, source)
    strides = tuple([s * x.itemsize for s in stride])
    return layouts.over(memory_of(x), size, x.dtype, 0 if 0 in size else offset * x.itemsize, strides)


def new_zeros(x: Any, shape: tuple) -> Any:
    """Zeros of the dtype of x."""
    return cupy().zeros(shape, x.dtype)


def zeros_like(x: Any) -> Any:
    """Zeros of the shape and dtype of x."""
    return cupy().zeros(x.shape, x.dtype)


def ones_like(x: Any) -> Any:
    """Ones of the shape and dtype of x."""
    return cupy().ones(x.shape, x.dtype)


# -- sums: of floats of 32 bits and less in float64, so that nothing leaves the range and no look at the numbers is needed ----


def _sums_wide(x: Any) -> bool:
    return x.dtype.kind in "fV" and x.dtype.itemsize < 8


def sum(x: Any, dim: tuple, keepdim: bool) -> Any:
    """Sum over the dimensions `dim`, in the dtype of x; 16-bit floats are summed as float32 and rounded once."""
    if is_float(x) and dim:
        return reduced("sum", x, dim, keepdim)
    if layouts.is_half(x):
        return cupy().sum(x.astype(_SINGLE), dim, None, None, keepdim).astype(x.dtype)
    return cupy().sum(x, dim, x.dtype, None, keepdim)


def mean(x: Any, dim: tuple, keepdim: bool) -> Any:
    """Mean over the dimensions `dim`; nan over none."""
    n = count(x.shape, dim)
    if is_float(x) and dim:
        return reduced("sum", x, dim, keepdim, n)
    return (total(x, dim, keepdim) / (n or math.nan)).astype(x.dtype)


def prod(x: Any, dim: int | None, keepdim: bool) -> Any:
    """Product of all elements or along the dimension `dim`."""
    if x.ndim == 0:
        return x.copy()
    if is_float(x):
        return reduced("prod", x, tuple(range(x.ndim)) if dim is None else (dim,), keepdim)
    y = x.astype(_WIDE) if _sums_wide(x) else x
    return cupy().prod(y, dim, y.dtype, None, keepdim).astype(x.dtype)


def _extreme(name: str, x: Any, dim: tuple, keepdim: bool) -> Any:
    if is_float(x) and dim:
        return reduced("amax" if name == "max" else "amin", x, dim, keepdim)
    if layouts.is_half(x) and x.dtype.kind == "V":
        return _extreme(name, x.astype(_SINGLE), dim, keepdim).astype(x.dtype)
    return getattr(cupy(), name)(x, dim, None, keepdim)


def amax(x: Any, dim: tuple, keepdim: bool) -> Any:
    """Largest element over the dimensions `dim`; nan if one is nan."""
    return _extreme("max", x, dim, keepdim)


def amin(x: Any, dim: tuple, keepdim: bool) -> Any:
    """Smallest element over the dimensions `dim`; nan if one is nan."""
    return _extreme("min", x, dim, keepdim)


def count_nonzero(x: Any, dim: tuple) -> Any:
    """How many elements over the dimensions `dim` are non-zero."""
    return cupy().sum(x != 0, dim, np.int64)


# -- order, indices ------------------------------------------------------------------------------------------------------


def argsort(x: Any, dim: int, descending: bool) -> Any:
    """The indices that sort x along `dim`, equal elements in their order."""
    if x.ndim == 0:
        return cupy().zeros((), np.int64)
    x = layouts.widened(x)
    if not descending:
        return cupy().argsort(x, dim, kind="stable")
    back = (slice(None),) * dim + (slice(None, None, -1),)
    return x.shape[dim] - 1 - cupy().argsort(x[back], dim, kind="stable")[back]


def sign(x: Any) -> Any:
    """-1, 0 or 1; 0 for nan: without a look at the numbers."""
    if x.dtype.kind not in "fV":
        return cupy().sign(x)
    wide = layouts.widened(x)
    return ((wide > 0).astype(wide.dtype) - (wide < 0).astype(wide.dtype)).astype(x.dtype, copy=False)


def nan_to_num(x: Any, nan: float, posinf: float, neginf: float) -> Any:
    """x with nan and the infinities replaced; of complex numbers in each part."""
    one = twin(cpu.nan_to_num)
    if x.dtype.kind != "c":
        return one(x, nan, posinf, neginf)
    out = cupy().empty_like(x)
    for part, given in ((out.real, x.real), (out.imag, x.imag)):
        part[...] = one(given, nan, posinf, neginf)
    return out


def over_norm(x: Any, g: Any, norm: Any) -> Any:
    """x g / norm, and 0 where that is 0: in one launch, without a look at the numbers."""
    found = launched(xp.over_norm, "over_norm", xp.over_norm, (x, g, norm), ())
    return xp.over_norm(layouts.MODULES["ferro.cpu"], x, g, norm) if found is None else found


def mesh(dim: int, index: Any) -> tuple:
    """Indices of all dimensions that name the same elements as `index` along one."""
    n = index.ndim
    return tuple(
        [index if d == dim else cupy().arange(s).reshape((s,) + (1,) * (n - d - 1)) for d, s in enumerate(index.shape)]
    )


def places(shape: tuple, dim: int, index: Any) -> Any:
    """The flat numbers, in a C-ordered array of `shape`, of the elements that `index` names along `dim`; what is out of bounds has been
    refused before (`is_within`), or stems from the library."""
    found, step = None, 1
    for part, size in zip(reversed(mesh(dim, index)), reversed(shape), strict=False):
        found = part * step if found is None else found + part * step
        step *= size
    return found


def is_within(index: Any, low: int, high: int) -> bool:
    """Whether all integers of an index lie in [low, high): this waits for the GPU. While a graph is recorded nobody asks."""
    if cupy().cuda.get_current_stream().is_capturing():
        return True
    return bool(((index >= low) & (index < high)).all())


def euclidean(x: Any, y: Any) -> Any:
    """Distances between the rows of x (..., P, M) and of y (..., R, M), in double precision, by one product."""
    a, b = x.astype(_WIDE), y.astype(_WIDE)
    squares = (a * a).sum(-1, keepdims=True) + (b * b).sum(-1, keepdims=True).swapaxes(-1, -2)
    squares -= 2 * cupy().matmul(a, b.swapaxes(-1, -2))
    return cupy().sqrt(cupy().maximum(squares, 0)).astype(x.dtype)


def _of_truths(name: str) -> Any:
    """A logical function of numbers, complex ones too, by what they are true for."""

    def function(*arrays: Any) -> Any:
        return getattr(cupy(), name)(*[a if a.dtype.kind == "b" else a != 0 for a in arrays])

    function.__name__ = function.__qualname__ = name
    return function


logical_and, logical_or, logical_xor, logical_not = map(
    _of_truths, ("logical_and", "logical_or", "logical_xor", "logical_not")
)


def in_one_pass(formula: Any, *values: Any) -> Any:
    """The elementwise formula of (xp, values...), step by step."""
    return formula(layouts.MODULES["ferro.cpu"], *values)
