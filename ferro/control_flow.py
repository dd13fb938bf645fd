"""Control flow that decides by data: plain Python, and where a graph is captured one node with graphs of branches and bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ferro.core import backend, trees
from ferro.core.backend import is_host, xp_of
from ferro.core.base import TensorBase
from ferro.core.captures import CAPTURES, capturing
from ferro.core.dtypes import FROM_NUMPY


def cond(pred: Any, true_fn: Callable, false_fn: Callable, operands: Any = ()) -> Any:
    """``true_fn(*operands)`` if `pred` is true, else ``false_fn(*operands)``.

    - `pred` (number or bool tensor of one element): the condition; a number decides when a graph is captured, once
    - `true_fn`, `false_fn` (functions): give tensors, in tuples, lists or dictionaries too
    - `operands` (tuple or list, default ()): their arguments

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
    if type(pred) in (bool, int, float):
        return _results("cond", true_fn if pred else false_fn, operands)
    if not isinstance(pred, TensorBase) or pred._data.dtype != np.bool_ or pred._data.size != 1:
        raise RuntimeError(f"cond: pred is {_said(pred)}; a number or a bool tensor of one element was expected")
    return _chosen("cond", pred, (true_fn, false_fn), operands)


def switch(index: Any, branches: Sequence[Callable], operands: Any = ()) -> Any:
    """``branches[index](*operands)``.

    - `index` (int or integer tensor of one element): which branch; an int decides when a graph is captured, once
    - `branches` (functions): give tensors, in tuples, lists or dictionaries too
    - `operands` (tuple or list, default ()): their arguments

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
    if isinstance(index, TensorBase) and index._data.dtype.kind in "iu" and index._data.size == 1:
        return _chosen("switch", index, functions, operands)
    if type(index) is not int:
        raise RuntimeError(f"switch: index is {_said(index)}; an int or an integer tensor of one element was expected")
    if not 0 <= index < len(functions):
        raise IndexError(f"switch: the index is {index}, there are {len(functions)} branches")
    return _results("switch", functions[index], operands)


def while_loop(cond_fn: Callable, body_fn: Callable, carried_inputs: Any) -> tuple:
    """Calls ``carried = body_fn(*carried)`` as long as ``cond_fn(*carried)`` is true; returns the last ones.

    - `cond_fn` (function): gives a bool, or a bool tensor of one element
    - `body_fn` (function): gives a tuple of as many tensors as it gets
    - `carried_inputs` (tuple or list): tensors, in tuples, lists and dictionaries too, which the first trip gets

    The results share no memory with `carried_inputs`, without any trip too. Gradients go through all trips. In a capture, and in compiled
    functions, body and condition are captured as graphs of one node, which makes as many trips as the data say; a body must
    give the shapes and dtypes that it gets, and may write only into what it makes (CaptureError). RuntimeError for results of another nesting.

    Example::

        >>> import ferro
        >>> ferro.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (ferro.tensor(0), ferro.tensor(1.0)))
        (tensor(3), tensor(8.))
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("while_loop: cond_fn and body_fn must be functions")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(
            f"while_loop: carried_inputs is a {type(carried_inputs).__name__}; a tuple or list was expected"
        )
    given, structure = trees.flatten(tuple(carried_inputs))

    def body(*carried: Any) -> list:
        made = body_fn(*trees.unflatten(structure, list(carried)))
        leaves, its = trees.flatten(tuple(made) if isinstance(made, (tuple, list)) else (made,))
        if its != structure:
            raise RuntimeError(f"while_loop: the body gets {structure} and gives {its}")
        return leaves

    def condition(*carried: Any) -> Any:
        return cond_fn(*trees.unflatten(structure, list(carried)))

    capture = capturing() if CAPTURES else None
    if capture is not None and all(isinstance(t, TensorBase) for t in given):
        found = capture.control.loop(capture, "while_loop", condition, body, capture.control.given(given))
        if found is not None:
            return trees.unflatten(structure, found[0])
    carried = _entered(given)
    while condition(*carried):
        carried = body(*carried)
    return trees.unflatten(structure, own(carried, given))


