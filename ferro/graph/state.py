"""What nodes do to the tensors and objects of the program, beside the memory of arrays: ``.grad``, ``.data``, versions, optimisers.

The functions of ``tensor.`` get the tensors themselves for inputs and bound values, and arrays for all others. They call what
eager calls, on the state that they find: `accumulate_grad` begins a ``.grad`` or adds to it, whichever it is at the time, and
an optimiser's step reads its rates and its state anew.

    tensor.accumulate_grad(w, g)     what backward() does at a leaf; gives the array of w.grad
    tensor.set_grad(w, g or None)    w.grad = g; behind g may stand the tensor of which it is a view
    tensor.set_data(x, y)            x.data = y
    tensor.set_requires_grad(x, True)    x.requires_grad_(True)
    tensor.detach(x)                 x.detach_()
    tensor.count_changes(x, n)       n in-place changes were made: the version counter
    tensor.count_changes_of_grad(w, n)    the same of w.grad
    check.has_grad(w, True)          whether there is a w.grad when the graph begins: Python decided by it
    program.step(optimizer, params, grads)    a step of an optimiser, without its hooks, which were captured
    program.schedule(scheduler, ...)          a step of a scheduler of learning rates
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferro.core.accumulate import accumulate
from ferro.core.base import LEAF, TensorBase, bump, meta_of, version_of, wrap
from ferro.core.owners import is_alone
from ferro.core.provenance import caller
from ferro.graph.ir import Held


def _tensor(x: Any, does: str) -> Any:
    if not isinstance(x, TensorBase):
        raise TypeError(f"the graph {does} of an input that is given as an array; give it as a tensor")
    return x


def _accumulate_grad(leaf: Any, g: Any) -> Any:
    """A list in the place of `g` hands it over: nobody reads it after this."""
    leaf = _tensor(leaf, "adds to the .grad")
    if leaf._node is not LEAF:
        raise ValueError(
            f"a tensor of shape {list(leaf.shape)} is no leaf that requires a gradient, as it was when the graph was captured"
        )
    owned = False
    if isinstance(g, TensorBase):
        g = g._data
    elif type(g) is list:
        g = g.pop()
        owned = is_alone(g)
    accumulate(leaf, g, False, owned, caller())
    return leaf._meta.grad._data


def _set_grad(x: Any, g: Any, owner: Any = None) -> None:
    if g is not None and not isinstance(g, TensorBase):
        g = wrap(g)
        if isinstance(owner, TensorBase):
            g._counter = version_of(owner)
    meta_of(_tensor(x, "sets the .grad")).grad = g


def _set_data(x: Any, y: Any) -> None:
    _tensor(x, "sets the .data")._data = y._data if isinstance(y, TensorBase) else y


def _set_requires_grad(x: Any, flag: bool) -> None:
    _tensor(x, "sets requires_grad")._as_leaf(flag)


def _detach(x: Any) -> None:
    _tensor(x, "cuts off the history").detach_()


def _count_changes(x: Any, count: int) -> None:
    if isinstance(x, TensorBase):  # (an array that was given has no counter)
        for _ in range(count):
            bump(x, "a replay of a graph")


def _count_changes_of_grad(x: Any, count: int) -> None:
    if isinstance(x, TensorBase) and x._meta is not None and x._meta.grad is not None:
        _count_changes(x._meta.grad, count)


def _has_grad(x: Any, expected: bool) -> None:
    has = isinstance(x, TensorBase) and x._meta is not None and x._meta.grad is not None
    if has is not expected:
        raise ValueError(
            f"a tensor of shape {list(getattr(x, 'shape', ()))} {'has a' if has else 'has no'} .grad; when the graph was captured, Python found "
            f"{'one' if expected else 'none'}, and decided by it"
        )


def thing(held: Held) -> Any:
    """The object that a node names; ValueError if the graph was read and nobody has given it."""
    if held.thing is None:
        raise ValueError(
            f"the {held.kind} of the program ({held.name or 'without a name'}) is not here: set `thing` of {held!r}"
        )
    return held.thing


def _step(held: Held, params: tuple, grads: tuple) -> None:
    """The operands say what the step reads and writes; it finds them by itself."""
    optimizer = thing(held)
    optimizer._opt_called = True
    type(optimizer).step.__wrapped__(optimizer)


def _schedule(held: Held, *args: Any) -> None:
    thing(held).step(*args)


OF_TENSORS: dict[str, Callable] = {
    "accumulate_grad": _accumulate_grad,
    "set_grad": _set_grad,
    "set_data": _set_data,
    "set_requires_grad": _set_requires_grad,
    "detach": _detach,
    "count_changes": _count_changes,
    "count_changes_of_grad": _count_changes_of_grad,
}
OF_PROGRAM: dict[str, Callable] = {"step": _step, "schedule": _schedule}
CHECK_OF_TENSORS: dict[str, Callable] = {"has_grad": _has_grad}
HANDED_OVER = "tensor.accumulate_grad"  # which takes its last argument out of a list
TAKES_TENSORS = frozenset((*(f"tensor.{name}" for name in OF_TENSORS), *(f"check.{name}" for name in CHECK_OF_TENSORS)))
