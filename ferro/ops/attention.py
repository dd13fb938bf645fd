"""Attention: softmax-weighted means of values, for one or several heads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.batched.array import as_array, plain
from ferro.core import backend, dtypes
from ferro.core.apply import apply
from ferro.core.arguments import need_tensor
from ferro.core.base import wrap
from ferro.core.casting import brought_together
from ferro.core.dtypes import C_NAMES, COMPLEX, FROM_NUMPY, INEXACT, type_name
from ferro.core.op import Op
from ferro.core.samples import Arg, Sample
from ferro.ops.attention_choice import ALL, ENABLED, SDPBackend, chosen
from ferro.ops.dropout import dropout
from ferro.ops.softmax import softmax, softmax_vjp

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["scaled_dot_product_attention"]

_REAL = INEXACT - COMPLEX


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(scale Q Kᵀ + mask) V over the last two dimensions.

    - `query` (Tensor): Q, (..., L, E)
    - `key` (Tensor): K, (..., S, E)
    - `value` (Tensor): V, (..., S, Ev)
    - `attn_mask` (Tensor, default None): in a shape that broadcasts to (..., L, S): a boolean one is True where to
      attend, another one is added
    - `dropout_p` (float, default 0.0): the probability with which a weight becomes zero; always applied, 0 when a model
      is evaluated
    - `is_causal` (bool, default False): lets position i attend to j <= i only; then `attn_mask` must be None
    - `scale` (float, default None): None: 1 / sqrt(E)
    - `enable_gqa` (bool, default False): lets several query heads (dimension -3) share a head of keys and values

    The result is (..., L, Ev). A row that may attend to nothing gives zeros, with zero gradients. RuntimeError for
    shapes and dtypes that do not fit, a mask together with `is_causal`, and where `ferro.nn.attention.sdpa_kernel`
    leaves no algorithm. Source: Vaswani et al., Attention Is All You Need, 2017, equation 1.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> q, k, v = (ferro.zeros(2, 4, 5, 8) for _ in range(3))
        >>> F.scaled_dot_product_attention(q, k, v, is_causal=True).shape
        ferro.Size([2, 4, 5, 8])
    """
    name = "scaled_dot_product_attention"
    given = (("query", query), ("key", key), ("value", value))
    for label, t in given:
        if need_tensor(name, label, t)._data.ndim < 2:
            raise RuntimeError(
                f"{name}: Expected query, key, and value to all be  at least 2 dimensional, but got "
                f"{_three_of('dim', lambda t: t._data.ndim, given)} instead."
            )
        if t._data.dtype is not query._data.dtype and not brought_together(t._data.dtype, query._data.dtype):
            raise RuntimeError(
                f"{name}: Expected query, key, and value to have the same dtype, but got "
                f"{_three_of('dtype', lambda t: C_NAMES[t.dtype], given)} instead."
            )
    q, k = query._data, key._data
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != value._data.shape[-2] or q.dtype not in _REAL or dropout_p:
        _check_sizes(name, q, k, value._data, dropout_p)
    if is_causal and attn_mask is not None:
        raise RuntimeError(f"{name}: Explicit attn_mask should not be set when is_causal=True")
    if enable_gqa:
        key, value = _repeat_heads(name, key, query), _repeat_heads(name, value, query)
    if scale is None:
        scale = 1 / math.sqrt(query._data.shape[-1]) if query._data.shape[-1] else 1.0
    if attn_mask is not None:
        attn_mask = _checked_mask(name, attn_mask, query, key)
    if (
        len(ENABLED) < ALL
        and SDPBackend.MATH not in ENABLED
        and query._data.size
        and key._data.size
        and value._data.size
    ):
        chosen(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    if dropout_p:
        return dropout(_weights(query, key, attn_mask, scale, is_causal), dropout_p) @ value
    return apply(ATTENTION, (query, key, value, attn_mask), (float(scale), bool(is_causal)))


def _check_sizes(name: str, q: Any, k: Any, v: Any, dropout_p: float) -> None:
    if q.dtype not in INEXACT:
        raise RuntimeError(f"{name}: expected scalar type Float but found {type_name(FROM_NUMPY[q.dtype])}")
    if q.dtype.kind == "c":
        raise NotImplementedError(
            f'{name}: "softmax_lastdim_kernel_impl" not implemented for '
            f"'{type_name(FROM_NUMPY[q.dtype])}': attention is of real numbers"
        )
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise RuntimeError(
            f"{name}: query and key must agree in their last size, key and value in the one before it; got "
            f"query: {list(q.shape)}, key: {list(k.shape)}, value: {list(v.shape)}. "
            f"{_unequal(q.shape, k.shape[:-2] + k.shape[:-3:-1], v.shape)}"
        )
    if not 0 <= dropout_p <= 1:
        raise RuntimeError(f"{name}: dropout probability has to be between 0 and 1, but got {dropout_p}")


def _unequal(q: tuple, k: tuple, v: tuple) -> str:
    """What PyTorch's product of matrices says of these shapes, those of Q, Kᵀ and V."""
    one, other = (q, k) if q[-1] != k[-2] else ((*q[:-1], k[-1]), v)
    if len(one) == len(other) == 2:
        return f"(mat1 and mat2 shapes cannot be multiplied ({one[0]}x{one[1]} and {other[0]}x{other[1]}))"
    batch = math.prod(one[:-2])
    return (
        "(Expected size for first two dimensions of batch2 tensor to be: "
        f"{[batch, one[-1]]} but got: {[math.prod(other[:-2]), other[-2]]}.)"
    )


def _three_of(what: str, read: Callable[[Any], Any], given: tuple) -> str:
    """ "query.dim: 1 key.dim: 2 and value.dim: 2"."""
    one, two, three = [f"{label}.{what}: {read(t)}" for label, t in given]
    return f"{one} {two} and {three}"


def _checked_mask(name: str, mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """The mask, boolean or in the dtype of the query; float32 is taken for any."""
    have, wanted = need_tensor(name, "attn_mask", mask).dtype, query.dtype
    if have not in (dtypes.bool_, dtypes.float32, wanted):
        raise RuntimeError(
            f"{name}: Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {C_NAMES[have]} and  query.dtype: {C_NAMES[wanted]} instead."
        )
    scores = (
        *np.broadcast_shapes(query._data.shape[:-2], key._data.shape[:-2]),
        query._data.shape[-2],
        key._data.shape[-2],
    )
    try:
        fits = np.broadcast_shapes(mask._data.shape, scores) == scores
    except ValueError:
        fits = False
    if not fits:
        raise RuntimeError(
            f"{name}: attn_mask of shape {list(mask._data.shape)} cannot be broadcast to the "
            f"scores, of shape {list(scores)}"
        )
    return mask if have is dtypes.bool_ or have is wanted else mask.to(wanted)


_three = (Arg(2, 3, 4), Arg(2, 3, 4), Arg(2, 3, 4))
ATTENTION = Op(
    "scaled_dot_product_attention",
    lambda xp, q, k, v, mask, /, scale, causal: xp.attention(q, k, v, mask, scale, causal),
    aux=("p",),
    diff=("q", "k", "v", "mask"),
    weight=20.0,
    path="nn.functional.scaled_dot_product_attention",
    vjp=lambda xp, g, q, k, v, mask, p, scale, causal, needs: xp.attention_vjp(
        g, q, k, v, mask, p, scale, causal, needs
    ),
    samples=[
        Sample(Arg(2, 3, 4), Arg(2, 5, 4), Arg(2, 5, 3)),
        Sample(*_three, is_causal=True),
        Sample(*_three, Arg(3, 3)),
        Sample(*_three, Arg(values=[[1, 0, 1], [0, 1, 1], [1, 1, 1]], dtype="bool"), scale=0.3),
        Sample(Arg(3, 4), Arg(5, 4), Arg(5, 4), Arg(3, 5, grad=False)),
        Sample(Arg(1, 4, 3, 2), Arg(1, 2, 3, 2), Arg(1, 2, 3, 2), enable_gqa=True),
    ],
)


def attention_vjp(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, p: Any, scale: float, causal: bool, needs: tuple
) -> tuple:
    """The backward of attention by q, k, v and an added mask, on Tensors (p is computed anew: it needs a history)."""
    p = _weights(q, k, mask, scale, causal)
    ds = softmax_vjp(g @ v.transpose(-2, -1), p, p._data.ndim - 1)
    return (
        (ds @ k) * scale if needs[0] else None,
        (ds.transpose(-2, -1) @ q) * scale if needs[1] else None,
        p.transpose(-2, -1) @ g if needs[2] else None,
        ds if needs[3] else None,
    )


def _weights(query: Tensor, key: Tensor, mask: Tensor | None, scale: float, causal: bool) -> Tensor:
    """softmax(scale Q Kᵀ + mask)."""
    where = backend.functional.where
    scores = (query * scale) @ key.transpose(-2, -1)
    if causal:
        below = backend.beside(scores._data, np.tri(*scores._data.shape[-2:], dtype=bool))
        return softmax(where(wrap(below), scores, -math.inf), -1)
    if mask is None:
        return softmax(scores, -1)
    if mask._data.dtype.kind == "b":
        return _safe_softmax(where(mask, scores, -math.inf), ~mask._data)
    return _safe_softmax(scores + mask, mask._data == -math.inf)


def _safe_softmax(scores: Tensor, blocked: Any) -> Tensor:
    """softmax over the last dimension, 0 in rows that are blocked throughout."""
    dead = as_array(blocked.all(axis=-1, keepdims=True))
    if not plain(dead).any():
        return softmax(scores, -1)
    where = backend.functional.where
    return where(wrap(dead), 0, softmax(where(wrap(dead), 0, scores), -1))


def _repeat_heads(name: str, t: Tensor, query: Tensor) -> Tensor:
    heads, wanted = (t._data.shape[-3], query._data.shape[-3]) if min(t._data.ndim, query._data.ndim) > 2 else (1, 1)
    if not heads or wanted % heads:
        raise RuntimeError(
            f"{name}: Number of heads in key and value must divide the number of heads "
            f"in query, got {heads} and {wanted}"
        )
    if heads == wanted:
        return t
    shape = t._data.shape
    spread = t.unsqueeze(-3).expand(*shape[:-2], wanted // heads, *shape[-2:])
    return spread.reshape(*shape[:-3], wanted, *shape[-2:])
