"""PyTorch's distributed interface: of one process, or of those that mpiexec has started, over MPI (mpi.py).

Where there is one process, a sum over ranks is its own tensor, and a gathered list has one entry.
``python -m ferro.distributed.run --nproc-per-node 4 train.py`` starts several on one machine.

Example::

    >>> import ferro
    >>> import ferro.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> x = ferro.tensor([1.0, 2.0])
    >>> dist.all_reduce(x)
    >>> x, dist.get_rank(), dist.get_world_size()
    (tensor([1., 2.]), 0, 1)
    >>> dist.destroy_process_group()
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from ferro import absent as _absent

from . import refused as _refused
from .collectives import (
    all_gather,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
)
from .device_mesh import DeviceMesh, init_device_mesh
from .errors import DistBackendError, DistError, DistNetworkError, DistStoreError, QueueEmptyError
from .grad_bucket import GradBucket
from .group import (
    GroupMember,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_backend_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
    new_group,
)
from .objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from .point_to_point import P2POp, batch_isend_irecv, irecv, isend, recv, send
from .premultiplied import _make_nccl_premul_sum
from .process_group import Backend, GroupOptions, ProcessGroup, ReduceOp
from .subgroups import new_subgroups, new_subgroups_by_enumeration
from .work import Work

__all__ = [
    "Backend", "DeviceMesh", "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "GradBucket", "GroupMember", "GroupOptions",
    "P2POp", "ProcessGroup", "QueueEmptyError", "ReduceOp", "Work", "all_gather", "all_gather_into_tensor", "all_gather_object",
    "all_gather_single", "all_reduce", "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast", "broadcast_object_list",
    "default_pg_timeout", "destroy_process_group", "gather", "gather_object", "get_backend", "get_default_backend_for_device",
    "get_global_rank", "get_group_rank", "get_node_local_rank", "get_pg_count", "get_process_group_ranks", "get_rank", "get_world_size",
    "group", "init_device_mesh", "init_process_group", "irecv", "is_available", "is_backend_available", "is_gloo_available", "is_initialized",
    "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "isend", "monitored_barrier",
    "new_group", "new_subgroups", "new_subgroups_by_enumeration", "recv", "recv_object_list", "reduce", "reduce_scatter",
    "reduce_scatter_single", "reduce_scatter_tensor", "scatter", "scatter_object_list", "send", "send_object_list",
]  # fmt: skip

_refused.find_modules()

# Modules that are imported when they are first asked for.
_LATER = ("algorithms", "checkpoint", "constants", "distributed_c10d", "elastic", "fsdp", "nn", "optim", "tensor")

if not _TYPE_CHECKING:

    def __getattr__(name: str) -> _Any:
        if name in _LATER or name in _refused.TABLE:
            return _absent.load(f"{__name__}.{name}")
        found = _refused.stand_in("", name)
        if found is None:
            return _absent.missing(__name__, name)
        globals()[name] = found
        return found


_absent.explain(__name__)
