"""Adagrad: steps divided by the root of the sum of all squared gradients."""

from __future__ import annotations

from typing import Any

from ferro.ops.creation import full_like
from ferro.tensor import Tensor

from .optimizer import (
    Params,
    PerParameterOptimizer,
    accepted,
    check,
    check_lr,
    decayed,
    move_by_quotient,
    new_step,
    number,
    plus,
)


class Adagrad(PerParameterOptimizer):
    """p ← p - lr / (1 + (t - 1) lr_decay) g / (sqrt(sum of g²) + eps). (Duchi et al., 2011)"""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check(lr_decay >= 0.0, "lr_decay value", lr_decay)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        check(initial_accumulator_value >= 0.0, "initial_accumulator_value value", initial_accumulator_value)
        check(eps >= 0.0, "epsilon value", eps)
        switches = accepted(foreach=foreach, differentiable=differentiable, fused=fused)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": switches["foreach"],
            "maximize": maximize,
            "differentiable": switches["differentiable"],
            "fused": switches["fused"],
        }
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group; the sums of its parameters exist from now on, as in PyTorch, and not from the first step."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for param in group["params"]:
            value = group["initial_accumulator_value"]
            start = full_like(param, complex(value, value) if param.is_complex() else value)
            self.state[param] = {"step": new_step(), "sum": start.detach()}

    @classmethod
    def _update_sparse(cls, param: Tensor, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        grad = grad.coalesce()
        state["step"] += 1
        lr = float(group["lr"]) / (1 + (state["step"].item() - 1) * group["lr_decay"])
        place, values = tuple(grad._indices()), grad._values()
        total = state["sum"][place] + values * values
        state["sum"][place] = total
        param.index_put_(place, values / (total.sqrt() + group["eps"]) * -lr, accumulate=True)

    @staticmethod
    def _update(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] += 1
        grad = decayed(param, grad, group["weight_decay"])
        lr = number(group["lr"], group) / (1 + (state["step"].item() - 1) * group["lr_decay"])
        total = state["sum"].addcmul_(grad, grad, value=1)
        move_by_quotient(param, grad, plus(total.sqrt(), group["eps"], group), -lr)


def adagrad(
    params: list[Tensor],
    grads: list[Tensor],
    state_sums: list[Any],
    state_steps: list[Any],
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of Adagrad for each parameter, in place, with its state given as lists: what `step` does."""
    switches = accepted(foreach=foreach, differentiable=differentiable, fused=fused)
    group = {
        "lr": lr,
        "weight_decay": weight_decay,
        "lr_decay": lr_decay,
        "eps": eps,
        "maximize": maximize,
        **switches,
    }
    states = {"step": state_steps, "sum": state_sums}
    Adagrad._each(params, grads, states, group, grad_scale, found_inf)
