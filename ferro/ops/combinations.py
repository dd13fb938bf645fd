"""Grids and combinations of elements."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core.arguments import need_tensor
from ferro.core.base import wrap
from ferro.core.notices import warn_once
from ferro.core.origins import on_one_device
from ferro.core.samples import Arg, Sample, declare
from ferro.core.views import viewed
from ferro.ops.expanding import EXPAND
from ferro.ops.joining import stack
from ferro.ops.shape import RESHAPE, reshape

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["cartesian_prod", "combinations", "meshgrid"]


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinates of a grid: every tensor (of at most one dimension) expanded along the dimensions of the others.

    - `indexing`: "ij" keeps the order of the dimensions, "xy" exchanges the first two; PyTorch will change its default, so name one

    Example::

        >>> import ferro
        >>> x, y = ferro.meshgrid(ferro.tensor([1, 2]), ferro.tensor([3, 4, 5]), indexing="ij")
        >>> x
        tensor([[1, 1, 1],
                [2, 2, 2]])
        >>> y
        tensor([[3, 4, 5],
                [3, 4, 5]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for x in tensors:
        if need_tensor("meshgrid", "tensors", x)._data.ndim > 1:
            raise RuntimeError(
                f"meshgrid: Expected 0D or 1D tensor in the tensor list but got: shape {list(x._data.shape)}"
            )
        if x._data.dtype is not tensors[0]._data.dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    on_one_device("meshgrid", *tensors)
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if indexing is None:
        warn_once(
            'torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument; without it, it is "ij".'
        )
    places = list(range(len(tensors)))
    if indexing == "xy" and len(places) > 1:
        places[:2] = 1, 0
    shape = [0] * len(tensors)
    for place, x in zip(places, tensors, strict=True):
        shape[place] = x._data.size
    return tuple(
        [
            viewed(
                EXPAND,
                viewed(RESHAPE, x, (tuple([x._data.size if d == place else 1 for d in range(len(shape))]),)),
                (tuple(shape),),
            )
            for place, x in zip(places, tensors, strict=True)
        ]
    )


declare(
    "meshgrid",
    [
        Sample(Arg(2), Arg(3), indexing="ij"),
        Sample(Arg(2), Arg(), Arg(3), indexing="xy"),
        Sample([Arg(2)], indexing="ij"),
    ],
    complex=True,
)


def cartesian_prod(*tensors: Any) -> Tensor:
    """All tuples with one element from each tensor, as rows; of one tensor, its elements."""
    for x in tensors:
        if need_tensor("cartesian_prod", "tensors", x)._data.ndim != 1:
            raise RuntimeError(f"cartesian_prod: Expect a 1D vector, but got shape {list(x._data.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return stack(
        [reshape(x, (-1,)) if x._data.size else reshape(x, (0,)) for x in meshgrid(*tensors, indexing="ij")], 1
    )


declare("cartesian_prod", [Sample(Arg(2), Arg(3)), Sample(Arg(2), Arg(1), Arg(2)), Sample(Arg(3))], complex=True)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of r elements of a vector, in order, as rows.

    - `input` (Tensor): (n)
    - `r` (int, default 2): how many
    - `with_replacement` (bool, default False): whether an element may be chosen again

    The result is (choices, r). RuntimeError for other shapes and a negative r.

    Example::

        >>> import ferro
        >>> ferro.combinations(ferro.tensor([1, 2, 3]))
        tensor([[1, 2],
                [1, 3],
                [2, 3]])
    """
    if input._data.ndim != 1:
        raise RuntimeError(f"combinations: Expect a 1D vector, but got shape {list(input._data.shape)}")
    if r < 0:
        raise RuntimeError(f"combinations: Expect a non-negative number, but got {r}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    if r == 0:
        return wrap(np.zeros(0, input._data.dtype))
    index = np.array(list(choose(range(input._data.size), r)), np.int64).reshape(-1, r)
    return input[wrap(index)]
