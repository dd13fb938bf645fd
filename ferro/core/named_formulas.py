"""Formulas with names: those that array functions get as parameters (the slope of a loss), so that the text of a graph can name them."""

from __future__ import annotations

from collections.abc import Callable

NAMED: dict[str, Callable] = {}
_NAMES: dict[Callable, str] = {}


def named(name: str, formula: Callable) -> Callable:
    """The formula, which has that name from now on; ValueError if one of another module has it already."""
    before = NAMED.get(name)
    if before is not None and before.__module__ != formula.__module__:  # (a module may be loaded again)
        raise ValueError(f"the formula {name!r} is declared twice, in {before.__module__} and {formula.__module__}")
    NAMED[name], _NAMES[formula] = formula, name
    return formula


def name_of(formula: Callable) -> str | None:
    """The name of a formula; None if it has none."""
    return _NAMES.get(formula)
