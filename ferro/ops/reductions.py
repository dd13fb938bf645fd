"""Reductions: sums, means and products."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ferro.core import dtypes
from ferro.core.apply import apply, unary
from ferro.core.arguments import ALL_DIMS, many_dims, need_tensor, one_dim
from ferro.core.base import wrap
from ferro.core.into import into
from ferro.core.op import LINEAR, Op
from ferro.core.primitives import CAST
from ferro.core.samples import Arg, Sample, declare, singular

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["mean", "nanmean", "nansum", "prod", "sum"]


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


def _product(xp: Any, x: Any, y: Any) -> Any:
    return x * y


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


class ReductionMethods:
    """Methods of Tensor."""

    __slots__ = ()
    mean = mean
    nanmean = nanmean
    nansum = nansum
    prod = prod
    sum = sum
