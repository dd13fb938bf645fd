"""skip_init: a module without the cost of drawing its parameters."""

from __future__ import annotations

import inspect
from typing import Any

from ferro.core.random import all_states, restore

from ..modules.module import Module


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Any:
    """The module with any content in its parameters and buffers; the random generator stays as it was.

    RuntimeError for what is no Module class, and for one whose constructor takes no `device`.

    >>> import ferro
    >>> skip_init(ferro.nn.Linear, 2, 3)
    Linear(in_features=2, out_features=3, bias=True)
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    before = all_states()
    try:
        return module_cls(*args, **kwargs).to_empty(device=kwargs.get("device", "cpu"))
    finally:
        restore(before)
