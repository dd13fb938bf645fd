"""Adadelta: steps in the units of the parameter, from running means of squared gradients and squared steps."""

from __future__ import annotations

from typing import Any, ClassVar

from ferro.tensor import Tensor

from .fused import stepped, used
from .optimizer import Params
from .options import check
from .per_parameter import PerParameterOptimizer, begin_with_zeros, counted, decayed, move, number


class Adadelta(PerParameterOptimizer):
    """p ← p - lr d,  d = g sqrt(mean of d² + eps) / sqrt(mean of g² + eps): the rate finds its own scale.

    - `params` (tensors, pairs of name and tensor, or dictionaries): what to change; a dictionary with the key 'params'
      has options of its own for its group
    - `lr` (float or Tensor, default 1.0): the learning rate
    - `rho` (float, default 0.9): the share of the old means that is kept in a step
    - `eps` (float, default 1e-6): keeps the division from 0
    - `weight_decay` (float, default 0): so much of p is added to its gradient
    - `maximize` (bool, default False): goes up instead of down
    - `differentiable` (bool, default False): True records the steps, so that gradients pass through them
    - `capturable` (bool, default False): a CUDA graph may record steps: what they count lies on the device; no effect on the CPU
    - `foreach` (bool, default None): changes nothing: there is one implementation

    ValueError for rates out of range and for no parameters. Source: Zeiler, ADADELTA: An Adaptive Learning Rate Method,
    2012.

    Example::

        >>> import ferro
        >>> w = ferro.tensor([1.0], requires_grad=True)
        >>> optimizer = ferro.optim.Adadelta([w], eps=1.0)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w.item() < 1.0
        True
    """

    _lists: ClassVar = {"square_avgs": "square_avg", "acc_deltas": "acc_delta", "state_steps": "step"}

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
        check(0.0 <= rho <= 1.0, "rho value", rho)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _begun(param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return begin_with_zeros(param, group, "square_avg", "acc_delta")

    @staticmethod
    def _update(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        kept = {"v": state["square_avg"], "d": state["acc_delta"]}
        given = {"lr": group["lr"], "rho": group["rho"], "eps": group["eps"], "decay": group["weight_decay"]}
        if stepped("adadelta", used(group), param, grad, state["step"], kept, given):
            return
        counted(state, group)
        rho, eps = group["rho"], group["eps"]
        grad = decayed(param, grad, group)
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
    Adadelta._step_lists(locals())
