"""Systems of linear equations of general matrices, inverses and powers of matrices."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend, return_types
from ferro.core.apply import apply, unary
from ferro.core.arguments import need_tensor
from ferro.core.casting import in_full_precision
from ferro.core.dtypes import FROM_NUMPY
from ferro.core.into import into
from ferro.core.op import Op
from ferro.core.requirements import require_accepted
from ferro.core.samples import Arg, Sample, declare, singular
from ferro.linalg_errors import Refused, raise_first
from ferro.ops.matrix_arguments import fits, matrices, named, one_dtype, square
from ferro.ops.products import adjoint, matmul

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["inverse", "matrix_power"]


def regular(rng: Any, shape: tuple) -> Any:
    """Matrices far from singular."""
    return rng.uniform(-0.3, 0.3, shape) + np.eye(*shape[-2:])


def near_identity(rng: Any, shape: tuple) -> Any:
    """Large matrices far from singular."""
    return np.eye(shape[-1]) + rng.uniform(-0.5, 0.5, shape) / shape[-1]


# -- general matrices --------------------------------------------------------------------------------------------------


@in_full_precision
def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor:
    """The solution X of A X = B. dX = A⁻¹ (dB - dA X).

    - `A` (Tensor): (..., n, n)
    - `B` (Tensor): (..., n, k), or (..., k, n) with left=False; or vectors (n,), (..., n) with the batch of A
    - `left` (bool, default True): False solves X A = B
    - `out` (Tensor, default None): where to write the result

    Batches are broadcast. LinAlgError for a singular A, RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.linalg.solve(ferro.tensor([[2.0, 0.0], [0.0, 4.0]]), ferro.tensor([2.0, 2.0])).tolist()
        [1.0, 0.5]
    """
    B, left, vector = _system("linalg.solve", A, B, left)
    try:
        result = apply(SOLVE, (A, B), (left,))
    except Refused as e:
        raise_first("linalg.solve", e.info, _UNSOLVABLE)
        raise
    if vector:
        result = result.squeeze(-1)
    return result if out is None else into("linalg.solve", out, result)


@in_full_precision
def solve_ex(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False, out: Any = None
) -> return_types.linalg_solve_ex:
    """`linalg.solve` without an error for a singular matrix: (result, info).

    - `A`, `B` (Tensor): as in `solve`
    - `left` (bool, default True): False solves X A = B
    - `check_errors` (bool, default False): raises LinAlgError after all
    - `out` (tuple of two Tensors, default None): where to write both

    info is (...), int32: 0, or the number of the first zero pivot.

    Example::

        >>> import ferro
        >>> ferro.linalg.solve_ex(ferro.zeros(2, 2), ferro.ones(2)).info.item()
        1
    """
    B, left, vector = _system("linalg.solve_ex", A, B, left)
    result, info = solve_lu(A, B, left)
    if vector:
        result = result.squeeze(-1)
    if check_errors:
        require_accepted("linalg.solve_ex", info._data, _UNSOLVABLE)
    return named("linalg.solve_ex", return_types.linalg_solve_ex, (result, info), out)


_UNSOLVABLE = "The solver failed because the input matrix is singular."


def _system(name: str, A: Any, B: Any, left: bool) -> tuple:
    """B as matrices, `left` as a bool, and whether B was a vector, of arguments that fit."""
    square(name, A)
    need_tensor(name, "B", B)
    s, t = A._data.shape, B._data.shape
    vector = len(t) == 1 or (len(t) == len(s) - 1 and t == s[:-1])
    if vector:
        B = B.unsqueeze(-1)
    matrices(name, B, "B")
    one_dtype(name, A, B)
    fits(name, A, B, left)
    return B, bool(left), vector


def solve_lu(a: Any, b: Any, left: bool) -> Any:
    """(X, info) of A X = B or X A = B, for matrices that fit."""
    return apply(SOLVE_EX, (a, b), (left,))


def _solve_vjp(xp: Any, g: Any, needs: tuple, a: Any, result: Any, lu: Any, pivots: Any, left: bool) -> tuple:
    """G_B solves the adjoint system, with the factors of forward where they were kept; G_A = -G_B Xᴴ."""
    gb = xp.solve_lu(adjoint(a), g, left)[0] if lu is None else xp.lu_packed_solve(lu, pivots, g, left, True)
    if not needs[0]:
        return None, gb
    xh = adjoint(result)
    return (-xp.matmul(gb, xh) if left else -xp.matmul(xh, gb)), gb


_SYSTEMS = [
    Sample(Arg(3, 3, make=regular), Arg(3, 2)),
    Sample(Arg(3, 3, make=regular), Arg(3)),
    Sample(Arg(2, 2, 2, make=regular), Arg(2, 2)),
    Sample(Arg(2, 3, 3, make=regular), Arg(2, 3)),
    Sample(Arg(3, 3, make=regular), Arg(2, 3), left=False),
    Sample(Arg(2, 2, make=regular), Arg(3, 2, 1)),
    Sample(Arg(2, 1, 2, 2, make=regular), Arg(3, 2, 2)),
    Sample(Arg(0, 0), Arg(0, 2)),
    Sample(Arg(0, 2, 2), Arg(2, 1)),
    Sample(Arg(2, 2, make=regular), Arg(2, 0)),
    Sample(Arg(33, 33, make=near_identity), Arg(33, 1)),
]

SOLVE_EX = Op(
    "linalg.solve_ex",
    lambda xp, a, b, /, left: xp.solve_lu(a, b, left),
    outputs=("result", "info"),
    nondiff=("info",),
    aux=("lu", "pivots"),
    vjp=_solve_vjp,
    diff=("a", "b"),
    weight=100.0,
    samples=_SYSTEMS,
    complex=True,
)
# (an output less is a quarter of the time of a small system)
SOLVE = Op(
    "linalg.solve",
    lambda xp, a, b, /, left: xp.solve(a, b, left),
    aux=("lu", "pivots"),
    diff=("a", "b"),
    weight=100.0,
    vjp=lambda xp, g, needs, a, out, lu, pivots, left: _solve_vjp(xp, g, needs, a, out, lu, pivots, left),
)
declare("linalg.solve", _SYSTEMS, complex=True)


# -- inverses ----------------------------------------------------------------------------------------------------------

_SINGULAR = (
    "The diagonal element {i} is zero, the inversion could not be completed because the input matrix is singular."
)


@in_full_precision
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverses Y of (a stack of) square matrices (..., n, n); LinAlgError for a singular one.  dY = -Y dA Y.

    Where the inverse is only multiplied with something, `linalg.solve` is quicker and more accurate.

    >>> import ferro
    >>> ferro.linalg.inv(ferro.tensor([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    try:
        result = unary(INV, square("linalg.inv", input))
    except Refused as e:
        raise_first("linalg.inv", e.info, _SINGULAR)
        raise
    return result if out is None else into("linalg.inv", out, result)


@in_full_precision
def inv_ex(A: Tensor, *, check_errors: bool = False, out: Any = None) -> return_types.linalg_inv_ex:
    """(inverse, info): `linalg.inv` without an error for a singular matrix, whose info is the number of its zero pivot.

    >>> import ferro
    >>> ferro.linalg.inv_ex(ferro.tensor([[1.0, 2.0], [2.0, 4.0]])).info.item()
    2
    """
    result, info = apply(INV_EX, (square("linalg.inv_ex", A),))
    if check_errors:
        require_accepted("linalg.inv_ex", info._data, _SINGULAR)
    return named("linalg.inv_ex", return_types.linalg_inv_ex, (result, info), out)


_REGULAR = [
    Sample(Arg(3, 3, make=regular)),
    Sample(Arg(2, 2, 2, make=regular)),
    Sample(Arg(0, 2, 2)),
    Sample(Arg(0, 0)),
    Sample(Arg(1, 1, make=regular)),
]

INV_EX = Op(
    "linalg.inv_ex",
    lambda xp, x: xp.inv_ex(x),
    outputs=("inverse", "info"),
    nondiff=("info",),
    weight=100.0,
    x=lambda xp, g, inverse: -xp.matmul(adjoint(inverse), xp.matmul(g, adjoint(inverse))),
    samples=_REGULAR,
    complex=True,
)
INV = Op(
    "linalg.inv",
    lambda xp, x: xp.inv(x),
    weight=100.0,
    x=lambda xp, g, out: -xp.matmul(adjoint(out), xp.matmul(g, adjoint(out))),
)
INV.backward_name, SOLVE.backward_name = INV_EX.backward_name, SOLVE_EX.backward_name  # as in PyTorch
declare("linalg.inv", _REGULAR, complex=True)
declare("inverse", _REGULAR, complex=True)


singular(
    "linalg.inv_ex",
    "a singular matrix",
    Sample(Arg(values=[[1.0, 2.0], [2.0, 4.0]])),
    "there is no inverse: inf and nan (linalg.inv raises LinAlgError)",
)
singular(
    "linalg.solve_ex",
    "a singular matrix",
    Sample(Arg(values=[[1.0, 2.0], [2.0, 4.0]]), Arg(values=[1.0, 0.0])),
    "there is no solution: inf and nan (linalg.solve raises LinAlgError)",
)


def matrix_power(input: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """The n-th power of (a stack of) square matrices, by repeated squaring; for n < 0 that of the inverse.

    Integer matrices have powers n >= 0.  The derivative is that of the products.

    >>> import ferro
    >>> ferro.tensor([[1, 1], [0, 1]]).matrix_power(5).tolist()
    [[1, 5], [0, 1]]
    """
    name = "linalg.matrix_power"
    shape = need_tensor(name, "A", input)._data.shape
    if len(shape) < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions, got shape {list(shape)}")
    if shape[-1] != shape[-2]:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {shape[-2]} by {shape[-1]} matrices"
        )
    try:
        n = operator.index(n)
    except TypeError:
        raise TypeError(f"{name}(): argument 'n' must be int, not {type(n).__name__}") from None
    if n < 0:
        input, n = inverse(input), -n
    result: Any
    if n == 0:
        result = backend.functional.eye(shape[-1], dtype=FROM_NUMPY[input._data.dtype]).expand(shape).clone()
        return result if out is None else into(name, out, result)
    result, power = None, input
    while True:
        if n & 1:
            result = power if result is None else matmul(result, power)
        n >>= 1
        if not n:
            break
        power = matmul(power, power)
    if result is input:
        result = input.clone()
    return result if out is None else into(name, out, result)


_POWERS = [
    *[Sample(Arg(3, 3, make=regular), n) for n in (1, 2, 3, 5, -1, -2, -5)],
    Sample(Arg(2, 2, 2), 3),
    Sample(Arg(2, 0, 0), 2),
    Sample(Arg(2, 0, 0), -2),
]
declare("linalg.matrix_power", _POWERS, complex=True)
declare("matrix_power", _POWERS[:3], complex=True)


class SolvingMethods:
    """Methods of Tensor."""

    __slots__ = ()
    inverse, matrix_power = inverse, matrix_power
