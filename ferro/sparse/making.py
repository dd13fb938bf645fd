"""Making sparse tensors: of indices and values, by rows or columns, of dense tensors, of diagonals."""

from __future__ import annotations

import math
from typing import Any

from ferro.batched.array import numbers
from ferro.batched.near import host, zeros_near
from ferro.batched.near import near as np
from ferro.core import backend
from ferro.core import device as _device
from ferro.core.base import TensorBase, wrap
from ferro.core.dtypes import int64, type_name
from ferro.core.layout import sparse_coo, sparse_csc, sparse_csr, strided, title
from ferro.core.size import Size
from ferro.ops.creation import zeros
from ferro.ops.data import as_tensor
from ferro.ops.uninitialised import empty
from ferro.sparse.tensor import SparseTensor


def _indices(name: str, what: str, given: Any) -> Any:
    a = given._data if isinstance(given, TensorBase) else host.asarray(given)
    if a.dtype.kind in "bc":
        raise TypeError(f"{name}: {what} must be an int64 tensor, got {as_tensor(a).dtype}")
    whole = a.astype(np.int64, copy=False)
    if a.dtype.kind == "f" and (whole != a).any():
        raise TypeError(f"{name}: {what} must be an int64 tensor, got {as_tensor(a).dtype} with fractions")
    return whole


def _placed(indices: Any, kept: Any, device: Any) -> tuple[Any, Any]:
    """Indices and values on the device that is named, or the default one; indices where the values lie."""
    where = _device.wanted(device)
    if where is not None:
        kept = kept.to(_device.known(where))
    at = backend.device_of(kept._data)
    return backend.moved(indices, at), kept


def countable(size: tuple) -> tuple:
    """The size; RuntimeError if it has more elements than an int64 counts."""
    if math.prod(size) > np.iinfo(np.int64).max:
        raise RuntimeError(f"numel: integer multiplication overflow for the size {list(size)}")
    return size


def _check_parts(place: Any, kept: Any, size: tuple) -> None:
    """RuntimeError unless indices, values and a size belong together."""
    dense = kept.ndim - 1
    if len(size) != place.shape[0] + dense:
        raise RuntimeError(
            f"number of dimensions must be sparse_dim ({place.shape[0]}) + dense_dim ({dense}), but got {len(size)}"
        )
    if kept.shape[0] != place.shape[1]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {place.shape[1]}, nnz from values: {kept.shape[0]}"
        )
    wanted = (place.shape[1], *size[place.shape[0] :])
    if tuple(kept.shape) != wanted:
        raise RuntimeError(f"values has incorrect size, expected {list(wanted)}, got {list(kept.shape)}")
    for d, row in enumerate(place):
        if row.size and row.min() < 0:
            raise RuntimeError(f"found negative index {row.min()} for dim {d}")
        if row.size and row.max() >= size[d]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {d}, size is {size[d]} but found index {row.max()}"
            )


def _renamed(kept: Any, given: Any, requires_grad: bool) -> Any:
    """The values under another name: they share memory, but neither takes the other's shape nor asks for gradients for it."""
    if requires_grad:
        return kept.detach().requires_grad_()
    return kept.view_as(kept) if isinstance(given, TensorBase) else kept.detach()


def coo(
    indices: Any,
    values: Any,
    size: Any,
    dtype: Any,
    device: Any,
    requires_grad: bool,
    is_coalesced: bool | None,
    checked: bool,
) -> Any:
    """sparse_coo_tensor."""
    name = "sparse_coo_tensor"
    if values is None:
        size = indices if size is None else size
        if size is None:
            raise TypeError("sparse_coo_tensor: needs indices and values, or a size")
        size = countable(tuple(size))
        kept = empty(0, dtype=dtype, device=device, requires_grad=requires_grad)
        return SparseTensor(zeros_near((len(size), 0), kept._data, np.int64), kept, size, True)
    place, kept = _placed(_indices(name, "indices", indices), as_tensor(values), device)
    if dtype is not None:
        kept = kept.to(dtype)
    if place.ndim == 1 and not place.size:
        place = place.reshape(0, 0) if not kept.ndim or not kept.shape[0] else place
    if place.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(place.shape)}")
    if not kept.ndim:
        kept = kept.reshape(1)
    if size is None:
        if place.size and place.min() < 0:
            raise RuntimeError(f"found negative index {place.min()} for dim {int(np.argwhere(place.min(1) < 0)[0, 0])}")
        if not place.shape[1]:
            size = (*[0] * place.shape[0], *kept.shape[1:])
        else:
            size = (*[int(m) + 1 for m in place.max(1)], *kept.shape[1:])
    size = countable(tuple(int(s) for s in size))
    _check_parts(place, kept, size)
    kept = _renamed(kept, values, requires_grad)
    unique = place.shape[1] < 2 if is_coalesced is None else is_coalesced
    found = SparseTensor(place, kept, size, bool(unique))
    if unique and checked:
        flat = found.flat()
        if (flat[1:] <= flat[:-1]).any():
            raise RuntimeError(
                "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor: an index occurs "
                "twice, or they are not in order"
            )
    return found


