"""What layers do beyond one formula: running statistics, masks, dropout, output sizes, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ferro
from ferro import nn
from tests.nn.parity import assert_same, flat, to_ferro, torch, twins


@pytest.mark.parametrize(
    "make",
    [
        lambda nn: nn.BatchNorm2d(3),
        lambda nn: nn.BatchNorm2d(3, momentum=None),
        lambda nn: nn.BatchNorm2d(3, momentum=0.5, affine=False),
        lambda nn: nn.InstanceNorm2d(3, track_running_stats=True),
    ],
)
def test_running_statistics_over_several_batches(make: Any) -> None:
    ours, theirs = twins(make)
    for _ in range(4):
        x = torch.randn(5, 3, 2, 2, dtype=torch.float64) * 3 + 1
        assert_same(ours(to_ferro(x)), theirs(x), "training")
    ours.eval()
    theirs.eval()
    x = torch.randn(2, 3, 2, 2, dtype=torch.float64)
    assert_same(ours(to_ferro(x)), theirs(x), "evaluation")
    for key, value in theirs.state_dict().items():
        assert_same(ours.state_dict()[key], value, key)
    ours.reset_running_stats()
    assert ours.running_mean.tolist() == [0.0, 0.0, 0.0]
    assert ours.num_batches_tracked.item() == 0


def causal(length: int) -> Any:
    """The causal mask, True above the diagonal."""
    return torch.ones(length, length, dtype=torch.bool).triu(1)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("extra", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"attn_mask": causal(5)},
        {"attn_mask": causal(5), "is_causal": True, "need_weights": False},
        {"attn_mask": torch.randn(5, 5, dtype=torch.float64), "average_attn_weights": False},
        {"attn_mask": torch.randn(12, 5, 5, dtype=torch.float64)},
        {"key_padding_mask": torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] + [True] * 4])},
        {"key_padding_mask": torch.randn(3, 5, dtype=torch.float64), "attn_mask": torch.randn(5, 5).double()},
    ],
)
def test_attention_with_masks(options: dict[str, Any], batch_first: bool, extra: bool) -> None:
    if extra and options.get("is_causal"):
        pytest.skip("torch replaces the mask by one that does not know of the extra positions")
    ours, theirs = twins(
        lambda nn: nn.MultiheadAttention(8, 4, add_bias_kv=extra, add_zero_attn=extra, batch_first=batch_first)
    )
    x = torch.randn(*((3, 5) if batch_first else (5, 3)), 8, dtype=torch.float64, requires_grad=True)
    y = to_ferro(x).requires_grad_()
    their_out, our_out = flat(theirs(x, x, x, **options)), flat(ours(y, y, y, **to_ferro(options)))
    assert len(their_out) == len(our_out)
    for a, b in zip(our_out, their_out, strict=True):
        assert_same(a, b, "output")
    sum(out.square().sum() for out in their_out).backward()
    sum(out.square().sum() for out in our_out).backward()
    assert_same(y.grad, x.grad, "gradient")


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("train", [False, True])
def test_encoder_with_masks(norm_first: bool, train: bool) -> None:
    ours, theirs = twins(
        lambda nn: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, norm_first=norm_first),
            2,
            enable_nested_tensor=False,
        )
    )
    ours.train(train)
    theirs.train(train)
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 5])
    assert_same(ours(to_ferro(x), to_ferro(mask), is_causal=True), theirs(x, mask, is_causal=True), "causal")
    additive = torch.zeros(3, 5, dtype=torch.float64).masked_fill(padding, -math.inf)
    a = ours(to_ferro(x), to_ferro(mask), to_ferro(additive))
    assert_same(a, theirs(x, mask, additive), "causal and padded")
    assert_same(nn.Transformer.generate_square_subsequent_mask(4), mask.float()[:4, :4], "mask")


def test_transformer_with_masks() -> None:
    ours, theirs = twins(lambda nn: nn.Transformer(8, 2, 1, 1, 16, 0.0, batch_first=True))
    src, tgt = torch.randn(2, 5, 8, dtype=torch.float64), torch.randn(2, 4, 8, dtype=torch.float64)
    options = {
        "tgt_mask": causal(4),
        "src_key_padding_mask": torch.tensor([[False] * 5, [False] * 4 + [True]]),
        "memory_key_padding_mask": torch.tensor([[False] * 5, [False] * 4 + [True]]),
    }
    assert_same(ours(to_ferro(src), to_ferro(tgt), **to_ferro(options)), theirs(src, tgt, **options), "output")


def test_decoder_with_masks() -> None:
    ours, theirs = twins(lambda nn: nn.TransformerDecoderLayer(8, 2, 16, 0.0, "gelu"))
    tgt, memory = torch.randn(4, 2, 8, dtype=torch.float64), torch.randn(5, 2, 8, dtype=torch.float64)
    options = {"tgt_mask": causal(4), "memory_mask": torch.randn(4, 5, dtype=torch.float64)}
    assert_same(ours(to_ferro(tgt), to_ferro(memory), **to_ferro(options)), theirs(tgt, memory, **options), "output")


@pytest.mark.parametrize("output_size", [(7, 7), (2, 4, 8, 7), [8, 8]])
def test_transposed_convolution_with_an_output_size(output_size: Any) -> None:
    ours, theirs = twins(lambda nn: nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1))
    x = torch.randn(2, 3, 4, 4, dtype=torch.float64)
    assert_same(ours(to_ferro(x), output_size), theirs(x, list(output_size)), "output")
    with pytest.raises(ValueError, match="valid sizes range from"):
        ours(to_ferro(x), (9, 8))


@pytest.mark.parametrize(
    "name", ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"]
)
def test_dropout_drops_its_share(name: str) -> None:
    shape = {"Dropout1d": (200, 100, 3), "Dropout3d": (100, 100, 1, 2, 2)}.get(name, (200, 50, 2, 2))
    layer = getattr(nn, name)(0.3)
    x = ferro.ones(shape)
    out = layer(x).numpy()
    values, counts = np.unique(out, return_counts=True)
    assert len(values) == 2
    assert counts.min() / out.size == pytest.approx(0.3, abs=0.02)
    if "Alpha" not in name:
        assert values.tolist() == pytest.approx([0.0, 1 / 0.7])
    whole_channels = name not in ("Dropout", "AlphaDropout")
    spread = np.ptp(out.reshape(*shape[:2], -1), axis=-1)
    assert bool((spread == 0).all()) == whole_channels
    layer.eval()
    assert layer(x) is x or (layer(x).numpy() == 1).all()


def test_dropout_gives_the_gradient_of_its_mask() -> None:
    x = ferro.ones(1000, requires_grad=True)
    out = nn.Dropout(0.5)(x)
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), out.detach().numpy())


def test_activations_in_place() -> None:
    x = ferro.tensor([-1.0, 2.0])
    assert nn.ReLU(inplace=True)(x) is x
    assert x.tolist() == [0.0, 2.0]


def test_recurrent_dropout_acts_between_layers() -> None:
    layer = nn.LSTM(3, 4, 2, dropout=0.9)
    x = ferro.ones(5, 2, 3)
    first, second = layer(x)[0], layer(x)[0]
    assert first.tolist() != second.tolist()
    layer.eval()
    assert layer(x)[0].tolist() == layer(x)[0].tolist()
    with pytest.warns(UserWarning, match="num_layers greater than 1"):
        nn.LSTM(3, 4, dropout=0.5)


def test_recurrent_weights_are_listed() -> None:
    layer = nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2)
    theirs = torch.nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2)
    assert [[tuple(w.shape) for w in ws] for ws in layer.all_weights] == [
        [tuple(w.shape) for w in ws] for ws in theirs.all_weights
    ]
    layer.flatten_parameters()


def test_old_reduction_flags() -> None:
    with pytest.warns(UserWarning, match="please use reduction='sum'"):
        assert nn.MSELoss(size_average=False).reduction == "sum"
    with pytest.warns(UserWarning, match="please use reduction='none'"):
        assert nn.L1Loss(reduce=False).reduction == "none"


def test_weights_of_losses_are_buffers() -> None:
    loss = nn.BCEWithLogitsLoss(ferro.ones(2), pos_weight=ferro.ones(2))
    assert list(loss.state_dict()) == ["weight", "pos_weight"]
    assert loss.double().weight.dtype == ferro.float64


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=2), ValueError, "in_channels must be divisible by groups"),
        (lambda: nn.Conv2d(4, 3, 3, groups=2), ValueError, "out_channels must be divisible by groups"),
        (lambda: nn.Conv2d(4, 4, 3, groups=0), ValueError, "positive integer"),
        (lambda: nn.Conv2d(3, 4, 3, padding="half"), ValueError, "Invalid padding string"),
        (lambda: nn.Conv2d(3, 4, 3, stride=2, padding="same"), ValueError, "not supported for strided"),
        (lambda: nn.Conv2d(3, 4, 3, padding_mode="mirror"), ValueError, "padding_mode must be one of"),
        (lambda: nn.ConvTranspose2d(3, 4, 3, padding_mode="reflect"), ValueError, 'Only "zeros"'),
        (lambda: nn.ConvTranspose2d(3, 4, 3)(ferro.ones(1, 3, 2, 2), [1]), ValueError, "must have 2 or 4 elements"),
        (lambda: nn.BatchNorm1d(3)(ferro.ones(3)), ValueError, "expected 2D or 3D input"),
        (lambda: nn.BatchNorm2d(3)(ferro.ones(3, 3)), ValueError, "expected 4D input"),
        (lambda: nn.BatchNorm3d(3)(ferro.ones(3, 3)), ValueError, "expected 5D input"),
        (lambda: nn.InstanceNorm1d(3)(ferro.ones(3)), ValueError, "expected 2D or 3D input"),
        (lambda: nn.InstanceNorm1d(3, affine=True)(ferro.ones(2, 4, 5)), ValueError, "to match num_features"),
        (lambda: nn.GroupNorm(2, 3), ValueError, "must be divisible by num_groups"),
        (lambda: nn.Embedding(3, 2, padding_idx=3), AssertionError, "must be within num_embeddings"),
        (lambda: nn.Embedding(3, 2, _weight=ferro.ones(2, 2)), ValueError, "does not match num_embeddings"),
        (lambda: nn.Dropout(1.5), ValueError, "between 0 and 1, but got 1.5"),
        (lambda: nn.Hardtanh(1.0, 0.0), ValueError, "max_val must be larger"),
        (lambda: nn.Bilinear(0, 2, 2), ValueError, "in1_features must be > 0"),
        (lambda: nn.Unflatten(1, "ab"), TypeError, "must be a tuple of ints"),
        (lambda: nn.Softmax2d()(ferro.ones(2)), ValueError, "3D or 4D"),
        (lambda: nn.TripletMarginLoss(margin=0), ValueError, "greater than 0"),
        (lambda: nn.MultiheadAttention(5, 2), AssertionError, "divisible by num_heads"),
        (lambda: nn.MultiheadAttention(4, 2)(*[ferro.ones(3, 1, 5)] * 3), AssertionError, "embedding dimension of 4"),
        (
            lambda: nn.MultiheadAttention(4, 2)(*[ferro.ones(3, 1, 4)] * 3, is_causal=True),
            RuntimeError,
            "Need attn_mask",
        ),
        (
            lambda: nn.MultiheadAttention(4, 2)(*[ferro.ones(3, 1, 4)] * 3, attn_mask=ferro.ones(2, 2)),
            RuntimeError,
            r"but should be \(3, 3\)",
        ),
        (lambda: nn.TransformerEncoderLayer(4, 2, activation="swish"), RuntimeError, "should be relu/gelu"),
        (lambda: nn.RNN(2, 2, nonlinearity="sin"), ValueError, "Unknown nonlinearity 'sin'"),
        (lambda: nn.GRU(2, 0), ValueError, "hidden_size must be greater than zero"),
        (lambda: nn.LSTM(2, 2, proj_size=2), ValueError, "proj_size has to be smaller"),
        (lambda: nn.LSTM(2, 2, 2, dropout=2.0), ValueError, r"range \[0, 1\]"),
        (lambda: nn.LSTM(2, 2)(ferro.ones(3)), ValueError, "Expected input to be 2D or 3D, got 1D"),
        (lambda: nn.LSTM(2, 2)(ferro.ones(3, 1, 3)), RuntimeError, "Expected 2, got 3"),
        (lambda: nn.GRU(2, 2)(ferro.ones(3, 1, 2), ferro.ones(1, 2, 2)), RuntimeError, "Expected hidden size"),
        (lambda: nn.GRU(2, 2)(ferro.ones(3, 1, 2), ferro.ones(1, 2)), RuntimeError, "should also be 3-D"),
        (lambda: nn.LSTMCell(2, 2)(ferro.ones(3)), RuntimeError, "inconsistent input_size: got 3 expected 2"),
        (
            lambda: nn.GRUCell(2, 2)(ferro.ones(3, 2), ferro.ones(2, 2)),
            RuntimeError,
            "doesn't match hidden0 batch size",
        ),
    ],
)
def test_wrong_arguments_say_what_is_wrong(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


REFUSED = {
    "a target of another shape": lambda t: t.nn.BCELoss()(t.rand(5), t.rand(5, 1)),
    "an index for each element": lambda t: t.nn.functional.nll_loss(t.rand(10, 3), t.zeros(10, 2, dtype=t.int64)),
    "three ratios of two": lambda t: t.nn.FractionalMaxPool2d((2, 1), output_ratio=[0.5, 0.5, 0.6])(t.rand(1, 1, 9, 9)),
    "a grid of a flat image": lambda t: t.nn.functional.grid_sample(
        t.rand(1, 2, 2), t.rand(1, 1, 1, 2), align_corners=False
    ),
    "a size that is no whole number": lambda t: t.nn.functional.interpolate(t.rand(1, 1, 4, 4), size=(2.0, 2.0)),
    "an enormous image": lambda t: t.nn.functional.interpolate(t.rand(1, 1, 4, 4), scale_factor=1e20, mode="bilinear"),
    "no channels to reflect": lambda t: t.nn.ReflectionPad1d(2)(t.rand(3, 0, 10)),
    "no channels to replicate": lambda t: t.nn.ReplicationPad2d(2)(t.rand(3, 0, 10, 10)),
    "no channels to unfold": lambda t: t.nn.Unfold(2)(t.rand(3, 0, 4, 4)),
    "shapes that do not broadcast": lambda t: t.nn.functional.cosine_embedding_loss(
        t.rand(1, 5), t.rand(1, 6), t.ones(1)
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_torch_refuses_is_refused_in_its_words(name: str) -> None:
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - whatever torch raises
        REFUSED[name](torch)
    with pytest.raises(theirs.type) as ours:
        REFUSED[name](ferro)
    sentence = str(theirs.value).replace("torch.", "ferro.").removeprefix("grid_sampler(): ").rstrip(".")
    assert sentence.split(" in last dimension, but got")[0] in str(ours.value)


def test_a_warning_of_different_sizes_has_torch_s_words() -> None:
    with pytest.warns(UserWarning, match="Please ensure they have the same size"):
        ferro.nn.functional.mse_loss(ferro.ones(3, 1), ferro.ones(3))


IMAGES = {
    "pad": lambda t, x: t.nn.functional.pad(x, (1, 2)),
    "reflect": lambda t, x: t.nn.functional.pad(x, (1, 2, 1, 0), mode="reflect"),
    "bilinear": lambda t, x: t.nn.functional.interpolate(x, scale_factor=2, mode="bilinear"),
    "nearest": lambda t, x: t.nn.functional.interpolate(x, size=3),
    "pixel_shuffle": lambda t, x: t.nn.functional.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda t, x: t.nn.functional.pixel_unshuffle(x, 2),
    "group_norm": lambda t, x: t.nn.functional.group_norm(x, 2),
}


@pytest.mark.parametrize("name", IMAGES)
def test_images_keep_their_memory_format(name: str) -> None:
    x = torch.randn(2, 4, 6, 6, dtype=torch.float64)
    mine = to_ferro(x)
    last = IMAGES[name](ferro, mine.contiguous(memory_format=ferro.channels_last))
    theirs = IMAGES[name](torch, x.contiguous(memory_format=torch.channels_last))
    assert last.is_contiguous(memory_format=ferro.channels_last) == theirs.is_contiguous(
        memory_format=torch.channels_last
    )
    assert last.is_contiguous(memory_format=ferro.channels_last)
    assert IMAGES[name](ferro, mine).is_contiguous()
    assert_same(last, theirs, name)


def test_batches_of_nothing_go_through_transformers() -> None:
    for t in (ferro, torch):
        layer = t.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
        source, target = t.rand(0, 3, 8), t.rand(0, 5, 8, requires_grad=True)
        out = layer(target, source)
        out.sum().backward()
        assert tuple(out.shape) == tuple(target.grad.shape) == (0, 5, 8)
    linear = ferro.nn.Linear(2, 3)
    empty = ferro.zeros(0, 2, requires_grad=True)
    for _ in range(2):  # the second adds to a gradient of no elements
        linear(empty).sum().backward()
    assert empty.grad is not None
    assert empty.grad.shape == (0, 2)


def test_a_state_of_no_size_goes_through_cells() -> None:
    for kind in ("RNNCell", "GRUCell", "LSTMCell"):
        out = getattr(ferro.nn, kind)(3, 0)(ferro.ones(2, 3))
        assert (out[0] if kind == "LSTMCell" else out).shape == (2, 0)


def test_statistics_that_are_switched_off_stay_as_they_are() -> None:
    layer = ferro.nn.BatchNorm1d(3)
    layer.track_running_stats = False
    before = {key: value.tolist() for key, value in layer.state_dict().items()}
    layer(ferro.randn(4, 3))
    assert {key: value.tolist() for key, value in layer.state_dict().items()} == before


def test_batch_norm_refuses_tangents_of_its_statistics() -> None:
    ad = ferro.autograd.forward_ad
    x, one = ferro.randn(4, 3), ferro.ones(3)
    with ad.dual_level():
        dual = ad.make_dual(x, ferro.ones(4, 3))
        ferro.nn.functional.batch_norm(dual, one, one)
        with pytest.raises(RuntimeError, match="batch_norm is not differentiable wrt running_mean and running_var"):
            ferro.nn.functional.batch_norm(dual, ad.make_dual(one, one), one)


@pytest.mark.parametrize("name", ["softplus", "softshrink"])
def test_activations_write_to_out(name: str) -> None:
    x, out = ferro.randn(3), ferro.empty(3)
    function = getattr(ferro.nn.functional, name)
    assert function(x, out=out) is out
    assert out.tolist() == function(x).tolist()
    with pytest.raises(RuntimeError, match="unsupported operation: more than one element of the written-to tensor"):
        function(x, out=ferro.zeros(1).expand(3))


def test_arguments_of_to() -> None:
    layer = ferro.nn.Linear(2, 1)
    for arguments in (
        ("cpu", ferro.float64, True),
        (ferro.float64, True),
        (ferro.ones(1, dtype=ferro.float64),),
        ("cpu", None),
    ):
        assert layer.to(*arguments) is layer
        assert layer.weight.dtype is ferro.float64
    for wrong in (
        ("cpu", True),
        (None, True),
        (True,),
        (ferro.int64,),
        ("cpu", ferro.float64, 3),
        (ferro.ones(1), ferro.float64),
    ):
        with pytest.raises(TypeError):
            layer.to(*wrong)


BAGS = {
    "a row that is not there": lambda t: t.nn.functional.embedding_bag(
        t.tensor([7, 1]), t.rand(4, 2), t.tensor([0]), mode="max"
    ),
    "padding that is not there": lambda t: t.nn.functional.embedding_bag(t.tensor([[1]]), t.rand(4, 2), padding_idx=-6),
    "weights of another dtype": lambda t: t.nn.functional.embedding_bag(
        t.tensor([[1]]), t.rand(4, 2), mode="sum", per_sample_weights=t.ones(1, 1, dtype=t.float64)
    ),
    "a vector of rows": lambda t: t.nn.EmbeddingBag.from_pretrained(t.rand(3)),
    "a padding row too far": lambda t: t.nn.EmbeddingBag(4, 2, padding_idx=9),
    "an embedding's padding row too far": lambda t: t.nn.Embedding(4, 2, padding_idx=9),
    "an index too large": lambda t: t.nn.functional.embedding(t.tensor([9]), t.rand(4, 2)),
    "dropout of one dimension": lambda t: t.nn.functional.dropout1d(t.rand(1, 1, 1, 1)),
}


@pytest.mark.parametrize("name", BAGS)
def test_what_embeddings_refuse(name: str) -> None:
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - whatever torch raises
        BAGS[name](torch)
    with pytest.raises(theirs.type) as ours:
        BAGS[name](ferro)
    sentence = str(theirs.value).removeprefix("embedding_bag: ").split("; but type")[0].rstrip(".")
    assert sentence in str(ours.value)


def test_bags_of_nothing_lead_to_the_table() -> None:
    for mode in ("sum", "mean", "max"):
        bag = ferro.nn.EmbeddingBag(4, 2, mode=mode, padding_idx=1)
        out = bag(ferro.tensor([1, 1]), ferro.tensor([0, 2, 2]))
        out.sum().backward()
        assert out.tolist() == [[0.0, 0.0]] * 3
        assert bag.weight.grad is not None
        assert bag.weight.grad.tolist() == [[0.0, 0.0]] * 4


@pytest.mark.parametrize(("name", "ndim"), [("dropout2d", 5), ("dropout2d", 3), ("dropout3d", 6)])
def test_dropout_of_features_warns_in_torch_s_words(name: str, ndim: int) -> None:
    said = []
    for t in (ferro, torch):
        with pytest.warns(UserWarning, match=name) as caught:
            getattr(t.nn.functional, name)(t.ones(*[1] * ndim))
        said.append(str(caught[0].message))
    assert said[0] == said[1]


RANKS: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]] = {
    "key": ((3, 2, 4), (3, 4), None),
    "unbatched key": ((3, 4), (3, 2, 4), None),
    "query": ((4,), (4,), None),
    "padding": ((3, 2, 4), (3, 2, 4), (3,)),
    "unbatched padding": ((3, 4), (3, 4), (1, 3)),
}


@pytest.mark.parametrize("name", RANKS)
def test_attention_refuses_ranks_in_torch_s_words(name: str) -> None:
    query, key, padding = RANKS[name]
    said = []
    for t in (ferro, torch):
        mask = None if padding is None else t.zeros(*padding, dtype=t.bool)
        with pytest.raises(AssertionError) as caught:
            t.nn.MultiheadAttention(4, 2)(t.rand(*query), t.rand(*key), t.rand(*key), key_padding_mask=mask)
        said.append(str(caught.value))
    assert said[1] in said[0]
