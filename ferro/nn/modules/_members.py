"""Members of a module: its parameters, buffers and child modules as attributes, and tensors by their dotted path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ferro.nn.modules._calling import registered
from ferro.tensor import Tensor

from ..parameter import Buffer, Parameter

_TABLES = ("_parameters", "_buffers", "_modules")


class Members:
    """The tables of a module's parameters, buffers and children, and the tensors of the tree that Module walks."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, Any]

    # ---------------------------------------------------------------- attributes

    def __getattr__(self, name: str) -> Any:
        state = self.__dict__
        for table in _TABLES:
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
        elif isinstance(value, Members):
            self._make_way(name, "_modules")
            self._modules[name] = registered("module", self, name, value)
        elif name in state.get("_modules", ()):
            if value is not None:
                raise TypeError(_wrong_kind(value, "child module", name, "torch.nn.Module"))
            self._modules[name] = registered("module", self, name, None)
        elif isinstance(value, Buffer):
            self._make_way(name, "_buffers")
            self.register_buffer(name, value, value.persistent)
        elif name in state.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(_wrong_kind(value, "buffer", name, "torch.Tensor"))
            self._buffers[name] = registered("buffer", self, name, value)
        else:
            super().__setattr__(name, value)

    def _make_way(self, name: str, destination: str) -> None:
        """Take `name` out of wherever else it is; in `destination` itself it keeps its place in the order."""
        state = self.__dict__
        if destination not in state:
            kind = {"_parameters": "parameters", "_modules": "module", "_buffers": "buffers"}[destination]
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        state.pop(name, None)
        for table in _TABLES:
            if table != destination:
                state[table].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        for table in _TABLES:
            if name in self.__dict__[table]:
                del self.__dict__[table][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*super().__dir__(), *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[:1].isdigit())

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
        self._parameters[name] = None if param is None else registered("parameter", self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Make `tensor` (or None) the buffer `name`; `persistent=False` keeps it out of `state_dict`."""
        self._check_name(name, "buffer", "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = registered("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Members | None) -> None:
        """Make `module` (or None) the child `name`."""
        if module is not None and not isinstance(module, Members):
            named = getattr(module, "__name__", None)
            hint = f": {named} is called in forward(), or as a module of its own" if callable(module) and named else ""
            raise TypeError(f"{_typename(module)} is not a Module subclass{hint}")
        self._check_name(name, "module", "_modules")
        self._modules[name] = registered("module", self, name, module)

    def register_module(self, name: str, module: Members | None) -> None:
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

    def _owner(self, target: str) -> tuple[Any, str]:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
        return owner, name

    # ---------------------------------------------------------------- walking

    def _named_members(
        self, get_members: Callable[[Any], Any], prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
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


def _typename(value: Any) -> str:
    """The name of the value's class as PyTorch's errors write it: with the module, but for built-in classes."""
    kind = type(value)
    if kind.__module__ == "builtins":
        return kind.__name__
    return f"{kind.__module__}.{kind.__qualname__}"


def _wrong_kind(value: Any, kind: str, name: str, wanted: str) -> str:
    return f"cannot assign '{_typename(value)}' as {kind} '{name}' ({wanted} or None expected)"
