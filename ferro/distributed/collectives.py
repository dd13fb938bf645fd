"""Tensors from rank to rank: arguments are checked as PyTorch checks them, the group does the rest."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ferro.autograd.grad_mode import no_grad
from ferro.core.base import TensorBase

from . import premultiplied
from .group import GroupMember, resolved
from .process_group import ProcessGroup, ReduceOp
from .seen import noted
from .work import Work, seconds_of

if TYPE_CHECKING:
    from ferro.tensor import Tensor


def _run(
    name: str,
    group: Any,
    async_op: bool,
    exchange: Callable[[ProcessGroup], Any],
    result: Sequence[Any],
    timeout: Any = None,
) -> Any:
    """Calls ``exchange(group)`` without recording it; a Work if asked for one. Outside of the group: a warning."""
    if group == GroupMember.NON_GROUP_MEMBER:
        rank = resolved(None).rank()
        warnings.warn(f"Running {name} on global rank {rank} which does not belong to the given group.", stacklevel=3)
        return None
    found = resolved(group)
    end = noted(f"distributed::{name}")
    with no_grad():
        pending = exchange(found)
        if async_op:
            return Work(result, pending, end)
        if pending is not None:
            pending.wait(seconds_of(timeout))
    if end is not None:
        end()
    return None


def check_tensor(name: str, value: Any) -> None:
    if not isinstance(value, TensorBase):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor but got {type(value)} instead."
        )


def _tensors(name: str, values: Any) -> None:
    if not isinstance(values, list) or not all(isinstance(v, TensorBase) for v in values):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor] but got {type(values)} "
            "instead."
        )


def _op(op: Any) -> None:
    if op is ReduceOp.PREMUL_SUM:
        raise RuntimeError(
            "ReduceOp.PREMUL_SUM has no factor: give what distributed._make_nccl_premul_sum(factor) returns"
        )
    if not isinstance(op, (ReduceOp, premultiplied.PremulSum)):
        raise TypeError(
            f"op: incompatible function arguments: one of {', '.join(map(str, ReduceOp))} is needed, got {op!r}"
        )


def peer_of(group: ProcessGroup, rank: int | None, group_rank: int | None) -> int:
    """The rank in a group that is meant, as the default group or as the group numbers it."""
    if rank is not None and group_rank is not None:
        raise ValueError("Can't specify both group_rank and global_rank")
    if rank is None and group_rank is None:
        raise ValueError("Must specify global_rank or group_rank")
    if rank is None:
        return int(group_rank)  # type: ignore[arg-type]
    if group.size() > 1 and rank not in group.ranks:
        raise ValueError(f"Global rank {rank} is not part of group {group.group_name}, which has {group.ranks}")
    return group.ranks.index(rank) if rank in group.ranks else int(rank)


def _count(name: str, what: str, values: Sequence[Any], size: int) -> None:
    if len(values) != size:
        raise RuntimeError(
            f"ProcessGroup::{name}: Incorrect {what} list size {len(values)}. {what.capitalize()} list size should be "
            f"{size}, same as size of the process group; invalid {what} tensor list at index 0 (expected length "
            f"{size}, got {len(values)})"
        )


def _same(name: str, like: Tensor, *others: Tensor) -> None:
    """All of one dtype and one shape."""
    for i, other in enumerate(others):
        if other.dtype is not like.dtype:
            raise ValueError(
                f"{name}: Invalid usage of tensors with different dtypes: Found {other.dtype} and {like.dtype}"
            )
        if other.shape != like.shape:
            raise RuntimeError(
                f"ProcessGroup::{name}: invalid tensor size at index {i} (expected {tuple(like.shape)}, got "
                f"{tuple(other.shape)})"
            )


# -------------------------------------------------------------------- one tensor to all, all to one


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Writes the tensor of rank `src` into that of every rank."""
    check_tensor("tensor", tensor)
    return _run("broadcast", group, async_op, lambda g: g.broadcast(tensor, peer_of(g, src, group_src)), [tensor])


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Writes the sum (or what `op` says) of the tensors of all ranks into each of them.

    RuntimeError for bitwise operations on floating-point tensors and for the mean of integers, ValueError for an order of
    complex numbers.
    """
    check_tensor("tensor", tensor)
    _op(op)
    return _run("all_reduce", group, async_op, lambda g: premultiplied.reduce(g, tensor, op, None), [tensor])


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: ReduceOp = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Writes the sum (or what `op` says) of the tensors of all ranks into that of rank `dst`."""
    check_tensor("tensor", tensor)
    _op(op)

    def exchange(g: ProcessGroup) -> Any:
        return premultiplied.reduce(g, tensor, op, peer_of(g, dst, group_dst))

    return _run("reduce", group, async_op, exchange, [tensor])


