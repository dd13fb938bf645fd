"""The arrays of one step, where a kernel may change them in place of a chain of operations on Tensors.

A backend that has steps of whole lists of parameters (`adam_steps`, `sgd_steps`) gets all those of a group at once: `later` keeps them
until `finish`, which an optimiser calls behind its last parameter.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import local
from typing import Any, NamedTuple

from numpy import ndarray

from ferro.core import backend
from ferro.core.base import TensorBase, bump
from ferro.core.inplace import check
from ferro.core.mode import MODE


def arrays_to_change(name: str, grad: TensorBase, param: TensorBase, *state: TensorBase | None) -> list[Any] | None:
    """The arrays of param and state, counted as changed by `name`; None if operations on Tensors have to do the step.

    Kernels know NumPy arrays of one shape, all float32 or all float64. An observer (of a profiler, or looking for nan)
    is to see operations, so any mode but that of no_grad keeps them too. Whatever refuses an in-place operation, such
    as memory that is read-only, refuses here, before anything has changed.
    """
    mode = MODE.get()
    data = param._data
    dtype, shape = data.dtype, data.shape
    if not _is_quiet(mode):
        return None
    if type(data) is not ndarray:
        return _of_backend(name, grad, param, state)
    if dtype.char not in "fd":
        return None
    arrays: list[Any] = [data]
    for t in (grad, *state):
        a = None if t is None else t._data
        if a is not None and (
            a.shape != shape or (a.dtype is not dtype and a.dtype != dtype) or type(a) is not ndarray
        ):
            return None
        arrays.append(a)
    location = (
        None if mode.detached is None else mode.detached.location
    )  # where the step was called: it has switched recording off
    for t in (param, *state):
        if t is not None:
            if t._counter is None or t._counter.inference or not t._data.flags.carray:  # else nothing can be amiss
                check(t, name)
            bump(t, name, location)
    del arrays[1]
    return arrays


def _is_quiet(mode: Any) -> bool:
    """Whether nobody is to see operations: recording is off, and who observes looks at nodes that are recorded alone."""
    if mode is None or mode.silent:
        return mode is not None
    others = mode.grad or mode.inference or mode.level or mode.pack or mode.anomaly
    asked = mode.barred is not None or mode.cast is not None
    return not (others or asked) and all(getattr(observer, "only_nodes", False) for observer in mode.observers)


def _of_backend(name: str, grad: TensorBase, param: TensorBase, state: tuple) -> list[Any] | None:
    takes = getattr(backend.module_of(type(param._data)), "takes_steps", None)
    arrays = [None if t is None else t._data for t in (param, grad, *state)]
    if takes is None or not takes(*arrays):
        return None
    for t in (param, *state):
        if t is not None:
            check(t, name)
            bump(t, name)
    del arrays[1]
    return arrays


class _Waiting(local):
    """The steps of this thread that wait: lists of arrays by the name of the step and its numbers."""

    def __init__(self) -> None:
        self.steps: dict[tuple, list[tuple]] = {}
        self.behind: dict[tuple, list[tuple]] = {}


_WAITING = _Waiting()


def later(name: str, arrays: tuple, *numbers: Any, behind: bool = False) -> None:
    """A step of arrays (param, grad, state...) of a backend: with all others of these numbers, when `finish` is called; `behind` all
    those that are not."""
    waiting = _WAITING.behind if behind else _WAITING.steps
    waiting.setdefault((type(arrays[0]), name, numbers), []).append(arrays)


class Counting(NamedTuple):
    """How numbers of a step that lie on a device count on: the function of the backend, the tensors, its numbers, and whether the step
    reads the tensors as they were before."""

    name: str
    tensors: tuple
    numbers: tuple = ()
    behind: bool = False


def stepped(
    name: str,
    has: Iterable[str],
    param: Any,
    grad: Any,
    count: Any,
    state: dict[str, Any],
    numbers: dict[str, Any],
    counting: Counting | None = None,
) -> bool:
    """Whether a backend with kernels does this step, by the formula of this name (formulas.py), when `finish` is called.

    has: the options that are used. The count is counted on: where it lies on the device with those of all others, and read there, or as
    `counting` says; so is any number that is a tensor there.
    """
    mode, kind = MODE.get(), type(param._data)
    if kind is ndarray or not _is_quiet(mode):
        return False
    module = backend.module_of(kind)
    if not hasattr(module, "formula_steps"):
        return False
    there = {key: t._data for key, t in numbers.items() if isinstance(t, TensorBase) and type(t._data) is kind}
    counts = type(count._data) is kind
    counting = counting or Counting("count_steps", (count,))
    counted = [t._data for t in counting.tensors] if counts else []
    if not _are_numbers_there(kind, [*there.values()]) or not _are_numbers_there(kind, counted, alike=True):
        return False
    arrays = arrays_to_change(name, grad, param, *state.values())
    if arrays is None:
        return False
    if counts:
        _count_later(name, counting)
        there = {"step": count._data, **there}
        step = None
    else:
        count += 1
        step = count.item()
    given = {"step": step, **numbers}
    values = [float(v) for key, v in given.items() if key not in there]
    names, read = ("p", "g", *state), tuple(there)
    lead = (name, frozenset(has), names, tuple(given), read)
    later("formula_steps", (arrays[0], grad._data, *arrays[1:], *there.values()), *lead, *values)
    return True


def _count_later(name: str, counting: Counting) -> None:
    for t in counting.tensors:
        check(t, name)
        bump(t, name)
    arrays = tuple([t._data for t in counting.tensors])
    later(counting.name, arrays, *counting.numbers, behind=counting.behind)


def _are_numbers_there(kind: type, arrays: list, alike: bool = False) -> bool:
    """Whether arrays are of a backend and a dtype that its kernels read numbers of; `alike`: of one."""
    kinds = {a.dtype.name for a in arrays}
    return kinds <= {"float32", "float64"} and all(type(a) is kind for a in arrays) and not (alike and len(kinds) > 1)


def used(group: dict[str, Any], **more: Any) -> frozenset:
    """The options of a group that a formula asks for: "decay", "decoupled", and those of `more` that are true."""
    decay = group.get("weight_decay", 0) != 0
    has = {"decay": decay, "decoupled": decay and group.get("decoupled_weight_decay"), **more}
    return frozenset(name for name, value in has.items() if value)


def finish() -> None:
    """Does the steps that wait."""
    steps, behind = _WAITING.steps, _WAITING.behind
    if steps:
        _WAITING.steps, _WAITING.behind = {}, {}
        for (kind, name, numbers), lists in (*steps.items(), *behind.items()):
            getattr(backend.module_of(kind), name)(lists, *numbers)
