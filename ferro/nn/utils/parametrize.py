"""Parametrizations: a tensor of a module computed, each time it is read, from other tensors that are learned instead."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import ferro.__future__ as settings
from ferro.autograd.grad_mode import no_grad
from ferro.tensor import Tensor

from ...utils.swapping import swap_tensors
from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

M = TypeVar("M", bound=Module)


class _Cache:
    """Values of parametrized tensors, kept while a `cached` context is open."""

    depth = 0
    values: dict[tuple[int, str], Tensor]

    def __init__(self) -> None:
        self.values = {}


_CACHE = _Cache()


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor once inside the context, however often it is read.

    >>> import ferro
    >>> layer = ferro.nn.utils.parametrizations.weight_norm(ferro.nn.Linear(2, 1))
    >>> with cached():
    ...     layer.weight is layer.weight
    True
    >>> layer.weight is layer.weight
    False
    """
    _CACHE.depth += 1
    try:
        yield
    finally:
        _CACHE.depth -= 1
        if not _CACHE.depth:
            _CACHE.values.clear()


def _register(module: Module, name: str, tensor: Any) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _put(destination: Tensor, value: Tensor) -> None:
    """Let a tensor of a module, which stays the same object, have the content of `value`."""
    if not settings.get_swap_module_params_on_conversion():
        destination.data = value
        return
    if isinstance(destination, Parameter) and not isinstance(value, Parameter):
        value = Parameter(value, requires_grad=destination.requires_grad)
    swap_tensors(destination, value)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor in the order of their use, and what they start from.

    - `modules` (modules): the parametrizations
    - `original` (Tensor): the tensor as it was
    - `unsafe` (bool, default False): True lets a parametrization change shape or dtype, else ValueError

    What they start from is `original`, or `original0`, `original1`, ... if the `right_inverse` of the first gives
    several tensors. `register_parametrization` makes it. Calling it gives the tensor, of the shape of the last result.

    Example::

        >>> import ferro
        >>> from ferro.nn.utils.parametrize import ParametrizationList
        >>> ParametrizationList([ferro.nn.ReLU()], ferro.nn.Parameter(ferro.tensor([-1.0, 2.0])))().tolist()
        [0.0, 2.0]
    """

    original: Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        start = self._inverted(original)
        if not isinstance(start, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(start).__name__}"
            )
        self.is_tensor = isinstance(start, Tensor)
        self.ntensors = 1 if self.is_tensor else len(start)
        if isinstance(start, Tensor):
            for what, had, has in (
                ("dtype", original.dtype, start.dtype),
                ("device", original.device, start.device),
            ):
                if had != has:
                    raise ValueError(
                        f"When `right_inverse` outputs one tensor, it may not change the {what}.\n"
                        f"original.{what}: {had}\nright_inverse(original).{what}: {has}"
                    )
            with no_grad():
                _put(original, start)
            _register(self, "original", original)
        else:
            for i, part in enumerate(start):
                if not isinstance(part, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                        f"Got element {i} of the sequence with type {type(part).__name__}."
                    )
                if isinstance(original, Parameter):
                    part = Parameter(part, original.requires_grad)
                part.requires_grad_(original.requires_grad)
                _register(self, f"original{i}", part)
        if not unsafe:
            value = self()
            if not isinstance(value, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
            for what, had, has in (("dtype", dtype, value.dtype), ("shape", shape, value.shape)):
                if had != has:
                    raise ValueError(
                        f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag is "
                        f"enabled.\nunparametrized {what}: {had}\nparametrized {what}: {has}"
                    )

    def _inverted(self, value: Tensor) -> Any:
        """What the parametrizations make `value` of, as far as they tell."""
        found: Any = value
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        found = module.right_inverse(found)
                    except NotImplementedError:
                        continue
        return found

    def right_inverse(self, value: Tensor) -> None:
        """Assign to the parametrized tensor: put into the original what gives `value`."""
        with no_grad():
            found: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                found = module.right_inverse(found)
            if self.is_tensor:
                if not isinstance(found, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(found).__name__}")
                if found.dtype != self.original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {found.dtype} while `original` has dtype "
                        f"{self.original.dtype}"
                    )
                _put(self.original, found)
                return
            if not isinstance(found, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(found).__name__}.")
            if len(found) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. "
                    f"Got a sequence of length {len(found)}."
                )
            for i, part in enumerate(found):
                self._check_part(i, part)
            for i, part in enumerate(found):
                _put(getattr(self, f"original{i}"), part)

    def _check_part(self, i: int, part: Any) -> None:
        original = getattr(self, f"original{i}")
        if not isinstance(part, Tensor):
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors. Got element {i} of type {type(part).__name__}."
            )
        if original.dtype != part.dtype:
            raise ValueError(
                f"Tensor {i} returned by `right_inverse` has dtype {part.dtype} while `original{i}` has dtype {original.dtype}"
            )

    def forward(self) -> Tensor:
        """The parametrized tensor."""
        first, *rest = list(self)
        if self.is_tensor:
            value = first(self.original)
        else:
            value = first(*(getattr(self, f"original{i}") for i in range(self.ntensors)))
        for module in rest:
            value = module(value)
        return value


def register_parametrization(module: M, tensor_name: str, parametrization: Module, *, unsafe: bool = False) -> M:
    """Lets `module.<tensor_name>` be `parametrization(original)` from now on; returns the module.

    - `module` (Module): changed in place
    - `tensor_name` (str): a parameter, buffer or parametrized tensor, else ValueError; one that is parametrized already
      is parametrized once more
    - `parametrization` (Module): called with the original at each use
    - `unsafe` (bool, default False): True lets it change shape or dtype, else ValueError

    If `parametrization` has a method `right_inverse`, the tensor can be assigned to, and its value is kept now.

    Example::

        >>> import ferro
        >>> from ferro.nn.utils.parametrize import register_parametrization
        >>> class Symmetric(ferro.nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).T
        >>> layer = register_parametrization(ferro.nn.Linear(3, 3), "weight", Symmetric())
        >>> (layer.weight == layer.weight.T).all().item(), list(layer.state_dict())
        (True, ['bias', 'parametrizations.weight.original'])
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        found = module.parametrizations[tensor_name]
        if not unsafe:
            _check_next(module, tensor_name, parametrization)
        found.append(parametrization)
        found.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        found = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            module.__class__ = _subclass(type(module))
            module.parametrizations = ModuleDict()
        _add_property(module, tensor_name)
        module.parametrizations[tensor_name] = found
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'"
        )
    return module


