"""Rprop: steps whose sizes follow from the signs of the gradient alone."""

from __future__ import annotations

from typing import Any, ClassVar

from ferro.ops.choices import where
from ferro.ops.creation import full_like
from ferro.tensor import Tensor

from .fused import stepped
from .optimizer import Params
from .options import check
from .per_parameter import PerParameterOptimizer, begin_with_zeros, counted


class Rprop(PerParameterOptimizer):
    """p ← p - s sign(g); s grows by etas[1] while the sign stays, and shrinks by etas[0] where it changes (p waits
    there).

    - `params` (tensors, pairs of name and tensor, or dictionaries): what to change; a dictionary with the key 'params'
      has options of its own for its group
    - `lr` (float or Tensor, default 1e-2): s at the start
    - `etas` (two floats, default (0.5, 1.2)): the first between 0 and 1, the second above 1, else ValueError
    - `step_sizes` (two floats, default (1e-6, 50)): the smallest and the largest s
    - `maximize` (bool, default False): goes up instead of down
    - `differentiable` (bool, default False): True records the steps, so that gradients pass through them
    - `capturable` (bool, default False): a CUDA graph may record steps: what they count lies on the device; no effect on the CPU
    - `foreach` (bool, default None): changes nothing: there is one implementation

    It is for whole data sets: the sign of the gradient of a batch changes too often. ValueError for rates out of range
    and for no parameters. Source: Riedmiller and Braun, A Direct Adaptive Method for Faster Backpropagation Learning:
    The RPROP Algorithm, 1993.

    Example::

        >>> import ferro
        >>> w = ferro.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = ferro.optim.Rprop([w], lr=0.1)
        >>> for _ in range(100):
        ...     optimizer.zero_grad()
        ...     (w**2).sum().backward()
        ...     optimizer.step()
        >>> w.abs().max() < 0.05
        tensor(True)
    """

    _not_negative = ("lr",)
    _lists: ClassVar = {"prevs": "prev", "step_sizes": "step_size", "state_steps": "step"}

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check(0.0 < etas[0] < 1.0 < etas[1], "eta values", f"{etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _begun(param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {**begin_with_zeros(param, group, "prev"), "step_size": full_like(param, float(group["lr"]))}

    @staticmethod
    def _update(param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        previous, size = state["prev"], state["step_size"]
        (smaller, larger), (least, most) = group["etas"], group["step_sizes"]
        given = {"smaller": smaller, "larger": larger, "least": least, "most": most}
        kept = {"before": previous, "size": size}
        if stepped("rprop", (), param, grad, state["step"], kept, given):
            return
        counted(state, group)
        turned = grad * previous
        size.copy_(
            where(turned > 0, size * larger, where(turned < 0, size * smaller, size)).clamp_(*group["step_sizes"])
        )
        grad = where(turned < 0, 0, grad)
        param.addcmul_(grad.sign(), size, value=-1)
        previous.copy_(grad)


def rprop(
    params: list[Tensor],
    grads: list[Tensor],
    prevs: list[Any],
    step_sizes: list[Any],
    state_steps: list[Any],
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """One step of Rprop for each parameter, in place, with its state given as lists: what `step` does."""
    Rprop._step_lists(locals())
