"""The copying forms of the view functions: ``expand_copy``, ``split_copy``, ... give the same result in memory of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ferro.core.arguments import one_dim
from ferro.core.into import into
from ferro.core.layout import contiguous_format
from ferro.core.signatures import MARGIN, OUT_LINE, DerivedSignature, text_of
from ferro.ops import complex, diagonals, expanding, permuting, pieces, shape, slices, strided_views
from ferro.ops.structure import clone

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["alias_copy", "as_strided_copy", "detach_copy", "diagonal_copy", "expand_copy", "narrow_copy", "permute_copy",
           "select_copy", "slice_copy", "split_copy", "split_with_sizes_copy", "squeeze_copy", "t_copy",
           "transpose_copy", "unbind_copy", "unfold_copy", "unsqueeze_copy", "view_as_complex_copy", "view_as_real_copy", "view_copy"]  # fmt: skip

R = TypeVar("R")


def _clone(x: Any) -> Any:
    """A copy in C order, as all copying forms of views are."""
    return clone(x, memory_format=contiguous_format)


def _copying(view: Callable[..., R]) -> Callable[..., R]:
    """The copying form of a function that returns a view or a tuple of views."""
    name = f"{view.__name__}_copy"

    def function(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        found: Any = view(*args, **kwargs)
        if isinstance(found, tuple):
            copies = tuple([_clone(x) for x in found])
            return copies if out is None else tuple([into(name, o, c) for o, c in zip(out, copies, strict=True)])
        return into(name, out, _clone(found))

    function.__name__ = function.__qualname__ = name
    first = f"A copy of what the view function `{view.__name__}` returns."
    function.__doc__ = text_of(f"{first}\n\n{MARGIN}{OUT_LINE}", view)
    function.__signature__ = DerivedSignature(view, in_place=False)  # type: ignore[attr-defined]
    return function


def alias_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of the tensor."""
    return into("alias_copy", out, _clone(input))


def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of the tensor without its history."""
    return into("detach_copy", out, _clone(input.detach()))


def slice_copy(
    input: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of the slice start:end:step along `dim`.

    - `input` (Tensor): of one or more dimensions
    - `dim` (int, default 0): the dimension
    - `start`, `end`, `step` (int, default None and None and 1): as between brackets
    - `out` (Tensor, default None): where to write the result

    IndexError for a `dim` out of range.

    Example::

        >>> import ferro
        >>> ferro.slice_copy(ferro.arange(6), start=1, step=2)
        tensor([1, 3, 5])
    """
    dim = one_dim("slice_copy", input._data.ndim, dim)
    return into("slice_copy", out, _clone(input[(slice(None),) * dim + (slice(start, end, step),)]))


as_strided_copy, diagonal_copy = _copying(strided_views.as_strided), _copying(diagonals.diagonal)
narrow_copy = _copying(slices.narrow)
select_copy, split_copy = _copying(slices.select), _copying(pieces.split)
split_with_sizes_copy = _copying(pieces.split_with_sizes)
unbind_copy, unfold_copy = _copying(pieces.unbind), _copying(strided_views.unfold)
expand_copy, permute_copy, squeeze_copy = (
    _copying(expanding.expand),
    _copying(permuting.permute),
    _copying(shape.squeeze),
)
t_copy, transpose_copy, unsqueeze_copy = _copying(permuting.t), _copying(permuting.transpose), _copying(shape.unsqueeze)
view_copy = _copying(shape.view)
view_as_real_copy, view_as_complex_copy = _copying(complex.view_as_real), _copying(complex.view_as_complex)


class CopyMethods:
    """Methods of Tensor."""

    __slots__ = ()
    narrow_copy = narrow_copy
