"""The discrete Fourier transform: complex, real and Hermitian, in one and more dimensions, and its frequencies.

All transforms are three linear operations, along any dimensions: complex to complex, real to half of a spectrum, and half
of a spectrum to real.  The transpose of the first is its inverse without change of scale.  The transposes of the other
two are each other once the bins that stand for two, their own and that of the conjugate frequency, are halved or doubled
(`fft_bins`).  Lengths are changed before, by zeros or a cut at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import dtypes
from ferro.core.apply import unary
from ferro.core.arguments import into, need_tensor, one_dim, sizes
from ferro.core.casting import in_full_precision
from ferro.core.dtypes import COMPLEX, FROM_NUMPY, HALF, INEXACT
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.creation import finish
from ferro.ops.joining import roll
from ferro.ops.padding import constant_pad
from ferro.ops.structure import cast, clone

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift",
           "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn"]  # fmt: skip

LAST_TWO = (-2, -1)

# -- the three operations ----------------------------------------------------------------------------------------------
# scale 0: none, 1: 1/√n, 2: 1/n, where n counts the elements of one transform


def fft_c2c(x: Tensor, dims: tuple, scale: int, inverse: bool) -> Tensor:
    """The complex transform along `dims`; arguments in normal form."""
    return unary(FFT_C2C, x, (dims, scale, inverse))


FFT_C2C = Op(
    "fft_c2c",
    lambda xp, x, /, dims, scale, inverse: xp.fft_c2c(x, dims, scale, inverse),
    kind=LINEAR,
    weight=20.0,
    x=lambda xp, g, dims, scale, inverse: xp.fft_c2c(g, dims, scale, not inverse),
)


def fft_r2c(x: Tensor, dims: tuple, scale: int, inverse: bool) -> Tensor:
    """The transform of real numbers along `dims`, half of it in the last one; arguments in normal form."""
    return unary(FFT_R2C, x, (dims, scale, inverse))


def _r2c_x(xp: Any, g: Any, x_shape: tuple, dims: tuple, scale: int, inverse: bool) -> Any:
    n = x_shape[dims[-1]]
    return xp.fft_c2r(xp.fft_bins(g, dims[-1], n, 0.5), dims, n, scale, not inverse)


FFT_R2C = Op(
    "fft_r2c",
    lambda xp, x, /, dims, scale, inverse: xp.fft_r2c(x, dims, scale, inverse),
    kind=LINEAR,
    weight=10.0,
    x=_r2c_x,
)


def fft_c2r(x: Tensor, dims: tuple, n: int, scale: int, inverse: bool) -> Tensor:
    """Real numbers, n along the last of `dims`, from half of their transform; arguments in normal form."""
    return unary(FFT_C2R, x, (dims, n, scale, inverse))


FFT_C2R = Op(
    "fft_c2r",
    lambda xp, x, /, dims, n, scale, inverse: xp.fft_c2r(x, dims, n, scale, inverse),
    kind=LINEAR,
    weight=10.0,
    x=lambda xp, g, dims, n, scale, inverse: xp.fft_bins(xp.fft_r2c(g, dims, scale, not inverse), dims[-1], n, 2.0),
)


def fft_bins(x: Tensor, dim: int, n: int, factor: float) -> Tensor:
    """Half of a spectrum of n real numbers with the bins that stand for two multiplied by `factor`."""
    return unary(FFT_BINS, x, (dim, n, factor))


FFT_BINS = Op(
    "fft_bins",
    lambda xp, x, /, dim, n, factor: xp.fft_bins(x, dim, n, factor),
    kind=LINEAR,
    x=lambda xp, g, dim, n, factor: xp.fft_bins(g, dim, n, factor),
)


# -- arguments ---------------------------------------------------------------------------------------------------------


def _scale(name: str, norm: Any, inverse: bool) -> int:
    """The scale that a norm means; "backward" leaves the forward transform, "forward" the inverse one without scale."""
    try:
        return (
            {None: 2, "backward": 2, "ortho": 1, "forward": 0}[norm]
            if inverse
            else {None: 0, "backward": 0, "ortho": 1, "forward": 2}[norm]
        )
    except (KeyError, TypeError):
        raise RuntimeError(
            f'{name}: Invalid normalization mode: {norm!r}; choose "backward", "ortho" or "forward"'
        ) from None


def numbers_of(name: str, input: Any, need: str) -> Tensor:
    """The input as floating numbers; `need`: "real" refuses complex ones, "complex" makes them of real ones."""
    dtype = need_tensor(name, "input", input)._data.dtype
    if dtype in HALF:
        raise RuntimeError(f"{name}: Unsupported dtype {FROM_NUMPY[dtype]}; use float32 or float64")
    if need == "real" and dtype in COMPLEX:
        raise RuntimeError(f"{name} expects a real input tensor, but got {FROM_NUMPY[dtype]}")
    wanted = FROM_NUMPY[dtype] if dtype in INEXACT else dtypes.default()
    wanted = wanted.to_complex() if need == "complex" else wanted
    return input if wanted.np is dtype else cast(input, wanted.np)


def _one_dim(name: str, x: Any, dim: Any) -> int:
    if x._data.ndim == 0:
        raise IndexError(f"{name}: Dimension specified as {dim} but tensor has no dimensions")
    return one_dim(name, x._data.ndim, dim)


def _count(name: str, n: Any) -> int:
    """A number of data points, at least 1."""
    (n,) = sizes(name, (n,))
    if n < 1:
        raise RuntimeError(f"{name}: Invalid number of data points ({n}) specified; at least 1 is needed")
    return n


def _many_dims(name: str, x: Any, s: Any, dim: Any, half: bool) -> tuple[tuple, tuple]:
    """(dims, number of data points along each); `half`: the last one shows half of the points by default."""
    shape = x._data.shape
    given = None if s is None else sizes(name, (s,))
    if dim is not None:
        dims = tuple([_one_dim(name, x, d) for d in sizes(name, (dim,))])
        if given is not None and len(given) != len(dims):
            raise RuntimeError(
                f"{name}: When given, dim and shape arguments must have the same length, got s={given}, dim={dims}"
            )
    elif given is not None:
        if len(given) > len(shape):
            raise RuntimeError(
                f"{name}: Got shape with {len(given)} values but input tensor only has {len(shape)} dimensions."
            )
        dims = tuple(range(len(shape) - len(given), len(shape)))
    else:
        dims = tuple(range(len(shape)))
    if len(set(dims)) < len(dims):
        raise RuntimeError(f"{name}: FFT dims must be unique, got {dims}")
    counts = [shape[d] for d in dims]
    if half and dims:
        counts[-1] = 2 * (counts[-1] - 1)
    if given is not None:
        counts = [n if g == -1 else g for g, n in zip(given, counts, strict=True)]
    return dims, tuple([_count(name, n) for n in counts])


def _fit(x: Any, dims: tuple, counts: tuple) -> Any:
    """The tensor with `counts` elements along `dims`: cut, or continued by zeros."""
    shape = x._data.shape
    change = {d: n - shape[d] for d, n in zip(dims, counts, strict=True) if n != shape[d]}
    return constant_pad(x, tuple([(0, change.get(d, 0)) for d in range(len(shape))]), 0) if change else x


def _into(name: str, out: Any, result: Any) -> Any:
    if out is not None:
        kind = "complex" if result._data.dtype in COMPLEX else "floating point"
        if FROM_NUMPY[need_tensor(name, "out", out)._data.dtype].category != FROM_NUMPY[result._data.dtype].category:
            raise RuntimeError(f"{name} expects a {kind} output tensor, but got {out.dtype}")
    return into(name, out, result)


def _one(make: Callable, name: str, input: Any, n: Any, dim: Any, norm: Any, inverse: bool, out: Any) -> Any:
    """A transform along one dimension; `make` is _complex, _halved or _whole."""
    d = _one_dim(name, need_tensor(name, "input", input), dim)
    size = input._data.shape[d]
    count = _count(name, (2 * (size - 1) if make is _whole else size) if n is None else n)
    return make(name, input, (d,), (count,), norm, inverse, out)


def _many(make: Callable, name: str, input: Any, s: Any, dim: Any, norm: Any, inverse: bool, out: Any) -> Any:
    """A transform along several dimensions; `make` is _complex, _halved or _whole."""
    dims, counts = _many_dims(name, need_tensor(name, "input", input), s, dim, make is _whole)
    return make(name, input, dims, counts, norm, inverse, out)


# -- complex transforms ------------------------------------------------------------------------------------------------


def _complex(name: str, input: Any, dims: tuple, counts: tuple, norm: Any, inverse: bool, out: Any) -> Any:
    scale = _scale(name, norm, inverse)
    if not dims:
        x = numbers_of(name, input, "complex")
        return _into(name, out, clone(x) if x is input else x)
    return _into(name, out, fft_c2c(_fit(numbers_of(name, input, "any"), dims, counts), dims, scale, inverse))


@in_full_precision
def fft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The discrete Fourier transform along one dimension: X_k = Σ_j x_j exp(-2πi jk/n), complex.

    - `input` (Tensor): x, any shape
    - `n` (int, default None): how many elements are transformed: the input is cut or continued by zeros; None: all
    - `dim` (int, default -1): the dimension
    - `norm` (str, default None): "backward" (None too) divides by 1, "ortho" by the root of n, "forward" by n
    - `out` (Tensor, default None): where to write the result

    Linear; the transpose is the inverse transform with the same divisor. Half precision and n < 1 raise RuntimeError, a
    0-d input and a `dim` out of range IndexError.

    Example::

        >>> import ferro
        >>> ferro.fft.fft(ferro.tensor([1.0, 0.0, 0.0, 2.0]))
        tensor([ 3.+0.j,  1.+2.j, -1.+0.j,  1.-2.j])
    """
    return _one(_complex, "fft", input, n, dim, norm, False, out)


