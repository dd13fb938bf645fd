"""Optimizer: the base of all optimisers: groups of parameters, state, hooks, and how all that is saved."""

from __future__ import annotations

import copy
import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from ferro.autograd.grad_mode import enable_grad
from ferro.core.captures import CAPTURES, capturing
from ferro.core.strict import is_strict
from ferro.ops.as_functions import typename
from ferro.ops.creation import scalar_tensor
from ferro.tensor import Tensor

from ..utils.hooks import RemovableHandle
from .mistakes import after_step, before_step

Params = Iterable[Any]
# Numbers of the state that keep their dtype whatever that of the parameter is.
_COUNTS = ("step", "mu_product", "eta", "mu")

_HOOK_TABLES = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


# Hooks around the steps of every optimiser, outside of its own.
_global_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before each step of every optimiser; it may return arguments to use instead."""
    return _add_hook(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after each step of every optimiser."""
    return _add_hook(_global_post_hooks, hook)


class _Required:
    """The default of an option that every group has to give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Optimizer:
    """The base of all optimisers: parameters in groups with their options, and a state for each; a subclass defines
    `step`.

    - `params` (tensors, pairs of name and tensor, or dictionaries): what to change; a dictionary has the key 'params'
      and options that replace the defaults for its group
    - `defaults` (dict): the options

    TypeError for a tensor in place of a list, ValueError for no parameters, and for one that stands in two groups.

    Example::

        >>> import ferro
        >>> class Signs(ferro.optim.Optimizer):
        ...     def __init__(self, params, lr=0.5):
        ...         super().__init__(params, {"lr": lr})
        ...
        ...     def step(self, closure=None):
        ...         with ferro.no_grad():
        ...             for group in self.param_groups:
        ...                 for p in group["params"]:
        ...                     p -= group["lr"] * p.grad.sign()
        >>> w = ferro.tensor([1.0, -2.0], requires_grad=True)
        >>> (w**2).sum().backward()
        >>> Signs([w]).step()
        >>> w.detach()
        tensor([ 0.5000, -1.5000])
    """

    _optimizer_step_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_step_post_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    _closure_first = False  # whether a step evaluates its closure once, before all else
    _counts: tuple[str, ...] = _COUNTS  # numbers of the state of a parameter that are kept as tensors

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                f"{typename(params)}: pass a list of it"
            )
        self.defaults = defaults
        self._step_seen: Any = None  # a `step` of the object's own, when a scheduler began to look
        self._opt_called = False  # a scheduler looks at it: it must not be stepped before its optimiser
        for table in _HOOK_TABLES:
            setattr(self, table, OrderedDict())
        self.state: defaultdict[Tensor, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let every subclass's own `step`, also one that a user writes, run between its hooks."""
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _between_hooks(cls.__dict__["step"])

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the parameters once; `closure` evaluates the model again and returns the loss."""
        raise NotImplementedError(f"{type(self).__name__} does not define step()")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zeros."""
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none:
                    param.grad = None
                elif (grad := param.grad) is not None:
                    param.grad = grad.detach().zero_()

    # ---------------------------------------------------------------- groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters with options of its own, for instance layers that are learned from now on."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        group.update(_params_and_names(group["params"]))
        for param in group["params"]:
            self._check_parameter(param)
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            group.setdefault(name, default)
        if len({id(param) for param in group["params"]}) != len(group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=3,
            )
        present = {id(param) for other in self.param_groups for param in other["params"]}
        if any(id(param) in present for param in group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        if self.param_groups and ("param_names" in self.param_groups[0]) != ("param_names" in group):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{'with' if 'param_names' in group else 'without'} names to the optimizer"
            )
        self.param_groups.append(group)

    def _check_parameter(self, param: Any) -> None:
        if not isinstance(param, Tensor):
            raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(param).__name__}")
        if not (param.is_leaf or param.retains_grad or self.defaults.get("differentiable")):
            raise ValueError("can't optimize a non-leaf Tensor")

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            options = "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
            text += f"\nParameter Group {i}\n{options}"
        return text + ")"

    # ---------------------------------------------------------------- hooks

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return the arguments to use instead."""
        return _add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return _add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict`."""
        return _add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; it may return another dictionary."""
        return _add_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before loading; it may return another dictionary."""
        return _add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` after loading."""
        return _add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # ---------------------------------------------------------------- state

    def state_dict(self) -> dict[str, Any]:
        """State and groups, the parameters replaced by their numbers in the order of the groups."""
        for hook in list(self._optimizer_state_dict_pre_hooks.values()):
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            packed = {key: value for key, value in group.items() if key != "params"}
            for param in group["params"]:
                numbers.setdefault(id(param), len(numbers))
            packed["params"] = [numbers[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {numbers[id(k)] if isinstance(k, Tensor) else k: _in_parts(v, k) for k, v in self.state.items()}
        packed_state: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in list(self._optimizer_state_dict_post_hooks.values()):
            packed_state = _or_else(hook(self, packed_state), packed_state)
        return packed_state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take state and options from a dictionary made by an optimiser over as many parameters, in the same order."""
        state_dict = state_dict.copy()
        for hook in list(self._optimizer_load_state_dict_pre_hooks.values()):
            state_dict = _or_else(hook(self, state_dict), state_dict)
        saved_groups = copy.deepcopy(state_dict["param_groups"])
        if len(saved_groups) != len(self.param_groups):
            raise ValueError(
                "loaded state dict has a different number of parameter groups: "
                f"{len(saved_groups)}, the optimizer has {len(self.param_groups)}"
            )
        ours = [group["params"] for group in self.param_groups]
        theirs = [group["params"] for group in saved_groups]
        sizes = [[len(params) for params in groups] for groups in (ours, theirs)]
        if sizes[0] != sizes[1]:
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group: "
                f"the groups have {sizes[1]} parameters in the state dict and {sizes[0]} here"
            )
        owner = dict(zip(chain.from_iterable(theirs), chain.from_iterable(ours), strict=True))
        self.state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            param = owner.get(key)
            self.state[key if param is None else param] = _suited(value, param)
        for group, saved in zip(self.param_groups, saved_groups, strict=True):
            saved["params"] = group["params"]
            if "param_names" in group and "param_names" not in saved:
                saved["param_names"] = group["param_names"]
        self.param_groups = saved_groups
        self._complete()
        for hook in list(self._optimizer_load_state_dict_post_hooks.values()):
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def _complete(self) -> None:
        """Give what an older version saved the form of today: options that have come since, counts as tensors."""
        for group in self.param_groups:
            for name, default in self.defaults.items():
                group.setdefault(name, False if isinstance(default, bool) else default)
        for state in self.state.values():
            for name in self._counts:
                if isinstance(state, dict) and isinstance(state.get(name), (int, float)):
                    state[name] = scalar_tensor(state[name], device="cpu")
        for group in self.param_groups:
            for param in group["params"] if group.get("capturable") else ():
                state = self.state.get(param, {})
                state.update({name: state[name].to(param.device) for name in self._counts if name in state})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._complete()
        self._patch_step_function()

    def _patch_step_function(self) -> None:
        """Make the tables of hooks that there are not: a wrapper of another optimiser calls it in place of `__init__`."""
        for table in _HOOK_TABLES:
            self.__dict__.setdefault(table, OrderedDict())


def _between_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    def run(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if (
            "_optimizer_step_pre_hooks" not in self.__dict__
        ):  # a wrapper of another optimiser that never called __init__
            return step(self, *args, **kwargs)
        for hook in [*_global_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()]:
            replaced = hook(self, args, kwargs)
            if replaced is None:
                continue
            if not (isinstance(replaced, tuple) and len(replaced) == 2):
                raise RuntimeError(
                    f"step pre-hook must return None or a tuple of (new_args, new_kwargs), got {replaced}"
                )
            args, kwargs = replaced
        self._opt_called = True
        strict = is_strict() and not (args or kwargs)
        if strict:
            before_step(self)
        result = _stepped(self, step, args, kwargs)
        if strict:
            after_step(self)
        for hook in [*self._optimizer_step_post_hooks.values(), *_global_post_hooks.values()]:
            hook(self, args, kwargs)
        return result

    return run


def _stepped(self: Optimizer, step: Callable, args: tuple, kwargs: dict) -> Any:
    """Runs a step; in a graph that is captured it is one node, unless it is to be differentiated, or evaluates a closure."""
    capture = capturing() if CAPTURES else None
    if capture is None:
        return step(self, *args, **kwargs)
    closure = args[0] if args else kwargs.get("closure")
    if closure is not None and not self._closure_first:
        capture.refuse(f"{type(self).__name__} evaluates a closure as often as it likes")
        return step(self, *args, **kwargs)
    loss = run_closure(closure)
    capture.steps(self, functools.partial(step, self))
    return loss


def _add_hook(table: Any, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(table)
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def _or_else(replaced: Any, current: Any) -> Any:
    return current if replaced is None else replaced


def _params_and_names(params: Any) -> dict[str, Any]:
    """The parameters of a group as a list, and their names if they come as (name, parameter) pairs."""
    if isinstance(params, Tensor):
        return {"params": [params]}
    if isinstance(params, (set, frozenset)):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the order of tensors in sets "
            "changes between runs. Please use a list instead."
        )
    listed = list(params)
    named = [isinstance(param, tuple) and len(param) == 2 for param in listed]
    if not any(named):
        return {"params": listed}
    if not all(named):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    return {"params": [param for _, param in listed], "param_names": [name for name, _ in listed]}


def _in_parts(value: Any, param: Any) -> Any:
    """The state of a parameter: that of a DTensor is in the same parts."""
    if not hasattr(param, "_spec"):
        return value
    from ferro.distributed.tensor.dtensor import like  # (its package is imported)

    return like(value, param)


def _suited(value: Any, param: Tensor | None, key: str | None = None) -> Any:
    """A copy of saved state, its tensors in the dtype of a floating parameter; counts keep their own."""
    if isinstance(value, Tensor):
        if param is None or key in _COUNTS or not param.is_floating_point():
            # (counts lie where they are; `_complete` brings those of groups that are capturable)
            return value.clone() if param is None or key in _COUNTS else value.to(param.device, copy=True)
        return value.to(param.device, param.dtype, copy=True)
    if isinstance(value, Mapping):
        return {k: _suited(v, param, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_suited(v, param) for v in value)
    return copy.deepcopy(value)


def run_closure(closure: Callable[[], Any] | None) -> Any:
    """The loss that a closure computes, with gradients recorded; None without one."""
    if closure is None:
        return None
    with enable_grad():
        return closure()
