"""Shape: views (and, where strides demand it, copies) of a tensor under another shape."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

from ferro.core.apply import apply, unary
from ferro.core.arguments import many_dims, need_tensor, one_dim, sizes
from ferro.core.base import View
from ferro.core.dtypes import dtype, to_numpy, type_name
from ferro.core.inplace import restride
from ferro.core.layout import geometry
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.core.views import is_copied, looks_for_copies, viewed

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["flatten", "ravel", "reshape", "squeeze", "unflatten", "unsqueeze"]


# -- another shape -----------------------------------------------------------------------------------------------------


def reshape(input: Tensor, *size: Any, shape: Any = None) -> Tensor:
    """The same elements, in C order, in another shape: a view where strides allow, else a copy.

    - `shape`: a tuple; one size may be -1 and is computed from the others

    RuntimeError if the number of elements differs.

    Example::

        >>> import ferro
        >>> ferro.arange(6).reshape(2, -1)
        tensor([[0, 1, 2],
                [3, 4, 5]])
    """
    given = size or (shape,)
    a = getattr(input, "_data", None)
    if looks_for_copies(a):
        wanted = infer("reshape", a.shape, sizes("reshape", given))
        if is_copied(a, wanted):
            return apply(UNSAFE_VIEW, (input,), (wanted,))
    found = _at_a_glance(input, given)
    return found if found is not None else _reshaped("reshape", input, given)


def _at_a_glance(x: Any, given: tuple) -> Any:
    """The tensor in the shape that f(2, 3) or f((2, 3)) asks for, if these are plain sizes that fit; else None."""
    shape = given[0] if len(given) == 1 and type(given[0]) is not int else given
    if type(shape) is tuple:
        for s in shape:
            if type(s) is not int or s < 0:
                if type(s) is int and s == -1 and len(shape) == 1:
                    return viewed(RESHAPE, x, ((x._data.size,),))
                return None
        try:
            return viewed(RESHAPE, x, (shape,))
        except ValueError:
            pass  # NumPy's of a wrong number of elements: `infer` puts it into words before the call is made again
    return None


def _reshaped(name: str, x: Any, given: tuple) -> Any:
    """The same for any sizes, with an error for those that do not fit."""
    return viewed(RESHAPE, x, (infer(name, need_tensor(name, "input", x)._data.shape, sizes(name, given)),))


RESHAPE = Op(
    "reshape",
    lambda xp, x, /, shape: xp.reshape(x, shape),
    kind=LINEAR,
    view=True,
    x=lambda xp, g, x_shape: xp.reshape(g, x_shape),
    samples=[Sample(Arg(2, 6), (3, 4)), Sample(Arg(2, 3), (-1,)), Sample(Arg(), (1, 1)), Sample(Arg(0, 2), (2, 0))],
    complex=True,
)


# What reshape() does where it copies.
UNSAFE_VIEW = Op(
    "_unsafe_view",
    lambda xp, x, /, shape: xp.reshape(x, shape),
    kind=LINEAR,
    x=lambda xp, g, x_shape: xp.reshape(g, x_shape),
)


def infer(name: str, have: tuple, shape: tuple) -> tuple:
    """`shape` with its -1 worked out; RuntimeError if the number of elements does not fit."""
    total = 1
    for s in have:
        total *= s
    known = 1
    for s in shape:
        if s < -1:
            raise RuntimeError(f"{name}: invalid shape dimension {s} at index {shape.index(s)} of shape {list(shape)}")
        known *= s if s != -1 else 1
    if shape.count(-1) > 1:
        raise RuntimeError(f"{name}: only one dimension can be inferred, got {list(shape)}")
    if -1 in shape:
        if known == 0 and total == 0:
            raise RuntimeError(
                f"{name}: cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension "
                "size -1 can be any value and is ambiguous"
            )
        if known == 0 or total % known:
            raise RuntimeError(
                f"{name}: shape '{list(shape)}' is invalid for input of size {total} (shape {list(have)})"
            )
        return tuple([total // known if s == -1 else s for s in shape])
    if known != total:
        raise RuntimeError(f"{name}: shape '{list(shape)}' is invalid for input of size {total} (shape {list(have)})")
    return shape


def view(input: Tensor, *shape: Any, dtype: Any = None) -> Tensor:
    """The same memory in another shape, or (given a dtype) its bits as elements of another type.

    - `input` (Tensor): any shape
    - `*shape` (ints): numbers, or one tuple of them; one may be -1 and is computed from the others
    - `dtype` (dtype, default None): the dtype that the bits are read as; this has no derivative

    RuntimeError where the strides do not allow a view: reshape() copies there.

    Example::

        >>> import ferro
        >>> x = ferro.zeros(2, 6)
        >>> y = x.view(3, -1)
        >>> y.shape
        ferro.Size([3, 4])
        >>> y[0, 0] = 1
        >>> x[0, 0]
        tensor(1.)
    """
    if dtype is not None or (len(shape) == 1 and isinstance(shape[0], _DTYPE)):
        return _view_bits(input, shape[0] if dtype is None else dtype)
    found = _at_a_glance(input, shape)
    if found is None:
        found = _reshaped("view", input, shape)
    shared = (
        found._counter is not None and found._counter is input._counter
    )  # (an inference tensor has no views, but shares)
    if type(found._meta) is not View and found._data.size and not shared:
        raise RuntimeError(
            "view: view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            f"contiguous subspaces). Use .reshape(...) instead. The size is {list(found._data.shape)}, the tensor has the shape "
            f"{list(input.shape)} and the stride {list(input.stride())}"
        )
    return found


_DTYPE = dtype


def _view_bits(x: Any, wanted: Any) -> Tensor:
    have, size = x._data.dtype.itemsize, to_numpy(wanted).itemsize
    if have != size:
        shape, strides, offset = geometry(x._data)
        how = f"to view {type_name(x.dtype)} as {type_name(wanted)} (different element sizes)"
        if not shape:
            raise RuntimeError(f"view: self.dim() cannot be 0 {how}")
        if strides[-1] != 1:
            raise RuntimeError(f"view: self.stride(-1) must be 1 {how}, but got {strides[-1]}")
        ratio = size // have
        odd = [
            ("size(-1)", shape[-1]),
            ("storage_offset()", offset),
            *[(f"stride({d})", s) for d, s in enumerate(strides[:-1])],
        ]
        for what, number in odd if ratio else ():
            if number % ratio:
                raise RuntimeError(f"view: self.{what} must be divisible by {ratio} {how}, but got {number}")
    return unary(VIEW_BITS, x, (wanted.np,))


VIEW_BITS = Op("view_dtype", lambda xp, x, /, dtype: xp.bit_view(x, dtype), view=True)

declare(
    "Tensor.view", [Sample(Arg(6), 3, 2), Sample(Arg(2, 3), (2, 1, -1)), Sample(Arg(), 1)], method=True, complex=True
)


def view_as(self: Tensor, other: Tensor) -> Tensor:
    """The same memory in the shape of `other`."""
    return view(self, need_tensor("view_as", "other", other)._data.shape)


def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """The same elements in the shape of `other`."""
    return reshape(self, need_tensor("reshape_as", "other", other)._data.shape)


def resize(self: Tensor, *sizes_: Any) -> Tensor:
    """The old name of `view` with a copy where none is possible; the number of elements must stay."""
    warnings.warn("non-inplace resize is deprecated", UserWarning, stacklevel=2)
    shape = sizes("resize", sizes_)
    if math.prod(shape) != self._data.size:
        raise RuntimeError(
            f"resize: requested resize to {list(shape)} ({math.prod(shape)} elements in total), but the "
            f"given tensor has a size of {list(self._data.shape)} ({self._data.size} elements); the "
            "number of elements must be preserved"
        )
    return reshape(self, shape)


def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """The old name of `reshape_as`."""
    return resize(self, need_tensor("resize_as", "tensor", tensor)._data.shape)


declare("Tensor.resize", [Sample(Arg(2, 3), 3, 2), Sample(Arg(2, 3), 6)], method=True)
declare("Tensor.resize_as", [Sample(Arg(2, 3), Arg(3, 2, grad=False))], method=True)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The dimensions from start_dim to end_dim as one; a view where strides allow.

    Example::

        >>> import ferro
        >>> ferro.zeros(32, 3, 8, 8).flatten(1).shape
        ferro.Size([32, 192])
    """
    shape = input._data.shape
    if start_dim == 0 and end_dim == -1 and len(shape) > 1 and type(start_dim) is type(end_dim):
        return viewed(RESHAPE, input, ((input._data.size,),))
    start = one_dim("flatten", len(shape), start_dim, "start_dim")
    end = one_dim("flatten", len(shape), end_dim, "end_dim")
    if not shape:
        return reshape(input, (1,))
    if start > end:
        raise RuntimeError(
            f"flatten() has invalid args: start_dim cannot come after end_dim, got {start_dim} and {end_dim}"
        )
    if start == end:
        return input
    n = 1
    for s in shape[start : end + 1]:
        n *= s
    return viewed(RESHAPE, input, ((*shape[:start], n, *shape[end + 1 :]),))


