"""The compiler's decorators, without a compiler: what PyTorch's do when PYTORCH_JIT=0 is in the environment.

Programs that script or trace their functions and modules run as they are written.  There are no files of scripted modules.
"""

from __future__ import annotations

import builtins
import typing
from typing import Any, Final, TypeVar

from ferro.nn.modules.module import Module

T = TypeVar("T")

__all__ = [
    "Final",
    "ScriptModule",
    "annotate",
    "export",
    "ignore",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
]


class ScriptModule(Module):
    """A module; its methods are not compiled."""


def script(obj: T, optimize: None = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> T:
    """The function, class or module itself: it runs as it is written.

    Example::

        >>> import ferro
        >>> @ferro.jit.script
        ... def swish(x):
        ...     return x * x.sigmoid()
        >>> swish(ferro.zeros(1))
        tensor([0.])
    """
    return obj


def trace(func: T, example_inputs: Any = None, *args: Any, **kwargs: Any) -> T:
    """The function or module itself; it is not called with the examples."""
    return func


def trace_module(mod: T, inputs: Any, *args: Any, **kwargs: Any) -> T:
    """The module itself; it is not called with the examples."""
    return mod


def script_method(fn: T) -> T:
    """The method itself."""
    return fn


def script_if_tracing(fn: T) -> T:
    """The function itself."""
    return fn


def export(fn: T) -> T:
    """The method itself: nothing is compiled, so nothing need be named for it."""
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function itself, which a compiler would leave alone; also `@ignore(drop=True)`."""
    return drop if callable(drop) else export


def unused(fn: T) -> T:
    """The function itself, which a compiler would replace by an error."""
    return fn


def is_scripting() -> bool:
    """Whether this is compiled code: never."""
    return False


def is_tracing() -> bool:
    """Whether this call is being traced: never."""
    return False


def annotate(the_type: Any, the_value: T) -> T:
    """The value; its type was for the compiler."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type, where lists, dicts, tuples and unions are asked for the types inside.

    Example::

        >>> import ferro
        >>> ferro.jit.isinstance([1, 2], list[int]), ferro.jit.isinstance([1, "a"], list[int])
        (True, False)
    """
    kinds = target_type if builtins.isinstance(target_type, tuple) else (target_type,)
    return any(_matches(obj, kind) for kind in kinds)


def _matches(obj: Any, kind: Any) -> bool:
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is None:
        return builtins.isinstance(obj, type(None) if kind is None else kind)
    if not builtins.isinstance(origin, type) or origin.__name__ == "UnionType":
        return any(_matches(obj, k) for k in inside)
    if not builtins.isinstance(obj, origin):
        return False
    found: Any = obj
    if origin is dict:
        return all(_matches(k, inside[0]) and _matches(v, inside[1]) for k, v in found.items())
    if origin is tuple and inside[-1:] != (Ellipsis,):
        return len(found) == len(inside) and all(map(_matches, found, inside))
    return all(_matches(x, inside[0]) for x in found)
