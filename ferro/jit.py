"""The compiler's decorators, without a compiler: what PyTorch's do when PYTORCH_JIT=0 is in the environment.

Programs that script or trace their functions and modules run as they are written, and the first script or trace says so.
There are no files of scripted modules.
"""

from __future__ import annotations

import builtins
import typing
from collections.abc import Callable
from typing import Any, Final, TypeVar

from ferro.core.notices import warn_once
from ferro.futures import Future
from ferro.nn.modules.module import Module

T = TypeVar("T")

__all__ = [
    "Attribute",
    "Error",
    "Final",
    "Future",
    "ScriptModule",
    "TracerWarning",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
    "wait",
]


def _say_once() -> None:
    warn_once(
        "jit.script and jit.trace compile nothing in ferro: what they are given runs as it is written. (Said once.)",
        stacklevel=3,
    )


class ScriptModule(Module):
    """A module; its methods are not compiled.

    Example::

        >>> import ferro
        >>> class Double(ferro.jit.ScriptModule):
        ...     def forward(self, x):
        ...         return 2 * x
        >>> Double()(ferro.tensor([3.0]))
        tensor([6.])
    """


def script(obj: T, optimize: None = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> T:
    """The function, class or module itself: it runs as it is written, and a warning says so once."""
    _say_once()
    return obj


def trace(func: T, example_inputs: Any = None, *args: Any, **kwargs: Any) -> T:
    """The function or module itself; it is not called with the examples, so that what depends on their values stays."""
    _say_once()
    return func


def trace_module(mod: T, inputs: Any, *args: Any, **kwargs: Any) -> T:
    """The module itself; it is not called with the examples."""
    _say_once()
    return mod


def freeze(mod: T, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> T:
    """The module itself, which must be in eval mode (RuntimeError)."""
    return _evaluating("freeze", mod)


def optimize_for_inference(mod: T, other_methods: list[str] | None = None) -> T:
    """The module itself, which must be in eval mode (RuntimeError)."""
    return _evaluating("optimize_for_inference", mod)


def _evaluating(name: str, mod: T) -> T:
    if not builtins.isinstance(mod, Module):
        raise RuntimeError(f"jit.{name}: a Module is needed, got {type(mod).__name__}")
    if mod.training:
        raise RuntimeError(f"jit.{name}: freezing is for modules in eval mode: call .eval() on your module before")
    return mod


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """NotImplementedError: there are no scripted modules, whose files hold their code."""
    raise NotImplementedError(
        "jit.save writes compiled code, and ferro has none; save the values: save(module.state_dict(), file)"
    )


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """NotImplementedError: the file holds compiled code."""
    raise NotImplementedError(
        "jit.load reads compiled code, which ferro does not run; build the module and load a file of its "
        "state_dict: module.load_state_dict(load(file))"
    )


def fork(func: Callable, *args: Any, **kwargs: Any) -> Future:
    """The Future of ``func(*args, **kwargs)``, which is called at once, as outside of scripts in PyTorch.

    Example::

        >>> import ferro
        >>> ferro.jit.wait(ferro.jit.fork(lambda x: x + 1, 2))
        3
    """
    future: Future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future) -> Any:
    """The value of a Future."""
    if not builtins.isinstance(future, Future):
        raise TypeError(f"wait(): incompatible function arguments: a Future is needed, got {type(future).__name__}")
    return future.wait()


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


def interface(obj: T) -> T:
    """The class itself; nothing checks who has its methods."""
    return obj


def enable_onednn_fusion(enabled: bool) -> None:
    """Accepted for PyTorch's sake: graphs of scripts, whose operations it would join, are not made."""


def onednn_fusion_enabled() -> bool:
    """Whether operations in graphs of scripts are joined: there are none."""
    return False


def unused(fn: T) -> T:
    """The function itself, which a compiler would replace by an error."""
    return fn


def _get_trace_graph(f: Any, args: Any = (), kwargs: Any = None, **options: Any) -> Any:
    """NotImplementedError: nothing is traced."""
    raise NotImplementedError(
        "jit._get_trace_graph traces a module, and ferro traces nothing: `debug.graph` shows a computation, "
        "`Module.register_forward_hook` what each module gets and gives"
    )


def _overload(func: T) -> T:
    """The signature of a function for the types that the compiler would see: itself, until the function takes its name."""
    return func


_overload_method = _overload


class Attribute(typing.NamedTuple):
    """A value with the type that the compiler would see: inside of a `ScriptModule` that is not compiled, the pair itself."""

    value: Any
    type: Any


class Error(RuntimeError):
    """What compiled code raises in PyTorch: never raised here, but programs catch it."""


class TracerWarning(Warning):
    """What PyTorch's tracer says of values that it cannot follow: never given here, but programs filter it."""


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
