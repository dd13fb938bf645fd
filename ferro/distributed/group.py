"""Process groups: how they are made and ended, who takes part, and what they are asked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ferro.core.device import device
from ferro.cuda import communicators

from . import mpi
from .libraries import has_mpi, named
from .mpi import MPIGroup
from .nccl_group import NcclGroup
from .process_group import Backend, ProcessGroup

default_pg_timeout = timedelta(minutes=30)
# Where mpiexec says who a process is, by MPICH (and those made from it), Open MPI and Slurm: its rank and how many there are.
VARIABLES = (("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMIX_RANK", "SLURM_NTASKS"))
_NOT_INITIALISED = "Default process group has not been initialized, please make sure to call init_process_group."


class _World:
    """The default group, and those made of it."""

    def __init__(self) -> None:
        self.default: ProcessGroup | None = None
        self.groups: list[ProcessGroup] = []
        self.made = 0


_world = _World()


class _Members(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The default group; None before it is initialised."""
        return _world.default


class group(metaclass=_Members):
    """``group.WORLD`` is the default group."""


class GroupMember(metaclass=_Members):
    """``GroupMember.WORLD`` is the default group; NON_GROUP_MEMBER stands for groups that this process is not in."""

    NON_GROUP_MEMBER = -100


# -------------------------------------------------------------------- making and ending


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Makes the default group: of this process, or of those that mpiexec has started.

    - `backend` (str, default None): "mpi" or "gloo", which means MPI too where there are several processes, for tensors of the
      processor; "nccl" for those of GPUs, one for each process; "cpu:mpi,cuda:nccl" or None for both
    - `init_method` (str, default None): None and "env://" look into the environment; an address is not needed
    - `timeout` (timedelta, default None): how long a rank waits for an exchange before it raises; None: 30 minutes
    - `world_size`, `rank` (int, default -1): given, or in the environment: RANK and WORLD_SIZE, else what mpiexec says
    - `store` (default None): takes `rank` and `world_size` from the arguments
    - `group_name` (str, default ''): a name
    - `pg_options` (GroupOptions, default None): whether sums are made in the order of the ranks, whether objects may be pickled
    - `device_id` (default None): no effect

    RuntimeError for backends that need devices or libraries that are not here, ValueError for a second call, a rank that is missing
    and one that MPI counts otherwise.

    Example::

        >>> import ferro.distributed as dist
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> dist.get_world_size()
        1
        >>> dist.destroy_process_group()
    """
    if _world.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    _check_timeout(timeout)
    name = named(backend)
    rank, world_size = _place(init_method, store, rank, world_size)
    if world_size < 1 or not 0 <= rank < world_size:
        raise ValueError(
            f"init_process_group: rank {rank} is not among the ranks of {world_size} processes, which begin with 0"
        )
    if world_size == 1 and name != Backend.MPI and not ("nccl" in name and launched()):
        found = ProcessGroup(name, group_name or "0")
    else:
        is_ordered = getattr(pg_options, "deterministic", False)
        seconds = (timeout or default_pg_timeout).total_seconds()
        found = mpi.world(_kind(name), name, group_name or "0", rank, world_size, is_ordered, seconds)
    pickles = os.environ.get("FERRO_DISTRIBUTED_PICKLE", "0") not in ("", "0")
    found.allow_pickle = pickles or getattr(pg_options, "allow_pickle", False)
    _world.default = _joined(found)
    _world.groups, _world.made = [found], 1


def _check_timeout(timeout: Any) -> None:
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")


def _place(init_method: str | None, store: Any, rank: int, world_size: int) -> tuple[int, int]:
    """Rank and number of processes, from the arguments or the environment."""
    if store is not None:
        if init_method is not None:
            raise AssertionError("Cannot specify both init_method and store.")
        if world_size <= 0:
            raise AssertionError("world_size must be positive if using store")
        if rank < 0:
            raise AssertionError("rank must be non-negative if using store")
        return rank, world_size
    method = "env://" if init_method is None else init_method
    scheme = method.partition("://")[0]
    if scheme not in ("env", "tcp", "file"):
        raise RuntimeError(f"No rendezvous handler for {scheme}://; ferro knows env://, tcp:// and file://")
    if scheme == "env":
        return _in_environment(rank, "RANK", 0), _in_environment(world_size, "WORLD_SIZE", 1)
    if rank < 0 or world_size < 1:
        raise ValueError(
            f"Error initializing torch.distributed using {scheme}:// rendezvous: rank parameter missing, or "
            "world_size parameter missing"
        )
    return rank, world_size


def _in_environment(given: int, variable: str, place: int) -> int:
    """What was given, or else stands in the environment: there, or where mpiexec has put it."""
    if given != -1:
        return given
    if variable in os.environ:
        return int(os.environ[variable])
    found = launched()
    if found is None:
        raise ValueError(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable {variable} expected, but not set"
        )
    return int(found[place])


def launched() -> tuple[str, str] | None:
    """The rank and the number of processes that mpiexec has put into the environment; None if it did not start this one."""
    for rank, size in VARIABLES:
        if rank in os.environ and size in os.environ:
            return os.environ[rank], os.environ[size]
    return None


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Ends a group; the default group (None) with all others. AssertionError if there is none, ValueError if it has ended."""
    found = _world.default if group is None else group
    if found is None:
        raise AssertionError("Process group cannot be None: init_process_group() has not been called")
    if found is GroupMember.NON_GROUP_MEMBER:
        return
    if found not in _world.groups:
        raise ValueError("Invalid process group specified: it has been destroyed, or is no process group")
    ended = _world.groups if found is _world.default else [found]
    for one in reversed(ended):
        one.free()
    _world.groups = [one for one in _world.groups if one not in ended]
    if found is _world.default:
        _world.default = None


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """Another group of some of the default group's ranks; all ranks must ask for it. ValueError for other ranks, or one twice.

    A process that is not in it gets `GroupMember.NON_GROUP_MEMBER`. `timeout`: that of the default group if None.
    """
    _check_timeout(timeout)
    world = resolved(None)
    chosen = list(get_process_group_ranks(None) if ranks is None else ranks)
    if len(chosen) != len(set(chosen)):
        raise ValueError(f"ranks list must not contain duplicate entries, got {chosen}")
    if len(chosen) > world.size():
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by init_process_group"
        )
    for r in chosen:
        if not 0 <= r < world.size():
            raise ValueError(
                f"Rank {r} is out of range. Valid ranks are 0 to {world.size() - 1} (world_size={world.size()})"
            )
    if not chosen:
        raise ValueError("new_group: ranks is empty; a group needs a rank")
    name = world.name() if backend is None else named(backend)
    title = group_desc or str(_world.made)
    _world.made += 1
    if world.size() == 1:
        made: Any = ProcessGroup(name, title)
    else:
        seconds = None if timeout is None else timeout.total_seconds()
        made = world.subgroup(_kind(name), name, title, sorted(chosen) if sort_ranks else chosen, seconds)  # type: ignore[attr-defined]
    if made is None:
        return GroupMember.NON_GROUP_MEMBER
    made.allow_pickle = world.allow_pickle
    _world.groups.append(_joined(made))
    return made


