"""Negative log likelihoods of numbers: of Poisson and of normal distributions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend
from ferro.core.arguments import need_tensor
from ferro.core.backend import xp_of
from ferro.core.base import wrap
from ferro.core.casting import in_full_precision
from ferro.core.requirements import require
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.entropy import reduced, reduction_of
from ferro.ops.mistakes import no_broadcast

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["gaussian_nll_loss", "poisson_nll_loss"]


@in_full_precision
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log-likelihood of Poisson counts y, up to log y!: eˣ - y x, or x - y log(x + eps) without `log_input`.

    - `input` (Tensor): x, the logarithm of the expected counts, or these themselves
    - `target` (Tensor): y, the counts, in the shape of `input`
    - `log_input` (bool, default True): whether x is the logarithm
    - `full` (bool, default False): adds Stirling's approximation of log y! where y > 1
    - `size_average`, `reduce` (bool, default None): deprecated, use `reduction`
    - `eps` (float, default 1e-08): keeps the logarithm finite without `log_input`
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean

    The result is 0-d, or in the shape of `input` with reduction "none". ValueError for another reduction, RuntimeError
    for shapes that do not broadcast.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.poisson_nll_loss(ferro.zeros(2), ferro.tensor([1.0, 2.0]), reduction="none")
        tensor([1., 1.])
    """
    reduction = reduction_of("poisson_nll_loss", reduction, size_average, reduce)
    no_broadcast("poisson_nll_loss", input, target)
    if log_input:
        loss = input.exp() - target * input
    else:
        loss = input - target * (input + eps).log()
    if full:
        large = backend.functional.where(target > 1, target, 1)
        stirling = large * large.log() - large + 0.5 * (large * (2 * math.pi)).log()
        loss = loss + backend.functional.where(target > 1, stirling, 0)
    return reduced(loss, reduction)


declare(
    "nn.functional.poisson_nll_loss",
    [
        Sample(Arg(3, 4), Arg(3, 4, low=0.1, high=4)),
        Sample(Arg(5), Arg(5, low=0.1, high=4), full=True, reduction="sum"),
        Sample(Arg(3, 4, low=0.1), Arg(3, 4, low=0.1), log_input=False, reduction="none"),
    ],
)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Minus the log-likelihood of normal numbers y: (log v + (x - y)² / v) / 2 with v = max(var, eps).

    - `input`, `target` (Tensor): x, the expected values, and y, of one shape
    - `var` (Tensor or float): the variances, in the shape of `input`, in that without its last dimension, or with one
      dimension of size 1
    - `full` (bool, default False): adds the constant log(2π) / 2
    - `eps` (float, default 1e-06): the least variance; the derivative passes through this bound unchanged
    - `reduction` (str, default "mean"): "none" gives the loss of each element, "sum" their sum, "mean" their mean

    The result is 0-d, or in the shape of `input` with reduction "none". ValueError for negative variances, variances of
    another shape and another reduction.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> F.gaussian_nll_loss(ferro.tensor([1.0, 2.0]), ferro.tensor([1.0, 4.0]), ferro.ones(2), reduction="none")
        tensor([0., 2.])
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(
            f"gaussian_nll_loss: {reduction} is not valid as reduction; allowed are 'none', 'mean' and 'sum'"
        )
    need_tensor("gaussian_nll_loss", "input", input)
    no_broadcast("gaussian_nll_loss", input, target)
    if isinstance(var, (int, float)):
        var = backend.functional.full_like(input, var)
    v, x = var._data, input._data
    require(~(v < 0), ValueError, "gaussian_nll_loss: var has negative entry/entries")
    if v.shape != x.shape:
        if x.shape[:-1] == v.shape:
            var = var.unsqueeze(-1)
        elif x.ndim != v.ndim or sum(b for a, b in zip(x.shape, v.shape, strict=True) if a != b) != 1:
            raise ValueError(
                f"gaussian_nll_loss: var is of incorrect size {list(v.shape)}; allowed is "
                f"the input's {list(x.shape)}, that without its last dimension, or with "
                "one dimension of size 1"
            )
    # max(var, eps), but with the derivative of var itself
    v = var._data
    floor = wrap(xp_of(v).clamp(v, np.asarray(eps, v.dtype), None) - v)
    var = var + floor
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction)


declare(
    "nn.functional.gaussian_nll_loss",
    [
        Sample(Arg(3, 4), Arg(3, 4), Arg(3, 4, low=0.1)),
        Sample(Arg(3, 4), Arg(3, 4), Arg(3, low=0.1), full=True),
        Sample(Arg(3, 4), Arg(3, 4), Arg(3, 1, low=0.1), reduction="none"),
        Sample(Arg(3, 4), Arg(3, 4), 0.5),
    ],
)
