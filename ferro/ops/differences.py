"""Differences along a dimension, and areas by the trapezoidal rule."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ferro.core import backend
from ferro.core.arguments import need_tensor, one_dim
from ferro.core.into import into
from ferro.core.samples import Arg, Sample, declare
from ferro.core.views import viewed
from ferro.ops.reductions import sum
from ferro.ops.scans import cumsum
from ferro.ops.slices import NARROW

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["cumulative_trapezoid", "diff", "trapezoid", "trapz"]


def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
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
    fn, x = backend.functional, input
    if prepend is not None or append is not None:
        given = (("prepend", prepend), ("input", input), ("append", append))
        x = fn.cat([_joinable(label, p, a, d) for label, p in given if p is not None], d)
    length = x._data.shape[d]
    for k in range(min(n, length)):
        high, low = [viewed(NARROW, x, (key,)) for key in _neighbours(d, length - k)]
        x = fn.logical_xor(high, low) if a.dtype.kind == "b" else high - low
    return x if out is None else into("diff", out, x)


@lru_cache(maxsize=256)
def _neighbours(d: int, n: int) -> tuple[tuple, tuple]:
    """The keys of all elements but the first and of all but the last of n along dimension d."""
    before = (slice(None),) * d
    return (*before, slice(1, n), ...), (*before, slice(0, n - 1), ...)


def _joinable(label: str, part: Any, a: Any, dim: int) -> Any:
    b = need_tensor("diff", label, part)._data
    if b.ndim != a.ndim:
        raise RuntimeError(
            f"diff: diff expects prepend or append to be the same dimension as input; {label} has {b.ndim}, input {a.ndim}"
        )
    for k, (s, t) in enumerate(zip(a.shape, b.shape, strict=True)):
        if k != dim and s != t:
            raise RuntimeError(
                "diff: diff expects the shape of tensor to prepend or append to match that of input except along the "
                f"differencing dimension; input.size({k}) = {s}, but got tensor.size({k}) = {t} for {label}"
            )
    return part


declare(
    "diff",
    [
        Sample(Arg(5)),
        Sample(Arg(3, 4), 2),
        Sample(Arg(3, 4), dim=0),
        Sample(Arg(3), 5),
        Sample(Arg(3), 0),
        Sample(Arg(2, 3), 1, 1, Arg(2, 2), Arg(2, 1)),
        Sample(Arg(4, dtype="int64")),
        Sample(Arg(4, dtype="bool")),
    ],
    complex=True,
)


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
    d, widths = _trapezoids("trapezoid", y, x, dx, dim)
    if y._data.shape[d] == 0:
        return sum(y.detach(), d) * 0.5  # as in PyTorch, the area under nothing has no history
    if widths is None:  # as in PyTorch, all are summed, without half of the first and the last one
        fn = backend.functional
        ends = fn.select(y, d, 0) + fn.select(y, d, y._data.shape[d] - 1)
        area = sum(y, d) - ends * 0.5
        return area if dx is None else area * float(dx)
    return sum(_pairs(y, d) * widths, d) / 2.0


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
    d, widths = _trapezoids("cumulative_trapezoid", y, x, dx, dim)
    pairs = _pairs(y, d)
    if widths is None:
        return cumsum(pairs, d) * ((1 if dx is None else dx) / 2.0)
    return cumsum(pairs * widths, d) / 2.0


def _pairs(y: Tensor, d: int) -> Tensor:
    """The sums of neighbours along a dimension; y itself if that has no elements."""
    n, fn = y._data.shape[d], backend.functional
    return fn.narrow(y, d, 1, n - 1) + fn.narrow(y, d, 0, n - 1) if n else y


def _trapezoids(name: str, y: Any, x: Any, dx: Any, dim: int) -> tuple:
    """The dimension counted from the end, and the distances of neighbours of x or None."""
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
    if x is None or a.shape[d] == 0:
        return d, None
    b = x._data
    if b.ndim == 1:
        if b.shape[0] != a.shape[d]:
            raise RuntimeError(
                f"{name}: There must be one `x` value for each sample point: {b.shape[0]} values of "
                f"x for {a.shape[d]} "
                f"points along dimension {dim} of y"
            )
        widths = diff(x)
        return d, fn.reshape(widths, (-1,) + (1,) * (-d - 1))
    if b.ndim < -d:
        x = fn.reshape(x, (1,) * (-d - b.ndim) + b.shape)
    return d, diff(x, dim=d)


_AREAS = [
    Sample(Arg(5)),
    Sample(Arg(3, 4), dx=0.5),
    Sample(Arg(3, 4), Arg(4)),
    Sample(Arg(3, 4), Arg(3), dim=0),
    Sample(Arg(3, 4), Arg(3, 4), dim=0),
    Sample(Arg(2, 3, 4), Arg(3, 4)),
    Sample(Arg(4, dtype="int64")),
]
declare("trapezoid", [*_AREAS, Sample(Arg(0, grad=False))], complex=True)
declare("cumulative_trapezoid", [*_AREAS, Sample(Arg(0, grad=False))], complex=True)

trapz = trapezoid


class DifferenceMethods:
    """Methods of Tensor."""

    __slots__ = ()
    diff = diff