@in_full_precision
def ifft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of :func:`fft`: x_j = 1/n Σ_k X_k exp(2πi jk/n), complex.

    - `input` (Tensor): X, any shape
    - `n` (int, default None): how many elements are transformed: the input is cut or continued by zeros; None: all
    - `dim` (int, default -1): the dimension
    - `norm` (str, default None): "backward" (None too) divides by n, "ortho" by the root of n, "forward" by 1
    - `out` (Tensor, default None): where to write the result

    Half precision and n < 1 raise RuntimeError, a 0-d input and a `dim` out of range IndexError.

    Example::

        >>> import ferro
        >>> ferro.fft.ifft(ferro.tensor([4.0, 0.0, 0.0, 0.0])).abs()
        tensor([1., 1., 1., 1.])
    """
    return _one(_complex, "ifft", input, n, dim, norm, True, out)


@in_full_precision
def fftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`fft` along several dimensions, one after the other.

    - `input` (Tensor): any shape
    - `s` (ints, default None): how many elements are transformed along each of them, -1 meaning all; None: all
    - `dim` (ints, default None): the dimensions; None: all, or as many of the last as `s` has sizes
    - `norm` (str, default None): "backward" (None too) divides by 1, "ortho" by the root of the number of elements that
      are transformed, "forward" by the number of elements that are transformed
    - `out` (Tensor, default None): where to write the result

    Raises what `fft` raises, and RuntimeError for repeated dimensions.

    Example::

        >>> import ferro
        >>> ferro.fft.fftn(ferro.ones(2, 2)).abs()
        tensor([[4., 0.],
                [0., 0.]])
    """
    return _many(_complex, "fftn", input, s, dim, norm, False, out)


