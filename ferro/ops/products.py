"""Products of two matrices, vectors or stacks of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ferro.core.apply import binary
from ferro.core.arguments import need_tensor
from ferro.core.base import TensorBase
from ferro.core.casting import lowered
from ferro.core.dtypes import FROM_NUMPY, INEXACT, type_name
from ferro.core.into import into
from ferro.core.op import MULTILINEAR, Op
from ferro.core.operands import of_array
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.product_arguments import misfit, need_ndim, same_dtype

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["bmm", "dot", "ger", "matmul", "mm", "mv", "outer", "vdot"]


# -- products of two tensors -------------------------------------------------------------------------------------------


def adjoint(x: Any) -> Any:
    """The conjugate transposes of (a stack of) matrices."""
    return x.conj().swapaxes(-1, -2)


def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product X Y of two matrices. d(X Y) = dX Y + X dY.

    - `input` (Tensor): X, (n, m)
    - `mat2` (Tensor): Y, (m, p), in the dtype of X
    - `out` (Tensor, default None): where to write the result

    The result is (n, p). RuntimeError for shapes and dtypes that do not fit; `matmul` takes batches.

    Example::

        >>> import ferro
        >>> ferro.mm(ferro.tensor([[1.0, 2.0]]), ferro.tensor([[3.0], [4.0]]))
        tensor([[11.]])
    """
    same_dtype("mm", input=input, mat2=mat2)
    need_ndim("mm", input=(input, 2), mat2=(mat2, 2))
    if input._data.shape[1] != mat2._data.shape[0]:
        raise misfit("mm", input, mat2)
    result = binary(MM, input, mat2)
    return result if out is None else into("mm", out, result)


MM = Op(
    "mm",
    lambda xp, x, y: xp.mm(x, y),
    kind=MULTILINEAR,
    weight=20.0,
    x=lambda xp, g, y: xp.mm(g, y.conj().T),
    y=lambda xp, g, x: xp.mm(x.conj().T, g),
    samples=[
        Sample(Arg(3, 4), Arg(4, 2)),
        Sample(Arg(1, 1), Arg(1, 1)),
        Sample(Arg(2, 0), Arg(0, 3)),
        Sample(Arg(0, 2), Arg(2, 3)),
    ],
    complex=True,
)


def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The products of the matrices of two batches of the same length: (b, n, k), (b, k, m) -> (b, n, m).

    Example::

        >>> import ferro
        >>> ferro.bmm(ferro.ones(10, 3, 4), ferro.ones(10, 4, 5)).shape
        ferro.Size([10, 3, 5])
    """
    same_dtype("bmm", input=input, mat2=mat2)
    need_ndim("bmm", input=(input, 3), mat2=(mat2, 3))
    if input._data.shape[2] != mat2._data.shape[1] or input._data.shape[0] != mat2._data.shape[0]:
        raise misfit("bmm", input, mat2, "batch1", "batch2")
    result = binary(BMM, input, mat2)
    return result if out is None else into("bmm", out, result)


BMM = Op(
    "bmm",
    lambda xp, x, y: xp.matmul(x, y),
    kind=MULTILINEAR,
    weight=20.0,
    x=lambda xp, g, y: xp.matmul(g, adjoint(y)),
    y=lambda xp, g, x: xp.matmul(adjoint(x), g),
    samples=[
        Sample(Arg(2, 3, 4), Arg(2, 4, 2)),
        Sample(Arg(0, 2, 2), Arg(0, 2, 3)),
        Sample(Arg(2, 2, 0), Arg(2, 0, 3)),
    ],
    complex=True,
)


def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product X v of a matrix and a vector."""
    same_dtype("mv", input=input, vec=vec)
    need_ndim("mv", input=(input, 2), vec=(vec, 1))
    if input._data.shape[1] != vec._data.shape[0]:
        raise misfit("mv", input, vec, "input", "vec")
    result = binary(MV, input, vec)
    return result if out is None else into("mv", out, result)


