"""Fold and Unfold: images as columns of windows, and the sum of windows as an image."""

from __future__ import annotations

from typing import Any

from ferro.tensor import Tensor

from .. import functional as F
from .module import Module


class _Windows(Module):
    """The arguments that say where the windows are."""

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Unfold(_Windows):
    """Takes the windows of images out, each as a column.

    - `kernel_size` (int or pair): the size of the windows
    - `dilation` (int or pair, default 1): how far apart the elements of a window are
    - `padding` (int or pair, default 0): rows and columns of zeros added on each side
    - `stride` (int or pair, default 1): how far apart the windows are

    Shapes: the input is (N, C, H, W), the result (N, C * size of the window, L), L the number of windows; N may be left
    out. RuntimeError where no window fits.

    Example::

        >>> import ferro
        >>> ferro.nn.Unfold(2)(ferro.arange(6.0).reshape(1, 1, 2, 3))
        tensor([[[0., 1.],
                 [1., 2.],
                 [3., 4.],
                 [4., 5.]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(_Windows):
    """Adds windows, given as columns, at their places in an image: the transpose of Unfold.

    - `output_size` (int or pair): H and W of the image
    - `kernel_size` (int or pair): the size of the windows
    - `dilation` (int or pair, default 1): how far apart the elements of a window are
    - `padding` (int or pair, default 0): rows and columns that Unfold added on each side
    - `stride` (int or pair, default 1): how far apart the windows are

    Shapes: the input is (N, C * size of the window, L), L the number of windows, the result (N, C, H, W); N may be left
    out. RuntimeError where the sizes do not fit.

    Example::

        >>> import ferro
        >>> ferro.nn.Fold((4, 5), (2, 2))(ferro.ones(1, 8, 12)).shape
        ferro.Size([1, 2, 4, 5])
    """

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"
