"""Muon: momentum whose matrices are made orthogonal before the step."""

from __future__ import annotations

from typing import Any

from ferro.core.base import wrap
from ferro.ops.likes import zeros_like
from ferro.ops.sums_of_products import addmm
from ferro.tensor import Tensor

from .optimizer import Params
from .options import check_one_number, should
from .per_parameter import PerParameterOptimizer

ADJUSTMENTS = (None, "original", "match_rms_adamw")


class Muon(PerParameterOptimizer):
    """p ← (1 - lr weight_decay) p - lr' O,  O about the orthogonal factor of the momentum; for matrices only.

    - `params` (tensors, pairs of name and tensor, or dictionaries): what to change; a dictionary with the key 'params'
      has options of its own for its group
    - `lr` (float or Tensor, default 1e-3): the learning rate
    - `weight_decay` (float, default 0.1): how much p shrinks
    - `momentum` (float, default 0.95): the share of the old running mean of g that is kept in a step
    - `nesterov` (bool, default True): looks ahead by the momentum
    - `ns_coefficients` (three floats, default (3.4445, -4.775, 2.0315)): a, b and c of the Newton-Schulz iteration X ←
      a X + (b A + c A²) X, A = X Xᵀ, in bfloat16
    - `eps` (float, default 1e-7): the least norm that the iteration divides by
    - `ns_steps` (int, default 5): how many iterations, below 100
    - `adjust_lr_fn` (str, default None): "match_rms_adamw" makes lr' = 0.2 lr sqrt(max(rows, columns)); None or
      "original" lr sqrt(max(1, rows / columns))

    ValueError for rates out of range and for parameters that are not matrices. Sources: Jordan et al., Muon: An
    Optimizer for Hidden Layers in Neural Networks, 2024; Liu et al., Muon is Scalable for LLM Training, 2025.

    Example::

        >>> import ferro
        >>> w = ferro.ones(2, 3, requires_grad=True)
        >>> optimizer = ferro.optim.Muon([w], lr=0.1)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> (w < 1).all()
        tensor(True)
    """

    _not_negative = ()
    _takes_complex = False

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_one_number("lr", lr)
        should(lr >= 0.0, "Learning rate should be >= 0", lr)
        should(momentum >= 0.0, "momentum should be >= 0", momentum)
        should(weight_decay >= 0.0, "weight decay should be >= 0", weight_decay)
        if adjust_lr_fn not in ADJUSTMENTS:
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported; use one of {ADJUSTMENTS}")
        if ns_steps >= 100:
            raise ValueError("Number of steps must be less than 100 for computational efficiency")
        if len(ns_coefficients) != 3:
            raise ValueError("Coefficients must be a tuple of exactly 3 values")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for param in group["params"]:
                if param.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {param.size()}"
                    )

    @staticmethod
    def _begun(param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"momentum_buffer": zeros_like(param)}

    @staticmethod
    def _update(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        lr, momentum = float(group["lr"]), group["momentum"]
        buffer = state["momentum_buffer"].lerp_(grad, 1 - momentum)
        update = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
        options = group["ns_coefficients"], group["ns_steps"], group["eps"]
        spec = getattr(param, "_spec", None)
        if spec is None:
            update = orthogonalised(update, *options)
        else:  # a DTensor: every rank computes with the whole, and takes its part
            update = wrap(spec.part_of(orthogonalised(wrap(spec.whole_of(update._data)), *options)._data))
        rows, columns = param.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            ratio = 0.2 * max(rows, columns) ** 0.5
        else:
            ratio = max(1.0, rows / columns) ** 0.5
        param.mul_(1 - lr * group["weight_decay"]).add_(update.to(param.dtype), alpha=-lr * ratio)


def orthogonalised(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """About U Vᵀ of the singular value decomposition U S Vᵀ: the singular values come near to 1, not all the way."""
    a, b, c = coefficients
    tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if tall else matrix).bfloat16()
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = addmm(x, addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x
