"""Sums of a tensor and a product of matrices or vectors: beta C + alpha X Y."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core import backend
from ferro.core.apply import apply
from ferro.core.arguments import factors_first, need_tensor
from ferro.core.base import TensorBase
from ferro.core.dtypes import INEXACT
from ferro.core.inplace import in_place
from ferro.core.into import into
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.product_arguments import misfit, need_ndim, same_dtype
from ferro.ops.products import adjoint, outer

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["addbmm", "addmm", "addmv", "addr", "baddbmm"]


NUMBERS = (int, float)


# -- sums of a tensor and a product ------------------------------------------------------------------------------------


def scaled(g: Any, factor: Any) -> Any:
    """g conj(factor), itself where the factor is 1."""
    return g if factor == 1 else g * factor.conjugate()


def _coefficients(name: str, input: Any, beta: Any, alpha: Any) -> tuple:
    """`beta` and `alpha` as Python numbers; an integer tensor takes integers only."""
    if type(beta) in NUMBERS and type(alpha) in NUMBERS and input._data.dtype in INEXACT:
        return beta, alpha
    found = [c._data.item() if isinstance(c, TensorBase) else c for c in (beta, alpha)]
    if input._data.dtype not in INEXACT and any(isinstance(c, (float, complex)) for c in found):
        raise RuntimeError(
            f"{name}: for integer tensors, beta and alpha must be integers, got beta={found[0]} and alpha={found[1]}"
        )
    if input._data.dtype.kind != "c" and any(isinstance(c, complex) for c in found):
        raise RuntimeError(
            f"{name}: for real tensors, beta and alpha must be real, got beta={found[0]} and alpha={found[1]}"
        )
    return tuple([int(c) if isinstance(c, bool) else c for c in found])


def _fits(have: tuple, shape: tuple) -> bool:
    """Whether a tensor of shape `have` can be broadcast to `shape`."""
    return len(have) <= len(shape) and all(s in (1, t) for s, t in zip(have[::-1], shape[::-1], strict=False))


def _add_product(op: Op, input: Any, x: Any, y: Any, beta: Any, alpha: Any, shape: tuple, out: Any) -> Any:
    """beta input + alpha x y with `input` broadcast to the `shape` of the product."""
    have = input._data.shape
    if have != shape and have != shape[1:] and not _fits(have, shape):
        raise RuntimeError(
            f"{op.name}: input of shape {list(have)} cannot be broadcast to the shape {list(shape)} of the product"
        )
    result = apply(op, (input, x, y), _coefficients(op.name, input, beta, alpha))
    return result if out is None else into(op.name, out, result)


def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *old: Any, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """beta C + alpha X Y for matrices, with C broadcast to the product.

    - `input` (Tensor): C, in a shape that broadcasts to (n, p); not read when beta is 0
    - `mat1` (Tensor): X, (n, m)
    - `mat2` (Tensor): Y, (m, p)
    - `*old` (Any): the order of older programs, the numbers first: deprecated
    - `beta`, `alpha` (number, default 1): factors
    - `out` (Tensor, default None): where to write the result

    The result is (n, p). RuntimeError for shapes and dtypes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.addmm(ferro.tensor([1.0, 2.0]), ferro.ones(2, 3), ferro.ones(3, 2), beta=10)
        tensor([[13., 23.],
                [13., 23.]])
    """
    if old:
        input, mat1, mat2, beta, alpha = factors_first("addmm", ("mat1", "mat2"), input, mat1, mat2, *old)
    same_dtype("addmm", input=input, mat1=mat1, mat2=mat2)
    need_ndim("addmm", mat1=(mat1, 2), mat2=(mat2, 2))
    a, b = mat1._data.shape, mat2._data.shape
    if a[1] != b[0]:
        raise misfit("addmm", mat1, mat2)
    return _add_product(ADDMM, input, mat1, mat2, beta, alpha, (a[0], b[1]), out)


ADDMM = Op(
    "addmm",
    lambda xp, c, x, y, /, beta, alpha: xp.addmm(c, x, y, beta, alpha),
    weight=20.0,
    c=lambda xp, g, beta: scaled(g, beta),
    x=lambda xp, g, y, alpha: scaled(xp.mm(g, y.conj().T), alpha),
    y=lambda xp, g, x, alpha: scaled(xp.mm(x.conj().T, g), alpha),
    samples=[
        Sample(Arg(3, 2), Arg(3, 4), Arg(4, 2)),
        Sample(Arg(2), Arg(3, 4), Arg(4, 2), beta=0.5, alpha=-2.0),
        Sample(Arg(), Arg(3, 0), Arg(0, 2)),
        Sample(Arg(3, 1), Arg(3, 4), Arg(4, 2), beta=0),
    ],
    complex=True,
)


def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *old: Any, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """beta c + alpha X v for a matrix X and a vector v.

    - `input` (Tensor): c, (n), or one element; not read when beta is 0
    - `mat` (Tensor): X, (n, m)
    - `vec` (Tensor): v, (m)
    - `*old` (Any): the order of older programs, the numbers first: deprecated
    - `beta`, `alpha` (number, default 1): factors
    - `out` (Tensor, default None): where to write the result

    The result is (n). RuntimeError for shapes and dtypes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.addmv(ferro.tensor([1.0, 2.0]), ferro.ones(2, 3), ferro.ones(3))
        tensor([4., 5.])
    """
    if old:
        input, mat, vec, beta, alpha = factors_first("addmv", ("mat", "vec"), input, mat, vec, *old)
    same_dtype("addmv", input=input, mat=mat, vec=vec)
    need_ndim("addmv", mat=(mat, 2), vec=(vec, 1))
    if mat._data.shape[1] != vec._data.shape[0]:
        raise misfit("addmv", mat, vec, "mat", "vec")
    return _add_product(ADDMV, input, mat, vec, beta, alpha, mat._data.shape[:1], out)


ADDMV = Op(
    "addmv",
    lambda xp, c, x, y, /, beta, alpha: xp.addmm(c, x, y, beta, alpha),
    weight=2.0,
    c=lambda xp, g, beta: scaled(g, beta),
    x=lambda xp, g, y, alpha: scaled(xp.outer(g, y.conj()), alpha),
    y=lambda xp, g, x, alpha: scaled(xp.mv(x.conj().T, g), alpha),
    samples=[
        Sample(Arg(3), Arg(3, 4), Arg(4)),
        Sample(Arg(1), Arg(3, 4), Arg(4), beta=0.5, alpha=-2.0),
        Sample(Arg(3), Arg(3, 0), Arg(0)),
    ],
    complex=True,
)


def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *old: Any, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """beta C + alpha X Y for batches of matrices.

    - `input` (Tensor): C, in a shape that broadcasts to (b, n, p); not read when beta is 0
    - `batch1` (Tensor): X, (b, n, m)
    - `batch2` (Tensor): Y, (b, m, p)
    - `*old` (Any): the order of older programs, the numbers first: deprecated
    - `beta`, `alpha` (number, default 1): factors
    - `out` (Tensor, default None): where to write the result

    The result is (b, n, p). RuntimeError for shapes and dtypes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.baddbmm(ferro.ones(1), ferro.ones(1, 2, 3), ferro.ones(1, 3, 2))
        tensor([[[4., 4.],
                 [4., 4.]]])
    """
    if old:
        input, batch1, batch2, beta, alpha = factors_first("baddbmm", ("batch1", "batch2"), input, batch1, batch2, *old)
    same_dtype("baddbmm", input=input, batch1=batch1, batch2=batch2)
    need_ndim("baddbmm", batch1=(batch1, 3), batch2=(batch2, 3))
    a, b = batch1._data.shape, batch2._data.shape
    if a[2] != b[1] or a[0] != b[0]:
        raise misfit("baddbmm", batch1, batch2, "batch1", "batch2")
    return _add_product(BADDBMM, input, batch1, batch2, beta, alpha, (a[0], a[1], b[2]), out)


BADDBMM = Op(
    "baddbmm",
    lambda xp, c, x, y, /, beta, alpha: xp.addmm(c, x, y, beta, alpha),
    weight=20.0,
    c=lambda xp, g, beta: scaled(g, beta),
    x=lambda xp, g, y, alpha: scaled(xp.matmul(g, adjoint(y)), alpha),
    y=lambda xp, g, x, alpha: scaled(xp.matmul(adjoint(x), g), alpha),
    samples=[
        Sample(Arg(2, 3, 2), Arg(2, 3, 4), Arg(2, 4, 2)),
        Sample(Arg(3, 1), Arg(2, 3, 4), Arg(2, 4, 2), beta=0.5, alpha=-2.0),
        Sample(Arg(), Arg(2, 3, 0), Arg(2, 0, 2)),
    ],
    complex=True,
)


def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *old: Any, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """beta C + alpha Σ XᵢYᵢ, the sum of the products of two batches of matrices.

    - `input` (Tensor): C, in a shape that broadcasts to (n, p); not read when beta is 0
    - `batch1` (Tensor): X, (b, n, m)
    - `batch2` (Tensor): Y, (b, m, p)
    - `*old` (Any): the order of older programs, the numbers first: deprecated
    - `beta`, `alpha` (number, default 1): factors
    - `out` (Tensor, default None): where to write the result

    The result is (n, p). RuntimeError for shapes and dtypes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.addbmm(ferro.zeros(1), ferro.ones(5, 2, 3), ferro.ones(5, 3, 2))
        tensor([[15., 15.],
                [15., 15.]])
    """
    if old:
        input, batch1, batch2, beta, alpha = factors_first("addbmm", ("batch1", "batch2"), input, batch1, batch2, *old)
    same_dtype("addbmm", input=input, batch1=batch1, batch2=batch2)
    need_ndim("addbmm", batch1=(batch1, 3), batch2=(batch2, 3))
    (n, rows, inner), (n2, inner2, columns) = batch1._data.shape, batch2._data.shape
    if inner != inner2 or n != n2:
        raise misfit("addbmm", batch1, batch2, "batch1", "batch2")
    x = batch1.permute(1, 0, 2).reshape(rows, n * inner)
    return _add_product(ADDMM, input, x, batch2.reshape(n * inner, columns), beta, alpha, (rows, columns), out)


declare(
    "addbmm",
    [
        Sample(Arg(3, 2), Arg(2, 3, 4), Arg(2, 4, 2)),
        Sample(Arg(2), Arg(2, 3, 4), Arg(2, 4, 2), beta=0.5, alpha=-2.0),
        Sample(Arg(2), Arg(0, 3, 4), Arg(0, 4, 2)),
    ],
    complex=True,
)


def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *old: Any, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """beta C + alpha x yᵀ, with the outer product of two vectors; dtypes are promoted.

    - `input` (Tensor): C, in a shape that broadcasts to (n, m); not read when beta is 0
    - `vec1` (Tensor): x, (n)
    - `vec2` (Tensor): y, (m)
    - `*old` (Any): the order of older programs, the numbers first: deprecated
    - `beta`, `alpha` (number, default 1): factors
    - `out` (Tensor, default None): where to write the result

    The result is (n, m). RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.addr(ferro.zeros(1), ferro.tensor([1.0, 2.0]), ferro.tensor([3.0, 4.0, 5.0]))
        tensor([[ 3.,  4.,  5.],
                [ 6.,  8., 10.]])
    """
    if old:
        input, vec1, vec2, beta, alpha = factors_first("addr", ("vec1", "vec2"), input, vec1, vec2, *old)
    product = outer(vec1, vec2)
    have, shape = need_tensor("addr", "input", input)._data.shape, product._data.shape
    if not _fits(have, shape):
        raise RuntimeError(
            f"addr: input of shape {list(have)} cannot be broadcast to the shape {list(shape)} of the outer product"
        )
    beta, alpha = _coefficients("addr", input, beta, alpha)
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        result = product + backend.functional.zeros_like(input)
    else:
        result = (input if beta == 1 else input * beta) + product
    return result if out is None else into("addr", out, result)


declare(
    "addr",
    [
        Sample(Arg(3, 2), Arg(3), Arg(2)),
        Sample(Arg(2), Arg(3), Arg(2), beta=0.5, alpha=-2.0),
        Sample(Arg(3, 2), Arg(3), Arg(2), beta=0),
    ],
    complex=True,
)


class SumOfProductsMethods:
    """Methods of Tensor."""

    __slots__ = ()
    addmm, addmv, addbmm, baddbmm, addr = addmm, addmv, addbmm, baddbmm, addr
    addmm_, addmv_, addbmm_ = in_place(addmm, False), in_place(addmv, False), in_place(addbmm, False)
    baddbmm_, addr_ = in_place(baddbmm, False), in_place(addr, False)
