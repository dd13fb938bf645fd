"""Variances and standard deviations, alone and with their means."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ferro.core import dtypes
from ferro.core.apply import apply, unary
from ferro.core.arguments import many_dims, need_tensor
from ferro.core.into import into
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample, singular
from ferro.ops.reductions import FLOAT32, INF, NAN, count, kept, renamed, spread

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["std", "std_mean", "var", "var_mean"]


def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
    out: Tensor | None = None,
    **names: Any,
) -> Tensor:
    """The variance Σ |x - mean|² / max(0, n - correction) over the dimensions `dim`.

    - `input` (Tensor): any shape, floating or complex
    - `dim` (int or ints, default None): the dimensions; None: all
    - `unbiased` (bool, default None): the older spelling of correction=1 (True) or 0
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `correction` (number, default None): what n is reduced by; None is 1
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    d var / d x = 2 (x - mean) / (n - correction). With n <= correction variance and gradient are infinite, or nan where
    all elements are equal, with a warning. RuntimeError for integers, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([1.0, 2.0, 3.0, 4.0])
        >>> x.var(), x.var(correction=0)
        (tensor(1.6667), tensor(1.2500))
    """
    params = _moments("var", input, dim, unbiased, keepdim, correction, names)
    result = unary(VAR, input, params)
    return result if out is None else into("var", out, result)


def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
    out: Tensor | None = None,
    **names: Any,
) -> Tensor:
    """The standard deviation, the square root of the variance (see :func:`var`); its gradient is 0 where it is 0.

    - `input` (Tensor): any shape, floating or complex
    - `dim` (int or ints, default None): the dimensions; None: all
    - `unbiased` (bool, default None): the older spelling of correction=1 (True) or 0
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `correction` (number, default None): what n is reduced by; None is 1
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    RuntimeError for integers, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([1.0, 2.0, 3.0, 4.0])
        >>> x.std(), x.std(correction=0)
        (tensor(1.2910), tensor(1.1180))
    """
    params = _moments("std", input, dim, unbiased, keepdim, correction, names)
    result = unary(STD, input, params)
    return result if out is None else into("std", out, result)


def var_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
    **names: Any,
) -> tuple[Tensor, Tensor]:
    """The variance and the mean over the dimensions `dim` (see :func:`var`).

    - `input` (Tensor): any shape, floating or complex
    - `dim` (int or ints, default None): the dimensions; None: all
    - `unbiased` (bool, default None): the older spelling of correction=1 (True) or 0
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `correction` (number, default None): what n is reduced by; None is 1
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    RuntimeError for integers, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.var_mean(ferro.tensor([[1.0, 3.0], [2.0, 6.0]]), dim=1, correction=0)
        (tensor([1., 4.]), tensor([2., 4.]))
    """
    return apply(VAR_MEAN, (input,), _moments("var_mean", input, dim, unbiased, keepdim, correction, names))


def std_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
    **names: Any,
) -> tuple[Tensor, Tensor]:
    """The standard deviation and the mean over the dimensions `dim` (see :func:`std`).

    - `input` (Tensor): any shape, floating or complex
    - `dim` (int or ints, default None): the dimensions; None: all
    - `unbiased` (bool, default None): the older spelling of correction=1 (True) or 0
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `correction` (number, default None): what n is reduced by; None is 1
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    RuntimeError for integers, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.std_mean(ferro.tensor([[1.0, 3.0], [2.0, 6.0]]), dim=1, correction=0)
        (tensor([1., 2.]), tensor([2., 4.]))
    """
    return apply(STD_MEAN, (input,), _moments("std_mean", input, dim, unbiased, keepdim, correction, names))


def _moments(name: str, input: Any, dim: Any, unbiased: Any, keepdim: Any, correction: Any, names: dict) -> tuple:
    """The parameters (dim, correction, keepdim) from the present and the older signature."""
    if names:
        dim, keepdim = renamed(name, names, dim, keepdim)
    if isinstance(dim, bool):  # var(x, True)
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError(f"{name}: give either unbiased or correction, not both")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    a = need_tensor(name, "input", input)._data
    if a.dtype is not FLOAT32 and a.dtype not in dtypes.INEXACT:
        raise RuntimeError(
            f"{name}: std and var only support floating point and complex dtypes, got {input.dtype}; convert it, e.g. with .float()"
        )
    dims = many_dims(name, a.ndim, dim)
    if count(a.shape, dims) <= correction:
        warnings.warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input numel "
            f"divided by output numel). The correction is {correction}, the factor {count(a.shape, dims)}.",
            stacklevel=3,
        )
    return dims, correction, bool(keepdim)


def _var_x(xp: Any, g: Any, x: Any, dim: tuple, correction: Any, keepdim: bool) -> Any:
    diff = x - xp.mean(x, dim, True)
    if not keepdim:
        g = xp.reshape(g, kept(x.shape, dim))
    rest = count(x.shape, dim) - correction
    return diff * (g * (2 / rest)) if rest > 0 else g * xp.where(diff == 0, NAN, INF)


def _std_x(xp: Any, g: Any, x: Any, out: Any, dim: tuple, correction: Any, keepdim: bool) -> Any:
    rest = count(x.shape, dim) - correction
    if rest <= 0:
        zero = out == 0
        return _var_x(xp, xp.where(zero, 0.0, 0.5 * g / xp.where(zero, 1.0, out)), x, dim, correction, keepdim)
    diff = x - xp.mean(x, dim, True)
    if not keepdim:
        shape = kept(x.shape, dim)
        g, out = xp.reshape(g, shape), xp.reshape(out, shape)
    return xp.over_norm(diff, g * (1 / rest), out)


def _with_mean(xp: Any, gx: Any, g: Any, x: Any, dim: tuple, keepdim: bool) -> Any:
    """The gradient through the mean, whose cotangent is g, added to gx; either may be None."""
    if g is None:
        return gx
    gm = spread(xp, g / (count(x.shape, dim) or 1), x.shape, dim, keepdim)
    return gm if gx is None else gx + gm


def _var_mean_x(xp: Any, g: Any, x: Any, dim: tuple, correction: Any, keepdim: bool) -> Any:
    gx = None if g[0] is None else _var_x(xp, g[0], x, dim, correction, keepdim)
    return _with_mean(xp, gx, g[1], x, dim, keepdim)


def _std_mean_x(xp: Any, g: Any, x: Any, std: Any, dim: tuple, correction: Any, keepdim: bool) -> Any:
    gx = None if g[0] is None else _std_x(xp, g[0], x, std, dim, correction, keepdim)
    return _with_mean(xp, gx, g[1], x, dim, keepdim)


_MOMENTS = [
    Sample(Arg(5)),
    Sample(Arg(3, 4), 0),
    Sample(Arg(3, 4), -1, keepdim=True),
    Sample(Arg(2, 3, 2), (0, 2)),
    Sample(Arg(4), correction=0),
    Sample(Arg(4, 3), 0, correction=2),
    Sample(Arg(4), True),
    Sample(Arg(4), False),
    Sample(Arg(4, 3), 0, False),
    Sample(Arg(4, 3), 1, True, True),
    Sample(Arg(4, 3), axis=0),
]

VAR = Op(
    "var",
    lambda xp, x, /, dim, correction, keepdim: xp.var(x, dim, correction, keepdim),
    x=_var_x,
    samples=[*_MOMENTS, Sample(Arg(1), correction=0), Sample(Arg(), correction=0)],
    complex=True,
)

STD = Op(
    "std",
    lambda xp, x, /, dim, correction, keepdim: xp.std(x, dim, correction, keepdim),
    x=_std_x,
    samples=[*_MOMENTS, Sample(Arg(values=[3.0, 3.0]), smooth=False)],
    complex=True,
)
singular(
    "std",
    "a constant sample",
    Sample(Arg(values=[2.0, 2.0]), 0),
    "the square root at 0: of the subgradients the smallest",
)
singular("std", "one element (unbiased)", Sample(Arg(values=[2.0]), 0), "0/0: there is no estimate from one element")
singular(
    "std",
    "one element (correction 0)",
    Sample(Arg(values=[2.0]), 0, correction=0),
    "the square root at 0: of the subgradients the smallest",
)

VAR_MEAN = Op(
    "var_mean",
    lambda xp, x, /, dim, correction, keepdim: xp.var_mean(x, dim, correction, keepdim),
    outputs=("var", "mean"),
    x=_var_mean_x,
    samples=_MOMENTS,
    complex=True,
)

STD_MEAN = Op(
    "std_mean",
    lambda xp, x, /, dim, correction, keepdim: xp.std_mean(x, dim, correction, keepdim),
    outputs=("std", "mean"),
    x=_std_mean_x,
    samples=_MOMENTS,
    complex=True,
)


class VarianceMethods:
    """Methods of Tensor."""

    __slots__ = ()
    std = std
    var = var
