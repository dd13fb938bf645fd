"""Schedulers made of schedulers: one after the other, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, checked_optimizer, set_value


class _Composed(LRScheduler):
    """What both share: their members' state is saved with their own."""

    _schedulers: list[Any]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser; of the members, their state."""
        state = super().state_dict()
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


def _check_members(schedulers: Sequence[Any], optimizer: Any, name: str) -> None:
    if not schedulers:
        raise ValueError(f"{name} expects at least one scheduler to be chained, but got no scheduler.")
    for i, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
        if scheduler.optimizer is not optimizer:
            raise ValueError(
                f"{name} expects all schedulers to belong to the same optimizer, but got index {i} of another"
            )


class SequentialLR(_Composed):
    """Each scheduler in turn; the next one begins, from its own epoch 0, at each milestone.

    - `optimizer` (Optimizer): whose rates change, group by group
    - `schedulers` (list): of the same optimiser, else ValueError
    - `milestones` (list of integers): the epochs, one fewer than schedulers, else ValueError
    - `last_epoch` (int, default -1): the epoch at which training goes on; -1 begins anew

    `step()` is called after each epoch.

    Example::

        >>> import ferro
        >>> from ferro.optim import lr_scheduler
        >>> optimizer = ferro.optim.SGD([ferro.zeros(1, requires_grad=True)], lr=1.0)
        >>> first = lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
        >>> second = lr_scheduler.ExponentialLR(optimizer, gamma=0.1)
        >>> schedule = lr_scheduler.SequentialLR(optimizer, [first, second], milestones=[2])
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     schedule.step()
        ...     print(round(schedule.get_last_lr()[0], 4))
        0.5
        1.0
        0.1
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        _check_members(schedulers, checked_optimizer(optimizer), "SequentialLR")
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # When they were made, all members took their first step; only the first should have.
        _back_to_initial_rates(optimizer)
        for scheduler in schedulers:
            _undo(scheduler)
        self._initial_step()

    def _initial_step(self) -> None:
        self._schedulers[0]._initial_step()
        self._last_lr = self._schedulers[0].get_last_lr()

    def step(self) -> None:
        """Go to the next epoch."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler._advance(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _undo(scheduler: Any) -> None:
    """Take back the step that a scheduler, or every member of one, took when it was made."""
    for member in getattr(scheduler, "_schedulers", ()):
        _undo(member)
    if not hasattr(scheduler, "_schedulers"):
        scheduler.last_epoch -= 1


def _back_to_initial_rates(optimizer: Optimizer) -> None:
    for group in optimizer.param_groups:
        set_value(group, "lr", group["initial_lr"])


class ChainedScheduler(_Composed):
    """Several schedulers at once: each changes the rate that the others left.

    - `schedulers` (list): of one optimiser, else ValueError
    - `optimizer` (Optimizer, default None): whose rates change; None takes the first scheduler's

    Example::

        >>> import ferro
        >>> from ferro.optim import lr_scheduler
        >>> optimizer = ferro.optim.SGD([ferro.zeros(1, requires_grad=True)], lr=1.0)
        >>> parts = [lr_scheduler.ConstantLR(optimizer, factor=0.5), lr_scheduler.ExponentialLR(optimizer, gamma=0.5)]
        >>> schedule = lr_scheduler.ChainedScheduler(parts)
        >>> optimizer.step()
        >>> schedule.step()
        >>> schedule.get_last_lr()
        [0.25]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        optimizer = optimizer or (schedulers[0].optimizer if schedulers else None)
        _check_members(schedulers, optimizer, "ChainedScheduler")
        self._schedulers = list(schedulers)
        self.optimizer = checked_optimizer(optimizer)
        self._last_lr = self._rates()

    def _initial_step(self) -> None:
        for scheduler in self._schedulers:
            scheduler._initial_step()
        self._last_lr = self._rates()

    def _advance(self, epoch: float | None = None) -> None:
        """Begin again: the turn of this chain in a SequentialLR has come."""
        _back_to_initial_rates(self.optimizer)
        for scheduler in self._schedulers:
            scheduler.last_epoch = -1
        self._initial_step()

    def step(self) -> None:
        """Step every scheduler."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._rates()
