"""A batch normalisation in evaluation mode, put into the weights of the layer before it."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from ferro.ops.exponential import rsqrt
from ferro.ops.likes import ones_like, zeros_like
from ferro.tensor import Tensor

from ..modules.module import Module
from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

M = TypeVar("M", bound=Module)


def fuse_conv_bn_eval(conv: M, bn: Any, transpose: bool = False) -> M:
    """A convolution that computes bn(conv(x)); both must be in evaluation mode (AssertionError).

    >>> import ferro
    >>> conv, bn = ferro.nn.Conv1d(2, 3, 1).eval(), ferro.nn.BatchNorm1d(3).eval()
    >>> x = ferro.ones(1, 2, 4)
    >>> ferro.allclose(fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)))
    True
    """
    fused: Any = _copy(conv, bn)
    statistics = bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    fused.weight, fused.bias = fuse_conv_bn_weights(fused.weight, fused.bias, *statistics, transpose)
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of one convolution that does what a convolution and the batch norm behind it do in evaluation.

    - `conv_w`, `conv_b` (Tensor): weight and bias of the convolution; None for no bias
    - `bn_rm`, `bn_rv` (Tensor): running mean and variance, (C,)
    - `bn_eps` (float): eps of the norm
    - `bn_w`, `bn_b` (Tensor): weight and bias of the norm, (C,), or None
    - `transpose` (bool, default False): the convolution is a transposed one

    `fuse_conv_bn_eval` does it for modules.

    Example::

        >>> import ferro
        >>> one, zero = ferro.ones(1), ferro.zeros(1)
        >>> weight, bias = ferro.nn.utils.fuse_conv_bn_weights(ferro.ones(1, 1, 1, 1), None, one, one, 0.0, 3 * one, zero)
        >>> weight.item(), bias.item()
        (3.0, -3.0)
    """
    scale = rsqrt(bn_rv + bn_eps) * (ones_like(bn_rm) if bn_w is None else bn_w)
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    return _fused(conv_w, conv_b, conv_w * scale.reshape(shape), scale, bn_rm, bn_b)


def fuse_linear_bn_eval(linear: M, bn: Any) -> M:
    """A Linear that computes bn(linear(x)); both must be in evaluation mode (AssertionError)."""
    fused: Any = _copy(linear, bn)
    if bn.num_features not in (fused.out_features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, "
            f"got linear.out_features={fused.out_features} and bn.num_features={bn.num_features}"
        )
    statistics = bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, *statistics)
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of one Linear that does what a Linear and the batch norm behind it do in evaluation.

    - `linear_w`, `linear_b` (Tensor): weight and bias of the layer; None for no bias
    - `bn_rm`, `bn_rv` (Tensor): running mean and variance, (out_features,)
    - `bn_eps` (float): eps of the norm
    - `bn_w`, `bn_b` (Tensor): weight and bias of the norm, (out_features,), or None

    `fuse_linear_bn_eval` does it for modules.

    Example::

        >>> import ferro
        >>> one, zero = ferro.ones(1), ferro.zeros(1)
        >>> weight, bias = ferro.nn.utils.fuse_linear_bn_weights(ferro.ones(1, 1), None, one, one, 0.0, 3 * one, zero)
        >>> weight.item(), bias.item()
        (3.0, -3.0)
    """
    scale = rsqrt(bn_rv + bn_eps) * (ones_like(bn_rm) if bn_w is None else bn_w)
    return _fused(linear_w, linear_b, linear_w * scale.unsqueeze(-1), scale, bn_rm, bn_b)


def _copy(layer: M, bn: Any) -> M:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    return copy.deepcopy(layer)


def _fused(
    weight: Tensor, bias: Tensor | None, scaled: Tensor, scale: Tensor, mean: Tensor, shift: Tensor | None
) -> tuple[Parameter, Parameter]:
    """The parameters, in the dtypes and with the requires_grad of those they replace; without a bias, that of none."""
    fused_bias = ((zeros_like(mean) if bias is None else bias) - mean) * scale
    if shift is not None:
        fused_bias = fused_bias + shift
    dtype, requires_grad = (weight.dtype, False) if bias is None else (bias.dtype, bias.requires_grad)
    return (
        Parameter(scaled.detach().to(dtype=weight.dtype), weight.requires_grad),
        Parameter(fused_bias.detach().to(dtype=dtype), requires_grad),
    )
