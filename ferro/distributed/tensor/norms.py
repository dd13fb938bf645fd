"""Norms of tensors of which each rank has a part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ferro.core.base import wrap

from ..arrays import is_host, numpy_of
from ..process_group import ReduceOp
from .spec import finish


def norm_of_parts(tensors: Sequence[Any], p: float) -> Any:
    """The p-norm (p > 0) of tensors and DTensors taken as one long vector, the same in all ranks, which must all ask for it.

    Sums are made in float64, and rounded to the dtype of the first tensor.

    >>> import ferro
    >>> norm_of_parts([ferro.tensor([3.0]), ferro.tensor([4.0])], 2.0)
    tensor(5.)
    """
    if not p > 0:
        raise NotImplementedError(f"the norm of DTensors is there for p > 0, got {p}; full_tensor() gives the whole")
    totals: dict[Any, Any] = {}
    for t in tensors:
        spec = getattr(t, "_spec", None)
        key = None if spec is None else (spec.mesh, tuple(sorted({mesh_dim for mesh_dim, _ in spec.steps})))
        xp = numpy_of(t._data)
        size = xp.abs(t._data).astype(np.float64)
        if p == math.inf:
            largest = float(size.max()) if size.size else 0.0
            totals[key] = max(totals.get(key, 0.0), largest)  # (max keeps no nan: see below)
            totals[key] = np.nan if bool(xp.isnan(size).any()) else totals[key]
        else:
            totals[key] = totals.get(key, 0.0) + float((size**p).sum())
    found = []
    for key, total in totals.items():
        value = np.array([total], np.float64)
        for mesh_dim in () if key is None else key[1]:
            op = ReduceOp.MAX if p == math.inf else ReduceOp.SUM
            finish(key[0].get_group(mesh_dim).reduce_numbers(value, op))
        found.append(value[0])
    whole = np.max(found) if p == math.inf else np.sum(found) ** (1 / p)
    first = tensors[0]._data
    return wrap(numpy_of(first).asarray(np.asarray(whole, first.dtype)))


def largest_of_ranks(value: Any, tensors: Sequence[Any]) -> None:
    """Writes the largest of the values of all ranks that have parts of some DTensors into that of each; all of them must ask."""
    groups: dict[int, Any] = {}
    for t in tensors:
        spec = getattr(t, "_spec", None)
        for mesh_dim in () if spec is None else sorted({mesh_dim for mesh_dim, _ in spec.steps}):
            group = spec.mesh.get_group(mesh_dim)
            groups.setdefault(id(group), group)
    for group in groups.values():
        if is_host(value._data):  # (a number of the processor, whatever library moves tensors)
            finish(group.reduce_numbers(value._data, ReduceOp.MAX))
        else:
            finish(group.reduce(value, ReduceOp.MAX, None))
