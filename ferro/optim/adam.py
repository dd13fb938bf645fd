"""Adam and AdamW: steps scaled by running means of the gradient and of its square."""

from __future__ import annotations

from typing import Any, ClassVar

from numpy import ndarray

from ferro import cpu
from ferro.core.base import bump
from ferro.ops.choices import maximum
from ferro.tensor import Tensor

from .fused import arrays_to_change, later, stepped, used
from .optimizer import Params
from .options import check_one_number
from .per_parameter import PerParameterOptimizer, begin_with_zeros, decayed, is_there, move_by_quotient, number, plus


class Adam(PerParameterOptimizer):
    """p ← p - lr m̂ / (sqrt(v̂) + eps), m and v running means of g and g², corrected for their start at 0.

    - `params` (tensors, pairs of name and tensor, or dictionaries): what to change; a dictionary with the key 'params'
      has options of its own for its group
    - `lr` (float or Tensor, default 1e-3): the learning rate
    - `betas` (two floats, default (0.9, 0.999)): the shares of the old m and v that are kept in a step
    - `eps` (float, default 1e-8): keeps the division from 0
    - `weight_decay` (float, default 0): so much of p is added to its gradient, or, with decoupled_weight_decay, p
      shrinks by lr weight_decay p
    - `decoupled_weight_decay` (bool, default False): as in AdamW
    - `amsgrad` (bool, default False): divides by the largest v so far
    - `maximize` (bool, default False): goes up instead of down
    - `differentiable` (bool, default False): True records the steps, so that gradients pass through them
    - `capturable` (bool, default False): a CUDA graph may record steps: what they count lies on the device; no effect on the CPU
    - `foreach`, `fused` (bool, default None): change nothing: there is one implementation; RuntimeError for fused with
      foreach or differentiable

    ValueError for rates out of range and for no parameters. Sources: Kingma and Ba, Adam: A Method for Stochastic
    Optimization, 2015; Reddi, Kale and Kumar, On the Convergence of Adam and Beyond, 2018.

    Example::

        >>> import ferro
        >>> w = ferro.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = ferro.optim.Adam([w], lr=0.1)
        >>> for _ in range(200):
        ...     optimizer.zero_grad()
        ...     (w**2).sum().backward()
        ...     optimizer.step()
        >>> w.abs().max() < 0.05
        tensor(True)
    """

    _lists: ClassVar = {
        "exp_avgs": "exp_avg",
        "exp_avg_sqs": "exp_avg_sq",
        "max_exp_avg_sqs": "max_exp_avg_sq",
        "state_steps": "step",
    }

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
        if isinstance(lr, Tensor) and foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        if len({isinstance(beta, Tensor) for beta in betas}) > 1:
            raise ValueError("betas must be either both floats or both Tensors")
        for i, beta in enumerate(betas):
            if isinstance(beta, Tensor):
                if foreach and not capturable:
                    raise ValueError(f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True")
                check_one_number(f"betas[{i}]", beta)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _begun(param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        extra = ("max_exp_avg_sq",) if group["amsgrad"] else ()
        return begin_with_zeros(param, group, "exp_avg", "exp_avg_sq", *extra)

    @staticmethod
    def _update(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        count = state["step"]
        there, decoupled = group["capturable"] and is_there(count), group["decoupled_weight_decay"]
        lr, weight_decay, (beta1, beta2) = group["lr"], group["weight_decay"], group["betas"]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        largest = state["max_exp_avg_sq"] if group["amsgrad"] else None
        if there:
            kept = {"m": mean, "v": square} | ({} if largest is None else {"top": largest})
            numbers = {"lr": lr, "beta1": beta1, "beta2": beta2, "eps": group["eps"], "decay": weight_decay}
            if stepped("adam", used(group, largest=group["amsgrad"]), param, grad, count, kept, numbers):
                return
        step = count.add_(1) if there else count._data.item() + 1
        arrays = None if there else arrays_to_change("adam", grad, param, mean, square, largest)
        if arrays is not None:
            count._data.fill(step)
            bump(count, "adam")
            p, m, v, top = arrays
            given = float(lr), float(beta1), float(beta2), float(group["eps"]), float(weight_decay)
            if type(p) is ndarray:
                cpu.adam_step(p, m, v, top, grad._data, step, *given, decoupled)
            else:
                later("adam_steps", (p, grad._data, m, v, top), step, *given, decoupled)
            return
        if not there:
            count.fill_(step)
        lr, beta1, beta2 = (number(x, group) for x in (lr, beta1, beta2))
        mean, square = moved_means(decayed(param, grad, group, lr), state, beta1, beta2)
        if largest is not None:
            before = largest.clone() if group["differentiable"] else largest
            square = largest.copy_(maximum(before, square))
        root_correction = (1 - beta2**step) ** 0.5
        denominator = plus(square.sqrt() / root_correction, group["eps"], group)
        move_by_quotient(param, mean, denominator, -lr / (1 - beta1**step))


def moved_means(grad: Tensor, state: dict[str, Any], beta1: Any, beta2: Any) -> tuple[Tensor, Tensor]:
    """The running means of the gradient and of its square, one step further."""
    mean, square = state["exp_avg"].lerp_(grad, 1 - beta1), state["exp_avg_sq"].mul_(beta2)
    if isinstance(beta2, Tensor):
        return mean, square.addcmul_(grad * grad, 1 - beta2)
    return mean, square.addcmul_(grad, grad, value=1 - beta2)


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
    Adam._step_lists(locals())
