"""Sums of what each rank multiplies first: PyTorch's PREMUL_SUM, here for every library.

PyTorch has it over NCCL alone, which multiplies while it adds. CuPy's NCCL cannot make such an operation, and MPI has none: the
tensor is multiplied before, and then summed. The rounding of 16-bit floats is therefore that of a product and a sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ferro.core.base import TensorBase

from .process_group import ProcessGroup, ReduceOp

if TYPE_CHECKING:
    from ferro.tensor import Tensor


class PremulSum:
    """The operation with its factor."""

    name = "PREMUL_SUM"

    def __init__(self, factor: Any) -> None:
        self.factor = factor

    def __repr__(self) -> str:
        return f"ReduceOp.PREMUL_SUM of {self.factor}"

    def times(self, tensor: Tensor) -> Tensor:
        """Another tensor: the factor times this one, in its dtype."""
        return (tensor * self.factor).to(tensor.dtype)

    def check(self, name: str, *tensors: Tensor) -> None:
        """RuntimeError unless all are real floating-point tensors, as in PyTorch."""
        for tensor in tensors:
            if not tensor.is_floating_point():
                raise RuntimeError(
                    f"{name}: PREMUL_SUM multiplies tensors of float16, bfloat16, float32 and float64, got {tensor.dtype}"
                )


def _make_nccl_premul_sum(factor: float | Tensor) -> Any:
    """The operation that multiplies the tensor of each rank by `factor`, a number or a tensor of one, and adds; for all libraries.

    TypeError for another factor, ValueError for a tensor of several numbers.

    Example::

        >>> import ferro
        >>> import ferro.distributed as dist
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> x = ferro.ones(2)
        >>> dist.all_reduce(x, dist._make_nccl_premul_sum(0.5))
        >>> x
        tensor([0.5000, 0.5000])
        >>> dist.destroy_process_group()
    """
    if isinstance(factor, TensorBase):
        found: Any = factor
        if found.numel() != 1:
            raise ValueError(f"PREMUL_SUM: the factor must be one number, got a tensor of shape {tuple(found.shape)}")
        return PremulSum(found.detach().clone().reshape(()))
    if isinstance(factor, bool) or not isinstance(factor, (int, float)):
        raise TypeError(f"PREMUL_SUM: the factor must be a number or a tensor, got {type(factor).__name__}")
    return PremulSum(float(factor))


def reduce(group: ProcessGroup, tensor: Tensor, op: Any, root: int | None) -> Any:
    """`ProcessGroup.reduce`, with the operation of this file too; the tensor of a rank that gets nothing stays as it is."""
    if type(op) is not PremulSum:
        return group.reduce(tensor, op, root)
    op.check("reduce" if root is not None else "all_reduce", tensor)
    group.library(tensor)
    if root is not None:
        group.check_root("reduce", root)
        if root != group.rank():
            return group.reduce(op.times(tensor), ReduceOp.SUM, root)
    tensor.copy_(op.times(tensor))
    return group.reduce(tensor, ReduceOp.SUM, root)


def reduce_scatter(group: ProcessGroup, output: Tensor, inputs: Sequence[Tensor], op: Any) -> Any:
    """The same for `ProcessGroup.reduce_scatter`."""
    if type(op) is not PremulSum:
        return group.reduce_scatter(output, inputs, op)
    op.check("reduce_scatter", output, *inputs)
    return group.reduce_scatter(output, [op.times(x) for x in inputs], ReduceOp.SUM)
