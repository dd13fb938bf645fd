"""Transforms of numbers: each element by itself."""

from __future__ import annotations

import math
from numbers import Number
from typing import Any

from ferro._public import ferro
from ferro.nn.functional import softplus
from ferro.tensor import Tensor

from . import constraints
from ._transform import Transform
from .utils import _sum_rightmost, broadcast_all, lazy_property

__all__ = ["AbsTransform", "AffineTransform", "CumulativeDistributionTransform", "ExpTransform", "PowerTransform",
           "SigmoidTransform", "SoftplusTransform", "TanhTransform"]  # fmt: skip


class ExpTransform(Transform):
    """y = exp x."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1
    _compared = ()

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class _Broadcasting(Transform):
    """Transforms with parameters that broadcast against what they transform."""

    _parameters: tuple[str, ...] = ()

    def forward_shape(self, shape: Any) -> Any:
        return ferro.broadcast_shapes(shape, *(getattr(getattr(self, name), "shape", ()) for name in self._parameters))

    def inverse_shape(self, shape: Any) -> Any:
        return self.forward_shape(shape)


class PowerTransform(_Broadcasting):
    """y = x ** exponent, of positive x."""

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True
    _parameters = _compared = ("exponent",)

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)

    @lazy_property
    def sign(self) -> Any:  # type: ignore[override]
        return self.exponent.sign()

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()


def clipped_sigmoid(x: Tensor) -> Tensor:
    """The sigmoid, kept within the open interval (0, 1)."""
    info = ferro.finfo(x.dtype)
    return ferro.sigmoid(x).clamp(min=info.tiny, max=1.0 - info.eps)


class SigmoidTransform(Transform):
    """y = 1 / (1 + exp(-x)), kept within the open interval."""

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = +1
    _compared = ()

    def _call(self, x: Any) -> Any:
        return clipped_sigmoid(x)

    def _inverse(self, y: Any) -> Any:
        info = ferro.finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1.0 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Transform):
    """y = ln(1 + exp x)."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1
    _compared = ()

    def _call(self, x: Any) -> Any:
        return softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x)


class TanhTransform(Transform):
    """y = tanh x; better conditioned than a sigmoid and an affine map."""

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = +1
    _compared = ()

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        # 1 - tanh² x = 4 / (e^x + e^-x)², without cancellation
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Transform):
    """y = |x|; its inverse takes the positive x."""

    domain = constraints.real
    codomain = constraints.positive
    _compared = ()

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class AffineTransform(_Broadcasting):
    """y = loc + scale x.

    - `loc` (float or Tensor): added
    - `scale` (float or Tensor): the factor
    - `event_dim` (int, default 0): how many last dimensions make one event; the log determinant is summed over them
    - `cache_size` (int, default 0): 1 keeps the last x and y

    Example::

        >>> import ferro
        >>> from ferro.distributions import AffineTransform
        >>> t = AffineTransform(1.0, 2.0)
        >>> t(ferro.tensor(3.0)), t.inv(ferro.tensor(7.0))
        (tensor(7.), tensor(3.))
    """

    bijective = True
    _parameters = _compared = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    def _real(self) -> Any:
        return constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return self._real()

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return self._real()

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    @property
    def sign(self) -> Any:
        scale = self.scale
        return (scale > 0) - (scale < 0) if isinstance(scale, Number) else scale.sign()  # type: ignore[operator]

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        scale = self.scale
        if isinstance(scale, Number):
            slopes = ferro.full_like(x, math.log(abs(scale)))  # type: ignore[arg-type]
        else:
            slopes = scale.abs().log()
        shape = x.shape[: -self.event_dim] if self.event_dim else x.shape
        return _sum_rightmost(slopes, self.event_dim).expand(shape)


class CumulativeDistributionTransform(Transform):
    """y = cdf(x) of a distribution of numbers; its inverse is the icdf."""

    bijective = True
    codomain = constraints.unit_interval
    sign = +1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
