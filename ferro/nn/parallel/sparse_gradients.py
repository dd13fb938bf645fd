"""Gradients of tables that are sparse: the rows of all ranks are gathered, and added up in the order of the ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ferro.core import backend, dtypes
from ferro.core.base import wrap
from ferro.cpu.sparse_rows import Rows
from ferro.distributed.process_group import ProcessGroup
from ferro.distributed.tensor.spec import joined as joined_rows
from ferro.nn.modules.module import Module
from ferro.nn.modules.sparse import Embedding, EmbeddingBag
from ferro.sparse import sparse_coo_tensor


def tables(module: Module) -> set[int]:
    """The ids of parameters whose gradients are sparse: of nn.Embedding and nn.EmbeddingBag with sparse=True."""
    kinds = (Embedding, EmbeddingBag)
    return {id(m.weight) for m in module.modules() if isinstance(m, kinds) and m.sparse}


def travelled(group: ProcessGroup, parameter: Any, joined: bool, divisor: float) -> None:
    """Makes the gradient of a table the mean over the ranks; it stays None where no rank has one."""
    if not backend.is_host(parameter._data):
        _on_gpu(group, parameter, joined, divisor)
        return
    places, values = _rows(None if joined else parameter.grad, parameter)
    gathered = group.exchanged(places.tobytes())
    rows = group.exchanged(values.tobytes())
    if joined or not (any(gathered) or parameter.grad is not None):
        return
    all_places = np.concatenate([np.frombuffer(data, np.int64) for data in gathered])
    width = parameter._data.shape[1]
    all_values = np.concatenate([np.frombuffer(data, values.dtype).reshape(-1, width) for data in rows])
    found, where = np.unique(all_places, return_inverse=True)
    total = np.zeros((len(found), width), np.float32 if values.dtype in dtypes.HALF else values.dtype)
    np.add.at(total, where.reshape(-1), all_values.astype(total.dtype))
    total = (total / divisor).astype(values.dtype)
    parameter.grad = backend.tensor_class._of_rows(Rows(found, total, parameter._data.shape))


def _on_gpu(group: Any, parameter: Any, joined: bool, divisor: float) -> None:
    """The same, with rows that stay on the GPU; how many each rank has is told by MPI.

    What one place has of several ranks is added where sparse tensors add what they have twice: in the order of the ranks.
    """
    grad, width = None if joined else parameter.grad, parameter._data.shape[1]
    if grad is None:
        places = parameter.new_empty(0, dtype=dtypes.int64)
        values = parameter.new_empty(0, width)
    elif grad.is_sparse:
        together = grad.detach().coalesce()
        places, values = together.indices()[0], together.values()
    else:
        places = (grad != 0).any(1).nonzero()[:, 0]
        values = grad.detach()[places]
    told = [int.from_bytes(data) for data in group.exchanged(((len(places) << 1) + (grad is not None)).to_bytes(8))]
    if not any(told):
        return
    counts = [one >> 1 for one in told]
    if any(counts):
        places, values = (wrap(joined_rows(group, t.detach()._data, 0, counts)) for t in (places, values))
    if joined:
        return
    shape, wide = (
        tuple(parameter._data.shape),
        values.float() if values.dtype in (dtypes.float16, dtypes.bfloat16) else values,
    )
    total = sparse_coo_tensor(places[None], wide, shape).coalesce()
    mean = (total.values() / divisor).to(values.dtype)
    parameter.grad = sparse_coo_tensor(total.indices(), mean, shape, is_coalesced=True)


def _rows(grad: Any, parameter: Any) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a gradient that are not zero (of a sparse one: those that it has), and their values."""
    data = parameter._data
    if grad is None:
        return np.empty(0, np.int64), np.empty((0, data.shape[1]), data.dtype)
    if not grad.is_sparse:
        dense = grad._data
        places = np.flatnonzero((dense != 0).any(1))
        return places.astype(np.int64), np.ascontiguousarray(dense[places])
    together = grad.detach().coalesce()
    places = np.ascontiguousarray(together.indices()._data.reshape(-1), np.int64)
    return places, np.ascontiguousarray(together.values()._data)
