"""Signatures of functions that are made of other functions: in-place methods, copying forms."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

OUT = inspect.Parameter(
    "out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Tensor | tuple[Tensor, ...] | None"
)


def name_in_place(method: Any, function: Callable, remark: str = "") -> Any:
    """Gives the in-place method of a function its name (``add_``), its text and its signature."""
    method.__name__ = method.__qualname__ = f"{function.__name__}_"
    method.__doc__ = f"In-place version of :func:`{function.__name__}`{remark}."
    method.__signature__ = DerivedSignature(function, in_place=True)
    return method


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
