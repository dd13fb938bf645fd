"""Reductions: sums, means, products, variances, log of a sum of exponentials, and whether all or any elements hold."""

from __future__ import annotations

import math
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import dtypes
from ferro.core.apply import apply, unary
from ferro.core.arguments import ALL_DIMS, into, many_dims, need_tensor, one_dim
from ferro.core.backend import xp_of
from ferro.core.base import without_gradient, wrap
from ferro.core.op import LINEAR, Op
from ferro.core.primitives import CAST
from ferro.core.samples import Arg, Sample, declare, singular

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["all", "any", "count_nonzero", "logsumexp", "mean", "nanmean", "nansum", "prod", "std", "std_mean", "sum",
           "var", "var_mean"]  # fmt: skip

REDUCED = [
    Sample(Arg()),
    Sample(Arg(3, 4)),
    Sample(Arg(3, 4), 0),
    Sample(Arg(3, 4), -1, True),
    Sample(Arg(2, 3, 2), (0, 2)),
    Sample(Arg(2, 3, 2), (-1, 0), keepdim=True),
    Sample(Arg(1, 3), 0),
    Sample(Arg(3, 4), axis=1),
    Sample(Arg(0, 3), 1),
]
NAN, INF = math.nan, math.inf
FLOAT32 = dtypes.float32.np  # (looked at first: a look into a set of dtypes takes longer)


# -- what reductions share ---------------------------------------------------------------------------------------------


def spread(xp: Any, g: Any, shape: tuple, dim: tuple, keepdim: bool) -> Any:
    """The cotangent of a reduction over `dim`, expanded to the `shape` of its input."""
    if not keepdim and len(dim) != len(shape):  # (what is left after all dimensions expands to anything)
        g = xp.reshape(g, kept(shape, dim))
    return xp.expand(g, shape)


@lru_cache(4096)
def kept(shape: tuple, dim: tuple) -> tuple:
    """`shape` with the dimensions `dim` reduced to one element each."""
    return tuple([1 if d in dim else s for d, s in enumerate(shape)])


def count(shape: tuple, dim: tuple) -> int:
    """How many elements a reduction over `dim` takes together."""
    n = 1
    for d in dim:
        n *= shape[d]
    return n


def renamed(name: str, given: dict, dim: Any, keepdim: Any) -> tuple:
    """`dim` and `keepdim`, for which NumPy's names `axis` and `keepdims` are taken too."""
    for key, value in given.items():
        if key == "axis":
            dim = value
        elif key == "keepdims":
            keepdim = value
        else:
            raise TypeError(f"{name}() got an unexpected keyword argument '{key}'")
    return dim, keepdim


def cast(x: Any, dtype: Any) -> Any:
    """The tensor as a NumPy dtype, recorded."""
    return x if x._data.dtype is dtype else apply(CAST, (x,), (dtype,))


def summable(x: Any, dtype: Any) -> Any:
    """The tensor as it is added up: in the wanted dtype, integers and bools as int64."""
    if dtype is not None:
        return cast(x, dtypes.to_numpy(dtype))
    return cast(x, dtypes.int64.np) if x._data.dtype.kind in "biu" else x


def computed_in(name: str, dtype: Any, out: Any) -> Any:
    """The dtype that is computed in: that of `out=`, if there is one, which must be the `dtype=`, if there is one."""
    if out is None:
        return dtype
    found = need_tensor(name, "out", out).dtype
    if dtype is not None and (wanted := dtypes.FROM_NUMPY[dtypes.to_numpy(dtype)]) is not found:
        raise RuntimeError(
            f"{name}(out=): Expected out tensor to have dtype {dtypes.META_NAMES[wanted]}, but got "
            f"{dtypes.META_NAMES[found]} instead: out= is {found}, dtype= {wanted}"
        )
    return found


def need_inexact(name: str, x: Any, what: str = "input") -> None:
    """RuntimeError unless the tensor is floating-point or complex."""
    if x._data.dtype not in dtypes.INEXACT:
        raise RuntimeError(
            f"{name}: expected a floating point or complex tensor as {what}, got "
            f"{dtypes.FROM_NUMPY.get(x._data.dtype, x._data.dtype)}; "
            "convert it, e.g. with .float()"
        )


