"""Matrices of derivatives: jacrev, jacfwd, hessian."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.batched.array import levels_of
from ferro.batched.levels import RUNNING
from ferro.core import backend
from ferro.core.base import TensorBase, wrap
from ferro.core.dtypes import INEXACT, from_numpy
from ferro.core.trees import flatten, map_tensors, unflatten
from ferro.func.forward import push
from ferro.func.levels import chosen, only_real, zeros_like
from ferro.func.reverse import Pullback
from ferro.ops.joining import cat
from ferro.ops.permuting import movedim
from ferro.ops.shape import unsqueeze


def jacrev(
    func: Callable,
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable:
    """A function that returns the Jacobian of `func`, row by row in reverse mode.

    - `func` (function of tensors): the outputs may be nested
    - `argnums` (int or tuple, default 0): by which arguments
    - `has_aux` (bool, default False): True: func returns (output, aux), and the result is (jacobian, aux)
    - `chunk_size` (int, default None): so many rows at a time under vmap; None is all, 1 works without vmap, so that
      anything may stand in a backward; ValueError below 1

    For every output and every argument a tensor of the output's shape followed by the argument's, nested as the output
    and within that as the argument. RuntimeError for complex arguments or outputs. `_preallocate_and_copy` changes
    nothing.

    Example::

        >>> import ferro
        >>> ferro.func.jacrev(lambda x: x * x)(ferro.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"jacrev: `chunk_size` should be greater than 0. Got {chunk_size}")

    def wrapper(*args: Any) -> Any:
        only_real("jacrev", args, "inputs")
        chosen(argnums, len(args))
        back = Pullback("jacrev", func, args, argnums, has_aux)
        only_real("jacrev", back.outputs, "outputs")
        blocks = []
        for k, out in enumerate(back.outputs):
            absent: list = [None] * len(back.outputs)
            rows = _by_rows(
                lambda unit, k=k, absent=absent: back([*absent[:k], unit, *absent[k + 1 :]]), _units(out), chunk_size
            )
            flat = [_block([r[i] for r in rows], 0, out, x, x) for i, x in enumerate(back.xs)]
            blocks.append(unflatten(back.xs_structure, flat))
        result = unflatten(back.structure, blocks)
        return (result, back.aux) if has_aux else result

    return wrapper


def _by_rows(pull: Callable, units: Any, chunk_size: int | None) -> list:
    """The lists of tensors that `pull` gives for each unit: in parts with some rows each."""
    count = units._data.shape[0]
    size = count if chunk_size is None else chunk_size
    if count == 0:
        return []
    if size == 1:
        return [[unsqueeze(g, 0) for g in pull(units[i])] for i in range(count)]
    from ferro.core.batching import over_rows

    return [
        over_rows(lambda rows: pull(rows[0]), [units[i : i + size]], min(size, count - i))
        for i in range(0, count, size)
    ]


def _block(parts: list, dim: int, out: Any, x: Any, like: Any) -> Any:
    """The derivative of one output by one argument from its rows or columns."""
    shape = (*out._data.shape, *x._data.shape)
    if not parts:
        return wrap(backend.beside(like._data, np.zeros(shape, like._data.dtype)))
    whole = parts[0] if len(parts) == 1 else cat(parts, 0)
    return (whole if dim == 0 else movedim(whole, 0, -1)).reshape(shape)


