"""Products of matrices, vectors and stacks of them; linear maps; Kronecker and cross products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ferro.core import backend
from ferro.core.apply import apply, binary, of_array, promote
from ferro.core.arguments import factors_first, into, need_tensor, one_dim
from ferro.core.base import TensorBase
from ferro.core.casting import LOW, brought_together, in_low_precision, lowered
from ferro.core.dtypes import FROM_NUMPY, INEXACT, type_name
from ferro.core.inplace import in_place
from ferro.core.op import MULTILINEAR, Op
from ferro.core.samples import Arg, Sample, declare

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul", "cross", "dot", "ger",
           "matmul", "mm", "mv", "outer", "vdot"]  # fmt: skip


NUMBERS = (int, float)

# -- errors ------------------------------------------------------------------------------------------------------------


def same_dtype(name: str, **operands: Any) -> None:
    """Refuses operands of different dtypes, and bool ones."""
    dtype = None
    for argument, t in operands.items():
        if t is not None:
            found = need_tensor(name, argument, t)._data.dtype
            if dtype is None:
                dtype = found
            elif found is not dtype and not (name in LOW and brought_together(found, dtype)):
                raise _mixed_dtypes(name, operands)
    if dtype is not None and dtype.kind == "b":
        raise RuntimeError(f"{name}: products of bool tensors are not implemented; convert them to an integer dtype")


def _mixed_dtypes(name: str, operands: dict) -> Exception:
    tensors = {argument: need_tensor(name, argument, t) for argument, t in operands.items() if t is not None}
    given = ", ".join(f"{argument} is {FROM_NUMPY[t._data.dtype]}" for argument, t in tensors.items())
    return RuntimeError(
        f"{name}: expected all operands to have the same dtype, but {given}; convert one with .to(dtype)"
    )


def need_ndim(name: str, **wanted: Any) -> None:
    """Refuses a tensor with another number of dimensions than wanted: ``mat2=(tensor, 2)``."""
    for argument, (t, ndim) in wanted.items():
        if t._data.ndim != ndim:
            kind = {1: "vector", 2: "matrix", 3: "batch of matrices"}[ndim]
            raise RuntimeError(
                f"{name}: {argument} must be a {kind} ({ndim} dimensions), got shape {list(t._data.shape)}"
            )


def misfit(name: str, x: Any, y: Any, first: str = "mat1", second: str = "mat2") -> RuntimeError:
    """The error for matrices that cannot be multiplied, with a hint where a transposition helps."""
    a, b = x._data.shape, y._data.shape
    text = "x".join(map(str, a[-2:])) + " and " + "x".join(map(str, b[-2:]))
    if len(a) > 1 and len(b) > 1 and a[:-2] != b[:-2] and a[-1] == b[-2]:
        return RuntimeError(
            f"{name}: the leading dimensions of {first}, shape {list(a)}, and {second}, shape {list(b)}, do not fit; "
            "each pair of sizes must be equal" + (", or one of them 1" if name == "matmul" else "")
        )
    hint = ""
    if len(b) > 1 and a[-1] == b[-1]:
        hint = f"; they fit with {second} transposed ({second}.mT)"
    elif len(a) > 1 and a[-2] == b[-2 if len(b) > 1 else 0]:
        hint = f"; they fit with {first} transposed ({first}.mT)"
    return RuntimeError(
        f"{name}: {first} and {second} shapes cannot be multiplied ({text}): the last size of {first}, {a[-1]}, must "
        f"equal the {'second to last' if len(b) > 1 else 'only'} size of {second}, {b[-2 if len(b) > 1 else 0]} "
        f"(shapes {list(a)} and {list(b)}){hint}"
    )


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


# -- linear maps -------------------------------------------------------------------------------------------------------


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b over the last dimension: one operation. dx = G W, dW = Gᵀ x and db = Σ G over the leading dimensions.

    - `input` (Tensor): x, (..., in)
    - `weight` (Tensor): W, (out, in), or (in)
    - `bias` (Tensor, default None): b, (out)

    The result is (..., out). RuntimeError for shapes and dtypes that do not fit.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.linear(ferro.tensor([[1.0, 2.0]]), ferro.tensor([[3.0, 4.0], [5.0, 6.0]]), ferro.tensor([0.0, 1.0]))
        tensor([[11., 18.]])
    """
    try:
        a, w = input._data, weight._data
    except AttributeError:
        a, w = need_tensor("linear", "input", input)._data, need_tensor("linear", "weight", weight)._data
    if a.dtype is not w.dtype or (bias is not None and bias._data.dtype is not a.dtype) or a.dtype.kind == "b":
        same_dtype("linear", input=input, weight=weight, bias=bias)
    if w.ndim != 2 or a.ndim == 0:
        return _linear_vector(input, weight, bias)
    if a.shape[-1] != w.shape[1]:
        raise RuntimeError(
            f"linear: the last size of input, {a.shape[-1]}, must equal the number of input features of weight, "
            f"{w.shape[1]} (input and weight shapes cannot be multiplied: {list(a.shape)} and {list(w.shape)})"
            + ("; weight is (out_features, in_features): pass it transposed" if a.shape[-1] == w.shape[0] else "")
        )
    if bias is None:
        return binary(MAP, input, weight)
    if bias._data.shape == w.shape[:1]:
        return apply(LINEAR, (input, weight, bias))
    return binary(MAP, input, weight) + bias


def _linear_vector(x: Any, w: Any, b: Any) -> Any:
    """`linear` with a weight vector (one output without a dimension of its own)."""
    if x._data.ndim == 0 or w._data.ndim != 1:
        raise RuntimeError(
            f"linear: input must have at least one dimension and weight one or two, got shapes {list(x._data.shape)} "
            f"and {list(w._data.shape)}"
        )
    out = matmul(x, w)
    return out if b is None else out + b