# The kernels by which PyTorch's errors call what orders numbers, and those that it refuses with a sentence.
_KERNELS = {
    "max": "max_all",
    "min": "min_all",
    "amax": "max_values_cpu",
    "amin": "min_values_cpu",
    "unique": "unique",
    "unique_consecutive": "unique",
}
_SENTENCES = {
    "sort": "Sort does not support complex dtypes on CPU",
    "argsort": "Sort does not support complex dtypes on CPU",
    "topk": "topk does not support complex dtypes on CPU",
    "nansum": "nansum on CPU does not support complex inputs",
    "nanmean": "nansum on CPU does not support complex inputs",
}


def need_real(name: str, x: Any) -> None:
    """RuntimeError, or its NotImplementedError where PyTorch raises that, if the tensor is complex."""
    if x._data.dtype.kind != "c":
        return
    if name in _SENTENCES:
        raise RuntimeError(f"{name}: {_SENTENCES[name]}: complex tensors are not supported (they have no order)")
    raise NotImplementedError(
        f"{name}: \"{_KERNELS.get(name, name + '_cpu')}\" not implemented for '{dtypes.type_name(x.dtype)}': complex "
        "tensors are not supported (they have no order)"
    )


# -- sums and products -------------------------------------------------------------------------------------------------


def sum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None, **names: Any
) -> Tensor:
    """The sum of the elements over the dimensions `dim`.

    - `input` (Tensor): any shape
    - `dim` (int or ints, default None): the dimensions; None: all
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `dtype` (dtype, default None): elements are cast to it first; None keeps it, and sums integers and bools as int64
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> x.sum(), x.sum(dim=0), x.sum(dim=1, keepdim=True)
        (tensor(10.), tensor([4., 6.]), tensor([[3.],
                [7.]]))
    """
    if names:
        dim, keepdim = renamed("sum", names, dim, keepdim)
    a = need_tensor("sum", "input", input)._data
    dim = ALL_DIMS[a.ndim] if dim is None else many_dims("sum", a.ndim, dim)
    if out is not None:
        dtype = computed_in("sum", dtype, out)
    if dtype is not None or (a.dtype is not FLOAT32 and a.dtype.kind in "biu"):
        input = summable(input, dtype)
    result = unary(SUM, input, (dim, keepdim))
    return result if out is None else into("sum", out, result)


SUM = Op(
    "sum",
    lambda xp, x, /, dim, keepdim: xp.sum(x, dim, keepdim),
    kind=LINEAR,
    x=lambda xp, g, x_shape, dim, keepdim: spread(xp, g, x_shape, dim, keepdim),
    samples=[*REDUCED, Sample(Arg(0, 3), 0), Sample(Arg(3, dtype="int64"))],
    complex=True,
)


def nansum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None, **names: Any
) -> Tensor:
    """The sum over the dimensions `dim` with nan counted as zero; the derivative at nan is 0.

    - `input` (Tensor): any shape
    - `dim` (int or ints, default None): the dimensions; None: all
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `dtype` (dtype, default None): elements are cast to it first
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.nansum(ferro.tensor([[1.0, float("nan")], [3.0, 4.0]]), dim=1)
        tensor([1., 7.])
    """
    if names:
        dim, keepdim = renamed("nansum", names, dim, keepdim)
    need_real("nansum", input)
    dim = many_dims("nansum", input._data.ndim, dim)
    if out is not None:
        dtype = computed_in("nansum", dtype, out)
        if dtype.category < 2 <= input.dtype.category:
            raise NotImplementedError(
                f"\"nansum_cpu\" not implemented for '{dtypes.type_name(dtype)}': out= cannot hold what {input.dtype} adds up to"
            )
    x = summable(input, dtype)
    result = unary(SUM if x._data.dtype.kind in "biu" else NANSUM, x, (dim, keepdim))
    return result if out is None else into("nansum", out, result)


NANSUM = Op(
    "nansum",
    lambda xp, x, /, dim, keepdim: xp.nansum(x, dim, keepdim),
    x=lambda xp, g, x, dim, keepdim: spread(xp, g, x.shape, dim, keepdim) * ~xp.isnan(x),
    samples=[*REDUCED, Sample(Arg(values=[1.0, NAN, 2.0]), smooth=False)],
)


