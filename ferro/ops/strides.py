"""How elements lie in memory: contiguous copies, strides, offsets, the order of dimensions."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, overload

from ferro.core.apply import unary
from ferro.core.arguments import one_dim
from ferro.core.layout import Named, channels_last, channels_last_3d, contiguous_format, geometry, memory_order
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample
from ferro.core.views import viewed
from ferro.ops.complex import conj
from ferro.ops.permuting import PERMUTE

if TYPE_CHECKING:
    from ferro.tensor import Tensor


def contiguous(self: Tensor, memory_format: Any = contiguous_format) -> Tensor:
    """The tensor itself if its elements lie in memory in C order (or that of the memory format), else a copy in which they do.

    Example::

        >>> import ferro
        >>> x = ferro.zeros(2, 3).t()
        >>> x.is_contiguous(), x.contiguous().is_contiguous()
        (False, True)
    """
    order = memory_order("contiguous", self._data.ndim, memory_format)
    if order is None:
        return self if self._data.flags.c_contiguous else unary(CONTIGUOUS, self)
    if self._data.transpose(order).flags.c_contiguous:
        return self
    back = tuple([order.index(d) for d in range(len(order))])
    return viewed(PERMUTE, unary(CONTIGUOUS, viewed(PERMUTE, self, (order,))), (back,))


def laid_out_like(input: Tensor, result: Tensor) -> Tensor:
    """The result in the memory format of the input, if that is channels_last: what operations on images give back."""
    data = input._data
    if data.flags.c_contiguous or data.ndim not in (4, 5):
        return result
    memory_format = channels_last if data.ndim == 4 else channels_last_3d
    return contiguous(result, memory_format) if is_contiguous(input, memory_format) else result


CONTIGUOUS = Op(
    "contiguous",
    lambda xp, x: xp.contiguous(x),
    kind=LINEAR,
    x=lambda xp, g: g,
    samples=[Sample(Arg(2, 3)), Sample(Arg())],
    complex=True,
    path="Tensor.contiguous",
)


def is_contiguous(self: Tensor, memory_format: Any = contiguous_format) -> bool:
    """Whether the elements lie in memory in C order (or that of the memory format), without gaps."""
    data = self._data
    if memory_format not in (channels_last, channels_last_3d):
        return data.flags.c_contiguous
    n = 4 if memory_format is channels_last else 5
    return data.ndim == n and data.transpose(0, *range(2, n), 1).flags.c_contiguous


@overload
def stride(self: Tensor) -> tuple[int, ...]: ...


@overload
def stride(self: Tensor, dim: int) -> int: ...


def stride(self: Tensor, dim: int | None = None) -> Any:
    """The distance in memory, counted in elements, between neighbours in every dimension (or in one)."""
    strides = geometry(self._data)[1]
    return strides if dim is None else strides[one_dim("stride", self._data.ndim, dim)]


def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions from the slowest in memory to the fastest.

    ambiguity_check: RuntimeError where several orders fit (a size is 1, or strides are equal); a list of memory formats: unless
    exactly one of them fits.

    Example::

        >>> import ferro
        >>> ferro.zeros(2, 3, 5).transpose(0, 1).dim_order()
        (1, 0, 2)
    """
    if not isinstance(ambiguity_check, bool) and not (
        isinstance(ambiguity_check, list) and all(isinstance(f, Named) for f in ambiguity_check)
    ):
        raise TypeError("dim_order: The ambiguity_check argument must be a bool or a list of memory formats.")
    shape, strides = geometry(self._data)[:2]
    if ambiguity_check and (1 in shape or any(a == b for a, b in pairwise(strides))):
        formats = ambiguity_check if isinstance(ambiguity_check, list) else []
        if [is_contiguous(self, f) for f in formats].count(True) != 1:
            raise RuntimeError(
                "dim_order: The tensor does not have unique dim order, or cannot map to exact one of the given memory "
                f"formats. Its shape is {list(shape)}, its strides {list(strides)}"
            )
    if not is_contiguous(self):
        if is_contiguous(self, channels_last):
            return (0, 2, 3, 1)
        return tuple(sorted(range(len(shape)), key=lambda d: -strides[d]))
    return tuple(range(len(shape)))


def storage_offset(self: Tensor) -> int:
    """Where the tensor begins in its storage, counted in elements."""
    return geometry(self._data)[2]


def _reversed(x: Any) -> Tensor:
    return viewed(PERMUTE, x, (tuple(range(x._data.ndim))[::-1],))


def sparse_dim(self: Tensor) -> int:
    """How many dimensions are sparse: none of a dense tensor."""
    return 0


def dense_dim(self: Tensor) -> int:
    """How many dimensions are not sparse: all of a dense tensor."""
    return self._data.ndim


class StrideMethods:
    """Methods of Tensor."""

    __slots__ = ()
    sparse_dim, dense_dim = sparse_dim, dense_dim
    contiguous, dim_order, is_contiguous = contiguous, dim_order, is_contiguous
    stride, storage_offset = stride, storage_offset

    @property
    def T(self: Any) -> Tensor:
        """The tensor with its dimensions in reverse order."""
        return _reversed(self)

    @property
    def H(self: Any) -> Tensor:
        """The conjugate transpose of a matrix."""
        if self._data.ndim not in (0, 2):
            raise RuntimeError(
                f"H: tensor.H is only supported on matrices (2-D tensors). Got {self._data.ndim}-D tensor. Use .mH for batches."
            )
        return conj(_reversed(self))
