"""After the same seed, every module has PyTorch's initial weights, and every initialiser fills in PyTorch's numbers."""

from __future__ import annotations

import copy
from itertools import islice
from typing import Any

import numpy as np
import pytest

import ferro
from tests.torch_databases import as_ferro, torch

from .test_module_db import NAMES, as_leaves, own, settings

pytestmark = pytest.mark.filterwarnings("ignore")
# A layer that is given is copied, not made: test_stacked_layers_have_the_weights_of_torch makes it after the seed.
GIVEN_LAYERS = {"TransformerEncoder", "TransformerDecoder"}


def made(library: Any, name: str, args: tuple, options: dict, called: tuple, named: dict) -> tuple[dict, Any]:
    """The parameters of a module that is made after a seed (a lazy one by its first call), and the next random numbers."""
    library.manual_seed(4)
    module = getattr(library.nn, name)(*args, **options)
    if "Lazy" in name:
        module(*called, **named)
    return {k: v.detach().numpy() for k, v in module.named_parameters()}, library.rand(3).numpy()


@pytest.mark.parametrize("name", sorted(set(NAMES) - GIVEN_LAYERS))
def test_modules_begin_with_the_weights_of_torch(name: str) -> None:
    for setting in islice(settings(name, torch.float32, True), 6):
        args, options = copy.deepcopy(setting.made), copy.deepcopy(setting.options)
        theirs = made(torch, name, args, options, as_leaves(setting.called), setting.named)
        ours = made(
            ferro,
            name,
            tuple(own(a) for a in setting.made),
            {k: own(v) for k, v in setting.options.items()},
            as_ferro(as_leaves(setting.called), {}),
            as_ferro(setting.named, {}),
        )
        assert theirs[0].keys() == ours[0].keys()
        for k, v in theirs[0].items():
            np.testing.assert_array_equal(ours[0][k], v, err_msg=f"{setting.text}: {k}")
        np.testing.assert_array_equal(ours[1], theirs[1], err_msg=f"{setting.text}: the next numbers")


def stacked(library: Any) -> list:
    library.manual_seed(5)
    nn = library.nn
    layers = [
        nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),
        nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2),
        nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)),
    ]
    return [p.detach().numpy() for m in layers for p in m.parameters()]


def test_stacked_layers_have_the_weights_of_torch() -> None:
    for a, b in zip(stacked(ferro), stacked(torch), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_seeded_network_trains_like_that_of_torch() -> None:
    def losses(library: Any) -> list[float]:
        library.manual_seed(0)
        nn, data = library.nn, library.utils.data
        x = library.randn(40, 5)
        y = (x.sum(1) > 0).long()
        model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
        optimizer = library.optim.Adam(model.parameters(), 1e-2)
        found = []
        for _ in range(3):
            for a, b in data.DataLoader(data.TensorDataset(x, y), batch_size=8, shuffle=True):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(a), b)
                loss.backward()
                optimizer.step()
                found.append(loss.item())
        return found

    np.testing.assert_allclose(losses(ferro), losses(torch), rtol=1e-4)
