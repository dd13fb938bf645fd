"""States of models and optimisers by the names of the parameters, which do not depend on how many ranks there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ferro.autograd.grad_mode import no_grad
from ferro.nn.modules.module import Module
from ferro.ops.likes import zeros_like
from ferro.optim.optimizer import Optimizer
from ferro.tensor import Tensor

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]


@dataclass
class StateDictOptions:
    """How states are given.

    - `full_state_dict` (bool, default False): whole tensors in place of DTensors
    - `cpu_offload` (bool, default False): no effect: tensors are in the host's memory
    - `ignore_frozen_params` (bool, default False): leaves out parameters that are not learned
    - `keep_submodule_prefixes` (bool, default True): kept
    - `strict` (bool, default True): whether `set_model_state_dict` asks for all names
    - `broadcast_from_rank0` (bool, default False): NotImplementedError for True
    - `flatten_optimizer_state_dict` (bool, default False): NotImplementedError for True
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False

    def __post_init__(self) -> None:
        for name in ("broadcast_from_rank0", "flatten_optimizer_state_dict"):
            if getattr(self, name):
                raise NotImplementedError(f"StateDictOptions: {name}=True is not there")


def _name(name: str) -> str:
    """The name of a parameter without that of DistributedDataParallel around it."""
    return name.removeprefix("module.")


def _inner(model: Module) -> Module:
    return model.module if type(model).__name__ == "DistributedDataParallel" else model  # type: ignore[return-value]


def _whole(value: Any, options: StateDictOptions) -> Any:
    if isinstance(value, dict):
        return {k: _whole(v, options) for k, v in value.items()}
    return value.full_tensor() if options.full_state_dict and hasattr(value, "_spec") else value


def get_model_state_dict(
    model: Module, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The state of a model, under the names that it has without DistributedDataParallel.

    - `model` (Module): the model
    - `submodules` (default None): must be None
    - `options` (StateDictOptions, default None): with `full_state_dict` all ranks must ask
    """
    options, inner = options or StateDictOptions(), _inner(model)
    if submodules is not None:
        raise NotImplementedError("get_model_state_dict: submodules is not there: ask the module itself")
    state = inner.state_dict()
    left_out = (
        {n for n, p in inner.named_parameters() if not p.requires_grad} if options.ignore_frozen_params else set()
    )
    return {name: _whole(value, options) for name, value in state.items() if name not in left_out}


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Takes the state of a model, of parts or of whole tensors; gives what `load_state_dict` gives.

    - `model` (Module): the model
    - `model_state_dict` (dict): the state
    - `options` (StateDictOptions, default None): whether all names are needed
    """
    return _inner(model).load_state_dict(model_state_dict, strict=(options or StateDictOptions()).strict)


def begin_state(optimizer: Optimizer) -> None:
    """Makes the state of an optimiser that has not been stepped: of a step with gradients of zero and a rate of zero, counted as none."""
    if optimizer.state or any(p.grad is not None for g in optimizer.param_groups for p in g["params"]):
        return
    rates = [group.get("lr") for group in optimizer.param_groups]
    with no_grad():
        for group in optimizer.param_groups:
            if "lr" in group:
                group["lr"] = 0.0
            for p in group["params"]:
                if p.requires_grad:
                    p.grad = zeros_like(p)
    optimizer.step()
    optimizer.zero_grad()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        if rate is not None:
            group["lr"] = rate
    for state in optimizer.state.values():
        if isinstance(state.get("step"), Tensor):
            state["step"].zero_()


def _names(model: Module) -> dict[int, str]:
    return {id(p): name for name, p in _inner(model).named_parameters()}


def _listed(optimizers: Any) -> list[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The state of optimisers, their parameters by name. That of one which has not been stepped is made, so that it can be loaded into.

    - `model` (Module): has the parameters
    - `optimizers` (Optimizer or several): of its parameters
    - `submodules` (default None): must be None
    - `options` (StateDictOptions, default None): with `full_state_dict` all ranks must ask
    """
    options, names = options or StateDictOptions(), _names(model)
    if submodules is not None:
        raise NotImplementedError("get_optimizer_state_dict: submodules is not there")
    found: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in _listed(optimizers):
        begin_state(optimizer)
        state = optimizer.state_dict()
        numbered = [names[id(p)] for group in optimizer.param_groups for p in group["params"]]
        for number, value in state["state"].items():
            found["state"][numbered[number]] = _whole(value, options)
        for group in state["param_groups"]:
            found["param_groups"].append({**group, "params": [numbered[number] for number in group["params"]]})
    return found


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Takes the state of optimisers that `get_optimizer_state_dict` has given, of parts or of whole tensors.

    - `model` (Module): has the parameters
    - `optimizers` (Optimizer or several): of its parameters
    - `optim_state_dict` (dict): the state; KeyError for a parameter that it has not
    - `options` (StateDictOptions, default None): no effect
    """
    names, groups = _names(model), list(optim_state_dict["param_groups"])
    for optimizer in _listed(optimizers):
        own = [p for group in optimizer.param_groups for p in group["params"]]
        numbers = {names[id(p)]: i for i, p in enumerate(own)}
        state = {}
        for name, i in numbers.items():
            if name in optim_state_dict["state"]:
                state[i] = _part(optim_state_dict["state"][name], own[i])
        given = []
        for group in optimizer.param_groups:
            mine = [names[id(p)] for p in group["params"]]
            other = next((g for g in groups if set(mine) <= set(g["params"])), None)
            if other is None:
                raise KeyError(f"set_optimizer_state_dict: no group of the state has the parameters {mine}")
            given.append({**other, "params": [numbers[name] for name in mine]})
        optimizer.load_state_dict({"state": state, "param_groups": given})


def _part(value: Any, param: Any) -> Any:
    """The state of a parameter; of a whole tensor the part of this rank."""
    if isinstance(value, dict):
        return {k: _part(v, param) for k, v in value.items()}
    spec = getattr(param, "_spec", None)
    is_whole = isinstance(value, Tensor) and not hasattr(value, "_spec")
    if spec is None or not is_whole or tuple(value.shape) != spec.shape:
        return value
    from ..tensor.dtensor import of_spec  # (DTensors: their package is imported)

    return of_spec(spec.part_of(value.detach()._data).copy(), spec)


def get_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The states of a model and of its optimisers."""
    ours = get_model_state_dict(model, submodules=submodules, options=options)
    return ours, get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options)


def set_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Takes the states of a model and of its optimisers."""
    result = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return result
