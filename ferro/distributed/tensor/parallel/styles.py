"""How layers are divided over the ranks: by columns, by rows, along the sequence, and how activations come in and go out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ferro.autograd.grad_mode import no_grad
from ferro.nn import functional as F
from ferro.nn.modules.linear import Linear
from ferro.nn.modules.sparse import Embedding
from ferro.tensor import Tensor

from ...device_mesh import DeviceMesh
from ..dtensor import DTensor, distribute_tensor, like
from ..placement_types import Placement, Replicate, Shard
from .exchanges import added, gathered, moved, spread, summed


class ParallelStyle(ABC):
    """How a module is divided over the ranks of a mesh of one dimension."""

    @abstractmethod
    def apply(self, module: Any, mesh: DeviceMesh, source: int | None) -> Any:
        """Divides a module; returns it."""


def distribute(module: Any, name: str, mesh: DeviceMesh, placement: Placement, source: int | None) -> None:
    """Makes a parameter of a module a DTensor, whose gradients are DTensors."""
    parameter = module._parameters.get(name)
    if parameter is None:
        return
    made: Any = distribute_tensor(parameter, mesh, [placement], src_data_rank=source)
    if made.requires_grad:
        made.register_post_accumulate_grad_hook(_mark)
    module.register_parameter(name, made)


def _mark(parameter: Any) -> None:
    with no_grad():
        if not isinstance(parameter.grad, DTensor):
            parameter.grad = like(parameter.grad, parameter) if parameter.dim() else parameter.grad


def _adds_terms(parameter: Any, group: Any) -> None:
    """Lets the gradients of a parameter that all ranks have whole, and which are terms, be added up."""
    if parameter is not None and parameter.requires_grad:
        parameter.register_hook(lambda g: added(group, g))


class ColwiseParallel(ParallelStyle):
    """Each rank has some output features of a Linear, or some features of an Embedding.

    - `input_layouts` (Placement, default None): how the input lies; None is Replicate()
    - `output_layouts` (Placement, default None): how the output is to lie; None is Shard(-1)
    - `use_local_output` (bool, default True): the output is a plain tensor, the part of this rank, in any case
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.input_layouts, self.output_layouts = input_layouts or Replicate(), output_layouts or Shard(-1)
        self.use_local_output = use_local_output

    def apply(self, module: Any, mesh: DeviceMesh, source: int | None) -> Any:
        """Divides a Linear or an Embedding; NotImplementedError for others."""
        group = mesh.get_group()
        if isinstance(module, Linear):
            distribute(module, "weight", mesh, Shard(0), source)
            distribute(module, "bias", mesh, Shard(0), source)
        elif isinstance(module, Embedding):
            distribute(module, "weight", mesh, Shard(1), source)
        else:
            raise NotImplementedError("ColwiseParallel currently only support nn.Linear and nn.Embedding!")

        def before(_: Any, args: tuple) -> tuple:
            x, *rest = args
            if isinstance(self.input_layouts, Shard):
                x = gathered(group, x, self.input_layouts.dim, x.requires_grad)
            elif x.requires_grad:
                x = spread(group, x)
            return (x, *rest)

        module.register_forward_pre_hook(before)
        module.register_forward_hook(lambda _, args, y: moved(group, y, Shard(-1), self.output_layouts))
        return module


class RowwiseParallel(ParallelStyle):
    """Each rank has the weights of some input features of a Linear, or of some entries of an Embedding.

    - `input_layouts` (Placement, default None): how the input lies; None is Shard(-1) (of an Embedding Replicate())
    - `output_layouts` (Placement, default None): how the output is to lie; None is Replicate()
    - `use_local_output` (bool, default True): the output is a plain tensor in any case
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.input_layouts, self.output_layouts = input_layouts or Shard(-1), output_layouts or Replicate()
        self.use_local_output = use_local_output

    def apply(self, module: Any, mesh: DeviceMesh, source: int | None) -> Any:
        """Divides a Linear or an Embedding; NotImplementedError for others."""
        if isinstance(module, Linear):
            return self._linear(module, mesh, source)
        if isinstance(module, Embedding):
            return self._embedding(module, mesh, source)
        raise NotImplementedError("RowwiseParallel currently only support nn.Linear and nn.Embedding!")

    def _linear(self, module: Any, mesh: DeviceMesh, source: int | None) -> Any:
        group = mesh.get_group()
        distribute(module, "weight", mesh, Shard(1), source)
        distribute(module, "bias", mesh, Replicate(), source)
        if isinstance(self.output_layouts, Shard):
            _adds_terms(module.bias, group)

        def forward(x: Any) -> Any:
            x = moved(group, x, self.input_layouts, Shard(-1))
            y = summed(group, F.linear(x, module.weight), self.output_layouts)
            return y if module.bias is None else y + module.bias

        module.forward = forward
        return module

    def _embedding(self, module: Any, mesh: DeviceMesh, source: int | None) -> Any:
        if module.max_norm is not None or module.sparse or module.scale_grad_by_freq:
            raise NotImplementedError("RowwiseParallel: an Embedding with max_norm, sparse or scale_grad_by_freq")
        group = mesh.get_group()
        distribute(module, "weight", mesh, Shard(0), source)
        (start, *_), (count, *_) = module.weight._spec.local()
        empty = module.padding_idx

        def forward(ids: Any) -> Any:
            if isinstance(self.input_layouts, Shard) and self.input_layouts.dim not in (-1, ids.dim() - 1):
                ids = gathered(group, ids, self.input_layouts.dim, False)
            here = (ids >= start) & (ids < start + count)
            if not count:
                rows = ids.new_zeros((*ids.shape, module.embedding_dim), dtype=module.weight.dtype)
                rows = rows + module.weight.sum()  # (nothing, with a gradient: norms of gradients ask all ranks)
                return summed(group, rows, self.output_layouts)
            place = None if empty is None or not start <= empty < start + count else empty - start
            rows = F.embedding((ids - start) * here, module.weight, padding_idx=place)
            return summed(group, rows * here.unsqueeze(-1).to(rows.dtype), self.output_layouts)

        module.forward = forward
        return module


class SequenceParallel(ParallelStyle):
    """Each rank computes a part of the sequence with all of the parameters: for LayerNorm, RMSNorm, Dropout.

    - `sequence_dim` (int, default 1): the dimension that is divided; what comes in is the part of this rank
    - `use_local_output` (bool, default False): the output is a plain tensor, the part, in any case
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_dim, self.use_local_output = sequence_dim, use_local_output

    def apply(self, module: Any, mesh: DeviceMesh, source: int | None) -> Any:
        """Lets the gradients of its parameters be added up over the ranks."""
        for name in list(module._parameters):
            distribute(module, name, mesh, Replicate(), source)
            _adds_terms(module._parameters[name], mesh.get_group())
        return module


