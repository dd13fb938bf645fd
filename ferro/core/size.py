"""Size: the shape of a tensor, a tuple that can count its elements."""

from __future__ import annotations

import math
import operator
from typing import Any, SupportsIndex, overload

from ferro.core.naming import called

_new = tuple.__new__


class Size(tuple[int, ...]):
    """A tuple of sizes, as returned by ``Tensor.shape``.

    Example::

        >>> import ferro
        >>> ferro.zeros(2, 3).shape + (4,)
        ferro.Size([2, 3, 4])
    """

    __slots__ = ()

    def __new__(cls, sizes: Any = (), /) -> Size:
        return _new(cls, [_whole(at, size) for at, size in enumerate(sizes)])

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return math.prod(self)

    def __repr__(self) -> str:
        return called(f"Size([{', '.join(map(str, self))}])")

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Size: ...

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return _new(Size, found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Any:
        if isinstance(other, tuple):
            return Size(tuple.__add__(self, other))
        if hasattr(type(other), "__radd__"):
            return NotImplemented
        raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to torch.Size")

    def __radd__(self, other: Any) -> Any:
        return Size(tuple.__add__(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: Any) -> Any:
        return _new(Size, tuple.__mul__(self, times))

    __rmul__ = __mul__


def _whole(at: int, size: Any) -> int:
    """One of the sizes."""
    try:
        return operator.index(size)
    except TypeError:
        raise TypeError(f"torch.Size() takes an iterable of 'int' (item {at} is '{type(size).__name__}')") from None
