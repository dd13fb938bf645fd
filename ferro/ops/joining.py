"""Joining tensors, repeating them, turning them round."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend, dtypes
from ferro.core.apply import apply, joined, promote, unary
from ferro.core.arguments import into, need_tensor, one_dim, sizes
from ferro.core.base import TensorBase, wrap
from ferro.core.device import CPU
from ferro.core.layout import DENSE, FIRST
from ferro.core.layout import joined as laid_as
from ferro.core.looped import by_slices
from ferro.core.notices import warn_once
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.core.views import viewed
from ferro.ops.expanding import EXPAND, atleast_1d, atleast_2d, atleast_3d
from ferro.ops.indexing import apart, ints
from ferro.ops.shape import RESHAPE, reshape

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["block_diag", "cartesian_prod", "cat", "column_stack", "combinations", "concat", "concatenate", "dstack",
           "flip", "fliplr", "flipud", "hstack", "meshgrid", "repeat_interleave", "roll", "rot90", "row_stack",
           "stack", "tile", "vstack"]  # fmt: skip

ALL = slice(None)


def _tensors(name: str, given: Any) -> tuple:
    """A non-empty sequence of tensors."""
    if not isinstance(given, (tuple, list)):
        raise TypeError(f"{name}(): argument 'tensors' must be tuple of Tensors, not {type(given).__name__}")
    if not given:
        if name == "cat":
            raise ValueError("torch.cat(): expected a non-empty list of Tensors")
        said = f"{name} expects a non-empty TensorList" if name.endswith("stack") else name
        raise RuntimeError(f"{said}: expected a non-empty list of Tensors")
    for i, x in enumerate(given):
        if not isinstance(x, TensorBase):
            raise TypeError(
                f"{name}(): expected Tensor as element {i} in argument 0, but got {type(x).__name__}; argument "
                f"'tensors[{i}]' must be Tensor"
            )
    return tuple(given)


# -- one behind the other ----------------------------------------------------------------------------------------------


def cat(tensors: Any, dim: int = 0, *, axis: int | None = None, out: Tensor | None = None) -> Tensor:
    """Concatenates the tensors along `dim`; all other sizes must be equal.

    - `tensors` (sequence of Tensors): empty tensors of shape (0,) are ignored, dtypes are promoted
    - `dim` (int, default 0): an existing dimension; negative ones count from the end
    - `axis` (int, default None): NumPy's name of `dim`
    - `out` (Tensor, default None): where to write the result

    RuntimeError if sizes differ elsewhere, IndexError if there is no such dimension.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([[1, 2], [3, 4]])
        >>> ferro.cat([x, x], dim=1)
        tensor([[1, 2, 1, 2],
                [3, 4, 3, 4]])
    """
    xs = tuple(tensors) if type(tensors) in (tuple, list) and tensors else _tensors("cat", tensors)
    try:
        if out is not None:
            apart("cat", out, *xs)
        shape = xs[0]._data.shape
        if shape == (0,):
            return _cat_without_empty(xs, dim if axis is None else axis, out)
        d = one_dim("cat", len(shape), dim if axis is None else axis)
        result = joined(CAT, xs, d)
        if len(shape) > 3 and not xs[0]._data.flags.c_contiguous:  # (small ones come from machine code, in C order)
            result._data = laid_as(result._data, [x._data for x in xs])
    except AttributeError:
        _tensors("cat", xs)
        raise
    except ValueError:
        if any(x._data.shape == (0,) for x in xs):
            return _cat_without_empty(xs, d, out)
        _explain_cat([x._data.shape for x in xs], d)
        raise
    return result if out is None else into("cat", out, result)


def _cat_without_empty(xs: Any, dim: int, out: Any) -> Tensor:
    """cat() where tensors of shape (0,) are passed over (and the dimension not looked at if all are, as in PyTorch)."""
    rest = [x for x in xs if x._data.shape != (0,)]
    if rest:
        return cat(rest, dim, out=out)
    result = apply(CAT, (xs[0],), (0,))
    return result if out is None else into("cat", out, result)


def _explain_cat(shapes: list, dim: int) -> None:
    """Says why NumPy could not join arrays of these shapes."""
    first = shapes[0]
    for i, s in enumerate(shapes):
        if not s:
            raise RuntimeError(f"cat: zero-dimensional tensor (at position {i}) cannot be concatenated; use stack()")
        if len(s) != len(first):
            raise RuntimeError(
                f"cat: Tensors must have same number of dimensions: got {len(first)} and {len(s)} (tensor number {i})"
            )
        if any(a != b and k != dim for k, (a, b) in enumerate(zip(s, first, strict=True))):
            raise RuntimeError(
                f"cat: Sizes of tensors must match except in dimension {dim}. Expected shape like {list(first)} but got "
                f"{list(s)} for tensor number {i} in the list."
            )


def _cat_vjp(xp: Any, g: Any, xs_shape: tuple, dim: int, needs: tuple) -> tuple:
    found: list = []
    start = 0
    for need, shape in zip(needs, xs_shape, strict=False):
        found.append(xp.narrow(g, dim, start, shape[dim]) if need else None)
        start += shape[dim]
    return tuple(found)


CAT = Op(
    "cat",
    lambda xp, xs, /, dim: xp.cat(xs, dim),
    vjp=_cat_vjp,
    diff=("xs",),
    variadic=True,
    kind=LINEAR,
    complex=True,
    samples=[
        Sample([Arg(2, 3), Arg(1, 3)]),
        Sample([Arg(2, 3), Arg(2, 1), Arg(2, 0)], 1),
        Sample((Arg(2), Arg(3)), -1),
        Sample([Arg(0), Arg(2, 2)]),
        Sample([Arg(3)]),
    ],
)


def concat(tensors: Any, dim: int = 0, *, axis: int | None = None, out: Tensor | None = None) -> Tensor:
    """`cat` under its name in NumPy: joins the tensors along `dim`.

    - `tensors` (sequence of Tensors): empty tensors of shape (0,) are ignored, dtypes are promoted
    - `dim` (int, default 0): an existing dimension
    - `axis` (int, default None): NumPy's name of `dim`
    - `out` (Tensor, default None): where to write the result

    Raises what `cat` raises.

    Example::

        >>> import ferro
        >>> ferro.concat([ferro.tensor([1]), ferro.tensor([2, 3])])
        tensor([1, 2, 3])
    """
    return cat(tensors, dim, axis=axis, out=out)


def concatenate(tensors: Any, axis: int = 0, out: Tensor | None = None, *, dim: int | None = None) -> Tensor:
    """`cat` under its name in NumPy: joins the tensors along `axis`.

    - `tensors` (sequence of Tensors): empty tensors of shape (0,) are ignored, dtypes are promoted
    - `axis` (int, default 0): an existing dimension
    - `out` (Tensor, default None): where to write the result
    - `dim` (int, default None): the same

    Raises what `cat` raises.

    Example::

        >>> import ferro
        >>> ferro.concatenate([ferro.tensor([1]), ferro.tensor([2, 3])])
        tensor([1, 2, 3])
    """
    return cat(tensors, axis if dim is None else dim, out=out)


def stack(tensors: Any, dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Puts tensors of one shape side by side along a new dimension `dim`.

    RuntimeError if the shapes differ.  :func:`cat` joins along a dimension that is there already.

    Example::

        >>> import ferro
        >>> ferro.stack([ferro.tensor([1, 2]), ferro.tensor([3, 4])], dim=1)
        tensor([[1, 3],
                [2, 4]])
    """
    xs = tuple(tensors) if type(tensors) in (tuple, list) and tensors else _tensors("stack", tensors)
    try:
        shape = xs[0]._data.shape
        result = joined(STACK, xs, one_dim("stack", len(shape) + 1, dim))
    except AttributeError:
        _tensors("stack", xs)
        raise
    except ValueError:
        for i, x in enumerate(xs):
            if x._data.shape != shape:
                raise RuntimeError(
                    f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and {list(x._data.shape)} at entry {i}"
                ) from None
        raise
    return result if out is None else into("stack", out, result)


