"""Adafactor: steps divided by a root mean square of which only row and column means are kept."""

from __future__ import annotations

from typing import Any

from ferro.core.base import wrap
from ferro.core.dtypes import finfo
from ferro.tensor import Tensor

from .optimizer import Params
from .options import check_one_number, should
from .per_parameter import PerParameterOptimizer, begin_with_zeros, counted, new_step


class Adafactor(PerParameterOptimizer):
    """p ← p - a u / max(1, rms(u) / d),  u = g / sqrt(v): Adam in little memory, for v of a matrix is the product of
    row and column means.

    - `params` (tensors, pairs of name and tensor, or dictionaries): what to change; a dictionary with the key 'params'
      has options of its own for its group
    - `lr` (float or Tensor, default 1e-2): a = max(eps[1], rms(p)) min(lr, 1 / sqrt(t))
    - `beta2_decay` (float, default -0.8): the means of g² have the weight t^beta2_decay for the newest
    - `eps` (two floats, default (None, 1e-3)): the least sqrt(v) that counts (None: `finfo` of p's dtype), and the least
      rms(p)
    - `d` (float, default 1.0): larger updates are scaled down to this rms
    - `weight_decay` (float, default 0.0): in each step p shrinks by lr weight_decay p
    - `maximize` (bool, default False): goes up instead of down
    - `foreach` (bool, default None): changes nothing: there is one implementation

    ValueError for rates out of range. Source: Shazeer and Stern, Adafactor: Adaptive Learning Rates with Sublinear
    Memory Cost, 2018, algorithms 4 and 5.

    Example::

        >>> import ferro
        >>> w = ferro.ones(2, 3, requires_grad=True)
        >>> optimizer = ferro.optim.Adafactor([w], lr=0.1)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w.detach().round(decimals=4)
        tensor([[0.9000, 0.9000, 0.9000],
                [0.9000, 0.9000, 0.9000]])
    """

    _not_negative = ()
    _takes_complex = False

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_one_number("lr", lr)
        should(lr >= 0.0, "Learning rate should be >= 0", lr)
        should(beta2_decay <= 0.0, "beta2_decay should be <= 0", beta2_decay)
        should(eps[0] is None or eps[0] >= 0.0, "epsilon1 should be >= 0", eps[0])
        should(eps[1] >= 0.0, "epsilon2 should be >= 0", eps[1])
        should(d >= 1.0, "Clipping threshold d should be >= 1", d)
        should(weight_decay >= 0.0, "weight_decay should be >= 0", weight_decay)
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _begun(param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if param.ndim < 2:
            if hasattr(param, "_spec"):
                return {"step": new_step(), "variance": param.new_zeros(param.shape)}
            return begin_with_zeros(param, group, "variance")
        row, column = (*param.shape[:-1], 1), (*param.shape[:-2], 1, param.shape[-1])
        return {"step": new_step(), "row_var": param.new_zeros(row), "col_var": param.new_zeros(column)}

    @staticmethod
    def _update(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        spec = getattr(param, "_spec", None)
        if (
            spec is not None
        ):  # a DTensor: every rank steps the whole, with the small state of the whole, and takes its part
            whole = wrap(spec.whole_of(param._data).copy())
            Adafactor._update(whole, wrap(spec.whole_of(grad._data)), state, group)
            param.copy_(whole)
            return
        matrix = grad.ndim > 1
        step, lr = counted(state, group), float(group["lr"])
        eps1, eps2 = group["eps"]
        eps1 = finfo(param.dtype).eps if eps1 is None else eps1
        rms = param.norm(2).item() / param.numel() ** 0.5
        size = max(eps2, rms) * min(lr, 1 / step**0.5)
        if group["weight_decay"] != 0:
            param.mul_(1 - lr * group["weight_decay"])
        newest = step ** group["beta2_decay"]
        if matrix:
            rows, columns = state["row_var"], state["col_var"]
            rows.lerp_((grad * grad).mean(-1, keepdim=True), newest)
            columns.lerp_((grad * grad).mean(-2, keepdim=True), newest)
            square = (rows @ columns).div_(rows.mean(-2, keepdim=True).clamp_(min=eps1))
        else:
            square = state["variance"].lerp_(grad * grad, newest).clone()
        update = square.clamp_(min=eps1 * eps1).rsqrt_().mul_(grad)
        too_large = update.norm(2).item() / (update.numel() ** 0.5 * group["d"])
        param.add_(update, alpha=-size / max(1.0, too_large))
