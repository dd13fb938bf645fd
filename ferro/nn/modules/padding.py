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
    """Pads sequences with one value.

    - `padding` (int or 2-tuple (left, right)): how many elements each side gets; one number is for all
    - `value` (float): the value

    Shapes: the input is (N, C, L) or (C, L), the result (N, C, L'), or without N, with L' = L + left + right. Negative
    numbers cut off.

    Example::

        >>> import ferro
        >>> ferro.nn.ConstantPad1d((1, 1), 7.0)(ferro.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[7., 1., 2., 3., 7.]]])
    """

    n_dims = 1


class ConstantPad2d(_ConstantPad):
    """Pads images with one value.

    - `padding` (int or 4-tuple (left, right, top, bottom)): how many elements each side gets; one number is for all
    - `value` (float): the value

    Shapes: the input is (N, C, H, W) or (C, H, W), the result (N, C, H', W'), or without N, with W' = W + left + right,
    H' = H + top + bottom. Negative numbers cut off.

    Example::

        >>> import ferro
        >>> ferro.nn.ConstantPad2d(1, 7.0)(ferro.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
        tensor([[[7., 7., 7., 7.],
                 [7., 1., 2., 7.],
                 [7., 3., 4., 7.],
                 [7., 7., 7., 7.]]])
    """

    n_dims = 2


class ConstantPad3d(_ConstantPad):
    """Pads volumes with one value.

    - `padding` (int or 6-tuple (left, right, top, bottom, front, back)): how many elements each side gets; one number
      is for all
    - `value` (float): the value

    Shapes: the input is (N, C, D, H, W) or (C, D, H, W), the result (N, C, D', H', W'), or without N, with W' = W +
    left + right, H' = H + top + bottom, D' = D + front + back. Negative numbers cut off.

    Example::

        >>> import ferro
        >>> ferro.nn.ConstantPad3d(1, 7.0)(ferro.zeros(1, 1, 2, 3, 4)).shape
        ferro.Size([1, 1, 4, 5, 6])
    """

    n_dims = 3


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad):
    """Pads sequences with zeros.

    - `padding` (int or 2-tuple (left, right)): how many elements each side gets; one number is for all

    Shapes: the input is (N, C, L) or (C, L), the result (N, C, L'), or without N, with L' = L + left + right. Negative
    numbers cut off.

    Example::

        >>> import ferro
        >>> ferro.nn.ZeroPad1d((2, 1))(ferro.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[0., 0., 1., 2., 3., 0.]]])
    """

    n_dims = 1


class ZeroPad2d(_ZeroPad):
    """Pads images with zeros.

    - `padding` (int or 4-tuple (left, right, top, bottom)): how many elements each side gets; one number is for all

    Shapes: the input is (N, C, H, W) or (C, H, W), the result (N, C, H', W'), or without N, with W' = W + left + right,
    H' = H + top + bottom. Negative numbers cut off.

    Example::

        >>> import ferro
        >>> ferro.nn.ZeroPad2d(1)(ferro.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
        tensor([[[0., 0., 0., 0.],
                 [0., 1., 2., 0.],
                 [0., 3., 4., 0.],
                 [0., 0., 0., 0.]]])
    """

    n_dims = 2


class ZeroPad3d(_ZeroPad):
    """Pads volumes with zeros.

    - `padding` (int or 6-tuple (left, right, top, bottom, front, back)): how many elements each side gets; one number
      is for all

    Shapes: the input is (N, C, D, H, W) or (C, D, H, W), the result (N, C, D', H', W'), or without N, with W' = W +
    left + right, H' = H + top + bottom, D' = D + front + back. Negative numbers cut off.

    Example::

        >>> import ferro
        >>> ferro.nn.ZeroPad3d(1)(ferro.zeros(1, 1, 2, 3, 4)).shape
        ferro.Size([1, 1, 4, 5, 6])
    """

    n_dims = 3


