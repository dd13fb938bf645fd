"""Adamax: Adam with the largest recent gradient in place of the root of the mean square."""

from __future__ import annotations

from typing import Any

from ferro.ops.comparison import maximum
from ferro.ops.likes import zeros_like
from ferro.tensor import Tensor

from .optimizer import Params, PerParameterOptimizer, accepted, check, check_betas, check_lr, decayed, new_step


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

    def _update(self, param: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        state = self.state[param]
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
        param.addcdiv_(mean, largest, value=-float(group["lr"]) / correction)