# -------------------------------------------------------------------- lists of tensors


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Writes the tensors of all ranks, in order, into the list's tensors, which have its shape and dtype."""
    _tensors("tensor_list", tensor_list)
    check_tensor("tensor", tensor)

    def exchange(g: ProcessGroup) -> Any:
        _count("allgather", "output", tensor_list, g.size())
        _same("allgather", tensor, *tensor_list)
        return g.gather(tensor_list, tensor, None)

    return _run("all_gather", group, async_op, exchange, tensor_list)


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Writes the tensors of all ranks into the list of rank `dst` (0 unless given)."""
    check_tensor("tensor", tensor)
    if gather_list:
        _tensors("gather_list", gather_list)

    def exchange(g: ProcessGroup) -> Any:
        root = 0 if dst is None and group_dst is None else peer_of(g, dst, group_dst)
        outputs = gather_list or []
        if g.rank() == root:
            if not gather_list:
                raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
            _count("gather", "output", outputs, g.size())
            _same("gather", tensor, *outputs)
        return g.gather(outputs, tensor, root)

    return _run("gather", group, async_op, exchange, gather_list or [])


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Writes entry i of the list of rank `src` (0 unless given) into the tensor of rank i."""
    check_tensor("tensor", tensor)
    if scatter_list:
        _tensors("scatter_list", scatter_list)

    def exchange(g: ProcessGroup) -> Any:
        root = 0 if src is None and group_src is None else peer_of(g, src, group_src)
        inputs = scatter_list or []
        if g.rank() == root:
            if not scatter_list:
                raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
            _count("scatter", "input", inputs, g.size())
            _same("scatter", tensor, *inputs)
        return g.scatter(tensor, inputs, root)

    return _run("scatter", group, async_op, exchange, [tensor])


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Writes the sum over ranks of entry i of their lists into the output of rank i."""
    check_tensor("output", output)
    _tensors("input_list", input_list)
    _op(op)

    def exchange(g: ProcessGroup) -> Any:
        _count("reduce_scatter", "input", input_list, g.size())
        _same("reduce_scatter", output, *input_list)
        return premultiplied.reduce_scatter(g, output, input_list, op)

    return _run("reduce_scatter", group, async_op, exchange, [output])


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Work | None:
    """Writes input j of rank i into output i of rank j."""
    _tensors("output_tensor_list", output_tensor_list)
    _tensors("input_tensor_list", input_tensor_list)

    def exchange(g: ProcessGroup) -> Any:
        _count("all_to_all", "output", output_tensor_list, g.size())
        _count("all_to_all", "input", input_tensor_list, g.size())
        if g.size() == 1:  # (of several the parts may differ)
            _same("all_to_all", output_tensor_list[0], input_tensor_list[0])
        return g.all_to_all(output_tensor_list, input_tensor_list)

    return _run("all_to_all", group, async_op, exchange, output_tensor_list)


# -------------------------------------------------------------------- one tensor in place of a list


def _parts(name: str, whole: Tensor, part: Tensor, size: int) -> list[Tensor]:
    """The views of `whole` for each rank, as `part` is: joined along the first dimension, or stacked."""
    if whole.dtype is not part.dtype:
        raise RuntimeError(f"ProcessGroup::{name}: invalid tensor type at index 0: got {whole.dtype} and {part.dtype}")
    joined, stacked = (size * part.shape[0], *part.shape[1:]) if part.dim() else (size,), (size, *part.shape)
    if tuple(whole.shape) == joined:
        return [p.reshape(part.shape) for p in whole.chunk(size)] if size > 1 else [whole.view(part.shape)]
    if tuple(whole.shape) == stacked:
        return list(whole.unbind())
    raise RuntimeError(
        f"ProcessGroup::{name}: invalid tensor size at index 0 (expected {joined} or {stacked}, got "
        f"{tuple(whole.shape)})"
    )


def all_gather_single(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Writes the tensors of all ranks into one: joined along the first dimension, or stacked along a new one."""
    check_tensor("output_tensor", output_tensor)
    check_tensor("input_tensor", input_tensor)

    def exchange(g: ProcessGroup) -> Any:
        return g.gather(_parts("allgather", output_tensor, input_tensor, g.size()), input_tensor, None)

    return _run("all_gather_single", group, async_op, exchange, [output_tensor])


