"""Distributions that are given by probabilities or logits: one of the two is stored, the other computed when asked for."""

from __future__ import annotations

from typing import Any

from ferro.core.size import Size
from ferro.tensor import Tensor

from . import constraints
from .distribution import Distribution
from .utils import lazy_property, logits_to_probs, probs_to_logits


def one_of(probs: Any, logits: Any) -> Any:
    """The one of the two that is given; ValueError unless exactly one is."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return logits if probs is None else probs


class ByProbability(Distribution):
    """Distributions with `probs` or `logits`, of one event each (binary), or along the last dimension."""

    _binary = True
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}

    def _give(self, name: str, value: Tensor) -> None:
        """Stores the parameter that was given, `name` being "probs" or "logits"."""
        self._given = name
        setattr(self, name, value)

    @lazy_property
    def logits(self) -> Tensor:
        """Log odds, or log probabilities along the last dimension."""
        return probs_to_logits(self.probs, is_binary=self._binary)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return logits_to_probs(self.logits, is_binary=self._binary)

    @property
    def _param(self) -> Tensor:
        return getattr(self, self._given)

    @property
    def param_shape(self) -> Size:
        """The shape of `probs` and `logits`."""
        return self._param.shape
