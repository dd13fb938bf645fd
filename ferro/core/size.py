"""Size: the shape of a tensor, a tuple that can count its elements."""

from __future__ import annotations

import math
from typing import Any


class Size(tuple):
    """A tuple of sizes, as returned by ``Tensor.shape``."""

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"ferro.Size([{', '.join(map(str, self))}])"

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, tuple(other)))
