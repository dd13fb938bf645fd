"""Signatures of functions that are made of other functions: in-place methods, copying forms."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

# What stands before the lines of a docstring after the first; Python cuts it off from 3.13 on.
MARGIN = "" if sys.version_info >= (3, 13) else "    "
OUT = inspect.Parameter(
    "out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Tensor | tuple[Tensor, ...] | None"
)
OUT_LINE = "- `out` (Tensor, default None): where to write the result"  # as every function with it says


def name_in_place(method: Any, function: Callable, remark: str = "") -> Any:
    """Gives the in-place method of a function its name (``add_``), its text and its signature."""
    method.__name__ = method.__qualname__ = f"{function.__name__}_"
    text = text_of(f"In-place version of :func:`{function.__name__}`{remark}; it returns the tensor.", function)
    method.__doc__ = text.replace(f"{MARGIN}{OUT_LINE}\n", "")
    method.__signature__ = DerivedSignature(function, in_place=True)
    return method


def text_of(first: str, function: Callable) -> str:
    """The docstring of a function that does what another does: its own first lines, then the text of the other."""
    return f"{first}\n\n{MARGIN}{function.__doc__ or ''}"


def show_as(function: Any, **parameters: str) -> None:
    """Gives ``f(*args)`` the signature that its callers know: the parameters with their types, the last one for all that follow."""
    *first, last = [
        inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY, annotation=t) for n, t in parameters.items()
    ]
    shown = [*first, last.replace(kind=inspect.Parameter.VAR_POSITIONAL)]
    function.__signature__ = inspect.Signature(shown, return_annotation="Tensor")


class DerivedSignature(inspect.Signature):
    """The signature of a function that passes its arguments on, read when somebody asks for it (reading all takes long).

    in_place: of a method, which has `self` and no `out`; else of a function that also has `out`.
    """

    __slots__ = ("function", "in_place")

    def __init__(self, function: Callable, in_place: bool) -> None:
        self.function, self.in_place = function, in_place

    def _read(self) -> inspect.Signature:
        found = inspect.signature(self.function)
        first, *others = found.parameters.values()
        if not self.in_place:
            return found.replace(parameters=[first, *others, OUT])
        kept = [p for p in others if p.name != "out"]
        return inspect.Signature([first.replace(name="self"), *kept], return_annotation="Tensor")

    @property
    def parameters(self) -> Any:
        """The parameters by their names."""
        return self._read().parameters

    @property
    def return_annotation(self) -> Any:
        """What is written behind the arrow."""
        return self._read().return_annotation

    def replace(self, **changes: Any) -> inspect.Signature:  # type: ignore[override]
        """The signature with other parameters, as of a bound method."""
        return self._read().replace(**changes)