def _kind(backend: str) -> type[MPIGroup]:
    """The class of the groups of a backend: where none is named, tensors of a GPU may come."""
    return NcclGroup if backend == Backend.UNDEFINED or "nccl" in backend else MPIGroup


def _joined(made: Any) -> Any:
    """The group, which has its communicators if NCCL was named."""
    if isinstance(made, NcclGroup) and "nccl" in made.name():
        made.join()
    return made


# -------------------------------------------------------------------- questions


def resolved(group: Any) -> ProcessGroup:
    """The group, or the default group for None; ValueError unless it is initialised."""
    if _world.default is None:
        raise ValueError(_NOT_INITIALISED)
    if group is None:
        return _world.default
    if group not in _world.groups:
        raise ValueError(f"Group {group} is not registered, please create group with torch.distributed.new_group API")
    return group


def get_pg_count() -> int:
    """The number of groups."""
    return len(_world.groups)


def is_available() -> bool:
    """Whether processes can exchange data: where mpiexec has started this one.

    The functions of this package are there all the same, for a group of one process. Libraries ask this before they import
    what is for several: with False they take the way of a PyTorch that was built without.
    """
    return launched() is not None


def is_initialized() -> bool:
    """Whether `init_process_group` has been called."""
    return _world.default is not None


def get_rank(group: Any = None) -> int:
    """The number of this process in a group; -1 if it is not in it."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return -1
    return resolved(group).rank()


def get_world_size(group: Any = None) -> int:
    """The number of processes in a group; -1 if this one is not in it."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return -1
    return resolved(group).size()


def get_backend(group: Any = None) -> Backend:
    """The backend's name, as it was given."""
    return resolved(group)._backend


def get_process_group_ranks(group: Any) -> list[int]:
    """The ranks of a group as the default group numbers them."""
    return list(resolved(group).ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank in the default group of a rank of a group; ValueError if it has none such."""
    ranks = resolved(group).ranks
    if group_rank not in range(len(ranks)):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank in a group of a rank of the default group; ValueError if the group has none such."""
    ranks = resolved(group).ranks
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process on its machine: LOCAL_RANK in the environment, else `fallback_rank` (RuntimeError without)."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError(
            "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work"
        )
    return int(fallback_rank)


def get_default_backend_for_device(device_type: Any) -> str:
    """The backend for tensors on a device: "gloo" for the CPU, "nccl" for GPUs; ValueError for others."""
    kind = device(device_type).type
    if kind == "cuda":
        return Backend.NCCL
    if kind != "cpu":
        raise ValueError(f"Default backend not registered for device : {kind}")
    return Backend.GLOO


def is_backend_available(backend: str) -> bool:
    """Whether there is a backend of that name."""
    asked = {Backend.GLOO: is_gloo_available, Backend.MPI: is_mpi_available, Backend.NCCL: is_nccl_available}
    return backend.lower() in asked and asked[backend.lower()]()


def is_gloo_available() -> bool:
    """Whether "gloo" can be named: yes; several processes exchange by MPI."""
    return True


def is_mpi_available() -> bool:
    """Whether groups can stand on MPI: where mpi4py is installed."""
    return has_mpi()


def is_nccl_available() -> bool:
    """Whether groups can stand on NCCL: where there are a GPU, CuPy and NCCL. This loads CuPy, if it is installed."""
    return communicators.missing() is None


def is_ucc_available() -> bool:
    """Whether groups can stand on UCC: no."""
    return False


def is_xccl_available() -> bool:
    """Whether groups can stand on XCCL: no."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether torchrun started this process, by its mark in the environment."""
    return "TORCHELASTIC_RUN_ID" in os.environ
