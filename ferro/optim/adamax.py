"""Adamax: Adam with the largest recent gradient in place of the root of the mean square."""

from __future__ import annotations

from typing import Any

from ferro.ops.comparison import maximum
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
)


class Adamax(PerParameterOptimizer):
    """p ← p - lr m̂ / u, m the running mean of g, u ← max(beta2 u, |g| + eps). (Kingma and Ba, 2015)"""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check(eps >= 0.0, "epsilon value", eps)
        check_betas(betas)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        switches = accepted(foreach=foreach, differentiable=differentiable, capturable=capturable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": switches["foreach"],
            "maximize": maximize,
            "differentiable": switches["differentiable"],
            "capturable": switches["capturable"],
        }
        super().__init__(params, defaults)

    @staticmethod
    def _update(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state["step"] = new_step()
            state["exp_avg"] = zeros_like(param)
            state["exp_inf"] = zeros_like(param)
        state["step"] += 1
        beta1, beta2 = group["betas"]
        grad = decayed(param, grad, group["weight_decay"])
        mean, largest = state["exp_avg"], state["exp_inf"]
        mean.lerp_(grad, 1 - beta1)
        largest.copy_(maximum(largest * beta2, grad.abs().add_(group["eps"])))
        correction = 1 - beta1 ** state["step"].item()
        move_by_quotient(param, mean, largest, -number(group["lr"], group) / correction)


def adamax(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Any],
    exp_infs: list[Any],
    state_steps: list[Any],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
) -> None:
    """One step of Adamax for each parameter, in place, with its state given as lists: what `step` does."""
    switches = accepted(foreach=foreach, capturable=capturable, differentiable=differentiable)
    group = {
        "eps": eps,
        "betas": (beta1, beta2),
        "lr": lr,
        "weight_decay": weight_decay,
        "maximize": maximize,
        **switches,
    }
    states = {"step": state_steps, "exp_avg": exp_avgs, "exp_inf": exp_infs}
    Adamax._each(params, grads, states, group)
