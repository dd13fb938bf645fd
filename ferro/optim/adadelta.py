"""Adadelta: steps in the units of the parameter, from running means of squared gradients and squared steps."""

from __future__ import annotations

from typing import Any

from ferro.ops.likes import zeros_like
from ferro.tensor import Tensor

from .optimizer import Params, PerParameterOptimizer, accepted, check, check_lr, decayed, move, new_step, number


class Adadelta(PerParameterOptimizer):
    """p ← p - lr d,  d = g sqrt(mean of d² + eps) / sqrt(mean of g² + eps). (Zeiler, 2012)"""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check(0.0 <= rho <= 1.0, "rho value", rho)
        check(eps >= 0.0, "epsilon value", eps)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        switches = accepted(foreach=foreach, capturable=capturable, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": switches["capturable"],
            "foreach": switches["foreach"],
            "differentiable": switches["differentiable"],
        }
        super().__init__(params, defaults)

    @staticmethod
    def _update(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state["step"] = new_step()
            state["square_avg"] = zeros_like(param)
            state["acc_delta"] = zeros_like(param)
        state["step"] += 1
        rho, eps = group["rho"], group["eps"]
        grad = decayed(param, grad, group["weight_decay"])
        square, moved = state["square_avg"], state["acc_delta"]
        square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        if group["differentiable"]:
            delta = moved.add(eps).sqrt() / square.add(eps).sqrt() * grad
        else:
            delta = moved.add(eps).sqrt_().div_(square.add(eps).sqrt_()).mul_(grad)
        moved.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        move(param, delta, -number(group["lr"], group))


def adadelta(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Any],
    acc_deltas: list[Any],
    state_steps: list[Any],
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """One step of Adadelta for each parameter, in place, with its state given as lists: what `step` does."""
    switches = accepted(foreach=foreach, capturable=capturable, differentiable=differentiable)
    group = {
        "lr": lr,
        "rho": rho,
        "eps": eps,
        "weight_decay": weight_decay,
        "maximize": maximize,
        **switches,
    }
    states = {"step": state_steps, "square_avg": square_avgs, "acc_delta": acc_deltas}
    Adadelta._each(params, grads, states, group)
