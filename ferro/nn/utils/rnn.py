"""Sequences of different lengths as one tensor, padded or packed, and back."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple, Self

from ferro.core import dtypes
from ferro.core.requirements import fixed
from ferro.ops.data import as_tensor
from ferro.ops.joining import cat, stack
from ferro.ops.order import sort
from ferro.ops.ranges import arange
from ferro.tensor import Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class PackedSequence_(NamedTuple):
    """The four fields of a PackedSequence."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedSequence_):
    """Sequences without padding: the first elements of all, then the second elements of all that have one, and so on.

    - `data` (Tensor): (sum of lengths, *)
    - `batch_sizes` (Tensor, default None): int64, how many sequences have a first element, a second, ...
    - `sorted_indices` (Tensor, default None): the order of the packed sequences, longest first; None if they came in it
    - `unsorted_indices` (Tensor, default None): the way back

    `pack_padded_sequence` and `pack_sequence` make it; recurrent layers take it.

    Example::

        >>> import ferro
        >>> from ferro.nn.utils.rnn import pack_sequence
        >>> pack_sequence([ferro.tensor([1, 2, 3]), ferro.tensor([4])]).batch_sizes
        tensor([2, 1, 1])
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Any = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. They "
                "should be instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn."
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """With the data converted as by `Tensor.to`; itself if there is nothing to do."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        return type(self)(data, self.batch_sizes, self.sorted_indices, self.unsorted_indices)

    def cpu(self, *args: Any, **kwargs: Any) -> Self:
        """With the data on the CPU, where they are."""
        return self.to(*args, **{"device": "cpu", **kwargs})

    def double(self) -> Self:
        """With data of float64."""
        return self.to(dtype=dtypes.float64)

    def float(self) -> Self:
        """With data of float32."""
        return self.to(dtype=dtypes.float32)

    def half(self) -> Self:
        """With data of float16."""
        return self.to(dtype=dtypes.float16)

    def long(self) -> Self:
        """With data of int64."""
        return self.to(dtype=dtypes.int64)

    def int(self) -> Self:
        """With data of int32."""
        return self.to(dtype=dtypes.int32)

    def short(self) -> Self:
        """With data of int16."""
        return self.to(dtype=dtypes.int16)

    def char(self) -> Self:
        """With data of int8."""
        return self.to(dtype=dtypes.int8)

    def byte(self) -> Self:
        """With data of uint8."""
        return self.to(dtype=dtypes.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the data are on a GPU."""
        return self.data.device.type == "cuda"

    def is_pinned(self) -> bool:
        """Whether the data are in memory that a GPU reads directly: there is none here."""
        return False


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes another; None of None.

    >>> import ferro
    >>> invert_permutation(ferro.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    return permutation.argsort()


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs the sequences of a padded tensor; what is padding does not matter.

    - `input` (Tensor): (L, N, *), or (N, L, *) with batch_first
    - `lengths` (list or Tensor): of each sequence; RuntimeError unless they are positive and fit
    - `batch_first` (bool, default False): see above
    - `enforce_sorted` (bool, default True): RuntimeError for lengths that do not decrease; False sorts them

    Example::

        >>> import ferro
        >>> from ferro.nn.utils.rnn import pack_padded_sequence
        >>> packed = pack_padded_sequence(ferro.tensor([[1, 2, 3], [4, 0, 0]]), [3, 1], batch_first=True)
        >>> packed.data, packed.batch_sizes
        (tensor([1, 4, 2, 3]), tensor([2, 1, 1]))
    """
    lengths = as_tensor(lengths, dtype=dtypes.int64, device="cpu")
    order = None
    if not enforce_sorted:
        lengths, order = sort(lengths, descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    if batch_first:
        input = input.transpose(0, 1)
    longest = _check_lengths(input, lengths)
    present = arange(longest, device="cpu").unsqueeze(1) < lengths  # (L, N)
    return PackedSequence(input[:longest][present], present.sum(1), order, None)


def _check_lengths(input: Tensor, lengths: Tensor) -> int:
    """The largest length; input is (L, N, *)."""
    if input.numel() == 0:
        raise RuntimeError(f"Cannot pack empty tensors. (pack_padded_sequence got shape {list(input.shape)})")
    if lengths.dim() != 1 or len(lengths) != input.shape[1]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.numel()} (batch_size={input.shape[1]})"
        )
    values = lengths.tolist()
    if min(values) <= 0:
        raise RuntimeError(
            f"Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0: {min(values)}"
        )
    if any(a < b for a, b in pairwise(values)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not "
            f"need ONNX exportability. (They are {values}.)"
        )
    if values[0] > input.shape[0]:
        raise RuntimeError(
            f"pack_padded_sequence: expected lengths of at most {input.shape[0]}, the padded length, but got {values[0]}"
        )
    return values[0]


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The padded tensor and the lengths of a packed one: the inverse of `pack_padded_sequence`.

    - `sequence` (PackedSequence): what is unpacked
    - `batch_first` (bool, default False): the result is (N, L, *) instead of (L, N, *)
    - `padding_value` (float, default 0.0): stands behind the end of shorter sequences
    - `total_length` (int, default None): the L wanted; ValueError if it is too short

    Example::

        >>> import ferro
        >>> from ferro.nn.utils.rnn import pack_sequence, pad_packed_sequence
        >>> packed = pack_sequence([ferro.tensor([1, 2, 3]), ferro.tensor([4])])
        >>> pad_packed_sequence(packed, batch_first=True)
        (tensor([[1, 2, 3],
                [4, 0, 0]]), tensor([3, 1]))
    """
    longest = len(sequence.batch_sizes)
    if total_length is not None and total_length < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {longest}"
        )
    steps = longest if total_length is None else total_length
    data = sequence.data
    sizes = fixed(sequence.batch_sizes._data)
    batch = sizes[0]
    present = arange(batch, device="cpu") < as_tensor(sizes, device="cpu").unsqueeze(1)  # (longest, N)
    lengths = present.sum(0)
    padded = data.new_full((steps, batch, *data.shape[1:]), padding_value)
    at = present.nonzero()
    padded = padded.index_put((at[:, 0], at[:, 1]), data)
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices.to(lengths.device)]
    return padded.transpose(0, 1) if batch_first else padded, lengths


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of tensors (L_i, *).

    >>> import ferro
    >>> pack_sequence([ferro.tensor([1, 2, 3]), ferro.tensor([4])]).data
    tensor([1, 4, 2, 3])
    """
    lengths = [len(sequence) for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that `pack_sequence` packed."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


def pad_sequence(
    sequences: Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stacks tensors of different lengths; the shorter ones are padded on one side.

    - `sequences` (tensors): (L_i, *); RuntimeError for none of them
    - `batch_first` (bool, default False): the result is (N, L, *) instead of (L, N, *)
    - `padding_value` (float, default 0.0): stands in the padding
    - `padding_side` (str, default 'right'): 'right' or 'left', else RuntimeError

    Example::

        >>> import ferro
        >>> ferro.nn.utils.rnn.pad_sequence([ferro.tensor([1, 2, 3]), ferro.tensor([4])], batch_first=True)
        tensor([[1, 2, 3],
                [4, 0, 0]])
    """
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
