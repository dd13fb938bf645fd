"""Batching rules: which call computes a function of `ferro.cpu` for all slices of its batched arguments at once.

A rule is declared as a string that says of each argument what it is:

    x   an array, or None: the dimension of the batch is put in front (repeated, if the argument is the same for all slices)
    m   the same of (stacks of) matrices, all with one number of dimensions
    v   a number, or what is written in the places that the array before names
    u   an array, or None, of which one without a batch stays as it is
    e   an array or a number that broadcasts against the others
    d   a dimension; D: a tuple of dimensions; s: a shape of the result or an argument
    -   anything else, which is passed on; "...": the same for all that follow

or as a function ``rule(f, level, *args)``, where `f` is the function to call on arrays with the batch in front; it may
return NotImplemented.  What has no rule runs as a loop over the slices, and a warning says so once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ferro import cpu
from ferro.batched.array import DYNAMIC, SERVING, Batched, aligned, batch, device_type, fronted, has, is_array, top
from ferro.batched.levels import Level

RULES: dict[str, Any] = {}
SHARING: set[str] = set()  # functions whose result may share memory with their argument: they must not run as a loop
QUIET: set[str] = set()  # functions that are loops by their nature, or cost nothing: no warning
BY_ELEMENT: set[str] = set()  # elementwise functions: their results may lie in any order of dimensions
_warned: set[str] = set()


def declare(**rules: str) -> None:
    """Enters rules: ``declare(softmax="x d")``; a rule may serve several names: ``declare(**each("x d", "sort topk"))``."""
    for name, kinds in rules.items():
        RULES[name] = kinds.split()


def each(rule: str, names: str) -> dict[str, str]:
    """The same rule for several names."""
    return dict.fromkeys(names.split(), rule)


def rule(names: str) -> Callable:
    """Decorator: the function is the rule of these names."""

    def enter(function: Callable) -> Callable:
        for name in names.split():
            RULES[name] = function
        return function

    return enter


class Functions:
    """The module of functions of batched arrays: the same names as in ferro.cpu, made when first asked for."""

    # by NumPy's protocols
    may_share_memory, write_, add_ = (
        staticmethod(cpu.may_share_memory),
        staticmethod(cpu.write_),
        staticmethod(cpu.add_),
    )

    def __getattr__(self, name: str) -> Any:
        if not hasattr(cpu, name):
            raise AttributeError(f"the backend of batched arrays has no function {name!r}")
        function = partial(call, name)
        setattr(self, name, function)
        return function


functions = Functions()


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """The function `name` of arrays of any backend."""
    level = top(args)
    if level is None:
        module: Any = SERVING.get(device_type(args), cpu) if SERVING else cpu
        function = getattr(module, name)
        # (NumPy's functions keep the order of dimensions in memory by themselves)
        if module is not cpu and not kwargs and name in BY_ELEMENT:
            return module.by_element(function, args)
        return function(*args, **kwargs)
    found = RULES.get(name)
    result: Any = NotImplemented
    if found is not None:
        f = partial(call, name)
        if type(found) is list:
            result = by_kinds(found, f, level, args) if not kwargs else NotImplemented
        else:
            result = found(f, level, *args, **kwargs)
    if result is NotImplemented:
        result = loop(name, partial(call, name), level, args, kwargs)
    return result


def checked(kinds: str, fits: Callable) -> Callable:
    """The rule of these kinds for arguments that ``fits(*args)`` finds regular."""

    def apply(f: Callable, level: Level, *args: Any) -> Any:
        return by_kinds(kinds.split(), f, level, args) if fits(*args) else NotImplemented

    return apply


def by_kinds(kinds: list, f: Callable, level: Level, args: tuple) -> Any:
    """Applies a rule that is a list of kinds."""
    if "d" in kinds and not (args[kinds.index("s")] if "s" in kinds else args[0].shape):  # a dimension of what has none
        if any(kind in "xuv" and getattr(a, "ndim", 0) for a, kind in zip(args, kinds, strict=False)):
            return NotImplemented
        lifted = by_kinds(kinds, f, level, tuple([_lifted(a, kind) for a, kind in zip(args, kinds, strict=False)]))
        return NotImplemented if lifted is NotImplemented else _lowered(lifted)
    kinds = (
        [k for k in kinds if k != "..."] + kinds[-2:-1] * (len(args) - len(kinds) + 1) if kinds[-1] == "..." else kinds
    )
    ndim = max([getattr(a, "ndim", 0) for a, k in zip(args, kinds, strict=False) if k == "e"], default=0)
    given = []
    for a, kind in zip(args, kinds, strict=False):
        if kind == "-" or a is None:
            if top((a,)) is level:
                return NotImplemented
            if a is None and kind == "d":
                return NotImplemented
            given.append(a)
        elif kind == "x":
            given.append(fronted(a, level))
        elif kind == "m":
            if a.ndim != args[0].ndim:
                return NotImplemented
            given.append(fronted(a, level))
        elif kind == "v":
            if not getattr(a, "ndim", 0):
                given.append(aligned(a, level, given[-1].ndim - 1))
            else:
                given.append(fronted(a, level))
        elif kind == "u":
            given.append(a.physical if has(a, level) else a)
        elif kind == "e":
            given.append(aligned(a, level, ndim))
        elif kind == "d":
            given.append(a + 1 if a >= 0 else a)
        elif kind == "D":
            given.append(tuple([d + 1 if d >= 0 else d for d in a]))
        else:  # "s"
            given.append((level.size, *a))
    return rebatched(f(*given), level)


def _lifted(value: Any, kind: str) -> Any:
    """An argument without dimensions as one with a dimension of size 1."""
    if kind in "xuv" and hasattr(value, "ndim") and not value.ndim:
        return value.reshape((1,))
    return (1,) if kind == "s" and value == () else value


def _lowered(result: Any) -> Any:
    if type(result) is tuple or type(result) is list:
        return type(result)([_lowered(r) for r in result])
    return result if result is None or not result.ndim else result.reshape(())


def rebatched(result: Any, level: Level) -> Any:
    """The arrays of a result, whose first dimension is that of the batch, as batched arrays."""
    if type(result) is tuple or type(result) is list:
        return type(result)([rebatched(r, level) for r in result])
    return None if result is None else batch(np.asarray(result) if isinstance(result, np.generic) else result, level)


# -- what has no rule --------------------------------------------------------------------------------------------------


def sliced(value: Any, level: Level, i: int) -> Any:
    """Slice number i of a value, of the values of a tuple, list or dictionary."""
    kind = type(value)
    if kind is Batched:
        return value.physical[i, ...] if value.level is level else value
    if kind is tuple or kind is list:
        return kind([sliced(v, level, i) for v in value])
    return {k: sliced(v, level, i) for k, v in value.items()} if kind is dict else value


def loop(name: str, function: Callable, level: Level, args: tuple, kwargs: dict) -> Any:
    """Calls the function once for every slice, and stacks what it returns."""
    if name in SHARING:
        raise RuntimeError(f"{name}: this view of a tensor under vmap has no batching rule; clone() the tensor first")
    if not level.size:
        raise RuntimeError(f"{name}: The fallback path does not support vmap over dims of size 0.")
    say_loop(name)
    return stacked(
        name, [function(*sliced(args, level, i), **sliced(kwargs, level, i)) for i in range(level.size)], level
    )


def say_loop(name: str) -> None:
    """Warns, once, that a function runs as a loop."""
    if name not in _warned and name not in QUIET:
        _warned.add(name)
        warnings.warn(
            f"There is a performance drop because we have not yet implemented the batching rule for {name}: under vmap it runs as a loop "
            "over the slices of the batch.",
            UserWarning,
            stacklevel=4,
        )


def stacked(name: str, results: list, level: Level) -> Any:
    """One result that stands for those of all slices."""
    first = results[0]
    if type(first) is tuple or type(first) is list:
        if any(len(r) != len(first) for r in results):
            raise RuntimeError(DYNAMIC.format(f"{name} returned {sorted({len(r) for r in results})} arrays"))
        return type(first)([stacked(name, list(rs), level) for rs in zip(*results, strict=True)])
    if isinstance(first, np.generic) or is_array(first):
        if any(r.shape != first.shape for r in results):
            raise RuntimeError(
                DYNAMIC.format(f"{name} returned the shapes {sorted({tuple(r.shape) for r in results})}")
            )
        return batch(
            call("stack", tuple([np.asarray(r) if isinstance(r, np.generic) else r for r in results]), 0), level
        )
    if any(r != first for r in results):
        raise RuntimeError(DYNAMIC.format(f"{name} returned {first!r} for one slice and something else for another"))
    return first
