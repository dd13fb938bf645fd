"""The weights of all convolutions of a model in another memory format."""

from __future__ import annotations

from typing import Any, TypeVar

from ..modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module

M = TypeVar("M", bound=Module)


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Lay out the weights of all Conv2d and ConvTranspose2d in the model; returns it.

    >>> import ferro
    >>> conv = convert_conv2d_weight_memory_format(ferro.nn.Conv2d(3, 2, 2), ferro.channels_last)
    >>> conv.weight.is_contiguous(memory_format=ferro.channels_last)
    True
    """
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Lay out the weights of all Conv3d and ConvTranspose3d in the model; returns it."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)


def _convert(module: M, kinds: Any, memory_format: Any) -> M:
    for part in module.modules():
        if isinstance(part, kinds):
            weight: Any = part.weight
            weight.data = weight.detach().contiguous(memory_format=memory_format)
    return module
