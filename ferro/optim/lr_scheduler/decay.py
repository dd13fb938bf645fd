"""Schedulers that only go down (or as a function of one's own says): steps, ramps, powers and the cosine."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler


class LambdaLR(LRScheduler):
    """The initial rate times a function of the epoch (one for all groups, or one for each)."""

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
    """The rate times a function of the epoch, at every step."""

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


class StepLR(LRScheduler):
    """The rate times gamma every step_size epochs.

    Example::

        >>> import ferro
        >>> optimizer = ferro.optim.SGD([ferro.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = ferro.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
        >>> for epoch in range(4):
        ...     optimizer.step()
        ...     schedule.step()
        ...     print(round(schedule.get_last_lr()[0], 3))
        1.0
        0.1
        0.1
        0.01
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """lr, times gamma if the epoch is a multiple of step_size."""
        self._warn_unless_in_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._rates()
        return [lr * self.gamma for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rate times gamma at each of the given epochs."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """lr, times gamma for every milestone at this epoch."""
        self._warn_unless_in_step()
        if self.last_epoch not in self.milestones:
            return self._rates()
        return [lr * self.gamma ** self.milestones[self.last_epoch] for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rate times factor until epoch total_iters."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError(f"Constant multiplicative factor expected to be between 0 and 1, got {factor}.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """lr, times factor at the start and over factor at the end."""
        self._warn_unless_in_step()
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._rates()]
        if self.last_epoch != self.total_iters:
            return self._rates()
        return [lr * (1.0 / self.factor) for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = 1.0 if self.last_epoch >= self.total_iters else self.factor
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """The rate times a factor that goes from start_factor to end_factor in total_iters epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal to 1, "
                f"got {start_factor}."
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError(f"Ending multiplicative factor expected to be between 0 and 1, got {end_factor}.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """lr times the quotient of this epoch's factor and the last one's."""
        self._warn_unless_in_step()
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self._rates()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        gain = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * gain
        return [lr * (1.0 + gain / before) for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (self.start_factor + (self.end_factor - self.start_factor) * done) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """The rate times gamma every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """lr times gamma."""
        self._warn_unless_in_step()
        if self._is_initial:
            return self._rates()
        return [lr * self.gamma for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The initial rate times (1 - epoch / total_iters)^power."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """lr times the quotient of this epoch's factor and the last one's."""
        self._warn_unless_in_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        left, before = (1.0 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1))
        return [lr * (left / before) ** self.power for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial rate at epoch 0 to eta_min at T_max, and back again. (SGDR, without restarts)

    Example::

        >>> import ferro
        >>> optimizer = ferro.optim.SGD([ferro.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = ferro.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
        >>> for epoch in range(2):
        ...     optimizer.step()
        ...     schedule.step()
        ...     print(round(schedule.get_last_lr()[0], 3))
        0.5
        0.0
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """lr - eta_min times the quotient of this epoch's factor and the last one's."""
        self._warn_unless_in_step()
        if self._is_initial:
            return self._rates()
        step = math.pi / self.T_max
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # the last factor was 0
            rise = (1 - math.cos(step)) / 2
            pairs = zip(self._rates(), self.base_lrs, strict=True)
            return [lr + (base - self.eta_min) * rise for lr, base in pairs]
        ratio = (1 + math.cos(step * self.last_epoch)) / (1 + math.cos(step * (self.last_epoch - 1)))
        return [ratio * (lr - self.eta_min) + self.eta_min for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]