def mean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None, **names: Any
) -> Tensor:
    """The mean of the elements over the dimensions `dim`; nan over none.

    - `input` (Tensor): any shape
    - `dim` (int or ints, default None): the dimensions; None: all
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `dtype` (dtype, default None): elements are cast to it first; integers need it, else RuntimeError
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.tensor([[1.0, 2.0], [3.0, 4.0]]).mean(dim=0)
        tensor([2., 3.])
    """
    if names:
        dim, keepdim = renamed("mean", names, dim, keepdim)
    a = need_tensor("mean", "input", input)._data
    dim = ALL_DIMS[a.ndim] if dim is None else many_dims("mean", a.ndim, dim)
    if dtype is not None or a.dtype is not FLOAT32:
        have, what = (
            (input.dtype, "Input") if dtype is None else (dtypes.FROM_NUMPY[dtypes.to_numpy(dtype)], "Optional")
        )
        if have.category < 2:
            raise RuntimeError(
                f"mean(): could not infer output dtype. {what} dtype must be either a floating point or complex dtype. "
                f"Got: {dtypes.type_name(have)}; convert the input, e.g. with .float(), or say dtype="
            )
        input = input if dtype is None else summable(input, computed_in("mean", dtype, out))
    result = unary(MEAN, input, (dim, keepdim))
    return result if out is None else into("mean", out, result)


MEAN = Op(
    "mean",
    lambda xp, x, /, dim, keepdim: xp.mean(x, dim, keepdim),
    kind=LINEAR,
    x=lambda xp, g, x_shape, dim, keepdim: spread(xp, g / (count(x_shape, dim) or 1), x_shape, dim, keepdim),
    samples=[*REDUCED, Sample(Arg(0, 3), 0, smooth=False)],
    complex=True,
)


def nanmean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None, **names: Any
) -> Tensor:
    """The mean of the elements that are not nan, over the dimensions `dim`; nan where all are.

    - `input` (Tensor): any shape, floating
    - `dim` (int or ints, default None): the dimensions; None: all
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `dtype` (dtype, default None): elements are cast to it first
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    RuntimeError for integers, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.nanmean(ferro.tensor([[1.0, float("nan")], [3.0, 4.0]]), dim=1)
        tensor([1.0000, 3.5000])
    """
    if names:
        dim, keepdim = renamed("nanmean", names, dim, keepdim)
    need_inexact("nanmean", input)
    need_real("nanmean", input)
    n: Any = sum(wrap(input._data == input._data), dim, keepdim)
    result = nansum(input, dim, keepdim, dtype=dtype) / n
    return result if out is None else into("nanmean", out, result)


declare("nanmean", [*REDUCED[:6], Sample(Arg(values=[1.0, NAN, 2.0]), smooth=False)])


def prod(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None, **names: Any
) -> Tensor:
    """The product of all elements, or along a dimension.

    - `input` (Tensor): any shape
    - `dim` (int, default None): the dimension; None: all
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `dtype` (dtype, default None): elements are cast to it first; None keeps it, and multiplies integers and bools as
      int64
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    d prod / d x_i is the product of the other elements: exact, to any order, where elements are zero. IndexError for a
    `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.tensor([[1, 2], [3, 4]]).prod(dim=1)
        tensor([ 2, 12])
    """
    if names:
        dim, keepdim = renamed("prod", names, dim, keepdim)
    d = None if dim is None else one_dim("prod", input._data.ndim, dim)
    if out is not None:
        dtype = computed_in("prod", dtype, out)
    result = unary(PROD, summable(input, dtype), (d, d is not None and keepdim))
    return result if out is None else into("prod", out, result)


def _prod_x(xp: Any, g: Any, x: Any, dim: int | None, keepdim: bool) -> Any:
    dims = tuple(range(len(x.shape))) if dim is None else (dim,) if len(x.shape) else ()
    if not keepdim:
        g = xp.reshape(g, kept(x.shape, dims))
    return xp.in_one_pass(_product, g, xp.prod_others(x, dim).conj())


PROD = Op(
    "prod",
    lambda xp, x, /, dim, keepdim: xp.prod(x, dim, keepdim),
    x=_prod_x,
    samples=[
        Sample(Arg()),
        Sample(Arg(5)),
        Sample(Arg(3, 4), 0),
        Sample(Arg(2, 3, 2), -1, True),
        Sample(Arg(0, 3), 0),
        Sample(Arg(values=[2.0, 0.0, 3.0])),
        Sample(Arg(values=[0.0, 4.0, 0.0, 5.0])),
        Sample(Arg(), 0),
        Sample(Arg(values=[[0.0, 1.0, 2.0], [0.0, 0.0, 3.0]]), 1),
        Sample(Arg(2, 3)),
    ],
    complex=True,
)
singular(
    "prod", "one zero", Sample(Arg(values=[2.0, 0.0, 3.0]), 0), "a polynomial: products of the others, without division"
)
singular(
    "prod",
    "two zeros",
    Sample(Arg(values=[2.0, 0.0, 0.0]), 0),
    "a polynomial: the first derivative is 0, the second is not",
)


