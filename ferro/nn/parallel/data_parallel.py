"""DataParallel on a machine without accelerators: the module itself, under the name `module`, as PyTorch does it there."""

from __future__ import annotations

from typing import Any

from ..modules.module import Module


class DataParallel(Module):
    """Passes its arguments to `module`; keys of its state_dict begin with "module.".

    - `module` (Module): the model
    - `device_ids`, `output_device` (default None): ignored, as PyTorch ignores them where there are no such devices
    - `dim` (int, default 0): the dimension that would be divided among devices

    Shapes: those of `module`.

    Example::

        >>> import ferro
        >>> model = ferro.nn.DataParallel(ferro.nn.Linear(2, 1))
        >>> list(model.state_dict())
        ['module.weight', 'module.bias']
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module computes."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """Calls a module: with one CPU there is nothing to divide.

    - `module` (Module): the model
    - `inputs` (Tensor or tuple): its argument or arguments
    - `device_ids`, `output_device` (default None): ignored
    - `dim` (int, default 0): the dimension that would be divided among devices
    - `module_kwargs` (dict, default None): its keyword arguments

    Example::

        >>> import ferro
        >>> ferro.nn.parallel.data_parallel(ferro.nn.ReLU(), ferro.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    if device_ids:
        raise RuntimeError(f"data_parallel: device_ids={list(device_ids)}, but ferro computes on the CPU: leave it out")
    inputs = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return module(*inputs, **(module_kwargs or {}))