STACK = Op(
    "stack",
    lambda xp, xs, /, dim: xp.stack(xs, dim),
    variadic=True,
    kind=LINEAR,
    diff=("xs",),
    complex=True,
    vjp=lambda xp, g, dim, needs: tuple([xp.select(g, dim, i) if need else None for i, need in enumerate(needs)]),
    samples=[
        Sample([Arg(2, 3), Arg(2, 3)]),
        Sample([Arg(2, 3)] * 3, 1),
        Sample([Arg(2), Arg(2)], -1),
        Sample([Arg(), Arg()]),
    ],
    layout=DENSE,
)


def hstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Joins tensors side by side: along the second dimension (the first of 1-D tensors).

    - `tensors` (sequence of Tensors): equal in all other sizes
    - `out` (Tensor, default None): where to write the result

    RuntimeError for sizes that differ.

    Example::

        >>> import ferro
        >>> ferro.hstack([ferro.tensor([1]), ferro.tensor([2, 3])])
        tensor([1, 2, 3])
    """
    xs = [atleast_1d(x) for x in _tensors("hstack", tensors)]
    result = cat(xs, 0 if xs[0]._data.ndim == 1 else 1)
    return result if out is None else into("hstack", out, result)


def vstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Joins tensors one below the other, along the first dimension; 1-D tensors are rows.

    - `tensors` (sequence of Tensors): equal in all other sizes
    - `out` (Tensor, default None): where to write the result

    RuntimeError for sizes that differ.

    Example::

        >>> import ferro
        >>> ferro.vstack([ferro.tensor([1, 2]), ferro.tensor([3, 4])])
        tensor([[1, 2],
                [3, 4]])
    """
    result = cat([atleast_2d(x) for x in _tensors("vstack", tensors)], 0)
    return result if out is None else into("vstack", out, result)


