"""Scans along one dimension: cumulative sums, products, extrema, linear recurrences, differences, trapezoidal rule."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ferro.core import backend, dtypes, return_types
from ferro.core.apply import apply, unary
from ferro.core.arguments import need_tensor, one_dim
from ferro.core.inplace import in_place
from ferro.core.into import into
from ferro.core.layout import DENSE
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, permuted, singular
from ferro.ops.extrema import INDEXED, pair_into
from ferro.ops.reductions import computed_in, need_real, renamed, summable

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "logcumsumexp"]

INF = math.inf
_SCANNED = [
    Sample(Arg(), 0),
    Sample(Arg(5), 0),
    Sample(Arg(3, 4), 0),
    Sample(Arg(2, 3, 2), -2),
    Sample(Arg(3, 0), 1),
    Sample(Arg(2, 1), -1),
]
_ZEROS = [Sample(Arg(values=[2.0, 0.0, 3.0]), 0), Sample(Arg(values=[[0.0, 4.0, 0.0, 5.0], [1.0, 0.0, 0.0, 2.0]]), 1)]


# -- what scans share --------------------------------------------------------------------------------------------------


def shift(input: Tensor, steps: int, dim: int, fill: float) -> Tensor:
    """The tensor moved by `steps` places along `dim` (backward if negative); the places left hold `fill`."""
    return unary(SHIFT, input, (steps, dim, fill))


SHIFT = Op(
    "shift",
    lambda xp, x, /, steps, dim, fill: xp.shift(x, steps, dim, fill),
    x=lambda xp, g, steps, dim: xp.shift(g, -steps, dim, 0),
)


def affine_scan(a: Tensor, b: Tensor, dim: int, reverse: bool) -> Tensor:
    """The recurrence s_k = b_k + a_k s_(k-1) along `dim`, from zero; in reverse s_k = b_k + a_k s_(k+1).

    Its adjoint is the same recurrence in the other direction: t_k = g_k + a_(k+1) t_(k+1); then db = t and
    da_k = t_k s_(k-1).
    """
    return apply(AFFINE_SCAN, (a, b), (dim, reverse))


def _adjoint(xp: Any, g: Any, a: Any, dim: int, reverse: bool) -> Any:
    return xp.affine_scan(xp.shift(a.conj(), 1 if reverse else -1, dim, 0), g, dim, not reverse)


AFFINE_SCAN = Op(
    "affine_scan",
    lambda xp, a, b, /, dim, reverse: xp.affine_scan(a, b, dim, reverse),
    a=lambda xp, g, a, out, dim, reverse: (
        _adjoint(xp, g, a, dim, reverse) * xp.shift(out, -1 if reverse else 1, dim, 0).conj()
    ),
    b=_adjoint,
)


def prod_others(input: Tensor, dim: int | None) -> Tensor:
    """At every place the product of the other elements (along `dim`, or all): exact, to any order, among zeros."""
    fn = backend.functional
    if dim is None:
        return fn.reshape(prod_others(fn.reshape(input, (-1,)), 0), input._data.shape)
    if input._data.ndim == 0:
        return fn.ones_like(input)
    before = shift(cumprod(input, dim), 1, dim, 1)
    behind = shift(cumprod(fn.flip(input, (dim,)), dim), 1, dim, 1)
    return before * fn.flip(behind, (dim,))


def picked_sum(g: Tensor, dim: int, index: Tensor) -> Tensor:
    """Zeros like g, to which g is added at `index` along `dim`: an index may repeat."""
    return apply(PICKED_SUM, (g, index), (dim,))


PICKED_SUM = Op(
    "picked_sum",
    lambda xp, x, index, /, dim: xp.picked_sum(x, dim, index),
    kind=LINEAR,
    x=lambda xp, g, index, dim: xp.value_gather(g, dim, index, True),
)


# -- sums and products -------------------------------------------------------------------------------------------------


def cumsum(input: Tensor, dim: Any = None, *, dtype: Any = None, out: Tensor | None = None, **names: Any) -> Tensor:
    """The sums x_0 + ... + x_i along `dim`.

    - `input` (Tensor): any shape
    - `dim` (int, default None): the dimension
    - `dtype` (dtype, default None): elements are cast to it first; None keeps it, and sums integers and bools as int64
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    The result has the shape of `input`. IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.tensor([1, 2, 3]).cumsum(0)
        tensor([1, 3, 6])
    """
    dim = _dim("cumsum", input, dim, names)
    result = unary(CUMSUM, summable(input, computed_in("cumsum", dtype, out)), (dim,))
    return result if out is None else into("cumsum", out, result)


def _dim(name: str, input: Any, dim: Any, names: dict) -> int:
    if names:
        dim, _ = renamed(name, names, dim, False)
    need_tensor(name, "input", input)
    if dim is None:
        raise TypeError(f"{name}() missing 1 required positional argument: 'dim'")
    return one_dim(name, input._data.ndim, dim)


CUMSUM = Op(
    "cumsum",
    lambda xp, x, /, dim: xp.cumsum(x, dim),
    kind=LINEAR,
    x=lambda xp, g, dim: xp.cumsum_vjp(g, dim),
    samples=_SCANNED,
    complex=True,
    layout=DENSE,
)


def cumsum_vjp(g: Tensor, dim: int) -> Tensor:
    """The backward of cumsum, on Tensors."""
    F = backend.functional
    return F.flip(cumsum(F.flip(g, (dim,)), dim), (dim,)) if len(g.shape) else g


def cumprod(input: Tensor, dim: Any = None, *, dtype: Any = None, out: Tensor | None = None, **names: Any) -> Tensor:
    """The products x_0 ... x_i along `dim`; the gradient is exact, to any order, where elements are zero.

    - `input` (Tensor): any shape
    - `dim` (int, default None): the dimension
    - `dtype` (dtype, default None): elements are cast to it first; None keeps it, and multiplies integers and bools as
      int64
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    The result has the shape of `input`. IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.cumprod(ferro.tensor([1.0, 2.0, 3.0]), dim=0)
        tensor([1., 2., 6.])
    """
    dim = _dim("cumprod", input, dim, names)
    result = unary(CUMPROD, summable(input, computed_in("cumprod", dtype, out)), (dim,))
    return result if out is None else into("cumprod", out, result)


def cumprod_others(g: Tensor, x: Tensor, out: Tensor, dim: int) -> Tensor:
    """The gradient of :func:`cumprod`: with s_k = g_k + x_(k+1) s_(k+1), it is s_i times the product before x_i."""
    return affine_scan(shift(x.conj(), -1, dim, 0), g, dim, True) * shift(out.conj(), 1, dim, 1)


CUMPROD = Op(
    "cumprod",
    lambda xp, x, /, dim: xp.cumprod(x, dim),
    x=lambda xp, g, x, out, dim: xp.cumprod_others(g, x, out, dim),
    samples=[*_SCANNED, *_ZEROS],
    complex=True,
    layout=DENSE,
)
singular("cumprod", "two zeros", Sample(Arg(values=[2.0, 0.0, 0.0]), 0), "a polynomial, without division")


def logcumsumexp(input: Tensor, dim: Any = None, *, out: Tensor | None = None, **names: Any) -> Tensor:
    """log(exp(x_0) + ... + exp(x_i)) along `dim`, without overflow; an element -inf gets gradient 0.

    - `input` (Tensor): any shape, floating or complex
    - `dim` (int, default None): the dimension
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    The result has the shape of `input`. IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.logcumsumexp(ferro.zeros(2), dim=0)
        tensor([0.0000, 0.6931])
    """
    dim = _dim("logcumsumexp", input, dim, names)
    if input._data.dtype.kind in "biu":
        raise NotImplementedError(
            f"logcumsumexp: not implemented for {dtypes.FROM_NUMPY[input._data.dtype]}; it "
            f"takes floating point "
            "and complex tensors"
        )
    result = unary(LOGCUMSUMEXP, input, (dim,))
    if out is not None and out._data.dtype is not input._data.dtype:
        wanted, found = [dtypes.type_name(t.dtype) for t in (input, out)]
        raise RuntimeError(f"logcumsumexp(out=): expected scalar_type {wanted} but found {found}")
    return result if out is None else into("logcumsumexp", out, result)


def _logcumsumexp_x(xp: Any, g: Any, x: Any, out: Any, dim: int) -> Any:
    # sum over k >= i of g_k exp(x_i - out_k), as a recurrence whose factors exp(out_k - out_(k+1)) are at most 1
    behind = xp.shift(out, -1, dim, INF)
    factors = xp.exp(xp.where(out == behind, 0.0, out - behind)).conj()
    return xp.affine_scan(factors, g, dim, True) * xp.exp(x - xp.where(out == -INF, 0.0, out)).conj()


LOGCUMSUMEXP = Op(
    "logcumsumexp",
    lambda xp, x, /, dim: xp.logcumsumexp(x, dim),
    x=_logcumsumexp_x,
    samples=[*_SCANNED, Sample(Arg(4, low=500, high=900), 0, complex=False)],
    complex=True,
    layout=DENSE,
)


# -- extrema -----------------------------------------------------------------------------------------------------------


def cummax(input: Tensor, dim: Any = None, *, out: Any = None, **names: Any) -> return_types.cummax:
    """The largest of x_0 ... x_i along `dim`, (values, indices): of equal ones the last, which gets the gradient.

    - `input` (Tensor): any shape, real; nan wins
    - `dim` (int, default None): the dimension
    - `out` (tuple of two Tensors, default None): where to write values and indices
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    Values and indices (int64) have the shape of `input`. IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.cummax(ferro.tensor([2.0, 1.0, 3.0]), dim=0)
        ferro.return_types.cummax(
        values=tensor([2., 2., 3.]),
        indices=tensor([0, 0, 2]))
    """
    return _running("cummax", CUMMAX, input, dim, out, names)


def cummin(input: Tensor, dim: Any = None, *, out: Any = None, **names: Any) -> return_types.cummin:
    """The smallest of x_0 ... x_i along `dim`, (values, indices): of equal ones the last, which gets the gradient.

    - `input` (Tensor): any shape, real; nan wins
    - `dim` (int, default None): the dimension
    - `out` (tuple of two Tensors, default None): where to write values and indices
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    Values and indices (int64) have the shape of `input`. IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.cummin(ferro.tensor([2.0, 1.0, 3.0]), dim=0)
        ferro.return_types.cummin(
        values=tensor([2., 1., 1.]),
        indices=tensor([0, 1, 1]))
    """
    return _running("cummin", CUMMIN, input, dim, out, names)


def _running(name: str, op: Op, input: Any, dim: Any, out: Any, names: dict) -> Any:
    if need_tensor(name, "input", input)._data.ndim == 0 and type(dim) is int and dim not in (-1, 0):
        raise IndexError(f"{name}(): Expected reduction dim -1 or 0 for scalar but got {dim}")
    dim = _dim(name, input, dim, names)
    need_real(name, input)
    pair = apply(op, (input,), (dim,))
    return getattr(return_types, name)(pair if out is None else pair_into(name, out, pair))


_RUNNING = [
    Sample(Arg(), 0),
    Sample(Arg(5, make=permuted()), 0),
    Sample(Arg(3, 4, make=permuted()), 1),
    Sample(Arg(2, 3, 2, make=permuted()), -2),
    Sample(Arg(values=[1.0, 1.0, 0.0, 1.0]), 0, smooth=False),
    Sample(Arg(0, 2), 0),
]

CUMMAX = Op(
    "cummax",
    lambda xp, x, /, dim: xp.cummax(x, dim),
    **INDEXED,
    x=lambda xp, g, indices, dim: xp.picked_sum(g, dim, indices),
    samples=_RUNNING,
    layout=DENSE,
)

CUMMIN = Op(
    "cummin",
    lambda xp, x, /, dim: xp.cummin(x, dim),
    **INDEXED,
    x=lambda xp, g, indices, dim: xp.picked_sum(g, dim, indices),
    samples=_RUNNING,
    layout=DENSE,
)


class ScanMethods:
    """Methods of Tensor."""

    __slots__ = ()
    cummax = cummax
    cummin = cummin
    cumprod = cumprod
    cumprod_ = in_place(cumprod)
    cumsum = cumsum
    cumsum_ = in_place(cumsum)
    logcumsumexp = logcumsumexp