declare(
    "flatten", [Sample(Arg(2, 3, 2)), Sample(Arg(2, 3, 2), 1), Sample(Arg(2, 3, 2), 0, -2), Sample(Arg())], complex=True
)


def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """One dimension as several: a view.

    - `input` (Tensor): of one or more dimensions
    - `dim` (int): the dimension
    - `sizes` (ints): the new sizes, one of which may be -1; their product is the size of the dimension

    RuntimeError for another product, IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.unflatten(ferro.zeros(2, 12), 1, (3, -1)).shape
        ferro.Size([2, 3, 4])
    """
    shape = input._data.shape
    d = one_dim("unflatten", len(shape), dim)
    inner = _sizes("unflatten", (sizes,))
    if not inner:
        raise RuntimeError("unflatten: sizes must be non-empty")
    return viewed(RESHAPE, input, ((*shape[:d], *infer("unflatten", shape[d : d + 1], inner), *shape[d + 1 :]),))


_sizes = sizes
declare(
    "unflatten", [Sample(Arg(2, 6), 1, (3, 2)), Sample(Arg(6, 2), 0, (-1, 2)), Sample(Arg(4), -1, (2, 2))], complex=True
)


def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension: a view where strides allow."""
    return reshape(input, (-1,)) if input._data.size else reshape(input, (0,))


declare("ravel", [Sample(Arg(2, 3)), Sample(Arg()), Sample(Arg(0, 2))], complex=True)


def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """A view without the dimensions of size 1, or without those of them that `dim` (an int or several) names.

    Example::

        >>> import ferro
        >>> x = ferro.zeros(2, 1, 3, 1)
        >>> x.squeeze().shape, x.squeeze(1).shape
        (ferro.Size([2, 3]), ferro.Size([2, 3, 1]))
    """
    shape = input._data.shape
    if type(dim) is int and shape:
        d = one_dim("squeeze", len(shape), dim)
        return viewed(SQUEEZE, input, ((d,) if shape[d] == 1 else (),))
    dims = many_dims("squeeze", len(shape), dim, empty_is_all=False)
    return viewed(SQUEEZE, input, (tuple([d for d in dims if shape[d] == 1]),))


SQUEEZE = Op(
    "squeeze",
    lambda xp, x, /, dim: xp.squeeze(x, dim),
    kind=LINEAR,
    view=True,
    x=lambda xp, g, x_shape: xp.reshape(g, x_shape),
    samples=[
        Sample(Arg(1, 3, 1)),
        Sample(Arg(1, 3, 1), 0),
        Sample(Arg(1, 3, 1), -1),
        Sample(Arg(2, 3), 0),
        Sample(Arg(1, 3, 1), (0, 2)),
        Sample(Arg()),
    ],
    complex=True,
)


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A view with a dimension of size 1 inserted at `dim`.

    Example::

        >>> import ferro
        >>> x = ferro.zeros(5)
        >>> x.unsqueeze(0).shape, x.unsqueeze(-1).shape
        (ferro.Size([1, 5]), ferro.Size([5, 1]))
    """
    return viewed(UNSQUEEZE, input, (one_dim("unsqueeze", input._data.ndim + 1, dim),))


UNSQUEEZE = Op(
    "unsqueeze",
    lambda xp, x, /, dim: xp.unsqueeze(x, dim),
    kind=LINEAR,
    view=True,
    x=lambda xp, g, x_shape: xp.reshape(g, x_shape),
    samples=[Sample(Arg(2, 3), 0), Sample(Arg(2, 3), 1), Sample(Arg(2, 3), -1), Sample(Arg(), 0)],
    complex=True,
)


class ShapeMethods:
    """Methods of Tensor."""

    __slots__ = ()
    flatten = flatten
    resize, resize_as = resize, resize_as
    ravel, reshape, reshape_as, squeeze = ravel, reshape, reshape_as, squeeze
    unsqueeze, view, view_as = unsqueeze, view, view_as
    squeeze_, unsqueeze_ = restride(squeeze), restride(unsqueeze)

    def unflatten(self: Any, dim: int, *sizes: Any) -> Tensor:
        """One dimension as several: see :func:`ferro.unflatten`."""
        return unflatten(self, dim, _sizes("unflatten", sizes))
