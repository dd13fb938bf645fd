"""Packed sequences, and recurrent layers over them: order, states, gradients and refusals of torch."""

from __future__ import annotations

from typing import Any

import pytest

import ferro
from tests.nn.parity import assert_same, compare_gradients, to_ferro, torch, twins

LENGTHS = [3, 5, 1, 5]


def packed(t: Any, x: Any, **options: Any) -> Any:
    """x, (L, N, *), packed by LENGTHS."""
    return t.nn.utils.rnn.pack_padded_sequence(x, LENGTHS, enforce_sorted=False, **options)


def padded(t: Any, sequence: Any, **options: Any) -> Any:
    """And back."""
    return t.nn.utils.rnn.pad_packed_sequence(sequence, **options)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("trailing", [(), (2,), (2, 3)], ids=str)
def test_packing_and_back(batch_first: bool, trailing: tuple[int, ...]) -> None:
    x = torch.randn(4, 6, *trailing, dtype=torch.float64)
    x = x if batch_first else x.transpose(0, 1)
    mine = to_ferro(x.contiguous())
    theirs, ours = packed(torch, x, batch_first=batch_first), packed(ferro, mine, batch_first=batch_first)
    for name in ("data", "batch_sizes", "sorted_indices", "unsorted_indices"):
        assert_same(getattr(ours, name), getattr(theirs, name), name)
    options = {"batch_first": batch_first, "padding_value": 7.0, "total_length": 8}
    for a, b in zip(padded(ferro, ours, **options), padded(torch, theirs, **options), strict=True):
        assert_same(a, b, "padded")
    again = ferro.nn.utils.rnn.unpack_sequence(ours)
    for i, sequence in enumerate(again):
        assert sequence.tolist() == (x[i] if batch_first else x[:, i])[: LENGTHS[i]].tolist()


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 2, "bidirectional": True, "bias": False}], ids=["plain", "deep"]
)
@pytest.mark.parametrize("given", [False, True], ids=["from zeros", "from states"])
def test_recurrent_layers_over_packed_sequences(kind: str, options: dict[str, Any], given: bool) -> None:
    if kind == "LSTM" and options:
        options = {**options, "proj_size": 2}
    ours, theirs = twins(lambda nn: getattr(nn, kind)(3, 4, **options))
    rows = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    x = torch.randn(5, 4, 3, dtype=torch.float64)
    states: Any = None
    if given:
        states = torch.randn(rows, 4, options.get("proj_size", 4), dtype=torch.float64)
        if kind == "LSTM":
            states = (states, torch.randn(rows, 4, 4, dtype=torch.float64))
    inputs, mine = [x], [to_ferro(x)]
    their_x, our_x = x.requires_grad_(), mine[0].requires_grad_()
    results = []
    for t, layer, value, state in ((ferro, ours, our_x, to_ferro(states)), (torch, theirs, their_x, states)):
        out, last = layer(packed(t, value), state) if given else layer(packed(t, value))
        results.append([padded(t, out)[0], *(last if kind == "LSTM" else (last,))])
    for i, (a, b) in enumerate(zip(*results, strict=True)):
        assert_same(a, b, f"{kind} {i}")
    compare_gradients(ours, theirs, mine, inputs, *results, 1e-10)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([1, 2], "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True"),
        ([2, 0], "Length of all samples has to be greater than 0"),
        ([2], r"Expected `len\(lengths\)` to be equal to batch_size"),
        ([9, 1], "at most 3"),
    ],
    ids=["rising", "zero", "few", "long"],
)
def test_lengths_that_do_not_fit_are_refused(lengths: list[int], message: str) -> None:
    for t in (ferro, torch) if lengths[0] < 9 else (ferro,):
        with pytest.raises(RuntimeError, match=message):
            t.nn.utils.rnn.pack_padded_sequence(t.ones(3, 2, 1), lengths)


def test_other_refusals() -> None:
    rnn = ferro.nn.utils.rnn
    with pytest.raises(RuntimeError, match="Cannot pack empty tensors"):
        rnn.pack_padded_sequence(ferro.ones(0, 2), [1, 1])
    sequence = rnn.pack_sequence([ferro.ones(3, 2), ferro.ones(1, 2)])
    with pytest.raises(ValueError, match="Expected total_length to be at least the length of the longest sequence"):
        rnn.pad_packed_sequence(sequence, total_length=2)
    with pytest.raises(RuntimeError, match="must be equal to input_size"):
        ferro.nn.GRU(3, 4)(sequence)
    with pytest.raises(RuntimeError, match=r"Expected hidden size \(1, 2, 4\), got \[1, 3, 4\]"):
        ferro.nn.GRU(2, 4)(sequence, ferro.zeros(1, 3, 4))
    with pytest.raises(RuntimeError, match=r"Expected hidden\[1\] size \(1, 2, 4\)"):
        ferro.nn.LSTM(2, 4)(sequence, (ferro.zeros(1, 2, 4), ferro.zeros(1, 2, 3)))
    with pytest.raises(ValueError, match="does not match weight dtype"):
        ferro.nn.RNN(2, 4)(sequence.double())
    with pytest.raises(RuntimeError, match="Expected sequence length to be larger than 0 in RNN"):
        ferro.nn.RNN(2, 4)(ferro.ones(0, 3, 2))
    for kind in ("RNN", "GRU"):
        with pytest.raises(ValueError, match="proj_size argument is only supported for LSTM"):
            getattr(ferro.nn, kind)(2, 4, proj_size=2)


def test_conversions_of_a_packed_sequence() -> None:
    sequence = ferro.nn.utils.rnn.pack_sequence([ferro.ones(3), ferro.ones(1)], enforce_sorted=False)
    assert sequence.to(ferro.float32) is sequence
    for name, dtype in (("double", "float64"), ("half", "float16"), ("long", "int64"), ("byte", "uint8")):
        converted = getattr(sequence, name)()
        assert type(converted) is type(sequence)
        assert converted.data.dtype is getattr(ferro, dtype)
        assert converted.sorted_indices is sequence.sorted_indices
