"""ChannelShuffle: channels of different groups interleaved."""

from __future__ import annotations

from ferro.tensor import Tensor

from .. import functional as F
from .module import Module


class ChannelShuffle(Module):
    """Divides the channels of (N, C, ...) into groups and interleaves them."""

    groups: int

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
