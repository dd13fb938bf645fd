"""flex_attention: attention whose scores and mask are changed by functions of the user's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ferro.core.dtypes import float32, float64
from ferro.nn.attention.block_mask import (
    _DEFAULT_SPARSE_BLOCK_SIZE,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    everywhere,
    noop_mask,
    or_masks,
)
from ferro.tensor import Tensor

__all__ = ["_DEFAULT_SPARSE_BLOCK_SIZE", "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask",
           "flex_attention", "noop_mask", "or_masks"]  # fmt: skip


class AuxRequest(NamedTuple):
    """Whether `flex_attention` also returns each row's logsumexp and largest score."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The logsumexp and the largest score of each row, (B, Hq, L) in float32 or float64, where they were asked for."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """softmax(score_mod(query @ key^T * scale)) @ value, with the scores that `block_mask` masks out at -inf.

    Shapes: query (B, Hq, L, E), key (B, Hkv, S, E), value (B, Hkv, S, Ev), the result (B, Hq, L, Ev); with `enable_gqa` several
    heads of the query share one of key and value. `score_mod(score, batch, head, row, column)` gets tensors without
    dimensions and is called under `vmap`. Rows that are masked out entirely give 0. The whole matrix of scores is computed,
    in float32 at least, as by PyTorch without `compile`; unlike there, gradients flow on the CPU, too. `kernel_options` are
    for kernels of GPUs.

    Returns: the result; with `return_aux` the pair of it and an AuxOutput, with `return_lse` (old) of it and the logsumexp.
    Raises: ValueError for shapes that do not fit, NotImplementedError for other than four dimensions.

    >>> import ferro
    >>> from ferro.nn.attention.flex_attention import create_block_mask, flex_attention
    >>> x = ferro.eye(3).reshape(1, 1, 3, 3)
    >>> causal = create_block_mask(lambda b, h, row, column: row >= column, None, None, 3, 3)
    >>> flex_attention(x, x, x, lambda score, b, h, row, column: 0 * score, causal)
    tensor([[[[1.0000, 0.0000, 0.0000],
              [0.5000, 0.5000, 0.0000],
              [0.3333, 0.3333, 0.3333]]]])
    """
    _check(query, key, value, block_mask, enable_gqa)
    if return_lse and return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. return_lse is deprecated, please use "
            "return_aux=AuxRequest(lse=True) instead."
        )
    shared = query.shape[1] // key.shape[1]
    if shared > 1:
        key, value = (x.repeat_interleave(shared, 1) for x in (key, value))
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query @ key.mT).to(float64 if query.dtype is float64 else float32) * scale
    sizes = tuple(scores.shape)
    if score_mod is not None:
        scores = everywhere(score_mod, (scores,), sizes, scores.device).to(scores.dtype)
    if block_mask is not None:
        allowed = everywhere(block_mask.mask_mod, (), sizes, scores.device)
        scores = scores.masked_fill(~allowed, -math.inf)
    empty = (scores == -math.inf).all(-1, keepdim=True)
    weights = scores.masked_fill(empty, 0).softmax(-1).masked_fill(empty, 0)
    found = weights.to(query.dtype) @ value
    lse = scores.logsumexp(-1) if return_lse or (return_aux is not None and return_aux.lse) else None
    if return_lse:
        return found, lse
    if return_aux is None:
        return found
    return found, AuxOutput(lse, scores.detach().amax(-1) if return_aux.max_scores else None)


def _check(query: Tensor, key: Tensor, value: Tensor, block_mask: BlockMask | None, grouped: bool) -> None:
    if not (query.dtype == key.dtype == value.dtype):
        raise ValueError(
            f"Expected query, key, and value to have the same dtype, but got query.dtype: {query.dtype}, key.dtype: "
            f"{key.dtype}, and value.dtype: {value.dtype} instead."
        )
    if not query.dim() == key.dim() == value.dim() == 4:
        raise NotImplementedError(
            f"NYI: query, key, and value must be 4D tensors, got {query.dim()}, {key.dim()} and {value.dim()}"
        )
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"Expect query and key/value to have the same embedding dimension but got E={query.shape[-1]} and "
            f"E={key.shape[-1]}."
        )
    heads, fewer = query.shape[1], key.shape[1]
    if not grouped and heads != fewer:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={fewer}. Try "
            "setting enable_gqa=True for GQA."
        )
    if heads % fewer:
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and Hkv={fewer}."
        )
    if block_mask is None:
        return
    lengths = (query.shape[-2], key.shape[-2])
    if lengths != tuple(block_mask.shape[-2:]):
        longer = lengths[0] > block_mask.shape[-2] or lengths[1] > block_mask.shape[-1]
        raise ValueError(
            f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={lengths[0]} and kv_len={lengths[1]}. As "
            f"the block mask was created for a {'smaller' if longer else 'larger'} length than you're using it for, make a new one"
        )
    for name, own, other in zip(("batch", "head"), block_mask.shape[-4:-2], query.shape[:2], strict=True):
        if own not in (1, other):
            raise ValueError(f"block_mask has {own} for the {name} dimension, and the query {other}: 1 or as many")
