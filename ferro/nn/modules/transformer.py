"""Stacks of transformer layers: TransformerEncoder, TransformerDecoder, Transformer."""

from __future__ import annotations

import copy
from typing import Any

from ferro.ops.creation import full
from ferro.tensor import Tensor

from .. import init
from .container import ModuleList
from .module import Module
from .normalization import LayerNorm
from .transformer_layers import Activation, TransformerDecoderLayer, TransformerEncoderLayer


def _clones(module: Module, n: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


class TransformerEncoder(Module):
    """Copies of an encoder layer, one after the other, and an optional norm at the end.

    - `encoder_layer` (Module): copied, weights included
    - `num_layers` (int): how often
    - `norm` (Module, default None): applied to the result
    - `enable_nested_tensor`, `mask_check` (bool, default True): change nothing: there are no nested tensors here

    Called as `encoder(src, mask=None, src_key_padding_mask=None, is_causal=None)`. Shapes: those of the layer, src and
    the result (L, N, E). All copies start with the same weights.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.TransformerEncoderLayer(16, nhead=4, dim_feedforward=32, batch_first=True)
        >>> ferro.nn.TransformerEncoder(layer, num_layers=2)(ferro.zeros(2, 5, 16)).shape
        ferro.Size([2, 5, 16])
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """The output of the last layer; is_causal is a hint, the mask itself must be given."""
        for layer in self.layers:
            src = layer(src, src_mask=mask, is_causal=bool(is_causal), src_key_padding_mask=src_key_padding_mask)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Copies of a decoder layer, one after the other, and an optional norm at the end.

    - `decoder_layer` (Module): copied, weights included
    - `num_layers` (int): how often
    - `norm` (Module, default None): applied to the result

    Called as `decoder(tgt, memory, tgt_mask=None, memory_mask=None, ...)`. Shapes: those of the layer, tgt and the
    result (L, N, E), memory (S, N, E). All copies start with the same weights.

    Example::

        >>> import ferro
        >>> layer = ferro.nn.TransformerDecoderLayer(16, nhead=4, dim_feedforward=32, batch_first=True)
        >>> ferro.nn.TransformerDecoder(layer, num_layers=2)(ferro.zeros(2, 5, 16), ferro.zeros(2, 7, 16)).shape
        ferro.Size([2, 5, 16])
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The output of the last layer; the is_causal hints are handed on, the masks themselves must be given."""
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder of the source sequence and a decoder of the target sequence that attends to it.

    - `d_model` (int, default 512): E, the size of each element of the sequences
    - `nhead` (int, default 8): the number of attention heads; AssertionError if E cannot be divided by it
    - `num_encoder_layers`, `num_decoder_layers` (int, default 6): how many layers of each
    - `dim_feedforward` (int, default 2048): the size between the two linear layers of a layer
    - `dropout` (float, default 0.1): the probability of dropout, in training
    - `activation` (str or function, default 'relu'): between the two linear layers: 'relu', 'gelu', else RuntimeError
    - `custom_encoder`, `custom_decoder` (Module, default None): used in place of the ones made here
    - `layer_norm_eps` (float, default 1e-5): of the layer norms
    - `batch_first` (bool, default False): sequences are (N, L, E) instead of (L, N, E)
    - `norm_first` (bool, default False): True normalises before each part, False after its residual connection
    - `bias` (bool, default True): False leaves all biases out
    - `device`, `dtype` (default None): of the parameters; None takes the default device and dtype

    Called as `model(src, tgt, src_mask=None, tgt_mask=None, ...)`. Shapes: src (S, N, E), tgt and the result (L, N, E);
    N may be left out. RuntimeError for other sizes. Embedding, positions and the last linear layer are the caller's.
    Source: Vaswani et al., Attention Is All You Need, 2017.

    Example::

        >>> import ferro
        >>> model = ferro.nn.Transformer(16, nhead=4, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=32)
        >>> future = model.generate_square_subsequent_mask(5)
        >>> model(ferro.zeros(7, 2, 16), ferro.zeros(5, 2, 16), tgt_mask=future).shape
        ferro.Size([5, 2, 16])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        sizes = d_model, nhead, dim_feedforward, dropout, activation
        options = layer_norm_eps, batch_first, norm_first, bias, device, dtype

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is None:
            layer: Module = TransformerEncoderLayer(*sizes, *options)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, norm())
        if custom_decoder is None:
            layer = TransformerDecoderLayer(*sizes, *options)
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, norm())
        self.encoder = custom_encoder
        self.decoder = custom_decoder
        for param in self.parameters():
            if param.dim() > 1:
                init.xavier_uniform_(param)
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The decoder's output for the target sequence, given the source sequence."""
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError(
                f"the batch number of src and tgt must be equal, got {src.shape[batch]} and {tgt.shape[batch]}"
            )
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(
                f"the feature number of src and tgt must be equal to d_model={self.d_model}, "
                f"got {src.shape[-1]} and {tgt.shape[-1]}"
            )
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """The causal mask of length `sz`: 0 on and below the diagonal, minus infinity above."""
        return full((sz, sz), float("-inf"), dtype=dtype, device=device).triu(1)
