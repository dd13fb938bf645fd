"""ASGD: stochastic gradient descent that also averages the parameters over the steps."""

from __future__ import annotations

from typing import Any, ClassVar

from ferro.ops.likes import zeros_like
from ferro.tensor import Tensor

from .fused import Counting, stepped, used
from .optimizer import Params
from .per_parameter import PerParameterOptimizer, counted, decayed, is_there, new_count


class ASGD(PerParameterOptimizer):
    """p ← (1 - lambd eta) p - eta g,  eta = lr / (1 + lambd lr t)^alpha; from step t0 on, the state "ax" is the mean of
    p.

    - `params` (tensors, pairs of name and tensor, or dictionaries): what to change; a dictionary with the key 'params'
      has options of its own for its group
    - `lr` (float or Tensor, default 1e-2): the learning rate
    - `lambd` (float, default 1e-4): how fast the rate falls, and p with it
    - `alpha` (float, default 0.75): the exponent of the rate
    - `t0` (float, default 1e6): the step at which averaging begins
    - `weight_decay` (float, default 0): so much of p is added to its gradient
    - `maximize` (bool, default False): goes up instead of down
    - `differentiable` (bool, default False): True records the steps, so that gradients pass through them
    - `capturable` (bool, default False): a CUDA graph may record steps: what they count lies on the device; no effect on the CPU
    - `foreach` (bool, default None): changes nothing: there is one implementation

    ValueError for rates out of range and for no parameters. Source: Polyak and Juditsky, Acceleration of Stochastic
    Approximation by Averaging, 1992.

    Example::

        >>> import ferro
        >>> w = ferro.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = ferro.optim.ASGD([w], lr=0.1)
        >>> for _ in range(100):
        ...     optimizer.zero_grad()
        ...     (w**2).sum().backward()
        ...     optimizer.step()
        >>> w.abs().max() < 0.05
        tensor(True)
    """

    _not_negative = ("lr", "weight_decay")
    _lists: ClassVar = {"axs": "ax", "mus": "mu", "etas": "eta", "state_steps": "step"}

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _begun(param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": new_count(param, group),
            "eta": new_count(param, group, float(group["lr"])),
            "mu": new_count(param, group, 1.0),
            "ax": zeros_like(param),
        }

    @staticmethod
    def _update(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        lr, lambd = float(group["lr"]), group["lambd"]
        if _by_kernel(param, grad, state, group, lr):
            return
        step, average = counted(state, group), state["ax"]
        grad = decayed(param, grad, group)
        if isinstance(step, Tensor):
            eta, mu = state["eta"], state["mu"]
            param.mul_(1 - lambd * eta).addcmul_(grad, eta, value=-1)
            average.add_(param.sub(average).mul_(mu))
            eta.copy_(lr / (1 + lambd * lr * step) ** group["alpha"])
            mu.copy_(1 / (step - group["t0"]).clamp(min=1))
            return
        eta, mu = state["eta"].item(), state["mu"].item()
        param.mul_(1 - lambd * eta).add_(grad, alpha=-eta)
        if mu == 1:
            average.copy_(param)
        else:
            average.add_(param.sub(average), alpha=mu)
        _next_rates(state, group, lr, step)


def _by_kernel(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: float) -> bool:
    """Whether a backend does the step by the formula, and then makes the rates of the next one where they lie."""
    count, kept = state["step"], {"ax": state["ax"]}
    given = {"lr": lr, "lambd": group["lambd"], "decay": group["weight_decay"]}
    if is_there(count):
        rates = {"eta": state["eta"], "mu": state["mu"]}
        numbers = lr, group["lambd"], group["alpha"], group["t0"]
        counting = Counting("count_rates", (count, *rates.values()), numbers, behind=True)
        return stepped("asgd", used(group), param, grad, count, kept, given | rates, counting)
    given |= {"eta": state["eta"].item(), "mu": state["mu"].item()}
    if not stepped("asgd", used(group), param, grad, count, kept, given):
        return False
    _next_rates(state, group, lr, count.item())
    return True


def _next_rates(state: dict[str, Any], group: dict[str, Any], lr: float, step: float) -> None:
    """The rate of the next step, and the share that it has in the mean."""
    state["eta"].fill_(lr / (1 + group["lambd"] * lr * step) ** group["alpha"])
    state["mu"].fill_(1 / max(1, step - group["t0"]))


def asgd(
    params: list[Tensor],
    grads: list[Tensor],
    axs: list[Any],
    mus: list[Any],
    etas: list[Any],
    state_steps: list[Any],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: float | Tensor,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """One step of ASGD for each parameter, in place, with its state given as lists: what `step` does."""
    ASGD._step_lists(locals())
