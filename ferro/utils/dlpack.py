"""Tensors of other libraries without a copy, by DLPack: ``ferro.utils.dlpack.from_dlpack`` and ``to_dlpack``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.arguments import need_tensor
from ferro.ops.exchange import from_dlpack

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule that shares the memory of a tensor without history (or of a leaf), and can be used once.

    Libraries of today take the tensor itself, by ``__dlpack__``.

    Example::

        >>> import ferro
        >>> x = ferro.zeros(2)
        >>> ferro.utils.dlpack.from_dlpack(ferro.utils.dlpack.to_dlpack(x))[0] = 1
        >>> x
        tensor([1., 0.])
    """
    t: Any = need_tensor("to_dlpack", "tensor", tensor)
    return t.detach().__dlpack__()