def compressed(
    name: str,
    starts: Any,
    others: Any,
    values: Any,
    size: Any,
    dtype: Any,
    device: Any,
    requires_grad: bool,
    layout: Any,
    checked: bool,
) -> Any:
    """sparse_csr_tensor and sparse_csc_tensor: values by lines (rows, or columns), with their places in the other dimension.

    Those of a line that are not in order are put in order, and those at one place added up; refused if they are to be `checked`.
    """
    line, across = (0, 1) if layout is sparse_csr else (1, 0)
    first, second = ("crow_indices", "col_indices") if layout is sparse_csr else ("ccol_indices", "row_indices")
    starts, kept = _placed(_indices(name, first, starts), as_tensor(values), device)
    others, _ = _placed(_indices(name, second, others), kept, device)
    if dtype is not None:
        kept = kept.to(dtype)
    if starts.ndim != 1 or others.ndim != 1:
        raise RuntimeError(
            f"{name}: {first} and {second} must have one dimension (no batches), got {starts.ndim} and {others.ndim}"
        )
    if not starts.size or starts[0] != 0 or starts[-1] != others.size or (np.diff(starts) < 0).any():
        raise RuntimeError(
            f"{name}: {first} must begin with 0, not decrease and end with the number of values {others.size}"
        )
    if not kept.ndim or kept.shape[0] != others.size:
        raise RuntimeError(
            f"{name}: {second} and values must have the same number of elements, got {others.size} and {kept.numel()}"
        )
    if size is None:
        size = (starts.size - 1, int(others.max() if others.size else -1) + 1)[:: 1 if layout is sparse_csr else -1]
    size = countable(tuple(int(s) for s in size))
    if len(size) != 2 or size[line] != starts.size - 1:
        raise RuntimeError(
            f"{name}: {first} must have one element more than there are {'rows' if line == 0 else 'columns'}, got {starts.size} for "
            f"the size {list(size)}"
        )
    if others.size and (others.min() < 0 or others.max() >= size[across]):
        raise RuntimeError(
            f"{name}: `0 <= {second} < {'nrows' if across == 0 else 'ncols'}` is not satisfied for {size[across]}"
        )
    lines = np.repeat(numbers(size[line], starts, np.int64), np.diff(starts))
    place = np.stack([lines, others] if line == 0 else [others, lines])
    if (np.diff(lines * size[across] + others) > 0).all():
        return SparseTensor(place, _renamed(kept, values, requires_grad), size, True, layout)
    if checked:
        raise RuntimeError(
            f"{name}: `{second}[..., {first}[..., i - 1]:{first}[..., i]] for all i = 1, ..., {'nrows' if line == 0 else 'ncols'} "
            "are sorted and distinct along the last dimension values` is not satisfied."
        )
    found = SparseTensor(place, kept.detach() if requires_grad else kept, size).as_layout(layout)
    return found.requires_grad_() if requires_grad else found


def from_dense(dense: Any, sparse_dim: Any, layout: Any) -> Any:
    """Tensor.to_sparse."""
    n = dense.ndim if sparse_dim is None else sparse_dim
    if not (isinstance(n, int) and (0 < n <= dense.ndim or n == dense.ndim == 0)):
        raise RuntimeError(f"to_sparse: sparse_dim must be in [1, {dense.ndim}], got {sparse_dim}")
    if layout is strided:
        return dense
    if layout not in (None, sparse_coo) and n != 2:
        raise RuntimeError(f"to_sparse: expected a matrix for the layout {layout}, got {n} sparse dimensions")
    data = dense._data != 0
    any_ = data.any(axis=tuple(range(n, data.ndim))) if n < data.ndim else data
    place = np.stack(np.nonzero(any_)).astype(np.int64) if n else np.zeros((0, int(any_)), np.int64)
    if n:
        kept = dense[tuple([wrap(p) for p in place])]
    else:
        kept = dense.reshape(1)[: place.shape[1]]
    found = SparseTensor(place, kept, tuple(dense.shape), True)
    return found if layout is None else found.as_layout(layout)


