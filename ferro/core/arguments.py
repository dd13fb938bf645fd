"""Arguments normalised at the door: dimensions, shapes, dtypes; errors name the operation."""

from __future__ import annotations

import operator
from typing import Any

from ferro.core.base import TensorBase
from ferro.core.notices import warn_once

ALL_DIMS = [tuple(range(n)) for n in range(65)]  # NumPy allows 64 dimensions


def one_dim(name: str, ndim: int, dim: Any, argument: str = "dim") -> int:
    """A dimension as a non-negative number; IndexError out of range (a 0-d tensor counts as having one dimension)."""
    if type(dim) is int and -ndim <= dim < ndim:
        return dim % ndim
    try:
        d = operator.index(dim)
    except TypeError:
        raise TypeError(f"{name}: {argument} must be an integer, got {type(dim).__name__}") from None
    if isinstance(dim, bool):
        raise TypeError(f"{name}(): argument '{argument}' must be int, not bool")
    n = max(ndim, 1)
    if not -n <= d < n:
        raise IndexError(f"{name}: Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})")
    return d % n


def many_dims(name: str, ndim: int, dim: Any, empty_is_all: bool = True) -> tuple[int, ...]:
    """Dimensions (None: all; an int; a sequence, the empty one meaning all) as a sorted tuple of non-negative numbers."""
    if dim is None:
        return ALL_DIMS[ndim]
    if type(dim) is int and -ndim <= dim < ndim:
        return (dim % ndim,)
    if not isinstance(dim, (tuple, list)):
        d = one_dim(name, ndim, dim)
        return (d,) if ndim else ()
    if not dim and empty_is_all:
        return tuple(range(ndim))
    found = [one_dim(name, ndim, d) for d in dim]
    for i, d in enumerate(found):
        if d in found[:i]:
            raise RuntimeError(f"{name}: dim {d} appears multiple times in the list of dims")
    return tuple(sorted(found)) if ndim else ()


def sizes(name: str, given: tuple) -> tuple[int, ...]:
    """Sizes given as f(2, 3), f((2, 3)) or f([2, 3])."""
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = tuple(given[0])
    for s in given:
        if type(s) is not int:
            break
    else:
        return given
    found = []
    for at, s in enumerate(given):
        try:
            found.append(operator.index(s))
        except TypeError:
            raise TypeError(
                f"{name}(): argument 'size' (position 1) must be tuple of ints, but found element of type {type(s).__name__} at pos "
                f"{at}: sizes must be integers, got {given!r}"
            ) from None
    return tuple(found)


def with_size(name: str, given: tuple, size: Any) -> tuple:
    """The sizes of f(2, 3) or f(size=(2, 3)), as `sizes` takes them."""
    if size is None:
        return given
    if given:
        raise TypeError(f"{name}() got multiple values for argument 'size'")
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"{name}(): argument 'size' must be tuple of ints, not {type(size).__name__}")
    return (size,)


def number_first(name: str, keyword: str, tensors: tuple[str, ...], *given: Any) -> tuple:
    """The arguments behind the first of a signature of PyTorch before 1.5: the number, then the tensors.  Warns once."""
    if isinstance(given[0], TensorBase) and given[0]._data.ndim == 0:
        given = (given[0]._data.item(), *given[1:])
    if len(given) != len(tensors) + 1 or isinstance(given[0], TensorBase):
        raise TypeError(
            f"{name}() takes {len(tensors) + 1} positional arguments but {len(given) + 1} were given; {keyword} is a keyword"
        )
    listed = ", ".join([f"Tensor {t}" for t in tensors])
    warn_once(
        f"This overload of {name} is deprecated:\n\t{name}(Tensor input, Number {keyword}, {listed}, *, Tensor out = None)\n"
        "Consider using one of the following signatures instead:\n"
        f"\t{name}(Tensor input, {listed}, *, Number {keyword} = 1, Tensor out = None)",
        stacklevel=4,
    )
    return given


def factors_first(name: str, tensors: tuple[str, str], *given: Any) -> tuple:
    """input, x, y, beta and alpha from PyTorch's old order of them: (beta, input, alpha, x, y), in a method (input, beta, alpha, x,
    y), with or without alpha.  Warns once.
    """
    order = "".join(["t" if isinstance(g, TensorBase) else "n" for g in given])
    if order not in ("nttt", "tntt", "ntntt", "tnntt"):
        raise TypeError(
            f"{name}() takes 3 positional arguments but {len(given)} were given; beta and alpha are keywords"
        )
    listed = ", ".join([f"Tensor {t}" for t in tensors])
    alpha = "Number alpha, " if len(given) == 5 else ""
    warn_once(
        f"This overload of {name} is deprecated:\n\t{name}(Number beta, Tensor input, {alpha}{listed}, *, Tensor out = None)\n"
        "Consider using one of the following signatures instead:\n"
        f"\t{name}(Tensor input, {listed}, *, Number beta = 1, Number alpha = 1, Tensor out = None)",
        stacklevel=4,
    )
    numbers = [g for g in given if not isinstance(g, TensorBase)]
    return (*[g for g in given if isinstance(g, TensorBase)], numbers[0], numbers[1] if alpha else 1)


def need_tensor(name: str, argument: str, value: Any) -> Any:
    """The argument, which must be a tensor."""
    if not isinstance(value, TensorBase):
        raise TypeError(f"{name}(): argument '{argument}' must be Tensor, not {type(value).__name__}")
    return value


def unlike(name: str, shapes: list) -> Exception:
    """The error for shapes that do not broadcast, which names the dimension."""
    shown = f"shapes {' and '.join(str(list(s)) for s in shapes)} cannot be broadcast together"
    have = list(shapes[0])
    for shape in shapes[1:]:
        n = max(len(have), len(shape))
        have, other = ([1] * (n - len(s)) + list(s) for s in (have, shape))
        for d in range(n - 1, -1, -1):
            if have[d] != other[d] and 1 not in (have[d], other[d]):
                return RuntimeError(
                    f"{name}: {shown}: The size of tensor a ({have[d]}) must match the size of tensor b ({other[d]}) at "
                    f"non-singleton dimension {d}"
                )
            have[d] = other[d] if have[d] == 1 else have[d]
    return RuntimeError(f"{name}: {shown}")


def real_number(name: str, argument: str, value: Any) -> Any:
    """An argument that is a number, given as one or as a tensor of one element without history."""
    if (
        isinstance(value, TensorBase)
        and value._data.ndim == 0
        and value._node is None
        and value._data.dtype.kind != "c"
    ):
        return value._data.item()
    if isinstance(value, (float, int)) or (hasattr(value, "__float__") and not isinstance(value, TensorBase)):
        return value
    raise TypeError(
        f"{name}(): argument '{argument}' must be float, not {type(value).__name__}"
        + (", one with dimensions or a history" if isinstance(value, TensorBase) else "")
    )
