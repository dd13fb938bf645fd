"""Extrema: largest and smallest elements, where they are, and values picked by index."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, overload

from ferro.core import backend, dtypes, return_types
from ferro.core.apply import apply, unary
from ferro.core.arguments import many_dims, need_tensor, one_dim
from ferro.core.backend import xp_of
from ferro.core.base import TensorBase, wrap
from ferro.core.dtypes import type_name
from ferro.core.into import into
from ferro.core.layout import DENSE
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, permuted, singular
from ferro.ops.reductions import FLOAT32, need_real, renamed, spread

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["amax", "amin", "aminmax", "max", "min"]


def distinct(*shape: int) -> Arg:
    """A sample argument without ties."""
    return Arg(*shape, make=permuted())


TIED = Arg(values=[[2.0, 1.0, 2.0], [0.0, 0.0, 0.0]])


# what the operations that return values and their indices have in common
INDEXED: Any = {"outputs": ("values", "indices"), "nondiff": ("indices",)}


def need_elements(name: str, shape: tuple, dim: Any) -> None:
    """Raises where an extremum would be taken over nothing; `dim` None is the whole tensor."""
    if dim is None:
        if 0 in shape and name == "aminmax":
            raise RuntimeError(
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity. "
                f"The input has shape {list(shape)}: specify the reduction dim"
            )
        if 0 in shape:
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0 (shape "
                f"{list(shape)}). "
                "Specify the reduction dim with the 'dim' argument."
            )
        return
    for d in (dim,) if isinstance(dim, int) else dim:
        if shape and shape[d] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size; the shape is {list(shape)}")


# Which words PyTorch finds for a dtype of out= that is not that of the result (0 and 1, or as a compiler calls them 2 and 3).
_WRONG_OUT = {
    **dict.fromkeys(("cummax", "cummin"), "expected scalar_type {0} but found {1}"),
    **dict.fromkeys(
        ("median", "nanmedian"),
        "Expected tensor for '{4}' to have the same type as the result; but type torch.{1}Tensor "
        "does not equal torch.{0}Tensor",
    ),
    "kthvalue": "output {4} must be of same type as the result, of scalar type {0}",
    "mode": "expected scalar type '{0}' but got '{1}' for {4} output",
}


def pair_into(name: str, out: Any, results: tuple) -> tuple:
    """Writes the two results of an operation into the two tensors of `out=`, whose dtypes must be theirs."""
    if not isinstance(out, (tuple, list)) or len(out) != len(results):
        raise TypeError(f"{name}(): argument 'out' must be a tuple of {len(results)} Tensors")
    for part, o, r in zip(("values", "indices"), out, results, strict=True):
        if need_tensor(name, "out", o).dtype is not r.dtype:
            words = _WRONG_OUT.get(name, "Expected out tensor to have dtype {2}, but got {3} instead")
            names = [type_name(r.dtype), type_name(o.dtype), dtypes.META_NAMES[r.dtype], dtypes.META_NAMES[o.dtype]]
            raise RuntimeError(
                f"{name}(out=): {words.format(*names, part)}: the {part} are {r.dtype}, out= is {o.dtype}"
            )
    return tuple([into(name, o, r) for o, r in zip(out, results, strict=True)])


# -- values picked by index --------------------------------------------------------------------------------------------


def value_gather(input: Tensor, dim: int, index: Tensor, keepdim: bool) -> Tensor:
    """The elements at `index` along `dim`; without keepdim `index` lacks that dimension, and so does the result."""
    return apply(VALUE_GATHER, (input, index), (dim, keepdim))


def value_scatter(g: Tensor, shape: tuple, dim: int, index: Tensor, keepdim: bool) -> Tensor:
    """Zeros of the given shape with g at `index` along `dim`: the transpose of :func:`value_gather`."""
    return apply(VALUE_SCATTER, (g, index), (shape, dim, keepdim))


VALUE_GATHER = Op(
    "value_gather",
    lambda xp, x, index, /, dim, keepdim: xp.value_gather(x, dim, index, keepdim),
    kind=LINEAR,
    x=lambda xp, g, x_shape, index, dim, keepdim: xp.value_scatter(g, x_shape, dim, index, keepdim),
    layout=DENSE,
)

VALUE_SCATTER = Op(
    "value_scatter",
    lambda xp, x, index, /, shape, dim, keepdim: xp.value_scatter(x, shape, dim, index, keepdim),
    kind=LINEAR,
    x=lambda xp, g, index, dim, keepdim: xp.value_gather(g, dim, index, keepdim),
)


def tie_weights(input: Tensor, out: Tensor, dim: tuple, keepdim: bool) -> Tensor:
    """What share of the cotangent of the extremum `out` each element gets: constant almost everywhere."""
    return wrap(xp_of(input._data).tie_weights(input._data, out._data, dim, keepdim))


def _shared(xp: Any, g: Any, x: Any, out: Any, dim: tuple, keepdim: bool) -> Any:
    return spread(xp, g, x.shape, dim, keepdim) * xp.tie_weights(x, out, dim, keepdim)


def _shared_by_numbers(xp: Any, g: Any, x: Any, out: Any, dim: tuple, keepdim: bool) -> Any:
    """The same, but nan for all where the extremum is nan, as in PyTorch."""
    return _shared(xp, xp.where(out == out, g, math.nan), x, out, dim, keepdim)  # noqa: PLR0124


# -- over several dimensions -------------------------------------------------------------------------------------------


def amax(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None, **names: Any) -> Tensor:
    """The largest element over the dimensions `dim` (all by default); elements that tie share the gradient evenly.

    - `input` (Tensor): any shape, not complex; nan wins
    - `dim` (int or ints, default None): the dimensions; None: all
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    IndexError for no elements along `dim` and a `dim` out of range, NotImplementedError for complex tensors.

    Example::

        >>> import ferro
        >>> ferro.amax(ferro.tensor([[1.0, 5.0], [7.0, 2.0]]), dim=1)
        tensor([5., 7.])
    """
    if names:
        dim, keepdim = renamed("amax", names, dim, keepdim)
    result = unary(AMAX, input, _over("amax", input, dim, keepdim))
    return result if out is None else into("amax", out, result)


def amin(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None, **names: Any) -> Tensor:
    """The smallest element over the dimensions `dim` (all by default); elements that tie share the gradient evenly.

    - `input` (Tensor): any shape, not complex; nan wins
    - `dim` (int or ints, default None): the dimensions; None: all
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    IndexError for no elements along `dim` and a `dim` out of range, NotImplementedError for complex tensors.

    Example::

        >>> import ferro
        >>> ferro.amin(ferro.tensor([[1.0, 5.0], [7.0, 2.0]]), dim=1)
        tensor([1., 2.])
    """
    if names:
        dim, keepdim = renamed("amin", names, dim, keepdim)
    result = unary(AMIN, input, _over("amin", input, dim, keepdim))
    return result if out is None else into("amin", out, result)


def _over(name: str, input: Any, dim: Any, keepdim: bool) -> tuple:
    """The parameters (dim, keepdim) of an extremum of `input`."""
    a = need_tensor(name, "input", input)._data
    need_real(name, input)
    dims = many_dims(name, a.ndim, dim)
    if a.size == 0:
        need_elements(name, a.shape, None if dim is None or len(dims) == 0 else dims)
    return dims, keepdim


_SAMPLES = [
    Sample(Arg()),
    Sample(distinct(3, 4)),
    Sample(distinct(3, 4), 0),
    Sample(distinct(3, 4), -1, True),
    Sample(distinct(2, 3, 2), (0, 2)),
    Sample(TIED, smooth=False),
    Sample(TIED, 1, smooth=False),
]

AMAX = Op("amax", lambda xp, x, /, dim, keepdim: xp.amax(x, dim, keepdim), x=_shared_by_numbers, samples=_SAMPLES)
singular(
    "amax",
    "ties",
    Sample(Arg(values=[1.0, 1.0, 0.0]), 0),
    "the largest share the gradient evenly: the subgradient of least norm",
)

AMIN = Op("amin", lambda xp, x, /, dim, keepdim: xp.amin(x, dim, keepdim), x=_shared_by_numbers, samples=_SAMPLES)


def aminmax(
    input: Tensor, *, dim: int | None = None, keepdim: bool = False, out: Any = None, **names: Any
) -> return_types.aminmax:
    """The smallest and the largest element along `dim` (of all by default), (min, max); ties as in :func:`amax`.

    - `input` (Tensor): any shape, not complex; nan wins
    - `dim` (int, default None): the dimension; None: all
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    RuntimeError for no elements, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.aminmax(ferro.tensor([[1.0, 5.0], [7.0, 2.0]]), dim=1)
        ferro.return_types.aminmax(
        min=tensor([1., 2.]),
        max=tensor([5., 7.]))
    """
    if names:
        dim, keepdim = renamed("aminmax", names, dim, keepdim)
    need_real("aminmax", input)
    dims = many_dims("aminmax", input._data.ndim, None if dim is None else one_dim("aminmax", input._data.ndim, dim))
    need_elements("aminmax", input._data.shape, None if dim is None else dims)
    pair = apply(AMINMAX, (input,), (dims, keepdim))
    return return_types.aminmax(pair if out is None else pair_into("aminmax", out, pair))


def _aminmax_x(xp: Any, g: Any, x: Any, min: Any, max: Any, dim: tuple, keepdim: bool) -> Any:
    low = None if g[0] is None else _shared_by_numbers(xp, g[0], x, min, dim, keepdim)
    high = None if g[1] is None else _shared_by_numbers(xp, g[1], x, max, dim, keepdim)
    return low if high is None else high if low is None else low + high


AMINMAX = Op(
    "aminmax",
    lambda xp, x, /, dim, keepdim: xp.aminmax(x, dim, keepdim),
    outputs=("min", "max"),
    x=_aminmax_x,
    samples=[
        Sample(Arg()),
        Sample(distinct(3, 4)),
        Sample(distinct(3, 4), dim=0),
        Sample(distinct(3, 4), dim=1, keepdim=True),
        Sample(TIED, smooth=False),
    ],
)


# -- along one dimension, with the index -------------------------------------------------------------------------------


@overload
def max(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...


@overload
def max(input: Tensor, dim: Tensor, *, out: Tensor | None = None) -> Tensor: ...


@overload
def max(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> return_types.max: ...


def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Any = None, **names: Any) -> Any:
    """The largest element; or along `dim` a tuple (values, indices); or, given a second tensor, `maximum` of the two.

    Of all elements: those that tie share the gradient evenly.  Along `dim`: the element at `indices`, the first of
    several equal ones, gets it.

    - `input` (Tensor): any shape, not complex; nan wins
    - `dim` (int, or Tensor, default None): the dimension, or the second tensor; None: all elements
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    RuntimeError for no elements, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([[1.0, 5.0], [7.0, 2.0]])
        >>> x.max()
        tensor(7.)
        >>> values, indices = x.max(dim=1)
        >>> values, indices
        (tensor([5., 7.]), tensor([1, 0]))
    """
    return _extremum("max", MAX, MAX_OF_ALL, input, dim, keepdim, out, names)


@overload
def min(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...


@overload
def min(input: Tensor, dim: Tensor, *, out: Tensor | None = None) -> Tensor: ...


@overload
def min(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> return_types.min: ...


def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Any = None, **names: Any) -> Any:
    """The smallest element; or along `dim` a tuple (values, indices); or, given a second tensor, `minimum` of the two.

    Of all elements: those that tie share the gradient evenly.  Along `dim`: the element at `indices`, the first of
    several equal ones, gets it.

    - `input` (Tensor): any shape, not complex; nan wins
    - `dim` (int, or Tensor, default None): the dimension, or the second tensor; None: all elements
    - `keepdim` (bool, default False): whether the reduced dimensions stay, with size 1
    - `out` (Tensor, default None): where to write the result
    - `**names` (Any): NumPy's names of the arguments, `axis` and `keepdims`

    RuntimeError for no elements, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> values, indices = ferro.tensor([[1.0, 5.0], [7.0, 2.0]]).min(dim=0)
        >>> values, indices
        (tensor([1., 2.]), tensor([0, 1]))
    """
    return _extremum("min", MIN, MIN_OF_ALL, input, dim, keepdim, out, names)


def _extremum(name: str, op: Op, of_all: Op, input: Any, dim: Any, keepdim: bool, out: Any, names: dict) -> Any:
    if names:
        dim = names.pop("other", dim)
        dim, keepdim = renamed(name, names, dim, keepdim)
    a = need_tensor(name, "input", input)._data
    if isinstance(dim, TensorBase):
        return getattr(backend.functional, f"{name}imum")(input, dim, out=out)
    if a.dtype is not FLOAT32:
        need_real(name, input)
    if dim is None:
        if 0 in a.shape:
            need_elements(name, a.shape, None)
        result = unary(of_all, input, (tuple(range(a.ndim)), False))
        return result if out is None else into(name, out, result)
    d = one_dim(name, a.ndim, dim)
    if 0 in a.shape:
        need_elements(name, a.shape, d)
    pair = apply(op, (input,), (d, keepdim))
    return getattr(return_types, name)(pair if out is None else pair_into(name, out, pair))


def picked(xp: Any, g: Any, x_shape: tuple, indices: Any, dim: int, keepdim: bool) -> Any:
    """The gradient of values picked by index along `dim`, when nothing is picked twice."""
    return xp.value_scatter(g, x_shape, dim, indices, keepdim)


PICKED = [
    Sample(Arg(), 0),
    Sample(distinct(4), 0),
    Sample(distinct(3, 4), 0),
    Sample(distinct(2, 3, 2), -2, True),
    Sample(TIED, 1, smooth=False),
]

# of all elements; what is nan shares the gradient like ties
MAX_OF_ALL = Op("max_of_all", lambda xp, x, /, dim, keepdim: xp.amax(x, dim, keepdim), x=_shared)
MIN_OF_ALL = Op("min_of_all", lambda xp, x, /, dim, keepdim: xp.amin(x, dim, keepdim), x=_shared)
MAX = Op(
    "max",
    lambda xp, x, /, dim, keepdim: xp.max_dim(x, dim, keepdim),
    **INDEXED,
    x=picked,
    samples=[*PICKED, Sample(distinct(3, 4)), Sample(TIED, smooth=False)],
)
singular("max", "ties along a dimension", Sample(Arg(values=[1.0, 1.0, 0.0]), 0), "the element whose index is returned")

MIN = Op(
    "min",
    lambda xp, x, /, dim, keepdim: xp.min_dim(x, dim, keepdim),
    **INDEXED,
    x=picked,
    samples=[*PICKED, Sample(distinct(3, 4)), Sample(TIED, smooth=False)],
)


class ExtremaMethods:
    """Methods of Tensor."""

    __slots__ = ()
    amax = amax
    amin = amin
    aminmax = aminmax
    max = max
    min = min
