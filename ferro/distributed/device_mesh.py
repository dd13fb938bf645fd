"""DeviceMesh: the ranks as a grid, with a process group for each line of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ferro.core.base import wrap

from .group import get_rank, get_world_size, is_initialized, new_group, resolved

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """The ranks as an array of any number of dimensions; along each of them, a rank and its neighbours are a process group.

    - `device_type` (str): "cpu", or "cuda" where the default group has a library for tensors of GPUs; RuntimeError for another
    - `mesh` (array of int): the ranks; None is all of them in one dimension
    - `mesh_dim_names` (tuple of str, default None): a name for each dimension, by which parts are taken
    - `backend_override` (default None): no effect

    All ranks must make it: it makes groups. RuntimeError for more ranks than there are, or one twice.

    Example::

        >>> import ferro.distributed as dist
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = DeviceMesh("cpu", [[0]], mesh_dim_names=("dp", "tp"))
        >>> mesh["tp"].size(), mesh.get_coordinate()
        (1, (0, 0))
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        backend_override: Any = None,
        _groups: Sequence[Any] | None = None,
        _root: DeviceMesh | None = None,
    ) -> None:
        if ":" in device_type:
            raise RuntimeError(
                f"Device type with index is not supported but got {device_type}. It's recommended to pass in 'device.type'."
            )
        if device_type != "cpu" and resolved(None).libraries.get(device_type) != "nccl":
            raise RuntimeError(
                f"DeviceMesh: groups are on the CPU, got device_type={device_type!r}; for GPUs init_process_group takes "
                '"cpu:mpi,cuda:nccl"'
            )
        world = get_world_size()
        grid = np.arange(world) if mesh is None else np.asarray(getattr(mesh, "_data", mesh), dtype=np.int64)
        names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        _check(grid, names, world)
        self.device_type, self.mesh_dim_names = device_type, names
        self._grid, self._root = grid, _root
        self._parts: dict[Any, DeviceMesh] = {}  # that were taken or flattened, by their names
        self._groups = list(_groups) if _groups is not None else _lines(grid)

    @property
    def mesh(self) -> Any:
        """The ranks, an int32 tensor."""
        return wrap(self._grid.astype(np.int32))

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._grid.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of ranks along each dimension."""
        return self._grid.shape

    def size(self, mesh_dim: int | None = None) -> int:
        """How many ranks there are, along a dimension or in all."""
        return self._grid.size if mesh_dim is None else self._grid.shape[mesh_dim]

    def get_rank(self) -> int:
        """The number of this process in the default group."""
        return get_rank()

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Where this process stands; None if it is not in the mesh."""
        found = np.argwhere(self._grid == get_rank())
        return tuple(found[0].tolist()) if len(found) else None

    def _dim(self, mesh_dim: int | str | None) -> int:
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` needs to be specified when "
                    "device_mesh.ndim > 1. All groups are given by `get_all_groups()`."
                )
            return 0
        if isinstance(mesh_dim, str):
            if mesh_dim not in (self.mesh_dim_names or ()):
                raise KeyError(
                    f"Mesh dimension '{mesh_dim}' does not exist. Available mesh dimensions are: "
                    f"mesh_dim_names={self.mesh_dim_names}"
                )
            return (self.mesh_dim_names or ()).index(mesh_dim)
        return range(self.ndim)[mesh_dim]

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """The group of this process along a dimension (which may be left out if there is one): RuntimeError, KeyError, IndexError."""
        return self._groups[self._dim(mesh_dim)]

    def get_all_groups(self) -> list[Any]:
        """The group of this process along each dimension."""
        return list(self._groups)

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """The number of this process along a dimension."""
        return get_rank(self.get_group(mesh_dim))

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """The mesh of some dimensions, by name: the one of them that this process is in."""
        if self.mesh_dim_names is None:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        wanted = (names,) if isinstance(names, str) else tuple(names)
        if wanted == self.mesh_dim_names:
            return self
        if wanted not in self._parts:
            self._parts[wanted] = self._part(wanted)
        return self._parts[wanted]

    def _part(self, wanted: tuple[str, ...]) -> DeviceMesh:
        known = self.mesh_dim_names or ()
        if not set(wanted) <= set(known):
            raise KeyError(f"Invalid mesh_dim_names {wanted} specified. Valid mesh_dim_names are {list(known)}.")
        dims = [known.index(name) for name in wanted]
        others = [d for d in range(self.ndim) if d not in dims]
        here = self.get_coordinate() or (0,) * self.ndim
        whole = self._grid.transpose([*others, *dims])
        grid = whole[tuple(here[d] for d in others)]
        groups = [self._groups[d] for d in dims]
        return DeviceMesh(self.device_type, grid, mesh_dim_names=wanted, _groups=groups, _root=self._root or self)

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """All of its ranks in one dimension; all ranks must ask for it. It is kept under its name."""
        root = self._root or self
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ())
        if (name,) not in root._parts:
            dims = [root._dim(n) for n in self.mesh_dim_names or ()] or list(range(root.ndim))
            rows = root._grid.transpose([*(d for d in range(root.ndim) if d not in dims), *dims])
            rows = rows.reshape(-1, math.prod(self.shape))
            groups = _lines(rows)
            row = next((r for r in rows if get_rank() in r), rows[0])
            root._parts[(name,)] = DeviceMesh(
                self.device_type, row, mesh_dim_names=(name,), _groups=groups[-1:], _root=root
            )
        return root._parts[(name,)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMesh):
            return NotImplemented
        return self.mesh_dim_names == other.mesh_dim_names and np.array_equal(self._grid, other._grid)

    def __hash__(self) -> int:
        return hash((self._grid.tobytes(), self._grid.shape, self.mesh_dim_names))

    def __repr__(self) -> str:
        names = self.mesh_dim_names
        sizes = ", ".join(
            [f"{n}={s}" for n, s in zip(names, self.shape, strict=True)] if names else map(str, self.shape)
        )
        return f"DeviceMesh(({sizes}{',' if self.ndim == 1 and not names else ''}), '{self.device_type}')"


def _check(grid: np.ndarray, names: tuple[str, ...] | None, world: int) -> None:
    if grid.size > world:
        raise RuntimeError(f"Mesh should not be bigger than default world size {world}, but found {grid.size} ranks!")
    if len(np.unique(grid)) != grid.size or grid.size == 0 or grid.min() < 0 or grid.max() >= world:
        raise RuntimeError(
            f"DeviceMesh cannot have duplicate values or ranks outside of 0 to {world - 1}, got {grid.tolist()}"
        )
    if names is None:
        return
    if len(set(names)) != len(names):
        raise RuntimeError(f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names {names}")
    if len(names) != grid.ndim:
        raise RuntimeError(
            "mesh_shape and mesh_dim_names should have same length! Found "
            f"len(mesh_dim_names): {len(names)} and len(mesh_shape):{grid.ndim}."
        )


def _lines(grid: np.ndarray) -> list[Any]:
    """For each dimension the group that this process is in; every rank makes all of them, in one order."""
    world, found = resolved(None), []
    for dim in range(grid.ndim):
        mine: Any = None
        for line in np.moveaxis(grid, dim, -1).reshape(-1, grid.shape[dim]).tolist():
            if line == list(world.ranks):
                mine = world
                continue
            made = new_group(line, sort_ranks=False)
            if get_rank() in line:
                mine = made
        found.append(mine)
    return found


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """A mesh of the given shape over the ranks in their order; the default group is made if there is none.

    - `device_type` (str): "cpu" or "cuda"
    - `mesh_shape` (tuple of int): the number of ranks along each dimension
    - `mesh_dim_names` (tuple of str, default None): a name for each dimension
    - `backend_override` (default None): no effect

    RuntimeError for more ranks than there are, and for names that are not as many, or are one.

    Example::

        >>> import ferro.distributed as dist
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
        DeviceMesh((dp=1, tp=1), 'cpu')
        >>> dist.destroy_process_group()
    """
    if not is_initialized():
        from .group import init_process_group

        init_process_group()
    shape = tuple(mesh_shape)
    names = None if mesh_dim_names is None else tuple(mesh_dim_names)
    if names is not None and len(names) != len(shape):
        raise RuntimeError(
            "mesh_shape and mesh_dim_names should have same length! Found "
            f"len(mesh_dim_names): {len(names)} and len(mesh_shape):{len(shape)}."
        )
    return DeviceMesh(device_type, np.arange(math.prod(shape)).reshape(shape), mesh_dim_names=names)
