"""Systems of linear equations of triangular matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core import return_types
from ferro.core.apply import apply
from ferro.core.casting import in_full_precision
from ferro.core.into import into
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.matrix_arguments import batches, fits, matrices, named, one_dtype, square
from ferro.ops.products import adjoint
from ferro.ops.solving import near_identity, regular

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["triangular_solve"]


@in_full_precision
def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False, out: Tensor | None = None
) -> Tensor:
    """The solution X of A X = B by substitution. dX = A⁻¹ (dB - dA X), dA a triangle.

    - `A` (Tensor): (..., n, n), of which only one triangle is read
    - `B` (Tensor): (..., n, k), or (..., k, n) with left=False
    - `upper` (bool): which triangle
    - `left` (bool, default True): False solves X A = B
    - `unitriangular` (bool, default False): takes the diagonal of A as ones
    - `out` (Tensor, default None): where to write the result

    Batches are broadcast. A zero on the diagonal gives inf and nan, no error. RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> a = ferro.tensor([[2.0, 0.0], [1.0, 1.0]])
        >>> ferro.linalg.solve_triangular(a, ferro.tensor([[2.0], [3.0]]), upper=False).tolist()
        [[1.0], [2.0]]
    """
    name = "linalg.solve_triangular"
    square(name, A)
    matrices(name, B, "B")
    one_dtype(name, A, B)
    fits(name, A, B, left)
    result = solve_tri(A, B, bool(upper), bool(left), bool(unitriangular))
    return result if out is None else into(name, out, result)


def solve_tri(a: Any, b: Any, upper: bool, left: bool, unit: bool) -> Any:
    """X of a triangular system, for matrices that fit."""
    return apply(SOLVE_TRI, (a, b), (upper, left, unit))


def _solve_tri_vjp(xp: Any, g: Any, needs: tuple, a: Any, out: Any, upper: bool, left: bool, unit: bool) -> tuple:
    gb = xp.solve_tri(adjoint(a), g, not upper, left, unit)
    if not needs[0]:
        return None, gb
    xh = adjoint(out)
    ga = -xp.matmul(gb, xh) if left else -xp.matmul(xh, gb)
    return (xp.triu(ga, int(unit)) if upper else xp.tril(ga, -int(unit))), gb


SOLVE_TRI = Op(
    "linalg.solve_triangular",
    lambda xp, a, b, /, upper, left, unit: xp.solve_tri(a, b, upper, left, unit),
    vjp=_solve_tri_vjp,
    diff=("a", "b"),
    weight=50.0,
    complex=True,
    samples=[
        Sample(Arg(3, 3, make=regular), Arg(3, 2), upper=True),
        Sample(Arg(3, 3, make=regular), Arg(3, 2), upper=False),
        Sample(Arg(3, 3, make=regular), Arg(2, 3), upper=True, left=False),
        Sample(Arg(3, 3, make=regular), Arg(2, 3), upper=False, left=False),
        Sample(Arg(2, 3, 3, make=regular), Arg(3, 2), upper=True, unitriangular=True),
        Sample(Arg(3, 3, make=regular), Arg(2, 2, 3), upper=False, left=False, unitriangular=True),
        Sample(Arg(2, 2, make=regular), Arg(3, 2, 2), upper=False),
        Sample(Arg(0, 0), Arg(0, 2), upper=True),
        Sample(Arg(0, 2, 2), Arg(2, 1), upper=False),
        Sample(Arg(33, 33, make=near_identity), Arg(33, 1), upper=True),
    ],
)


@in_full_precision
def triangular_solve(
    input: Tensor,
    A: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    *,
    out: Any = None,
) -> return_types.triangular_solve:
    """X with A X = B, and a copy of A: the older form of `linalg.solve_triangular`, (solution, cloned_coefficient).

    - `input` (Tensor): B, (..., n, k)
    - `A` (Tensor): (..., n, n), of which only one triangle is read
    - `upper` (bool, default True): which triangle
    - `transpose` (bool, default False): solves Aᵀ X = B
    - `unitriangular` (bool, default False): takes the diagonal of A as ones
    - `out` (tuple of two Tensors, default None): where to write both

    RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.triangular_solve(ferro.tensor([[2.0], [8.0]]), ferro.tensor([[2.0, 0.0], [0.0, 4.0]])).solution
        tensor([[1.],
                [2.]])
    """
    name = "triangular_solve"
    matrices(name, input, "b")
    square(name, A)
    one_dtype(name, input, A, "b", "A")
    fits(name, A, input)
    batch = batches(name, A._data.shape[:-2], input._data.shape[:-2])
    solution = solve_tri(A.mT if transpose else A, input, bool(upper) != bool(transpose), True, bool(unitriangular))
    copy = A.expand(*batch, *A._data.shape[-2:]).clone()
    return named(name, return_types.triangular_solve, (solution, copy), out)


declare(
    "triangular_solve",
    [
        Sample(Arg(3, 2), Arg(3, 3, make=regular)),
        Sample(Arg(2, 3, 1), Arg(3, 3, make=regular), upper=False),
        Sample(Arg(3, 2), Arg(3, 3, make=regular), transpose=True),
        Sample(Arg(2, 1), Arg(3, 2, 2, make=regular), False, True, True),
    ],
    complex=True,
)


class TriangleMethods:
    """Methods of Tensor."""

    __slots__ = ()
    triangular_solve = triangular_solve
