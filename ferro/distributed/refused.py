"""What needs several processes: programs import it, whether they use it or not, and it raises when it is used.

Note [Names that are refused].  A program for one process and for many imports `FullyShardedDataParallel` at its beginning and
uses it when it is told to.  So PyTorch's modules of the table below can be imported.  Their classes and functions raise a
NotImplementedError when they are called, with the substitute; nothing is an instance of the classes.
"""

from __future__ import annotations

import importlib.abc
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

_SAVE = "`save(model.state_dict(), file)` and `load`"
_MODEL = "the module itself, or `nn.parallel.DistributedDataParallel` of one process"
_TENSOR = "a plain tensor: one process has all of it"
_ALONE = "one process has nobody to send to; `all_reduce`, `broadcast` and the like run with `world_size=1`"
_CALL = "call the function itself: there is one process"

# Modules of PyTorch: the substitute, and the names that they have.
TABLE: dict[str, tuple[str, str]] = {
    "": (
        _ALONE,
        """
        AllToAllOptions AllreduceCoalescedOptions AllreduceOptions BackendConfig BarrierOptions BroadcastOptions
        BuiltinCommHookType DeviceMesh FileStore GatherOptions GradBucket HashStore Logger P2POp PrefixStore ProcessGroupGloo
        ReduceOptions ReduceScatterOptions Reducer ScatterOptions Store TCPStore all_gather_coalesced all_reduce_coalesced
        batch_isend_irecv init_device_mesh new_subgroups new_subgroups_by_enumeration recv_object_list
        register_rendezvous_handler rendezvous send_object_list shrink_group split_group
        """,
    ),
    "_tensor": (_TENSOR, "DTensor Partial Placement Replicate Shard distribute_module distribute_tensor"),
    "algorithms": (_CALL, "Join JoinHook Joinable"),
    "algorithms._checkpoint": ("", ""),
    "algorithms._checkpoint.checkpoint_wrapper": (
        "`utils.checkpoint.checkpoint` in `forward`",
        """
        ActivationWrapper CheckpointImpl CheckpointWrapper OffloadWrapper apply_activation_checkpointing checkpoint_wrapper
        offload_wrapper
        """,
    ),
    "algorithms.ddp_comm_hooks": ("", ""),
    "algorithms.ddp_comm_hooks.default_hooks": (
        "gradients of one process travel nowhere: no hook is needed",
        """
        allreduce_hook bf16_compress_hook bf16_compress_wrapper fp16_compress_hook fp16_compress_wrapper
        """,
    ),
    "algorithms.ddp_comm_hooks.powerSGD_hook": (
        "gradients of one process travel nowhere: no hook is needed",
        "PowerSGDState batched_powerSGD_hook powerSGD_hook",
    ),
    "algorithms.join": (_CALL, "Join JoinHook Joinable"),
    "algorithms.model_averaging": ("", ""),
    "algorithms.model_averaging.averagers": (
        "the mean over one process is the model: leave it out",
        "ModelAverager PeriodicModelAverager",
    ),
    "checkpoint": (
        _SAVE,
        """
        CheckpointException DefaultLoadPlanner DefaultSavePlanner FileSystemReader FileSystemWriter LoadPlan LoadPlanner Metadata
        SavePlan SavePlanner StorageReader StorageWriter async_save load load_sharded_optimizer_state_dict load_state_dict save
        save_state_dict
        """,
    ),
    "checkpoint.default_planner": (_SAVE, "DefaultLoadPlanner DefaultSavePlanner"),
    "checkpoint.format_utils": (_SAVE, "dcp_to_torch_save torch_save_to_dcp"),
    "checkpoint.metadata": (_SAVE, "Metadata TensorStorageMetadata"),
    "checkpoint.optimizer": (_SAVE, "load_sharded_optimizer_state_dict"),
    "checkpoint.state_dict": (
        "`model.state_dict()` and `optimizer.state_dict()`",
        """
        StateDictOptions get_model_state_dict get_optimizer_state_dict get_state_dict set_model_state_dict
        set_optimizer_state_dict set_state_dict
        """,
    ),
    "checkpoint.stateful": (_SAVE, "Stateful"),
    "device_mesh": (_ALONE, "DeviceMesh init_device_mesh"),
    "fsdp": (
        _MODEL,
        """
        BackwardPrefetch CPUOffload CPUOffloadPolicy FSDPModule FullOptimStateDictConfig FullStateDictConfig
        FullyShardedDataParallel LocalOptimStateDictConfig LocalStateDictConfig MixedPrecision MixedPrecisionPolicy
        OffloadPolicy OptimStateDictConfig OptimStateKeyType ShardedOptimStateDictConfig ShardedStateDictConfig
        ShardingStrategy StateDictConfig StateDictSettings StateDictType UnshardHandle fully_shard
        register_fsdp_forward_method
        """,
    ),
    "fsdp.api": (
        _MODEL,
        """
        BackwardPrefetch CPUOffload FullOptimStateDictConfig FullStateDictConfig LocalOptimStateDictConfig LocalStateDictConfig
        MixedPrecision OptimStateDictConfig ShardedOptimStateDictConfig ShardedStateDictConfig ShardingStrategy
        StateDictConfig StateDictSettings StateDictType
        """,
    ),
    "fsdp.fully_sharded_data_parallel": (
        _MODEL,
        """
        BackwardPrefetch CPUOffload FullOptimStateDictConfig FullStateDictConfig FullyShardedDataParallel
        LocalStateDictConfig MixedPrecision OptimStateKeyType ShardedStateDictConfig ShardingStrategy StateDictType
        """,
    ),
    "fsdp.sharded_grad_scaler": ("`amp.GradScaler`", "ShardedGradScaler"),
    "fsdp.wrap": (
        _MODEL,
        """
        CustomPolicy ModuleWrapPolicy always_wrap_policy enable_wrap lambda_auto_wrap_policy size_based_auto_wrap_policy
        transformer_auto_wrap_policy wrap
        """,
    ),
    "launcher": (_CALL, "elastic_launch"),
    "launcher.api": (_CALL, "LaunchConfig elastic_launch"),
    "pipelining": (
        _MODEL,
        """
        Pipe PipelineStage Schedule1F1B ScheduleGPipe ScheduleInterleaved1F1B ScheduleLoopedBFS SplitPoint build_stage
        pipe_split pipeline
        """,
    ),
    "rpc": (
        _CALL,
        """
        BackendType RRef TensorPipeRpcBackendOptions get_worker_info init_rpc remote rpc_async rpc_sync shutdown
        """,
    ),
    "tensor": (
        _TENSOR,
        """
        DTensor Partial Placement Replicate Shard distribute_module distribute_tensor empty full ones rand randn zeros
        """,
    ),
    "tensor.experimental": (_TENSOR, "context_parallel implicit_replication local_map register_sharding"),
    "tensor.parallel": (
        _MODEL,
        """
        ColwiseParallel ParallelStyle PrepareModuleInput PrepareModuleInputOutput PrepareModuleOutput RowwiseParallel
        SequenceParallel loss_parallel parallelize_module
        """,
    ),
    "tensor.placement_types": (_TENSOR, "Partial Placement Replicate Shard"),
}

