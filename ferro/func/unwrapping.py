"""debug_unwrap: a look at the plain tensor behind one that a transform follows."""

from __future__ import annotations

from typing import Any

from ferro.batched.array import plain as unbatched
from ferro.core.base import TensorBase, version_of, wrap
from ferro.core.forward_mode import tangents_of, without
from ferro.core.history import history


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """The tensor as it is without transforms: the same data, without tangents and without history; under vmap that of all examples,
    along the first dimension.

    Meant for printing inside of a function that is being transformed; a computation with the result is not
    differentiated.  With recurse=False only one layer is taken off: the tangent of the innermost level, or, if there is
    none, the history.  A tensor that nothing follows is returned itself.

    Example::

        >>> import ferro
        >>> def f(x):
        ...     print(ferro.func.debug_unwrap(x).requires_grad)
        ...     return x * x
        >>> ferro.func.grad(f)(ferro.tensor(3.0))
        False
        tensor(6.)
    """
    if not isinstance(tensor, TensorBase):
        raise TypeError(f"debug_unwrap(): argument 'tensor' must be Tensor, not {type(tensor).__name__}")
    tangents = tangents_of(tensor)
    if not recurse and tangents:
        return without(tensor, max(tangents))
    data = unbatched(tensor._data) if recurse else getattr(tensor._data, "physical", tensor._data)
    if history(tensor) is None and not tangents and data is tensor._data:
        return tensor
    plain = wrap(data)
    plain._counter = version_of(tensor)
    return plain
