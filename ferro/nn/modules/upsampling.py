"""Layers that change the size of images: Upsample, UpsamplingNearest2d, UpsamplingBilinear2d."""

from __future__ import annotations

from typing import Any

from ferro.tensor import Tensor

from .. import functional as F
from .module import Module


class Upsample(Module):
    """Resamples sequences, images or volumes to a size or by a factor.

    - `size` (int or sizes, default None): of the result, without N and C
    - `scale_factor` (float or several, default None): or the factor; one of the two is given, else ValueError at the
      call
    - `mode` (str, default 'nearest'): 'nearest', 'linear' (N, C, L), 'bilinear' or 'bicubic' (N, C, H, W), 'trilinear'
      (N, C, D, H, W)
    - `align_corners` (bool, default None): True keeps the values at the corners, False or None those of the edges; not
      with 'nearest'
    - `recompute_scale_factor` (bool, default None): True takes the factor from the rounded size of the result

    Shapes: the input is (N, C, L), (N, C, H, W) or (N, C, D, H, W), the result has L' = floor(L scale_factor), others
    likewise.

    Example::

        >>> import ferro
        >>> ferro.nn.Upsample(scale_factor=2)(ferro.tensor([[[1.0, 2.0]]]))
        tensor([[[1., 1., 2., 2.]]])
    """

    name: str
    size: Any
    scale_factor: Any
    mode: str
    align_corners: bool | None
    recompute_scale_factor: bool | None

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple([float(factor) for factor in scale_factor])
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        size = f"size={self.size!r}" if self.scale_factor is None else f"scale_factor={self.scale_factor!r}"
        return f"{size}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Resamples images to the nearest pixel.

    - `size` (int or pair, default None): H and W of the result
    - `scale_factor` (float or pair, default None): or the factor; one of the two is given, else ValueError at the call

    Shapes: the input is (N, C, H, W), the result (N, C, H', W').

    Example::

        >>> import ferro
        >>> ferro.nn.UpsamplingNearest2d(scale_factor=2)(ferro.tensor([[[[1.0, 2.0]]]]))
        tensor([[[[1., 1., 2., 2.],
                  [1., 1., 2., 2.]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Resamples images by linear interpolation between pixels in both directions; the corners stay.

    - `size` (int or pair, default None): H and W of the result
    - `scale_factor` (float or pair, default None): or the factor; one of the two is given, else ValueError at the call

    Shapes: the input is (N, C, H, W), the result (N, C, H', W').

    Example::

        >>> import ferro
        >>> ferro.nn.UpsamplingBilinear2d((1, 3))(ferro.tensor([[[[1.0, 2.0]]]]))
        tensor([[[[1.0000, 1.5000, 2.0000]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
