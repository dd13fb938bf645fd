"""The layers of transformers: TransformerEncoderLayer, TransformerDecoderLayer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferro.tensor import Tensor

from .. import functional as F
from .attention import MultiheadAttention
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

Activation = str | Callable[[Tensor], Tensor]


def _activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    if callable(activation):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return F.relu if activation == "relu" else F.gelu


class TransformerEncoderLayer(Module):
    """Self-attention and a network of two linear layers, each with dropout, a residual connection and a layer norm.

    - `d_model` (int): E, the size of each element of the sequences
    - `nhead` (int): the number of attention heads; AssertionError if E cannot be divided by it
    - `dim_feedforward` (int, default 2048): the size between the two linear layers
    - `dropout` (float, default 0.1): the probability of dropout, in training
    - `activation` (str or function, default 'relu'): between the two linear layers: 'relu', 'gelu', else RuntimeError
    - `layer_norm_eps` (float, default 1e-5): of the layer norms
    - `batch_first` (bool, default False): sequences are (N, L, E) instead of (L, N, E)
    - `norm_first` (bool, default False): True normalises before each part, False after its residual connection
    - `bias` (bool, default True): False leaves all biases out
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Called as `layer(src, src_mask=None, src_key_padding_mask=None, is_causal=False)`. Shapes: src and the result (L, N,
    E), masks (L, L) and (N, L); N may be left out. A boolean mask is True where attention is not allowed, a floating
    one is added to the scores. is_causal is a hint that src_mask is the causal mask, given all the same. Source:
    Vaswani et al., Attention Is All You Need, 2017.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.TransformerEncoderLayer(d_model=16, nhead=4, dim_feedforward=32, batch_first=True)
        >>> layer(ferro.zeros(2, 5, 16)).shape
        ferro.Size([2, 5, 16])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        kind = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **kind)
        self.linear1 = Linear(d_model, dim_feedforward, **kind)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **kind)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, **kind)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, **kind)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = _activation(activation)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The layer's output; is_causal is a hint that src_mask is the causal mask, which must still be given."""
        x = src
        attention = src_mask, src_key_padding_mask, is_causal
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *attention)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, *attention))
        return self.norm2(x + self._ff_block(x))

    def _sa_block(self, x: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool) -> Tensor:
        out, _ = self.self_attn(
            x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=is_causal
        )
        return self.dropout1(out)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoderLayer(Module):
    """Self-attention, attention to the encoder's output, and a network of two linear layers, each with a residual
    connection and a layer norm.

    - `d_model` (int): E, the size of each element of the sequences
    - `nhead` (int): the number of attention heads; AssertionError if E cannot be divided by it
    - `dim_feedforward` (int, default 2048): the size between the two linear layers
    - `dropout` (float, default 0.1): the probability of dropout, in training
    - `activation` (str or function, default 'relu'): between the two linear layers: 'relu', 'gelu', else RuntimeError
    - `layer_norm_eps` (float, default 1e-5): of the layer norms
    - `batch_first` (bool, default False): sequences are (N, L, E) instead of (L, N, E)
    - `norm_first` (bool, default False): True normalises before each part, False after its residual connection
    - `bias` (bool, default True): False leaves all biases out
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Called as `layer(tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
    memory_key_padding_mask=None)`. Shapes: tgt and the result (L, N, E), memory (S, N, E), masks (L, L), (L, S), (N, L)
    and (N, S); N may be left out. A boolean mask is True where attention is not allowed, a floating one is added to the
    scores. Source: Vaswani et al., Attention Is All You Need, 2017.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.TransformerDecoderLayer(d_model=16, nhead=4, dim_feedforward=32, batch_first=True)
        >>> layer(ferro.zeros(2, 5, 16), memory=ferro.zeros(2, 7, 16)).shape
        ferro.Size([2, 5, 16])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        kind = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **kind)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **kind)
        self.linear1 = Linear(d_model, dim_feedforward, **kind)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **kind)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, **kind)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, **kind)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, **kind)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _activation(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The layer's output; the is_causal hints say that a mask, which must still be given, is the causal one."""
        x = tgt
        own = tgt_mask, tgt_key_padding_mask, tgt_is_causal
        other = memory_mask, memory_key_padding_mask, memory_is_causal
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), memory, *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, memory, *other))
        return self.norm3(x + self._ff_block(x))

    def _sa_block(self, x: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool) -> Tensor:
        out, _ = self.self_attn(
            x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=is_causal
        )
        return self.dropout1(out)

    def _mha_block(
        self, x: Tensor, memory: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool
    ) -> Tensor:
        out, _ = self.multihead_attn(
            x, memory, memory, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=is_causal
        )
        return self.dropout2(out)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))
