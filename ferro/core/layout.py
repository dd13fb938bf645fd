"""Layouts and memory formats, as PyTorch names them.  ferro's tensors are strided; formats are accepted as wishes."""

from __future__ import annotations


class Named:
    """A constant with a name, such as ``ferro.strided`` or ``ferro.channels_last``."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"ferro.{self.name}"

    def __reduce__(self) -> str:
        return self.name


strided = Named("strided")
contiguous_format = Named("contiguous_format")
preserve_format = Named("preserve_format")
channels_last = Named("channels_last")
channels_last_3d = Named("channels_last_3d")
