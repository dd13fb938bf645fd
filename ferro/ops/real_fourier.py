"""Fourier transforms of real numbers to half of their spectrum, and of half of a spectrum to real numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.casting import in_full_precision
from ferro.ops.fourier_operations import LAST_TWO, _halved, _many, _needed, _one, _whole

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["hfft", "hfft2", "hfftn", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftn"]


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
