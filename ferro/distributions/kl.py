"""kl_divergence and register_kl: which formula answers for two distributions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ferro._public import ferro
from ferro.tensor import Tensor

from .distribution import Distribution
from .exp_family import ExponentialFamily
from .utils import _sum_rightmost

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}


def register_kl(type_p: type, type_q: type) -> Callable:
    """Decorator: registers ``function(p, q)`` for two classes of distributions and their subclasses.

    Where several pairs of classes fit, the most specific one answers, first by p, then by q; if it is another one by q
    first, a RuntimeWarning says which pair to register.  Any class may be given, a base of distributions that is none itself,
    too, as in PyTorch; TypeError for what is no class.
    """
    for name, given in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(given, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {given}")

    def register(function: Callable) -> Callable:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()  # (what was looked up may have another answer now)
        return function

    return register


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The function for two classes, or NotImplemented."""
    fitting = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not fitting:
        return NotImplemented
    # the place in the order of base classes: the nearest first
    near_p, near_q = type_p.__mro__.index, type_q.__mro__.index
    left = min(fitting, key=lambda pair: (near_p(pair[0]), near_q(pair[1])))
    right = min(fitting, key=lambda pair: (near_q(pair[1]), near_p(pair[0])))
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({left[0].__name__}, "
            f"{right[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[left]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q) = E_p[ln p(x) - ln q(x)], of the shape of the batch.

    NotImplementedError where no formula is registered for the two classes.

    Example::

        >>> from ferro.distributions import Normal, kl_divergence
        >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0)).item()
        0.5
    """
    key = type(p), type(q)
    if key not in _KL_MEMOIZE:
        _KL_MEMOIZE[key] = _dispatch_kl(*key)
    function = _KL_MEMOIZE[key]
    if function is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}; "
            "register one with register_kl, or estimate it from samples and log_prob"
        )
    return function(p, q)


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p: Any, q: Any) -> Tensor:
    """F(θ_q) - F(θ_p) - <θ_q - θ_p, ∇F(θ_p)>, the Bregman divergence of the log normaliser."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman divergences: "
            f"got {type(p).__name__} and {type(q).__name__}"
        )
    with ferro.enable_grad():
        ours = [x.detach().requires_grad_() for x in p._natural_params]
        normaliser = p._log_normalizer(*ours)
        slopes = ferro.autograd.grad(normaliser.sum(), ours, create_graph=True)
    theirs = q._natural_params
    result = q._log_normalizer(*theirs) - normaliser
    for a, b, slope in zip(ours, theirs, slopes, strict=True):
        result = result - _sum_rightmost((b - a) * slope, len(q.event_shape))
    return result
