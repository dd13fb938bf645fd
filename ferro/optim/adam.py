"""Adam and AdamW: steps scaled by running means of the gradient and of its square."""

from __future__ import annotations

from typing import Any

from ferro.core.base import bump
from ferro.cpu.kernels.optim import adam_step
from ferro.ops.comparison import maximum
from ferro.ops.likes import zeros_like
from ferro.tensor import Tensor

from .fused import arrays_to_change
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


class Adam(PerParameterOptimizer):
    """p ← p - lr m̂ / (sqrt(v̂) + eps), m and v running means of g and g², corrected for their start at 0.

    With amsgrad the largest v so far is used; with decoupled_weight_decay p shrinks by lr weight_decay directly
    instead of through g. (Kingma and Ba, 2015; Reddi et al., 2018; Loshchilov and Hutter, 2019)
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_lr(lr)
        if isinstance(lr, Tensor) and foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        check(eps >= 0.0, "epsilon value", eps)
        if len({isinstance(beta, Tensor) for beta in betas}) > 1:
            raise ValueError("betas must be either both floats or both Tensors")
        for i, beta in enumerate(betas):
            if isinstance(beta, Tensor):
                if foreach and not capturable:
                    raise ValueError(f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True")
                if beta.numel() != 1:
                    raise ValueError(f"Tensor betas[{i}] must be 1-element, got the shape {list(beta.shape)}")
        check_betas(betas)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            **accepted(foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused),
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _update(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state["step"] = new_step()
            state["exp_avg"] = zeros_like(param)
            state["exp_avg_sq"] = zeros_like(param)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = zeros_like(param)
        count = state["step"]
        step, decoupled = count._data.item() + 1, group["decoupled_weight_decay"]
        lr, weight_decay, (beta1, beta2) = group["lr"], group["weight_decay"], group["betas"]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        largest = state["max_exp_avg_sq"] if group["amsgrad"] else None
        arrays = arrays_to_change("adam", grad, param, mean, square, largest)
        if arrays is not None:
            count._data.fill(step)
            bump(count, "adam")
            p, m, v, top = arrays
            numbers = float(lr), float(beta1), float(beta2), float(group["eps"]), float(weight_decay)
            adam_step(p, m, v, top, grad._data, step, *numbers, decoupled)
            return
        count.fill_(step)
        lr, beta1, beta2 = (number(x, group) for x in (lr, beta1, beta2))
        if weight_decay != 0 and decoupled:
            param.mul_(1 - lr * weight_decay)
        else:
            grad = decayed(param, grad, weight_decay)
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2)
        if isinstance(beta2, Tensor):
            square.addcmul_(grad * grad, 1 - beta2)
        else:
            square.addcmul_(grad, grad, value=1 - beta2)
        if largest is not None:
            before = largest.clone() if group["differentiable"] else largest
            square = largest.copy_(maximum(before, square))
        root_correction = (1 - beta2**step) ** 0.5
        denominator = plus(square.sqrt() / root_correction, group["eps"], group)
        move_by_quotient(param, mean, denominator, -lr / (1 - beta1**step))


def adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Any],
    exp_avg_sqs: list[Any],
    max_exp_avg_sqs: list[Any],
    state_steps: list[Any],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of Adam for each parameter, in place, with its state given as lists: what `step` does."""
    switches = accepted(foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused)
    group = {
        "amsgrad": amsgrad,
        "betas": (beta1, beta2),
        "lr": lr,
        "weight_decay": weight_decay,
        "eps": eps,
        "maximize": maximize,
        "decoupled_weight_decay": decoupled_weight_decay,
        **switches,
    }
    states = {
        "step": state_steps,
        "exp_avg": exp_avgs,
        "exp_avg_sq": exp_avg_sqs,
        "max_exp_avg_sq": max_exp_avg_sqs,
    }
    Adam._each(params, grads, states, group, grad_scale, found_inf)
