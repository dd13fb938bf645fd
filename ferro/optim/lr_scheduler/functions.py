"""Schedulers that multiply the rate by a function of one's own: LambdaLR, MultiplicativeLR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler


class LambdaLR(LRScheduler):
    """The initial rate times a function of the epoch.

    - `optimizer` (Optimizer): whose rates change, group by group
    - `lr_lambda` (function of an integer, or a list of them, one for each group): the factor
    - `last_epoch` (int, default -1): the epoch at which training goes on; -1 begins anew

    Example::

        >>> import ferro
        >>> optimizer = ferro.optim.SGD([ferro.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = ferro.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)
        >>> for _ in range(2):
        ...     optimizer.step()
        ...     schedule.step()
        ...     print(round(schedule.get_last_lr()[0], 4))
        0.5
        0.25
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.lr_lambdas: list[Callable[[int], float]] = _functions(optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser and plain functions; of callable objects, their attributes."""
        return _state_with_functions(super().state_dict(), self.lr_lambdas)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        _load_with_functions(self, state_dict)

    def get_lr(self) -> list[Any]:
        """base times f(epoch)."""
        self._warn_unless_in_step()
        return [base * f(self.last_epoch) for f, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(LRScheduler):
    """The rate times a function of the epoch, in each epoch.

    - `optimizer` (Optimizer): whose rates change, group by group
    - `lr_lambda` (function of an integer, or a list of them, one for each group): the factor
    - `last_epoch` (int, default -1): the epoch at which training goes on; -1 begins anew

    Example::

        >>> import ferro
        >>> optimizer = ferro.optim.SGD([ferro.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = ferro.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
        >>> for _ in range(2):
        ...     optimizer.step()
        ...     schedule.step()
        ...     print(round(schedule.get_last_lr()[0], 4))
        0.5
        0.25
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.lr_lambdas: list[Callable[[int], float]] = _functions(optimizer, lr_lambda)
        for f in self.lr_lambdas:
            if not callable(f):
                raise TypeError(f"lr_lambda should be a function, but got {type(f).__name__}")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser and plain functions; of callable objects, their attributes."""
        return _state_with_functions(super().state_dict(), self.lr_lambdas)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        _load_with_functions(self, state_dict)

    def get_lr(self) -> list[Any]:
        """lr times f(epoch)."""
        self._warn_unless_in_step()
        if self._is_initial:
            return self._rates()
        return [lr * f(self.last_epoch) for f, lr in zip(self.lr_lambdas, self._rates(), strict=True)]


def _functions(optimizer: Optimizer, lr_lambda: Any) -> list[Callable[[int], float]]:
    groups = len(optimizer.param_groups)
    if not isinstance(lr_lambda, (list, tuple)):
        return [lr_lambda] * groups
    if len(lr_lambda) != groups:
        raise ValueError(f"Expected {groups} lr_lambdas, but got {len(lr_lambda)}")
    return list(lr_lambda)


def _state_with_functions(state: dict[str, Any], functions: list[Any]) -> dict[str, Any]:
    plain = type(_functions)
    state["lr_lambdas"] = [None if isinstance(f, plain) else dict(f.__dict__) for f in functions]
    return state


def _load_with_functions(scheduler: Any, state_dict: dict[str, Any]) -> None:
    scheduler.__dict__.update({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
    for f, attributes in zip(scheduler.lr_lambdas, state_dict["lr_lambdas"], strict=True):
        if attributes is not None:
            f.__dict__.update(attributes)