def diagonals(given: Any, offsets: Any, shape: Any, layout: Any) -> Any:
    """sparse.spdiags."""
    rows = given.reshape(1, -1) if given.ndim == 1 else given
    if rows.ndim != 2:
        raise RuntimeError(f"spdiags: Diagonals must be vector or matrix, got {rows.ndim} dimensions")
    if offsets.ndim > 1:
        raise RuntimeError(f"spdiags: Offsets must be scalar or vector, got {offsets.ndim} dimensions")
    if offsets.dtype is not int64:
        raise RuntimeError(f"spdiags: Offset Tensor must have dtype Long but got {type_name(offsets.dtype)}")
    starts = offsets._data.reshape(-1)
    if len(shape) != 2:
        raise RuntimeError(f"spdiags: Output shape must be 2d, got {list(shape)}")
    if starts.size != rows.shape[0]:
        raise RuntimeError(
            f"spdiags: Number of diagonals ({rows.shape[0]}) does not match the number of offsets ({starts.size})"
        )
    if len(set(starts.tolist())) != starts.size:
        raise RuntimeError("spdiags: Offset tensor contains duplicate values")
    if layout not in (None, sparse_coo, sparse_csr, sparse_csc):
        raise RuntimeError(
            f"spdiags: Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {title(layout)}"
        )
    which, columns = np.meshgrid(
        numbers(starts.size, starts), numbers(min(rows.shape[1], shape[1]), starts), indexing="ij"
    )
    which, columns = which.reshape(-1), columns.reshape(-1)
    lines = columns - starts[which]
    inside = (lines >= 0) & (lines < shape[0])
    which, columns, lines = which[inside], columns[inside], lines[inside]
    kept = rows[wrap(which.astype(np.int64)), wrap(columns.astype(np.int64))]
    found = SparseTensor(np.stack([lines, columns]).astype(np.int64), kept, tuple(shape))
    return found if layout is None else found.as_layout(layout)


def none(shape: tuple, sparse_dim: int, dtype: Any, device: Any = None) -> SparseTensor:
    """A sparse tensor without values."""
    kept = zeros((0, *shape[sparse_dim:]), dtype=dtype, device=device)
    return SparseTensor(zeros_near((sparse_dim, 0), kept._data, np.int64), kept, countable(tuple(shape)), True)


def without_values(name: str, shape: Any, dtype: Any, layout: Any, requires_grad: bool) -> SparseTensor:
    """zeros() and empty() of a sparse layout."""
    if layout not in (sparse_coo, sparse_csr, sparse_csc):
        raise NotImplementedError(f"{name}: the layout {layout} is not supported; there are strided, COO, CSR and CSC")
    return none(shape, len(shape), dtype).as_layout(layout).requires_grad_(requires_grad)


def of_old(name: str, dtype: Any, args: tuple, kwargs: dict) -> SparseTensor:
    """What the old constructors (``x.new()`` and sparse.FloatTensor) make: of indices and values (and a size), or of a size."""
    kwargs = dict(kwargs)
    _device.check(kwargs.pop("device", None))
    place, kept, size = (*args, None, None, None)[:3]
    tensors = len(args) in (2, 3) and all(isinstance(a, TensorBase) for a in args[:2])
    if kwargs or not (
        tensors or all(isinstance(a, int) for a in args) or (len(args) == 1 and isinstance(args[0], (tuple, list)))
    ):
        raise TypeError(
            f"new() received an invalid combination of arguments - got ({', '.join(type(a).__name__ for a in args)}); of a "
            "sparse tensor it takes indices, values and a size, or a size"
        )
    if tensors:
        return coo(place, kept, size, None, None, False, None, False)
    if args and not isinstance(args[0], int) and not isinstance(args[0], Size):
        raise TypeError(
            f"{name}(sequence) only accepts sizes.  Please use torch.sparse_coo_tensor() or construct a strided "
            "tensor and convert it to sparse via to_sparse."
        )
    shape = tuple(args[0]) if args and isinstance(args[0], Size) else args or (0,)
    return none(shape, len(shape), dtype)


def of_rows(rows: Any) -> SparseTensor:
    """The gradient of a table of which some rows were looked up."""
    return SparseTensor(rows.places[None], wrap(rows.values), rows.shape)
