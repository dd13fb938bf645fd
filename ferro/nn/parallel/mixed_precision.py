"""Mixed precision of a DistributedDataParallel: its module computes in fewer bits, parameters and gradients keep theirs.

Note [Parameters in fewer bits]
    While the module is called, casts stand in the place of its parameters: gradients come through them to the parameters, in whose dtype
    they are added up. A checkpoint computes its part of the module again in backward: so the casts stand there from the gradient of an
    output to the end of backward, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ferro.autograd.grad_mode import enable_grad
from ferro.core import dtypes
from ferro.core.graph_task import outermost
from ferro.core.mode import is_grad_enabled
from ferro.core.trees import map_tensors

from .outputs import tensors


@dataclass
class _MixedPrecision:
    """What DistributedDataParallel takes as `mixed_precision`: dtypes of floating tensors, each of which None leaves as it is.

    - `param_dtype` (dtype, default None): the module computes with parameters and inputs cast to it
    - `reduce_dtype` (dtype, default None): gradients travel in it; None is `param_dtype`
    - `buffer_dtype` (dtype, default None): buffers are cast to it, once

    TypeError for what is no floating-point dtype.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not (isinstance(value, dtypes.dtype) and value.is_floating_point):
                raise TypeError(f"_MixedPrecision: {name} must be a floating-point dtype or None, got {value!r}")


class Lowered:
    """A module whose parameters are cast while it computes."""

    def __init__(self, module: Any, given: _MixedPrecision, ignored: set[str]) -> None:
        self._module, self.dtype = module, given.param_dtype
        self.reduce_dtype = given.reduce_dtype or given.param_dtype
        self._ignored = {id(t) for name, t in (*module.named_parameters(), *module.named_buffers()) if name in ignored}
        self._casts: dict[int, Any] = {}
        self._places: list[tuple[dict, str, Any]] = []  # where casts stand, and the parameters that belong there
        self._depth = 0
        self._run: Any = None  # the backward in which they stand
        for buffer in module.buffers() if given.buffer_dtype is not None else ():
            if buffer.is_floating_point() and id(buffer) not in self._ignored:
                buffer.data = buffer.to(given.buffer_dtype)

    def reduced_in(self, parameter: Any) -> Any:
        """The dtype in which its gradient travels; None for its own."""
        return self.reduce_dtype if parameter.is_floating_point() else None

    def call(self, inputs: tuple, kwargs: dict) -> Any:
        """What the module computes of the arguments, cast."""
        if self.dtype is None:
            return self._module(*inputs, **kwargs)
        if outermost() is None:
            self._end()  # (of a backward that was broken off)
            self._casts = {}
        inputs, kwargs = map_tensors(self._lower, (inputs, kwargs))
        with self:
            result = self._module(*inputs, **kwargs)
        for t in tensors(result) if is_grad_enabled() else ():
            if t.requires_grad:
                t.register_hook(self._backward_begins)
        return result

    def _lower(self, x: Any) -> Any:
        return x.to(self.dtype) if x.is_floating_point() else x

    def __enter__(self) -> None:
        self._depth += 1
        if self._depth > 1:
            return
        for module in self._module.modules():
            table = module._parameters
            for key, p in table.items():
                if p is None or id(p) in self._ignored or not p.is_floating_point() or p.dtype is self.dtype:
                    continue
                self._places.append((table, key, p))
        try:
            for table, key, p in self._places:
                if id(p) not in self._casts:
                    self._casts[id(p)] = self._cast(p)
                table[key] = self._casts[id(p)]
        except BaseException:
            self.__exit__()
            raise

    def _cast(self, parameter: Any) -> Any:
        if self._run is None:
            return parameter.to(self.dtype)
        with enable_grad():  # (a reentrant checkpoint runs a backward inside of this one)
            return parameter.to(self.dtype)

    def __exit__(self, *exc: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            for table, key, p in self._places:
                if table.get(key) is self._casts.get(id(p)):  # (a parameter that the module has set meanwhile stays)
                    table[key] = p
            self._places = []
            if self._run is not None or not is_grad_enabled():
                self._casts = {}

    def _backward_begins(self, grad: Any) -> None:
        run: Any = outermost()
        if self._run is None:
            self._run = run
            run.callbacks.append(self._end)
            run.failures.append(self._end)
            self.__enter__()

    def _end(self, error: Any = None) -> None:
        """The end of backward."""
        if self._run is not None:
            self.__exit__()
            self._run = None