class ReflectionPad1d(_Pad):
    """Pads sequences by their mirror image; the edge is not repeated.

    - `padding` (int or 2-tuple (left, right)): how many elements each side gets; one number is for all

    Shapes: the input is (N, C, L) or (C, L), the result (N, C, L'), or without N, with L' = L + left + right.
    RuntimeError where the padding is not smaller than the input.

    Example::

        >>> import ferro
        >>> ferro.nn.ReflectionPad1d((2, 1))(ferro.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[3., 2., 1., 2., 3., 2.]]])
    """

    n_dims, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """Pads images by their mirror image; the edge is not repeated.

    - `padding` (int or 4-tuple (left, right, top, bottom)): how many elements each side gets; one number is for all

    Shapes: the input is (N, C, H, W) or (C, H, W), the result (N, C, H', W'), or without N, with W' = W + left + right,
    H' = H + top + bottom. RuntimeError where the padding is not smaller than the input.

    Example::

        >>> import ferro
        >>> ferro.nn.ReflectionPad2d(1)(ferro.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
        tensor([[[4., 3., 4., 3.],
                 [2., 1., 2., 1.],
                 [4., 3., 4., 3.],
                 [2., 1., 2., 1.]]])
    """

    n_dims, mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """Pads volumes by their mirror image; the edge is not repeated.

    - `padding` (int or 6-tuple (left, right, top, bottom, front, back)): how many elements each side gets; one number
      is for all

    Shapes: the input is (N, C, D, H, W) or (C, D, H, W), the result (N, C, D', H', W'), or without N, with W' = W +
    left + right, H' = H + top + bottom, D' = D + front + back. RuntimeError where the padding is not smaller than the
    input.

    Example::

        >>> import ferro
        >>> ferro.nn.ReflectionPad3d(1)(ferro.zeros(1, 1, 2, 3, 4)).shape
        ferro.Size([1, 1, 4, 5, 6])
    """

    n_dims, mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """Pads sequences by repeating their edges.

    - `padding` (int or 2-tuple (left, right)): how many elements each side gets; one number is for all

    Shapes: the input is (N, C, L) or (C, L), the result (N, C, L'), or without N, with L' = L + left + right. Negative
    numbers cut off.

    Example::

        >>> import ferro
        >>> ferro.nn.ReplicationPad1d((2, 1))(ferro.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[1., 1., 1., 2., 3., 3.]]])
    """

    n_dims, mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """Pads images by repeating their edges.

    - `padding` (int or 4-tuple (left, right, top, bottom)): how many elements each side gets; one number is for all

    Shapes: the input is (N, C, H, W) or (C, H, W), the result (N, C, H', W'), or without N, with W' = W + left + right,
    H' = H + top + bottom. Negative numbers cut off.

    Example::

        >>> import ferro
        >>> ferro.nn.ReplicationPad2d(1)(ferro.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
        tensor([[[1., 1., 2., 2.],
                 [1., 1., 2., 2.],
                 [3., 3., 4., 4.],
                 [3., 3., 4., 4.]]])
    """

    n_dims, mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """Pads volumes by repeating their edges.

    - `padding` (int or 6-tuple (left, right, top, bottom, front, back)): how many elements each side gets; one number
      is for all

    Shapes: the input is (N, C, D, H, W) or (C, D, H, W), the result (N, C, D', H', W'), or without N, with W' = W +
    left + right, H' = H + top + bottom, D' = D + front + back. Negative numbers cut off.

    Example::

        >>> import ferro
        >>> ferro.nn.ReplicationPad3d(1)(ferro.zeros(1, 1, 2, 3, 4)).shape
        ferro.Size([1, 1, 4, 5, 6])
    """

    n_dims, mode = 3, "replicate"


class _CircularPad(_Pad):
    """Pads as if the last dimensions were circles."""

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (self.n_dims + 1, self.n_dims + 2):
            raise ValueError(f"expected {self.n_dims + 1}D or {self.n_dims + 2}D input (got {input.dim()}D input)")
        return super().forward(input)


class CircularPad1d(_CircularPad):
    """Pads sequences as if they were closed to a ring: what is added is taken from the other end.

    - `padding` (int or 2-tuple (left, right)): how many elements each side gets; one number is for all

    Shapes: the input is (N, C, L) or (C, L), the result (N, C, L'), or without N, with L' = L + left + right.
    RuntimeError where the padding is larger than the input, ValueError for other dimensions.

    Example::

        >>> import ferro
        >>> ferro.nn.CircularPad1d((2, 1))(ferro.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[2., 3., 1., 2., 3., 1.]]])
    """

    n_dims, mode = 1, "circular"


class CircularPad2d(_CircularPad):
    """Pads images as if they were closed to a ring: what is added is taken from the other end.

    - `padding` (int or 4-tuple (left, right, top, bottom)): how many elements each side gets; one number is for all

    Shapes: the input is (N, C, H, W) or (C, H, W), the result (N, C, H', W'), or without N, with W' = W + left + right,
    H' = H + top + bottom. RuntimeError where the padding is larger than the input, ValueError for other dimensions.

    Example::

        >>> import ferro
        >>> ferro.nn.CircularPad2d(1)(ferro.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
        tensor([[[4., 3., 4., 3.],
                 [2., 1., 2., 1.],
                 [4., 3., 4., 3.],
                 [2., 1., 2., 1.]]])
    """

    n_dims, mode = 2, "circular"


class CircularPad3d(_CircularPad):
    """Pads volumes as if they were closed to a ring: what is added is taken from the other end.

    - `padding` (int or 6-tuple (left, right, top, bottom, front, back)): how many elements each side gets; one number
      is for all

    Shapes: the input is (N, C, D, H, W) or (C, D, H, W), the result (N, C, D', H', W'), or without N, with W' = W +
    left + right, H' = H + top + bottom, D' = D + front + back. RuntimeError where the padding is larger than the input,
    ValueError for other dimensions.

    Example::

        >>> import ferro
        >>> ferro.nn.CircularPad3d(1)(ferro.zeros(1, 1, 2, 3, 4)).shape
        ferro.Size([1, 1, 4, 5, 6])
    """

    n_dims, mode = 3, "circular"
