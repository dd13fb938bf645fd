"""parallelize_module: the layers of a module, by name, are divided over the ranks."""

from __future__ import annotations

import warnings
from fnmatch import fnmatch
from typing import Any

from ...device_mesh import DeviceMesh
from .styles import ParallelStyle


def parallelize_module(
    module: Any,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Any:
    """Divides a module, or layers in it, over the ranks of a mesh; returns it, changed.

    - `module` (Module): its parameters, where they are divided, become DTensors
    - `device_mesh` (DeviceMesh, default None): the ranks, in one dimension; None is all ranks
    - `parallelize_plan` (ParallelStyle or dict, default None): how; in a dictionary by the paths of layers, where each name may be a pattern
    - `src_data_rank` (int, default 0): the values are those of the first rank; None: each takes its part of its own

    Activations are plain tensors, the parts of this rank: a layer behind one that is divided by columns gets some of the features. ValueError for
    a mesh of several dimensions, TypeError for another plan; a path without a layer warns.

    Example::

        >>> import ferro
        >>> from ferro.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
        >>> ferro.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = ferro.nn.Sequential(ferro.nn.Linear(2, 8), ferro.nn.ReLU(), ferro.nn.Linear(8, 2))
        >>> mesh = ferro.distributed.init_device_mesh("cpu", (1,))
        >>> model = parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        >>> model[2].weight.placements, model(ferro.ones(1, 2)).shape
        ((Shard(dim=1),), ferro.Size([1, 2]))
        >>> ferro.distributed.destroy_process_group()
    """
    mesh = DeviceMesh("cpu") if device_mesh is None else device_mesh
    if mesh.ndim != 1:
        raise ValueError(
            f"parallelize_module: a mesh of one dimension is needed, got {mesh}; take part of it, mesh['tp']"
        )
    if parallelize_plan is None:
        warnings.warn(
            "No parallelize_plan is provided and auto-parallel is not supported at the moment, so this parallelize_module call "
            "will do nothing.",
            stacklevel=2,
        )
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        return parallelize_plan.apply(module, mesh, src_data_rank)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            f"Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, {type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        found = _matching(module, path.split(".")) if path else [module]
        if not found:
            warnings.warn(f"Parallelize plan key '{path}' could not be resolved: no submodule matching", stacklevel=2)
        for inner in found:
            style.apply(inner, mesh, src_data_rank)
    return module


def _matching(module: Any, path: list[str]) -> list[Any]:
    if not path:
        return [module]
    return [m for name, child in module.named_children() if fnmatch(name, path[0]) for m in _matching(child, path[1:])]
