"""After the same seed, samplers, splits and loaders take PyTorch's samples in PyTorch's order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ferro

torch = pytest.importorskip("torch", reason="torch is not installed: nothing to compare with", exc_type=ImportError)

N = 20
WEIGHTS = [0.1 * i for i in range(N)]


def batches(m: Any, **options: Any) -> list:
    """Two epochs over a loader."""
    data = m.utils.data
    loader = data.DataLoader(data.TensorDataset(m.arange(N)), batch_size=6, **options)
    return [[batch.tolist() for (batch,) in loader] for _ in range(2)]


def own(m: Any) -> Any:
    return m.Generator().manual_seed(4)


TAKEN: dict[str, Callable[[Any], Any]] = {
    "shuffle": lambda m: batches(m, shuffle=True),
    "in order": lambda m: batches(m),
    "shuffle by a generator": lambda m: batches(m, shuffle=True, generator=own(m)),
    "weights": lambda m: batches(m, sampler=m.utils.data.WeightedRandomSampler(WEIGHTS, 15)),
    "weights without replacement": lambda m: batches(
        m, sampler=m.utils.data.WeightedRandomSampler(WEIGHTS, 15, replacement=False)
    ),
    "with replacement": lambda m: list(m.utils.data.RandomSampler(range(N), True, 50)),
    "several permutations": lambda m: list(m.utils.data.RandomSampler(range(N), False, 50)),
    "subset": lambda m: list(m.utils.data.SubsetRandomSampler(range(5, N))),
    "parts": lambda m: [list(s.indices) for s in m.utils.data.random_split(range(N), [0.5, 0.3, 0.2])],
    "distributed": lambda m: list(m.utils.data.distributed.DistributedSampler(range(N), 2, 1, seed=5)),
}


@pytest.mark.parametrize("name", TAKEN)
def test_samples_are_taken_in_the_order_of_torch(name: str, seed: int) -> None:
    found = []
    for library in (ferro, torch):
        library.manual_seed(seed)
        found.append((TAKEN[name](library), library.rand(3).tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("replacement", [False, True])
def test_a_sampler_leaves_its_generator_where_torch_leaves_it(replacement: bool) -> None:
    found = []
    for library in (ferro, torch):
        g = own(library)
        taken = list(library.utils.data.RandomSampler(range(N), replacement, 2 * N, generator=g))
        found.append((taken, library.rand(3, generator=g).tolist()))
    assert found[0] == found[1]


def test_workers_have_the_seeds_of_torch() -> None:
    ferro.manual_seed(9)
    seeds: list = []
    loader = ferro.utils.data.DataLoader(
        ferro.utils.data.TensorDataset(ferro.arange(4)),
        num_workers=2,
        worker_init_fn=lambda i: seeds.append((i, ferro.initial_seed())),
    )
    list(loader)
    torch.manual_seed(9)
    base = torch.empty((), dtype=torch.int64).random_().item()  # what an epoch draws there before anything else
    assert sorted(seeds) == [(0, base), (1, base + 1)]
    np.testing.assert_array_equal(ferro.rand(2).numpy(), torch.rand(2).numpy())
