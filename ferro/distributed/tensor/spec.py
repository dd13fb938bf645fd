"""Spec: which part of a tensor each rank of a mesh has, and how the whole is put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ferro.core.base import wrap

from ..arrays import in_order, numpy_of
from ..device_mesh import DeviceMesh
from ..process_group import ReduceOp
from .placement_types import Partial, Placement, Replicate, Shard, share

_OPS = {"sum": ReduceOp.SUM, "avg": ReduceOp.AVG, "max": ReduceOp.MAX, "min": ReduceOp.MIN}


@dataclass(frozen=True)
class Spec:
    """A tensor of `shape` on a mesh; its dimensions are divided in the order of `steps`, which are (mesh's, tensor's) dimensions."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    shape: tuple[int, ...]
    steps: tuple[tuple[int, int], ...]

    def box(self, coordinate: Sequence[int], count: int | None = None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Where the part of a rank begins in the whole, and its shape (after the first `count` steps)."""
        starts, sizes = [0] * len(self.shape), list(self.shape)
        for mesh_dim, dim in self.steps[:count]:
            start, sizes[dim] = share(sizes[dim], self.mesh.shape[mesh_dim], coordinate[mesh_dim])
            starts[dim] += start
        return tuple(starts), tuple(sizes)

    def here(self) -> tuple[int, ...]:
        """The coordinate of this rank; RuntimeError outside of the mesh."""
        found = self.mesh.get_coordinate()
        if found is None:
            raise RuntimeError(f"this rank is not in {self.mesh}")
        return found

    def local(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The box of this rank."""
        return self.box(self.here())

    def is_first(self) -> bool:
        """Whether no rank before this one has the same part."""
        divided = {mesh_dim for mesh_dim, _ in self.steps}
        return all(c == 0 for d, c in enumerate(self.here()) if d not in divided)

    def part_of(self, whole: np.ndarray) -> np.ndarray:
        """The part of this rank."""
        starts, sizes = self.local()
        return whole[tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))]

    def whole_of(self, local: np.ndarray) -> np.ndarray:
        """The whole, from the parts of all ranks; all must ask for it."""
        here, data = self.here(), local
        for mesh_dim, placement in enumerate(self.placements):
            if isinstance(placement, Partial):
                data = _added(self.mesh.get_group(mesh_dim), data, _OPS[placement.reduce_op])
        for count in range(len(self.steps), 0, -1):
            mesh_dim, dim = self.steps[count - 1]
            line = [[*here[:mesh_dim], i, *here[mesh_dim + 1 :]] for i in range(self.mesh.shape[mesh_dim])]
            lengths = [self.box(place, count)[1][dim] for place in line]
            data = joined(self.mesh.get_group(mesh_dim), data, dim, lengths)
        return data


def spec_of(mesh: DeviceMesh, placements: Sequence[Placement] | None, shape: Sequence[int]) -> Spec:
    """The spec whose dimensions are divided in the order of the mesh's: ValueError, AssertionError for placements that do not fit."""
    found = (Replicate(),) * mesh.ndim if placements is None else tuple(placements)
    if len(found) != mesh.ndim:
        raise ValueError(
            f"`placements` must have the same length as `device_mesh.ndim`! Found placements length: {len(found)}, and "
            f"device_mesh.ndim: {mesh.ndim}."
        )
    for p in found:
        if not isinstance(p, Placement):
            raise TypeError(f"placements: one of Shard, Replicate and Partial is needed, got {p!r}")
        if isinstance(p, Shard) and not -len(shape) <= p.dim < len(shape):
            raise AssertionError(f"Sharding dim {p.dim} greater than tensor ndim {len(shape)}")
    found = tuple(Shard(p.dim % len(shape)) if isinstance(p, Shard) else p for p in found)
    steps = tuple((i, p.dim) for i, p in enumerate(found) if isinstance(p, Shard))
    return Spec(mesh, found, tuple(shape), steps)


def joined(group: Any, data: np.ndarray, dim: int, lengths: Sequence[int]) -> np.ndarray:
    """The arrays of all ranks of a group, of so many elements along a dimension each, behind one another along it."""
    most = max(lengths)
    xp = numpy_of(data)
    turned = xp.moveaxis(data, dim, 0)
    given = xp.zeros((most, *turned.shape[1:]), data.dtype)
    given[: len(turned)] = turned
    outputs = [wrap(xp.empty(given.shape, given.dtype)) for _ in lengths]
    finish(group.gather(outputs, wrap(given), None))
    whole = xp.concatenate([o._data[:n] for o, n in zip(outputs, lengths, strict=True)])
    return xp.ascontiguousarray(xp.moveaxis(whole, 0, dim))


def _added(group: Any, data: np.ndarray, op: ReduceOp) -> np.ndarray:
    total = wrap(in_order(data))
    finish(group.reduce(total, op, None))
    return total._data


def finish(pending: Any) -> None:
    """Waits for an exchange, if it goes on."""
    if pending is not None:
        pending.wait()
