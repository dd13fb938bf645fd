"""What is asked of sparse tensors: sizes, kinds, whether two are equal."""

from __future__ import annotations

import math
from typing import Any

from ferro import functional as F
from ferro.core.layout import sparse_coo
from ferro.sparse.rules import dense, rule


@rule("is_floating_point", compressed=True)
def is_floating_point(input: Any) -> bool:
    """Whether the dtype is a floating one."""
    return input.dtype.is_floating_point


@rule("get_device", compressed=True)
def get_device(input: Any) -> int:
    """The number of the device: -1, the CPU has none."""
    return input.kept.get_device()


@rule("is_complex", compressed=True)
def is_complex(input: Any) -> bool:
    """Whether the dtype is complex."""
    return input.dtype.is_complex


@rule("is_signed", compressed=True)
def is_signed(input: Any) -> bool:
    """Whether the dtype has negative numbers."""
    return input.kept.is_signed()


@rule("is_tensor", compressed=True)
def is_tensor(obj: Any, /) -> bool:
    """True."""
    return True


@rule("element_size", compressed=True)
def element_size(self: Any) -> int:
    """Bytes of one kept value."""
    return self.kept.element_size()


@rule("is_same_size", compressed=True)
def is_same_size(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape."""
    return tuple(input.shape) == tuple(other.shape)


@rule("dim", "ndimension", compressed=True)
def ndimension(self: Any) -> int:
    """The number of dimensions."""
    return self.ndim


@rule("numel", compressed=True)
def numel(input: Any) -> int:
    """How many elements the dense tensor has."""
    return math.prod(input.extent)


@rule("is_nonzero", "__bool__", compressed=True)
def is_nonzero(input: Any) -> bool:
    """The truth of a tensor with one element."""
    if math.prod(input.extent) != 1:
        raise RuntimeError(
            "Boolean value of Tensor with more than one value is ambiguous"
            if math.prod(input.extent)
            else "Boolean value of Tensor with no values is ambiguous"
        )
    return bool(input.to_dense().item())


@rule("__len__", compressed=True)
def length(self: Any) -> int:
    """The size of the first dimension."""
    return self.extent[0]


@rule("is_contiguous", compressed=True)
def is_contiguous(self: Any, memory_format: Any = None) -> bool:
    """Always false of COO tensors, as in PyTorch; refused of compressed matrices."""
    if self.kind is not sparse_coo:
        raise RuntimeError(f"Sparse {self.kind.name[-3:].upper()} tensors do not have is_contiguous")
    return False


@rule("dim_order", compressed=True)
def dim_order(self: Any, *, ambiguity_check: Any = False) -> Any:
    """Refused: only kept values lie in memory. An AttributeError, as in PyTorch."""
    raise AttributeError(
        f"Can't get dim order on sparse type: {self.layout}. Use Tensor.to_dense() to convert to a dense tensor first."
    )


@rule("data_ptr", compressed=True)
def data_ptr(self: Any) -> Any:
    """Refused: indices and values have addresses, a sparse tensor has none."""
    raise RuntimeError(
        "Cannot access data pointer of Tensor that doesn't have storage: it is sparse; ask values() or indices()"
    )


@rule("allclose", compressed=True)
def allclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether two tensors are about equal."""
    return F.allclose(*[dense(x) for x in (input, other)], rtol=rtol, atol=atol, equal_nan=equal_nan)


@rule("equal", compressed=True)
def equal(input: Any, other: Any) -> bool:
    """Whether two tensors are equal."""
    return F.equal(*[dense(x) for x in (input, other)])
