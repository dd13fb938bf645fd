"""Module: the tree of parameters, buffers and child modules, and everything that walks it."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import ferro.__future__ as settings
from ferro.autograd.grad_mode import no_grad
from ferro.core import dtypes
from ferro.core.device import device as Device
from ferro.ops.creation import empty_like
from ferro.tensor import Tensor

from ...utils.hooks import RemovableHandle
from ...utils.swapping import swap_tensors
from ..parameter import Buffer, Parameter, is_lazy
from . import _calling, _state
from ._calling import (
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

# The hooks of all modules: _calling.py registers and runs them.
_global_forward_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_forward_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
_global_forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
_global_backward_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_backward_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()

# The tables of hooks that each module carries. OrderedDicts, because a handle refers to its table weakly.
_HOOK_TABLES = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)
_MEMBER_TABLES = ("_parameters", "_buffers", "_modules")


class Module:
    """The base of all layers and models: assign parameters, buffers and modules as attributes, define `forward`."""

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, Module | None]
    _forward_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _backward_hooks: OrderedDict[int, Callable[..., Any]]
    _backward_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _is_full_backward_hook: bool | None  # which of the two kinds `_backward_hooks` holds; None while it holds none
    _state_dict_hooks: OrderedDict[int, Callable[..., Any]]
    _state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    call_super_init: bool = False
    _version: int = 1

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            own = f"{type(self).__name__}.__init__()"
            if kwargs:
                raise TypeError(
                    f"{own} got an unexpected keyword argument '{next(iter(kwargs))}', which reached Module.__init__()"
                )
            raise TypeError(
                f"{own} takes 1 positional argument but {len(args) + 1} were given, which reached Module.__init__()"
            )
        # Straight into __dict__: __setattr__ below needs these tables before it can route anything.
        state = self.__dict__
        state["training"] = True
        state["_parameters"] = {}
        state["_buffers"] = {}
        state["_non_persistent_buffers_set"] = set()
        state["_modules"] = {}
        state["_is_full_backward_hook"] = None
        for table in _HOOK_TABLES:
            state[table] = OrderedDict()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # ---------------------------------------------------------------- calling

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every module that is called defines it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or _global_forward_hooks
            or _global_forward_pre_hooks
            or _global_backward_hooks
            or _global_backward_pre_hooks
        ):
            return _calling.call_with_hooks(self, args, kwargs)
        return self.forward(*args, **kwargs)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before `forward`; what it returns, unless None, replaces the arguments.

        With `with_kwargs` it is called as `hook(module, args, kwargs)` and returns None or a pair (args, kwargs).
        """
        handle = RemovableHandle(self._forward_pre_hooks, extra_dict=self._forward_pre_hooks_with_kwargs)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return _add_hook(self._forward_pre_hooks, handle, hook, prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after `forward`; what it returns, unless None, replaces the output.

        With `with_kwargs` it is called as `hook(module, args, kwargs, output)`; with `always_call` also when `forward`
        raised (the output is then None).
        """
        marks = [self._forward_hooks_with_kwargs, self._forward_hooks_always_called]
        handle = RemovableHandle(self._forward_hooks, extra_dict=marks)
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return _add_hook(self._forward_hooks, handle, hook, prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` before gradients enter the module; it may return another grad_output."""
        handle = RemovableHandle(self._backward_pre_hooks)
        return _add_hook(self._backward_pre_hooks, handle, hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` once both are known; it may return another grad_input."""
        self._use_backward_hooks(full=True)
        return _add_hook(self._backward_hooks, RemovableHandle(self._backward_hooks), hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` with the gradients of the last node of the module alone.

        Deprecated in PyTorch: of a module with several operations it sees the inputs of the last; take
        `register_full_backward_hook`.
        """
        self._use_backward_hooks(full=False)
        return _add_hook(self._backward_hooks, RemovableHandle(self._backward_hooks), hook)

    def _use_backward_hooks(self, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                f"one of them. ({type(self).__name__} has {'regular' if full else 'full'} ones.)"
            )
        self._is_full_backward_hook = full

    # ---------------------------------------------------------------- attributes

    def __getattr__(self, name: str) -> Any:
        state = self.__dict__
        for table in _MEMBER_TABLES:
            if table in state and name in state[table]:
                return state[table][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _weight_and_bias(self) -> tuple[Any, Any]:
        """``self.weight, self.bias``; where they are parameters, without the detour to `__getattr__`, half a microsecond each."""
        own = self._parameters
        if "weight" in own and "bias" in own:
            return own["weight"], own["bias"]
        return self.weight, self.bias

    def __setattr__(self, name: str, value: Any) -> None:
        state = self.__dict__
        if isinstance(value, Parameter):
            self._make_way(name, "_parameters")
            self.register_parameter(name, value)
        elif name in state.get("_parameters", ()):
            if value is not None:
                raise TypeError(_wrong_kind(value, "parameter", name, "torch.nn.Parameter"))
            self.register_parameter(name, None)
        elif isinstance(value, Module):
            self._make_way(name, "_modules")
            self._modules[name] = _calling.registered("module", self, name, value)
        elif name in state.get("_modules", ()):
            if value is not None:
                raise TypeError(_wrong_kind(value, "child module", name, "torch.nn.Module"))
            self._modules[name] = _calling.registered("module", self, name, None)
        elif isinstance(value, Buffer):
            self._make_way(name, "_buffers")
            self.register_buffer(name, value, value.persistent)
        elif name in state.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(_wrong_kind(value, "buffer", name, "torch.Tensor"))
            self._buffers[name] = _calling.registered("buffer", self, name, value)
        else:
            super().__setattr__(name, value)

    def _make_way(self, name: str, destination: str) -> None:
        """Take `name` out of wherever else it is; in `destination` itself it keeps its place in the order."""
        state = self.__dict__
        if destination not in state:
            kind = {"_parameters": "parameters", "_modules": "module", "_buffers": "buffers"}[destination]
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        state.pop(name, None)
        for table in _MEMBER_TABLES:
            if table != destination:
                state[table].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        for table in _MEMBER_TABLES:
            if name in self.__dict__[table]:
                del self.__dict__[table][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*super().__dir__(), *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[:1].isdigit())

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # A pickle from before a table existed still gives a working module.
        for table in _HOOK_TABLES:
            self.__dict__.setdefault(table, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Make `param` (or None, which holds the place) the parameter `name`."""
        self._check_name(name, "parameter", "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{_typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To express "
                f"'{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        self._parameters[name] = None if param is None else _calling.registered("parameter", self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Make `tensor` (or None) the buffer `name`; `persistent=False` keeps it out of `state_dict`."""
        self._check_name(name, "buffer", "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = _calling.registered("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Make `module` (or None) the child `name`."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        self._check_name(name, "module", "_modules")
        self._modules[name] = _calling.registered("module", self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    def _check_name(self, name: Any, kind: str, table: str) -> None:
        if table not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."' + (f", got: {name}" if kind == "module" else ""))
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in self.__dict__[table] and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    # ---------------------------------------------------------------- lookup by path

    def get_submodule(self, target: str) -> Module:
        """The descendant at a dotted path such as "encoder.layers.0"; "" is the module itself."""
        found: Any = self
        for part in target.split(".") if target else ():
            if not hasattr(found, part):
                raise AttributeError(f"{type(found).__name__} has no attribute `{part}`")
            found = getattr(found, part)
            if not isinstance(found, Module):
                raise AttributeError(f"`{part}` is not an nn.Module")
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put `module` at a dotted path; with `strict` only where a module already is."""
        if not target:
            raise ValueError("set_submodule: cannot set the submodule without a target name")
        if not isinstance(module, Module):
            raise ValueError(f"set_submodule: `module` is not an nn.Module but a {type(module).__name__}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path."""
        owner, name = self._owner(target)
        param = getattr(owner, name)
        if not isinstance(param, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return param

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path."""
        owner, name = self._owner(target)
        if name not in owner._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return getattr(owner, name)

    def _owner(self, target: str) -> tuple[Module, str]:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
        return owner, name

    # ---------------------------------------------------------------- walking

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """All modules of the tree with their dotted paths, this one first; a shared module comes once."""
        seen = set() if memo is None else memo
        if self in seen:
            return
        if remove_duplicate:
            seen.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(seen, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """All modules of the tree, this one first."""
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The immediate children with their names; a child registered twice comes once."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The immediate children."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self, get_members: Callable[[Module], Any], prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in get_members(module):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their dotted paths; a shared parameter comes once, under its first name."""
        return self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, of the whole tree or of this module alone."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their dotted paths."""
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, of the whole tree or of this module alone."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn` on every descendant, children first, and on this module last."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---------------------------------------------------------------- modes, gradients, dtype and device

    def train(self, mode: bool = True) -> Self:
        """Set the training flag of the whole tree (dropout and batch norm obey it)."""
        if not isinstance(mode, bool):
            raise ValueError(f"train: training mode is expected to be boolean, got {mode!r}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """The same as `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say for all parameters whether they ask for a gradient."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zeros."""
        for param in self.parameters():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
            else:
                param.grad = param.grad.detach().zero_()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace parameters, gradients and buffers by `fn` of them; what becomes of the old objects: `ferro.__future__`."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in self._parameters.items():
            if param is not None:
                self._parameters[name] = self._converted(name, param, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _converted(self, name: str, param: Parameter, fn: Callable[[Tensor], Tensor]) -> Parameter:
        """The parameter after `fn`: by default the same object with new data, gradient included."""
        grad = param.grad
        with no_grad():
            value = fn(param)
            new_grad = None if grad is None else fn(grad).requires_grad_(grad.requires_grad)
        if not settings.get_swap_module_params_on_conversion():
            if settings.get_overwrite_module_params_on_conversion():
                param = Parameter(value, param.requires_grad)
                param.grad = new_grad
                return param
            param.grad = None  # it must match the dtype at all times
            param.data = value
            if grad is None or new_grad is None:
                return param
            grad.data = new_grad
            param.grad = grad
            return param
        try:
            swap_tensors(param, value if is_lazy(param) else Parameter(value, param.requires_grad))
        except Exception as error:
            raise RuntimeError(f"_apply(): Couldn't swap {self._get_name()}.{name}") from error
        param.grad = new_grad
        return param

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move to a device and/or a floating or complex dtype, which only floating and complex tensors take on.

        `to(device)`, `to(dtype)`, `to(device, dtype)`, or `to(tensor)` for the device and dtype of a tensor.
        """
        device, dtype, memory_format = _parse_to(args, kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            warnings.warn(
                "Complex modules are a new feature under active development whose design may change, and some modules might "
                "not work as expected when using complex tensors as parameters or buffers.",
                stacklevel=2,
            )

        def convert(tensor: Tensor) -> Tensor:
            wanted: dict[str, Any] = {} if device is None else {"device": device}
            if dtype is not None and (tensor.is_floating_point() or tensor.is_complex()):
                wanted["dtype"] = dtype
            if memory_format is not None and not is_lazy(tensor) and tensor.dim() in (4, 5):
                wanted["memory_format"] = memory_format
            return tensor.to(**wanted) if wanted else tensor

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move to a device without copying: parameters and buffers get memory with any content.

        >>> import ferro
        >>> ferro.nn.Linear(2, 3).to_empty(device="cpu").weight.shape
        ferro.Size([3, 2])
        """
        return self._apply(lambda tensor: empty_like(tensor, device=device), recurse)

    def _float_to(self, dtype: Any) -> Self:
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def type(self, dst_type: Any) -> Self:
        """Cast all parameters and buffers to `dst_type`."""
        return self._apply(lambda tensor: tensor.to(dst_type))

    def float(self) -> Self:
        """Cast all floating parameters and buffers to float32."""
        return self._float_to(dtypes.float32)

    def double(self) -> Self:
        """Cast all floating parameters and buffers to float64."""
        return self._float_to(dtypes.float64)

    def half(self) -> Self:
        """Cast all floating parameters and buffers to float16."""
        return self._float_to(dtypes.float16)

    def bfloat16(self) -> Self:
        """Cast all floating parameters and buffers to bfloat16."""
        return self._float_to(dtypes.bfloat16)

    def cpu(self) -> Self:
        """Move all parameters and buffers to the CPU."""
        return self.to("cpu")

    # ---------------------------------------------------------------- state

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
        return _state.collect(self, destination, prefix, keep_vars)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Add this module's own state, without its children's, to `destination`; classes may extend it."""
        _state.save_own(self, destination, prefix, keep_vars)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy the state in (or, with `assign`, adopt the given tensors) and tell which keys did not match.

        With `strict` a missing or unexpected key is an error; a size that does not match always is. The error comes
        after all that fits has been copied, and lists every problem.
        """
        return _state.load(self, state_dict, strict, assign)

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
        _state.load_own(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict` collects this module."""
        return _add_hook(self._state_dict_pre_hooks, RemovableHandle(self._state_dict_pre_hooks), hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after `state_dict`; it may edit it in place."""
        return _add_hook(self._state_dict_hooks, RemovableHandle(self._state_dict_hooks), _state.PublicHook(hook))

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """As the public post hook, but what it returns, unless None, replaces the collected dictionary."""
        return _add_hook(self._state_dict_hooks, RemovableHandle(self._state_dict_hooks), hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call the hook with the module and the arguments of `_load_from_state_dict` before this module is loaded."""
        handle = RemovableHandle(self._load_state_dict_pre_hooks)
        return _add_hook(self._load_state_dict_pre_hooks, handle, _state.WithModule(hook))

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """As the public pre hook; without `with_module` the hook is not given the module."""
        handle = RemovableHandle(self._load_state_dict_pre_hooks)
        marked = _state.WithModule(hook) if with_module else hook
        return _add_hook(self._load_state_dict_pre_hooks, handle, marked)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after loading; it may edit the two lists of keys in place."""
        return _add_hook(self._load_state_dict_post_hooks, RemovableHandle(self._load_state_dict_post_hooks), hook)

    # ---------------------------------------------------------------- printing

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands between the brackets of the module's own line; layers define it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [f"({name}): {_indent(repr(module))}" for name, module in self._modules.items()]
        if len(extra_lines) == 1 and not child_lines:
            return f"{self._get_name()}({extra})"
        if not extra_lines and not child_lines:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(extra_lines + child_lines) + "\n)"


def _add_hook(table: Any, handle: RemovableHandle, hook: Any, prepend: bool = False) -> RemovableHandle:
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")


def _typename(value: Any) -> str:
    """The name of the value's class as PyTorch's errors write it: with the module, but for built-in classes."""
    kind = type(value)
    if kind.__module__ == "builtins":
        return kind.__name__
    return f"{kind.__module__}.{kind.__qualname__}"


def _wrong_kind(value: Any, kind: str, name: str, wanted: str) -> str:
    return f"cannot assign '{_typename(value)}' as {kind} '{name}' ({wanted} or None expected)"


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The device, dtype and memory format asked for by the arguments of `to`; None for what they leave open."""
    allowed = {"device", "dtype", "tensor", "non_blocking", "copy", "memory_format"}
    unknown = set(kwargs) - allowed
    if unknown:
        raise TypeError(f"to() got an unexpected keyword argument {min(unknown)!r}; allowed: {sorted(allowed)}")
    if kwargs.get("copy"):
        raise RuntimeError(".to() does not accept copy argument: take copy.deepcopy(module).to(...)")
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    rest = list(args) if kwargs.get("tensor") is None else [kwargs["tensor"], *args]
    first = rest.pop(0) if rest else None
    if isinstance(first, Tensor):
        device, dtype = first.device, first.dtype
    elif isinstance(first, dtypes.dtype):
        dtype = first
    else:
        device = device if first is None else first
        if rest and (rest[0] is None or isinstance(rest[0], dtypes.dtype)):
            dtype = rest.pop(0) or dtype
        elif rest:
            rest.insert(0, rest[0])  # a second argument that is no dtype: one too many
    if (
        len(rest) > 1
        or not all(isinstance(flag, bool) for flag in rest)
        or not isinstance(device, (str, Device, type(None)))
    ):
        raise TypeError(
            "to() received an invalid combination of arguments: expected (device, dtype, non_blocking), (dtype, non_blocking) "
            f"or (tensor, non_blocking), got {args}"
        )
    return None if device is None else Device(device), dtype, kwargs.get("memory_format")
