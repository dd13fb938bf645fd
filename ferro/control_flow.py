"""Control flow that decides by data: plain Python, and where a graph is captured one node with graphs of branches and bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ferro.core import backend, trees
from ferro.core.backend import HOST, xp_of
from ferro.core.base import TensorBase
from ferro.core.captures import CAPTURES, capturing
from ferro.core.dtypes import FROM_NUMPY


def cond(pred: Any, true_fn: Callable, false_fn: Callable, operands: Any = ()) -> Any:
    """``true_fn(*operands)`` if `pred` is true, else ``false_fn(*operands)``.

    - `pred` (bool or bool tensor of one element): the condition; a bool decides when a graph is captured, once
    - `true_fn`, `false_fn` (functions): give tensors, in tuples, lists or dictionaries too
    - `operands` (tuple or list): their arguments

    What a branch gives as it was given is copied, so that no result shares memory with an operand. In a capture, and in compiled functions, both
    branches are captured as graphs of one node, which runs one of them; they must give the same nesting, shapes and
    dtypes, and may write only into what they make (CaptureError). RuntimeError for another `pred`, TypeError for results that are no tensors.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([1.0, 2.0])
        >>> ferro.cond(x.sum() > 2, lambda x: x * 2, lambda x: -x, (x,))
        tensor([2., 4.])
    """
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"cond: operands is a {type(operands).__name__}; a tuple or list was expected")
    for fn in (true_fn, false_fn):
        if not callable(fn):
            raise RuntimeError(f"cond: a branch is a {type(fn).__name__}, which cannot be called")
    if type(pred) is bool:
        return _results("cond", true_fn if pred else false_fn, operands)
    if not isinstance(pred, TensorBase) or pred._data.dtype != np.bool_ or pred._data.size != 1:
        raise RuntimeError(f"cond: pred is {_said(pred)}; a bool or a bool tensor of one element was expected")
    return _chosen("cond", pred, (true_fn, false_fn), operands)


def switch(index: Any, branches: Sequence[Callable], operands: Any = ()) -> Any:
    """``branches[index](*operands)``.

    - `index` (int or integer tensor of one element): which branch; an int decides when a graph is captured, once
    - `branches` (functions): give tensors, in tuples, lists or dictionaries too
    - `operands` (tuple or list): their arguments

    As `cond` for any number of branches. IndexError for an index that no branch has.

    Example::

        >>> import ferro
        >>> x = ferro.tensor([1.0, 2.0])
        >>> ferro.graph.switch(ferro.tensor(1), [lambda x: x, lambda x: x * 2, lambda x: x.exp()], (x,))
        tensor([2., 4.])
    """
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"switch: operands is a {type(operands).__name__}; a tuple or list was expected")
    functions = tuple(branches)
    if not functions or not all(map(callable, functions)):
        raise RuntimeError(f"switch: branches are {branches!r}; functions were expected")
    number = index
    if isinstance(index, TensorBase) and index._data.dtype.kind in "iu" and index._data.size == 1:
        return _chosen("switch", index, functions, operands)
    if type(number) is not int:
        raise RuntimeError(f"switch: index is {_said(index)}; an int or an integer tensor of one element was expected")
    if not 0 <= number < len(functions):
        raise IndexError(f"switch: the index is {number}, there are {len(functions)} branches")
    return _results("switch", functions[number], operands)


def _chosen(name: str, index: Any, functions: tuple, operands: Any) -> Any:
    capture = capturing() if CAPTURES else None
    if capture is not None:

        def calls(fn: Callable) -> Callable:
            return lambda given: _results(name, fn, given)

        found = capture.control.branches(capture, name, index, tuple(map(calls, functions)), operands)
        if found is not None:
            return found
    number = index.item()
    if name == "cond":
        number = 0 if number else 1
    elif not 0 <= number < len(functions):
        raise IndexError(f"switch: the index is {number}, there are {len(functions)} branches")
    return _results(name, functions[number], operands)


def _said(x: Any) -> str:
    return (
        f"{FROM_NUMPY[x._data.dtype]} of shape {list(x._data.shape)}"
        if isinstance(x, TensorBase)
        else f"a {type(x).__name__}"
    )


def _results(name: str, fn: Callable, operands: Any) -> Any:
    """What a branch gives, tensors that share no memory with its operands."""
    leaves, structure = trees.flatten(fn(*operands))
    for t in leaves:
        if not isinstance(t, TensorBase):
            raise TypeError(f"{name}: a branch gives a {type(t).__name__}; tensors were expected")
    given = [t for t in trees.flatten(operands)[0] if isinstance(t, TensorBase)]
    return trees.unflatten(structure, own(leaves, given))


def own(made: list, given: list) -> list:
    """Tensors, copied if they share memory with one of `given`."""
    return [backend.functional.clone(t) if any(_shares(t, x) for x in given) else t for t in made]


def _shares(t: Any, x: Any) -> bool:
    if t is x:
        return True
    a, b = t._data, x._data
    if (type(a) is not HOST and not hasattr(a, "near")) or (type(b) is not HOST and not hasattr(b, "near")):
        return False
    return bool(xp_of(a).may_share_memory(a, b))
