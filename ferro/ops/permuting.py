"""Views of a tensor under another order of its dimensions."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

from ferro.core.arguments import one_dim
from ferro.core.inplace import restride
from ferro.core.op import LINEAR, Op
from ferro.core.samples import Arg, Sample, declare
from ferro.core.views import viewed
from ferro.ops.complex import conj
from ferro.ops.shape import _sizes

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["adjoint", "moveaxis", "movedim", "permute", "swapaxes", "swapdims", "t", "transpose"]


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


class PermutingMethods:
    """Methods of Tensor."""

    __slots__ = ()
    adjoint = adjoint
    movedim, moveaxis, permute = movedim, moveaxis, permute
    swapaxes, swapdims, t, transpose = swapaxes, swapdims, t, transpose
    t_, transpose_ = restride(t), restride(transpose)
    swapaxes_, swapdims_ = restride(swapaxes), restride(swapdims)

    @property
    def mT(self: Any) -> Tensor:
        """The transpose of the matrices in the last two dimensions."""
        return _matrix_transpose("mT", self)

    @property
    def mH(self: Any) -> Tensor:
        """The conjugate transpose of the matrices in the last two dimensions."""
        return conj(_matrix_transpose("mH", self))
