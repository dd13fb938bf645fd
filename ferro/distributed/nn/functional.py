"""The functions of `distributed.nn`: each gives new tensors, and its backward is the exchange the other way round.

The gradient of a sum over ranks is the sum of their gradients, that of a gathered list is scattered, and so on.  Except for
`gather`, `scatter`, `reduce` and `all_to_all`, PyTorch deprecates them, with a FutureWarning.

Example::

    >>> import warnings
    >>> import ferro
    >>> import ferro.distributed as dist
    >>> from ferro.distributed import nn
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> x = ferro.tensor([1.0, 2.0], requires_grad=True)
    >>> (nn.gather(x)[0] ** 2).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    >>> dist.destroy_process_group()
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ferro.autograd.function import Function
from ferro.ops.uninitialised import empty

from .. import collectives
from ..group import get_rank, get_world_size
from ..premultiplied import PremulSum
from ..process_group import ReduceOp

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter", "scatter"]  # fmt: skip


def _deprecated(name: str, instead: str | None = None) -> None:
    warnings.warn(
        f"torch.distributed.nn.functional.{name} is deprecated, use torch.distributed._functional_collectives."
        f"{instead or name} instead. (ferro has this one only.)",
        FutureWarning,
        stacklevel=3,
    )


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of rank `src`, in every rank."""
    _deprecated("broadcast")
    return _Broadcast.apply(src, group, tensor)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks, in rank `dst`; zeros in the others."""
    return _Gather.apply(dst, group, tensor)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """Entry i of the tensors of rank `src`, in rank i."""
    return _Scatter.apply(src, group, *tensors)


def reduce(tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum of the tensors of all ranks (or what `op` says), in rank `dst`."""
    return _Reduce.apply(dst, op, group, tensor)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """The sum over ranks of entry i of their lists, in rank i; written into `output`, which is returned."""
    _deprecated("reduce_scatter", "reduce_scatter_single")
    return _ReduceScatter.apply(op, group, output, *input_list)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks, in every rank."""
    _deprecated("all_gather", "all_gather_single")
    return _AllGather.apply(group, tensor)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """Input j of rank i as output i of rank j; written into the outputs, which are returned."""
    return _AllToAll.apply(group, list(output_tensor_list), *input_tensor_list)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Any = None,
) -> Tensor:
    """Part j of the input of rank i as part i of the output of rank j; written into `output`, which is returned."""
    _deprecated("all_to_all_single")
    return _AllToAllSingle.apply(group, output, output_split_sizes, input_split_sizes, input)


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum of the tensors of all ranks (or what `op` says), in every rank; `tensor` stays as it is."""
    _deprecated("all_reduce")
    return _AllReduce.apply(op, group, tensor)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, tensor: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        result = tensor.clone()
        collectives.broadcast(result, src, group=group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        summed = _Reduce.apply(ctx.src, ReduceOp.SUM, ctx.group, grad)
        return None, None, summed if get_rank(ctx.group) == ctx.src else summed * 0


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, group: Any, tensor: Tensor) -> Any:
        ctx.dst, ctx.group = dst, group
        results = [tensor.new_zeros(tensor.shape) for _ in range(get_world_size(group))]
        collectives.gather(tensor, results if get_rank(group) == dst else None, dst, group=group)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *grads)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *tensors: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        result = tensors[0].new_zeros(tensors[0].shape)
        collectives.scatter(result, list(tensors) if get_rank(group) == src else None, src, group=group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, *_Gather.apply(ctx.src, ctx.group, grad)


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, op: ReduceOp, group: Any, tensor: Tensor) -> Tensor:
        ctx.dst, ctx.op, ctx.group = dst, op, group
        result = tensor.clone()
        collectives.reduce(result, dst, op=op, group=group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, None, _divided(ctx.op, ctx.group, _Broadcast.apply(ctx.dst, ctx.group, grad))


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: ReduceOp, group: Any, output: Tensor, *tensors: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        collectives.reduce_scatter(output, list(tensors), op=op, group=group)
        ctx.mark_dirty(output)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, None, *_AllGather.apply(ctx.group, _divided(ctx.op, ctx.group, grad))


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, tensor: Tensor) -> Any:
        ctx.group = group
        results = [tensor.new_empty(tensor.shape) for _ in range(get_world_size(group))]
        collectives.all_gather(results, tensor, group=group)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        """Every rank has gathered this tensor: the sum of what they send back."""
        back = _AllToAll.apply(ctx.group, [g.new_empty(g.shape) for g in grads], *grads)
        return None, sum(back[1:], back[0])


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, outputs: list[Tensor], *tensors: Tensor) -> Any:
        ctx.group, ctx.like = group, [(t.shape, t.dtype, t.device) for t in tensors]
        collectives.all_to_all(outputs, list(tensors), group=group)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        back = [empty(shape, dtype=dtype, device=device) for shape, dtype, device in ctx.like]
        return None, None, *_AllToAll.apply(ctx.group, back, *grads)


class _AllToAllSingle(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, output: Tensor, output_sizes: Any, input_sizes: Any, tensor: Tensor) -> Tensor:
        ctx.group, ctx.shape, ctx.sizes = group, tensor.shape, (input_sizes, output_sizes)
        collectives.all_to_all_single(output, tensor, output_sizes, input_sizes, group=group)
        ctx.mark_dirty(output)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        back = grad.new_empty(ctx.shape)
        return None, None, None, None, _AllToAllSingle.apply(ctx.group, back, *ctx.sizes, grad)


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: ReduceOp, group: Any, tensor: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        result = tensor.clone()
        collectives.all_reduce(result, op=op, group=group)
        if op in _BY_VALUE:
            ctx.save_for_backward(tensor, result)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        if ctx.op in (ReduceOp.SUM, ReduceOp.AVG):
            return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)
        if isinstance(ctx.op, PremulSum):
            return None, None, _AllReduce.apply(ReduceOp.SUM, ctx.group, grad) * ctx.op.factor
        if ctx.op not in _BY_VALUE:
            raise RuntimeError(f"all_reduce: {ctx.op} has no gradient")
        tensor, result = ctx.saved_tensors
        whole = _AllReduce.apply(ReduceOp.SUM, ctx.group, grad)
        if ctx.op is ReduceOp.PRODUCT:
            others = _AllGather.apply(ctx.group, tensor)
            mine = get_rank(ctx.group)
            return None, None, math.prod([x for r, x in enumerate(others) if r != mine], start=whole)
        chosen = (tensor == result).to(grad.dtype)  # (ranks that have the same extremum share its gradient)
        return None, None, whole * chosen / _AllReduce.apply(ReduceOp.SUM, ctx.group, chosen)


_BY_VALUE = (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT)


def _divided(op: ReduceOp, group: Any, grad: Tensor) -> Tensor:
    """The gradient of each tensor of a sum, or of a mean; RuntimeError for what has none here."""
    if op is ReduceOp.SUM:
        return grad
    if op is ReduceOp.AVG:
        return grad / get_world_size(group)
    if isinstance(op, PremulSum):
        return grad * op.factor
    raise RuntimeError(f"{op} has a gradient in all_reduce only")
