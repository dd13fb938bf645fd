"""capture: the graph of what a function computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferro.graph.graph import Graph
from ferro.graph.tracing import trace


def capture(fn: Callable, *args: Any, **kwargs: Any) -> Graph:
    """The graph of ``fn(*args, **kwargs)``, which is called once, for real.

    - `fn` (callable): a function or module of tensors
    - `args`, `kwargs`: its arguments; tensors among them, in tuples, lists and dictionaries too, become the inputs of the graph, all else
      is part of the program

    Parameters, buffers, closures and globals are bound: each run of the graph reads them anew. CaptureError, with the
    line, where Python asks for numbers (``if t:``, ``item()``, ``numpy()``), and for what is
    computed by no function that a graph can call; what the function did to memory before stays done. No other thread may
    compute with the same tensors meanwhile.

    Example::

        >>> import ferro
        >>> w = ferro.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> graph = ferro.graph.capture(lambda x: (x @ w).sum(), ferro.ones(1, 2))
        >>> graph.interpret(ferro.ones(1, 2) * 2)
        [tensor(20.)]
    """
    return Graph(*trace(fn, args, kwargs))
