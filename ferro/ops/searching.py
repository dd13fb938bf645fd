"""Search in sorted sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend, dtypes
from ferro.core.arguments import need_tensor
from ferro.core.backend import xp_of
from ferro.core.base import TensorBase, wrap
from ferro.core.into import into
from ferro.core.notices import warn_once
from ferro.core.origins import on_one_device
from ferro.core.requirements import require
from ferro.core.samples import Arg, Sample, declare

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["bucketize", "searchsorted"]


def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Where elements would be inserted into a sorted sequence so that it stays sorted.

    - `sorted_sequence` (Tensor): (n), or (..., n) with the leading dimensions of `input`
    - `input` (Tensor or number): the elements
    - `out_int32` (bool, default False): gives int32 instead of int64
    - `right` (bool, default False): behind equal elements, not before them
    - `side` (str, default None): the same, "right" or "left"
    - `sorter` (Tensor, default None): indices that sort the sequence, in its shape
    - `out` (Tensor, default None): where to write the result

    The result has the shape of `input`. RuntimeError for shapes that do not fit and for `right` against `side`.

    Example::

        >>> import ferro
        >>> ferro.searchsorted(ferro.tensor([1, 3, 5]), ferro.tensor([0, 3, 4]))
        tensor([0, 1, 2])
    """
    name = "searchsorted"
    edges = need_tensor(name, "sorted_sequence", sorted_sequence)._data
    x = input._data if isinstance(input, TensorBase) else np.asarray(input)
    if side not in (None, "left", "right"):
        raise RuntimeError(f"{name}(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            f"torch.{name}(): side and right can't be set to opposites, got side of left while right was True"
        )
    on_one_device(name, sorted_sequence, input, sorter)
    _check_edges(name, edges, x)
    looked_at: Any = (("boundary", sorted_sequence), ("input value", input))
    for what, tensor in looked_at:
        if hasattr(tensor, "is_contiguous") and not tensor.is_contiguous():
            warn_once(
                f"{name}(): {what} tensor is non-contiguous, this will lower the performance due to extra data copy when converting "
                "non-contiguous tensor to contiguous, please use contiguous tensor if possible."
            )
    if sorter is not None:
        edges = _arranged(name, edges, need_tensor(name, "sorter", sorter)._data)
    found = xp_of(edges if type(edges) is not np.ndarray else x).searchsorted(edges, x, right or side == "right")
    return into(name, out, wrap(found.astype(np.int32) if out_int32 else found))


def _check_edges(name: str, edges: Any, x: Any) -> None:
    """Refuses a sequence whose shape does not fit the values, and complex numbers."""
    if edges.ndim == 0:
        raise RuntimeError(f"{name}(): boundaries tensor should have positive dimension, but got 0 dimension")
    if x.ndim == 0 and edges.ndim != 1:
        raise RuntimeError(
            f"{name}(): input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries tensor "
            f"dim({edges.ndim}) and input value's dim(0) numel(1)"
        )
    if edges.ndim > 1 and (edges.ndim != x.ndim or edges.shape[:-1] != x.shape[:-1]):
        raise RuntimeError(
            f"{name}(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and "
            f"input value tensor must match, but we got boundaries tensor {list(edges.shape)} and input value tensor "
            f"{list(x.shape)}"
        )
    for array in (edges, x):
        if array.dtype.kind == "c":
            raise NotImplementedError(
                f"{name}: \"searchsorted_out_cpu\" not implemented for '{dtypes.type_name(dtypes.FROM_NUMPY[array.dtype])}': complex "
                "numbers have no order"
            )


def _arranged(name: str, edges: Any, order: Any) -> Any:
    """The sequence in the order of the sorter."""
    if order.dtype is not dtypes.int64.np:
        raise RuntimeError(
            f"{name}(): sorter must be a tensor of long dtype but got dtype {dtypes.type_name(dtypes.FROM_NUMPY[order.dtype])}"
        )
    if order.shape != edges.shape:
        raise RuntimeError(
            f"{name}(): boundary and sorter must have the same size, but got boundary tensor {list(edges.shape)}and got sorter tensor "
            f"{list(order.shape)}"
        )
    last = edges.shape[-1] - 1
    require(
        (order >= 0) & (order <= last), RuntimeError, f"{name}(): sorter index out of range: allowed are 0 to {last}"
    )
    xp = backend.xp_of(order if type(edges) is backend.HOST else edges)  # (under vmap either may be batched)
    return xp.gather(edges, edges.ndim - 1, order)


def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False, out: Tensor | None = None
) -> Tensor:
    """The number of the bucket, between sorted boundaries, in which each element lies.

    - `input` (Tensor or number): the elements
    - `boundaries` (Tensor): (n), ascending
    - `out_int32` (bool, default False): gives int32 instead of int64
    - `right` (bool, default False): False: boundaries[i - 1] < x <= boundaries[i]; True: boundaries[i - 1] <= x <
      boundaries[i]
    - `out` (Tensor, default None): where to write the result

    The result has the shape of `input`. RuntimeError for boundaries of another number of dimensions.

    Example::

        >>> import ferro
        >>> ferro.bucketize(ferro.tensor([0, 3, 4]), ferro.tensor([1, 3, 5]))
        tensor([0, 1, 2])
    """
    if need_tensor("bucketize", "boundaries", boundaries)._data.ndim != 1:
        raise RuntimeError(f"bucketize: boundaries tensor must be 1 dimension, but got dim({boundaries._data.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


_EDGES = Arg(values=[1.0, 3.0, 3.0, 7.0], grad=False)
declare(
    "searchsorted",
    [
        Sample(_EDGES, Arg(values=[0.0, 3.0, 9.0])),
        Sample(_EDGES, Arg(2, 3), right=True),
        Sample(_EDGES, 3.0, side="right"),
        Sample(Arg(values=[[1.0, 2.0], [3.0, 4.0]]), Arg(2, 3), out_int32=True),
        Sample(_EDGES, Arg()),
        Sample(Arg(values=[3.0, 1.0]), Arg(3), sorter=Arg(values=[1, 0], dtype="int64")),
    ],
    differentiable=False,
)
declare(
    "bucketize",
    [Sample(Arg(values=[0.0, 3.0, 9.0]), _EDGES), Sample(Arg(2, 3), _EDGES, right=True), Sample(4.0, _EDGES)],
    differentiable=False,
)
