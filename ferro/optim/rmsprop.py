"""RMSprop: steps divided by a running root mean square of the gradient."""

from __future__ import annotations

from typing import Any, ClassVar

from ferro.tensor import Tensor

from .fused import stepped, used
from .optimizer import Params
from .per_parameter import (
    PerParameterOptimizer,
    begin_with_zeros,
    counted,
    decayed,
    move,
    move_by_quotient,
    number,
    plus,
)


class RMSprop(PerParameterOptimizer):
    """p ← p - lr g / (sqrt(v) + eps), v the running mean of g², less the squared mean of g if `centered`.

    - `params` (tensors, pairs of name and tensor, or dictionaries): what to change; a dictionary with the key 'params'
      has options of its own for its group
    - `lr` (float or Tensor, default 1e-2): the learning rate
    - `alpha` (float, default 0.99): the share of the old v that is kept in a step
    - `eps` (float, default 1e-8): keeps the division from 0
    - `weight_decay` (float, default 0): so much of p is added to its gradient
    - `momentum` (float, default 0): steps are accumulated as in SGD
    - `centered` (bool, default False): see above
    - `maximize` (bool, default False): goes up instead of down
    - `differentiable` (bool, default False): True records the steps, so that gradients pass through them
    - `capturable` (bool, default False): a CUDA graph may record steps: what they count lies on the device; no effect on the CPU
    - `foreach` (bool, default None): changes nothing: there is one implementation

    ValueError for rates out of range and for no parameters. Source: Tieleman and Hinton, Neural Networks for Machine
    Learning, lecture 6.5, 2012; Graves, Generating Sequences With Recurrent Neural Networks, 2013 (centered).

    Example::

        >>> import ferro
        >>> w = ferro.tensor([1.0], requires_grad=True)
        >>> optimizer = ferro.optim.RMSprop([w], lr=0.01)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w.detach().round(decimals=4)
        tensor([0.9000])
    """

    _not_negative = ("lr", "eps", "momentum", "weight_decay", "alpha")
    _lists: ClassVar = {
        "square_avgs": "square_avg",
        "grad_avgs": "grad_avg",
        "momentum_buffer_list": "momentum_buffer",
        "state_steps": "step",
    }

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
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _begun(param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        names = {"square_avg": True, "momentum_buffer": group["momentum"] > 0, "grad_avg": group["centered"]}
        return begin_with_zeros(param, group, *[name for name, used in names.items() if used])

    @staticmethod
    def _update(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        kept = {"v": state["square_avg"]}
        kept |= {"m": state["grad_avg"]} if group["centered"] else {}
        kept |= {"b": state["momentum_buffer"]} if group["momentum"] > 0 else {}
        given = {name: group[name] for name in ("lr", "alpha", "momentum", "eps")} | {"decay": group["weight_decay"]}
        has = used(group, centered=group["centered"], momentum=group["momentum"] > 0)
        if stepped("rmsprop", has, param, grad, state["step"], kept, given):
            return
        counted(state, group)
        lr, alpha = number(group["lr"], group), group["alpha"]
        grad = decayed(param, grad, group)
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
    RMSprop._step_lists(locals())
