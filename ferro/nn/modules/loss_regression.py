"""Losses of numbers: absolute, squared, Huber's, and likelihoods of Poisson and normal distributions."""

from __future__ import annotations

from ferro.tensor import Tensor

from .. import functional as F
from .loss_base import _Loss


class L1Loss(_Loss):
    """The absolute error |x - y| of an input x and a target y.

    - `reduction` (str, default 'mean'): 'mean', 'sum', or 'none', one number for each element
    - `size_average`, `reduce` (bool, default None): old names of `reduction`; they warn

    Shapes: input and target have one shape; the result is (), or that shape with 'none'. A target of another shape
    broadcasts, with a warning: that is nearly always a mistake.

    Example::

        >>> import ferro
        >>> ferro.nn.L1Loss(reduction="sum")(ferro.tensor([1.0, 2.0]), ferro.tensor([1.0, 4.0]))
        tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """The squared error (x - y)² of an input x and a target y.

    - `reduction` (str, default 'mean'): 'mean', 'sum', or 'none', one number for each element
    - `size_average`, `reduce` (bool, default None): old names of `reduction`; they warn

    Shapes: input and target have one shape; the result is (), or that shape with 'none'. A target of another shape
    broadcasts, with a warning: that is nearly always a mistake.

    Example::

        >>> import ferro
        >>> ferro.nn.MSELoss()(ferro.tensor([1.0, 2.0]), ferro.tensor([1.0, 4.0]))
        tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """d² / (2 beta) where d = |x - y| < beta, d - beta / 2 otherwise: squared near 0, absolute far away.

    - `beta` (float, default 1.0): where the one ends and the other begins; 0 gives L1Loss, less is a RuntimeError at
      the first call
    - `reduction` (str, default 'mean'): 'mean', 'sum', or 'none', one number for each element
    - `size_average`, `reduce` (bool, default None): old names of `reduction`; they warn

    Shapes: input and target have one shape; the result is (), or that shape with 'none'. Source: Girshick, Fast R-CNN,
    2015.

    Example::

        >>> import ferro
        >>> ferro.nn.SmoothL1Loss(reduction="none")(ferro.tensor([0.5, 3.0]), ferro.zeros(2))
        tensor([0.1250, 2.5000])
    """

    beta: float

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """d² / 2 where d = |x - y| <= delta, delta (d - delta / 2) otherwise: outliers count less than in MSELoss.

    - `reduction` (str, default 'mean'): 'mean', 'sum', or 'none', one number for each element
    - `delta` (float, default 1.0): where the parabola ends; TypeError if it is no number, RuntimeError at the first
      call unless it is above 0

    Shapes: input and target have one shape; the result is (), or that shape with 'none'. Source: Huber, Robust
    Estimation of a Location Parameter, 1964.

    Example::

        >>> import ferro
        >>> ferro.nn.HuberLoss(reduction="none", delta=2.0)(ferro.tensor([1.0, 3.0]), ferro.zeros(2))
        tensor([0.5000, 4.0000])
    """

    delta: float

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        if not isinstance(delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class PoissonNLLLoss(_Loss):
    """The negative log likelihood of counts under Poisson distributions: rate - target log(rate).

    - `log_input` (bool, default True): the input is log(rate); False: the rate itself
    - `full` (bool, default False): True adds Stirling's approximation of log(target!) for targets above 1
    - `eps` (float, default 1e-8): added to the rate before its logarithm is taken, with log_input=False
    - `reduction` (str, default 'mean'): 'mean', 'sum', or 'none', one number for each element
    - `size_average`, `reduce` (bool, default None): old names of `reduction`; they warn

    Shapes: input and target broadcast; the result is (), or their shape with 'none'.

    Example::

        >>> import ferro
        >>> ferro.nn.PoissonNLLLoss()(ferro.tensor([0.0, 0.0]), ferro.tensor([3.0, 5.0]))
        tensor(1.)
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(_Loss):
    """The negative log likelihood of the target under normal distributions: (log(var) + (input - target)² / var) / 2.

    - `full` (bool, default False): True adds the constant log(2 π) / 2
    - `eps` (float, default 1e-6): a variance counts as at least this
    - `reduction` (str, default 'mean'): 'mean', 'sum', or 'none', one number for each element

    Called as `loss(input, target, var)`; the input is the mean. Shapes: input and target have one shape, var the same,
    with 1 for the last size, or without it; the result is (), or that shape with 'none'. ValueError for a negative
    variance and for sizes of var that do not fit. Source: Nix and Weigend, Estimating the Mean and Variance of the
    Target Probability Distribution, 1994.

    Example::

        >>> import ferro
        >>> ferro.nn.GaussianNLLLoss()(ferro.tensor([1.0, 2.0]), ferro.tensor([1.0, 4.0]), ferro.ones(2))
        tensor(1.)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)
