"""ChannelShuffle: channels of different groups interleaved."""

from __future__ import annotations

from ferro.tensor import Tensor

from .. import functional as F
from .module import Module


class ChannelShuffle(Module):
    """Deals the channels of the input into `groups`, one after the other, as cards are dealt.

    - `groups` (int): how many; C is divisible by it, else RuntimeError

    Shapes: the input is (N, C, ...), the result the same. Source: Zhang, Zhou, Lin and Sun, ShuffleNet: An Extremely
    Efficient Convolutional Neural Network for Mobile Devices, 2018.

    Example::

        >>> import ferro
        >>> ferro.nn.ChannelShuffle(2)(ferro.arange(4.0).reshape(1, 4, 1)).flatten()
        tensor([0., 2., 1., 3.])
    """

    groups: int

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
