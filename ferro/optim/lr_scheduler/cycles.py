"""Schedulers that go up and down: warm restarts, cycles, and the one cycle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, checked_optimizer, per_group, set_value


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the initial rate to eta_min in T_0 epochs, then again, each time T_mult times as long.

    - `optimizer` (Optimizer): whose rates change, group by group
    - `T_0` (int): the epochs to the first restart; ValueError unless it is a positive integer
    - `T_mult` (int, default 1): an integer from 1 on, else ValueError
    - `eta_min` (float, default 0.0): the smallest rate
    - `last_epoch` (int, default -1): the epoch at which training goes on; -1 begins anew

    `step()` is called after each epoch, or with a fraction of one after each batch. Source: Loshchilov and Hutter,
    SGDR: Stochastic Gradient Descent with Warm Restarts, 2017.

    Example::

        >>> import ferro
        >>> optimizer = ferro.optim.SGD([ferro.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = ferro.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
        >>> for _ in range(4):
        ...     optimizer.step()
        ...     schedule.step()
        ...     print(round(schedule.get_last_lr()[0], 4))
        0.5
        1.0
        0.5
        1.0
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The cosine at T_cur epochs after the last restart."""
        self._warn_unless_in_step()
        factor = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch or to a given one, which may be a fraction."""
        self._advance(0 if epoch is None and self.last_epoch < 0 else epoch)

    def _advance(self, epoch: float | None = None) -> None:
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        else:
            self._place(epoch)
        self.last_epoch = math.floor(epoch)
        self._set(self._next_rates())

    def _place(self, epoch: float) -> None:
        """Find the period that an epoch lies in."""
        self.T_i, self.T_cur = self.T_0, epoch
        if epoch < self.T_0:
            return
        if self.T_mult == 1:
            self.T_cur = epoch % self.T_0
            return
        restarts = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
        self.T_cur = epoch - self.T_0 * (self.T_mult**restarts - 1) / (self.T_mult - 1)
        self.T_i = self.T_0 * self.T_mult**restarts


# -------------------------------------------------------------------- momentum, which moves against the rate


def _momentum(group: dict[str, Any]) -> Any:
    return group["betas"][0] if "betas" in group else group["momentum"]


def _set_momentum(group: dict[str, Any], value: Any) -> None:
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def _check_momentum(optimizer: Optimizer) -> None:
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")


class CyclicLR(LRScheduler):
    """The rate goes from base_lr to max_lr in step_size_up batches and back in step_size_down, over and over.

    - `optimizer` (Optimizer): whose rates change, group by group
    - `base_lr`, `max_lr` (float or one for each group): the smallest and the largest rate
    - `step_size_up` (int, default 2000): the batches up
    - `step_size_down` (int, default None): the batches down; None is as many as up
    - `mode` (str, default 'triangular'): "triangular2" halves the height every cycle, "exp_range" multiplies it by
      gamma every batch; anything else is a ValueError unless scale_fn is given
    - `gamma` (float, default 1.0): see above
    - `scale_fn` (function of a number, default None): gives a height of one's own, in place of mode
    - `scale_mode` (str, default 'cycle'): scale_fn takes the number of the cycle, or with "iterations" of the batch
    - `cycle_momentum` (bool, default True): the momentum (or beta1) goes the opposite way; ValueError for an optimiser
      without
    - `base_momentum`, `max_momentum` (float or one for each group, default 0.8 and 0.9): the smallest and the largest
      momentum
    - `last_epoch` (int, default -1): the batch at which training goes on; -1 begins anew

    `step()` is called after each batch. Source: Smith, Cyclical Learning Rates for Training Neural Networks, 2017.

    Example::

        >>> import ferro
        >>> optimizer = ferro.optim.SGD([ferro.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = ferro.optim.lr_scheduler.CyclicLR(optimizer, 0.1, 0.5, step_size_up=2, cycle_momentum=False)
        >>> for _ in range(4):
        ...     optimizer.step()
        ...     schedule.step()
        ...     print(round(schedule.get_last_lr()[0], 4))
        0.3
        0.5
        0.3
        0.1
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:
        checked_optimizer(optimizer)
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs, strict=True):
                set_value(group, "lr", lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        down = float(step_size_up if step_size_down is None else step_size_down)
        self.total_size = float(step_size_up) + down
        self.step_ratio = float(step_size_up) / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        # exp_range counts batches; the other two count cycles.
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            _check_momentum(optimizer)
            self.base_momentums = per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = per_group("max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                for group, top in zip(optimizer.param_groups, self.max_momentums, strict=True):
                    _set_momentum(group, top)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The height of the cycle (or at the iteration) x, between 0 and 1."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / (2.0 ** (x - 1)) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[Any]:
        """The rate at batch `last_epoch`; sets the momentum too, which is low where the rate is high."""
        self._warn_unless_in_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            ranges = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in ranges:
                _set_momentum(group, high - (high - low) * height * scale)
        return [low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser and a scale function that is a plain function; of an object, its attributes."""
        state = super().state_dict()
        custom = state.pop("_scale_fn_custom")
        plain = custom is None or isinstance(custom, type(_momentum))
        state["_scale_fn_custom"] = None if plain else dict(custom.__dict__)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        attributes = state_dict.get("_scale_fn_custom")
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        if attributes is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(attributes)


class OneCycleLR(LRScheduler):
    """One cycle over all of training: up to max_lr, then far below the start.

    - `optimizer` (Optimizer): whose rates change, group by group
    - `max_lr` (float or one for each group): the largest rate
    - `total_steps` (int, default None): the number of batches; or
    - `epochs`, `steps_per_epoch` (int, default None): its factors; ValueError if neither is given
    - `pct_start` (float, default 0.3): the share of batches up, from 0 to 1, else ValueError
    - `anneal_strategy` (str, default 'cos'): "cos" or "linear", else ValueError
    - `cycle_momentum` (bool, default True): the momentum (or beta1) goes the opposite way; ValueError for an optimiser
      without
    - `base_momentum`, `max_momentum` (float or one for each group, default 0.85 and 0.95): the smallest and the largest
      momentum
    - `div_factor` (float, default 25.0): the rate starts at max_lr / div_factor
    - `final_div_factor` (float, default 1e4): and ends at that over final_div_factor
    - `three_phase` (bool, default False): True comes back to the start as it went up before it falls further
    - `last_epoch` (int, default -1): the batch at which training goes on; -1 begins anew

    `step()` is called after each batch; one too many is a ValueError. Source: Smith and Topin, Super-Convergence: Very
    Fast Training of Neural Networks Using Large Learning Rates, 2018.

    Example::

        >>> import ferro
        >>> optimizer = ferro.optim.SGD([ferro.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = ferro.optim.lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=5, pct_start=0.4, cycle_momentum=False)
        >>> for _ in range(4):
        ...     optimizer.step()
        ...     schedule.step()
        ...     print(round(schedule.get_last_lr()[0], 4))
        1.0
        0.75
        0.25
        0.0
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        checked_optimizer(optimizer)
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        max_lrs = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, top in zip(optimizer.param_groups, max_lrs, strict=True):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            _check_momentum(optimizer)
            if last_epoch == -1:
                lows = per_group("base_momentum", optimizer, base_momentum)
                highs = per_group("max_momentum", optimizer, max_momentum)
                for group, low, high in zip(optimizer.param_groups, lows, highs, strict=True):
                    _set_momentum(group, high)
                    group["max_momentum"] = high
                    group["base_momentum"] = low
        super().__init__(optimizer, last_epoch)

    def _anneal(self, start: float, end: float, part: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)

    def get_lr(self) -> list[Any]:
        """The rate at batch `last_epoch`; sets the momentum too, which is low where the rate is high."""
        self._warn_unless_in_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        begin, phases = 0.0, iter(self._schedule_phases)
        phase = next(phases)
        while step > phase["end_step"] and phase is not self._schedule_phases[-1]:
            begin, phase = phase["end_step"], next(phases)
        part = (step - begin) / (phase["end_step"] - begin)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                _set_momentum(group, self._anneal(*ends, part))
        return rates


def _total_steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total_steps is not None:
        if total_steps <= 0 or not isinstance(total_steps, int):
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        return total_steps
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    if not isinstance(epochs, int) or epochs <= 0:
        raise ValueError(f"Expected positive integer epochs, but got {epochs}")
    if not isinstance(steps_per_epoch, int) or steps_per_epoch <= 0:
        raise ValueError(f"Expected positive integer steps_per_epoch, but got {steps_per_epoch}")
    return epochs * steps_per_epoch


def _phases(total_steps: int, pct_start: float, three_phase: bool) -> list[dict[str, Any]]:
    """The phases: where each ends and the names of the options between which it moves."""

    def phase(end: float, lrs: tuple[str, str], momentums: tuple[str, str]) -> dict[str, Any]:
        return {
            "end_step": end,
            "start_lr": lrs[0],
            "end_lr": lrs[1],
            "start_momentum": momentums[0],
            "end_momentum": momentums[1],
        }

    peak = float(pct_start * total_steps) - 1
    up = phase(peak, ("initial_lr", "max_lr"), ("max_momentum", "base_momentum"))
    down = ("base_momentum", "max_momentum")
    if not three_phase:
        return [up, phase(total_steps - 1, ("max_lr", "min_lr"), down)]
    back = float(2 * pct_start * total_steps) - 2
    return [
        up,
        phase(back, ("max_lr", "initial_lr"), down),
        phase(total_steps - 1, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum")),
    ]
