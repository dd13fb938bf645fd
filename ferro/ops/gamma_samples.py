"""Samples of gamma and Dirichlet distributions, differentiable by their concentrations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import dtypes
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.looped import by_slices
from ferro.core.op import ELEMENTWISE, Op
from ferro.core.random import stream_of
from ferro.ops.special import no_derivative

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__: list[str] = []  # (PyTorch's names of these begin with an underscore)


def _need_floating(name: str, argument: str, value: Any) -> Any:
    """The array of a tensor of real floating-point numbers."""
    a = need_tensor(name, argument, value)._data
    if a.dtype not in dtypes.INEXACT or a.dtype.kind == "c":
        raise NotImplementedError(
            f"{name}: defined for floating-point tensors, not for {value.dtype}; cast `{argument}` first"
        )
    return a


def _need_alike(name: str, **tensors: Any) -> None:
    """RuntimeError unless the tensors have one shape and dtype."""
    found = {argument: (_need_floating(name, argument, t).shape, t.dtype) for argument, t in tensors.items()}
    if len(set(found.values())) > 1:
        given = ", ".join(f"{argument} of shape {list(s)} and {d}" for argument, (s, d) in found.items())
        raise RuntimeError(f"{name}: expected tensors of one shape and dtype, got {given}")


@by_slices
def standard_gamma(self: Tensor, generator: Any = None) -> Tensor:
    """Samples of Gamma(a, 1) for every a in a tensor: `torch._standard_gamma`.

    The derivative by a keeps the rank of a sample (implicit reparametrisation, see ferro/cpu/quantile_slopes.py); a
    second derivative by a does not exist and raises.
    """
    a = _need_floating("_standard_gamma", "self", self)
    return apply(STANDARD_GAMMA, (self,), (stream_of(generator, a).gamma(a),))


STANDARD_GAMMA = Op(
    "_standard_gamma",
    lambda xp, concentration, /, drawn: drawn,
    kind=ELEMENTWISE,
    weight=200.0,
    concentration=lambda xp, g, concentration, out: g * xp.standard_gamma_grad(concentration, out),
)


def standard_gamma_grad(self: Tensor, output: Tensor) -> Tensor:
    """dx/da of samples x (`output`) of Gamma(a, 1), a being `self`: `torch._standard_gamma_grad`."""
    _need_alike("_standard_gamma_grad", self=self, output=output)
    return apply(STANDARD_GAMMA_GRAD, (self, output))


STANDARD_GAMMA_GRAD = Op(
    "_standard_gamma_grad",
    lambda xp, a, x: xp.standard_gamma_grad(a, x),
    kind=ELEMENTWISE,
    a=lambda xp, g: no_derivative("_standard_gamma_grad", "self"),
    x=lambda xp, g: no_derivative("_standard_gamma_grad", "output"),
    weight=2000.0,
)


@by_slices
def sample_dirichlet(self: Tensor, generator: Any = None) -> Tensor:
    """Samples of the Dirichlet distribution with concentrations along the last dimension: `torch._sample_dirichlet`.

    Differentiable once by the concentrations, like `standard_gamma`.
    """
    a = _need_floating("_sample_dirichlet", "self", self)
    gamma = stream_of(generator, a).gamma(a.astype(np.float64))
    info = dtypes.finfo(self.dtype)
    with np.errstate(invalid="ignore"):  # (of infinite concentrations: nan)
        share = (gamma / gamma.sum(-1, keepdims=True)).clip(info.tiny, 1 - info.eps / 2).astype(a.dtype)
    return apply(SAMPLE_DIRICHLET, (self,), (share,))


def _dirichlet_vjp(xp: Any, g: Any, concentration: Any, out: Any) -> Any:
    # an element is beta distributed, and what it gains the others lose in proportion
    total = xp.expand(xp.sum(concentration, (-1,), True), tuple(concentration.shape))
    return xp.dirichlet_grad(out, concentration, total) * (g - xp.sum(out * g, (-1,), True))


SAMPLE_DIRICHLET = Op(
    "_sample_dirichlet", lambda xp, concentration, /, drawn: drawn, concentration=_dirichlet_vjp, weight=200.0
)


def dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    """(dx/dα) / (1 - x) of samples x of Beta(α, total - α): `torch._dirichlet_grad`."""
    _need_alike("_dirichlet_grad", x=x, alpha=alpha, total=total)
    return apply(DIRICHLET_GRAD, (x, alpha, total))


DIRICHLET_GRAD = Op(
    "_dirichlet_grad",
    lambda xp, x, alpha, total: xp.dirichlet_grad(x, alpha, total),
    kind=ELEMENTWISE,
    x=lambda xp, g: no_derivative("_dirichlet_grad", "x"),
    alpha=lambda xp, g: no_derivative("_dirichlet_grad", "alpha"),
    total=lambda xp, g: no_derivative("_dirichlet_grad", "total"),
    weight=3000.0,
)
