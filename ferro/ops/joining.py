"""Joining tensors: one behind the other, side by side, as blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import dtypes
from ferro.core.apply import apply, joined
from ferro.core.arguments import one_dim
from ferro.core.base import TensorBase, wrap
from ferro.core.into import into
from ferro.core.layout import DENSE
from ferro.core.layout import joined as laid_as
from ferro.core.op import LINEAR, Op
from ferro.core.operands import promote
from ferro.core.samples import Arg, Sample, declare
from ferro.core.writes import joined_into
from ferro.ops.expanding import atleast_1d, atleast_2d, atleast_3d
from ferro.ops.index_arguments import apart
from ferro.ops.shape import reshape

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["block_diag", "cat", "column_stack", "concat", "concatenate", "dstack", "hstack", "row_stack", "stack",
           "vstack"]  # fmt: skip


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
        if out is not None and shape:
            place = (*shape[:d], len(xs) * shape[d], *shape[d + 1 :])
            if joined_into(out, xs, d, place, "cat(out=)") is not None:
                return out
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
        wrong = [k for k, (a, b) in enumerate(zip(s, first, strict=True)) if a != b and k != dim]
        if wrong:
            raise RuntimeError(
                f"cat: Sizes of tensors must match except in dimension {dim}. Expected size {first[wrong[0]]} but got size "
                f"{s[wrong[0]]} for tensor number {i} in the list (dimension {wrong[0]} of shapes {list(first)} and {list(s)})."
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
        d = one_dim("stack", len(shape) + 1, dim)
        place = (*shape[:d], len(xs), *shape[d:])
        if out is not None and joined_into(out, xs, d, place, "stack(out=)") is not None:
            return out
        result = joined(STACK, xs, d)
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


declare("combinations", [Sample(Arg(4)), Sample(Arg(3), 2, True), Sample(Arg(4), 3), Sample(Arg(2), 3)], complex=True)
