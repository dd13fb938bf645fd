"""ExponentialFamily: entropy from the derivatives of the log normaliser."""

from __future__ import annotations

from typing import Any

from ferro._public import ferro
from ferro.tensor import Tensor

from .distribution import Distribution
from .utils import Missing

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Densities exp(<t(x), θ> - F(θ) + k(x)) with natural parameters θ, log normaliser F and carrier measure k.

    A subclass gives `_natural_params`, `_log_normalizer` and `_mean_carrier_measure`; the entropy F(θ) - <θ, ∇F(θ)> -
    E[k] (Nielsen and Nock, "Entropies and cross-entropies of exponential families", 2010) and the divergence of two of
    one family follow.
    """

    _mean_carrier_measure: Any = Missing("E[k(x)], a number or a tensor.")

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError(f"{type(self)} does not implement _natural_params")

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self)} does not implement _log_normalizer")

    def entropy(self) -> Tensor:
        with ferro.enable_grad():
            parameters = [p.detach().requires_grad_() for p in self._natural_params]
            normaliser = self._log_normalizer(*parameters)
            slopes = ferro.autograd.grad(normaliser.sum(), parameters, create_graph=True)
        result = normaliser - self._mean_carrier_measure
        for p, slope in zip(parameters, slopes, strict=True):
            result = result - (p * slope).reshape((*self._batch_shape, -1)).sum(-1)
        return result
