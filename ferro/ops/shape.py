"""Shape: views (and, where strides demand it, copies) of a tensor under another shape or order of dimensions."""

from __future__ import annotations

import math
import warnings
from itertools import pairwise, permutations
from typing import TYPE_CHECKING, Any, overload

from ferro.core.apply import unary
from ferro.core.arguments import many_dims, need_tensor, one_dim, sizes, unlike
from ferro.core.base import TensorBase, View
from ferro.core.dtypes import dtype, to_numpy, type_name
from ferro.core.inplace import restride
from ferro.core.layout import Named, channels_last, channels_last_3d, contiguous_format, geometry, memory_order
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.core.size import Size
from ferro.core.views import viewed
from ferro.ops.complex import conj

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["adjoint", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_shapes", "broadcast_tensors",
           "broadcast_to", "flatten", "moveaxis", "movedim", "permute", "ravel", "reshape", "squeeze", "swapaxes",
           "swapdims", "t", "transpose", "unflatten", "unsqueeze"]  # fmt: skip


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
    found = _at_a_glance(input, given)
    return found if found is not None else _reshaped("reshape", input, given)


def _at_a_glance(x: Any, given: tuple) -> Any:
    """The tensor in the shape that f(2, 3) or f((2, 3)) asks for, if these are plain sizes that fit; else None."""
    shape = given[0] if len(given) == 1 else given
    if type(shape) is tuple:
        for s in shape:
            if type(s) is not int or s < 0:
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
            f"{list(input.shape)} and the stride {list(stride(input))}"
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


# -- another order of dimensions ---------------------------------------------------------------------------------------


_ORDERS = frozenset([p for n in range(6) for p in permutations(range(n))])  # that need no further look


def permute(input: Tensor, *given: Any, dims: Any = None) -> Tensor:
    """A view with the dimensions in another order.

    - `input` (Tensor): any shape
    - `*given` (ints): the dimensions in their new order, or one tuple of them
    - `dims` (ints, default None): the same by name

    RuntimeError for a dimension that is missing or repeated, IndexError for one out of range.

    Example::

        >>> import ferro
        >>> images = ferro.zeros(16, 3, 32, 48)
        >>> images.permute(0, 2, 3, 1).shape
        ferro.Size([16, 32, 48, 3])
    """
    order = given[0] if len(given) == 1 else given
    if type(order) is tuple and order in _ORDERS:
        try:
            return viewed(PERMUTE, input, (order,))
        except ValueError:
            pass  # NumPy's of another number of dimensions: put into words below; any other comes again from there
    n = input._data.ndim
    wanted = _sizes("permute", given or (dims,))
    if len(wanted) != n:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of "
            f"dimensions i.e. input.dim() = {n} is not equal to len(dims) = {len(wanted)}: {list(wanted)}"
        )
    order = tuple([one_dim("permute", n, d) for d in wanted])
    if len(set(order)) != n:
        raise RuntimeError(f"permute(): duplicate dims are not allowed. Got {list(wanted)}")
    return viewed(PERMUTE, input, (order,))


PERMUTE = Op(
    "permute",
    lambda xp, x, /, dims: xp.permute(x, dims),
    kind=LINEAR,
    view=True,
    x=lambda xp, g, dims: xp.permute(g, tuple([dims.index(d) for d in range(len(dims))])),
    samples=[Sample(Arg(2, 3, 4), (2, 0, 1)), Sample(Arg(2, 3), (-1, 0)), Sample(Arg(), ()), Sample(Arg(0, 2), (1, 0))],
    complex=True,
)


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """A view with two dimensions exchanged.

    - `input` (Tensor): any shape
    - `dim0`, `dim1` (int): the dimensions

    IndexError for one out of range.

    Example::

        >>> import ferro
        >>> ferro.tensor([[1, 2, 3], [4, 5, 6]]).transpose(0, 1)
        tensor([[1, 4],
                [2, 5],
                [3, 6]])
    """
    n = input._data.ndim
    if type(dim0) is type(dim1) is int and -n <= dim0 < n and -n <= dim1 < n:  # what one_dim would let pass
        return viewed(TRANSPOSE, input, (dim0 % n, dim1 % n))
    dims = one_dim("transpose", n, dim0, "dim0"), one_dim("transpose", n, dim1, "dim1")
    return viewed(TRANSPOSE, input, dims) if n else viewed(PERMUTE, input, ((),))


