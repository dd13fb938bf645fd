"""Settings of the modules that PyTorch's database lacks, and the modules that are compared elsewhere, with the reason.

A setting is (arguments of the constructor, its options, arguments of the call, its options).
"""

from __future__ import annotations

from typing import Any

from tests.torch_databases import torch

# What has no call of its own, or draws random numbers, which are the engine's own.
ELSEWHERE = {
    "Module": "has no forward: tests/nn/test_module.py",
    "Container": "has no forward: tests/nn/test_containers.py",
    "Sequential": "tests/nn/test_containers.py",
    "ModuleList": "has no forward: tests/nn/test_containers.py",
    "ModuleDict": "has no forward: tests/nn/test_containers.py",
    "ParameterList": "has no forward: tests/nn/test_containers.py",
    "ParameterDict": "has no forward: tests/nn/test_containers.py",
    "RNNBase": "the base of RNN, LSTM and GRU",
    "RNNCellBase": "the base of RNNCell, LSTMCell and GRUCell",
    "LinearCrossEntropyOptions": "a named tuple",
    "SyncBatchNorm": "needs distributed training, which ferro lacks",
}


def _x(dtype: Any, *shape: int) -> Any:
    return torch.randn(shape, dtype=dtype, requires_grad=True)


def _classes(most: int, *shape: int) -> Any:
    return torch.randint(most, shape)


def _dropout(dtype: Any, *shapes: tuple) -> list:
    """What does not depend on chance: nothing dropped, or everything."""
    return [((p,), {}, (_x(dtype, *shape),), {}) for shape in shapes for p in (0.0, 1.0)]


def _upsample(dtype: Any) -> list:
    return [
        ((), {"scale_factor": 2}, (_x(dtype, 2, 3, 4),), {}),
        ((), {"size": (5, 7)}, (_x(dtype, 2, 3, 4, 5),), {}),
        ((), {"size": 6, "mode": "linear", "align_corners": True}, (_x(dtype, 2, 3, 4),), {}),
        ((), {"scale_factor": 1.5, "mode": "bilinear"}, (_x(dtype, 2, 3, 4, 5),), {}),
        ((), {"scale_factor": 2, "mode": "bicubic", "align_corners": False}, (_x(dtype, 1, 2, 4, 5),), {}),
        ((), {"size": (3, 4, 5), "mode": "trilinear"}, (_x(dtype, 1, 2, 2, 3, 4),), {}),
    ]


def _unpool(n: int) -> Any:
    def settings(dtype: Any) -> list:
        x = torch.randn((2, 3) + (6,) * n, dtype=dtype)
        values, indices = getattr(torch.nn.functional, f"max_pool{n}d")(x, 2, return_indices=True)
        given = values.requires_grad_(), indices
        return [((2,), {}, given, {}), ((2, 2, 0), {}, given, {"output_size": (6,) * n})]

    return settings


def _norms(n: int) -> Any:
    def settings(dtype: Any) -> list:
        shape = (3, 4) + (5,) * n
        return [
            ((), {}, (_x(dtype, *shape),), {}),
            ((1e-3, 0.3, True, True), {}, (_x(dtype, *shape),), {}),
            ((), {"affine": False}, (_x(dtype, *shape),), {}),
        ]

    return settings


def _bags(dtype: Any) -> list:
    words, starts = torch.tensor([1, 3, 5, 3, 1, 5]), torch.tensor([0, 2, 2])  # (each twice: see docs/differences.md)
    found: list = [((7, 3), {"mode": mode}, (_classes(7, 4, 2),), {}) for mode in ("sum", "mean", "max")]
    found += [((7, 3), {"mode": mode, "padding_idx": 2}, (words, starts), {}) for mode in ("sum", "mean", "max")]
    found.append(((7, 3), {"mode": "sum"}, (words, starts), {"per_sample_weights": _x(dtype, 6)}))
    found.append(((7, 3), {"include_last_offset": True}, (words, torch.tensor([0, 2, 6])), {}))
    found.append(((7, 3), {"max_norm": 0.5, "norm_type": 1.0, "scale_grad_by_freq": True}, (words, starts), {}))
    return found


def _triplets(dtype: Any) -> tuple:
    return tuple(_x(dtype, 4, 5) for _ in range(3))


def _decoder(dtype: Any) -> list:
    found = []
    for first in (False, True):
        layer = torch.nn.TransformerDecoderLayer(4, 2, 8, 0.0, batch_first=first)
        called = _x(dtype, 3, 2, 4), _x(dtype, 3, 2, 4)
        found.append(((layer, 2), {}, called, {}))
        found.append(((layer, 1, torch.nn.LayerNorm(4)), {}, called, {}))
    return found