def _flat(x: Any) -> Any:
    """x as a matrix: its leading dimensions taken together."""
    if x.ndim == 2:
        return x
    rows = 1
    for s in x.shape[:-1]:
        rows *= s
    return x.reshape((rows, x.shape[-1]))


LINEAR = Op(
    "linear",
    lambda xp, x, w, b: xp.linear(x, w, b),
    weight=20.0,
    x=lambda xp, g, w: xp.matmul(g, w.conj()),
    w=lambda xp, g, x: xp.mm(_flat(g).T, _flat(x).conj()),
    b=lambda xp, g: xp.leading_sum(g),
    path="nn.functional.linear",
    samples=[
        Sample(Arg(3, 4), Arg(2, 4), Arg(2)),
        Sample(Arg(4), Arg(2, 4), Arg(2)),
        Sample(Arg(2, 3, 4), Arg(2, 4), Arg(2)),
        Sample(Arg(3, 4), Arg(2, 4)),
        Sample(Arg(3, 4), Arg(4)),
        Sample(Arg(0, 4), Arg(2, 4), Arg(2)),
        Sample(Arg(2, 0), Arg(3, 0), Arg(3)),
        Sample(Arg(2, 1, 2, 3), Arg(2, 3)),
    ],
    complex=True,
)

MAP = Op(
    "linear_map",
    lambda xp, x, w: xp.linear(x, w),
    kind=MULTILINEAR,
    weight=20.0,
    x=lambda xp, g, w: xp.matmul(g, w.conj()),
    w=lambda xp, g, x: xp.mm(_flat(g).T, _flat(x).conj()),
)


# -- chains and powers -------------------------------------------------------------------------------------------------


def multi_dot(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """The product of two or more matrices, multiplied in the order that costs least.

    - `tensors` (sequence of Tensors): matrices; the first and the last may be vectors
    - `out` (Tensor, default None): where to write the result

    RuntimeError for sizes that do not fit and fewer than two tensors.

    Example::

        >>> import ferro
        >>> ferro.linalg.multi_dot([ferro.ones(2, 3), ferro.ones(3, 1), ferro.ones(1, 2)])
        tensor([[3., 3.],
                [3., 3.]])
    """
    chain = list(tensors)
    if len(chain) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(chain)}")
    same_dtype("multi_dot", **{f"tensor {i}": t for i, t in enumerate(chain)})
    for i, t in enumerate(chain):
        end = i in (0, len(chain) - 1)
        if t._data.ndim != 2 and not (end and t._data.ndim == 1):
            raise RuntimeError(f"multi_dot(): tensor {i} must be {'1D or ' if end else ''}2D but got {t._data.ndim}D")
        if i and chain[i - 1]._data.shape[-1] != t._data.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i - 1} and {i} with shapes {list(chain[i - 1]._data.shape)} and "
                f"{list(t._data.shape)} cannot be multiplied"
            )
    shape = (chain[0]._data.shape[:-1]) + (chain[-1]._data.shape[1:])
    if chain[0]._data.ndim == 1:
        chain[0] = chain[0].reshape(1, -1)
    if chain[-1]._data.ndim == 1:
        chain[-1] = chain[-1].reshape(-1, 1)
    splits = _best_splits([t._data.shape[0] for t in chain] + [chain[-1]._data.shape[1]])
    result = _multiply(chain, splits, 0, len(chain) - 1)
    if len(shape) < 2:
        result = result.reshape(shape)
    return result if out is None else into("multi_dot", out, result)


def _best_splits(p: list[int]) -> dict[tuple, int]:
    """Where to split the chain i..j of matrices of sizes p[i] x p[i + 1], by dynamic programming over the lengths."""
    n = len(p) - 1
    cost: dict[tuple, int] = {(i, i): 0 for i in range(n)}
    split: dict[tuple, int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            ways = [(cost[i, k] + cost[k + 1, j] + p[i] * p[k + 1] * p[j + 1], k) for k in range(i, j)]
            cost[i, j], split[i, j] = min(ways)
    return split


def _multiply(chain: list, splits: dict[tuple, int], i: int, j: int) -> Any:
    if i == j:
        return chain[i]
    k = splits[i, j]
    return mm(_multiply(chain, splits, i, k), _multiply(chain, splits, k + 1, j))


declare(
    "linalg.multi_dot",
    [
        Sample([Arg(2, 3), Arg(3, 4), Arg(4, 1)]),
        Sample([Arg(3), Arg(3, 2), Arg(2)]),
        Sample([Arg(2, 3), Arg(3)]),
        Sample([Arg(0, 2), Arg(2, 3), Arg(3, 2)]),
    ],
    complex=True,
)


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """The product of one or more matrices, multiplied in the order that costs least."""
    for i, m in enumerate(matrices):
        need_ndim("chain_matmul", **{f"matrix {i}": (need_tensor("chain_matmul", f"matrix {i}", m), 2)})
    if len(matrices) == 1:
        return matrices[0] if out is None else into("chain_matmul", out, matrices[0])
    return multi_dot(matrices, out=out)


declare("chain_matmul", [Sample(Arg(2, 3), Arg(3, 4), Arg(4, 1)), Sample(Arg(2, 3))], complex=True)


# -- products of vectors along a dimension -----------------------------------------------------------------------------


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
    addmm, addmv, addbmm, baddbmm, addr = addmm, addmv, addbmm, baddbmm, addr
    addmm_, addmv_, addbmm_ = in_place(addmm, False), in_place(addmv, False), in_place(addbmm, False)
    baddbmm_, addr_ = in_place(baddbmm, False), in_place(addr, False)
    cross = cross