def jacfwd(
    func: Callable, argnums: int | tuple[int, ...] | None = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable:
    """A function that returns the Jacobian of `func`, column by column in forward mode.

    - `func` (function of tensors): runs once, under vmap over all elements of the arguments
    - `argnums` (int or tuple, default 0): by which arguments; None is all
    - `has_aux` (bool, default False): True: func returns (output, aux), and the result is (jacobian, aux)
    - `randomness` (str, default 'error'): random numbers in func are a RuntimeError ("error"), the "same" in every
      column, or "different"

    The result is that of `jacrev`; this way is the cheaper one where there are more outputs than inputs.

    Example::

        >>> import ferro
        >>> ferro.func.jacfwd(lambda x: ferro.stack((x, x * x, x.sin())))(ferro.tensor(0.0))
        tensor([1., 0., 1.])
    """

    def wrapper(*args: Any) -> Any:
        if randomness not in ("error", "same", "different"):
            raise RuntimeError(
                f"jacfwd: Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
            )
        only_real("jacfwd", args, "inputs")
        numbers = tuple(range(len(args))) if argnums is None else chosen(argnums, len(args))
        inputs = tuple([args[i] for i in numbers])
        xs, structure = flatten(inputs)
        for x in xs:
            if not isinstance(x, TensorBase):
                raise ValueError(f"jacfwd: the arguments to differentiate by must be tensors, got {type(x).__name__}")
            if x._data.dtype not in INEXACT:
                raise ValueError(f"jacfwd: the arguments must be floating point, got {from_numpy(x._data.dtype)}")
        sizes = [x._data.size for x in xs]
        run = _Columns(func, args, xs, numbers, structure, has_aux)
        count = sum(sizes)
        if count:
            from ferro.core.batching import over_rows

            columns = over_rows(run, _all_units(xs, sizes), count, randomness)
        else:
            columns = run(
                [zeros_like(x) for x in xs]
            )  # nothing to differentiate by: the outputs are needed for their shapes
        outputs: Any = run.outputs
        blocks = []
        for k, out in enumerate(outputs):
            flat = []
            start = 0
            for x, size in zip(xs, sizes, strict=True):
                flat.append(_block([columns[k][start : start + size]] if size else [], -1, out, x, out))
                start += size
            tree = unflatten(structure, flat)
            blocks.append(tree[0] if isinstance(argnums, int) else tree)
        result = unflatten(run.structure, blocks)
        return (result, run.aux) if has_aux else result

    return wrapper


def _units(x: Any) -> Any:
    """The tensors of the shape of `x` with a single one, along a new first dimension."""
    size = x._data.size
    return wrap(backend.beside(x._data, np.eye(size, dtype=x._data.dtype).reshape((size, *x._data.shape))))


def _all_units(xs: list, sizes: list) -> list:
    """Tangents of several tensors, one row for each of all elements: one of them moves, the others are 0."""
    count, start, found = sum(sizes), 0, []
    for x, size in zip(xs, sizes, strict=True):
        rows = np.zeros((count, size), x._data.dtype)
        rows[np.arange(start, start + size), np.arange(size)] = 1
        found.append(wrap(backend.beside(x._data, rows.reshape((count, *x._data.shape)))))
        start += size
    return found


class _Columns:
    """Runs a function on dual numbers, and keeps what it returned besides the tangents."""

    def __init__(self, func: Callable, args: tuple, xs: list, numbers: tuple, structure: Any, has_aux: bool) -> None:
        self.call = (func, args, xs, numbers, structure)
        self.has_aux = has_aux
        self.outputs: Any = None
        self.structure: Any = None
        self.aux: Any = None

    def __call__(self, tangents: list) -> list:
        """The derivative of every output along the tangents."""
        out, moved, self.structure, aux = push("jvp in jacfwd", *self.call, tangents, self.has_aux)
        only_real("jacfwd", out, "outputs")
        self.outputs = [_of_one_slice(o) for o in out]
        self.aux = map_tensors(_of_one_slice, aux)
        return [zeros_like(o) if t is None else t for o, t in zip(out, moved, strict=True)]


def _of_one_slice(t: Any) -> Any:
    """A result that is the same in every column; that of the first one, where it is random."""
    running = RUNNING.get()
    if running and running[-1] in levels_of(t._data):
        from ferro.core.batching import leave

        return leave(t, running[-1], 0)[0]
    return t


def hessian(func: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """A function that returns the second derivatives of `func` by its arguments `argnums`: the Jacobian of its Jacobian.

    For a nested argument, or several, there is a block for every pair, nested twice.  Both derivatives are taken in
    reverse mode: then func and its backward run once, whatever the number of rows.

    Example::

        >>> import ferro
        >>> ferro.func.hessian(lambda x: (x * x * x).sum())(ferro.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    return jacrev(jacrev(func, argnums), argnums)