# -- variance ----------------------------------------------------------------------------------------------------------


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


# -- log of a sum of exponentials --------------------------------------------------------------------------------------


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


def _product(xp: Any, x: Any, y: Any) -> Any:
    return x * y


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


# -- logic and counting ------------------------------------------------------------------------------------------------


def all(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None, **names: Any) -> Tensor:
    """Whether all elements over the dimensions `dim` are non-zero.

    - `input` (Tensor): any shape and dtype
    - `dim` (int or ints, default None): the dimensions; None: all
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    The result is bool, or uint8 for uint8; True over no elements. IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.tensor([[True, True], [True, False]]).all(dim=1)
        tensor([ True, False])
    """
    if names:
        dim, keepdim = renamed("all", names, dim, keepdim)
    return _logical("all", input, dim, keepdim, out)


def any(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None, **names: Any) -> Tensor:
    """Whether any element over the dimensions `dim` is non-zero.

    - `input` (Tensor): any shape and dtype
    - `dim` (int or ints, default None): the dimensions; None: all
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    The result is bool, or uint8 for uint8; False over no elements. IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.tensor([[False, True], [False, False]]).any(dim=1)
        tensor([ True, False])
    """
    if names:
        dim, keepdim = renamed("any", names, dim, keepdim)
    return _logical("any", input, dim, keepdim, out)


def _logical(name: str, input: Any, dim: Any, keepdim: bool, out: Any) -> Any:
    a = need_tensor(name, "input", input)._data
    # an empty tuple is no dimension here: every element stands for itself
    dims = many_dims(name, a.ndim, dim, empty_is_all=False)
    result = getattr(xp_of(a), name)(a, dims, keepdim)
    if dtypes.uint8.np in (a.dtype, None if out is None else need_tensor(name, "out", out)._data.dtype):
        result = result.astype(np.bool_ if out is not None and out._data.dtype is np.dtype(np.bool_) else np.uint8)
    return into(name, out, wrap(result))


def count_nonzero(input: Tensor, dim: Any = None, **names: Any) -> Tensor:
    """How many elements over the dimensions `dim` are not zero (int64).

    - `input` (Tensor): any shape and dtype
    - `dim` (int or ints, default None): the dimensions, which the result does not have; None: all
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.count_nonzero(ferro.tensor([[0, 5], [6, 7]]), dim=0)
        tensor([1, 2])
    """
    if names:
        dim, _ = renamed("count_nonzero", names, dim, False)
    a = input._data
    count = xp_of(a).count_nonzero(a, many_dims("count_nonzero", a.ndim, dim))
    return without_gradient("count_nonzero", count, input)


_LOGIC = [
    Sample(Arg(3, 4, dtype="bool")),
    Sample(Arg(3, 4, dtype="bool"), 0),
    Sample(Arg(3, 4, dtype="int64"), 1, True),
    Sample(Arg(values=[0.0, math.nan])),
    Sample(Arg(0, 2), 0),
    Sample(Arg(dtype="uint8", values=[3, 0])),
]
declare("all", [*_LOGIC, Sample(Arg(2, 3, 4, dtype="bool"), (0, 2))], differentiable=False, complex=True)
declare("any", [*_LOGIC, Sample(Arg(2, 3, 4, dtype="bool"), (0, 2))], differentiable=False, complex=True)
declare(
    "count_nonzero",
    [*[s for s in _LOGIC if True not in s.args], Sample(Arg(2, 3, 4, dtype="int64"), (0, 2))],
    differentiable=False,
    complex=True,
)


class ReductionMethods:
    """Methods of Tensor."""

    __slots__ = ()
    all = all
    any = any
    count_nonzero = count_nonzero
    logsumexp = logsumexp
    mean = mean
    nanmean = nanmean
    nansum = nansum
    prod = prod
    std = std
    sum = sum
    var = var
