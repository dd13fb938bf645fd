"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from operator import itemgetter
from typing import Any, ClassVar

from numpy import ndarray

from ferro import cpu
from ferro.ops.likes import zeros_like
from ferro.tensor import Tensor

from .fused import arrays_to_change, later
from .optimizer import Params
from .per_parameter import PerParameterOptimizer, decayed, move, number

_NUMBERS = itemgetter("lr", "momentum", "dampening", "weight_decay")


class SGD(PerParameterOptimizer):
    """Stochastic gradient descent: p ← p - lr g, with momentum p ← p - lr b.

    b ← momentum b + (1 - dampening) g starts as the first gradient; with `nesterov`, p ← p - lr (g + momentum b).

    - `params` (tensors, pairs of name and tensor, or dictionaries): what to change; a dictionary with the key 'params'
      has options of its own for its group
    - `lr` (float or Tensor, default 1e-3): the learning rate
    - `momentum`, `dampening` (float, default 0): see above
    - `weight_decay` (float, default 0): so much of p is added to its gradient
    - `nesterov` (bool, default False): needs a momentum and no dampening, else ValueError
    - `maximize` (bool, default False): goes up instead of down
    - `differentiable` (bool, default False): True records the steps, so that gradients pass through them
    - `foreach`, `fused` (bool, default None): change nothing: there is one implementation; RuntimeError for fused with
      foreach or differentiable

    ValueError for rates out of range and for no parameters. Source: Sutskever, Martens, Dahl and Hinton, On the
    Importance of Initialization and Momentum in Deep Learning, 2013.

    Example::

        >>> import ferro
        >>> w = ferro.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = ferro.optim.SGD([w], lr=0.1, momentum=0.9)
        >>> for _ in range(100):
        ...     optimizer.zero_grad()
        ...     (w**2).sum().backward()
        ...     optimizer.step()
        >>> w.abs().max() < 0.05
        tensor(True)
    """

    _not_negative = ("lr", "momentum", "weight_decay")
    _lists: ClassVar = {"momentum_buffer_list": "momentum_buffer"}

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    @classmethod
    def _update_sparse(cls, param: Tensor, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        if group["weight_decay"] != 0:
            raise RuntimeError(
                "add(sparse, dense) is not supported. Use add(dense, sparse) instead. SGD takes no weight_decay with sparse "
                "gradients: it would change every row"
            )
        if group["momentum"] != 0:  # the buffer has a row for all that a gradient ever named
            cls._update(param, grad.to_dense(), state, group)
            return
        param.index_put_(tuple(grad._indices()), grad._values() * -float(group["lr"]), accumulate=True)

    @staticmethod
    def _update(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        lr, momentum, dampening, weight_decay = _NUMBERS(group)
        buffer, first = None, False
        if momentum != 0:
            buffer = state.get("momentum_buffer")
            if first := buffer is None:
                buffer = state["momentum_buffer"] = zeros_like(param)
        arrays = arrays_to_change("sgd", grad, param, buffer)
        if arrays is not None:
            p, b = arrays
            numbers = float(lr), momentum, dampening, weight_decay, group["nesterov"], first
            if type(p) is ndarray:
                cpu.sgd_step(p, b, grad._data, *numbers)
            else:
                later("sgd_steps", (p, grad._data, b), *numbers)
            return
        grad = decayed(param, grad, group)
        if buffer is not None:
            if first:
                buffer.copy_(grad)
            else:
                buffer.mul_(momentum).add_(grad, alpha=1 - dampening)
            grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        move(param, grad, -number(lr, group))


def sgd(
    params: list[Tensor],
    d_p_list: list[Tensor],
    momentum_buffer_list: list[Any],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float | Tensor,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """One step of SGD for each parameter, in place, with its state given as lists: what `step` does."""
    SGD._step_lists(locals())
