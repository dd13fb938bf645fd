"""flex_attention and its masks compute what PyTorch's do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ferro
from ferro.nn.attention import flex_attention as ours


@pytest.fixture
def theirs(torch: Any) -> Any:
    return pytest.importorskip("torch.nn.attention.flex_attention")


def causal(b: Any, h: Any, row: Any, column: Any) -> Any:
    return row >= column


def window(b: Any, h: Any, row: Any, column: Any) -> Any:
    return (row - column).abs() <= 2 + h


def third_row_empty(b: Any, h: Any, row: Any, column: Any) -> Any:
    return (row != 3) & (column != b)


MASKS = {"none": None, "causal": causal, "window": window, "empty row": third_row_empty}
SCORES = {
    "none": lambda table: None,
    "distance": lambda table: lambda s, b, h, row, column: s + (row - column) / 4,
    "table": lambda table: lambda s, b, h, row, column: s * table[h, row] + table[h, column],
    "where": lambda table: lambda s, b, h, row, column: (table[0, 0] * s).where(row > column, s.tanh()),
}


def inputs(rng: Any, shared: int = 1) -> tuple[Any, ...]:
    heads = (2 * shared, 2, 2)
    return tuple(
        rng.standard_normal((3, n, length, 4), dtype=np.float32) for n, length in zip(heads, (6, 5, 5), strict=True)
    )


@pytest.mark.filterwarnings("ignore:.*flex_attention called without torch.compile")
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("mask", MASKS)
def test_attention_with_functions_is_pytorchs(theirs: Any, torch: Any, rng: Any, mask: str, score: str) -> None:
    q, k, v = inputs(rng)
    table = rng.standard_normal((2, 8), dtype=np.float32)
    found = []
    for module, t in ((ours, ferro), (theirs, torch)):
        blocks = MASKS[mask] and module.create_block_mask(MASKS[mask], 3, 2, 6, 5, BLOCK_SIZE=2, device="cpu")
        found.append(
            module.flex_attention(*map(t.tensor, (q, k, v)), SCORES[score](t.tensor(table)), blocks, scale=0.7)
        )
    np.testing.assert_allclose(found[0].numpy(), found[1].numpy(), rtol=2e-5, atol=2e-6)


@pytest.mark.filterwarnings("ignore:.*flex_attention called without torch.compile")
def test_shared_heads_and_logsumexp(theirs: Any, torch: Any, rng: Any) -> None:
    q, k, v = inputs(rng, shared=2)
    found = []
    for module, t in ((ours, ferro), (theirs, torch)):
        request = module.AuxRequest(lse=True)
        result, aux = module.flex_attention(*map(t.tensor, (q, k, v)), enable_gqa=True, return_aux=request)
        assert aux.max_scores is None
        found.append((result.numpy(), aux.lse.numpy()))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)
    largest = ours.flex_attention(
        *map(ferro.tensor, (q, k, v)), enable_gqa=True, return_aux=ours.AuxRequest(max_scores=True)
    )[1]
    expected = np.einsum("bhle,bhse->bhls", q, np.repeat(k, 2, 1)).max(-1) / 2
    np.testing.assert_allclose(largest.max_scores.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_gradients_are_those_of_masked_attention(torch: Any, rng: Any) -> None:
    """PyTorch has no gradients of flex_attention on the CPU: its masked attention is the reference."""
    arrays = inputs(rng)
    own: Any = [ferro.tensor(a, requires_grad=True) for a in arrays]
    ours.flex_attention(*own, block_mask=ours.create_block_mask(causal, None, None, 6, 5)).square().sum().backward()
    other = [torch.tensor(a, requires_grad=True) for a in arrays]
    mask = torch.ones(6, 5, dtype=torch.bool).tril()
    torch.nn.functional.scaled_dot_product_attention(*other, attn_mask=mask).square().sum().backward()
    for a, b in zip(own, other, strict=True):
        assert a.grad is not None
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("separate", [True, False], ids=["full blocks apart", "together"])
@pytest.mark.parametrize("mask", [causal, window, third_row_empty])
def test_blocks_are_pytorchs(theirs: Any, mask: Any, separate: bool) -> None:
    made = [
        m.create_block_mask(mask, 2, 2, 7, 10, "cpu", (2, 3), separate_full_blocks=separate) for m in (ours, theirs)
    ]
    for name in (
        "kv_num_blocks",
        "kv_indices",
        "full_kv_num_blocks",
        "full_kv_indices",
        "q_num_blocks",
        "q_indices",
        "full_q_num_blocks",
        "full_q_indices",
    ):
        a, b = (getattr(x, name) for x in made)
        assert (a is None) == (b is None)
        if a is not None:
            assert (a.tolist(), str(a.dtype)[6:]) == (b.tolist(), str(b.dtype)[6:])
    for call in (
        lambda x: x.shape,
        lambda x: x.numel(),
        lambda x: x.sparsity(),
        lambda x: x.to_dense().tolist(),
        lambda x: x.seq_lengths,
        lambda x: x[0].kv_indices.tolist(),
        lambda x: x[1, -1].shape,
        lambda x: x[:, :, 1].to_dense().tolist(),
        lambda x: x.BLOCK_SIZE,
    ):
        assert call(made[0]) == call(made[1])
    for x in made:
        with pytest.raises(RuntimeError, match="Cannot use mask_mod from a sliced BlockMask"):
            x[0].mask_mod(None, None, None, None)


def test_masks_are_joined(theirs: Any) -> None:
    joined = [
        m.create_mask(m.or_masks(m.and_masks(causal, window), third_row_empty), 2, 2, 5, 5, "cpu").tolist()
        for m in (ours, theirs)
    ]
    assert joined[0] == joined[1]
    scores = [
        m.create_mask(
            lambda s, b, h, row, column: (row + s).where(row >= column, -float("inf")), 2, 1, 2, 2, "cpu"
        ).tolist()
        for m in (ours, theirs)
    ]
    assert scores[0] == scores[1]
    for m in (ours, theirs):
        with pytest.raises(RuntimeError, match="All inputs should be callable mask_mods"):
            m.or_masks(causal, 3)
        with pytest.raises(AssertionError, match="requires a mask_mod function"):
            m.create_block_mask(lambda s, b, h, row, column: s, 1, 1, 2, 2, "cpu")


@pytest.mark.parametrize(
    ("shapes", "kwargs", "error", "match"),
    [
        ([(1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 3, 4)], {}, ValueError, "to have the same embedding dimension"),
        ([(1, 4, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)], {}, ValueError, "Try setting enable_gqa=True"),
        ([(1, 3, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)], {"enable_gqa": True}, ValueError, "multiple of kv heads for GQA"),
        ([(2, 3, 4), (2, 3, 4), (2, 3, 4)], {}, NotImplementedError, "must be 4D tensors"),
        ([(1, 1, 9, 4), (1, 1, 8, 4), (1, 1, 8, 4)], {"block_mask": True}, ValueError, "created for a smaller length"),
        ([(1, 1, 7, 4), (1, 1, 8, 4), (1, 1, 8, 4)], {"block_mask": True}, ValueError, "created for a larger length"),
    ],
    ids=["widths", "heads", "groups", "dimensions", "short mask", "long mask"],
)
def test_shapes_that_do_not_fit(theirs: Any, torch: Any, shapes: Any, kwargs: Any, error: Any, match: str) -> None:
    for module, t in ((ours, ferro), (theirs, torch)):
        given = dict(kwargs)
        if "block_mask" in given:
            given["block_mask"] = module.create_block_mask(causal, 1, 1, 8, 8, "cpu")
        with pytest.raises(error, match=match):
            module.flex_attention(*(t.zeros(s) for s in shapes), **given)
