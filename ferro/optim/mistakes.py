"""Likely mistakes around a step of an optimizer, which strict mode refuses."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary, ref

from ferro.core.strict import refuse

_used: WeakKeyDictionary[Any, list[ref]] = WeakKeyDictionary()  # the gradients of each optimizer's last step


def _gradients(optimizer: Any) -> list[Any]:
    found = [p.grad for group in optimizer.param_groups for p in group["params"]]
    return [g for g in found if g is not None]


def before_step(optimizer: Any) -> None:
    """Refuses a step without gradients, and one with gradients that were used before."""
    gradients = _gradients(optimizer)
    name = type(optimizer).__name__
    if not gradients:
        refuse(
            f"{name}.step(): no parameter has a gradient. Call loss.backward() before, on a loss that depends on the parameters "
            "that the optimizer was given"
        )
    used = {id(g) for g in [r() for r in _used.get(optimizer, ())] if g is not None}
    again = sum(id(g) in used for g in gradients)
    if again:
        refuse(
            f"{name}.step(): {again} of {len(gradients)} gradients were used by the step before, and what backward() has found "
            "since is added to them. Call optimizer.zero_grad() before backward()"
        )


def after_step(optimizer: Any) -> None:
    """Notes which gradients have been used."""
    _used[optimizer] = [ref(g) for g in _gradients(optimizer)]
