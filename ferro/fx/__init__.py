"""torch.fx: what libraries touch when they are imported; there is no symbolic tracer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ferro import absent as _absent

__all__ = ["Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "wrap"]


class _Untraced:
    """A class of the tracer's, for annotations, bases and `isinstance`: TypeError when an object of it is made."""

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"torch.fx.{type(self).__name__}: there is no symbolic tracer in ferro. Instead: `debug.graph` shows a computation "
            "(docs/names.md)"
        )


class Proxy(_Untraced):
    """A tracer's stand-in for a value."""


class Node(_Untraced):
    """A call in a graph."""


class Graph(_Untraced):
    """Calls in their order."""


class GraphModule(_Untraced):
    """A module that was made from a graph."""


class Tracer(_Untraced):
    """The tracer, which makes a graph from a module."""


class Interpreter(_Untraced):
    """Runs a graph, call by call."""


def wrap(fn_or_name: str | Callable) -> str | Callable:
    """Marks a function that a tracer would not look into: returns it as it is.

    Raises: RuntimeError for anything but a function or the name of one.

    >>> import ferro
    >>> @ferro.fx.wrap
    ... def half(x):
    ...     return x / 2
    >>> half(ferro.ones(1))
    tensor([0.5000])
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            f"Unsupported type for global function! Must be either a callable or string name, not {type(fn_or_name).__name__}"
        )
    return fn_or_name


_absent.explain(__name__)
