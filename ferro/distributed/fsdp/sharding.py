"""fully_shard: a module whose parameters lie in parts on the ranks, and are whole only while they are used."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from ferro.autograd.grad_mode import no_grad
from ferro.nn.modules.container import ModuleDict, ModuleList
from ferro.nn.modules.module import Module
from ferro.nn.parameter import is_lazy

from ..device_mesh import DeviceMesh
from .parameters import Shards
from .policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from .saved import kept_by
from .state import State


class UnshardHandle:
    """What `unshard(async_op=True)` gives."""

    def __init__(self, shards: Shards | None) -> None:
        self._shards = shards

    def wait(self) -> None:
        """The parameters are whole when it returns."""
        if self._shards is not None:
            self._shards.unshard()


class FSDPModule:
    """What `fully_shard` adds to the class of a module."""

    _fsdp_state: State

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """A module of the class itself: parts of a container that is sharded are made by its class."""
        original: Any = cls.__mro__[2]
        made = original.__new__(original)
        made.__init__(*args, **kwargs)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        raise NotImplementedError("a module that is sharded is not copied: copy it before fully_shard")

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        with kept_by(self._fsdp_state.shards):
            return super()._call_impl(*args, **kwargs)  # type: ignore[misc]

    def _states(self, recurse: bool) -> list[State]:
        modules: Iterable[Any] = self.modules() if recurse else [self]  # type: ignore[attr-defined]
        return [m._fsdp_state for m in modules if isinstance(m, FSDPModule)]

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gathers the parameters of this module, not those of sharded modules in it; with `async_op` a handle to wait for them."""
        self._fsdp_state.begin()
        handle = UnshardHandle(self._fsdp_state.shards)
        if async_op:
            return handle
        handle.wait()
        return None

    def reshard(self) -> None:
        """Frees the whole parameters of this module."""
        if self._fsdp_state.shards is not None:
            self._fsdp_state.shards.reshard()

    def _set(self, name: str, value: Any, recurse: bool) -> None:
        for state in self._states(recurse):
            if state.shards is not None:
                setattr(state.shards, name, value)

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Whether backward reduces gradients; without it they add up in each rank until the next backward that does."""
        self._set("syncs", requires_gradient_sync, recurse)

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Whether parameters are freed behind backward; what is not has to be, by `reshard`, before they are stepped."""
        self._set("reshards_after_backward", reshard_after_backward, recurse)

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether parameters are freed between forward and backward."""
        for state in self._states(recurse):
            state.reshards_after_forward = reshard_after_forward

    def set_gradient_divide_factor(self, factor: float) -> None:
        """By which the sums of gradients are divided, in place of the number of ranks."""
        self._set("factor", float(factor), False)

    def set_modules_to_forward_prefetch(self, modules: list[Any]) -> None:
        """The sharded modules whose parameters begin to travel when the forward of this one begins, in place of the next one's."""
        self._fsdp_state.prefetches_forward = [m._fsdp_state for m in modules]

    def set_modules_to_backward_prefetch(self, modules: list[Any]) -> None:
        """The same for backward."""
        self._fsdp_state.prefetches_backward = [m._fsdp_state for m in modules]