TRANSPOSE = Op(
    "transpose",
    lambda xp, x, /, dim0, dim1: xp.transpose(x, dim0, dim1),
    kind=LINEAR,
    view=True,
    x=lambda xp, g, dim0, dim1: xp.transpose(g, dim0, dim1),
    samples=[Sample(Arg(2, 3, 4), 0, 2), Sample(Arg(2, 3), -1, -2), Sample(Arg(3), 0, 0), Sample(Arg(), 0, -1)],
    complex=True,
)


def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """The tensor with two dimensions exchanged: a view.

    - `input` (Tensor): any shape
    - `axis0`, `axis1` (int): the dimensions

    IndexError for one out of range.

    Example::

        >>> import ferro
        >>> ferro.swapaxes(ferro.zeros(2, 3, 4), 0, 2).shape
        ferro.Size([4, 3, 2])
    """
    return transpose(input, axis0, axis1)


def swapdims(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """The tensor with two dimensions exchanged."""
    return transpose(input, dim0, dim1)


def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; a tensor of fewer dimensions is returned as it is (as a view)."""
    n = input._data.ndim
    if n > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 dimensions, but self is {n}D; use transpose(dim0, dim1) or .mT"
        )
    return viewed(PERMUTE, input, ((1, 0) if n == 2 else tuple(range(n)),))


declare("t", [Sample(Arg(2, 3)), Sample(Arg(3)), Sample(Arg())], complex=True)


def adjoint(input: Tensor) -> Tensor:
    """The conjugate transpose of the matrices in the last two dimensions."""
    return conj(_matrix_transpose("adjoint", input))


declare("adjoint", [Sample(Arg(2, 3)), Sample(Arg(2, 2, 3))], complex=True)


def _matrix_transpose(name: str, x: Any) -> Tensor:
    if x._data.ndim < 2:
        raise RuntimeError(
            f"{name}: tensor.{name} is only supported on matrices or batches of matrices. Got {x._data.ndim}-D tensor."
        )
    return transpose(x, -2, -1)


def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """The dimensions `source` moved to the places `destination`; the others keep their order."""
    n = input._data.ndim
    start, end = [(p,) if isinstance(p, int) else tuple(p) for p in (source, destination)]
    if len(start) != len(end):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(start)} dims) should contain the same number of dims "
            f"as destination ({list(end)} dims)"
        )
    given = {"source": start, "destination": end}
    start = [one_dim("movedim", n, d, "source") for d in start]
    end = [one_dim("movedim", n, d, "destination") for d in end]
    for what, dims in (("source", start), ("destination", end)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{what}` ({list(given[what])})")
    rest = iter([d for d in range(n) if d not in start])
    moved = dict(zip(end, start, strict=True))
    return viewed(PERMUTE, input, (tuple([moved[d] if d in moved else next(rest) for d in range(n)]),))


def moveaxis(input: Tensor, source: Any, destination: Any) -> Tensor:
    """The dimensions `source` moved to the places `destination`; the others keep their order."""
    return movedim(input, source, destination)


declare(
    "movedim",
    [Sample(Arg(2, 3, 4), 0, 2), Sample(Arg(2, 3, 4), (0, 1), (-1, 0)), Sample(Arg(2, 3), -1, 0)],
    complex=True,
)


# -- repeated without a copy -------------------------------------------------------------------------------------------


def expand(input: Tensor, *sizes: Any, size: Any = None, implicit: bool = False) -> Tensor:
    """The tensor with dimensions of size 1 repeated to the given sizes, without a copy; -1 keeps a size.

    Extra sizes add leading dimensions.  Several elements share one place in memory: clone() before writing.

    - `input` (Tensor): any shape
    - `*sizes` (ints): numbers, or one tuple of them; -1 keeps a size
    - `size` (ints, default None): the same by name
    - `implicit` (bool, default False): no effect

    RuntimeError for sizes that do not fit.

    Example::

        >>> import ferro
        >>> ferro.tensor([[1], [2]]).expand(2, 3)
        tensor([[1, 1, 1],
                [2, 2, 2]])
    """
    return _expand("expand", input, _sizes("expand", sizes or (size,)))


def _expand(name: str, x: Any, wanted: tuple) -> Tensor:
    full = wanted
    for s in wanted:
        if s < 0:
            full = _kept_sizes(name, x._data.shape, wanted)
            break
    try:
        return viewed(EXPAND, x, (full,))
    except ValueError:
        _explain_expand(name, x._data.shape, wanted)
        raise


def _kept_sizes(name: str, have: tuple, wanted: tuple) -> tuple:
    """The wanted sizes, -1 replaced by what the shape `have` has in its place."""
    lead = len(wanted) - len(have)
    full = tuple([have[i - lead] if s == -1 and i >= lead >= 0 else s for i, s in enumerate(wanted)])
    if min(full) < 0 <= lead:
        _explain_expand(name, have, wanted)
    return full


def _explain_expand(name: str, have: tuple, wanted: tuple) -> None:
    """Says why an array of the shape `have` cannot be expanded."""
    lead = len(wanted) - len(have)
    if lead < 0:
        raise RuntimeError(
            f"{name}: the number of sizes provided ({len(wanted)}) must be greater or equal to the number of dimensions in the "
            f"tensor ({len(have)}); got {list(wanted)} for shape {list(have)}"
        )
    for d in range(len(wanted) - 1, -1, -1):
        if d < lead and wanted[d] < 0:
            raise RuntimeError(
                f"{name}: The expanded size of the tensor ({wanted[d]}) isn't allowed in a leading, non-existing dimension {d}"
            )
        if d >= lead and wanted[d] != -1 and (have[d - lead] not in (1, wanted[d]) or wanted[d] < 0):
            raise RuntimeError(
                f"{name}: The expanded size of the tensor ({wanted[d]}) must match the existing size ({have[d - lead]}) at "
                f"non-singleton dimension {d}.  Target sizes: {list(wanted)}.  Tensor sizes: {list(have)}"
            )


EXPAND = Op(
    "expand", lambda xp, x, /, shape: xp.expand(x, shape), kind=LINEAR, view=True, x=lambda xp, g: g
)  # the engine sums what was repeated


def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor expanded to the shape of `other`."""
    return _expand("expand_as", self, need_tensor("expand_as", "other", other)._data.shape)


def broadcast_to(input: Tensor, size: Any) -> Tensor:
    """The tensor expanded to the shape `size`."""
    return _expand("broadcast_to", input, _sizes("broadcast_to", (size,)))


declare(
    "broadcast_to",
    [
        Sample(Arg(3), (2, 3)),
        Sample(Arg(2, 1), (2, 3)),
        Sample(Arg(), (2, 2)),
        Sample(Arg(2, 1), (-1, 3)),
        Sample(Arg(1, 2), (0, 2)),
    ],
    complex=True,
)


def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """The sum over the dimensions that expanding `size` to the tensor's shape would repeat."""
    wanted, have = _sizes("sum_to_size", size), self._data.shape
    lead = len(have) - len(wanted)
    if lead < 0 or any(w not in (1, h) for w, h in zip(wanted, have[lead:], strict=True)):
        raise RuntimeError(f"sum_to_size: size {{{list(wanted)}}} is not expandable to size {{{list(have)}}}.")
    dims = tuple(range(lead)) + tuple([lead + i for i, w in enumerate(wanted) if w == 1 and have[lead + i] != 1])
    return reshape(self.sum(dims) if dims else self, wanted)


declare(
    "Tensor.sum_to_size",
    [Sample(Arg(2, 3), 3), Sample(Arg(2, 3), (2, 1)), Sample(Arg(2, 3), 2, 3), Sample(Arg(2, 3), ())],
    method=True,
    complex=True,
)


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes (or ints, for one dimension) have after broadcasting."""
    given = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    n = max([len(s) for s in given], default=0)
    result = [1] * n
    for shape in given:
        for i, s in enumerate(shape, n - len(shape)):
            if s < 0:
                raise ValueError(
                    f"broadcast_shapes: Attempting to broadcast a dimension with negative length! Got {list(shape)}"
                )
            if s not in (1, result[i]):
                if result[i] != 1:
                    at = f"Mismatching argument at index {given.index(shape)} had {shape}; but expected shape should be broadcastable to "
                    shown = ", ".join(str(list(s)) for s in given)
                    raise RuntimeError(
                        f"broadcast_shapes: Attempting to broadcast a dimension of length {s} at {i - n}! {at}{result}: Shape "
                        f"mismatch: objects cannot be broadcast to a single shape, got {shown}"
                    )
                result[i] = s
    return Size(result)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """The tensors expanded to their common shape."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    shapes = [need_tensor("broadcast_tensors", "tensors", x)._data.shape for x in tensors]
    try:
        shape = broadcast_shapes(*shapes)
    except RuntimeError:
        raise unlike("broadcast_tensors", shapes) from None
    return tuple([x if x._data.shape == shape else viewed(EXPAND, x, (tuple(shape),)) for x in tensors])


declare("broadcast_tensors", [Sample(Arg(3), Arg(2, 1)), Sample(Arg(), Arg(2)), Sample(Arg(2, 3))], complex=True)


def atleast_1d(*tensors: Any) -> Any:
    """A tensor of at least one dimension; several tensors give a tuple."""
    return _at_least("atleast_1d", tensors, lambda x: reshape(x, (1,)) if x._data.ndim == 0 else x)


def atleast_2d(*tensors: Any) -> Any:
    """A tensor of at least two dimensions, new ones in front; several tensors give a tuple."""
    return _at_least("atleast_2d", tensors, _two)


def _two(x: Any) -> Tensor:
    return reshape(x, (1, 1)) if x._data.ndim == 0 else unsqueeze(x, 0) if x._data.ndim == 1 else x


def atleast_3d(*tensors: Any) -> Any:
    """A tensor of at least three dimensions: (n,) becomes (1, n, 1) and (n, m) becomes (n, m, 1); several give a tuple."""
    return _at_least("atleast_3d", tensors, lambda x: x if x._data.ndim >= 3 else unsqueeze(_two(x), 2))


def _at_least(name: str, tensors: tuple, function: Any) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], TensorBase):
        return function(tensors[0])
    if len(tensors) == 1:
        tensors = tuple(tensors[0])
    return tuple([function(need_tensor(name, "tensors", x)) for x in tensors])


