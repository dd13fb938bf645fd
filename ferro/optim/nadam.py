"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

from typing import Any

from ferro.ops.creation import ones
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
    move_by_quotient,
    new_step,
    number,
    plus,
)


class NAdam(PerParameterOptimizer):
    """Adam whose step looks ahead by a momentum mu that grows with the steps. (Dozat, 2016)

    mu_t = beta1 (1 - 0.96^(t momentum_decay) / 2).
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
        check(momentum_decay >= 0.0, "momentum_decay value", momentum_decay)
        switches = accepted(foreach=foreach, capturable=capturable, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": switches["foreach"],
            "capturable": switches["capturable"],
            "differentiable": switches["differentiable"],
        }
        super().__init__(params, defaults)

    @staticmethod
    def _update(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state["step"] = new_step()
            state["mu_product"] = ones(())
            state["exp_avg"] = zeros_like(param)
            state["exp_avg_sq"] = zeros_like(param)
        state["step"] += 1
        step = state["step"].item()
        lr, weight_decay, (beta1, beta2) = number(group["lr"], group), group["weight_decay"], group["betas"]
        if weight_decay != 0 and group["decoupled_weight_decay"]:
            param.mul_(1 - lr * weight_decay)
        else:
            grad = decayed(param, grad, weight_decay)
        mu, mu_next = (beta1 * (1.0 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (step, step + 1))
        state["mu_product"] *= mu
        # A recorded step has a derivative by the product of the momenta, too.
        product = state["mu_product"] if group["differentiable"] else state["mu_product"].item()
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        denominator = plus(square.div(1 - beta2**step).sqrt(), group["eps"], group)
        now, ahead = -lr * (1.0 - mu) / (1.0 - product), -lr * mu_next / (1.0 - product * mu_next)
        move_by_quotient(param, grad, denominator, now)
        move_by_quotient(param, mean, denominator, ahead)


def nadam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Any],
    exp_avg_sqs: list[Any],
    mu_products: list[Any],
    state_steps: list[Any],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
    momentum_decay: float,
    eps: float,
) -> None:
    """One step of NAdam for each parameter, in place, with its state given as lists: what `step` does."""
    switches = accepted(foreach=foreach, capturable=capturable, differentiable=differentiable)
    group = {
        "betas": (beta1, beta2),
        "lr": lr,
        "weight_decay": weight_decay,
        "momentum_decay": momentum_decay,
        "eps": eps,
        "decoupled_weight_decay": decoupled_weight_decay,
        "maximize": maximize,
        **switches,
    }
    states = {"step": state_steps, "mu_product": mu_products, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs}
    NAdam._each(params, grads, states, group)
