"""Layers that move elements between channels and space: PixelShuffle, PixelUnshuffle."""

from __future__ import annotations

from ferro.tensor import Tensor

from .. import functional as F
from .module import Module


class PixelShuffle(Module):
    """Turns channels into pixels: each r × r block of the result comes from r² channels.

    - `upscale_factor` (int): r

    Shapes: the input (..., C r², H, W) becomes (..., C, H r, W r). RuntimeError where the channels are not divisible by
    r². Source: Shi et al., Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel Convolutional
    Neural Network, 2016.

    Example::

        >>> import ferro
        >>> ferro.nn.PixelShuffle(3)(ferro.zeros(1, 9, 4, 4)).shape
        ferro.Size([1, 1, 12, 12])
    """

    upscale_factor: int

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Turns each r × r block of pixels into r² channels: the inverse of PixelShuffle.

    - `downscale_factor` (int): r

    Shapes: the input (..., C, H, W) becomes (..., C r², H / r, W / r). RuntimeError where H or W is not divisible by r.

    Example::

        >>> import ferro
        >>> ferro.nn.PixelUnshuffle(3)(ferro.zeros(1, 1, 12, 12)).shape
        ferro.Size([1, 9, 4, 4])
    """

    downscale_factor: int

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"