for _function in (atleast_1d, atleast_2d, atleast_3d):
    declare(
        _function.__name__,
        [Sample(Arg()), Sample(Arg(3)), Sample(Arg(2, 3)), Sample(Arg(), Arg(2)), Sample([Arg(2), Arg(1, 2)])],
        complex=True,
    )


# -- memory ------------------------------------------------------------------------------------------------------------


def contiguous(self: Tensor, memory_format: Any = contiguous_format) -> Tensor:
    """The tensor itself if its elements lie in memory in C order (or that of the memory format), else a copy in which they do.

    Example::

        >>> import ferro
        >>> x = ferro.zeros(2, 3).t()
        >>> x.is_contiguous(), x.contiguous().is_contiguous()
        (False, True)
    """
    order = memory_order("contiguous", self._data.ndim, memory_format)
    if order is None:
        return self if self._data.flags.c_contiguous else unary(CONTIGUOUS, self)
    if self._data.transpose(order).flags.c_contiguous:
        return self
    back = tuple([order.index(d) for d in range(len(order))])
    return viewed(PERMUTE, unary(CONTIGUOUS, viewed(PERMUTE, self, (order,))), (back,))


def laid_out_like(input: Tensor, result: Tensor) -> Tensor:
    """The result in the memory format of the input, if that is channels_last: what operations on images give back."""
    data = input._data
    if data.flags.c_contiguous or data.ndim not in (4, 5):
        return result
    memory_format = channels_last if data.ndim == 4 else channels_last_3d
    return contiguous(result, memory_format) if is_contiguous(input, memory_format) else result


