"""compile: its arguments are checked, and what it is given runs as it is written."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

from ferro.core.notices import warn_once

_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
# What runs a function as it is written, by definition; the others would make it faster, and do not yet.
EAGER = ("eager", "aot_eager")
BACKENDS = (*EAGER, "cudagraphs", "inductor")
DEFAULT = ["inductor"]


def known(backend: Any) -> str:
    """The name of a backend, checked."""
    if callable(backend):
        raise NotImplementedError(
            "compile: a backend that is a function is called with a graph of operations, and ferro makes none yet; leave it "
            'out, or say backend="eager"'
        )
    if backend not in BACKENDS:
        raise RuntimeError(
            f"Invalid backend: {backend!r}, see `torch._dynamo.list_backends()` for available backends. ferro takes "
            f"{', '.join(BACKENDS)}"
        )
    return backend


@singledispatch
def compiled(model: Any) -> Any:
    """What stands for a function that is to be compiled: itself; compiler.py says so of modules."""
    return model


def compile(
    model: Callable | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """The function, or the module behind an `OptimizedModule`: it runs as it is written, and a warning says so once.

    - `model` (callable or Module, default None): None makes a decorator
    - `fullgraph`, `dynamic` (bool, default False and None): no effect
    - `backend` (str, default None): "inductor" (None too), "cudagraphs", "aot_eager" or "eager"; the last two promise
      no speed, so that nothing is said
    - `mode` (str, default None): one of PyTorch's modes, without effect
    - `options` (dict, default None): for a compiler, without effect
    - `name` (str, default None): no effect
    - `disable` (bool, default False): gives the model itself
    - `recompile_limit` (int, default None): no effect
    - `isolate_recompiles` (bool, default False): no effect
    - `shapes_spec` (Any, default None): no effect

    RuntimeError for an unknown backend or mode, or for mode and options at once; NotImplementedError for a backend that
    is a function, which would be given a graph.

    Example::

        >>> import ferro
        >>> @ferro.compile(backend="eager")
        ... def swish(x):
        ...     return x * x.sigmoid()
        >>> swish(ferro.zeros(1))
        tensor([0.])
        >>> list(ferro.compile(ferro.nn.Linear(2, 1), backend="eager").state_dict())
        ['_orig_mod.weight', '_orig_mod.bias']
    """
    given = dict(locals())
    del given["model"]
    if model is None:

        def decorate(model: Callable) -> Any:
            if model is None:
                raise RuntimeError("Model can't be None")
            return compile(model, **given)

        return decorate
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    chosen = known(DEFAULT[0] if backend is None else backend)
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    if disable:
        return model
    if chosen not in EAGER:
        warn_once(
            "compile: ferro has no compiler yet, so functions and modules run as they are written. (Said once; nothing is "
            'said with backend="eager".)',
            stacklevel=2,
        )
    return compiled(model)
