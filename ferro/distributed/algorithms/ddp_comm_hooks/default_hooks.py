"""Hooks that add gradients as they are, or rounded to 16 bits, which takes half of the bytes.

Example::

    >>> import ferro
    >>> import ferro.distributed as dist
    >>> from ferro.distributed.algorithms.ddp_comm_hooks import default_hooks
    >>> from ferro.nn.parallel import DistributedDataParallel
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = DistributedDataParallel(ferro.nn.Linear(1, 1, bias=False))
    >>> model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    >>> model(ferro.tensor([[1.0009765625]])).sum().backward()
    >>> model.module.weight.grad
    tensor([[1.]])
    >>> dist.destroy_process_group()
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ferro.core import dtypes
from ferro.distributed import collectives
from ferro.distributed.grad_bucket import GradBucket
from ferro.distributed.group import resolved
from ferro.futures import Future

if TYPE_CHECKING:
    from ferro.tensor import Tensor

Hook = Callable[[Any, GradBucket], Future]

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """The mean, as without a hook: divides by the number of ranks, and adds.

    - `process_group` (default None): the group; None: the default one
    - `bucket` (GradBucket): the gradients
    """
    return _mean(process_group, bucket.buffer())


def _mean(group: Any, tensor: Tensor) -> Future[Tensor]:
    tensor.div_(resolved(group).size())
    work: Any = collectives.all_reduce(tensor, group=group, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def _compressed(group: Any, bucket: GradBucket, dtype: Any) -> Future[Tensor]:
    buffer = bucket.buffer()

    def widened(done: Future) -> Tensor:
        return buffer.copy_(done.value())

    return _mean(group, buffer.to(dtype)).then(widened)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """The mean of gradients rounded to float16: divided before they are added, so that sums do not overflow."""
    return _compressed(process_group, bucket, dtypes.float16)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """The mean of gradients rounded to bfloat16."""
    return _compressed(process_group, bucket, dtypes.bfloat16)


def _wrapped(hook: Hook, dtype: Any) -> Hook:
    def compressed(state: Any, bucket: GradBucket) -> Future:
        whole = bucket.buffer()
        bucket.set_buffer(whole.to(dtype))
        return hook(state, bucket).then(lambda done: whole.copy_(done.value()))

    return compressed


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """The hook, given gradients in float16; what it gives is widened."""
    return _wrapped(hook, dtypes.float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """The hook, given gradients in bfloat16; what it gives is widened."""
    return _wrapped(hook, dtypes.bfloat16)