BY_HAND: dict[str, Any] = {
    "AdaptiveLogSoftmaxWithLoss": lambda d: [
        ((4, 12, [3, 8]), {}, (_x(d, 5, 4), _classes(12, 5)), {}),
        ((4, 12, [3, 8]), {"div_value": 2.0, "head_bias": True}, (_x(d, 4), _classes(12)), {}),
    ],
    **{
        f"Dropout{n}": lambda d, s=s: _dropout(d, *s)
        for n, s in (("", ((2, 3),)), ("1d", ((2, 3, 4), (3, 4))), ("2d", ((2, 3, 4, 2),)), ("3d", ((2, 3, 4, 2, 2),)))
    },
    "AlphaDropout": lambda d: _dropout(d, (2, 3))[:1],
    "FeatureAlphaDropout": lambda d: _dropout(d, (2, 3, 4))[:1],
    "RReLU": lambda d: [
        ((0.2, 0.2), {}, (_x(d, 3, 4),), {}),
        ((0.1, 0.1, True), {}, (torch.randn(3, 4, dtype=d),), {}),
    ],
    "ChannelShuffle": lambda d: [((2,), {}, (_x(d, 2, 4, 3),), {}), ((3,), {}, (_x(d, 1, 6, 2, 2),), {})],
    "CosineSimilarity": lambda d: [
        ((), {}, (_x(d, 3, 4), _x(d, 3, 4)), {}),
        ((0, 1e-3), {}, (_x(d, 3, 4), _x(d, 1, 4)), {}),
    ],
    "PairwiseDistance": lambda d: [
        ((), {}, (_x(d, 3, 4), _x(d, 3, 4)), {}),
        ((1.0, 1e-3, True), {}, (_x(d, 3, 4), _x(d, 4)), {}),
    ],
    "EmbeddingBag": _bags,
    "Flatten": lambda d: [((), {}, (_x(d, 2, 3, 4),), {}), ((0, 1), {}, (_x(d, 2, 3, 4),), {})],
    "Unflatten": lambda d: [((1, (2, 3)), {}, (_x(d, 2, 6),), {}), ((-1, (-1, 2)), {}, (_x(d, 2, 6),), {})],
    "Fold": lambda d: [
        (((4, 5), (2, 2)), {}, (_x(d, 2, 12, 12),), {}),
        ((4, 3), {"dilation": 1, "padding": 1, "stride": 2}, (_x(d, 1, 9, 4),), {}),
    ],
    "Unfold": lambda d: [((2,), {}, (_x(d, 2, 3, 4, 5),), {}), (((2, 3), 2, 1, (1, 2)), {}, (_x(d, 1, 2, 6, 5),), {})],
    "Hardsigmoid": lambda d: [((), {}, (_x(d, 3, 4),), {}), ((True,), {}, (torch.randn(3, 4, dtype=d) * 4,), {})],
    "Identity": lambda d: [((), {}, (_x(d, 3),), {}), ((1, 2), {"unused": 3}, (_x(d, 3),), {})],
    "LazyLinear": lambda d: [((3,), {}, (_x(d, 2, 4),), {}), ((3, False), {}, (_x(d, 5, 2, 4),), {})],
    **{f"Lazy{kind}{n}d": _norms(n) for kind in ("BatchNorm", "InstanceNorm") for n in (1, 2, 3)},
    **{f"MaxUnpool{n}d": _unpool(n) for n in (1, 2, 3)},
    "NLLLoss2d": lambda d: [((), {}, (_x(d, 2, 3, 4, 4), _classes(3, 2, 4, 4)), {})],
    "PixelShuffle": lambda d: [((2,), {}, (_x(d, 2, 8, 3, 4),), {}), ((3,), {}, (_x(d, 9, 1, 2),), {})],
    "PixelUnshuffle": lambda d: [((2,), {}, (_x(d, 2, 2, 4, 6),), {}), ((3,), {}, (_x(d, 1, 3, 6),), {})],
    "TransformerDecoder": _decoder,
    "TripletMarginLoss": lambda d: [
        ((), o, _triplets(d), {})
        for o in ({}, {"swap": True, "margin": 0.5}, {"p": 1.0, "reduction": "none"}, {"reduction": "sum"})
    ],
    "TripletMarginWithDistanceLoss": lambda d: [
        ((), o, _triplets(d), {})
        for o in (
            {},
            {"swap": True, "margin": 0.5},
            {"distance_function": torch.nn.functional.pairwise_distance, "reduction": "sum"},
        )
    ],
    "Upsample": _upsample,
    "UpsamplingNearest2d": lambda d: [
        ((), {"scale_factor": 2}, (_x(d, 1, 2, 3, 4),), {}),
        ((5,), {}, (_x(d, 1, 2, 3, 4),), {}),
    ],
    "UpsamplingBilinear2d": lambda d: [
        ((), {"scale_factor": 2}, (_x(d, 1, 2, 3, 4),), {}),
        ((5,), {}, (_x(d, 1, 2, 3, 4),), {}),
    ],
    # (few channels: with more PyTorch keeps the first one in the windows of far ones)
    "CrossMapLRN2d": lambda d: [
        ((3,), {}, (torch.randn(2, 2, 3, 3, dtype=d),), {}),
        ((4, 1e-3, 0.5, 2), {}, (torch.randn(2, 2, 3, 3, dtype=d),), {}),
    ],
}
