"""Argument helpers of the layers: one number or one per dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def _ntuple(n: int, name: str) -> Callable[[Any], tuple[Any, ...]]:
    """A function that spreads one number over n dimensions and takes a sequence as it is."""

    def spread(value: Any) -> tuple[Any, ...]:
        if isinstance(value, Iterable):
            return tuple(value)
        return (value,) * n

    spread.__name__ = name
    return spread


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")
_sextuple = _ntuple(6, "_sextuple")
