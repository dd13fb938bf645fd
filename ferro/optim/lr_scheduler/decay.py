"""Schedulers that only go down: steps, ramps, powers and the cosine."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler


class StepLR(LRScheduler):
    """The rate times gamma every step_size epochs.

    - `optimizer` (Optimizer): whose rates change, group by group
    - `step_size` (int): how many epochs
    - `gamma` (float, default 0.1): the factor
    - `last_epoch` (int, default -1): the epoch at which training goes on; -1 begins anew

    `step()` is called after each epoch.

    Example::

        >>> import ferro
        >>> optimizer = ferro.optim.SGD([ferro.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = ferro.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
        >>> for _ in range(4):
        ...     optimizer.step()
        ...     schedule.step()
        ...     print(round(schedule.get_last_lr()[0], 4))
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
    """The rate times gamma at each of the given epochs.

    - `optimizer` (Optimizer): whose rates change, group by group
    - `milestones` (integers): the epochs
    - `gamma` (float, default 0.1): the factor
    - `last_epoch` (int, default -1): the epoch at which training goes on; -1 begins anew

    `step()` is called after each epoch.

    Example::

        >>> import ferro
        >>> optimizer = ferro.optim.SGD([ferro.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = ferro.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     schedule.step()
        ...     print(round(schedule.get_last_lr()[0], 4))
        0.5
        0.5
        0.25
    """

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
    """The rate times factor until epoch total_iters.

    - `optimizer` (Optimizer): whose rates change, group by group
    - `factor` (float, default 1/3): from 0 to 1, else ValueError
    - `total_iters` (int, default 5): the epoch at which the rate is back
    - `last_epoch` (int, default -1): the epoch at which training goes on; -1 begins anew

    `step()` is called after each epoch.

    Example::

        >>> import ferro
        >>> optimizer = ferro.optim.SGD([ferro.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = ferro.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
        >>> for _ in range(2):
        ...     optimizer.step()
        ...     schedule.step()
        ...     print(round(schedule.get_last_lr()[0], 4))
        0.5
        1.0
    """

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
    """The rate times a factor that goes from start_factor to end_factor in total_iters epochs: a warm-up.

    - `optimizer` (Optimizer): whose rates change, group by group
    - `start_factor` (float, default 1/3): above 0 and at most 1, else ValueError
    - `end_factor` (float, default 1.0): from 0 to 1, else ValueError
    - `total_iters` (int, default 5): how many epochs
    - `last_epoch` (int, default -1): the epoch at which training goes on; -1 begins anew

    `step()` is called after each epoch.

    Example::

        >>> import ferro
        >>> optimizer = ferro.optim.SGD([ferro.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = ferro.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     schedule.step()
        ...     print(round(schedule.get_last_lr()[0], 4))
        0.75
        1.0
        1.0
    """

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
    """The rate times gamma in each epoch.

    - `optimizer` (Optimizer): whose rates change, group by group
    - `gamma` (float): the factor
    - `last_epoch` (int, default -1): the epoch at which training goes on; -1 begins anew

    Example::

        >>> import ferro
        >>> optimizer = ferro.optim.SGD([ferro.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = ferro.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> for _ in range(2):
        ...     optimizer.step()
        ...     schedule.step()
        ...     print(round(schedule.get_last_lr()[0], 4))
        0.5
        0.25
    """

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
    """The initial rate times (1 - epoch / total_iters)^power, down to 0.

    - `optimizer` (Optimizer): whose rates change, group by group
    - `total_iters` (int, default 5): how many epochs
    - `power` (float, default 1.0): the exponent
    - `last_epoch` (int, default -1): the epoch at which training goes on; -1 begins anew

    `step()` is called after each epoch.

    Example::

        >>> import ferro
        >>> optimizer = ferro.optim.SGD([ferro.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = ferro.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4, power=2.0)
        >>> for _ in range(4):
        ...     optimizer.step()
        ...     schedule.step()
        ...     print(round(schedule.get_last_lr()[0], 4))
        0.5625
        0.25
        0.0625
        0.0
    """

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
    """Half a cosine from the initial rate at epoch 0 to eta_min at T_max, and back again.

    - `optimizer` (Optimizer): whose rates change, group by group
    - `T_max` (int): the epochs of half a cosine
    - `eta_min` (float, default 0.0): the smallest rate
    - `last_epoch` (int, default -1): the epoch at which training goes on; -1 begins anew

    `step()` is called after each epoch. Source: Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm
    Restarts, 2017, without the restarts.

    Example::

        >>> import ferro
        >>> optimizer = ferro.optim.SGD([ferro.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = ferro.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
        >>> for _ in range(2):
        ...     optimizer.step()
        ...     schedule.step()
        ...     print(round(schedule.get_last_lr()[0], 4))
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