MV = Op(
    "mv",
    lambda xp, x, y: xp.mv(x, y),
    kind=MULTILINEAR,
    weight=2.0,
    x=lambda xp, g, y: xp.outer(g, y.conj()),
    y=lambda xp, g, x: xp.mv(x.conj().T, g),
    samples=[Sample(Arg(3, 4), Arg(4)), Sample(Arg(2, 0), Arg(0)), Sample(Arg(0, 2), Arg(2))],
    complex=True,
)


def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Σ xᵢ yᵢ of two vectors of one length, without conjugation."""
    _two_vectors("dot", input, tensor)
    result = binary(DOT, input, tensor)
    return result if out is None else into("dot", out, result)


def _two_vectors(name: str, x: Any, y: Any) -> None:
    """Refuses what is not two vectors of one dtype and length."""
    a, b = need_tensor(name, "input", x)._data, need_tensor(name, "tensor" if name == "dot" else "other", y)._data
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"{name}: 1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
    if a.dtype is not b.dtype:
        names = [type_name(FROM_NUMPY[v.dtype]) for v in (a, b)]
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {names[0]} and {names[1]} (in {name}); convert one "
            "with .to(dtype)"
        )
    same_dtype(name, input=x)
    if a.shape != b.shape:
        raise RuntimeError(
            f"{name}: inconsistent tensor size, expected tensor [{a.size}] and src [{b.size}] to have the same number of "
            f"elements, but got {a.size} and {b.size} elements respectively"
        )


DOT = Op(
    "dot",
    lambda xp, x, y: xp.dot(x, y),
    kind=MULTILINEAR,
    weight=100.0,
    x=lambda xp, g, y: g * y.conj(),
    y=lambda xp, g, x: g * x.conj(),
    samples=[Sample(Arg(4), Arg(4)), Sample(Arg(0), Arg(0))],
    complex=True,
)


def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Σ conj(xᵢ) yᵢ of two vectors of one length."""
    _two_vectors("vdot", input, other)
    result = dot(input.conj(), other)
    return result if out is None else into("vdot", out, result)


declare("vdot", [Sample(Arg(4), Arg(4)), Sample(Arg(0), Arg(0))], complex=True)


def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix xᵢ yⱼ of two vectors, whose dtypes are promoted.

    Example::

        >>> import ferro
        >>> ferro.outer(ferro.tensor([1, 2]), ferro.tensor([3, 4, 5]))
        tensor([[ 3,  4,  5],
                [ 6,  8, 10]])
    """
    need_tensor("outer", "input", input)
    need_tensor("outer", "vec2", vec2)
    need_ndim("outer", input=(input, 1), vec2=(vec2, 1))
    result = binary(OUTER, input, vec2)
    return result if out is None else into("outer", out, result)


ger = outer
OUTER = Op(
    "outer",
    lambda xp, x, y: xp.outer(x, y),
    kind=MULTILINEAR,
    x=lambda xp, g, y: xp.mv(g, y.conj()),
    y=lambda xp, g, x: xp.mv(g.T, x.conj()),
    samples=[Sample(Arg(3), Arg(2)), Sample(Arg(0), Arg(2))],
    complex=True,
)


def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of matrices, vectors, or stacks of matrices (broadcast over leading dimensions), as the operator @.

    (..., n, k) @ (..., k, m) is (..., n, m).  A vector on the left is a row, on the right a column, and its dimension is absent
    from the result.  RuntimeError if the inner sizes or the dtypes differ.

    Example::

        >>> import ferro
        >>> a, b = ferro.ones(10, 3, 4), ferro.ones(4, 5)
        >>> (a @ b).shape
        ferro.Size([10, 3, 5])
        >>> ferro.tensor([1.0, 2.0]) @ ferro.tensor([3.0, 4.0])
        tensor(11.)
    """
    try:
        a, b = input._data, other._data
        plain = a.ndim == 2 and b.ndim == 2 and a.dtype is b.dtype and a.shape[1] == b.shape[0] and a.dtype in INEXACT
    except AttributeError:
        plain = False
    result = binary(MM, input, other) if plain else _matmul(input, other)
    return result if out is None else into("matmul", out, result)


