"""Reductions: sums, means, extrema, variances, and whether all or any hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core import dtypes
from ferro.core.apply import unary
from ferro.core.arguments import into, many_dims
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["sum"]

REDUCED = [Sample(Arg()), Sample(Arg(3, 4)), Sample(Arg(3, 4), 0), Sample(Arg(3, 4), -1, True), Sample(Arg(2, 3, 2), (0, 2)),
           Sample(Arg(2, 3, 2), (-1, 0), keepdim=True), Sample(Arg(0, 3), 0), Sample(Arg(1, 3), 0)]  # fmt: skip


def spread(xp: Any, g: Any, shape: tuple, dim: tuple, keepdim: bool) -> Any:
    """The cotangent of a reduction over `dim`, expanded to the `shape` of its input."""
    if not keepdim:
        g = xp.reshape(g, tuple([1 if d in dim else s for d, s in enumerate(shape)]))
    return xp.expand(g, shape)


def sum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None) -> Tensor:
    """The sum of the elements over the dimensions `dim` (all by default); integers are summed as int64."""
    dim = many_dims("sum", input._data.ndim, dim)
    if dtype is not None:
        input = input.to(dtype)
    elif input._data.dtype.kind in "biu":
        input = input.to(dtypes.int64)
    result = unary(SUM, input, (dim, keepdim))
    return result if out is None else into("sum", out, result)


SUM = Op("sum", lambda xp, x, /, dim, keepdim: xp.sum(x, dim, keepdim), kind=LINEAR,
         x=lambda xp, g, x_shape, dim, keepdim: spread(xp, g, x_shape, dim, keepdim),
         samples=REDUCED, complex=True)  # fmt: skip


class ReductionMethods:
    """Methods of Tensor."""

    __slots__ = ()
    sum = sum