@in_full_precision
def ifftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`ifft` along several dimensions, one after the other.

    - `input` (Tensor): any shape
    - `s` (ints, default None): how many elements are transformed along each of them, -1 meaning all; None: all
    - `dim` (ints, default None): the dimensions; None: all, or as many of the last as `s` has sizes
    - `norm` (str, default None): "backward" (None too) divides by the number of elements that are transformed, "ortho"
      by the root of the number of elements that are transformed, "forward" by 1
    - `out` (Tensor, default None): where to write the result

    Raises what `ifft` raises, and RuntimeError for repeated dimensions.

    Example::

        >>> import ferro
        >>> ferro.fft.ifftn(ferro.ones(2, 2)).abs()
        tensor([[1., 0.],
                [0., 0.]])
    """
    return _many(_complex, "ifftn", input, s, dim, norm, True, out)


@in_full_precision
def fft2(
    input: Tensor, s: Any = None, dim: Any = LAST_TWO, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`fft` along two dimensions, the last by default.

    - `input` (Tensor): of two or more dimensions
    - `s` (ints, default None): how many elements are transformed along each of them, -1 meaning all; None: all
    - `dim` (ints, default (-2, -1)): the two dimensions
    - `norm` (str, default None): "backward" (None too) divides by 1, "ortho" by the root of the number of elements that
      are transformed, "forward" by the number of elements that are transformed
    - `out` (Tensor, default None): where to write the result

    Raises what `fft` raises, and RuntimeError for repeated dimensions.

    Example::

        >>> import ferro
        >>> ferro.fft.fft2(ferro.ones(2, 2)).abs()
        tensor([[4., 0.],
                [0., 0.]])
    """
    return _many(_complex, "fft2", input, s, _needed("fft2", dim), norm, False, out)


