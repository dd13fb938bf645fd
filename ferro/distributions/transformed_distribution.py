"""TransformedDistribution: the distribution of transformed random values."""

from __future__ import annotations

from typing import Any

from ferro._public import ferro
from ferro.core.size import Size
from ferro.tensor import Tensor

from . import constraints
from .distribution import Distribution, own_class
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of y = f(x) with x of `base_distribution` and f one Transform or a list of them.

    Example::

        >>> from ferro.distributions import Normal, TransformedDistribution
        >>> from ferro.distributions.transforms import ExpTransform
        >>> d = TransformedDistribution(Normal(0.0, 1.0), [ExpTransform()])
        >>> round(d.log_prob(ferro.tensor(1.0)).item(), 4)
        -0.9189
    """

    arg_constraints: Any = {}
    has_rsample: Any = property(lambda self: self.base_dist.has_rsample)

    def __init__(self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None) -> None:
        if isinstance(transforms, Transform):
            transforms = [transforms]
        elif not isinstance(transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        if not all(isinstance(t, Transform) for t in transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        self.transforms = transforms
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        base_dims = len(base_distribution.event_shape)
        whole = ComposeTransform(transforms)
        inner, outer = whole.domain.event_dim, whole.codomain.event_dim
        if len(base_shape) < inner:
            raise ValueError(f"base_distribution needs to have shape with size at least {inner}, but got {base_shape}.")
        # parameters of the transforms may broadcast the base's batch
        shape = whole.forward_shape(base_shape)
        expanded = whole.inverse_shape(shape)
        if tuple(base_shape) != tuple(expanded):
            base_distribution = base_distribution.expand(expanded[: len(expanded) - base_dims])
        if inner > base_dims:
            base_distribution = Independent(base_distribution, inner - base_dims)
        self.base_dist: Any = base_distribution
        event_dims = max(outer, base_dims + outer - inner)
        if len(shape) < event_dims:
            raise AssertionError(f"forward_shape length {len(shape)} must be >= event_dim {event_dims}")
        cut = len(shape) - event_dims
        super().__init__(shape[:cut], shape[cut:], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        # a transform may change the number of dimensions: the base's batch is found by going back through all
        shape = Size(batch_shape) + self.event_shape
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        new = self._get_checked_instance(own_class(type(self)), _instance)
        base_dims = len(self.base_dist.event_shape)
        new.base_dist = self.base_dist.expand(Size(shape[: len(shape) - base_dims]))
        return super().expand(batch_shape, new)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    def _forward(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with ferro.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Tensor:
        y = self._checked(value)
        dims = len(self.event_shape)
        result: Any = 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            volume = transform.log_abs_det_jacobian(x, y)
            result = result - _sum_rightmost(volume, dims - transform.domain.event_dim)
            y = x
        return result + _sum_rightmost(self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape))

    def _mirrored(self, probability: Any) -> Any:
        """p, or 1 - p where the transforms together decrease."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return probability if isinstance(sign, int) and sign == 1 else sign * (probability - 0.5) + 0.5

    def cdf(self, value: Any) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._mirrored(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Tensor:
        return self._forward(self.base_dist.icdf(self._mirrored(value)))
