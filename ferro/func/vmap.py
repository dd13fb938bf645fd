"""vmap: a function of one example as a function of a whole batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ferro.batched.array import levels_of
from ferro.batched.levels import Level, running
from ferro.core import backend, batching
from ferro.core.base import TensorBase
from ferro.core.random import all_states, restore
from ferro.core.transforms import inside
from ferro.core.trees import flatten, spread, unflatten

RANDOMNESS = ("error", "different", "same")


T = TypeVar("T")  # for type checkers: what the function gives for one example, it gives for all


def vmap(
    func: Callable[..., T],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., T]:
    """A function that calls `func`, written for one example, for every example of a batch at once.

    - `func` (function): of tensors, also nested
    - `in_dims` (int, None, or a nesting of them that fits the arguments, default 0): the dimension of the arguments
      along which the examples lie; None for what is the same for all. Keyword arguments are batched along their first
      dimension
    - `out_dims` (int, None, or a nesting, default 0): where the examples lie in the results; None for a result that is
      the same for all
    - `randomness` (str, default 'error'): random functions inside raise ("error"), draw one number for all examples
      ("same"), or one for each ("different")
    - `chunk_size` (int, default None): so many examples are computed at a time; None is all

    vmap may stand inside and outside of itself and of all derivatives (grad, vjp, jvp, jacrev, ...). What decides by
    the numbers of a tensor (`if x > 0`, `x.item()`) is refused, and so is changing a tensor in place that has no batch
    by one that has. ValueError for dimensions that do not fit the arguments or results.

    Example::

        >>> import ferro
        >>> ferro.func.vmap(lambda x, y: x @ y)(ferro.tensor([[1.0, 2.0], [3.0, 4.0]]), ferro.tensor([[1.0, 1.0], [2.0, 0.0]]))
        tensor([3., 6.])
        >>> slope = ferro.func.grad(lambda w, x: (w * x).sum() ** 2)  # gradients of each example
        >>> ferro.func.vmap(slope, in_dims=(None, 0))(ferro.tensor([1.0, 2.0]), ferro.tensor([[1.0, 0.0], [0.0, 1.0]]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    if randomness not in RANDOMNESS:
        raise ValueError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        _check_out_dims(func, out_dims)
        leaves, dims, structure, size = _arguments(func, in_dims, args)
        if chunk_size is None or chunk_size >= size:
            return _run(func, leaves, dims, structure, size, out_dims, randomness, kwargs)
        return _by_chunks(func, leaves, dims, structure, size, out_dims, randomness, kwargs, chunk_size)

    return functools.wraps(func)(wrapped) if hasattr(func, "__name__") else wrapped


def name_of(func: Any) -> str:
    """What a function is called in messages."""
    if hasattr(func, "__name__"):
        return func.__name__
    return f"functools.partial({name_of(func.func)}, ...)" if isinstance(func, functools.partial) else repr(func)


def _check_out_dims(func: Callable, out_dims: Any) -> None:
    for d in flatten(out_dims)[0]:
        if d is not None and not isinstance(d, int):
            raise ValueError(
                f"vmap({name_of(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints "
                "representing where in the outputs the vmapped dimension should appear."
            )


def _arguments(func: Callable, in_dims: Any, args: tuple) -> tuple:
    """The flattened arguments, the dimension of each, their structure, and the size of the batch."""
    name = f"vmap({name_of(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{name}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: "
            f"{type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name_of(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    leaves, structure = flatten(args)
    dims = spread(in_dims, structure)
    if dims is None:
        raise ValueError(
            f"{name}: in_dims is not compatible with the structure of `inputs`. in_dims has structure {flatten(in_dims)[1]} but "
            f"inputs has structure {structure}."
        )
    sizes = []
    for i, (x, d) in enumerate(zip(leaves, dims, strict=True)):
        if d is None:
            continue
        if not isinstance(d, int):
            raise ValueError(
                f"{name}: Got in_dim={d} for an input but in_dim must be either an integer dimension or None."
            )
        if not isinstance(x, TensorBase):
            raise ValueError(
                f"{name}: Got in_dim={d} for an input but the input is of type {type(x)}. We cannot vmap over non-Tensor arguments, "
                "please use None as the respective in_dim"
            )
        n = x._data.ndim
        if not -n <= d < n:
            raise ValueError(
                f"{name}: Got in_dim={d} for some input, but that input is a Tensor of dimensionality {n} so expected in_dim to "
                f"satisfy -{n} <= in_dim < {n}."
            )
        dims[i] = d % n
        sizes.append(x._data.shape[d])
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(s != sizes[0] for s in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped dimension"
        )
    return leaves, dims, structure, sizes[0]


def _run(
    func: Callable, leaves: list, dims: list, structure: Any, size: int, out_dims: Any, randomness: str, kwargs: dict
) -> Any:
    level = batching.begin(size, randomness)
    with running(level), inside("vmap"):
        batched = [x if d is None else batching.enter(x, level, d) for x, d in zip(leaves, dims, strict=True)]
        result = func(*unflatten(structure, batched), **kwargs)
        outs, out_structure = flatten(result)
        return unflatten(
            out_structure,
            [_output(func, o, level, d) for o, d in zip(outs, _out_dims(func, out_dims, result), strict=True)],
        )


def _out_dims(func: Callable, out_dims: Any, result: Any) -> list:
    """The dimension of each flattened result."""
    structure = flatten(result)[1]
    dims = spread(out_dims, structure)
    if isinstance(result, TensorBase) and isinstance(out_dims, tuple) and len(out_dims) == 1:  # as PyTorch allows
        dims = list(out_dims)
    if dims is None:
        raise ValueError(
            f"vmap({name_of(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of `outputs`. "
            f"out_dims has structure {flatten(out_dims)[1]} but outputs has structure {structure}."
        )
    return dims


def _output(func: Callable, o: Any, level: Level, dim: int | None) -> Any:
    """A result as the world outside of the level sees it."""
    name = name_of(func)
    if dim is None:
        if isinstance(o, TensorBase) and level in levels_of(o._data):
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return o
    if not isinstance(o, TensorBase):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(o)}. Did you mean to set out_dims= to None for "
            "output?"
        )
    n = o._data.ndim + 1
    if not -n <= dim < n:
        raise IndexError(
            f"vmap({name}, ..., out_dims={dim}): Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
        )
    return batching.leave(o, level, dim % n)


def _by_chunks(
    func: Callable,
    leaves: list,
    dims: list,
    structure: Any,
    size: int,
    out_dims: Any,
    randomness: str,
    kwargs: dict,
    chunk_size: int,
) -> Any:
    """The same by parts of the batch, joined along the dimensions of the results."""
    fn = backend.functional
    state = all_states() if randomness == "same" else None
    parts = []
    for start in range(0, size, chunk_size):
        if state is not None:
            restore(state)
        n = min(chunk_size, size - start)
        chunk = [x if d is None else fn.narrow(x, d, start, n) for x, d in zip(leaves, dims, strict=True)]
        parts.append(_run(func, chunk, dims, structure, n, out_dims, randomness, kwargs))
    flat = [flatten(p) for p in parts]
    found = []
    for column, d in zip(zip(*[f[0] for f in flat], strict=True), _out_dims(func, out_dims, parts[0]), strict=True):
        found.append(column[0] if d is None else fn.cat(column, d))
    return unflatten(flat[0][1], found)
