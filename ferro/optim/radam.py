"""RAdam: Adam that holds back while its estimate of the variance is poor."""

from __future__ import annotations

from typing import Any, ClassVar

from ferro.ops.choices import where
from ferro.tensor import Tensor

from .adam import moved_means
from .fused import stepped, used
from .optimizer import Params
from .per_parameter import PerParameterOptimizer, begin_with_zeros, counted, decayed, number, plus


class RAdam(PerParameterOptimizer):
    """Adam whose step is rectified by the variance of 1 / sqrt(v̂), and plain momentum while that is infinite.

    - `params` (tensors, pairs of name and tensor, or dictionaries): what to change; a dictionary with the key 'params'
      has options of its own for its group
    - `lr` (float or Tensor, default 1e-3): the learning rate
    - `betas` (two floats, default (0.9, 0.999)): the shares of the old m and v that are kept in a step
    - `eps` (float, default 1e-8): keeps the division from 0
    - `weight_decay` (float, default 0): so much of p is added to its gradient, or, with decoupled_weight_decay, p
      shrinks by lr weight_decay p
    - `decoupled_weight_decay` (bool, default False): as in AdamW
    - `maximize` (bool, default False): goes up instead of down
    - `differentiable` (bool, default False): True records the steps, so that gradients pass through them
    - `capturable` (bool, default False): a CUDA graph may record steps: what they count lies on the device; no effect on the CPU
    - `foreach` (bool, default None): changes nothing: there is one implementation

    ValueError for rates out of range and for no parameters. Source: Liu et al., On the Variance of the Adaptive
    Learning Rate and Beyond, 2020.

    Example::

        >>> import ferro
        >>> w = ferro.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = ferro.optim.RAdam([w], lr=0.1)
        >>> for _ in range(200):
        ...     optimizer.zero_grad()
        ...     (w**2).sum().backward()
        ...     optimizer.step()
        >>> w.abs().max() < 0.05
        tensor(True)
    """

    _lists: ClassVar = {"exp_avgs": "exp_avg", "exp_avg_sqs": "exp_avg_sq", "state_steps": "step"}

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
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
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _begun(param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return begin_with_zeros(param, group, "exp_avg", "exp_avg_sq")

    @staticmethod
    def _update(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        given = {"lr": group["lr"], "beta1": beta1, "beta2": beta2, "eps": group["eps"], "decay": group["weight_decay"]}
        kept = {"m": state["exp_avg"], "v": state["exp_avg_sq"]}
        if stepped("radam", used(group), param, grad, state["step"], kept, given):
            return
        step, lr = counted(state, group), number(group["lr"], group)
        mean, square = moved_means(decayed(param, grad, group, lr), state, beta1, beta2)
        correction = 1 - beta2**step
        move = mean / (1 - beta1**step) * lr
        rho_inf = 2 / (1 - beta2) - 1
        rho = rho_inf - 2 * step * beta2**step / correction
        if isinstance(step, Tensor) or rho > 5.0:
            rectified = abs((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)) ** 0.5
            quick = move * (correction**0.5 * rectified) / plus(square.sqrt(), group["eps"], group)
            move = where(rho > 5.0, quick, move) if isinstance(rho, Tensor) else quick
        param.sub_(move)


def radam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Any],
    exp_avg_sqs: list[Any],
    state_steps: list[Any],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
) -> None:
    """One step of RAdam for each parameter, in place, with its state given as lists: what `step` does."""
    RAdam._step_lists(locals())
