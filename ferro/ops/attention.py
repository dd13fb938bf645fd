"""Attention: softmax-weighted means of values, for one or several heads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import worlds
from ferro.core.arguments import need_tensor
from ferro.core.base import wrap
from ferro.core.dtypes import INEXACT
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.dropout import dropout
from ferro.ops.softmax import softmax

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False) -> Tensor:  # fmt: skip
    """softmax(scale Q Kᵀ + mask) V over the last two dimensions (Vaswani et al. 2017, Attention Is All You Need, equation 1).

    scale is 1 / sqrt(E) by default; a boolean mask says where to attend, another one is added; `is_causal` lets position i attend to
    j <= i.  A row that may attend to nothing gives zeros, with zero gradients.  `enable_gqa` lets several query heads (dimension -3)
    share a head of keys and values.
    """
    name = "scaled_dot_product_attention"
    for label, t in (("query", query), ("key", key), ("value", value)):
        if need_tensor(name, label, t)._data.ndim < 2:
            raise RuntimeError(f"{name}: Expected query, key, and value to all be at least 2 dimensional, but got {label} of shape "
                               f"{list(t._data.shape)}")  # fmt: skip
        if t._data.dtype is not query._data.dtype:
            raise RuntimeError(f"{name}: Expected query, key, and value to have the same dtype, but got query: {query.dtype} and {label}: {t.dtype}")
    if is_causal and attn_mask is not None:
        raise RuntimeError(f"{name}: Explicit attn_mask should not be set when is_causal=True")
    if enable_gqa:
        key, value = _repeat_heads(name, key, query), _repeat_heads(name, value, query)
    length, source = query._data.shape[-2], key._data.shape[-2]
    if scale is None:
        scale = 1 / math.sqrt(query._data.shape[-1]) if query._data.shape[-1] else 1.0
    root = math.sqrt(scale) if scale >= 0 else None  # half of the scale on each side keeps 16-bit products in range
    if root is None:
        scores = (query * scale) @ key.transpose(-2, -1)
    else:
        scores = (query * root) @ (key.transpose(-2, -1) * root)
    blocked = None
    if is_causal:
        blocked = ~np.tri(length, source, dtype=bool)
        scores = worlds.functional.where(wrap(blocked), -math.inf, scores)
        blocked = None if source else blocked  # every row attends at least to the first position
    elif attn_mask is not None:
        mask = attn_mask._data
        if mask.dtype.kind == "b":
            scores = worlds.functional.where(attn_mask, scores, -math.inf)
            blocked = ~mask
        elif mask.dtype not in INEXACT or mask.dtype is not query._data.dtype:
            raise RuntimeError(f"{name}: Expected attn_mask dtype to be bool or to match query dtype, but got attn_mask.dtype: {attn_mask.dtype} "
                               f"and query.dtype: {query.dtype}")  # fmt: skip
        else:
            scores = scores + attn_mask
            blocked = mask == -math.inf
    weights = _safe_softmax(scores, blocked)
    if dropout_p:
        weights = dropout(weights, dropout_p)
    return weights @ value


def _safe_softmax(scores: Tensor, blocked: Any) -> Tensor:
    """softmax over the last dimension, 0 in rows that are blocked throughout."""
    if blocked is not None and blocked.size:
        rows = blocked.all(axis=-1, keepdims=True) if blocked.ndim else blocked
        if rows.any():
            where = worlds.functional.where
            dead = wrap(np.asarray(rows))
            return where(dead, 0, softmax(where(dead, 0, scores), -1))
    return softmax(scores, -1)


def _repeat_heads(name: str, t: Tensor, query: Tensor) -> Tensor:
    heads, wanted = (t._data.shape[-3], query._data.shape[-3]) if min(t._data.ndim, query._data.ndim) > 2 else (1, 1)
    if not heads or wanted % heads:
        raise RuntimeError(f"{name}: Number of heads in key and value must divide the number of heads in query, got {heads} and {wanted}")
    if heads == wanted:
        return t
    shape = t._data.shape
    spread = t.unsqueeze(-3).expand(*shape[:-2], wanted // heads, *shape[-2:])
    return spread.reshape(*shape[:-3], wanted, *shape[-2:])


declare("nn.functional.scaled_dot_product_attention", [
    Sample(Arg(2, 3, 4), Arg(2, 5, 4), Arg(2, 5, 3)), Sample(Arg(1, 2, 4, 3), Arg(1, 2, 4, 3), Arg(1, 2, 4, 3), is_causal=True),
    Sample(Arg(3, 4), Arg(5, 4), Arg(5, 4), Arg(3, 5)), Sample(Arg(2, 3, 4), Arg(2, 3, 4), Arg(2, 3, 4), Arg(3, 3, dtype="bool"), scale=0.3),
    Sample(Arg(1, 4, 3, 2), Arg(1, 2, 3, 2), Arg(1, 2, 3, 2), enable_gqa=True)])  # fmt: skip
