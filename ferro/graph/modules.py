"""Names of tensors and modules that a function reaches, for people who read its graph."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

from ferro.core.base import TensorBase
from ferro.core.random import Generator
from ferro.nn.modules.module import Module

_CALL = Module.__call__.__code__


def named(fn: Any, args: tuple, kwargs: dict) -> dict[int, str]:
    """By the identities of tensors and modules, their paths: "model.0.weight" where `model` is a variable of the function."""
    found: dict[int, str] = {}
    for name, thing in _reached(fn, args, kwargs):
        prefix = f"{name}." if name else ""
        if isinstance(thing, (TensorBase, Generator)):
            found.setdefault(id(thing), name)
        elif isinstance(thing, Module):
            for path, module in thing.named_modules():
                found.setdefault(id(module), (prefix + path).strip("."))
            for path, t in (*thing.named_parameters(), *thing.named_buffers()):
                found.setdefault(id(t), prefix + path)
    return found


def _reached(fn: Any, args: tuple, kwargs: dict) -> Iterator[tuple[str, Any]]:
    """What a function reaches by arguments, itself, closures and globals, with the names it has there."""
    if isinstance(fn, Module):
        yield "", fn
    if isinstance(fn, MethodType):
        yield "self" if not isinstance(fn.__self__, Module) else "", fn.__self__
        fn = fn.__func__
    function: Callable | None = inspect.unwrap(fn) if callable(fn) else None
    code = getattr(function, "__code__", None)
    if code is not None:
        yield from zip(code.co_varnames, args, strict=False)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):  # type: ignore[union-attr]
            try:
                yield name, cell.cell_contents
            except ValueError:  # (empty yet)
                continue
        for name in code.co_names:
            if name in function.__globals__:  # type: ignore[union-attr]
                yield name, function.__globals__[name]  # type: ignore[union-attr]
    yield from kwargs.items()


def innermost(names: dict[int, str]) -> str:
    """The path of the module whose call runs; "" if none does."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code is _CALL:
            return names.get(id(frame.f_locals["self"]), "")
        frame = frame.f_back
    return ""