def fully_shard(
    module: Any,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Any], Any] | None = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Any] | None = None,
    dp_mesh_dims: Any = None,
) -> Any:
    """Divides the parameters of a module, except those of modules in it that are sharded already, over the ranks; returns it, changed.

    - `module` (Module): its class becomes one of `FSDPModule`, too. Shard its layers first, then itself: what is sharded by
      one call is whole at one time
    - `mesh` (DeviceMesh, default None): the ranks, in one dimension; of two dimensions, the last one divides and the first one has copies.
      None is all ranks
    - `reshard_after_forward` (bool, default None): whether parameters are freed between forward and backward; None is True but for
      the outermost module
    - `shard_placement_fn` (function, default None): must give None or Shard(0) for each parameter
    - `mp_policy` (MixedPrecisionPolicy, default None): the dtypes; None are those of the parameters
    - `offload_policy` (OffloadPolicy, default None): CPUOffloadPolicy() keeps the parts of a GPU's parameters in the processor's memory
    - `ignored_params` (set of parameters, default None): stay as they are
    - `dp_mesh_dims` (default None): must be None

    Parameters become DTensors of which each rank has some rows, which optimisers step. They are gathered before forward, the next
    module's at the same time, freed behind it, gathered again for backward, and their gradients are means over the ranks, summed in their order, when
    it ends. All ranks must call the same sharded modules. Each rank keeps its part of the values that it has itself.

    AssertionError if the module is sharded already, ValueError for containers without a forward, and for parameters without dimensions or shape;
    NotImplementedError for other placements.

    Example::

        >>> import ferro
        >>> from ferro.distributed.fsdp import fully_shard
        >>> ferro.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = ferro.nn.Sequential(ferro.nn.Linear(2, 3), ferro.nn.Linear(3, 1))
        >>> for layer in model:
        ...     _ = fully_shard(layer)
        >>> model = fully_shard(model)
        >>> model(ferro.ones(1, 2)).sum().backward()
        >>> model[0].weight.placements, model[0].weight.grad.shape
        ((Shard(dim=0),), ferro.Size([3, 2]))
        >>> ferro.distributed.destroy_process_group()
    """
    _check(module, dp_mesh_dims)
    given = _own_parameters(module, ignored_params or set())
    mesh = DeviceMesh("cuda" if any(p.is_cuda for p, _ in given) else "cpu") if mesh is None else mesh
    if mesh.ndim > 2:
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    policy = mp_policy or MixedPrecisionPolicy()
    for p, places in given:
        _check_parameter(p, places[0][1], shard_placement_fn)
    _move(module, [p for p, _ in given], mesh.device_type)
    shards = Shards(given, mesh, policy, isinstance(offload_policy, CPUOffloadPolicy)) if given else None
    state = State(module, shards, None if reshard_after_forward is None else bool(reshard_after_forward), policy)
    module._fsdp_state = state
    for other in module.modules():  # (a new root may lie around old ones)
        if "_fsdp_state" in other.__dict__:
            other._fsdp_state.context = None
    kind = type(module)
    module.__class__ = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {"__doc__": kind.__doc__})
    module.register_forward_pre_hook(
        lambda _, args, kwargs: state.before_forward(args, kwargs), prepend=True, with_kwargs=True
    )
    module.register_forward_hook(lambda _, args, outputs: state.after_forward(outputs))
    module.register_state_dict_pre_hook(lambda *_: module.reshard())
    module.register_load_state_dict_pre_hook(lambda *_: module.reshard())
    return module


def _check(module: Any, dp_mesh_dims: Any) -> None:
    if isinstance(module, FSDPModule):
        raise AssertionError(
            "Each distinct composable distributed API can only be applied to a module once. fully_shard has already been "
            f"applied to the following module:\n{module}"
        )
    if not isinstance(module, Module) or type(module) in (ModuleList, ModuleDict):
        raise ValueError(f"fully_shard does not support containers that do not implement forward: {module}")
    if dp_mesh_dims is not None:
        raise NotImplementedError("fully_shard: dp_mesh_dims is not there: give the part of the mesh as `mesh`")


def _move(module: Any, parameters: list[Any], kind: str) -> None:
    """Brings parameters, and buffers of the modules that have them, to the device of the mesh, as in PyTorch."""
    with no_grad():
        inside = {id(m) for inner in module.modules() if isinstance(inner, FSDPModule) for m in inner.modules()}  # type: ignore[attr-defined]
        buffers = [b for m in module.modules() if id(m) not in inside for b in m._buffers.values() if b is not None]
        for tensor in (*parameters, *buffers):
            if tensor.device.type != kind:
                tensor.data = tensor.detach().to(kind)


def _check_parameter(parameter: Any, name: str, placement: Callable[[Any], Any] | None) -> None:
    if is_lazy(parameter):
        raise ValueError(f"fully_shard: parameter {name} has no shape yet: call the module once before")
    if not parameter.dim():
        raise ValueError(
            f"fully_shard doesn't support scalar parameters. Change {name} to a 1D tensor with numel equal to 1."
        )
    wanted = None if placement is None else placement(parameter)
    if wanted is not None and getattr(wanted, "dim", None) != 0:
        raise NotImplementedError(f"fully_shard: parameters are divided by rows, Shard(0); got {wanted} for {name}")


def _own_parameters(module: Any, ignored: set[Any]) -> list[tuple[Any, list[tuple[Any, str]]]]:
    """The parameters that a module is to shard, each with the places where modules have it."""
    skipped = {id(m) for inner in module.modules() if isinstance(inner, FSDPModule) for m in inner.modules()}  # type: ignore[attr-defined]
    left_out = {id(p) for p in ignored}
    found: dict[int, tuple[Any, list[tuple[Any, str]]]] = {}
    for inner in module.modules():
        if id(inner) in skipped:
            continue
        for name, p in inner._parameters.items():
            if p is not None and id(p) not in left_out:
                found.setdefault(id(p), (p, []))[1].append((inner, name))
    return list(found.values())


def register_fsdp_forward_method(module: Any, method_name: str) -> None:
    """Lets a method of a sharded module other than forward find the parameters whole; a module that is not sharded stays as it is."""
    if not isinstance(module, FSDPModule):
        return
    method, state = getattr(module, method_name), module._fsdp_state

    @functools.wraps(method)
    def called(*args: Any, **kwargs: Any) -> Any:
        with kept_by(state.shards):
            args, kwargs = state.before_forward(args, kwargs)
            return state.after_forward(method(*args, **kwargs))

    setattr(module, method_name, called)
