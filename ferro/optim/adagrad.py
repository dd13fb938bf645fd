"""Adagrad: steps divided by the root of the sum of all squared gradients."""

from __future__ import annotations

from typing import Any, ClassVar

from ferro.ops.creation import full_like
from ferro.tensor import Tensor

from .fused import stepped, used
from .optimizer import Params
from .per_parameter import PerParameterOptimizer, counted, decayed, move_by_quotient, new_step, number, plus


class Adagrad(PerParameterOptimizer):
    """p ← p - lr / (1 + (t - 1) lr_decay) g / (sqrt(sum of g²) + eps), t the number of the step.

    - `params` (tensors, pairs of name and tensor, or dictionaries): what to change; a dictionary with the key 'params'
      has options of its own for its group
    - `lr` (float or Tensor, default 1e-2): the learning rate
    - `lr_decay` (float, default 0): how fast the rate falls
    - `weight_decay` (float, default 0): so much of p is added to its gradient
    - `initial_accumulator_value` (float, default 0): the sum of g² at the start
    - `eps` (float, default 1e-10): keeps the division from 0
    - `maximize` (bool, default False): goes up instead of down
    - `differentiable` (bool, default False): True records the steps, so that gradients pass through them
    - `foreach`, `fused` (bool, default None): change nothing: there is one implementation; RuntimeError for fused with
      foreach or differentiable

    ValueError for rates out of range and for no parameters. Source: Duchi, Hazan and Singer, Adaptive Subgradient
    Methods for Online Learning and Stochastic Optimization, 2011.

    Example::

        >>> import ferro
        >>> w = ferro.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = ferro.optim.Adagrad([w], lr=0.5)
        >>> for _ in range(200):
        ...     optimizer.zero_grad()
        ...     (w**2).sum().backward()
        ...     optimizer.step()
        >>> w.abs().max() < 0.05
        tensor(True)
    """

    _not_negative = ("lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps")
    _lists: ClassVar = {"state_sums": "sum", "state_steps": "step"}

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
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
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
        lr = float(group["lr"]) / (1 + (counted(state, group) - 1) * group["lr_decay"])
        place, values = tuple(grad._indices()), grad._values()
        total = state["sum"][place] + values * values
        state["sum"][place] = total
        param.index_put_(place, values / (total.sqrt() + group["eps"]) * -lr, accumulate=True)

    @staticmethod
    def _update(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        kept = {"v": state["sum"]}
        given = {"lr": group["lr"], "fading": group["lr_decay"], "eps": group["eps"], "decay": group["weight_decay"]}
        if stepped("adagrad", used(group), param, grad, state["step"], kept, given):
            return
        grad = decayed(param, grad, group)
        lr = number(group["lr"], group) / (1 + (counted(state, group) - 1) * group["lr_decay"])
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
    Adagrad._step_lists(locals())
