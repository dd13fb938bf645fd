"""compile and what controls it: when functions are captured, what is left out, and whether one is being captured now.

A module is given as PyTorch gives it, behind an `OptimizedModule`, because programs depend on the names of its parameters
(``_orig_mod.weight``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from ferro._compiling import BACKENDS, DEFAULT, EAGER, GENERATION, STANCE, Calls, compile, compiled, known
from ferro.core.captures import CAPTURES, capturing
from ferro.nn.modules.module import Module

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
    "set_default_backend",
    "set_stance",
]

_STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "aot_eager_then_compile")


class OptimizedModule(Module):
    """The module that `compile` gives: all that is asked of it, or set, is asked of the module, which is its `_orig_mod`.

    Keys of its state_dict begin with "_orig_mod.", as PyTorch's do.
    """

    def __init__(self, mod: Module, calls: Any = None) -> None:
        super().__init__()
        if isinstance(mod, OptimizedModule):
            mod = mod._orig_mod
            if calls is not None:
                calls.fn = mod
        Module.__setattr__(self, "_orig_mod", mod)
        self.__dict__["_calls"] = calls if isinstance(calls, Calls) else None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes, hooks included."""
        calls = self.__dict__["_calls"]
        return self._orig_mod(*args, **kwargs) if calls is None else calls(*args, **kwargs)

    @property
    def graphs(self) -> list:
        """The graphs of the captures so far."""
        return [] if self.__dict__["_calls"] is None else self._calls.graphs

    def explain(self) -> Any:
        """What became of the calls so far: captures, replays, and why calls ran as written."""
        if self.__dict__["_calls"] is None:
            raise RuntimeError('explain: this module was compiled with backend="eager", which captures nothing')
        return self._calls.captures().explain()

    def __len__(self) -> int:
        module: Any = self._orig_mod
        if hasattr(type(module), "__len__"):
            return len(module)
        raise TypeError(f"{type(module).__name__} does not support len()")

    def __reduce__(self) -> Any:
        calls = self.__dict__["_calls"]
        return OptimizedModule, (self._orig_mod, None if calls is None else Calls(self._orig_mod, calls.given))

    @property
    def training(self) -> bool:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]
        """The module's."""
        return self._orig_mod.training

    @training.setter
    def training(self, value: bool) -> None:
        if "_orig_mod" in self._modules:  # (the base class sets it before the module is there)
            self._orig_mod.training = value

    def __getattr__(self, name: str) -> Any:
        modules = self.__dict__.get("_modules", {})
        if name == "_orig_mod":
            if name not in modules:
                raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
            return modules[name]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(type(self), name) or name == "_orig_mod" or "_orig_mod" not in self.__dict__.get("_modules", ()):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if hasattr(type(self), name) or name == "_orig_mod":
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._orig_mod), *super().__dir__()})


compiled.register(Module, OptimizedModule)


def _captures(*given: Any) -> Any:
    from ferro.graph.compiled import Compiled

    return Compiled(*given)


Calls.make = staticmethod(_captures)


# -------------------------------------------------------------------- marks


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function, which no graph holds: a compiled function that calls it runs as it is written. Without one, a decorator.

    Of a module that `compile` gave, the module itself.
    """
    if fn is None:
        return lambda fn: disable(fn, recursive, reason=reason)
    if not callable(fn):
        raise AssertionError("fn must be callable")
    if isinstance(fn, Module):
        return fn._orig_mod if isinstance(fn, OptimizedModule) else fn

    @functools.wraps(fn)
    def left_alone(*args: Any, **kwargs: Any) -> Any:
        if CAPTURES and (capture := capturing()) is not None:
            why = f" ({reason})" if reason else ""
            capture.refuse(f"{getattr(fn, '__qualname__', 'a function')} is left alone by ferro.compiler.disable{why}")
        return fn(*args, **kwargs)

    return left_alone


def allow_in_graph(fn: Any) -> Any:
    """The function itself, or functions themselves, which a compiler would not look into."""
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(f) for f in fn]
    if not callable(fn):
        raise AssertionError("allow_in_graph expects a callable")
    return fn


def assume_constant_result(fn: Callable) -> Callable:
    """The function itself; it is called every time."""
    return fn


def cudagraph_mark_step_begin() -> None:
    """Says that a step begins: results of the one before stay valid."""


def reset() -> None:
    """Drops all captures of all compiled functions."""
    GENERATION[0] += 1


# -------------------------------------------------------------------- questions and switches


def is_compiling() -> bool:
    """Whether a graph is being captured of what runs here."""
    return bool(CAPTURES) and capturing() is not None


def is_dynamo_compiling() -> bool:
    """The same as `is_compiling`."""
    return is_compiling()


def is_exporting() -> bool:
    """Whether this call is being exported: never."""
    return False


def list_backends(exclude_tags: Iterable[str] | None = ("debug", "experimental")) -> list[str]:
    """The backends whose names `compile` takes; those that promise no speed are tagged "debug".

    Example::

        >>> import ferro
        >>> ferro.compiler.list_backends()
        ['cudagraphs', 'inductor']
    """
    excluded = exclude_tags or ()
    return sorted(b for b in BACKENDS if b not in EAGER or "debug" not in excluded)


def set_default_backend(backend: str | Callable | None) -> None:
    """Sets the backend that `compile` takes unless one is given; None for "inductor"."""
    DEFAULT[0] = "inductor" if backend is None else known(backend)


def get_default_backend() -> str:
    """The backend that `compile` takes unless one is given."""
    return DEFAULT[0]


class set_stance:
    """When functions are captured, from now on; also a context manager and a decorator, for what runs inside.

    "default"; "force_eager": all run as they are written; "eager_on_recompile": what no graph fits runs as it is written, and is not
    captured again; "fail_on_recompile": RuntimeError then; "aot_eager_then_compile": as "default". RuntimeError for another stance.

    Example::

        >>> import ferro
        >>> f = ferro.compile(lambda x: x + 1)
        >>> with ferro.compiler.set_stance("force_eager"):
        ...     y = [f(ferro.zeros(1)) for _ in range(3)]
        >>> f.explain().replays
        0
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        if stance not in _STANCES:
            raise RuntimeError(f"set_stance: invalid stance {stance!r}; it is one of {', '.join(_STANCES)}")
        if force_backend is not None:
            known(force_backend)
        self.stance, self.before = stance, STANCE[0]
        STANCE[0] = stance

    def __call__(self, fn: Callable) -> Callable:
        STANCE[0] = self.before

        @functools.wraps(fn)
        def run(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self.stance):
                return fn(*args, **kwargs)

        return run

    def __enter__(self) -> None:
        STANCE[0] = self.stance

    def __exit__(self, *exc: object) -> None:
        STANCE[0] = self.before
