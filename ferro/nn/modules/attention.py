"""Multi-head attention."""

from __future__ import annotations

import math
from typing import Any

from ferro.core import dtypes
from ferro.ops.creation import zeros
from ferro.ops.joining import cat
from ferro.ops.multihead import check_ranks
from ferro.ops.uninitialised import empty
from ferro.tensor import Tensor

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module


class MultiheadAttention(Module):
    """softmax(Q Kᵀ / sqrt(d)) V in `num_heads` heads of size d, between projections of the inputs and of the result.

    - `embed_dim` (int): E, the size of queries and results; it is divided among the heads, d = E / num_heads
    - `num_heads` (int): AssertionError if E cannot be divided by it
    - `dropout` (float, default 0.0): the probability of dropout of attention weights, in training
    - `bias` (bool, default True): False leaves the biases of the projections out
    - `add_bias_kv` (bool, default False): True adds a learned key and value to each sequence
    - `add_zero_attn` (bool, default False): True adds a key and value of zeros to each sequence
    - `kdim`, `vdim` (int, default None): the sizes of keys and values; None is E
    - `batch_first` (bool, default False): inputs and result are (N, L, E) instead of (L, N, E)
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Called as `output, weights = attention(query, key, value)`. Shapes: query and output (L, N, E), key (S, N, kdim),
    value (S, N, vdim), weights (N, L, S); N may be left out. `attn_mask` (L, S) or (N * num_heads, L, S) and
    `key_padding_mask` (N, S): a boolean mask is True where attention is not allowed, a floating one is added to the
    scores. `need_weights=False` returns None for the weights, and is faster; else they are averaged over the heads
    unless `average_attn_weights=False`. Source: Vaswani et al., Attention Is All You Need, 2017.

    Example::

        >>> import ferro
        >>> attention = ferro.nn.MultiheadAttention(16, num_heads=4, batch_first=True)
        >>> x = ferro.zeros(2, 5, 16)
        >>> future = ferro.ones(5, 5, dtype=ferro.bool).triu(1)
        >>> output, weights = attention(x, x, x, attn_mask=future)
        >>> output.shape
        ferro.Size([2, 5, 16])
        >>> weights[0, 1].round(decimals=2).tolist()
        [0.5, 0.5, 0.0, 0.0, 0.0]
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, "
                f"got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError(f"embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}")
        self.add_zero_attn = add_zero_attn

        def weight(*shape: int) -> Parameter:
            return Parameter(empty(*shape, device=device, dtype=dtype))

        # The order of registration is the order of the keys in state_dict.
        same = self._qkv_same_embed_dim
        if same:
            self.in_proj_weight = weight(3 * embed_dim, embed_dim)
        for name, dim in (("q_proj_weight", embed_dim), ("k_proj_weight", self.kdim), ("v_proj_weight", self.vdim)):
            self.register_parameter(name, None if same else weight(embed_dim, dim))
        if not same:
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", weight(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, weight(1, 1, embed_dim) if add_bias_kv else None)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for matrix in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if matrix is not None:
                init.xavier_uniform_(matrix)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for row in (self.bias_k, self.bias_v):
            if row is not None:
                init.xavier_normal_(row)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The attended values, and the attention weights if they are needed (of all heads, or their mean)."""
        if is_causal and attn_mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        batched = check_ranks(query, key, value, key_padding_mask, attn_mask, self.num_heads)
        if not batched:
            query, key, value = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
        self._check_shapes(query, key, value)
        q, k, v = self._projected(query, key, value)
        mask = self._mask(attn_mask, key_padding_mask, query, key)
        extended = self.bias_k is not None or self.add_zero_attn
        if extended:
            k, v, mask = self._extended(k, v, mask)
        if is_causal and key_padding_mask is None and not extended and not need_weights:
            mask = None  # the hint says all that the mask says
        else:
            is_causal = False
        out, weights = self._attend(q, k, v, mask, need_weights, is_causal)
        if not batched:
            out = out.squeeze(0)
        elif not self.batch_first:
            out = out.transpose(0, 1)
        if weights is None:
            return out, None
        if average_attn_weights:
            weights = weights.mean(1)
        return out, weights if batched else weights.squeeze(0)

    def _check_shapes(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        """The checks that a product of matrices further down would report less clearly; all are (N, L, E) here."""
        if query.shape[2] != self.embed_dim:
            raise AssertionError(f"was expecting embedding dimension of {self.embed_dim}, but got {query.shape[2]}")
        same = (key.shape[2], value.shape[2]) == (self.kdim, self.vdim)
        if key.shape[:2] != value.shape[:2] or not same:
            raise AssertionError(
                f"key shape {tuple(key.shape)} does not match value shape {tuple(value.shape)}: batch and length must "
                f"agree, and the last dimensions be kdim={self.kdim} and vdim={self.vdim}"
            )
        if query.shape[0] != key.shape[0]:
            raise AssertionError(f"query has batch size {query.shape[0]}, but key has {key.shape[0]}")

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        biases = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        if not self._qkv_same_embed_dim:
            weights = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        elif query is key and key is value:  # one product instead of three
            q, k, v = _linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
            return q, k, v
        else:
            weights = self.in_proj_weight.chunk(3)
        q, k, v = (_linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
        return q, k, v

    def _mask(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor, key: Tensor
    ) -> Tensor | None:
        """Both masks as one that is added to scores of shape (N, heads, L, S); None if there is none."""
        batch, length, source = query.shape[0], query.shape[1], key.shape[1]
        mask = None
        if attn_mask is not None:
            if attn_mask.dim() == 2:
                wanted: tuple[int, ...] = (length, source)
            elif attn_mask.dim() == 3:
                wanted = (batch * self.num_heads, length, source)
            else:
                raise RuntimeError(f"attn_mask's dimension {attn_mask.dim()} is not supported")
            if tuple(attn_mask.shape) != wanted:
                raise RuntimeError(
                    f"The shape of the {attn_mask.dim()}D attn_mask is {tuple(attn_mask.shape)}, "
                    f"but should be {wanted}."
                )
            mask = _additive(attn_mask, "attn_mask", query.dtype)
            if mask.dim() == 3:
                mask = mask.reshape(batch, self.num_heads, length, source)
        if key_padding_mask is not None:
            if tuple(key_padding_mask.shape) != (batch, source):
                raise AssertionError(
                    f"expecting key_padding_mask shape of {(batch, source)}, but got {tuple(key_padding_mask.shape)}"
                )
            padding = _additive(key_padding_mask, "key_padding_mask", query.dtype).reshape(batch, 1, 1, source)
            mask = padding if mask is None else mask + padding
        return mask

    def _extended(self, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys and values with the learned position (add_bias_kv) and that of zeros (add_zero_attn) at their end."""
        extra: list[Any] = []
        if self.bias_k is not None:
            extra.append((self.bias_k, self.bias_v))
        if self.add_zero_attn:
            zero = zeros(1, 1, self.embed_dim, dtype=k.dtype, device=k.device)
            extra.append((zero, zero))
        for key_row, value_row in extra:
            k = cat([k, key_row.expand(k.shape[0], 1, -1)], dim=1)
            v = cat([v, value_row.expand(v.shape[0], 1, -1)], dim=1)
            if mask is not None:
                mask = F.pad(mask, (0, 1))
        return k, v, mask

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, need_weights: bool, is_causal: bool
    ) -> tuple[Tensor, Tensor | None]:
        batch, length, _ = q.shape
        dropout = self.dropout if self.training else 0.0
        q, k, v = (x.reshape(batch, x.shape[1], self.num_heads, self.head_dim).transpose(1, 2) for x in (q, k, v))
        weights = None
        if need_weights:
            scores = (q * math.sqrt(1.0 / self.head_dim)) @ k.transpose(-2, -1)
            weights = F.softmax(scores if mask is None else scores + mask, -1)
            if dropout > 0.0:
                weights = F.dropout(weights, dropout)
            out = weights @ v
        else:
            out = F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal)
        out = out.transpose(1, 2).reshape(batch, length, self.embed_dim)
        return F.linear(out, self.out_proj.weight, self.out_proj.bias), weights


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A linear map whose bias may be of another dtype: it is added in that of the product, as PyTorch does here."""
    if bias is None or bias.dtype is weight.dtype:
        return F.linear(x, weight, bias)
    return F.linear(x, weight).add_(bias)


def _additive(mask: Tensor, name: str, dtype: Any) -> Tensor:
    """A mask to be added to scores: minus infinity where a boolean one is True."""
    if mask.is_floating_point():
        return mask
    if mask.dtype != dtypes.bool_:
        raise AssertionError(f"only bool and floating types of {name} are supported, got {mask.dtype}")
    return zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, float("-inf"))
