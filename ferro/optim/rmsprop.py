"""RMSprop: steps divided by a running root mean square of the gradient."""

from __future__ import annotations

from typing import Any

from ferro.ops.likes import zeros_like
from ferro.tensor import Tensor

from .optimizer import Params, PerParameterOptimizer, accepted, check, check_lr, decayed, new_step, plus


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

    def _update(self, param: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        state = self.state[param]
        if not state:
            state["step"] = new_step()
            state["square_avg"] = zeros_like(param)
            if group["momentum"] > 0:
                state["momentum_buffer"] = zeros_like(param)
            if group["centered"]:
                state["grad_avg"] = zeros_like(param)
        state["step"] += 1
        lr, alpha = float(group["lr"]), group["alpha"]
        grad = decayed(param, grad, group["weight_decay"])
        square = state["square_avg"].mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            mean = state["grad_avg"].lerp_(grad, 1 - alpha)
            square = square.addcmul(mean, mean, value=-1)
        root = plus(square.sqrt(), group["eps"], group)
        if group["momentum"] > 0:
            buffer = state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, root)
            param.add_(buffer, alpha=-lr)
        else:
            param.addcdiv_(grad, root, value=-lr)