def _check_next(module: Module, name: str, parametrization: Any) -> None:
    """Whether one more parametrization, and its inverse, keep shape and dtype."""
    before = getattr(module, name)
    after = parametrization(before)
    if not isinstance(after, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    for what, had, has in (("dtype", before.dtype, after.dtype), ("shape", before.shape, after.shape)):
        if had != has:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless the `unsafe` flag is "
                f"enabled.\nmodule.{name}.{what}: {had}\nparametrization(module.{name}).{what}: {has}"
            )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
    for what, had, has in (("dtype", before.dtype, back.dtype), ("shape", before.shape, back.shape)):
        if had != has:
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} as module.{name}, unless "
                f"the `unsafe` flag is enabled.\nmodule.{name}.{what}: {had}\nreturned {what}: {has}"
            )


def _subclass(cls: type) -> type:
    """A class of one module alone, whose properties are its parametrized tensors."""

    def __getstate__(self: Any) -> NoReturn:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). "
            f"(The module is a {cls.__name__}, its class was made for its parametrizations.)"
        )

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = replica = self.__new__(type(self))
            replica.__dict__ = copy.deepcopy(self.__dict__, memo)
        return memo[id(self)]

    members: dict[str, Any] = {"__getstate__": __getstate__}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = __deepcopy__
    return type(f"Parametrized{cls.__name__}", (cls,), members)


def _add_property(module: Module, name: str) -> None:
    if hasattr(module, name):
        raise AssertionError(f"Module already has an attribute named '{name}'")

    def get(self: Any) -> Tensor:
        compute = self.parametrizations[name]
        if not _CACHE.depth:
            return compute()
        key = id(self), name
        if key not in _CACHE.values:
            _CACHE.values[key] = compute()
        return _CACHE.values[key]

    def put(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module has parametrized tensors, or the one of this name."""
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: M, tensor_name: str, leave_parametrized: bool = True) -> M:
    """Make the tensor an ordinary one again, with the value that it had, or the original; returns the module.

    ValueError for a tensor that is not parametrized, and for `leave_parametrized=False` if there are several originals.

    >>> import ferro
    >>> layer = ferro.nn.utils.parametrizations.weight_norm(ferro.nn.Linear(2, 1))
    >>> list(remove_parametrizations(layer, "weight").state_dict()), type(layer).__name__
    (['bias', 'weight'], 'Linear')
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    found = module.parametrizations[tensor_name]
    if found.is_tensor:
        tensor = found.original
        if leave_parametrized:
            with no_grad():
                _put(tensor, getattr(module, tensor_name).detach())
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        tensor = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence "
            "of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, tensor)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class of the module as it was made."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module: Module, to_module: M, tensor_name: str | None = None) -> M:
    """Give `to_module` the parametrizations of another module, or those of one tensor, with their originals."""
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        source = from_module.parametrizations[name]
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        target = to_module.parametrizations[name]
        names = ["original"] if source.is_tensor else [f"original{i}" for i in range(source.ntensors)]
        for original in names:
            setattr(target, original, getattr(source, original))
    return to_module
