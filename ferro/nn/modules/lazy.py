"""LazyModuleMixin: a module that learns the shapes of its parameters from the first batch."""

from __future__ import annotations

import warnings
from itertools import chain
from typing import Any

from ferro.autograd.grad_mode import no_grad

from ..parameter import is_lazy


class LazyModuleMixin:
    """Stands before the class of a layer: its parameters are without a shape until the first call.

    The class says in `initialize_parameters(*args)` how the arguments of `forward` tell the shapes, and in
    `cls_to_become` which class the object has from then on. A state_dict of either form loads into either form.

    >>> import ferro, warnings
    >>> with warnings.catch_warnings(action="ignore"):  # PyTorch's, that lazy modules may change
    ...     layer = ferro.nn.LazyLinear(2)
    >>> layer(ferro.ones(5, 3)).shape, layer
    (ferro.Size([5, 2]), Linear(in_features=3, out_features=2, bias=True))
    """

    cls_to_become: type | None = None

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)
        warnings.warn(
            "Lazy modules are a new feature under heavy development so changes to the API or functionality can happen at "
            "any moment.",
            stacklevel=2,
        )

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize the parameters for these arguments of `forward`; the class defines it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self: Any) -> bool:
        """Whether a parameter or buffer of this module, children aside, is still without a shape."""
        return any(is_lazy(tensor) for tensor in chain(self._parameters.values(), self._buffers.values()))

    def _lazy_load_hook(self: Any, state_dict: dict[str, Any], prefix: str, *report: Any) -> None:
        """Before a state with shapes is loaded, take the shapes from it."""
        for name, tensor in chain(self._parameters.items(), self._buffers.items()):
            given = state_dict.get(prefix + name)
            if is_lazy(tensor) and given is not None and not is_lazy(given):
                with no_grad():
                    tensor.materialize(given.shape)

    def _infer_parameters(self: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        """Before the first call: take the shapes from its arguments, and become an ordinary module."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become
