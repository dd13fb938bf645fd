"""AdamW: Adam with weight decay that does not pass through the gradient."""

from __future__ import annotations

from typing import Any

from ferro.tensor import Tensor

from .adam import Adam
from .optimizer import Params


class AdamW(Adam):
    """Adam with decoupled weight decay: in each step p shrinks by lr weight_decay p, apart from the gradient.

    - `params` (tensors, pairs of name and tensor, or dictionaries): what to change; a dictionary with the key 'params'
      has options of its own for its group
    - `lr` (float or Tensor, default 1e-3): the learning rate
    - `betas` (two floats, default (0.9, 0.999)): the shares of the old m and v that are kept in a step
    - `eps` (float, default 1e-8): keeps the division from 0
    - `weight_decay` (float, default 0.01): how much p shrinks
    - `amsgrad` (bool, default False): divides by the largest v so far
    - `maximize` (bool, default False): goes up instead of down
    - `differentiable` (bool, default False): True records the steps, so that gradients pass through them
    - `capturable` (bool, default False): a CUDA graph may record steps: what they count lies on the device; no effect on the CPU
    - `foreach`, `fused` (bool, default None): change nothing: there is one implementation; RuntimeError for fused with
      foreach or differentiable

    The formula stands at Adam. ValueError for rates out of range and for no parameters. Source: Loshchilov and Hutter,
    Decoupled Weight Decay Regularization, 2019. The example has no decay for biases.

    Example::

        >>> import ferro
        >>> model = ferro.nn.Linear(4, 2)
        >>> groups = [{"params": [model.weight], "weight_decay": 0.1}, {"params": [model.bias], "weight_decay": 0.0}]
        >>> optimizer = ferro.optim.AdamW(groups, lr=1e-3)
        >>> [group["weight_decay"] for group in optimizer.param_groups]
        [0.1, 0.0]
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )


def adamw(
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
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of AdamW for each parameter, in place, with its state given as lists: `adam` with decoupled weight decay."""
    AdamW._step_lists({**locals(), "decoupled_weight_decay": True})
