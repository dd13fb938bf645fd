"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

from typing import Any, ClassVar

from numpy import ndarray

from ferro.tensor import Tensor

from .adam import moved_means
from .fused import Counting, stepped, used
from .optimizer import Params
from .per_parameter import (
    PerParameterOptimizer,
    begin_with_zeros,
    counted,
    decayed,
    is_there,
    move_by_quotient,
    new_count,
    number,
    plus,
)


class NAdam(PerParameterOptimizer):
    """Adam whose step looks ahead by a momentum mu that grows with the steps: mu_t = beta1 (1 - 0.96^(t momentum_decay)
    / 2).

    - `params` (tensors, pairs of name and tensor, or dictionaries): what to change; a dictionary with the key 'params'
      has options of its own for its group
    - `lr` (float or Tensor, default 2e-3): the learning rate
    - `betas` (two floats, default (0.9, 0.999)): the shares of the old m and v that are kept in a step
    - `eps` (float, default 1e-8): keeps the division from 0
    - `weight_decay` (float, default 0): so much of p is added to its gradient, or, with decoupled_weight_decay, p
      shrinks by lr weight_decay p
    - `decoupled_weight_decay` (bool, default False): as in AdamW
    - `momentum_decay` (float, default 4e-3): see above
    - `maximize` (bool, default False): goes up instead of down
    - `differentiable` (bool, default False): True records the steps, so that gradients pass through them
    - `capturable` (bool, default False): a CUDA graph may record steps: what they count lies on the device; no effect on the CPU
    - `foreach` (bool, default None): changes nothing: there is one implementation

    ValueError for rates out of range and for no parameters. Source: Dozat, Incorporating Nesterov Momentum into Adam,
    2016.

    Example::

        >>> import ferro
        >>> w = ferro.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = ferro.optim.NAdam([w], lr=0.1)
        >>> for _ in range(200):
        ...     optimizer.zero_grad()
        ...     (w**2).sum().backward()
        ...     optimizer.step()
        >>> w.abs().max() < 0.05
        tensor(True)
    """

    _not_negative = ("lr", "eps", "weight_decay", "momentum_decay")
    _lists: ClassVar = {
        "exp_avgs": "exp_avg",
        "exp_avg_sqs": "exp_avg_sq",
        "mu_products": "mu_product",
        "state_steps": "step",
    }

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
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _begun(param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {**begin_with_zeros(param, group, "exp_avg", "exp_avg_sq"), "mu_product": new_count(param, group, 1.0)}

    @staticmethod
    def _update(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if _by_kernel(param, grad, state, group):
            return
        step, lr, (beta1, beta2) = counted(state, group), number(group["lr"], group), group["betas"]
        grad = decayed(param, grad, group, lr)
        mu, mu_next = _momenta(step, beta1, group)
        state["mu_product"] *= mu
        # A recorded step has a derivative by the product of the momenta, too.
        product = state["mu_product"]
        if not group["differentiable"] and not (group["capturable"] and is_there(product)):
            product = product.item()
        mean, square = moved_means(grad, state, beta1, beta2)
        denominator = plus(square.div(1 - beta2**step).sqrt(), group["eps"], group)
        now, ahead = -lr * (1.0 - mu) / (1.0 - product), -lr * mu_next / (1.0 - product * mu_next)
        move_by_quotient(param, grad, denominator, now)
        move_by_quotient(param, mean, denominator, ahead)


def _momenta(step: Any, beta1: float, group: dict[str, Any]) -> list:
    """The momenta of a step and of the next."""
    return [beta1 * (1.0 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (step, step + 1)]


def _by_kernel(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> bool:
    """Whether a backend does the step by the formula, with numbers that the processor computes, or that lie on a device."""
    if type(param._data) is ndarray or group["differentiable"]:
        return False
    count, beta1, beta2 = state["step"], *group["betas"]
    given = {"beta1": beta1, "beta2": beta2, "eps": group["eps"], "decay": group["weight_decay"]}
    kept = {"m": state["exp_avg"], "v": state["exp_avg_sq"]}
    if is_there(count):
        fading, product = group["momentum_decay"], state["mu_product"]
        given |= {"lr": number(group["lr"], group), "fading": fading, "product": product}
        counting = Counting("count_momenta", (count, product), (beta1, fading))
        return stepped("nadam", used(group, counted=True), param, grad, count, kept, given, counting)
    step, lr = count.item() + 1, float(group["lr"])
    mu, mu_next = _momenta(step, beta1, group)
    product = (state["mu_product"] * mu).item()
    given |= {"lr": lr, "now": lr * (1 - mu) / (1 - product), "ahead": lr * mu_next / (1 - product * mu_next)}
    given["correction"] = 1 - beta2**step
    if not stepped("nadam", used(group), param, grad, count, kept, given):
        return False
    state["mu_product"] *= mu
    return True


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
    NAdam._step_lists(locals())
