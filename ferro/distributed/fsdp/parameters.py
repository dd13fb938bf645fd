"""Shards: the parameters of one module that are gathered, freed and reduced together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferro.autograd.grad_mode import no_grad
from ferro.core import dtypes
from ferro.core.base import LEAF, bump, version_of, wrap
from ferro.core.provenance import caller
from ferro.nn.parameter import Parameter

from ..arrays import is_host, numpy_of
from ..device_mesh import DeviceMesh
from ..process_group import ReduceOp
from ..tensor.dtensor import DParameter, DTensor, of_spec
from ..tensor.placement_types import Replicate, Shard
from ..tensor.spec import Spec, finish
from .memory import Blocks, Pages, absent
from .policies import MixedPrecisionPolicy

FREED = 1 << 40  # is added to the counter of changes of a parameter whose memory is freed


class ShardedParameter:
    """A parameter in parts (`part`, which the optimiser steps) and as a whole (`whole`, which forward sees)."""

    def __init__(
        self, given: Any, places: list[tuple[Any, str]], mesh: DeviceMesh, policy: MixedPrecisionPolicy, offloads: bool
    ) -> None:
        self.places = places
        spec = spec_over(given, mesh)
        inner = given._data
        self._xp = numpy_of(inner)
        self.ranks, place = mesh.shape[-1], mesh.get_local_rank(mesh.ndim - 1)
        rows, *rest = inner.shape
        most = -(-rows // self.ranks)
        self._padded = self._xp.zeros((most, *rest), inner.dtype)  # of which the part is a view
        start = min(place * most, rows)
        count = min(start + most, rows) - start
        self._padded[:count] = inner[start : start + count]
        self._is_elsewhere = offloads and not is_host(inner)  # the part: in the memory of the processor
        if self._is_elsewhere:
            self._padded = wrap(self._padded).cpu()._data
        self.part = of_spec(self._padded[:count], spec, DParameter, given.requires_grad)
        self.part.__dict__.update({k: v for k, v in given.__dict__.items() if k != "_spec"})
        self.dtype = policy.param_dtype.np if policy.param_dtype and _is_float(inner.dtype) else inner.dtype
        self.reduce_dtype = policy.reduce_dtype.np if policy.reduce_dtype and _is_float(inner.dtype) else self.dtype
        self._room_shape, self._shape = (most * self.ranks, *rest), tuple(inner.shape)
        self._absent: Any = None
        self.memory: Any = (Pages if is_host(inner) else Blocks)(self._room_shape, self.dtype)
        self.whole: Any = wrap(self._shown(), LEAF if given.requires_grad else None, Parameter)
        if isinstance(given, DTensor):
            self.whole = of_spec(self._shown(), given._spec, DParameter, given.requires_grad)
        self.counter = version_of(self.whole)
        self._seen: Any = None
        self._is_freed = False
        self._grads: Any = None
        self.was_used = self._had = False

    def _shown(self) -> Any:
        """The array of the whole; while there is none, one of its shape."""
        room = self.memory.array
        if room is not None:
            return room[: self._shape[0]]
        if self._absent is None:
            self._absent = absent(self._shape, self.dtype)
        return self._absent

    def _show(self) -> None:
        """Gives the whole the array that there is; pages have one alone."""
        if type(self.memory) is Blocks:
            self.whole._data = self._shown()

    # -- the whole

    def begin(self, group: Any) -> Any:
        """Begins to gather the whole from the parts of all ranks."""
        self._padded = self._with_part()
        room = self.memory.take()
        part = self._padded if self._padded.dtype == self.dtype else self._padded.astype(self.dtype)
        if self._is_elsewhere:
            part = wrap(part).to("cuda")._data
        return group.gather_memory(room, part)

    def _with_part(self) -> Any:
        """The padded memory of the part; another one if the part has been given other data."""
        data = self.part._data
        xp = numpy_of(self._padded)
        if data.size == 0 or xp.may_share_memory(data, self._padded):
            return self._padded
        fresh = xp.zeros_like(self._padded)
        fresh[: len(data)] = data
        self.part.data = wrap(fresh[: len(data)])
        return fresh

    def arrived(self) -> None:
        """The whole is there: what was saved of it may be used, unless the part has been changed since."""
        seen = (version_of(self.part).n, id(self._padded))
        self._show()
        if self._is_freed:
            self.counter.n -= FREED
            self._is_freed = False
        if seen != self._seen:
            bump(self.whole, "fully_shard (parameters that are gathered again)")
        self._seen = seen

    def free(self) -> None:
        """Gives the memory of the whole back."""
        if not self._is_freed:
            self.counter.n += FREED
            self.counter.last = "fully_shard, which has freed the parameter behind its forward,", caller(), ()
            self._is_freed = True
        self.memory.free()
        self._show()

    def put(self, is_whole: bool) -> None:
        """Gives the modules the whole or the part."""
        for module, name in self.places:
            module._parameters[name] = self.whole if is_whole else self.part

    # -- its gradient

    def begin_reduce(self, group: Any, op: ReduceOp) -> Any:
        """Begins to add the gradients of all ranks; zeros where there is none here."""
        grad = self.whole.grad
        self.was_used, self._had = grad is not None, self.part.grad is not None
        data = self._xp.zeros(self._shape, self.dtype) if grad is None else grad._data
        given = self._xp.ascontiguousarray(data, dtype=self.reduce_dtype)
        if given.shape != self._room_shape:
            padded = self._xp.zeros(self._room_shape, self.reduce_dtype)
            padded[: len(given)] = given
            given = padded
        self.whole.grad = None
        self._grads = self._xp.empty(self._padded.shape, self.reduce_dtype)
        return group.reduce_scatter_memory(self._grads, given, op)

    def end_reduce(self, replicas: Any, factor: float | None) -> None:
        """Adds the sum of the gradients to that of the part."""
        grads, self._grads = self._grads, None
        if replicas is not None:
            total = wrap(grads)
            finish(replicas.reduce(total, ReduceOp.AVG if factor is None else ReduceOp.SUM, None))
        if factor is not None:
            wrap(grads).div_(factor)
        found = grads[: len(self.part._data)].astype(self.part._data.dtype, copy=False)
        if self._is_elsewhere:
            found = wrap(found).cpu()._data
        if self.part.grad is None:
            self.part.grad = of_spec(found, self.part._spec)
        else:
            self.part.grad += wrap(found)

    def drop_gradient_unless(self, was_used: bool) -> None:
        """Leaves no gradient where there was none before, and none has come."""
        if not was_used and not self._had:
            self.part.grad = None


def _is_float(dtype: Any) -> bool:
    return dtype in dtypes.INEXACT and dtype.kind != "c"


def spec_over(given: Any, mesh: DeviceMesh) -> Spec:
    """The spec of a parameter whose rows are divided over the last dimension of a mesh, besides what is divided already."""
    own = (*[Replicate()] * (mesh.ndim - 1), Shard(0))
    if not isinstance(given, DTensor):
        return Spec(mesh, own, tuple(given._data.shape), ((mesh.ndim - 1, 0),))
    inner = given._spec
    root = mesh._root
    if root is None or inner.mesh._root is not root:
        raise ValueError(f"fully_shard: {mesh} and {inner.mesh}, on which a parameter lies, must be parts of one mesh")
    both = root[(*(mesh.mesh_dim_names or ()), *(inner.mesh.mesh_dim_names or ()))]
    steps = tuple((d + mesh.ndim, dim) for d, dim in inner.steps)
    return Spec(both, (*own, *inner.placements), inner.shape, (*steps, (mesh.ndim - 1, 0)))


class Shards:
    """The parameters of one module that are gathered, freed and reduced together."""

    def __init__(
        self,
        given: Sequence[tuple[Any, list[tuple[Any, str]]]],
        mesh: DeviceMesh,
        policy: MixedPrecisionPolicy,
        offloads: bool = False,
    ) -> None:
        with no_grad():
            self.parameters = [ShardedParameter(p, places, mesh, policy, offloads) for p, places in given]
        groups = _groups(mesh)
        self._gathers, self.reduces = groups
        self._replicas = mesh.get_group(0) if mesh.ndim == 2 else None
        self.learned = [p for p in self.parameters if p.part.requires_grad]
        self.on_gpu = any(type(p.memory) is Blocks for p in self.parameters)
        self.is_whole, self.reshards_after_backward, self.syncs = False, True, True
        self.factor: float | None = None  # by which sums of gradients are divided; None: the number of ranks
        self._pending: list[Any] | None = None
        self._reducing: list[Any] | None = None
        self.missing: set[int] = set()  # the parameters whose gradient this backward has not brought yet
        for p in self.parameters:
            p.put(False)

    def begin(self) -> None:
        """Begins to gather the parameters, unless they are there or on their way."""
        if self._pending is None and not self.is_whole:
            self._pending = [p.begin(self._gathers) for p in self.parameters]

    def is_on_its_way(self) -> bool:
        """Whether the parameters travel, and nobody has waited for them."""
        return self._pending is not None

    def unshard(self) -> None:
        """Has the parameters whole."""
        self.begin()
        if self._pending is None:
            return
        for pending, p in zip(self._pending, self.parameters, strict=True):
            finish(pending)
            p.arrived()
            p.put(True)
        self._pending, self.is_whole = None, True

    def reshard(self) -> None:
        """Frees the whole parameters."""
        if self._pending is not None:
            self.unshard()
        if self.is_whole:
            for p in self.parameters:
                p.put(False)
                p.free()
            self.is_whole = False

    def holds(self, array: Any) -> bool:
        """Whether an array shows memory of the whole parameters."""
        return is_host(array) != self.on_gpu and any(p.memory.holds(array) for p in self.parameters)

    def begin_reduce(self) -> None:
        """Begins to reduce the gradients."""
        op = ReduceOp.AVG if self.factor is None else ReduceOp.SUM
        self._reducing = [p.begin_reduce(self.reduces, op) for p in self.learned]

    def end_reduce(self) -> None:
        """The gradients are there."""
        if self._reducing is not None:
            for pending, p in zip(self._reducing, self.learned, strict=True):
                finish(pending)
                p.end_reduce(self._replicas, self.factor)
            self._reducing = None

    def progress(self) -> None:
        """Lets MPI go on, which it does while it is called."""
        for pending in (*(self._pending or ()), *(self._reducing or ())):
            if pending is not None:
                pending.done()


def _groups(mesh: DeviceMesh) -> tuple[Any, Any]:
    """A group for what is gathered and one for what is reduced: with threads, ranks may begin the two in different orders."""
    found = mesh.__dict__.get("_fsdp_groups")
    if found is None:
        group = mesh.get_group(mesh.ndim - 1)
        found = mesh.__dict__["_fsdp_groups"] = (group.twin(), group.twin())
        for one in found if mesh.device_type == "cuda" else ():
            one.begin_together()
    return found
