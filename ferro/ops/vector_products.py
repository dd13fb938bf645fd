"""Products of vectors along a dimension: scalar and cross products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core.apply import apply
from ferro.core.arguments import need_tensor, one_dim
from ferro.core.casting import in_low_precision
from ferro.core.into import into
from ferro.core.op import MULTILINEAR, Op
from ferro.core.operands import promote
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.product_arguments import same_dtype

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["cross"]


@in_low_precision
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Σ conj(x) y along `dim`, the other dimensions broadcast.

    - `x`, `y` (Tensor): of shapes that broadcast
    - `dim` (int, default -1): the dimension that is summed
    - `out` (Tensor, default None): where to write the result

    RuntimeError for shapes that do not broadcast.

    Example::

        >>> import ferro
        >>> ferro.linalg.vecdot(ferro.tensor([[1.0, 2.0], [3.0, 4.0]]), ferro.tensor([1.0, 10.0]))
        tensor([21., 43.])
    """
    same_dtype("linalg.vecdot", x=x, y=y)
    dim = one_dim("linalg.vecdot", max(x._data.ndim, y._data.ndim), dim)
    product: Any = x.conj() * y
    result = product.sum(dim, dtype=product.dtype) if product._data.ndim else product
    return result if out is None else into("linalg.vecdot", out, result)


declare(
    "linalg.vecdot",
    [
        Sample(Arg(3), Arg(3)),
        Sample(Arg(2, 3), Arg(3)),
        Sample(Arg(2, 3), Arg(2, 1), dim=0),
        Sample(Arg(2, 0), Arg(2, 0)),
    ],
    complex=True,
)


def cross(input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """The cross product x × y of vectors of three elements.

    - `input`, `other` (Tensor): x and y, of one shape, or of shapes that broadcast
    - `dim` (int, default None): the dimension of the vectors, of size 3; None: the first such, with a warning
    - `out` (Tensor, default None): where to write the result

    RuntimeError where no dimension has size 3 or the shapes do not fit.

    Example::

        >>> import ferro
        >>> ferro.cross(ferro.tensor([1.0, 0.0, 0.0]), ferro.tensor([0.0, 1.0, 0.0]), dim=0)
        tensor([0., 0., 1.])
    """
    need_tensor("cross", "input", input)
    need_tensor("cross", "other", other)
    if dim is None:
        dim = next((d for d, s in enumerate(input._data.shape) if s == 3), None)
        if dim is None:
            raise RuntimeError(f"cross: no dimension of size 3 in input of shape {list(input._data.shape)}")
    return linalg_cross(input, other, dim=dim, out=out)


def linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """The cross product x × y of vectors of three elements. d(x × y) = dx × y + x × dy.

    - `input`, `other` (Tensor): x and y, of shapes that broadcast
    - `dim` (int, default -1): the dimension of the vectors, of size 3
    - `out` (Tensor, default None): where to write the result

    RuntimeError where it has another size or the shapes do not fit.

    Example::

        >>> import ferro
        >>> ferro.linalg.cross(ferro.tensor([1.0, 0.0, 0.0]), ferro.tensor([0.0, 1.0, 0.0]))
        tensor([0., 0., 1.])
    """
    a = need_tensor("linalg.cross", "input", input)._data.shape
    b = need_tensor("linalg.cross", "other", other)._data.shape
    if len(a) != len(b):
        raise RuntimeError(
            f"linalg.cross: inputs must have the same number of dimensions, got shapes {list(a)} and {list(b)}"
        )
    given, dim = dim, one_dim("linalg.cross", len(a), dim)
    if not a or a[dim] != 3 or b[dim] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {given} must have length 3. Got {a[dim] if a else 1} and {b[dim] if b else 1} in the shapes "
            f"{list(a)} and {list(b)}"
        )
    result = apply(CROSS, tuple(promote(input, other)), (dim,))
    return result if out is None else into("linalg.cross", out, result)


CROSS = Op(
    "linalg.cross",
    lambda xp, x, y, /, dim: xp.cross(x, y, dim),
    kind=MULTILINEAR,
    x=lambda xp, g, y, dim: xp.cross(y.conj(), g, dim),
    y=lambda xp, g, x, dim: xp.cross(g, x.conj(), dim),
    samples=[
        Sample(Arg(3), Arg(3)),
        Sample(Arg(2, 3), Arg(1, 3)),
        Sample(Arg(3, 2), Arg(3, 2), dim=0),
        Sample(Arg(0, 3), Arg(0, 3)),
    ],
    complex=True,
)
declare("cross", [Sample(Arg(2, 3), Arg(2, 3), 1), Sample(Arg(3, 1, 2), Arg(3, 2, 1), 0)], complex=True)


class VectorProductMethods:
    """Methods of Tensor."""

    __slots__ = ()
    cross = cross
