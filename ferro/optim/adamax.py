"""Adamax: Adam with the largest recent gradient in place of the root of the mean square."""

from __future__ import annotations

from typing import Any, ClassVar

from ferro.ops.choices import maximum
from ferro.tensor import Tensor

from .fused import stepped, used
from .optimizer import Params
from .per_parameter import PerParameterOptimizer, begin_with_zeros, counted, decayed, move_by_quotient, number


class Adamax(PerParameterOptimizer):
    """p ← p - lr m̂ / u, m the running mean of g, u ← max(beta2 u, |g| + eps): Adam with the largest gradient in place
    of v.

    - `params` (tensors, pairs of name and tensor, or dictionaries): what to change; a dictionary with the key 'params'
      has options of its own for its group
    - `lr` (float or Tensor, default 2e-3): the learning rate
    - `betas` (two floats, default (0.9, 0.999)): the shares of the old m and u that are kept in a step
    - `eps` (float, default 1e-8): keeps the division from 0
    - `weight_decay` (float, default 0): so much of p is added to its gradient
    - `maximize` (bool, default False): goes up instead of down
    - `differentiable` (bool, default False): True records the steps, so that gradients pass through them
    - `capturable` (bool, default False): a CUDA graph may record steps: what they count lies on the device; no effect on the CPU
    - `foreach` (bool, default None): changes nothing: there is one implementation

    ValueError for rates out of range and for no parameters. Source: Kingma and Ba, Adam: A Method for Stochastic
    Optimization, 2015.

    Example::

        >>> import ferro
        >>> w = ferro.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = ferro.optim.Adamax([w], lr=0.1)
        >>> for _ in range(200):
        ...     optimizer.zero_grad()
        ...     (w**2).sum().backward()
        ...     optimizer.step()
        >>> w.abs().max() < 0.05
        tensor(True)
    """

    _lists: ClassVar = {"exp_avgs": "exp_avg", "exp_infs": "exp_inf", "state_steps": "step"}

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
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _begun(param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return begin_with_zeros(param, group, "exp_avg", "exp_inf")

    @staticmethod
    def _update(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        given = {"lr": group["lr"], "beta1": beta1, "beta2": beta2, "eps": group["eps"], "decay": group["weight_decay"]}
        kept = {"m": state["exp_avg"], "u": state["exp_inf"]}
        if stepped("adamax", used(group), param, grad, state["step"], kept, given):
            return
        step = counted(state, group)
        grad = decayed(param, grad, group)
        mean, largest = state["exp_avg"], state["exp_inf"]
        mean.lerp_(grad, 1 - beta1)
        largest.copy_(maximum(largest * beta2, grad.abs().add_(group["eps"])))
        move_by_quotient(param, mean, largest, -number(group["lr"], group) / (1 - beta1**step))


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
    Adamax._step_lists(locals())
