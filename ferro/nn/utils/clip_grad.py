"""Gradient clipping: by the norm of all gradients together, or element by element."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from types import GeneratorType

from ferro.autograd.grad_mode import no_grad
from ferro.ops.creation import zeros
from ferro.ops.joining import stack
from ferro.tensor import Tensor


def _listed(tensors: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [param.grad for param in _listed(parameters) if param.grad is not None]


def _in_parts(parameters: list[Tensor]) -> list[Tensor]:
    """The gradients; those of DTensors as such."""
    if not any(hasattr(param, "_spec") for param in parameters):
        return _gradients(parameters)
    from ferro.distributed.tensor.dtensor import like  # (its package is imported)

    return [like(p.grad, p) if hasattr(p, "_spec") else p.grad for p in parameters if p.grad is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The p-norm of tensors taken as one long vector.

    - `tensors` (Tensor or several): any shapes; with DTensors the norm is that of the wholes, and all ranks must ask for it
    - `norm_type` (float, default 2.0): p; inf is the largest element
    - `error_if_nonfinite` (bool, default False): True raises RuntimeError for an infinite norm or nan
    - `foreach` (bool, default None): changes nothing

    The result is ().

    Example::

        >>> import ferro
        >>> ferro.nn.utils.get_total_norm([ferro.tensor([3.0]), ferro.tensor([[4.0]])])
        tensor(5.)
    """
    tensors = _listed(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return zeros(())
    if any(hasattr(tensor, "_spec") for tensor in tensors):
        from ferro.distributed.tensor.norms import norm_of_parts  # (DTensors: their package is imported)

        total = norm_of_parts(tensors, norm_type)
        return _finite(total, norm_type) if error_if_nonfinite else total
    with no_grad():
        norms = stack([tensor.detach().norm(norm_type) for tensor in tensors])
        total = norms.max() if norm_type == math.inf else norms.norm(norm_type)
    return _finite(total, norm_type) if error_if_nonfinite else total


def _finite(total: Tensor, norm_type: float) -> Tensor:
    """The norm; RuntimeError if it is infinite or nan."""
    if not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scales gradients in place by max_norm / total_norm, never up: the second half of `clip_grad_norm_`.

    - `parameters` (Tensor or several): those with a gradient count
    - `max_norm` (float): the largest norm
    - `total_norm` (Tensor): the norm they have, from `get_total_norm`
    - `foreach` (bool, default None): changes nothing

    Example::

        >>> import ferro
        >>> w = ferro.zeros(2, requires_grad=True)
        >>> (w @ ferro.tensor([3.0, 4.0])).backward()
        >>> ferro.nn.utils.clip_grads_with_norm_([w], 1.0, ferro.tensor(10.0))
        >>> w.grad
        tensor([0.3000, 0.4000])
    """
    with no_grad():
        # The 1e-6 is PyTorch's; clamping instead of branching keeps non-finite norms visible in the gradients.
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        for grad in _gradients(parameters):
            grad.mul_(factor.to(grad.dtype))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales gradients in place so that their common norm is at most max_norm; returns the norm they had.

    - `parameters` (Tensor or several): those with a gradient count
    - `max_norm` (float): the largest norm
    - `norm_type` (float, default 2.0): its exponent; inf is the largest element
    - `error_if_nonfinite` (bool, default False): True raises RuntimeError for an infinite norm or nan
    - `foreach` (bool, default None): changes nothing

    Source: Pascanu, Mikolov and Bengio, On the Difficulty of Training Recurrent Neural Networks, 2013.

    Example::

        >>> import ferro
        >>> w = ferro.zeros(2, requires_grad=True)
        >>> (w @ ferro.tensor([3.0, 4.0])).backward()
        >>> ferro.nn.utils.clip_grad_norm_([w], max_norm=1.0)
        tensor(5.)
        >>> w.grad
        tensor([0.6000, 0.8000])
    """
    generator = isinstance(parameters, GeneratorType)
    parameters = _listed(parameters)
    if generator and not parameters:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    total = get_total_norm(_in_parts(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The older name of `clip_grad_norm_` (FutureWarning).

    - `parameters` (Tensor or several): those with a gradient count
    - `max_norm` (float): the largest norm
    - `norm_type` (float, default 2.0): its exponent
    - `error_if_nonfinite` (bool, default False): True raises RuntimeError for an infinite norm or nan
    - `foreach` (bool, default None): changes nothing

    Example::

        >>> import ferro, warnings
        >>> w = ferro.zeros(2, requires_grad=True)
        >>> (w @ ferro.tensor([3.0, 4.0])).backward()
        >>> with warnings.catch_warnings(action="ignore"):
        ...     norm = ferro.nn.utils.clip_grad_norm([w], max_norm=1.0)
        >>> norm
        tensor(5.)
    """
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Clamps gradients in place to [-clip_value, clip_value].

    - `parameters` (Tensor or several): those with a gradient count
    - `clip_value` (float): the largest absolute value
    - `foreach` (bool, default None): changes nothing

    Example::

        >>> import ferro
        >>> w = ferro.zeros(2, requires_grad=True)
        >>> (w @ ferro.tensor([3.0, -0.5])).backward()
        >>> ferro.nn.utils.clip_grad_value_([w], 1.0)
        >>> w.grad
        tensor([ 1.0000, -0.5000])
    """
    clip_value = float(clip_value)
    with no_grad():
        for grad in _gradients(parameters):
            grad.clamp_(min=-clip_value, max=clip_value)
