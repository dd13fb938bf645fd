"""Distribution: shapes, validation, expansion and the questions that every distribution answers."""

from __future__ import annotations

import warnings
from typing import Any, Self

from ferro._public import ferro
from ferro.core.size import Size
from ferro.tensor import Tensor

from . import constraints
from .utils import Missing, lazy_property

__all__ = ["Distribution"]


class Distribution:
    """A probability distribution, or a batch of independent ones.

    A sample has the shape ``sample_shape + batch_shape + event_shape``.  Parameters are checked against `arg_constraints`
    and values against `support` unless ``validate_args=False``; a violation is a ValueError.  A subclass sets its
    parameters as attributes, broadcast to the batch shape, and calls this constructor; `expand` needs no code then.

    Example::

        >>> from ferro.distributions import Normal
        >>> d = Normal(ferro.zeros(3), ferro.ones(3))
        >>> d.batch_shape, d.event_shape, list(d.sample((5,)).shape)
        (ferro.Size([3]), ferro.Size([]), [5, 3])
    """

    arg_constraints: Any = Missing("The constraint of every parameter, by its name.")
    support: Any = Missing("The constraint that samples satisfy.")
    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions validate where ``validate_args`` is not given; at first they do (not under ``python -O``)."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args takes True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()
        super().__init__()  # (of a class that is a Module, too)

    def _validate_parameters(self) -> None:
        try:
            expected = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=4,
            )
            return
        for name, constraint in expected.items():
            derived = name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(constraint) or derived:
                continue  # (what is computed from the given parameters satisfies its constraint)
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        """The distribution with its batch expanded to `batch_shape`, sharing memory with this one.

        Tensors that `arg_constraints` names and inner distributions are expanded behind their batch dimensions; other
        attributes are taken as they are, and what was computed from the parameters is computed anew.
        """
        new = self._get_checked_instance(own_class(type(self)), _instance)
        batch_shape = Size(batch_shape)
        old = len(self._batch_shape)
        # (a subclass may name other parameters than the class that stores them: Chi2 is a Gamma)
        named = set(self.arg_constraints)
        for cls in type(self).__mro__:
            expected = cls.__dict__.get("arg_constraints")
            named.update(expected if isinstance(expected, dict) else ())
        for name, value in self.__dict__.items():
            if name in new.__dict__:
                continue  # (set by a subclass)
            if isinstance(value, Distribution):
                value = value.expand(batch_shape + value.batch_shape[old:])
            elif name in named and isinstance(value, Tensor):
                value = value.expand(batch_shape + value.shape[old:])
            elif isinstance(getattr(type(self), name, None), lazy_property):
                continue
            new.__dict__[name] = value
        new._batch_shape = batch_shape
        return new

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """An empty instance of the class of this distribution, or the one that a subclass has begun."""
        if _instance is None and type(self).__init__ is not cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must "
                "also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one event of one distribution."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError(f"{type(self)} does not implement mean")

    @property
    def mode(self) -> Tensor:
        """The most probable value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance of every element."""
        raise NotImplementedError(f"{type(self)} does not implement variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation of every element."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Random values of the shape ``sample_shape + batch_shape + event_shape``, without history."""
        with ferro.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Random values that are differentiable functions of the parameters (where `has_rsample` is true)."""
        raise NotImplementedError(
            f"{type(self)} does not implement rsample: its samples are no differentiable function of the "
            "parameters; use sample() and log_prob()"
        )

    def sample_n(self, n: int) -> Tensor:
        """``sample((n,))``; deprecated in PyTorch."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", category=FutureWarning, stacklevel=2
        )
        return self.sample((n,))

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density or probability at `value`."""
        raise NotImplementedError(f"{type(self)} does not implement log_prob")

    def cdf(self, value: Any) -> Tensor:
        """The probability of a value of at most `value`."""
        raise NotImplementedError(f"{type(self)} does not implement cdf")

    def icdf(self, value: Any) -> Tensor:
        """The value whose cdf is `value`."""
        raise NotImplementedError(f"{type(self)} does not implement icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution along a new first dimension; `expand` over the batch, or size 1 there."""
        raise NotImplementedError(f"{type(self)} does not implement enumerate_support")

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """`values`, of which the first dimension lists events, spread over the batch."""
        event = values.shape[1:]
        values = values.reshape((values.shape[0], *(1 for _ in self._batch_shape), *event))
        return values.expand((values.shape[0], *self._batch_shape, *event)) if expand else values

    def entropy(self) -> Tensor:
        """The entropy in nats, of the shape of the batch."""
        raise NotImplementedError(f"{type(self)} does not implement entropy")

    def perplexity(self) -> Tensor:
        """exp(entropy), of the shape of the batch."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size(sample_shape) + self._batch_shape + self._event_shape

    def _constant(self, number: float, like: Tensor) -> Tensor:
        """A number in the shape of one sample."""
        return ferro.full(self._extended_shape(), number, dtype=like.dtype, device=like.device)

    def _checked(self, value: Any) -> Any:
        """The value, validated if this distribution validates."""
        if self._validate_args:
            self._validate_sample(value)
        return value

    def _validate_sample(self, value: Any) -> None:
        """ValueError unless `value` is a tensor of fitting shape within the support."""
        if not isinstance(value, Tensor):
            raise ValueError(
                f"The value argument to log_prob must be a Tensor, not {type(value).__name__} (in {type(self).__name__})"
            )
        shape, event = value.shape, self._event_shape
        if shape[max(len(shape) - len(event), 0) :] != event:
            raise ValueError(f"The right-most size of value must match event_shape: {shape} vs {event}.")
        expected = self._batch_shape + event
        for i, j in zip(reversed(shape), reversed(expected), strict=False):
            if i != 1 and j not in (1, i):
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {expected}.")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the distribution "
                "with `validate_args=False` to turn off validation.",
                stacklevel=4,
            )
            return
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(shape)}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        given = [(name, self.__dict__[name]) for name in self.arg_constraints if name in self.__dict__]
        shown = [f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in given]
        return f"{type(self).__name__}({', '.join(shown)})"


def own_class(cls: type) -> type:
    """The class of ferro that `cls` is or derives from: its attributes are known, those of a subclass with another
    constructor are not."""
    return next(c for c in cls.__mro__ if c.__module__.partition(".")[0] == "ferro")
