"""DTensor: a tensor of which each rank has a part, and the functions that make it.

Note [What a DTensor computes].  Its memory is the part of this rank, and every operation works on that and gives a plain tensor: so
layers, optimisers and kernels need to know nothing of it, and what is computed from it is of this rank. Its shape is that of
the whole. `full_tensor` puts the whole together, `to_local` is the part. PyTorch's operations on DTensors give DTensors.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

from ferro._overriding import disabled
from ferro.autograd.grad_mode import no_grad
from ferro.core.base import LEAF, wrap
from ferro.core.size import Size
from ferro.nn.parameter import Parameter
from ferro.tensor import Tensor

from ..arrays import in_order
from ..device_mesh import DeviceMesh
from .placement_types import Placement
from .spec import Spec, finish, spec_of

if TYPE_CHECKING:
    from ferro.nn.modules.module import Module


class DTensor(Tensor):
    """A tensor on the ranks of a mesh; `distribute_tensor` and `from_local` make it.

    Operations work on the part of this rank and give plain tensors: a sum is that of the part. `shape`, `size` and `numel` are those of the
    whole.

    Example::

        >>> import ferro, ferro.distributed as dist
        >>> from ferro.distributed.tensor import Shard, distribute_tensor
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> x = distribute_tensor(ferro.ones(2, 2), mesh, [Shard(0)])
        >>> x.placements, x.to_local().tolist(), x.full_tensor().shape
        ((Shard(dim=0),), [[1.0, 1.0], [1.0, 1.0]], ferro.Size([2, 2]))
        >>> dist.destroy_process_group()
    """

    __torch_function__ = disabled  # what is computed from it are tensors
    _spec: Spec

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh."""
        return self._spec.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How it lies along each dimension of the mesh."""
        return self._spec.placements

    @property
    def shape(self) -> Size:
        """The sizes of the whole."""
        return Size(self._spec.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape of the whole, or the size of one dimension."""
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        """The number of elements of the whole."""
        return math.prod(self._spec.shape)

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: Any = None,
        grad_placements: Any = None,
    ) -> DTensor:
        """The tensor whose part in this rank is the given one, which it shares memory and history with.

        - `local_tensor` (Tensor): the part
        - `device_mesh` (DeviceMesh): the ranks
        - `placements` (Placements, default None): how it lies; None is whole everywhere
        - `run_check` (bool, default False): kept
        - `shape` (ints, default None): of the whole; None takes it that all parts are alike
        - `stride`, `grad_placements` (default None): no effect
        """
        local = tuple(local_tensor._data.shape)
        if shape is None:
            shape = list(local)
            for p, count in zip(placements or (), device_mesh.shape, strict=False):
                if p.is_shard():
                    shape[p.dim] *= count  # type: ignore[attr-defined]
        spec = spec_of(device_mesh, placements, shape)
        if spec.local()[1] != local:
            raise ValueError(f"DTensor.from_local: this rank has {spec.local()[1]} of {tuple(shape)}, got {local}")
        found = local_tensor.as_subclass(DTensor)
        found._spec = spec
        return found

    def to_local(self, *, grad_placements: Any = None) -> Tensor:
        """The part of this rank, which shares its memory; gradients flow through it."""
        return self.view_as(self) if self.requires_grad else wrap(self._data)

    def full_tensor(self, *, grad_placements: Any = None) -> Tensor:
        """The whole, in every rank, without history; all ranks must ask for it."""
        with no_grad():
            return wrap(self._spec.whole_of(self._data).copy())

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: Any = None,
        backward_dtype: Any = None,
    ) -> DTensor:
        """The same tensor in other parts, without history; all ranks must ask for it.

        - `device_mesh` (DeviceMesh, default None): the ranks; None is the same
        - `placements` (Placements, default None): how it is to lie
        - `async_op` (bool, default False), `forward_dtype`, `backward_dtype` (default None): no effect
        """
        whole = self.full_tensor()
        return _of_whole(whole, spec_of(device_mesh or self.device_mesh, placements, whole._data.shape))

    def detach(self) -> DTensor:
        """The same memory without history."""
        return of_spec(super().detach()._data, self._spec)

    def clone(self, *args: Any, **kwargs: Any) -> Any:
        """A copy, in the same parts."""
        found = super().clone(*args, **kwargs).as_subclass(DTensor)
        found._spec = self._spec
        return found

    def copy_(self, src: Any, non_blocking: bool = False) -> Self:
        """Takes the values of a DTensor in the same parts, of a part, or of a whole tensor that each rank has."""
        if isinstance(src, DTensor):
            if src._spec != self._spec:
                src = src.redistribute(self.device_mesh, self.placements)
            src = wrap(src._data)
        elif tuple(src.shape) == self._spec.shape:
            src = wrap(self._spec.part_of(src.detach()._data))
        super().copy_(src, non_blocking)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            made = of_spec(self._data.copy(), self._spec, type(self), self.requires_grad)
            if self.grad is not None:
                made.grad = copy.deepcopy(self.grad, memo)
            memo[id(self)] = made
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise NotImplementedError(
            "a DTensor is a part of a tensor and is not pickled: distributed.checkpoint.save writes the parts of all ranks, "
            "and full_tensor() is the whole"
        )

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return (
            f"DTensor(local_tensor={wrap(self._data)!r}, device_mesh={self.device_mesh}, placements={self.placements})"
        )


