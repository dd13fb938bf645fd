"""Sequences of different lengths as one padded tensor, and back."""

from __future__ import annotations

from collections.abc import Iterable

from ferro.ops.joining import cat, stack
from ferro.tensor import Tensor


def pad_sequence(
    sequences: Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack tensors (L_i, *) as (L, N, *), or (N, L, *) with batch_first, the shorter ones padded on one side."""
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"pad_sequence: Expected padding_side to be 'left' or 'right', got {padding_side!r}")
    parts = list(sequences)
    if not parts:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    longest = max(part.shape[0] for part in parts)
    padded = []
    for part in parts:
        if part.shape[1:] != parts[0].shape[1:]:
            raise RuntimeError(
                "pad_sequence: all sequences must have the same trailing dimensions, "
                f"got shapes {tuple(parts[0].shape)} and {tuple(part.shape)}"
            )
        missing = longest - part.shape[0]
        if missing:
            padding = part.new_full((missing, *part.shape[1:]), padding_value)
            part = cat([part, padding] if padding_side == "right" else [padding, part])
        padded.append(part)
    return stack(padded, dim=0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences that `pad_sequence` padded on the right, given their lengths."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [sequence[: int(length)] for sequence, length in zip(padded_sequences, lengths.tolist(), strict=True)]