def reduce_scatter_single(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Writes the sum over ranks of part i of their inputs into the output of rank i."""
    check_tensor("output", output)
    check_tensor("input", input)
    _op(op)

    def exchange(g: ProcessGroup) -> Any:
        return premultiplied.reduce_scatter(g, output, _parts("reduce_scatter", input, output, g.size()), op)

    return _run("reduce_scatter_single", group, async_op, exchange, [output])


def _old(name: str, new: str) -> None:
    warnings.warn(
        f"`torch.distributed.{name}` is deprecated. Please use `torch.distributed.{new}` instead.",
        FutureWarning,
        stacklevel=3,
    )


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """The old name of `all_gather_single`; warns."""
    _old("all_gather_into_tensor", "all_gather_single")
    return all_gather_single(output_tensor, input_tensor, group, async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """The old name of `reduce_scatter_single`; warns."""
    _old("reduce_scatter_tensor", "reduce_scatter_single")
    return reduce_scatter_single(output, input, op, group, async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Writes part j of the input of rank i into part i of the output of rank j; parts are equal, or of the given sizes."""
    check_tensor("output", output)
    check_tensor("input", input)

    def exchange(g: ProcessGroup) -> Any:
        outputs, inputs = _split(output, output_split_sizes, g.size()), _split(input, input_split_sizes, g.size())
        if g.size() == 1:
            _same("all_to_all_single", outputs[0], inputs[0])
        return g.all_to_all(outputs, inputs)

    return _run("all_to_all_single", group, async_op, exchange, [output])


def _split(tensor: Tensor, sizes: list[int] | None, count: int) -> list[Tensor]:
    length = tensor.shape[0] if tensor.dim() else 0
    if sizes and len(sizes) != count:
        raise RuntimeError(f"Number of tensor splits not equal to group size: got {len(sizes)} for {count}")
    if sizes and sum(sizes) != length:
        raise RuntimeError(f"Split sizes doesn't match total dim 0 size: {sizes} for {length}")
    if not sizes and length % count:
        raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
    return list(tensor.split(sizes or [length // count] * count))


# -------------------------------------------------------------------- waiting, and one rank to another


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: Any = None) -> Work | None:
    """Waits until all ranks are here; DistBackendError when `timeout` (a timedelta; None: the group's) is over."""
    seconds_of(timeout)
    return _run("barrier", group, async_op, lambda g: g.barrier(), [], timeout)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Waits until all ranks are here; DistBackendError when `timeout` is over, which names all ranks that are not.

    `wait_all_ranks` changes nothing: every rank raises, not rank 0 alone, and names all.
    """
    seconds_of(timeout)
    _run("monitored_barrier", group, False, lambda g: g.barrier("monitored_barrier"), [], timeout)