class DParameter(DTensor, Parameter):
    """A DTensor that a module learns."""


def of_spec(data: Any, spec: Spec, cls: Any = DTensor, requires_grad: bool = False) -> Any:
    """The DTensor whose part in this rank is an array."""
    found = wrap(data, LEAF if requires_grad else None, cls)
    found._spec = spec
    return found


def _of_whole(whole: Tensor, spec: Spec, cls: Any = DTensor, requires_grad: bool = False) -> Any:
    return of_spec(in_order(spec.part_of(whole.detach()._data)), spec, cls, requires_grad)


def like(value: Any, param: Any) -> Any:
    """A tensor, or those in a dictionary, that have the shape of the part of a DTensor, as DTensors in the same parts."""
    if isinstance(value, dict):
        return {name: like(v, param) for name, v in value.items()}
    if isinstance(value, Tensor) and not isinstance(value, DTensor) and value._data.shape == param._data.shape:
        return of_spec(value._data, param._spec)
    return value


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """The DTensor whose whole is the given tensor, of the first rank of the mesh.

    - `tensor` (Tensor): the whole; a Parameter gives a parameter
    - `device_mesh` (DeviceMesh, default None): the ranks; None is all of them
    - `placements` (Placements, default None): how it is to lie along each dimension of the mesh; None is whole everywhere
    - `src_data_rank` (int, default 0): None lets each rank take its part of its own tensor

    ValueError for another number of placements, AssertionError for a dimension that the tensor has not.
    """
    mesh = DeviceMesh("cpu") if device_mesh is None else device_mesh
    if isinstance(tensor, DTensor):
        return tensor if placements is None else tensor.redistribute(mesh, placements)
    spec = spec_of(mesh, placements, tensor._data.shape)
    whole = wrap(in_order(tensor.detach()._data))
    if src_data_rank is not None:
        send_from_first(mesh, whole)
    return _of_whole(whole, spec, DParameter if isinstance(tensor, Parameter) else DTensor, tensor.requires_grad)


def send_from_first(mesh: DeviceMesh, whole: Tensor) -> None:
    """Writes the tensor of the first rank of a mesh into that of all its ranks."""
    for dim in range(mesh.ndim - 1, -1, -1):
        finish(mesh.get_group(dim).broadcast(whole, 0))


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[[Module, Any, DeviceMesh], Any] | None = None,
    output_fn: Callable[[Module, Any, DeviceMesh], Any] | None = None,
) -> Module:
    """Makes the parameters of a module DTensors, and lets functions see what goes in and comes out.

    - `module` (Module): changed in place, and returned
    - `device_mesh` (DeviceMesh, default None): the ranks; None is all of them
    - `partition_fn` (function of a name, a module and the mesh, default None): distributes parameters; those that it leaves become whole
      everywhere
    - `input_fn`, `output_fn` (functions of the module, its inputs or output, and the mesh, default None): what they give replaces those
    """
    mesh = DeviceMesh("cpu") if device_mesh is None else device_mesh
    for name, inner in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, inner, mesh)
        for key, parameter in inner._parameters.items():
            if parameter is not None and not isinstance(parameter, DTensor):
                inner.register_parameter(key, distribute_tensor(parameter, mesh))  # type: ignore[arg-type]
    if input_fn is not None:
        module.register_forward_pre_hook(lambda m, inputs: input_fn(m, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda m, inputs, outputs: output_fn(m, outputs, mesh))
    return module
