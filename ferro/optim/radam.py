"""RAdam: Adam that holds back while its estimate of the variance is poor."""

from __future__ import annotations

from typing import Any

from ferro.ops.likes import zeros_like
from ferro.tensor import Tensor

from .optimizer import (
    Params,
    PerParameterOptimizer,
    accepted,
    check,
    check_betas,
    check_lr,
    decayed,
    new_step,
    number,
    plus,
)


class RAdam(PerParameterOptimizer):
    """Adam whose step is rectified by the variance of 1 / sqrt(v̂), and plain momentum while that is infinite.

    (Liu et al., "On the variance of the adaptive learning rate and beyond", 2020)
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check(eps >= 0.0, "epsilon value", eps)
        check_betas(betas)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        switches = accepted(foreach=foreach, capturable=capturable, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": switches["foreach"],
            "capturable": switches["capturable"],
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": switches["differentiable"],
        }
        super().__init__(params, defaults)

    @staticmethod
    def _update(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state["step"] = new_step()
            state["exp_avg"] = zeros_like(param)
            state["exp_avg_sq"] = zeros_like(param)
        state["step"] += 1
        step = state["step"].item()
        lr, weight_decay, (beta1, beta2) = number(group["lr"], group), group["weight_decay"], group["betas"]
        if weight_decay != 0 and group["decoupled_weight_decay"]:
            param.mul_(1 - lr * weight_decay)
        else:
            grad = decayed(param, grad, weight_decay)
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        correction = 1 - beta2**step
        move = mean / (1 - beta1**step) * lr
        rho_inf = 2 / (1 - beta2) - 1
        rho = rho_inf - 2 * step * beta2**step / correction
        if rho > 5.0:
            rectified = ((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)) ** 0.5
            move = move * (correction**0.5 * rectified) / plus(square.sqrt(), group["eps"], group)
        param.sub_(move)


def radam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Any],
    exp_avg_sqs: list[Any],
    state_steps: list[Any],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
) -> None:
    """One step of RAdam for each parameter, in place, with its state given as lists: what `step` does."""
    switches = accepted(foreach=foreach, capturable=capturable, differentiable=differentiable)
    group = {
        "betas": (beta1, beta2),
        "lr": lr,
        "weight_decay": weight_decay,
        "eps": eps,
        "decoupled_weight_decay": decoupled_weight_decay,
        "maximize": maximize,
        **switches,
    }
    states = {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs}
    RAdam._each(params, grads, states, group)