@in_full_precision
def ifft2(
    input: Tensor, s: Any = None, dim: Any = LAST_TWO, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`ifft` along two dimensions, the last by default.

    - `input` (Tensor): of two or more dimensions
    - `s` (ints, default None): how many elements are transformed along each of them, -1 meaning all; None: all
    - `dim` (ints, default (-2, -1)): the two dimensions
    - `norm` (str, default None): "backward" (None too) divides by the number of elements that are transformed, "ortho"
      by the root of the number of elements that are transformed, "forward" by 1
    - `out` (Tensor, default None): where to write the result

    Raises what `ifft` raises, and RuntimeError for repeated dimensions.

    Example::

        >>> import ferro
        >>> ferro.fft.ifft2(ferro.ones(2, 2)).abs()
        tensor([[1., 0.],
                [0., 0.]])
    """
    return _many(_complex, "ifft2", input, s, _needed("ifft2", dim), norm, True, out)


def _needed(name: str, dim: Any) -> Any:
    if dim is None:
        raise TypeError(f"{name}(): argument 'dim' must be tuple of ints, not NoneType")
    return dim


# -- of real numbers, to half of the spectrum --------------------------------------------------------------------------


def _halved(name: str, input: Any, dims: tuple, counts: tuple, norm: Any, inverse: bool, out: Any) -> Any:
    scale = _scale(name, norm, inverse)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    return _into(name, out, fft_r2c(_fit(numbers_of(name, input, "real"), dims, counts), dims, scale, inverse))


@in_full_precision
def rfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The bins 0 to n // 2 of :func:`fft` of real numbers: the others are their conjugates, X_(n-k) = conj(X_k).

    - `input` (Tensor): real, any shape
    - `n` (int, default None): how many elements are transformed: the input is cut or continued by zeros; None: all
    - `dim` (int, default -1): the dimension
    - `norm` (str, default None): "backward" (None too) divides by 1, "ortho" by the root of n, "forward" by n
    - `out` (Tensor, default None): where to write the result

    The result has n // 2 + 1 elements along `dim`. The transpose takes every bin once, not twice: g_j = Re Σ_k G_k
    exp(2πi jk/n). A complex input raises RuntimeError. Half precision and n < 1 raise RuntimeError, a 0-d input and a
    `dim` out of range IndexError.

    Example::

        >>> import ferro
        >>> ferro.fft.rfft(ferro.tensor([1.0, 0.0, 0.0, 2.0]))
        tensor([ 3.+0.j,  1.+2.j, -1.+0.j])
    """
    return _one(_halved, "rfft", input, n, dim, norm, False, out)


@in_full_precision
def rfftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`rfft` along the last of several dimensions, then :func:`fft` along the others.

    - `input` (Tensor): real, any shape
    - `s` (ints, default None): how many elements are transformed along each of them, -1 meaning all; None: all
    - `dim` (ints, default None): the dimensions; None: all, or as many of the last as `s` has sizes
    - `norm` (str, default None): "backward" (None too) divides by 1, "ortho" by the root of the number of elements that
      are transformed, "forward" by the number of elements that are transformed
    - `out` (Tensor, default None): where to write the result

    Raises what `rfft` raises, and RuntimeError for repeated dimensions.

    Example::

        >>> import ferro
        >>> ferro.fft.rfftn(ferro.ones(2, 2)).abs()
        tensor([[4., 0.],
                [0., 0.]])
    """
    return _many(_halved, "rfftn", input, s, dim, norm, False, out)


@in_full_precision
def rfft2(
    input: Tensor, s: Any = None, dim: Any = LAST_TWO, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`rfft` along the last of two dimensions, then :func:`fft` along the others.

    - `input` (Tensor): real, of two or more dimensions
    - `s` (ints, default None): how many elements are transformed along each of them, -1 meaning all; None: all
    - `dim` (ints, default (-2, -1)): the two dimensions
    - `norm` (str, default None): "backward" (None too) divides by 1, "ortho" by the root of the number of elements that
      are transformed, "forward" by the number of elements that are transformed
    - `out` (Tensor, default None): where to write the result

    Raises what `rfft` raises, and RuntimeError for repeated dimensions.

    Example::

        >>> import ferro
        >>> ferro.fft.rfft2(ferro.ones(2, 2)).abs()
        tensor([[4., 0.],
                [0., 0.]])
    """
    return _many(_halved, "rfft2", input, s, _needed("rfft2", dim), norm, False, out)


@in_full_precision
def ihfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of :func:`hfft`: the bins 0 to n // 2 of :func:`ifft` of real numbers.

    - `input` (Tensor): real, any shape
    - `n` (int, default None): how many elements are transformed: the input is cut or continued by zeros; None: all
    - `dim` (int, default -1): the dimension
    - `norm` (str, default None): "backward" (None too) divides by n, "ortho" by the root of n, "forward" by 1
    - `out` (Tensor, default None): where to write the result

    The result has n // 2 + 1 elements along `dim`. A complex input raises RuntimeError. Half precision and n < 1 raise
    RuntimeError, a 0-d input and a `dim` out of range IndexError.

    Example::

        >>> import ferro
        >>> ferro.fft.ihfft(ferro.tensor([4.0, 0.0, 0.0, 0.0])).abs()
        tensor([1., 1., 1.])
    """
    return _one(_halved, "ihfft", input, n, dim, norm, True, out)


def ihfftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`ihfft` along the last of several dimensions, then :func:`ifft` along the others.

    - `input` (Tensor): real, any shape
    - `s` (ints, default None): how many elements are transformed along each of them, -1 meaning all; None: all
    - `dim` (ints, default None): the dimensions; None: all, or as many of the last as `s` has sizes
    - `norm` (str, default None): "backward" (None too) divides by the number of elements that are transformed, "ortho"
      by the root of the number of elements that are transformed, "forward" by 1
    - `out` (Tensor, default None): where to write the result

    Raises what `ihfft` raises, and RuntimeError for repeated dimensions.

    Example::

        >>> import ferro
        >>> ferro.fft.ihfftn(ferro.ones(2, 2)).abs()
        tensor([[1., 0.],
                [0., 0.]])
    """
    return _many(_halved, "ihfftn", input, s, dim, norm, True, out)


def ihfft2(
    input: Tensor, s: Any = None, dim: Any = LAST_TWO, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`ihfft` along the last of two dimensions, then :func:`ifft` along the others.

    - `input` (Tensor): real, of two or more dimensions
    - `s` (ints, default None): how many elements are transformed along each of them, -1 meaning all; None: all
    - `dim` (ints, default (-2, -1)): the two dimensions
    - `norm` (str, default None): "backward" (None too) divides by the number of elements that are transformed, "ortho"
      by the root of the number of elements that are transformed, "forward" by 1
    - `out` (Tensor, default None): where to write the result

    Raises what `ihfft` raises, and RuntimeError for repeated dimensions.

    Example::

        >>> import ferro
        >>> ferro.fft.ihfft2(ferro.ones(2, 2)).abs()
        tensor([[1., 0.],
                [0., 0.]])
    """
    return _many(_halved, "ihfft2", input, s, _needed("ihfft2", dim), norm, True, out)


# -- of half of a spectrum, to real numbers ----------------------------------------------------------------------------


def _whole(name: str, input: Any, dims: tuple, counts: tuple, norm: Any, inverse: bool, out: Any) -> Any:
    scale = _scale(name, norm, inverse)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    n = counts[-1]
    x = _fit(numbers_of(name, input, "complex"), dims, (*counts[:-1], n // 2 + 1))
    return _into(name, out, fft_c2r(x, dims, n, scale, inverse))


@in_full_precision
def irfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of :func:`rfft`: n real numbers from the bins 0 to n // 2.

    - `input` (Tensor): the bins, any shape
    - `n` (int, default None): how many elements are transformed: the input is cut or continued by zeros; None: all
    - `dim` (int, default -1): the dimension
    - `norm` (str, default None): "backward" (None too) divides by n, "ortho" by the root of n, "forward" by 1
    - `out` (Tensor, default None): where to write the result

    `n` None is 2 (bins - 1). The imaginary part of the bins 0 and n/2, which real numbers do not have, is ignored; its
    gradient is 0. Half precision and n < 1 raise RuntimeError, a 0-d input and a `dim` out of range IndexError.

    Example::

        >>> import ferro
        >>> ferro.fft.irfft(ferro.fft.rfft(ferro.tensor([1.0, 0.0, 2.0])), n=3)
        tensor([1., 0., 2.])
    """
    return _one(_whole, "irfft", input, n, dim, norm, True, out)


@in_full_precision
def irfftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`irfft` along the last of several dimensions, after :func:`ifft` along the others. Of the last dimension
    the elements 0 to n // 2 are given.

    - `input` (Tensor): any shape
    - `s` (ints, default None): how many elements are transformed along each of them, -1 meaning all; None: all
    - `dim` (ints, default None): the dimensions; None: all, or as many of the last as `s` has sizes
    - `norm` (str, default None): "backward" (None too) divides by the number of elements that are transformed, "ortho"
      by the root of the number of elements that are transformed, "forward" by 1
    - `out` (Tensor, default None): where to write the result

    Raises what `irfft` raises, and RuntimeError for repeated dimensions.

    Example::

        >>> import ferro
        >>> ferro.fft.irfftn(ferro.ones(2, 2)).abs()
        tensor([[1., 0.],
                [0., 0.]])
    """
    return _many(_whole, "irfftn", input, s, dim, norm, True, out)


@in_full_precision
def irfft2(
    input: Tensor, s: Any = None, dim: Any = LAST_TWO, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`irfft` along the last of two dimensions, after :func:`ifft` along the others. Of the last dimension the
    elements 0 to n // 2 are given.

    - `input` (Tensor): of two or more dimensions
    - `s` (ints, default None): how many elements are transformed along each of them, -1 meaning all; None: all
    - `dim` (ints, default (-2, -1)): the two dimensions
    - `norm` (str, default None): "backward" (None too) divides by the number of elements that are transformed, "ortho"
      by the root of the number of elements that are transformed, "forward" by 1
    - `out` (Tensor, default None): where to write the result

    Raises what `irfft` raises, and RuntimeError for repeated dimensions.

    Example::

        >>> import ferro
        >>> ferro.fft.irfft2(ferro.ones(2, 2)).abs()
        tensor([[1., 0.],
                [0., 0.]])
    """
    return _many(_whole, "irfft2", input, s, _needed("irfft2", dim), norm, True, out)


@in_full_precision
def hfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The real transform of a Hermitian signal (x_(n-j) = conj(x_j)) of which the elements 0 to n // 2 are given.

    - `input` (Tensor): these elements, any shape
    - `n` (int, default None): how many elements are transformed: the input is cut or continued by zeros; None: all
    - `dim` (int, default -1): the dimension
    - `norm` (str, default None): "backward" (None too) divides by 1, "ortho" by the root of n, "forward" by n
    - `out` (Tensor, default None): where to write the result

    `n` None is 2 (elements - 1). Half precision and n < 1 raise RuntimeError, a 0-d input and a `dim` out of range
    IndexError.

    Example::

        >>> import ferro
        >>> ferro.fft.hfft(ferro.tensor([1.0, 1.0, 0.0]))
        tensor([ 3.,  1., -1.,  1.])
    """
    return _one(_whole, "hfft", input, n, dim, norm, False, out)


def hfftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`hfft` along the last of several dimensions, after :func:`fft` along the others. Of the last dimension the
    elements 0 to n // 2 are given.

    - `input` (Tensor): any shape
    - `s` (ints, default None): how many elements are transformed along each of them, -1 meaning all; None: all
    - `dim` (ints, default None): the dimensions; None: all, or as many of the last as `s` has sizes
    - `norm` (str, default None): "backward" (None too) divides by 1, "ortho" by the root of the number of elements that
      are transformed, "forward" by the number of elements that are transformed
    - `out` (Tensor, default None): where to write the result

    Raises what `hfft` raises, and RuntimeError for repeated dimensions.

    Example::

        >>> import ferro
        >>> ferro.fft.hfftn(ferro.ones(2, 2)).abs()
        tensor([[4., 0.],
                [0., 0.]])
    """
    return _many(_whole, "hfftn", input, s, dim, norm, False, out)


def hfft2(
    input: Tensor, s: Any = None, dim: Any = LAST_TWO, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`hfft` along the last of two dimensions, after :func:`fft` along the others. Of the last dimension the
    elements 0 to n // 2 are given.

    - `input` (Tensor): of two or more dimensions
    - `s` (ints, default None): how many elements are transformed along each of them, -1 meaning all; None: all
    - `dim` (ints, default (-2, -1)): the two dimensions
    - `norm` (str, default None): "backward" (None too) divides by 1, "ortho" by the root of the number of elements that
      are transformed, "forward" by the number of elements that are transformed
    - `out` (Tensor, default None): where to write the result

    Raises what `hfft` raises, and RuntimeError for repeated dimensions.

    Example::

        >>> import ferro
        >>> ferro.fft.hfft2(ferro.ones(2, 2)).abs()
        tensor([[4., 0.],
                [0., 0.]])
    """
    return _many(_whole, "hfft2", input, s, _needed("hfft2", dim), norm, False, out)


# -- frequencies -------------------------------------------------------------------------------------------------------


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
    - `device` (device, default None): only "cpu"
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
    - `device` (device, default None): only "cpu"
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


# -- samples -----------------------------------------------------------------------------------------------------------

_ONE = [
    Sample(Arg(5)),
    Sample(Arg(2, 6), 4),
    Sample(Arg(2, 5), n=8, dim=0),
    Sample(Arg(3, 2, 4), None, 1, "ortho"),
    Sample(Arg(4, 6), norm="forward"),
    Sample(Arg(2, 3), 1),
    Sample(Arg(3), 2),
]
_MANY = [
    Sample(Arg(3, 4)),
    Sample(Arg(2, 3, 5), (4, 6)),
    Sample(Arg(2, 3, 4), dim=(2, 0), norm="ortho"),
    Sample(Arg(2, 5, 4), (-1, 3), (1, 0), "forward"),
    Sample(Arg(4, 5), s=5, dim=0),
    Sample(Arg(2, 3, 4)),
]
_TWO = [Sample(Arg(3, 4)), Sample(Arg(2, 3, 5), (2, 7)), Sample(Arg(3, 4, 2), norm="ortho", dim=(0, 1))]
for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _takes_complex = _name not in ("rfft", "ihfft")
    declare(f"fft.{_name}", _ONE, complex=_takes_complex)
    declare(f"fft.{_name}n", _MANY, complex=_takes_complex)
    declare(f"fft.{_name}2", _TWO, complex=_takes_complex)
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