def _pairs(given: Any, wanted: Any) -> list[tuple[Placement | None, Placement | None]]:
    given = given if isinstance(given, Sequence) else (given,)
    wanted = wanted if isinstance(wanted, Sequence) else (wanted,)
    if len(given) != len(wanted):
        raise AssertionError("input_layouts and desired_input_layouts should have same length!")
    return list(zip(given, wanted, strict=True))


def _all_moved(group: Any, values: Sequence[Any], pairs: Sequence[tuple[Placement | None, Placement | None]]) -> tuple:
    if len(values) != len(pairs):
        raise ValueError(f"module inputs and input_layouts should have same length: {len(values)} and {len(pairs)}")
    return tuple(_moved(group, x, *pair) for x, pair in zip(values, pairs, strict=True))


def _moved(group: Any, x: Any, given: Placement | None, wanted: Placement | None) -> Any:
    return x if given is None or wanted is None or not isinstance(x, Tensor) else moved(group, x, given, wanted)


class PrepareModuleInput(ParallelStyle):
    """Lets the inputs of a module lie otherwise than they come.

    - `input_layouts` (Placement or tuple, default None): how each lies; None for what is no tensor
    - `desired_input_layouts` (Placement or tuple, default None): how each is to lie
    - `input_kwarg_layouts`, `desired_input_kwarg_layouts` (dict, default None): the same for keyword arguments
    - `use_local_output` (bool, default False): inputs are plain tensors in any case
    """

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self._pairs = None if input_layouts is None else _pairs(input_layouts, desired_input_layouts)
        self._given, self._wanted = input_kwarg_layouts or {}, desired_input_kwarg_layouts or {}

    def apply(self, module: Any, mesh: DeviceMesh, source: int | None) -> Any:
        """Adds a hook before forward."""
        group = mesh.get_group()

        def before(_: Any, args: tuple, kwargs: dict) -> tuple:
            args = args if self._pairs is None else _all_moved(group, args, self._pairs)
            moved_kwargs = {k: _moved(group, v, self._given.get(k), self._wanted.get(k)) for k, v in kwargs.items()}
            return args, moved_kwargs

        module.register_forward_pre_hook(before, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Lets the outputs of a module lie otherwise than they are computed.

    - `output_layouts` (Placement or tuple): how each lies
    - `desired_output_layouts` (Placement or tuple): how each is to lie
    - `use_local_output` (bool, default True): outputs are plain tensors in any case
    """

    def __init__(self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True) -> None:
        self._pairs = _pairs(output_layouts, desired_output_layouts)

    def apply(self, module: Any, mesh: DeviceMesh, source: int | None) -> Any:
        """Adds a hook behind forward."""
        group = mesh.get_group()

        def after(_: Any, args: tuple, outputs: Any) -> Any:
            if isinstance(outputs, tuple):
                return _all_moved(group, outputs, self._pairs)
            return _all_moved(group, (outputs,), self._pairs)[0]

        module.register_forward_hook(after)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """Both: arguments of `PrepareModuleInput` and of `PrepareModuleOutput`."""

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Any,
        desired_output_layouts: Any,
        use_local_output: bool = True,
    ) -> None:
        self._inputs = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
        )
        self._outputs = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts
        )

    def apply(self, module: Any, mesh: DeviceMesh, source: int | None) -> Any:
        """Adds both hooks."""
        return self._outputs.apply(self._inputs.apply(module, mesh, source), mesh, source)