HOME = "ferro.distributed"


def _refuse(name: str, instead: str) -> NoReturn:
    raise NotImplementedError(
        f"torch.distributed.{name} is not in ferro, whose process groups have one process. Instead: {instead}"
    )


class Refused(type):
    """The class of the classes that are refused: they cannot be called, and have nothing but a name."""

    instead: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        _refuse(cls.__qualname__, cls.instead)

    def __getattr__(cls, name: str) -> Any:
        more = (
            "" if name.startswith("__") else f": it is not in ferro. Instead: {type.__getattribute__(cls, 'instead')}"
        )
        raise AttributeError(f"torch.distributed.{cls.__qualname__} has no attribute {name!r}{more}")


def _stand_in(module: str, name: str) -> Any:
    """The class, or the function, of that name."""
    place = f"{module}.{name}".removeprefix(".")
    instead = TABLE[module][0]
    if name[0].isupper():
        return Refused(
            name,
            (),
            {
                "__qualname__": place,
                "__module__": HOME,
                "instead": instead,
                "__doc__": f"NotImplementedError when it is called. Instead: {instead}",
            },
        )

    def refused(*args: Any, **kwargs: Any) -> Any:
        _refuse(place, instead)

    refused.__name__, refused.__qualname__, refused.__module__ = name, place, HOME
    refused.__doc__ = f"NotImplementedError. Instead: {instead}"
    refused.instead = instead  # type: ignore[attr-defined]
    return refused


def is_refused(value: Any) -> bool:
    """Whether a class or a function is one of those of this file."""
    return isinstance(value, Refused) or (getattr(value, "__module__", None) == HOME and hasattr(value, "instead"))


def stand_in(module: str, name: str) -> Any:
    """What a module of the table has under a name, made when it is asked for; None if it has no such name."""
    return _stand_in(module, name) if name in TABLE[module][1].split() else None


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of the table, which have no files."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        inside = name.removeprefix(f"{HOME}.")
        return ModuleSpec(name, self, is_package=True) if inside != name and inside in TABLE else None

    def exec_module(self, module: ModuleType) -> None:
        inside = module.__name__.removeprefix(f"{HOME}.")
        instead, names = TABLE[inside]
        module.__doc__ = f"Names that raise when they are used. Instead: {instead}"
        module.__dict__["__all__"] = names.split()
        module.__dict__.update({name: _stand_in(inside, name) for name in names.split()})


def find_modules() -> None:
    """From now on the modules of the table can be imported."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
