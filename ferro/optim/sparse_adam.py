"""SparseAdam: Adam for sparse gradients, which touches only the rows that a gradient names."""

from __future__ import annotations

from typing import Any

from ferro.ops.likes import zeros_like
from ferro.tensor import Tensor

from .optimizer import Params
from .options import check, check_one_number
from .per_parameter import PerParameterOptimizer


class SparseAdam(PerParameterOptimizer):
    """Adam whose means, and the parameter, change only where the sparse gradient has values.

    - `params` (tensors, pairs of name and tensor, or dictionaries): what to change; a dictionary with the key 'params'
      has options of its own for its group
    - `lr` (float or Tensor, default 1e-3): the learning rate
    - `betas` (two floats, default (0.9, 0.999)): the shares of the old m and v that are kept in a step
    - `eps` (float, default 1e-8): keeps the division from 0
    - `maximize` (bool, default False): goes up instead of down

    RuntimeError for a gradient that is not sparse, ValueError for rates out of range. Source: Kingma and Ba, Adam: A
    Method for Stochastic Optimization, 2015.

    Example::

        >>> import ferro
        >>> words = ferro.nn.Embedding(10, 3, sparse=True)
        >>> before = words.weight.detach().clone()
        >>> optimizer = ferro.optim.SparseAdam(words.parameters(), lr=0.1)
        >>> words(ferro.tensor([2, 5])).sum().backward()
        >>> optimizer.step()
        >>> (words.weight != before).any(dim=1).nonzero().flatten()
        tensor([2, 5])
    """

    _counts = ()
    _not_negative = ()

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_one_number("lr", lr)
        check(lr > 0.0, "learning rate", lr)
        check(eps > 0.0, "epsilon value", eps)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        places = [(i, j, p) for i, group in enumerate(self.param_groups) for j, p in enumerate(group["params"])]
        sparse, complex_ = [[[i, j] for i, j, p in places if is_bad(p)] for is_bad in (_is_sparse, Tensor.is_complex)]
        if sparse:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")
        if complex_:
            raise ValueError(f"Complex params at indices {complex_}: SparseAdam does not support complex parameters")

    @staticmethod
    def _update(param: Tensor, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")

    @classmethod
    def _update_sparse(cls, param: Tensor, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state.update(step=0, exp_avg=zeros_like(param), exp_avg_sq=zeros_like(param))
        state["step"] += 1
        grad = grad.coalesce()
        place, values = tuple(grad._indices()), grad._values()
        step, lr, (beta1, beta2) = state["step"], float(group["lr"]), group["betas"]
        mean = state["exp_avg"][place].lerp(values, 1 - beta1)
        square = state["exp_avg_sq"][place].lerp(values * values, 1 - beta2)
        state["exp_avg"][place] = mean
        state["exp_avg_sq"][place] = square
        size = lr * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        param.index_put_(place, mean / (square.sqrt() + group["eps"]) * -size, accumulate=True)


def _is_sparse(t: Any) -> bool:
    return t.is_sparse
