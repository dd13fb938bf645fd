"""Functions of square matrices, and matrices of powers."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend
from ferro.core.apply import unary
from ferro.core.arguments import need_tensor
from ferro.core.dtypes import FROM_NUMPY, INEXACT
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.products import adjoint

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["matrix_exp", "vander"]


def matrix_exp(A: Tensor) -> Tensor:
    """The exponential I + A + A²/2! + ... of (..., n, n) matrices, of any floating or complex dtype.

    By scaling and squaring of Padé approximants (Al-Mohy and Higham, "A new scaling and squaring algorithm for the
    matrix exponential").  The derivative in the direction E is the upper right block of exp [[A, E], [0, A]] (Mathias,
    "A chain rule for matrix functions and applications", theorem 2.1); its adjoint takes Aᴴ for A.

        >>> import ferro
        >>> ferro.linalg.matrix_exp(ferro.tensor([[0.0, 1.0], [0.0, 0.0]]))
        tensor([[1., 1.],
                [0., 1.]])
    """
    name = "linalg.matrix_exp"
    a = need_tensor(name, "A", A)._data
    if a.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions, got shape {list(a.shape)}")
    if a.shape[-1] != a.shape[-2]:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {a.shape[-2]} by {a.shape[-1]} matrices"
        )
    if a.dtype not in INEXACT:
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {FROM_NUMPY[a.dtype]}; "
            "convert it, e.g. with .float()"
        )
    return unary(MATRIX_EXP, A)


def _matrix_exp_x(xp: Any, g: Any, x: Any) -> Any:
    xh = adjoint(x)
    n, rows, columns = x.shape[-1], len(x.shape) - 2, len(x.shape) - 1
    upper = xp.cat([xh, g], columns)
    lower = xp.cat([xp.zeros_like(xh), xh], columns)
    return xp.matrix_exp(xp.cat([upper, lower], rows))[..., :n, n:]


MATRIX_EXP = Op(
    "linalg.matrix_exp",
    lambda xp, x: xp.matrix_exp(x),
    x=_matrix_exp_x,
    weight=200.0,
    complex=True,
    samples=[
        Sample(Arg(3, 3)),
        Sample(Arg(2, 2, 2)),
        Sample(Arg(1, 1)),
        Sample(Arg(0, 0)),
        Sample(Arg(0, 2, 2)),
        Sample(Arg(3, 3, low=-0.01, high=0.01)),
        Sample(Arg(2, 2, low=-20, high=20)),
        Sample(Arg(values=[[0.0, 0.0], [0.0, 0.0]])),
        Sample(Arg(values=[[1.0, 1.0], [0.0, 1.0]])),
    ],
)
declare("matrix_exp", [Sample(Arg(3, 3)), Sample(Arg(2, 2, 2))], complex=True)


def linalg_vander(x: Tensor, N: int | None = None) -> Tensor:
    """Powers 0 to N - 1 of the elements of x, (..., n), in a new last dimension; N = n by default.

    Integers become int64.  By cumulated products, whose derivatives hold at 0 too.

        >>> import ferro
        >>> ferro.linalg.vander(ferro.tensor([2, 3]), N=3)
        tensor([[1, 2, 4],
                [1, 3, 9]])
    """
    name = "linalg.vander"
    x = backend.functional.atleast_1d(need_tensor(name, "x", x))
    shape = x._data.shape
    count = shape[-1] if N is None else operator.index(N)
    if count <= 1:
        raise RuntimeError(f"{name}: N must be greater than 1, got {count}")
    if x._data.dtype.kind == "b":
        raise RuntimeError(f"{name}: bool tensors are not supported; convert the input, e.g. with .int()")
    fn = backend.functional
    x = x.unsqueeze(-1)
    powers = fn.cumprod(fn.expand(x, (*shape, count - 1)), len(shape))
    return fn.cat([fn.ones_like(x).to(powers.dtype), powers], len(shape))


declare(
    "linalg.vander",
    [
        Sample(Arg(3)),
        Sample(Arg(2, 3)),
        Sample(Arg(3), N=5),
        Sample(Arg(0), N=2),
        Sample(Arg(values=[0.0, 1.0, -2.0])),
        Sample(Arg(3, low=-4, high=4, dtype="int32")),
    ],
    complex=True,
)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers N - 1 to 0 (increasing=True: 0 to N - 1) of the elements of a vector, in rows; N = len(x) by default."""
    shape = need_tensor("vander", "x", x)._data.shape
    if len(shape) != 1:
        raise RuntimeError(f"vander: x must be a one-dimensional tensor, got shape {list(shape)}")
    count = shape[0] if N is None else operator.index(N)
    if count < 0:
        raise RuntimeError(f"vander: N must be non-negative, got {count}")
    if x._data.dtype.kind == "b":
        x = x.to(backend.functional.arange(1).dtype)
    if count < 2:
        return backend.functional.ones_like(x).unsqueeze(-1).expand(shape[0], count).clone()
    powers = linalg_vander(x, count)
    return powers if increasing else powers.flip(-1)


declare("vander", [Sample(Arg(n)) for n in (3, 2, 1, 0)], complex=True, reference=np.vander)


class MatrixFunctionMethods:
    """Methods of Tensor."""

    __slots__ = ()
    matrix_exp = matrix_exp
