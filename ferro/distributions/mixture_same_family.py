"""MixtureSameFamily: mixtures whose components are one batch of a distribution."""

from __future__ import annotations

from typing import Any

from ferro._public import ferro
from ferro.core.size import Size
from ferro.tensor import Tensor

from . import constraints
from .categorical import Categorical
from .distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """The mixture, weighted by a Categorical, of the components along the last batch dimension of a distribution.

    Example::

        >>> from ferro.distributions import Categorical, MixtureSameFamily, Normal
        >>> weights = Categorical(ferro.tensor([0.5, 0.5]))
        >>> MixtureSameFamily(weights, Normal(ferro.tensor([-1.0, 1.0]), 1.0)).variance.item()
        2.0
    """

    arg_constraints: Any = {}
    has_rsample = False

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of torch.distributions.Categorical, got "
                f"{type(mixture_distribution).__name__}"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of torch.distributions.Distribution, got "
                f"{type(component_distribution).__name__}"
            )
        batch, components = mixture_distribution.batch_shape, component_distribution.batch_shape
        for i, j in zip(reversed(batch), reversed(components[:-1]), strict=False):
            if i != 1 and j not in (1, i):
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({batch}) is not compatible with "
                    f"`component_distribution.batch_shape`({components[:-1]})"
                )
        self._num_component = mixture_distribution._num_events
        if self._num_component != components[-1]:
            raise ValueError(
                f"`mixture_distribution component` ({self._num_component}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({components[-1]})"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        super().__init__(components[:-1], component_distribution.event_shape, validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        # the weights may have fewer batch dimensions than the components: they take all of the new ones
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        return super().expand(batch_shape, new)

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The weights."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components, along the last batch dimension."""
        return self._component_distribution

    @property
    def _dim(self) -> int:
        """The dimension of the components in their samples."""
        return -1 - len(self._event_shape)

    def _averaged(self, values: Tensor) -> Tensor:
        """The weighted sum over the components of values of their samples' shape."""
        weights = self.mixture_distribution.probs
        return (weights.reshape(weights.shape + (1,) * len(self._event_shape)) * values).sum(self._dim)

    @property
    def mean(self) -> Tensor:
        return self._averaged(self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        component = self.component_distribution
        between = (component.mean - self.mean.unsqueeze(self._dim)) ** 2
        return self._averaged(component.variance) + self._averaged(between)

    def cdf(self, value: Any) -> Tensor:
        inner = self.component_distribution.cdf(value.unsqueeze(self._dim))
        return (inner * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Any) -> Tensor:
        inner = self.component_distribution.log_prob(self._checked(value).unsqueeze(self._dim))
        weights = ferro.log_softmax(self.mixture_distribution.logits, dim=-1)
        return (inner + weights).logsumexp(dim=-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with ferro.no_grad():
            chosen = self.mixture_distribution.sample(sample_shape)
            drawn = self.component_distribution.sample(sample_shape)
            dim = len(Size(sample_shape)) + len(self._batch_shape)
            index = chosen.reshape(chosen.shape + (1,) * (len(self._event_shape) + 1))
            index = index.expand(drawn.shape[:dim] + (1,) + self._event_shape)
            return drawn.gather(dim, index).squeeze(dim)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n  {self.mixture_distribution},\n  {self.component_distribution})"
