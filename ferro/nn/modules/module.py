"""Module: what is made, called, hooked, walked and printed; members, conversions and state are in files of their own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, Self

from ferro._compiling import compile
from ferro.nn.modules._calling import (
    add_hook,
    call_with_hooks,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from ...utils.hooks import RemovableHandle
from ._conversion import Conversions
from ._members import Members
from ._state import (
    State,
    _IncompatibleKeys,  # noqa: F401 (libraries import it from here)
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


class Module(Conversions, State):
    """The base of all layers and models: assign parameters, buffers and modules as attributes, define `forward`.

    Call `super().__init__()` before the first assignment.  Then the module finds what was assigned: `parameters()` for the
    optimiser, `state_dict()` and `load_state_dict()` for files, `train()` and `eval()` for layers that behave differently in both,
    `to(dtype or device)`.  Calling the module runs its hooks and `forward`.

    Example::

        >>> import ferro
        >>> from ferro import nn
        >>> class Residual(nn.Module):
        ...     def __init__(self, size):
        ...         super().__init__()
        ...         self.layer = nn.Linear(size, size)
        ...         self.scale = nn.Parameter(ferro.zeros(()))
        ...
        ...     def forward(self, x):
        ...         return x + self.scale * self.layer(x)
        >>> model = Residual(4)
        >>> [name for name, _ in model.named_parameters()]
        ['scale', 'layer.weight', 'layer.bias']
        >>> model(ferro.ones(2, 4))[0].tolist()
        [1.0, 1.0, 1.0, 1.0]
    """

    _forward_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _backward_hooks: OrderedDict[int, Callable[..., Any]]
    _backward_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _modules: dict[str, Module | None]
    _compiled_call_impl: Callable[..., Any] | None = None  # see compile(); copies and pickles are not compiled
    _is_full_backward_hook: bool | None  # which of the two kinds `_backward_hooks` holds; None while it holds none

    call_super_init: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Functions of ferro that a class has as attributes (``act = torch.relu``) are none of its methods, as in PyTorch,
        where they are no Python functions: ``self.act(x)`` is ``torch.relu(x)``.
        """
        super().__init_subclass__(**kwargs)
        for name, value in vars(cls).copy().items():
            function = getattr(value, "__wrapped__", value)  # (that of a function which asks for overrides)
            if type(function) is FunctionType and (function.__module__ or "").startswith("ferro.ops."):
                setattr(cls, name, staticmethod(value))

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
        # Straight into __dict__: __setattr__ of the members needs these tables before it can route anything.
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

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # A pickle from before a table existed still gives a working module.
        for table in _HOOK_TABLES:
            self.__dict__.setdefault(table, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

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
            or self._compiled_call_impl is not None
        ):
            return (self._compiled_call_impl or self._call_impl)(*args, **kwargs)
        return self.forward(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return call_with_hooks(self, args, kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compiles calls of this module, in place: see :func:`ferro.compile`, which takes the arguments."""
        self._compiled_call_impl = compile(self._call_impl, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return {name: held for name, held in self.__dict__.items() if name != "_compiled_call_impl"}

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before `forward`; what it returns, unless None, replaces the arguments.

        With `with_kwargs` it is called as `hook(module, args, kwargs)` and returns None or a pair (args, kwargs).
        """
        handle = RemovableHandle(self._forward_pre_hooks, extra_dict=self._forward_pre_hooks_with_kwargs)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return add_hook(self._forward_pre_hooks, handle, hook, prepend)

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
        return add_hook(self._forward_hooks, handle, hook, prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` before gradients enter the module; it may return another grad_output."""
        handle = RemovableHandle(self._backward_pre_hooks)
        return add_hook(self._backward_pre_hooks, handle, hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` once both are known; it may return another grad_input."""
        self._use_backward_hooks(full=True)
        return add_hook(self._backward_hooks, RemovableHandle(self._backward_hooks), hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` with the gradients of the last node of the module alone.

        Deprecated in PyTorch: of a module with several operations it sees the inputs of the last; take
        `register_full_backward_hook`.
        """
        self._use_backward_hooks(full=False)
        return add_hook(self._backward_hooks, RemovableHandle(self._backward_hooks), hook)

    def _use_backward_hooks(self, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                f"one of them. ({type(self).__name__} has {'regular' if full else 'full'} ones.)"
            )
        self._is_full_backward_hook = full

    # ---------------------------------------------------------------- the tree of modules

    def get_submodule(self, target: str) -> Module:
        """The descendant at a dotted path such as "encoder.layers.0"; "" is the module itself."""
        found: Any = self
        for part in target.split(".") if target else ():
            if not hasattr(found, part):
                raise AttributeError(f"{type(found).__name__} has no attribute `{part}`")
            found = getattr(found, part)
            is_module = isinstance(found, Members)
            if not is_module:
                raise AttributeError(f"`{part}` is not an nn.Module")
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put `module` at a dotted path; with `strict` only where a module already is."""
        if not target:
            raise ValueError("set_submodule: cannot set the submodule without a target name")
        if not isinstance(module, Members):
            raise ValueError(f"set_submodule: `module` is not an nn.Module but a {type(module).__name__}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Members):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

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

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn` on every descendant, children first, and on this module last."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

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


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")