def _matmul(x: Any, y: Any) -> Any:
    """The product of any tensors."""
    x, y = lowered(x, y)
    same_dtype("matmul", input=x, other=y)
    a, b = x._data, y._data
    if a.ndim == 0 or b.ndim == 0:
        raise RuntimeError(
            f"matmul: both arguments need to be at least 1D, but they are {a.ndim}D and {b.ndim}D; use * for scalars"
        )
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise misfit("matmul", x, y, "input", "other")
    if a.ndim == 1 and b.ndim == 1:
        return binary(DOT, x, y)
    if b.ndim == 1:
        return binary(MV, x, y) if a.ndim == 2 else _matmul(x, y.reshape(-1, 1)).reshape(a.shape[:-1])
    if a.ndim == 1:
        return binary(MV, y.T, x) if b.ndim == 2 else _matmul(x.reshape(1, -1), y).reshape(*b.shape[:-2], b.shape[-1])
    if a.ndim == 2 and b.ndim == 2:
        return binary(MM, x, y)
    if a.ndim == b.ndim and a.shape[:-2] == b.shape[:-2]:
        return binary(BMM, x, y)
    if any(1 not in (s, t) and s != t for s, t in zip(a.shape[-3::-1], b.shape[-3::-1], strict=False)):
        raise misfit("matmul", x, y, "input", "other")
    return binary(MATMUL, x, y)


def _matmul_x(xp: Any, g: Any, x_shape: tuple, y: Any) -> Any:
    """G Yᴴ, summed over the stack where one matrix was multiplied by many."""
    if len(x_shape) > 2:
        return xp.matmul(g, adjoint(y))
    stack = tuple(range(2, g.ndim))
    return xp.contract(g, y.conj(), (*stack, 0, -1), (*stack, 1, -1), (0, 1))


def _matmul_y(xp: Any, g: Any, x: Any, y_shape: tuple) -> Any:
    """Xᴴ G, likewise."""
    if len(y_shape) > 2:
        return xp.matmul(adjoint(x), g)
    stack = tuple(range(2, g.ndim))
    return xp.contract(x.conj(), g, (*stack, -1, 0), (*stack, -1, 1), (0, 1))


MATMUL = Op(
    "matmul",
    lambda xp, x, y: xp.matmul(x, y),
    kind=MULTILINEAR,
    weight=20.0,
    x=_matmul_x,
    y=_matmul_y,
    samples=[
        Sample(Arg(2, 3), Arg(3, 2)),
        Sample(Arg(3), Arg(3)),
        Sample(Arg(2, 3), Arg(3)),
        Sample(Arg(3), Arg(3, 2)),
        Sample(Arg(2, 2, 3), Arg(3, 2)),
        Sample(Arg(2, 3), Arg(2, 3, 2)),
        Sample(Arg(2, 1, 2, 3), Arg(3, 3, 2)),
        Sample(Arg(2, 2, 3), Arg(3)),
        Sample(Arg(3), Arg(2, 3, 2)),
        Sample(Arg(2, 0, 3), Arg(3, 2)),
        Sample(Arg(2, 2, 0), Arg(0, 3)),
        Sample(Arg(2, 2, 3), Arg(2, 3, 2)),
        Sample(Arg(1, 2, 3), Arg(2, 3, 2)),
    ],
    complex=True,
)


def _matmul_operator(self: Any, other: Any) -> Tensor:
    if isinstance(other, np.ndarray):
        other = of_array("matmul", other)
    return matmul(self, cast("Tensor", other)) if isinstance(other, TensorBase) else NotImplemented


def _reflected_matmul(self: Any, other: Any) -> Tensor:
    if isinstance(other, np.ndarray):
        other = of_array("matmul", other)
    return matmul(cast("Tensor", other), self) if isinstance(other, TensorBase) else NotImplemented


class ProductMethods:
    """Methods of Tensor."""

    __slots__ = ()
    matmul, __matmul__ = matmul, _matmul_operator
    __rmatmul__ = _reflected_matmul
    mm, bmm, mv, dot, vdot = mm, bmm, mv, dot, vdot
    outer = ger = outer
