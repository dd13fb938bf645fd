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

from ferro import absent

_SAVE = "`checkpoint.save` and `checkpoint.load`"
_MODEL = "the module itself, or `nn.parallel.DistributedDataParallel` of one process"
_SHARDED = "`fsdp.fully_shard` on each layer, then on the model"
_TENSOR = "a plain tensor: one process has all of it"
_ALONE = "one process has nobody to send to; `all_reduce`, `broadcast` and the like run with `world_size=1`"
_CALL = "call the function itself: there is one process"

# Modules of PyTorch: the substitute, and the names that they have.
TABLE: dict[str, tuple[str, str]] = {
    "": (
        _ALONE,
        """
        AllToAllOptions AllreduceCoalescedOptions AllreduceOptions BackendConfig BarrierOptions BroadcastOptions
        BuiltinCommHookType FileStore GatherOptions HashStore Logger PrefixStore ProcessGroupGloo
        ReduceOptions ReduceScatterOptions Reducer ScatterOptions Store TCPStore all_gather_coalesced all_reduce_coalesced
        register_rendezvous_handler rendezvous shrink_group split_group
        """,
    ),
    "algorithms._checkpoint": ("", ""),
    "algorithms._checkpoint.checkpoint_wrapper": (
        "`utils.checkpoint.checkpoint` in `forward`",
        """
        ActivationWrapper CheckpointImpl CheckpointWrapper OffloadWrapper apply_activation_checkpointing checkpoint_wrapper
        offload_wrapper
        """,
    ),
    "algorithms.model_averaging": ("", ""),
    "algorithms.model_averaging.averagers": (
        "the mean over one process is the model: leave it out",
        "ModelAverager PeriodicModelAverager",
    ),
    "checkpoint": (
        _SAVE,
        """
        LoadPlan LoadPlanner SavePlan SavePlanner StorageReader StorageWriter load_sharded_optimizer_state_dict load_state_dict
        save_state_dict
        """,
    ),
    "checkpoint.format_utils": (_SAVE, "dcp_to_torch_save torch_save_to_dcp"),
    "checkpoint.optimizer": (_SAVE, "load_sharded_optimizer_state_dict"),
    "fsdp": (
        _SHARDED,
        """
        BackwardPrefetch CPUOffload FullOptimStateDictConfig FullStateDictConfig FullyShardedDataParallel
        LocalOptimStateDictConfig LocalStateDictConfig MixedPrecision OptimStateDictConfig OptimStateKeyType
        ShardedOptimStateDictConfig ShardedStateDictConfig ShardingStrategy StateDictConfig StateDictSettings StateDictType
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
        "empty full ones rand randn zeros",
    ),
    "tensor.experimental": (_TENSOR, "context_parallel implicit_replication local_map register_sharding"),
    "tensor.parallel": (
        "`nn.functional.cross_entropy` of whole scores: `ColwiseParallel(output_layouts=Replicate())`",
        "loss_parallel",
    ),
}

HOME = "ferro.distributed"
PARTLY = (
    "",
    "checkpoint",
    "fsdp",
    "tensor",
    "tensor.parallel",
)  # modules with files, which ask `getattr_of` for the rest of their names


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


def getattr_of(module: str, path: str) -> Any:
    """The ``__getattr__`` of a module that has some of PyTorch's names, and modules below it, and of which the table has the rest."""

    def __getattr__(name: str) -> Any:
        found = stand_in(module, name)
        if found is None:
            return absent.missing(path, name)
        setattr(sys.modules[path], name, found)
        return found

    return __getattr__


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of the table, which have no files."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        inside = name.removeprefix(f"{HOME}.")
        return (
            ModuleSpec(name, self, is_package=True)
            if inside != name and inside in TABLE and inside not in PARTLY
            else None
        )

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
