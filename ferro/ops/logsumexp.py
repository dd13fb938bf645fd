"""The logarithm of a sum of exponentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferro.core import dtypes
from ferro.core.apply import unary
from ferro.core.arguments import many_dims, need_tensor
from ferro.core.into import into
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, singular
from ferro.ops.reductions import INF, _product, cast, kept, renamed

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["logsumexp"]


def logsumexp(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None, **names: Any
) -> Tensor:
    """log Σ exp(x) over the dimensions `dim`, without overflow. Its derivative is softmax(x).

    - `input` (Tensor): any shape; integers are computed in the default dtype
    - `dim` (int or ints, default None): the dimensions
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    Over nothing, or over elements that are all -inf, the result is -inf; the gradient is then 0. IndexError for a `dim`
    out of range.

    Example::

        >>> import ferro
        >>> ferro.tensor([1000.0, 1000.0]).logsumexp(0).round(decimals=2)
        tensor(1000.6900)
    """
    if names:
        dim, keepdim = renamed("logsumexp", names, dim, keepdim)
    if dim is None:
        raise TypeError("logsumexp() missing 1 required positional argument: 'dim'")
    if input._data.dtype not in dtypes.INEXACT:
        input = cast(input, dtypes.default().np)
    if out is not None and need_tensor("logsumexp", "out", out).dtype.category < 2:
        raise RuntimeError(
            f"logsumexp(): Expected floating point type for result tensor, but got: {dtypes.type_name(out.dtype)}"
        )
    result = unary(LOGSUMEXP, input, (many_dims("logsumexp", input._data.ndim, dim), keepdim))
    return result if out is None else into("logsumexp", out, result)


def _logsumexp_x(xp: Any, g: Any, x: Any, out: Any, dim: tuple, keepdim: bool) -> Any:
    if not keepdim:
        shape = kept(x.shape, dim)
        g, out = xp.reshape(g, shape), xp.reshape(out, shape)
    distance = xp.in_one_pass(_difference, x, xp.where(out == -INF, 0.0, out))
    return xp.in_one_pass(_product, g, xp.exp(distance).conj())


def _difference(xp: Any, x: Any, y: Any) -> Any:
    return x - y


LOGSUMEXP = Op(
    "logsumexp",
    lambda xp, x, /, dim, keepdim: xp.logsumexp(x, dim, keepdim),
    x=_logsumexp_x,
    samples=[
        Sample(Arg(4), 0),
        Sample(Arg(3, 4), 1),
        Sample(Arg(3, 4), (0, 1), True),
        Sample(Arg(), 0),
        Sample(Arg(0, 2), 0, smooth=False),
        Sample(Arg(3, 4, low=500, high=900), -1, complex=False),
        Sample(Arg(values=[-INF, 0.0, 1.0]), 0, smooth=False, complex=False),
    ],
    complex=True,
)
singular(
    "logsumexp",
    "all -inf",
    Sample(Arg(values=[-INF, -INF]), 0),
    "the softmax weights are 0/0: no weight, so that masked rows do not poison what they come from",
)


class LogSumExpMethods:
    """Methods of Tensor."""

    __slots__ = ()
    logsumexp = logsumexp
