"""Scans along one dimension: cumulative sums, products, extrema, linear recurrences, differences, trapezoidal rule."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ferro.core import backend, dtypes, return_types
from ferro.core.apply import apply, unary
from ferro.core.arguments import into, need_tensor, one_dim
from ferro.core.inplace import in_place
from ferro.core.layout import DENSE
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare, permuted, singular
from ferro.ops.extrema import INDEXED, pair_into
from ferro.ops.reductions import computed_in, need_real, renamed, sum, summable

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = [
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_trapezoid",
    "diff",
    "logcumsumexp",
    "trapezoid",
    "trapz",
]

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


SHIFT = Op("shift", lambda xp, x, /, steps, dim, fill: xp.shift(x, steps, dim, fill),
           x=lambda xp, g, steps, dim: xp.shift(g, -steps, dim, 0))  # fmt: skip


def affine_scan(a: Tensor, b: Tensor, dim: int, reverse: bool) -> Tensor:
    """The recurrence s_k = b_k + a_k s_(k-1) along `dim`, from zero; in reverse s_k = b_k + a_k s_(k+1).

    Its adjoint is the same recurrence in the other direction: t_k = g_k + a_(k+1) t_(k+1); then db = t and
    da_k = t_k s_(k-1).
    """
    return apply(AFFINE_SCAN, (a, b), (dim, reverse))


def _adjoint(xp: Any, g: Any, a: Any, dim: int, reverse: bool) -> Any:
    return xp.affine_scan(xp.shift(a.conj(), 1 if reverse else -1, dim, 0), g, dim, not reverse)


AFFINE_SCAN = Op(
    "affine_scan", lambda xp, a, b, /, dim, reverse: xp.affine_scan(a, b, dim, reverse),
    a=lambda xp, g, a, out, dim, reverse: (
        _adjoint(xp, g, a, dim, reverse) * xp.shift(out, -1 if reverse else 1, dim, 0).conj()),
    b=_adjoint)  # fmt: skip


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


PICKED_SUM = Op("picked_sum", lambda xp, x, index, /, dim: xp.picked_sum(x, dim, index), kind=LINEAR,
                x=lambda xp, g, index, dim: xp.value_gather(g, dim, index, True))  # fmt: skip


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


CUMSUM = Op("cumsum", lambda xp, x, /, dim: xp.cumsum(x, dim), kind=LINEAR, x=lambda xp, g, dim: xp.cumsum_vjp(g, dim),
            samples=_SCANNED, complex=True, layout=DENSE)  # fmt: skip


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


CUMPROD = Op("cumprod", lambda xp, x, /, dim: xp.cumprod(x, dim),
             x=lambda xp, g, x, out, dim: xp.cumprod_others(g, x, out, dim),
             samples=[*_SCANNED, *_ZEROS], complex=True, layout=DENSE)  # fmt: skip
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
        raise NotImplementedError(f"logcumsumexp: not implemented for {dtypes.FROM_NUMPY[input._data.dtype]}; it "
                                  f"takes floating point "
                                  "and complex tensors")  # fmt: skip
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


LOGCUMSUMEXP = Op("logcumsumexp", lambda xp, x, /, dim: xp.logcumsumexp(x, dim), x=_logcumsumexp_x,
                  samples=[*_SCANNED, Sample(Arg(4, low=500, high=900), 0, complex=False)], complex=True, layout=DENSE)  # fmt: skip


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


_RUNNING = [Sample(Arg(), 0), Sample(Arg(5, make=permuted()), 0), Sample(Arg(3, 4, make=permuted()), 1),
            Sample(Arg(2, 3, 2, make=permuted()), -2),
            Sample(Arg(values=[1.0, 1.0, 0.0, 1.0]), 0, smooth=False), Sample(Arg(0, 2), 0)]  # fmt: skip

CUMMAX = Op("cummax", lambda xp, x, /, dim: xp.cummax(x, dim), **INDEXED,
            x=lambda xp, g, indices, dim: xp.picked_sum(g, dim, indices), samples=_RUNNING, layout=DENSE)  # fmt: skip

CUMMIN = Op("cummin", lambda xp, x, /, dim: xp.cummin(x, dim), **INDEXED,
            x=lambda xp, g, indices, dim: xp.picked_sum(g, dim, indices), samples=_RUNNING, layout=DENSE)  # fmt: skip


# -- differences and areas ---------------------------------------------------------------------------------------------


def diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *,
         out: Tensor | None = None) -> Tensor:  # fmt: skip
    """The n-th differences x_(i+1) - x_i along `dim`; of bools, whether they differ.

    - `input` (Tensor): x, of one or more dimensions
    - `n` (int, default 1): how often differences are taken; 0 gives x itself
    - `dim` (int, default -1): the dimension
    - `prepend`, `append` (Tensor, default None): joined on at the ends before
    - `out` (Tensor, default None): where to write the result

    The result is n shorter along `dim`. RuntimeError for a negative n, a 0-d input and shapes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.diff(ferro.tensor([1, 4, 9, 16]))
        tensor([3, 5, 7])
    """
    a = need_tensor("diff", "input", input)._data
    if a.ndim == 0:
        raise RuntimeError("diff: diff expects input to be at least one-dimensional, got a tensor without dimensions")
    if n < 0:
        raise RuntimeError(f"diff: order must be non-negative but got {n}")
    if n == 0:
        x = backend.functional.clone(input)
        return x if out is None else into("diff", out, x)
    d = one_dim("diff", a.ndim, dim)
    parts = [
        _joinable(label, p, a, d)
        for label, p in (("prepend", prepend), ("input", input), ("append", append))
        if p is not None
    ]
    fn = backend.functional
    x = fn.cat(parts, d) if len(parts) > 1 else input
    length = x._data.shape[d]
    for k in range(min(n, length)):
        high, low = fn.narrow(x, d, 1, length - k - 1), fn.narrow(x, d, 0, length - k - 1)
        x = fn.logical_xor(high, low) if a.dtype.kind == "b" else high - low
    return x if out is None else into("diff", out, x)


def _joinable(label: str, part: Any, a: Any, dim: int) -> Any:
    b = need_tensor("diff", label, part)._data
    if b.ndim != a.ndim:
        raise RuntimeError(
            f"diff: diff expects prepend or append to be the same dimension as input; {label} has {b.ndim}, input {a.ndim}"
        )
    for k, (s, t) in enumerate(zip(a.shape, b.shape, strict=True)):
        if k != dim and s != t:
            raise RuntimeError("diff: diff expects the shape of tensor to prepend or append to match that of input except along the "
                               f"differencing dimension; input.size({k}) = {s}, but got tensor.size({k}) = {t} for {label}")  # fmt: skip
    return part


declare("diff", [Sample(Arg(5)), Sample(Arg(3, 4), 2), Sample(Arg(3, 4), dim=0), Sample(Arg(3), 5), Sample(Arg(3), 0),
                 Sample(Arg(2, 3), 1, 1, Arg(2, 2), Arg(2, 1)), Sample(Arg(4, dtype="int64")),
                 Sample(Arg(4, dtype="bool"))], complex=True)  # fmt: skip


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """The area under y along `dim` by the trapezoidal rule: Σ (x_(i+1) - x_i) (y_i + y_(i+1)) / 2.

    - `y` (Tensor): any shape
    - `x` (Tensor, default None): the points, (n), or in a shape that broadcasts to that of y; None: evenly spaced ones
    - `dx` (float, default None): their spacing; None is 1
    - `dim` (int, default -1): the dimension, which the result does not have

    RuntimeError for x and dx at once and for shapes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.trapezoid(ferro.tensor([0.0, 1.0, 4.0]), dx=2.0)
        tensor(6.)
    """
    d, pairs, widths = _trapezoids("trapezoid", y, x, dx, dim)
    if y._data.shape[d] == 0:
        pairs = y.detach()  # as in PyTorch, the area under nothing has no history
    if widths is None:
        return sum(pairs, d) * ((1 if dx is None else dx) / 2.0)
    return sum(pairs * widths, d) / 2.0


def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """The areas under y along `dim` up to each point after the first: see :func:`trapezoid`.

    - `y` (Tensor): any shape
    - `x` (Tensor, default None): the points, (n), or in a shape that broadcasts to that of y; None: evenly spaced ones
    - `dx` (float, default None): their spacing; None is 1
    - `dim` (int, default -1): the dimension, one shorter in the result

    RuntimeError for shapes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.cumulative_trapezoid(ferro.tensor([0.0, 1.0, 4.0]), dx=2.0)
        tensor([1., 6.])
    """
    d, pairs, widths = _trapezoids("cumulative_trapezoid", y, x, dx, dim)
    if widths is None:
        return cumsum(pairs, d) * ((1 if dx is None else dx) / 2.0)
    return cumsum(pairs * widths, d) / 2.0


def _trapezoids(name: str, y: Any, x: Any, dx: Any, dim: int) -> tuple:
    """The dimension counted from the end, the sums of neighbours of y, and the distances of neighbours of x or None."""
    if x is not None and dx is not None:
        raise TypeError(
            f"{name}() received an invalid combination of arguments: give either the points x or the spacing dx, not both"
        )
    if isinstance(dx, complex):
        raise RuntimeError(f"{name}: Currently, we only support dx as a real number. It is {dx}")
    a = need_tensor(name, "y", y)._data
    if a.ndim == 0:
        raise IndexError(f"{name}: Dimension specified as {dim} but tensor has no dimensions")
    for label, t in (("y", y), ("x", x)):
        if t is not None and t._data.dtype.kind == "b":
            raise RuntimeError(f"{name}: received a bool input for `{label}`, but bool is not supported")
    fn = backend.functional
    d = one_dim(name, a.ndim, dim) - a.ndim
    if a.shape[d] == 0:
        return d, y, None
    pairs = fn.narrow(y, d, 1, a.shape[d] - 1) + fn.narrow(y, d, 0, a.shape[d] - 1)
    if x is None:
        return d, pairs, None
    b = x._data
    if b.ndim == 1:
        if b.shape[0] != a.shape[d]:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point: {b.shape[0]} values of "
                               f"x for {a.shape[d]} "
                               f"points along dimension {dim} of y")  # fmt: skip
        widths = diff(x)
        return d, pairs, fn.reshape(widths, (-1,) + (1,) * (-d - 1))
    if b.ndim < -d:
        x = fn.reshape(x, (1,) * (-d - b.ndim) + b.shape)
    return d, pairs, diff(x, dim=d)


_AREAS = [Sample(Arg(5)), Sample(Arg(3, 4), dx=0.5), Sample(Arg(3, 4), Arg(4)), Sample(Arg(3, 4), Arg(3), dim=0),
          Sample(Arg(3, 4), Arg(3, 4), dim=0),
          Sample(Arg(2, 3, 4), Arg(3, 4)), Sample(Arg(4, dtype="int64"))]  # fmt: skip
declare("trapezoid", [*_AREAS, Sample(Arg(0, grad=False))], complex=True)
declare("cumulative_trapezoid", [*_AREAS, Sample(Arg(0, grad=False))], complex=True)

trapz = trapezoid


class ScanMethods:
    """Methods of Tensor."""

    __slots__ = ()
    cummax = cummax
    cummin = cummin
    cumprod = cumprod
    cumprod_ = in_place(cumprod)
    cumsum = cumsum
    cumsum_ = in_place(cumsum)
    diff = diff
    logcumsumexp = logcumsumexp
