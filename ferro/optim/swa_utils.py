"""Averages of a model over its training: SWA (equal weights), EMA (weights that decay), and what goes with them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from ferro.autograd.grad_mode import no_grad
from ferro.nn.modules.batchnorm import _BatchNorm
from ferro.nn.modules.module import Module
from ferro.ops.data import tensor
from ferro.tensor import Tensor

from .lr_scheduler.base import LRScheduler, checked_optimizer, per_group
from .optimizer import Optimizer

__all__ = ["SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
           "update_bn"]  # fmt: skip


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Tensor]:
    """An `avg_fn` of exponential moving averages: decay average + (1 - decay) parameter."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[..., Tensor]:
    """An `avg_fn` of equal weights: average + (parameter - average) / (n + 1)."""

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """A `multi_avg_fn` of exponential moving averages: changes a list of averages in place."""
    _check_decay(decay)
    average = get_ema_avg_fn(decay)

    @no_grad()
    def ema_update(ema_param_list: Iterable[Tensor], current_param_list: Iterable[Tensor], num_averaged: Any) -> None:
        for mean, param in zip(ema_param_list, current_param_list, strict=True):
            if mean.is_floating_point() or mean.is_complex():
                mean.lerp_(param, 1 - decay)
            else:
                mean.copy_(average(mean, param, num_averaged))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """A `multi_avg_fn` of equal weights: changes a list of averages in place."""
    average = get_swa_avg_fn()

    @no_grad()
    def swa_update(
        averaged_param_list: Iterable[Tensor], current_param_list: Iterable[Tensor], num_averaged: Any
    ) -> None:
        for mean, param in zip(averaged_param_list, current_param_list, strict=True):
            mean.copy_(average(mean, param, num_averaged))

    return swa_update


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


class AveragedModel(Module):
    """A copy of a model whose parameters are averages over the calls of `update_parameters`.

    - `model` (Module): copied
    - `device` (default None): of the copy
    - `avg_fn` (function, default None): `avg_fn(average, parameter, n)` returns a new average
    - `multi_avg_fn` (function, default None): `multi_avg_fn(averages, parameters, n)` changes lists of them; without
      either function all n have equal weights, both are an AssertionError
    - `use_buffers` (bool, default False): True averages buffers too, False copies them

    Source: Izmailov, Podoprikhin, Garipov, Vetrov and Wilson, Averaging Weights Leads to Wider Optima and Better
    Generalization, 2018.

    Example::

        >>> import ferro
        >>> from ferro.optim.swa_utils import AveragedModel
        >>> model = ferro.nn.Linear(1, 1, bias=False)
        >>> averaged = AveragedModel(model)
        >>> for value in (1.0, 2.0, 6.0):
        ...     _ = ferro.nn.init.constant_(model.weight, value)
        ...     averaged.update_parameters(model)
        >>> averaged.module.weight.item()
        3.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[..., Tensor] | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model computes."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the present parameters of the model into the average."""

        def averaged(m: Module) -> list[Tensor]:
            found = chain(m.parameters(), m.buffers()) if self.use_buffers else m.parameters()
            return [t.detach() for t in found]

        means, params = averaged(self.module), averaged(model)
        if self.n_averaged == 0:
            for mean, param in zip(means, params, strict=True):
                mean.copy_(param)
        elif self.avg_fn is not None:
            for mean, param in zip(means, params, strict=True):
                mean.copy_(self.avg_fn(mean, param, self.n_averaged))
        elif means:
            # As in PyTorch, one call for each dtype.
            update = self.multi_avg_fn or get_swa_multi_avg_fn()
            for dtype in dict.fromkeys(t.dtype for t in means):
                of_dtype = [i for i, t in enumerate(means) if t.dtype == dtype]
                update([means[i] for i in of_dtype], [params[i] for i in of_dtype], self.n_averaged)
        if not self.use_buffers:
            for mean, buffer in zip(self.module.buffers(), model.buffers(), strict=True):
                mean.detach().copy_(buffer.detach())
        self.n_averaged += 1


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Sets the running statistics of batch normalisation to those of one pass over `loader`.

    A batch is a tensor, or a list or tuple that begins with one; `model` is called with it, in training mode.
    """
    momenta = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.reset_running_stats()
        module.momentum = None
    try:
        for batch in loader:
            x = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(x if device is None else x.to(device))
    finally:
        for module, momentum in momenta.items():
            module.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """Goes from the present rates to swa_lr within anneal_epochs epochs, and stays there.

    - `optimizer` (Optimizer): whose rates change, group by group
    - `swa_lr` (float or one for each group): the rate to go to
    - `anneal_epochs` (int, default 10): how many epochs it takes; ValueError for negative ones
    - `anneal_strategy` (str, default 'cos'): "cos" or "linear", else ValueError
    - `last_epoch` (int, default -1): the epoch at which training goes on; -1 begins anew

    `step()` is called after each epoch.

    Example::

        >>> import ferro
        >>> from ferro.optim.swa_utils import SWALR
        >>> optimizer = ferro.optim.SGD([ferro.zeros(1, requires_grad=True)], lr=1.0)
        >>> schedule = SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     schedule.step()
        ...     print(round(schedule.get_last_lr()[0], 4))
        0.75
        0.5
        0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        checked_optimizer(optimizer)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        for group, rate in zip(optimizer.param_groups, per_group("swa_lr", optimizer, swa_lr), strict=True):
            group["swa_lr"] = rate
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, t: float) -> float:
        """The share of `swa_lr` when the part t of the epochs is over."""
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    def get_lr(self) -> list[Any]:
        """The next rates, from the present ones."""
        self._warn_unless_in_step()
        step = max(1, self._step_count - 1) if self.anneal_epochs == 0 else self._step_count - 1
        before, now = (self.anneal_func(max(0, min(1, n / max(1, self.anneal_epochs)))) for n in (step - 1, step))
        rates = []
        for group in self.optimizer.param_groups:
            goal, lr = group["swa_lr"], group["lr"]
            start = goal if before == 1 else (lr - before * goal) / (1 - before)
            rates.append(goal * now + start * (1 - now))
        return rates
