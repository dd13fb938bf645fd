"""Masks of attention that a function of four indices gives, and the blocks of a score matrix in which one is not empty."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ferro.core.dtypes import bool_, int32
from ferro.func import vmap
from ferro.nn.functional import pad
from ferro.ops.creation import zeros
from ferro.ops.ranges import arange
from ferro.ops.uninitialised import empty
from ferro.tensor import Tensor

Mask = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # of batch, head, row and column: numbers, as tensors
_DEFAULT_SPARSE_BLOCK_SIZE = 128


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """The mask that leaves everything in."""
    return batch.new_ones((), dtype=bool_)


def or_masks(*mask_mods: Mask) -> Mask:
    """The mask that leaves in what any of these leaves in.  Raises: RuntimeError for what cannot be called."""
    _callable(mask_mods)

    def or_mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = b.new_zeros((), dtype=bool_)
        for mask in mask_mods:
            result = result | mask(b, h, q_idx, kv_idx)
        return result

    return or_mask


def and_masks(*mask_mods: Mask) -> Mask:
    """The mask that leaves in what all of these leave in.  Raises: RuntimeError for what cannot be called."""
    _callable(mask_mods)

    def and_mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = b.new_ones((), dtype=bool_)
        for mask in mask_mods:
            result = result & mask(b, h, q_idx, kv_idx)
        return result

    return and_mask


def _callable(mask_mods: tuple[Any, ...]) -> None:
    if not all(callable(mask) for mask in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")


def everywhere(
    function: Callable[..., Tensor], first: tuple[Any, ...], sizes: tuple[int, ...], device: Any = None
) -> Tensor:
    """`function(*first's elements, batch, head, row, column)` at every place of a tensor of these sizes.

    The function sees numbers (tensors without dimensions), so that its conditions and its indexing are those of one place.
    """
    leading = (0,) * len(first)
    indices = [arange(n, dtype=int32, device=device) for n in sizes]
    for own in range(3, -1, -1):
        function = vmap(function, in_dims=leading + tuple(0 if i == own else None for i in range(4)), out_dims=0)
    return function(*first, *indices)


def create_mask(
    mod_fn: Callable[..., Tensor], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """The mask as a tensor: bool (B, H, Q_LEN, KV_LEN) of a function of four indices, or of a function of a score and four
    indices: False where it makes a score of 0 -inf.

    >>> from ferro.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, row, column: row >= column, None, None, 2, 3)
    tensor([[[[ True, False, False],
              [ True,  True, False]]]])
    """
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    empty(0, device=device)  # (raises for a device that is not there)
    count = positional(mod_fn)
    if count not in (4, 5):
        raise AssertionError(f"Expected 4 or 5 positional args, got {count}")
    if count == 5:
        return everywhere(mod_fn, (zeros(sizes, device=device),), sizes, device) != -math.inf
    return everywhere(mod_fn, (), sizes, device).expand(sizes)


def positional(function: Callable[..., Any]) -> int:
    """The number of arguments that a function takes by place and needs."""
    import inspect

    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = [p for p in inspect.signature(function).parameters.values() if p.kind in kinds]
    return len([p for p in taken if p.default is p.empty])


def create_block_mask(
    mask_mod: Mask,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
) -> BlockMask:
    """The BlockMask of a function of batch, head, row and column; None for B or H: the same for all.

    Raises: AssertionError for a function of another number of arguments, TypeError for what is no function.

    >>> from ferro.nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, row, column: row >= column, None, None, 8, 8, BLOCK_SIZE=2)
    >>> mask.shape, mask.sparsity()
    ((1, 1, 8, 8), 37.5)
    """
    if positional(mask_mod) != 4:
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    rows, columns = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    mask = pad(mask, (0, -KV_LEN % columns, 0, -Q_LEN % rows))
    counts = mask.unflatten(2, (-1, rows)).unflatten(4, (-1, columns)).sum((3, 5))
    full = counts == rows * columns if separate_full_blocks else counts.new_zeros(counts.shape, dtype=bool_)
    filled = _ordered(full) if separate_full_blocks else (None, None)
    return BlockMask.from_kv_blocks(
        *_ordered((counts > 0) & ~full),
        *filled,
        BLOCK_SIZE=(rows, columns),
        mask_mod=mask_mod,
        seq_lengths=(Q_LEN, KV_LEN),
    )


class BlockMask:
    """A mask, and for each row of blocks the columns whose block is not empty (`kv_indices`, the first `kv_num_blocks` count).

    Blocks in which nothing is masked out may stand apart (`full_...`); the names with `q` are the same by columns. ferro's
    `flex_attention` asks the function (`mask_mod`) at every place, as PyTorch's does where it is not compiled.
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (_DEFAULT_SPARSE_BLOCK_SIZE, _DEFAULT_SPARSE_BLOCK_SIZE),
        mask_mod: Mask = noop_mask,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        if (full_q_num_blocks is None) != (full_q_indices is None):
            raise AssertionError("full_q_num_blocks and full_q_indices must be both provided or omitted")
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: Mask | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """The mask whose blocks are given by rows; those by columns follow."""
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        by_columns: list[Tensor | None] = [None] * 4
        if compute_q_blocks:
            by_columns[:2] = _ordered(_dense(kv_num_blocks, kv_indices).mT)
            if full_kv_num_blocks is not None and full_kv_indices is not None:
                by_columns[2:] = _ordered(_dense(full_kv_num_blocks, full_kv_indices).mT)
        lengths = seq_lengths or (kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1])
        return cls(
            lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            *by_columns,
            BLOCK_SIZE=size,
            mask_mod=mask_mod or noop_mask,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The batch dimensions, and the lengths of the sequences."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """The number of places, masked out or not."""
        count = 1
        for n in self.shape:
            count *= n
        return count

    def sparsity(self) -> float:
        """How many of a hundred places are in blocks that are empty."""
        blocks = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            blocks += int(self.full_kv_num_blocks.sum())
        return 100 * (1 - blocks * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self) -> Tensor:
        """1 for each block that is not empty: int32 (..., rows of blocks, columns of blocks)."""
        found = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            found = found | _dense(self.full_kv_num_blocks, self.full_kv_indices)
        return found

    def to(self, device: Any) -> BlockMask:
        """Itself: ferro has one device, and refuses the names of others."""
        self.kv_indices.to(device)
        return self

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some batches, heads or rows of blocks; its `mask_mod` has to be set, since indices have moved."""
        given = (*(index if isinstance(index, tuple) else (index,)), *[slice(None)] * 3)[:3]
        sizes = self.kv_num_blocks.shape[:3]
        at = tuple(
            slice(i % n, i % n + 1) if isinstance(i, int) and -n <= i < n else i
            for i, n in zip(given, sizes, strict=True)
        )
        full = None if self.full_kv_num_blocks is None else self.full_kv_num_blocks[at]
        return BlockMask.from_kv_blocks(
            self.kv_num_blocks[at],
            self.kv_indices[at],
            full,
            None if self.full_kv_indices is None else self.full_kv_indices[at],
            self.BLOCK_SIZE,
            _moved,
            self.seq_lengths,
            self.q_indices is not None,
        )

    def __repr__(self) -> str:
        name = getattr(self.mask_mod, "__name__", self.mask_mod)
        return f"BlockMask(shape={self.shape}, BLOCK_SIZE={self.BLOCK_SIZE}, sparsity={self.sparsity():.2f}%, mask_mod={name})"


def _moved(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
    raise RuntimeError(
        "Cannot use mask_mod from a sliced BlockMask. When you slice a BlockMask using [], the mask_mod attribute is reset. "
        "You must set it from the original BlockMask's mask_mod: with an offset for the rows that are left out"
    )


def _ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """For each row the number of its blocks, and their columns in front of the others."""
    dense = dense.to(int32)
    return dense.sum(-1).to(int32), dense.argsort(-1, descending=True, stable=True).to(int32)


def _dense(counts: Tensor, columns: Tensor) -> Tensor:
    """1 at the blocks that `_ordered` has named."""
    counted = arange(columns.shape[-1], device=counts.device) < counts.unsqueeze(-1)
    return zeros(columns.shape, dtype=int32, device=counts.device).scatter(-1, columns.long(), counted.to(int32))
