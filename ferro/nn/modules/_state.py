"""State of a module: how a tree of modules is turned into a flat dictionary of tensors and read back."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import ferro.__future__ as settings
from ferro.autograd.grad_mode import no_grad
from ferro.nn.modules._calling import add_hook
from ferro.tensor import Tensor

from ...utils.hooks import RemovableHandle
from ...utils.swapping import swap_tensors
from ..parameter import Parameter, is_lazy
from ._members import Members

_EXTRA_STATE = "_extra_state"


class _IncompatibleKeys(NamedTuple):
    """What `load_state_dict` reports: keys of the model that were not given, and given ones that it does not have."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"

    __str__ = __repr__


class PublicHook:
    """A public state_dict post hook: it edits in place, so returning something is a mistake worth telling."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.hook = hook
        with suppress(AttributeError):  # (methods have no attributes)
            hook._from_public_api = True  # type: ignore[attr-defined]

    def __call__(self, *args: Any) -> None:
        if self.hook(*args) is not None:
            raise RuntimeError("state_dict post-hook must return None")


class WithModule(NamedTuple):
    """Marks a load_state_dict pre hook that is given its module. (Holding the module here would make a cycle.)"""

    hook: Callable[..., Any]


class State(Members):
    """The methods of a module that write and read its state."""

    _version: int = 1
    _state_dict_hooks: OrderedDict[int, Callable[..., Any]]
    _state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    def get_extra_state(self) -> Any:
        """Something beyond tensors to keep in `state_dict`; define it together with `set_extra_state`."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. Define get_extra_state() and "
            f"set_extra_state() in {type(self).__name__} to save extra state."
        )

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` gave."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. Define get_extra_state() and "
            f"set_extra_state() in {type(self).__name__} to load extra state."
        )

    def state_dict(
        self, *args: Any, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """All parameters and persistent buffers by dotted path; detached (but shared) unless `keep_vars`."""
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            names = ("destination", "prefix", "keep_vars")
            given = dict(zip(names, args, strict=False))
            destination = given.get("destination") if destination is None else destination
            prefix = given.get("prefix", "") if prefix == "" else prefix
            keep_vars = given.get("keep_vars", False) if keep_vars is False else keep_vars
        return _collect(self, destination, prefix, keep_vars)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Add this module's own state, without its children's, to `destination`; classes may extend it."""
        _save_own(self, destination, prefix, keep_vars)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy the state in (or, with `assign`, adopt the given tensors) and tell which keys did not match.

        With `strict` a missing or unexpected key is an error; a size that does not match always is. The error comes
        after all that fits has been copied, and lists every problem.
        """
        return _load(self, state_dict, strict, assign)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take this module's own state out of `state_dict`; classes extend it to read older layouts."""
        _load_own(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict` collects this module."""
        return add_hook(self._state_dict_pre_hooks, RemovableHandle(self._state_dict_pre_hooks), hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after `state_dict`; it may edit it in place."""
        return add_hook(self._state_dict_hooks, RemovableHandle(self._state_dict_hooks), PublicHook(hook))

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """As the public post hook, but what it returns, unless None, replaces the collected dictionary.

        RuntimeError for a function that is a public post hook already: what it may return is not the same.
        """
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return add_hook(self._state_dict_hooks, RemovableHandle(self._state_dict_hooks), hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call the hook with the module and the arguments of `_load_from_state_dict` before this module is loaded."""
        handle = RemovableHandle(self._load_state_dict_pre_hooks)
        return add_hook(self._load_state_dict_pre_hooks, handle, WithModule(hook))

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """As the public pre hook; without `with_module` the hook is not given the module."""
        handle = RemovableHandle(self._load_state_dict_pre_hooks)
        marked = WithModule(hook) if with_module else hook
        return add_hook(self._load_state_dict_pre_hooks, handle, marked)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after loading; it may edit the two lists of keys in place."""
        return add_hook(self._load_state_dict_post_hooks, RemovableHandle(self._load_state_dict_post_hooks), hook)


# -------------------------------------------------------------------- saving


def _collect(module: State, destination: dict[str, Any] | None, prefix: str, keep_vars: bool) -> dict[str, Any]:
    """The state of `module` and all below it, in the order of registration."""
    state: Any = destination
    if state is None:
        state = OrderedDict()
        state._metadata = OrderedDict()  # versions by path, as PyTorch keeps them
    local_metadata = {"version": module._version}
    if hasattr(state, "_metadata"):
        state._metadata[prefix[:-1]] = local_metadata
    for hook in list(module._state_dict_pre_hooks.values()):
        hook(module, prefix, keep_vars)
    module._save_to_state_dict(state, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(destination=state, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for hook in list(module._state_dict_hooks.values()):
        replaced = hook(module, state, prefix, local_metadata)
        if replaced is not None:
            state = replaced
    return state


def _save_own(module: State, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
    """The parameters, persistent buffers and extra state of one module."""
    for name, value in _own_tensors(module).items():
        if value is not None:
            destination[prefix + name] = value if keep_vars or is_lazy(value) else value.detach()
    if _defines(module, "get_extra_state"):
        destination[prefix + _EXTRA_STATE] = module.get_extra_state()


def _own_tensors(module: State) -> dict[str, Any]:
    buffers = {k: v for k, v in module._buffers.items() if k not in module._non_persistent_buffers_set}
    return {**module._parameters, **buffers}


def _defines(module: State, method: str) -> bool:
    return getattr(type(module), method) is not getattr(State, method)


# -------------------------------------------------------------------- loading


def _load(module: State, state_dict: Mapping[str, Any], strict: bool, assign: bool) -> _IncompatibleKeys:
    """Read a whole tree from `state_dict`, then report or raise."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    metadata = getattr(state_dict, "_metadata", None)
    state: Any = OrderedDict(state_dict)
    if metadata is not None:
        state._metadata = metadata
    missing: list[str] = []
    unexpected: list[str] = []
    errors: list[str] = []
    # Keys that do not match are collected in any case; `strict` decides below whether they are an error.
    _load_tree(module, state, "", metadata, assign, (True, missing, unexpected, errors))
    report = _IncompatibleKeys(missing, unexpected)
    for owner in _post_order(module):
        for hook in list(owner._load_state_dict_post_hooks.values()):
            if hook(owner, report) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values, "
                    "if incompatible_keys need to be modified, it should be done inplace."
                )
    if strict:
        if unexpected:
            errors.insert(0, "Unexpected key(s) in state_dict: " + ", ".join(f'"{key}"' for key in unexpected) + ". ")
        if missing:
            errors.insert(0, "Missing key(s) in state_dict: " + ", ".join(f'"{key}"' for key in missing) + ". ")
    if errors:
        raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t" + "\n\t".join(errors))
    return report


def _load_tree(module: State, state: dict[str, Any], prefix: str, metadata: Any, assign: bool, report: Any) -> None:
    local_metadata = {} if metadata is None else dict(metadata.get(prefix[:-1], {}))
    if assign:
        local_metadata["assign_to_params_buffers"] = True
    module._load_from_state_dict(state, prefix, local_metadata, *report)
    for name, child in module._modules.items():
        if child is not None:
            child_prefix = f"{prefix}{name}."
            # Only its own part goes to a child: otherwise each module would scan the keys of the whole tree.
            child_state = OrderedDict((k, v) for k, v in state.items() if k.startswith(child_prefix))
            _load_tree(child, child_state, child_prefix, metadata, assign, report)


def _post_order(module: State) -> Iterator[State]:
    for child in module._modules.values():
        if child is not None:
            yield from _post_order(child)
    yield module


def _load_own(
    module: State,
    state_dict: dict[str, Any],
    prefix: str,
    local_metadata: dict[str, Any],
    strict: bool,
    missing_keys: list[str],
    unexpected_keys: list[str],
    error_msgs: list[str],
) -> None:
    """Copy one module's own tensors in, noting what is missing, unexpected or does not fit."""
    report = (strict, missing_keys, unexpected_keys, error_msgs)
    for hook in list(module._load_state_dict_pre_hooks.values()):
        if isinstance(hook, WithModule):
            hook.hook(module, state_dict, prefix, local_metadata, *report)
        else:
            hook(state_dict, prefix, local_metadata, *report)
    assign = local_metadata.get("assign_to_params_buffers", False)
    own = _own_tensors(module)
    for name, current in own.items():
        if current is None:
            continue
        key = prefix + name
        if key in state_dict:
            problem = _load_one(module, name, current, key, state_dict[key], assign)
            if problem:
                error_msgs.append(problem)
        elif strict:
            missing_keys.append(key)
    extra_key = prefix + _EXTRA_STATE
    if _defines(module, "set_extra_state"):
        if extra_key in state_dict:
            module.set_extra_state(state_dict[extra_key])
        elif strict:
            missing_keys.append(extra_key)
    elif strict and extra_key in state_dict:
        unexpected_keys.append(extra_key)
    if strict:
        for key in state_dict:
            if key.startswith(prefix) and key != extra_key:
                head, dot, _ = key[len(prefix) :].partition(".")
                if head not in module._modules if dot else own.get(head) is None:
                    unexpected_keys.append(key)


def _load_one(module: State, name: str, current: Tensor, key: str, given: Any, assign: bool) -> str | None:
    """Copy or adopt one tensor; the sentence that says why it cannot be, or None."""
    if not isinstance(given, Tensor):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint '
            f"but received {type(given)}"
        )
    if not is_lazy(current):
        if current.dim() == 0 and tuple(given.shape) == (1,):
            given = given[0]  # as PyTorch 0.3 saved a number
        if given.shape != current.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, "
                f"the shape in current model is {current.shape}."
            )
    swap = settings.get_swap_module_params_on_conversion()
    try:
        with no_grad():
            if swap:
                _swap_in(current, given, assign)
            elif not assign:
                current.copy_(given)
            elif isinstance(current, Parameter) and not isinstance(given, Parameter):
                setattr(module, name, Parameter(given, requires_grad=current.requires_grad))
            else:
                if isinstance(current, Parameter):
                    given.requires_grad_(current.requires_grad)
                setattr(module, name, given)
    except Exception as error:  # noqa: BLE001 - one tensor that cannot be copied must not hide the problems of the others
        return (
            f'While {"swapping" if swap else "copying"} the parameter named "{key}", whose dimensions in the model are '
            f"{current.size()} and whose dimensions in the checkpoint are {given.size()}, an exception occurred : {error.args}."
        )
    return None


def _swap_in(current: Tensor, given: Tensor, assign: bool) -> None:
    """Exchange the content of `current` with what its `module_load` makes of `given`."""
    loaded = current.module_load(given, assign=assign)
    if loaded is given or loaded is current:
        raise RuntimeError(
            "module_load returned one of self or other, please .detach() the result if returning one of the inputs in "
            "module_load"
        )
    if isinstance(current, Parameter):
        if isinstance(loaded, Parameter):
            loaded.requires_grad_(current.requires_grad)
        else:
            loaded = Parameter(loaded, requires_grad=current.requires_grad)
    swap_tensors(current, loaded)