CONTIGUOUS = Op(
    "contiguous",
    lambda xp, x: xp.contiguous(x),
    kind=LINEAR,
    x=lambda xp, g: g,
    samples=[Sample(Arg(2, 3)), Sample(Arg())],
    complex=True,
    path="Tensor.contiguous",
)


def is_contiguous(self: Tensor, memory_format: Any = contiguous_format) -> bool:
    """Whether the elements lie in memory in C order (or that of the memory format), without gaps."""
    data = self._data
    if memory_format not in (channels_last, channels_last_3d):
        return data.flags.c_contiguous
    n = 4 if memory_format is channels_last else 5
    return data.ndim == n and data.transpose(0, *range(2, n), 1).flags.c_contiguous


@overload
def stride(self: Tensor) -> tuple[int, ...]: ...


@overload
def stride(self: Tensor, dim: int) -> int: ...


def stride(self: Tensor, dim: int | None = None) -> Any:
    """The distance in memory, counted in elements, between neighbours in every dimension (or in one)."""
    strides = geometry(self._data)[1]
    return strides if dim is None else strides[one_dim("stride", self._data.ndim, dim)]


def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions from the slowest in memory to the fastest.

    ambiguity_check: RuntimeError where several orders fit (a size is 1, or strides are equal); a list of memory formats: unless
    exactly one of them fits.

    Example::

        >>> import ferro
        >>> ferro.zeros(2, 3, 5).transpose(0, 1).dim_order()
        (1, 0, 2)
    """
    if not isinstance(ambiguity_check, bool) and not (
        isinstance(ambiguity_check, list) and all(isinstance(f, Named) for f in ambiguity_check)
    ):
        raise TypeError("dim_order: The ambiguity_check argument must be a bool or a list of memory formats.")
    shape, strides = geometry(self._data)[:2]
    if ambiguity_check and (1 in shape or any(a == b for a, b in pairwise(strides))):
        formats = ambiguity_check if isinstance(ambiguity_check, list) else []
        if [is_contiguous(self, f) for f in formats].count(True) != 1:
            raise RuntimeError(
                "dim_order: The tensor does not have unique dim order, or cannot map to exact one of the given memory "
                f"formats. Its shape is {list(shape)}, its strides {list(strides)}"
            )
    if not is_contiguous(self):
        if is_contiguous(self, channels_last):
            return (0, 2, 3, 1)
        return tuple(sorted(range(len(shape)), key=lambda d: -strides[d]))
    return tuple(range(len(shape)))


def storage_offset(self: Tensor) -> int:
    """Where the tensor begins in its storage, counted in elements."""
    return geometry(self._data)[2]


def _reversed(x: Any) -> Tensor:
    return viewed(PERMUTE, x, (tuple(range(x._data.ndim))[::-1],))


def sparse_dim(self: Tensor) -> int:
    """How many dimensions are sparse: none of a dense tensor."""
    return 0


def dense_dim(self: Tensor) -> int:
    """How many dimensions are not sparse: all of a dense tensor."""
    return self._data.ndim


class ShapeMethods:
    """Methods of Tensor."""

    __slots__ = ()
    sparse_dim, dense_dim = sparse_dim, dense_dim
    adjoint, flatten = adjoint, flatten
    movedim, moveaxis, permute = movedim, moveaxis, permute
    contiguous, dim_order, is_contiguous = contiguous, dim_order, is_contiguous
    stride, storage_offset = stride, storage_offset
    resize, resize_as = resize, resize_as
    expand, expand_as, ravel, reshape, reshape_as, squeeze = expand, expand_as, ravel, reshape, reshape_as, squeeze
    swapaxes, swapdims, t, transpose = swapaxes, swapdims, t, transpose
    unsqueeze, view, view_as = unsqueeze, view, view_as
    sum_to_size = sum_to_size
    squeeze_, unsqueeze_, t_, transpose_ = restride(squeeze), restride(unsqueeze), restride(t), restride(transpose)
    swapaxes_, swapdims_ = restride(swapaxes), restride(swapdims)

    def broadcast_to(self: Any, *size: Any) -> Tensor:
        """The tensor expanded to a shape: see :func:`ferro.broadcast_to`."""
        return _expand("broadcast_to", self, _sizes("broadcast_to", size))

    def unflatten(self: Any, dim: int, *sizes: Any) -> Tensor:
        """One dimension as several: see :func:`ferro.unflatten`."""
        return unflatten(self, dim, _sizes("unflatten", sizes))

    @property
    def T(self: Any) -> Tensor:
        """The tensor with its dimensions in reverse order."""
        return _reversed(self)

    @property
    def mT(self: Any) -> Tensor:
        """The transpose of the matrices in the last two dimensions."""
        return _matrix_transpose("mT", self)

    @property
    def H(self: Any) -> Tensor:
        """The conjugate transpose of a matrix."""
        if self._data.ndim not in (0, 2):
            raise RuntimeError(
                f"H: tensor.H is only supported on matrices (2-D tensors). Got {self._data.ndim}-D tensor. Use .mH for batches."
            )
        return conj(_reversed(self))

    @property
    def mH(self: Any) -> Tensor:
        """The conjugate transpose of the matrices in the last two dimensions."""
        return conj(_matrix_transpose("mH", self))