def scan(combine_fn: Callable, init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> tuple:
    """Goes over slices of `xs` along `dim`: ``carry, y = combine_fn(carry, x)``. Returns the last carry, and all y stacked along `dim`.

    - `combine_fn` (function): gives what the next call gets, and a result of this one
    - `init` (Tensor, or a tree of tensors): what the first call gets
    - `xs` (Tensor, or a tree of tensors): of equal sizes along `dim`
    - `dim` (int, default 0): which dimension
    - `reverse` (bool, default False): whether it begins at the end

    As `while_loop` in all else. RuntimeError for sizes that differ, or are zero.

    Example::

        >>> import ferro
        >>> ferro.scan(lambda c, x: (c + x, c * x), ferro.tensor(0.0), ferro.tensor([1.0, 2.0, 3.0]))
        (tensor(6.), tensor([0., 2., 9.]))
    """
    if not callable(combine_fn):
        raise RuntimeError(f"scan: combine_fn is a {type(combine_fn).__name__}; a function was expected")
    given, structure = trees.flatten(init)
    leaves, of_xs = trees.flatten(xs)
    if not leaves or not all(isinstance(t, TensorBase) for t in (*given, *leaves)):
        raise RuntimeError(
            "scan: init and xs must be tensors, in tuples, lists or dictionaries, and of xs there must be one"
        )
    moved = [backend.functional.movedim(t, dim, 0) for t in leaves]
    sizes = [len(t._data) for t in moved]
    if sizes[0] == 0 or len(set(sizes)) > 1:
        raise RuntimeError(f"scan: the sizes of xs along dim {dim} are {sizes}; equal ones above 0 were expected")
    of_ys: list = []

    def body(*parts: Any) -> list:
        carried, slices = list(parts[: len(given)]), list(parts[len(given) :])
        made = combine_fn(trees.unflatten(structure, carried), trees.unflatten(of_xs, slices))
        if not isinstance(made, (tuple, list)) or len(made) != 2:
            raise RuntimeError("scan: combine_fn must give two things: the next carry, and a result")
        (carry, its), (ys, of_y) = trees.flatten(made[0]), trees.flatten(made[1])
        if its != structure:
            raise RuntimeError(f"scan: combine_fn gets the carry {structure} and gives {its}")
        of_ys[:] = [of_y]
        return [*carry, *ys]

    capture = capturing() if CAPTURES else None
    found = None
    if capture is not None:
        found = capture.control.loop(capture, "scan", None, body, capture.control.given(given, moved, reverse))
    carried, ys = _scanned(body, given, moved, reverse) if found is None else _cut(found[0], len(given))
    ys = [backend.functional.movedim(y, 0, dim) for y in ys]
    return trees.unflatten(structure, carried), trees.unflatten(of_ys[0], ys)


def _cut(made: list, count: int) -> tuple[list, list]:
    return made[:count], made[count:]


def _scanned(body: Callable, given: list, xs: list, reverse: bool) -> tuple[list, list]:
    """The last of what is carried, and the stacked results of trips."""
    carried, ys = _entered(given), []
    trips = list(zip(*[backend.functional.unbind(x, 0) for x in xs], strict=True))
    for slices in reversed(trips) if reverse else trips:
        carried, y = _cut(body(*carried, *slices), len(given))
        ys.append(y)
    stacked = [backend.functional.stack(y, 0) for y in zip(*(reversed(ys) if reverse else ys), strict=True)]
    return own(carried, [*given, *xs]), stacked


def _entered(given: list) -> list:
    """Tensors as a loop gets them: gradients of those from before it meet outside of it, in one sum."""
    return [_aliased(t) if isinstance(t, TensorBase) and t._node is not None else t for t in given]


def _aliased(t: Any) -> Any:
    return t.view_as(t)


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
    given = [x for x in given if isinstance(x, TensorBase)]
    return [
        backend.functional.clone(t) if isinstance(t, TensorBase) and any(_shares(t, x) for x in given) else t
        for t in made
    ]


def _shares(t: Any, x: Any) -> bool:
    if t is x:
        return True
    a, b = t._data, x._data
    if not (is_host(a) and is_host(b)):
        return False
    return bool(xp_of(a).may_share_memory(a, b))
