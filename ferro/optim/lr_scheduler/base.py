"""LRScheduler: the base of schedulers that set the learning rate from the number of steps taken."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ferro.core.captures import CAPTURES, capturing
from ferro.tensor import Tensor

from ..optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. "
    "Please use `scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the "
    "closed form is used instead of the new chainable form, where available. Please open an issue if you are unable to "
    "replicate your use case: https://github.com/pytorch/pytorch/issues/new/choose."
)
SEE_MORE = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def _told(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step that is one node of a graph that is captured."""

    @functools.wraps(step)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if CAPTURES and (capture := capturing()) is not None:
            return capture.schedules(self, step, (*args, *kwargs.values()))
        return step(self, *args, **kwargs)

    return run


class LRScheduler:
    """Sets group["lr"] of every group after each `step`; a subclass says to what in `get_lr`.

    `get_lr` computes the next rate from the current one wherever it can, so that several schedulers can act on one
    optimiser; `_get_closed_form_lr`, where there is one, computes it from the number of the epoch alone.
    """

    last_epoch: int
    base_lrs: list[Any]
    _get_lr_called_within_step: bool = False
    _is_initial: bool = (
        False  # the first rates are being set: those of the groups, which may be those of a run that goes on
    )

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = checked_optimizer(optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                lr = group["lr"]
                group.setdefault("initial_lr", lr.clone() if isinstance(lr, Tensor) else lr)
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    f"last_epoch >= 0. This typically happens when last_epoch={last_epoch} is given before the "
                    "optimizer's state is loaded."
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the rates of the first epoch."""
        self._step_count = 0
        self.optimizer._step_seen = vars(self.optimizer).get("step")  # a step of the object's own, given before
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates that the last step set, one per group."""
        return self._last_lr

    def get_lr(self) -> Sequence[Any]:
        """The rates of epoch `last_epoch`, one per group."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr()")

    def _next_rates(self) -> Sequence[Any]:
        """What `get_lr` says, asked by a step."""
        self._get_lr_called_within_step = True
        try:
            return self.get_lr()
        finally:
            self._get_lr_called_within_step = False

    def _warn_unless_in_step(self) -> None:
        """`get_lr` computes the next rates from the current ones: between two steps it is not what one wants to know."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.", stacklevel=3
            )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let every subclass's own `step` be told to a graph that is captured."""
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _told(cls.__dict__["step"])

    @_told
    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch (or, out of favour, to a given one) and set its rates."""
        if self._step_count == 1:
            self._check_order()
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, stacklevel=2)
        self._advance(epoch)

    def _check_order(self) -> None:
        """Warns if the optimiser has not made a step yet, or nobody can tell."""
        if vars(self.optimizer).get("step") is not getattr(self.optimizer, "_step_seen", None):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                f"Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. {SEE_MORE}",
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should "
                "call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`. Failure to do this will "
                f"result in PyTorch skipping the first value of the learning rate schedule. {SEE_MORE}",
                stacklevel=3,
            )

    def _advance(self, epoch: float | None = None) -> None:
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            rates = self._next_rates()
        else:
            self.last_epoch = epoch  # type: ignore[assignment]  # a fraction is allowed for some, as in PyTorch
            closed = getattr(self, "_get_closed_form_lr", None)
            rates = self._next_rates() if closed is None else closed()
        self._set(rates)

    def _set(self, rates: Sequence[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_value(group, "lr", rate)
        self._last_lr = [
            float(g["lr"]) if isinstance(g["lr"], Tensor) else g["lr"] for g in self.optimizer.param_groups
        ]

    def _rates(self) -> list[Any]:
        return [group["lr"] for group in self.optimizer.param_groups]


def checked_optimizer(optimizer: Any) -> Optimizer:
    """The optimiser, if it is one."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


def set_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Set an option of a group; one that is kept in a tensor changes in place."""
    if isinstance(group[key], Tensor):
        group[key].fill_(float(value))
    else:
        group[key] = value


def per_group(name: str, optimizer: Optimizer, values: Any) -> list[Any]:
    """One value for all groups or one for each, as a list."""
    groups = len(optimizer.param_groups)
    if not isinstance(values, (list, tuple)):
        return [values] * groups
    if len(values) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(values)} values, param_groups has {groups}."
        )
    return list(values)


class _LRScheduler(LRScheduler):
    """The name that `LRScheduler` had: programs still derive their schedulers from it."""
