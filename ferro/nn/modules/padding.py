"""Padding layers: constant, zero, reflection, replication and circular, of 1, 2 and 3 dimensions."""

from __future__ import annotations

from typing import Any

from ferro.tensor import Tensor

from .. import functional as F
from .module import Module
from .utils import _ntuple


class _Pad(Module):
    """Pads the last `n_dims` dimensions; `padding` is one number or (before, after) of each, last dimension first."""

    n_dims: int
    mode: str
    padding: tuple[int, ...]

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self.n_dims, "padding")(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"
    value: float

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """Pads the last dimension with one value."""

    n_dims = 1


class ConstantPad2d(_ConstantPad):
    """Pads the last two dimensions with one value."""

    n_dims = 2


class ConstantPad3d(_ConstantPad):
    """Pads the last three dimensions with one value."""

    n_dims = 3


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad):
    """Pads the last dimension with zeros."""

    n_dims = 1


class ZeroPad2d(_ZeroPad):
    """Pads the last two dimensions with zeros."""

    n_dims = 2


class ZeroPad3d(_ZeroPad):
    """Pads the last three dimensions with zeros."""

    n_dims = 3


class ReflectionPad1d(_Pad):
    """Pads the last dimension by its mirror image, the edge not repeated."""

    n_dims, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """Pads the last two dimensions by their mirror image, the edge not repeated."""

    n_dims, mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """Pads the last three dimensions by their mirror image, the edge not repeated."""

    n_dims, mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """Pads the last dimension by repeating its edges."""

    n_dims, mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """Pads the last two dimensions by repeating their edges."""

    n_dims, mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """Pads the last three dimensions by repeating their edges."""

    n_dims, mode = 3, "replicate"


class _CircularPad(_Pad):
    """Pads as if the last dimensions were circles."""

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (self.n_dims + 1, self.n_dims + 2):
            raise ValueError(f"expected {self.n_dims + 1}D or {self.n_dims + 2}D input (got {input.dim()}D input)")
        return super().forward(input)


class CircularPad1d(_CircularPad):
    """Pads the last dimension as if it were a circle."""

    n_dims, mode = 1, "circular"


class CircularPad2d(_CircularPad):
    """Pads the last two dimensions as if they were circles."""

    n_dims, mode = 2, "circular"


class CircularPad3d(_CircularPad):
    """Pads the last three dimensions as if they were circles."""

    n_dims, mode = 3, "circular"
