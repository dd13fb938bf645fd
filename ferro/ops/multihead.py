"""Multi-head attention as one function of its inputs, weights and masks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ferro.core import backend
from ferro.core.base import wrap
from ferro.core.dtypes import INEXACT
from ferro.core.samples import Arg, Sample, declare
from ferro.ops.attention import scaled_dot_product_attention
from ferro.ops.dropout import dropout
from ferro.ops.softmax import softmax

if TYPE_CHECKING:
    from ferro.tensor import Tensor

__all__ = ["multi_head_attention_forward"]

NAME = "multi_head_attention_forward"


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention in several heads between linear maps of query, key and value and of the result.

    - `query` (Tensor): (L, N, E), or (L, E) for one sample
    - `key`, `value` (Tensor): (S, N, Ek) and (S, N, Ev), or without N; E unless the weights are separate
    - `embed_dim_to_check` (int): E
    - `num_heads` (int): a divisor of E
    - `in_proj_weight` (Tensor): the maps of query, key and value one below the other, (3 E, E)
    - `in_proj_bias` (Tensor): (3 E), or None
    - `bias_k`, `bias_v` (Tensor): one more key and value for all samples, (1, 1, E), or None
    - `add_zero_attn` (bool): adds one more key and value of zeros
    - `dropout_p` (float): the probability with which an attention weight becomes zero in training
    - `out_proj_weight` (Tensor): the map of the result, (E, E)
    - `out_proj_bias` (Tensor): (E), or None
    - `training` (bool, default True): whether there is dropout
    - `key_padding_mask` (Tensor, default None): (N, S): keys that nobody attends to
    - `need_weights` (bool, default True): whether the attention weights are returned
    - `attn_mask` (Tensor, default None): (L, S) or (N heads, L, S)
    - `use_separate_proj_weight` (bool, default False): takes the next three instead of `in_proj_weight`
    - `q_proj_weight`, `k_proj_weight`, `v_proj_weight` (Tensor, default None): (E, E), (E, Ek) and (E, Ev)
    - `static_k`, `static_v` (Tensor, default None): (N heads, S, E / heads): keys and values in the place of those
      computed
    - `average_attn_weights` (bool, default True): gives the mean of the weights over the heads
    - `is_causal` (bool, default False): says that `attn_mask` is the causal mask

    Returns (result, weights): the result in the shape of the query, the weights (N, L, S), (N, heads, L, S) or None.
    Boolean masks are True where attention is not allowed; others are added to the scores. A query that may attend to
    nothing gives nan if the weights are needed, else zeros, as in PyTorch. AssertionError for shapes that do not fit,
    RuntimeError for `is_causal` without a mask. Source: Vaswani et al., Attention Is All You Need, 2017, section 3.2.2.

    Example::

        >>> import ferro
        >>> from ferro.nn import functional as F
        >>> x, w = ferro.ones(3, 1, 4), ferro.eye(4)
        >>> w3 = w.repeat(3, 1)
        >>> y, weights = F.multi_head_attention_forward(x, x, x, 4, 2, w3, None, None, None, False, 0.0, w, None)
        >>> y.shape, weights.shape
        (ferro.Size([3, 1, 4]), ferro.Size([1, 3, 3]))
    """
    F = backend.functional
    if is_causal and attn_mask is None:
        raise RuntimeError(f"{NAME}: Need attn_mask if specifying the is_causal hint.")
    batched = check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    _check_dims(query, key, value, embed_dim_to_check, num_heads)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, embed = query._data.shape
    if use_separate_proj_weight:
        weights = [
            _given(f"{n}_proj_weight", w)
            for n, w in zip("qkv", (q_proj_weight, k_proj_weight, v_proj_weight), strict=True)
        ]
    else:
        weights = _given("in_proj_weight", in_proj_weight).chunk(3)
    biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
    q, k, v = [F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)]
    mask = _mask(attn_mask, key_padding_mask, batch, num_heads, length, k._data.shape[0], query)
    causal = is_causal and key_padding_mask is None and not need_weights
    if bias_k is not None or bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError(f"{NAME}: bias cannot be added to static key and value.")
        k = F.cat([k, _given("bias_k", bias_k).expand(1, batch, -1)], 0)
        v = F.cat([v, _given("bias_v", bias_v).expand(1, batch, -1)], 0)
        mask = _longer(mask)
    q, k, v = [_heads(x, num_heads, static) for x, static in ((q, None), (k, static_k), (v, static_v))]
    if add_zero_attn:
        zero = wrap(backend.beside(k._data, np.zeros((batch, num_heads, 1, embed // num_heads), k._data.dtype)))
        k, v, mask = F.cat([k, zero], 2), F.cat([v, zero], 2), _longer(mask)
    dropout_p = dropout_p if training else 0.0
    attention = None
    if need_weights:
        scores = (q * math.sqrt(1 / (embed // num_heads))) @ k.transpose(-2, -1)
        attention = softmax(scores if mask is None else scores + mask, -1)
        if dropout_p:
            attention = dropout(attention, dropout_p)
        out = attention @ v
    else:
        out = scaled_dot_product_attention(q, k, v, None if causal else mask, dropout_p, causal)
    out = F.linear(out.permute(2, 0, 1, 3).reshape(length, batch, embed), out_proj_weight, out_proj_bias)
    if attention is not None and average_attn_weights:
        attention = attention.mean(1)
    if not batched:
        return out.squeeze(1), None if attention is None else attention.squeeze(0)
    return out, attention


def _check_dims(query: Tensor, key: Tensor, value: Tensor, embed: int, heads: int) -> None:
    """Refuses shapes that do not belong together."""
    have = query._data.shape[-1]
    if have != embed:
        raise AssertionError(f"{NAME}: was expecting embedding dimension of {embed}, but got {have}")
    if not heads or embed % heads:
        raise AssertionError(f"{NAME}: embed_dim {embed} not divisible by num_heads {heads}")
    if key._data.shape[:-1] != value._data.shape[:-1]:
        raise AssertionError(
            f"{NAME}: key shape {list(key._data.shape)} does not match value shape {list(value._data.shape)}"
        )


def check_ranks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    attn_mask: Tensor | None = None,
    heads: int = 1,
) -> bool:
    """Whether the inputs have a batch dimension; refuses numbers of dimensions that do not belong together."""
    n = query._data.ndim
    if n not in (2, 3):
        raise AssertionError(
            f"{NAME}: query should be unbatched 2D or batched 3D tensor but received {n}-D query tensor"
        )
    start = f"{NAME}: For {'batched' if n == 3 else 'unbatched'} ({n}-D) `query`, expected"
    if key._data.ndim != n or value._data.ndim != n:
        raise AssertionError(
            f"{start} `key` and `value` to be {n}-D but found {key._data.ndim}-D and {value._data.ndim}-D "
            "tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask._data.ndim != n - 1:
        raise AssertionError(
            f"{start} `key_padding_mask` to be `None` or {n - 1}-D but found {key_padding_mask._data.ndim}-D tensor "
            "instead"
        )
    if attn_mask is not None and attn_mask._data.ndim not in (2, 3):
        raise AssertionError(
            f"{start} `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask._data.ndim}-D tensor instead"
        )
    if n == 2 and attn_mask is not None and attn_mask._data.ndim == 3:
        wanted = (heads, query._data.shape[0], key._data.shape[0])
        if attn_mask._data.shape != wanted:
            raise AssertionError(f"{NAME}: Expected `attn_mask` shape to be {wanted} but got {attn_mask._data.shape}")
    return n == 3


def _given(label: str, t: Tensor | None) -> Tensor:
    if t is None:
        raise AssertionError(f"{NAME}: {label} is needed for these arguments but is None")
    return t


def _heads(x: Tensor, heads: int, static: Tensor | None) -> Tensor:
    """(S, N, E) as (N, heads, S, E / heads), unless `static` (N heads, S, E / heads) takes its place."""
    length, batch, embed = x._data.shape
    if static is None:
        return x.reshape(length, batch, heads, embed // heads).permute(1, 2, 0, 3)
    if static._data.shape[0] != batch * heads or static._data.shape[2] != embed // heads:
        raise AssertionError(
            f"{NAME}: expecting static keys and values of shape [{batch * heads}, S, "
            f"{embed // heads}], but got {list(static._data.shape)}"
        )
    return static.reshape(batch, heads, -1, embed // heads)


def _mask(
    attn_mask: Tensor | None, padding: Tensor | None, batch: int, heads: int, length: int, source: int, query: Tensor
) -> Any:
    """Both masks as one that is added to scores of shape (N, heads, L, S); None if there is none."""
    mask = None
    if attn_mask is not None:
        shape = attn_mask._data.shape
        if shape not in ((length, source), (batch * heads, length, source)):
            raise RuntimeError(
                f"{NAME}: The shape of attn_mask is {list(shape)}, but should be {[length, source]} or "
                f"{[batch * heads, length, source]}."
            )
        mask = _added("attn_mask", attn_mask, query)
        mask = mask.reshape(batch, heads, length, source) if len(shape) == 3 else mask.reshape(1, 1, length, source)
    if padding is not None:
        if padding._data.shape != (batch, source):
            raise AssertionError(
                f"{NAME}: expecting key_padding_mask shape of {[batch, source]}, but got {list(padding._data.shape)}"
            )
        padding = _added("key_padding_mask", padding, query).reshape(batch, 1, 1, source)
        mask = padding if mask is None else mask + padding
    return mask


def _added(label: str, mask: Tensor, query: Tensor) -> Tensor:
    """A boolean mask as one that is added: -inf where it is True."""
    dtype = mask._data.dtype
    if dtype.kind == "b":
        return wrap(backend.xp_of(mask._data).where(mask._data, -math.inf, 0.0).astype(query._data.dtype))
    if dtype not in INEXACT:
        raise AssertionError(f"{NAME}: only bool and floating types of {label} are supported, got {mask.dtype}")
    return mask


def _longer(mask: Any) -> Any:
    """The mask for one more key, to which every query may attend."""
    if mask is None:
        return None
    return backend.functional.cat(
        [mask, wrap(backend.beside(mask._data, np.zeros((*mask._data.shape[:-1], 1), mask._data.dtype)))], -1
    )


def _sample(**options: Any) -> Sample:
    inputs = (Arg(3, 2, 4), Arg(3, 2, 4), Arg(3, 2, 4), 4, 2, Arg(12, 4), Arg(12), None, None)
    return Sample(*inputs, options.pop("zero", False), 0.0, Arg(4, 4), Arg(4), **options)


declare(
    "nn.functional.multi_head_attention_forward",
    [
        _sample(),
        _sample(attn_mask=Arg(3, 3)),
        _sample(zero=True, average_attn_weights=False),
        _sample(key_padding_mask=Arg(values=[[False, False, True], [False, True, False]], dtype="bool")),
    ],
)
