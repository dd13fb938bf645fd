"""RMSprop: steps divided by a running root mean square of the gradient."""

from __future__ import annotations

from typing import Any

from ferro.ops.likes import zeros_like
from ferro.tensor import Tensor

from .optimizer import (
    Params,
    PerParameterOptimizer,
    accepted,
    check,
    check_lr,
    decayed,
    move,
    move_by_quotient,
    new_step,
    number,
    plus,
)


class RMSprop(PerParameterOptimizer):
    """p ← p - lr g / (sqrt(v) + eps), v the running mean of g², less the squared mean of g if centered."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check(eps >= 0.0, "epsilon value", eps)
        check(momentum >= 0.0, "momentum value", momentum)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        check(alpha >= 0.0, "alpha value", alpha)
        switches = accepted(foreach=foreach, capturable=capturable, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": switches["capturable"],
            "foreach": switches["foreach"],
            "maximize": maximize,
            "differentiable": switches["differentiable"],
        }
        super().__init__(params, defaults)

    @staticmethod
    def _update(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state["step"] = new_step()
            state["square_avg"] = zeros_like(param)
            if group["momentum"] > 0:
                state["momentum_buffer"] = zeros_like(param)
            if group["centered"]:
                state["grad_avg"] = zeros_like(param)
        state["step"] += 1
        lr, alpha = number(group["lr"], group), group["alpha"]
        grad = decayed(param, grad, group["weight_decay"])
        square = state["square_avg"].mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            mean = state["grad_avg"].lerp_(grad, 1 - alpha)
            square = square.addcmul(mean, mean, value=-1)
        root = plus(square.sqrt(), group["eps"], group)
        if group["momentum"] > 0:
            buffer = state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, root)
            move(param, buffer, -lr)
        else:
            move_by_quotient(param, grad, root, -lr)


def rmsprop(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Any],
    grad_avgs: list[Any],
    momentum_buffer_list: list[Any],
    state_steps: list[Any],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """One step of RMSprop for each parameter, in place, with its state given as lists: what `step` does."""
    switches = accepted(foreach=foreach, capturable=capturable, differentiable=differentiable)
    group = {
        "lr": lr,
        "alpha": alpha,
        "eps": eps,
        "weight_decay": weight_decay,
        "momentum": momentum,
        "centered": centered,
        "maximize": maximize,
        **switches,
    }
    states = {
        "step": state_steps,
        "square_avg": square_avgs,
        "grad_avg": grad_avgs,
        "momentum_buffer": momentum_buffer_list,
    }
    RMSprop._each(params, grads, states, group)
