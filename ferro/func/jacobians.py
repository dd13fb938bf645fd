"""Matrices of derivatives: jacrev, jacfwd, hessian."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ferro.core.base import TensorBase, wrap
from ferro.core.dtypes import INEXACT, from_numpy
from ferro.core.random import default_generator
from ferro.func.forward import push
from ferro.func.levels import chosen, only_real, zeros_like
from ferro.func.reverse import Pullback
from ferro.func.trees import flatten, unflatten
from ferro.ops.joining import stack


def _units(x: Any) -> Any:
    """The tensors of the shape of `x` with a single one."""
    for i in range(x._data.size):
        unit = np.zeros(x._data.shape, x._data.dtype)
        unit.reshape(-1)[i] = 1
        yield wrap(unit)


def jacrev(func: Callable, argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False,
           chunk_size: int | None = None) -> Callable:  # fmt: skip
    """A function that returns the Jacobian of `func` by its arguments `argnums`, row by row in reverse mode.

    For every output and every argument a tensor of the output's shape followed by the argument's, nested as the output
    and within that as the argument.  Rows are computed one at a time, so that any `chunk_size` (PyTorch: how many at
    once) is met.  With has_aux, func returns (output, aux), and the result is (jacobian, aux).

    Raises RuntimeError for complex arguments or outputs, ValueError if chunk_size is not positive.

    Example::

        >>> import ferro
        >>> ferro.func.jacrev(lambda x: x * x)(ferro.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"jacrev: chunk_size should be greater than 0, got {chunk_size}")

    def wrapper(*args: Any) -> Any:
        only_real("jacrev", args, "inputs")
        chosen(argnums, len(args))
        back = Pullback("jacrev", func, args, argnums, has_aux)
        only_real("jacrev", back.outputs, "outputs")
        blocks = []
        for k, out in enumerate(back.outputs):
            absent: list = [None] * len(back.outputs)
            rows = [back([*absent[:k], unit, *absent[k + 1 :]]) for unit in _units(out)]
            flat = [_block([r[i] for r in rows], 0, out, x, x) for i, x in enumerate(back.xs)]
            blocks.append(unflatten(back.xs_structure, flat))
        result = unflatten(back.structure, blocks)
        return (result, back.aux) if has_aux else result

    return wrapper


def _block(parts: list, dim: int, out: Any, x: Any, like: Any) -> Any:
    """The derivative of one output by one argument from its rows or columns."""
    shape = (*out._data.shape, *x._data.shape)
    if not parts:
        return wrap(np.zeros(shape, like._data.dtype))
    return stack(parts, dim).reshape(shape)


def jacfwd(func: Callable, argnums: int | tuple[int, ...] | None = 0, has_aux: bool = False, *,
           randomness: str = "error") -> Callable:  # fmt: skip
    """A function that returns the Jacobian of `func` by its arguments `argnums` (None: all), column by column in forward mode.

    The result is that of :func:`jacrev`; this way is the cheaper one where there are more outputs than inputs.  func
    runs once for every element of the arguments.  `randomness` says what random numbers in func do: "error"
    (RuntimeError), "same" in every run, or "different".

    Example::

        >>> import ferro
        >>> ferro.func.jacfwd(lambda x: ferro.stack((x, x * x, x.sin())))(ferro.tensor(0.0))
        tensor([1., 0., 1.])
    """

    def wrapper(*args: Any) -> Any:
        if randomness not in ("error", "same", "different"):
            raise RuntimeError(f"jacfwd: randomness must be 'error', 'different' or 'same', got {randomness!r}")
        only_real("jacfwd", args, "inputs")
        numbers = tuple(range(len(args))) if argnums is None else chosen(argnums, len(args))
        inputs = tuple([args[i] for i in numbers])
        xs, structure = flatten(inputs)
        for x in xs:
            if not isinstance(x, TensorBase):
                raise ValueError(f"jacfwd: the arguments to differentiate by must be tensors, got {type(x).__name__}")
            if x._data.dtype not in INEXACT:
                raise ValueError(f"jacfwd: the arguments must be floating point, got {from_numpy(x._data.dtype)}")
        run = _Columns(func, args, xs, numbers, structure, has_aux, randomness)
        columns = [[run(i, unit) for unit in _units(x)] for i, x in enumerate(xs)]
        if run.outputs is None:
            run(0, None)  # no element to differentiate by: the outputs are needed for their shapes
        outputs: Any = run.outputs
        blocks = []
        for k, out in enumerate(outputs):
            flat = [_block([c[k] for c in columns[i]], -1, out, x, out) for i, x in enumerate(xs)]
            tree = unflatten(structure, flat)
            blocks.append(tree[0] if isinstance(argnums, int) else tree)
        result = unflatten(run.structure, blocks)
        return (result, run.aux) if has_aux else result

    return wrapper


class _Columns:
    """Runs a function along one direction at a time, and keeps what the first run returned."""

    def __init__(self, func: Callable, args: tuple, xs: list, numbers: tuple, structure: Any, has_aux: bool,
                 randomness: str) -> None:  # fmt: skip
        self.call = (func, args, xs, numbers, structure)
        self.has_aux, self.randomness = has_aux, randomness
        self.count = len(xs)
        self.outputs: Any = None
        self.structure: Any = None
        self.aux: Any = None
        self.state: Any = default_generator.numpy.bit_generator.state

    def __call__(self, i: int, unit: Any) -> list:
        """The derivative of every output along the direction `unit` of argument i."""
        bits = default_generator.numpy.bit_generator
        if self.randomness == "same":
            bits.state = self.state
        tangents = [unit if j == i else None for j in range(self.count)]
        out, moved, structure, aux = push("jacfwd", *self.call, tangents, self.has_aux)
        if self.randomness == "error" and bits.state != self.state:
            raise RuntimeError("jacfwd: the function called a random operation, and randomness is 'error'; say 'same' or "
                               "'different' instead, or draw the numbers outside")  # fmt: skip
        if self.outputs is None:
            only_real("jacfwd", out, "outputs")
            self.outputs, self.structure, self.aux = out, structure, aux
        return [zeros_like(o) if t is None else t for o, t in zip(out, moved, strict=True)]


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