def row_stack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Another name of :func:`vstack`."""
    return vstack(tensors, out=out)


def dstack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """Joins tensors along the third dimension; they get as many dimensions first.

    - `tensors` (sequence of Tensors): equal in all other sizes
    - `out` (Tensor, default None): where to write the result

    RuntimeError for sizes that differ.

    Example::

        >>> import ferro
        >>> ferro.dstack([ferro.tensor([1, 2]), ferro.tensor([3, 4])]).shape
        ferro.Size([1, 2, 2])
    """
    result = cat([atleast_3d(x) for x in _tensors("dstack", tensors)], 2)
    return result if out is None else into("dstack", out, result)


def column_stack(tensors: Any, *, out: Tensor | None = None) -> Tensor:
    """The tensors side by side, 1-D tensors as columns."""
    xs = [x if x._data.ndim > 1 else reshape(x, (x._data.size, 1)) for x in _tensors("column_stack", tensors)]
    return hstack(xs, out=out)


_PAIRS = [Sample([Arg(), Arg()]), Sample([Arg(2), Arg(2)]), Sample([Arg(2, 3), Arg(2, 3)])]
for _function in (hstack, vstack, dstack, column_stack):
    declare(_function.__name__, _PAIRS, complex=True)


def block_diag(*tensors: Any) -> Tensor:
    """Matrices as blocks on the diagonal of one that is 0 elsewhere.

    - `*tensors` (Tensor): of at most two dimensions; 1-D tensors are rows

    RuntimeError for more dimensions.

    Example::

        >>> import ferro
        >>> ferro.block_diag(ferro.ones(1, 2), ferro.ones(2, 1))
        tensor([[1., 1., 0.],
                [0., 0., 1.],
                [0., 0., 1.]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    if not tensors:
        return wrap(np.zeros((1, 0), dtypes.default().np))
    xs = [atleast_2d(x) for x in promote(*_tensors("block_diag", tensors))]
    for i, x in enumerate(xs):
        if x._data.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {x._data.ndim} dimensions"
            )
    return apply(BLOCK_DIAG, tuple(xs))


def _block_diag_vjp(xp: Any, g: Any, xs_shape: tuple, needs: tuple) -> tuple:
    found: list = []
    i = j = 0
    for need, (n, m) in zip(needs, xs_shape, strict=False):
        found.append(xp.narrow(xp.narrow(g, 0, i, n), 1, j, m) if need else None)
        i, j = i + n, j + m
    return tuple(found)


BLOCK_DIAG = Op(
    "block_diag",
    lambda xp, xs: xp.block_diag(xs),
    vjp=_block_diag_vjp,
    diff=("xs",),
    variadic=True,
    kind=LINEAR,
    complex=True,
    samples=[Sample(Arg(2, 3), Arg(1, 2)), Sample(Arg(2), Arg(), Arg(2, 1)), Sample(Arg(2, 2))],
)


# -- grids and choices -------------------------------------------------------------------------------------------------


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinates of a grid: every tensor (of at most one dimension) expanded along the dimensions of the others.

    - `indexing`: "ij" keeps the order of the dimensions, "xy" exchanges the first two; PyTorch will change its default, so name one

    Example::

        >>> import ferro
        >>> x, y = ferro.meshgrid(ferro.tensor([1, 2]), ferro.tensor([3, 4, 5]), indexing="ij")
        >>> x
        tensor([[1, 1, 1],
                [2, 2, 2]])
        >>> y
        tensor([[3, 4, 5],
                [3, 4, 5]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for x in tensors:
        if need_tensor("meshgrid", "tensors", x)._data.ndim > 1:
            raise RuntimeError(
                f"meshgrid: Expected 0D or 1D tensor in the tensor list but got: shape {list(x._data.shape)}"
            )
        if x._data.dtype is not tensors[0]._data.dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if indexing is None:
        warn_once(
            'torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument; without it, it is "ij".'
        )
    places = list(range(len(tensors)))
    if indexing == "xy" and len(places) > 1:
        places[:2] = 1, 0
    shape = [0] * len(tensors)
    for place, x in zip(places, tensors, strict=True):
        shape[place] = x._data.size
    return tuple(
        [
            viewed(
                EXPAND,
                viewed(RESHAPE, x, (tuple([x._data.size if d == place else 1 for d in range(len(shape))]),)),
                (tuple(shape),),
            )
            for place, x in zip(places, tensors, strict=True)
        ]
    )


declare(
    "meshgrid",
    [
        Sample(Arg(2), Arg(3), indexing="ij"),
        Sample(Arg(2), Arg(), Arg(3), indexing="xy"),
        Sample([Arg(2)], indexing="ij"),
    ],
    complex=True,
)


def cartesian_prod(*tensors: Any) -> Tensor:
    """All tuples with one element from each tensor, as rows; of one tensor, its elements."""
    for x in tensors:
        if need_tensor("cartesian_prod", "tensors", x)._data.ndim != 1:
            raise RuntimeError(f"cartesian_prod: Expect a 1D vector, but got shape {list(x._data.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return stack(
        [reshape(x, (-1,)) if x._data.size else reshape(x, (0,)) for x in meshgrid(*tensors, indexing="ij")], 1
    )


declare("cartesian_prod", [Sample(Arg(2), Arg(3)), Sample(Arg(2), Arg(1), Arg(2)), Sample(Arg(3))], complex=True)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of r elements of a vector, in order, as rows.

    - `input` (Tensor): (n)
    - `r` (int, default 2): how many
    - `with_replacement` (bool, default False): whether an element may be chosen again

    The result is (choices, r). RuntimeError for other shapes and a negative r.

    Example::

        >>> import ferro
        >>> ferro.combinations(ferro.tensor([1, 2, 3]))
        tensor([[1, 2],
                [1, 3],
                [2, 3]])
    """
    if input._data.ndim != 1:
        raise RuntimeError(f"combinations: Expect a 1D vector, but got shape {list(input._data.shape)}")
    if r < 0:
        raise RuntimeError(f"combinations: Expect a non-negative number, but got {r}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    if r == 0:
        return wrap(np.zeros(0, input._data.dtype))
    index = np.array(list(choose(range(input._data.size), r)), np.int64).reshape(-1, r)
    return input[wrap(index)]


declare("combinations", [Sample(Arg(4)), Sample(Arg(3), 2, True), Sample(Arg(4), 3), Sample(Arg(2), 3)], complex=True)


# -- repeated ----------------------------------------------------------------------------------------------------------


def repeat(self: Tensor, *repeats: Any) -> Tensor:
    """A copy of the tensor repeated along its dimensions; extra numbers add leading dimensions.

    Example::

        >>> import ferro
        >>> ferro.tensor([1, 2]).repeat(2, 3)
        tensor([[1, 2, 1, 2, 1, 2],
                [1, 2, 1, 2, 1, 2]])
    """
    times = sizes("repeat", repeats)
    if len(times) < self._data.ndim:
        raise RuntimeError(
            "repeat: Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: "
            f"{list(times)} for {self._data.ndim} dimensions"
        )
    if any(t < 0 for t in times):
        lead = (1,) * (len(times) - self._data.ndim)
        shape = [n * t for n, t in zip((*lead, *self._data.shape), times, strict=True)]
        wrong = min(shape) if min(shape) < 0 else min(times)
        raise RuntimeError(
            f"repeat: Trying to create tensor with negative dimension {wrong}: {shape}, by repeats {list(times)}"
        )
    return unary(REPEAT, self, (times,))


def _repeat_x(xp: Any, g: Any, x_shape: tuple, times: tuple) -> Any:
    shape = (1,) * (len(times) - len(x_shape)) + x_shape
    pairs = tuple([n for pair in zip(times, shape, strict=True) for n in pair])
    return xp.reshape(xp.sum(xp.reshape(g, pairs), tuple(range(0, len(pairs), 2)), False) if pairs else g, x_shape)


REPEAT = Op(
    "repeat",
    lambda xp, x, /, times: xp.repeat(x, times),
    kind=LINEAR,
    x=_repeat_x,
    path="Tensor.repeat",
    complex=True,
    samples=[Sample(Arg(2, 3), 2, 1), Sample(Arg(3), (2, 2)), Sample(Arg(), 3), Sample(Arg(2), 0)],
)


def tile(input: Tensor, *given: Any, dims: Any = None) -> Tensor:
    """A copy of the tensor, repeated along its dimensions.

    - `input` (Tensor): any shape
    - `*given` (ints): how often along each dimension, or one tuple of them; missing numbers in front count as 1
    - `dims` (ints, default None): the same by name

    Example::

        >>> import ferro
        >>> ferro.tile(ferro.tensor([1, 2]), (2, 2))
        tensor([[1, 2, 1, 2],
                [1, 2, 1, 2]])
    """
    times = sizes("tile", given or (dims,))
    return repeat(input, (1,) * (input._data.ndim - len(times)) + times)


declare(
    "tile",
    [Sample(Arg(2, 3), (2,)), Sample(Arg(3), (2, 2)), Sample(Arg(2, 1), (1, 3)), Sample(Arg(), ())],
    complex=True,
)


@by_slices
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Every slice along `dim` (every element, if None) repeated in its place, one number of times or one for each.

    Of a tensor of numbers alone: each position repeated that many times.

    - `input` (Tensor): any shape
    - `repeats` (int or Tensor, default None): how often, a number or (n), not negative
    - `dim` (int, default None): the dimension; None: the flattened tensor
    - `output_size` (int, default None): the size of the result along `dim`, if it is known

    RuntimeError for negative repeats and numbers that do not fit, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.tensor([1, 2, 3]).repeat_interleave(2)
        tensor([1, 1, 2, 2, 3, 3])
    """
    if repeats is None:
        if input._data.ndim != 1 or input._data.dtype.kind not in "iu":
            raise RuntimeError(
                f"repeat_interleave only accepts 1D int vectors as repeat, got shape {list(input._data.shape)}, dtype {input.dtype}"
            )
        return wrap(np.repeat(np.arange(input._data.size), _counts(input._data)))
    x = reshape(input, (input._data.size,)) if dim is None or not input._data.ndim else input
    d = one_dim("repeat_interleave", x._data.ndim, 0 if dim is None else dim)
    shape = x._data.shape
    times: Any = repeats._data if isinstance(repeats, TensorBase) else np.asarray(repeats)
    times = backend.moved(times, CPU)
    if times.dtype.kind not in "iu":
        raise NotImplementedError(
            f"\"repeat_interleave_cpu\" not implemented for '{dtypes.type_name(dtypes.from_numpy(times.dtype))}': repeats must be integers"
        )
    if times.ndim > 1:
        raise RuntimeError(f"repeat_interleave: repeats must be 0-dim or 1-dim tensor, got {times.ndim} dimensions")
    times = _counts(times.reshape(-1))
    if times.size not in (1, shape[d]):
        raise RuntimeError(
            f"repeat_interleave: repeats must have the same size as input along dim, but got repeats.size(0) = {times.size} "
            f"and input.size({d}) = {shape[d]}"
        )
    total = int(times.sum()) * (shape[d] if times.size == 1 else 1)
    if output_size is not None and output_size != total:
        raise RuntimeError(
            f"repeat_interleave: allocated size does not match required size: output_size {output_size}, required {total}"
        )
    if times.size == 1 and times[0] > 1 and shape[d] > 1:  # (else the expanded tensor would be a view of the input)
        n = int(times[0])
        wide = apply(
            EXPAND, (reshape(x, (*shape[: d + 1], 1, *shape[d + 1 :])),), ((*shape[: d + 1], n, *shape[d + 1 :]),)
        )
        return reshape(wide, (*shape[:d], total, *shape[d + 1 :]))
    return x.index_select(d, wrap(backend.beside(x._data, np.repeat(np.arange(shape[d]), times))))


def _counts(times: Any) -> Any:
    if times.size and times.min() < 0:
        raise RuntimeError("repeat_interleave: repeats can not be negative")
    return times


declare(
    "repeat_interleave",
    [
        Sample(Arg(2, 3), 2),
        Sample(Arg(2, 3), 2, 1),
        Sample(Arg(3), ints([1, 0, 2]), 0),
        Sample(Arg(), 2),
        Sample(Arg(2, 2), ints([2]), dim=0),
    ],
    complex=True,
)


# -- turned ------------------------------------------------------------------------------------------------------------


def flip(input: Tensor, *given: Any, dims: Any = None) -> Tensor:
    """A copy with the elements in reverse order along the dimensions `dims`.

    Example::

        >>> import ferro
        >>> ferro.tensor([[1, 2], [3, 4]]).flip(1)
        tensor([[2, 1],
                [4, 3]])
    """
    wanted = [one_dim("flip", input._data.ndim, d) for d in sizes("flip", given or (dims,))]
    if len(set(wanted)) != len(wanted):
        raise RuntimeError(
            f"flip: dim {min(d for d in wanted if wanted.count(d) > 1)} appears multiple times in the list of dims {wanted}"
        )
    return unary(FLIP, input, (tuple(wanted),))


FLIP = Op(
    "flip",
    lambda xp, x, /, dims: xp.flip(x, dims),
    kind=LINEAR,
    x=lambda xp, g, dims: xp.flip(g, dims),
    complex=True,
    samples=[
        Sample(Arg(2, 3), (0,)),
        Sample(Arg(2, 3), [0, -1]),
        Sample(Arg(2), ()),
        Sample(Arg(), ()),
        Sample(Arg(0, 2), (0,)),
    ],
    layout=FIRST,
)


def fliplr(input: Tensor) -> Tensor:
    """A copy with the second dimension in reverse order."""
    if input._data.ndim < 2:
        raise RuntimeError("fliplr: Input must be >= 2-d.")
    return flip(input, (1,))


def flipud(input: Tensor) -> Tensor:
    """A copy with the first dimension in reverse order."""
    if input._data.ndim < 1:
        raise RuntimeError("flipud: Input must be >= 1-d.")
    return flip(input, (0,))


declare("fliplr", [Sample(Arg(2, 3))], complex=True)
declare("flipud", [Sample(Arg(2, 3)), Sample(Arg(3))], complex=True)


def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """The elements shifted along `dims` (in C order over all, if None); what leaves at one end comes in at the other.

    Example::

        >>> import ferro
        >>> ferro.tensor([1, 2, 3, 4]).roll(1)
        tensor([4, 1, 2, 3])
    """
    by = sizes("roll", (shifts,))
    along = () if dims is None else sizes("roll", (dims,))
    if not by:
        raise RuntimeError("roll: `shifts` required")
    if dims is None or not along:
        if len(by) != 1:
            raise RuntimeError(f"roll: shifts and dimensions must align. shifts: {len(by)}, dims:0")
        return reshape(apply(ROLL, (reshape(input, (input._data.size,)),), (by, (0,))), input._data.shape)
    if len(by) != len(along):
        raise RuntimeError(f"roll: shifts and dimensions must align. shifts: {len(by)}, dims:{len(along)}")
    if not input._data.ndim:
        raise IndexError(f"roll: Dimension specified as {along[0]} but tensor has no dimensions")
    return unary(ROLL, input, (by, tuple([one_dim("roll", input._data.ndim, d) for d in along])))


ROLL = Op(
    "roll",
    lambda xp, x, /, shifts, dims: xp.roll(x, shifts, dims),
    kind=LINEAR,
    x=lambda xp, g, shifts, dims: xp.roll(g, tuple([-s for s in shifts]), dims),
    samples=[
        Sample(Arg(2, 3), 1),
        Sample(Arg(2, 3), 1, 1),
        Sample(Arg(4), -6, 0),
        Sample(Arg(3, 4), (1, -2), (0, 1)),
        Sample(Arg(0, 2), 1, 0),
    ],
    complex=True,
    layout=DENSE,
)


def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """The tensor turned k times by 90 degrees in the plane of two dimensions, from the first towards the second.

    - `input` (Tensor): of two or more dimensions
    - `k` (int, default 1): how often; negative ones turn the other way
    - `dims` (pair of ints, default (0, 1)): the dimensions

    RuntimeError for fewer dimensions or equal ones.

    Example::

        >>> import ferro
        >>> ferro.rot90(ferro.tensor([[1, 2], [3, 4]]))
        tensor([[2, 4],
                [1, 3]])
    """
    plane = tuple(dims)
    n = input._data.ndim
    if len(plane) != 2:
        raise RuntimeError(f"rot90: expected total rotation dims == 2, but got dims = {len(plane)}")
    if n < 2:
        raise RuntimeError(f"rot90: expected total dims >= 2, but got total dims = {n}")
    where = tuple([one_dim("rot90", n, d) for d in plane])
    if where[0] == where[1]:
        raise RuntimeError(
            f"rot90: expected rotation dims to be different, but got dim0 = {plane[0]} and dim1 = {plane[1]}"
        )
    return unary(ROT90, input, (k % 4, where))


ROT90 = Op(
    "rot90",
    lambda xp, x, /, k, dims: xp.rot90(x, k, dims),
    kind=LINEAR,
    x=lambda xp, g, k, dims: xp.rot90(g, -k, dims),
    samples=[
        Sample(Arg(2, 3)),
        Sample(Arg(2, 3), 2),
        Sample(Arg(2, 3), -1, (1, 0)),
        Sample(Arg(2, 3, 2), 3, (0, 2)),
        Sample(Arg(2, 2), 4),
    ],
    complex=True,
)


class JoiningMethods:
    """Methods of Tensor."""

    __slots__ = ()
    flip, fliplr, flipud, repeat, repeat_interleave = flip, fliplr, flipud, repeat, repeat_interleave
    roll, rot90, tile = roll, rot90, tile
