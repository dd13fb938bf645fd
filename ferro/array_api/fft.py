"""The extension fft of the array-API standard: ferro.fft with `axis` for `dim`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ferro._public import ferro

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]


def _along_one(name: str) -> Callable[..., Tensor]:
    transform = getattr(ferro.fft, name)

    def function(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
        return transform(x, n, axis, norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f":func:`ferro.fft.{name}`."
    return function


def _along_several(name: str) -> Callable[..., Tensor]:
    transform = getattr(ferro.fft, name)

    def function(x: Tensor, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
        return transform(x, s, axes, norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f":func:`ferro.fft.{name}`."
    return function


fft, ifft, rfft, irfft, hfft, ihfft = map(_along_one, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
fftn, ifftn, rfftn, irfftn = map(_along_several, ("fftn", "ifftn", "rfftn", "irfftn"))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of an fft of n points at distances d."""
    return ferro.fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of an rfft of n points at distances d."""
    return ferro.fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """The spectrum with frequency 0 in the middle."""
    return ferro.fft.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """The inverse of fftshift."""
    return ferro.fft.ifftshift(x, axes)
