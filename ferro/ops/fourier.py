"""Fourier transforms of complex numbers, in one and more dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.casting import in_full_precision
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.fourier_operations import LAST_TWO, _complex, _many, _needed, _one

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["fft", "fft2", "fftn", "ifft", "ifft2", "ifftn"]


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
