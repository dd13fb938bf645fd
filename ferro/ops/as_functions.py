"""Methods of tensors that PyTorch has as functions, too, and the name of a value's type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.arguments import need_tensor
from ferro.core.base import TensorBase

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["addmv_", "as_strided_", "detach_", "get_device", "is_distributed", "resize_as_", "typename"]


def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``input.addmv_(mat, vec)``: beta input + alpha mat @ vec in the place of `input`.

    - `input` (Tensor): (n), changed and returned
    - `mat`, `vec` (Tensor): (n, m) and (m)
    - `beta`, `alpha` (number, default 1): factors

    RuntimeError for shapes and dtypes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.addmv_(ferro.tensor([1.0, 2.0]), ferro.ones(2, 3), ferro.ones(3))
        tensor([4., 5.])
    """
    return need_tensor("addmv_", "input", input).addmv_(mat, vec, beta=beta, alpha=alpha)


def as_strided_(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """``input.as_strided_(size, stride)``: gives the tensor itself other sizes and strides for the same memory.

    - `input` (Tensor): any shape, changed and returned
    - `size`, `stride` (ints): as in :func:`as_strided`
    - `storage_offset` (int, default None): where it begins; None: where it did

    RuntimeError for sizes that reach beyond the storage.

    Example::

        >>> import ferro
        >>> ferro.as_strided_(ferro.arange(4), (2, 2), (1, 2))
        tensor([[0, 2],
                [1, 3]])
    """
    return need_tensor("as_strided_", "input", input).as_strided_(size, stride, storage_offset)


def detach_(input: Tensor) -> Tensor:
    """``input.detach_()``: takes the tensor's history away."""
    return need_tensor("detach_", "input", input).detach_()


def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """``input.resize_as_(the_template)``: the sizes of another tensor."""
    return need_tensor("resize_as_", "input", input).resize_as_(the_template, memory_format=memory_format)


def get_device(input: Tensor) -> int:
    """The number of the device of a tensor: -1, the CPU has none.

    >>> import ferro
    >>> ferro.get_device(ferro.ones(1))
    -1
    """
    return need_tensor("get_device", "input", input).get_device()


def is_distributed(input: Tensor) -> bool:
    """Whether a tensor is a part of one that lies on several machines: never."""
    return need_tensor("is_distributed", "input", input).is_distributed()


def typename(obj: Any, /) -> str:
    """The name of the type of a value as PyTorch writes it: of a tensor "torch.FloatTensor", of a class or function its own.

    >>> import ferro
    >>> ferro.typename(ferro.ones(1)), ferro.typename(3)
    ('torch.FloatTensor', 'int')
    """
    if isinstance(obj, TensorBase):
        name: Any = obj.type()  # type: ignore[attr-defined]
        return str(name)
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", None) or ""
    return named.__qualname__ if module in ("", "builtins") else f"{module}.{named.__qualname__}"
