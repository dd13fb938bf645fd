"""Memory plans of networks with long skips, growing inputs and parallel branches: the arena is near the bound, the bits are eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ferro
from ferro import nn
from ferro.graph import capture
from ferro.graph.compare import same_bits
from ferro.graph.planning.bodies import Options
from ferro.graph.planning.plan import Plan
from ferro.native import arena, readiness
from ferro.nn import functional as F

pytestmark = pytest.mark.skipif(bool(arena.refusal()), reason=f"no arenas here: {arena.refusal()}")


class Twice(nn.Module):
    """Two convolutions."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, padding=1)

    def forward(self, x: Any) -> Any:
        return self.second(self.norm(self.first(x)).relu()).relu()


class UNet(nn.Module):
    """Down by pooling, up by transposed convolutions, with what was there on the way down."""

    def __init__(self, widths: tuple[int, ...] = (8, 16, 32, 64)) -> None:
        super().__init__()
        pairs = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.down = nn.ModuleList([Twice(a, b) for a, b in zip((1, *widths[:-1]), widths, strict=True)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in pairs])
        self.joined = nn.ModuleList([Twice(2 * b, b) for _, b in pairs])
        self.last = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: Any) -> Any:
        kept = []
        for i, layer in enumerate(self.down):
            x = layer(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        x = kept.pop()
        for up, joined in zip(self.up, self.joined, strict=True):
            x = joined(ferro.cat([up(x), kept.pop()], 1))
        return self.last(x)


class DenseNet(nn.Module):
    """Each layer reads what all before it gave."""

    def __init__(self, layers: int = 6, growth: int = 8) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        widths = [16 + i * growth for i in range(layers)]
        self.layers = nn.ModuleList(
            [nn.Sequential(nn.BatchNorm2d(n), nn.ReLU(), nn.Conv2d(n, growth, 3, padding=1)) for n in widths]
        )
        self.scores = nn.Linear(16 + layers * growth, 10)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for layer in self.layers:
            x = ferro.cat([x, layer(x)], 1)
        return self.scores(x.mean((2, 3)))


class Inception(nn.Module):
    """Four branches side by side."""

    def __init__(self, width: int) -> None:
        super().__init__()

        def conv(before: int, after: int, size: int) -> Any:
            return nn.Conv2d(before, after, size, padding=size // 2)

        self.one, self.pool = conv(width, 8, 1), conv(width, 8, 1)
        self.three = nn.Sequential(conv(width, 8, 1), nn.ReLU(), conv(8, 16, 3))
        self.five = nn.Sequential(conv(width, 4, 1), nn.ReLU(), conv(4, 8, 5))

    def forward(self, x: Any) -> Any:
        pooled = self.pool(F.max_pool2d(x, 3, 1, 1))
        return ferro.cat([self.one(x), self.three(x), self.five(x), pooled], 1).relu()


NETWORKS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "U-Net": (UNet, (2, 1, 32, 32)),
    "DenseNet": (DenseNet, (4, 3, 24, 24)),
    "Inception": (lambda: nn.Sequential(Inception(3), Inception(40), Inception(40)), (4, 3, 24, 24)),
}


def trained(name: str) -> tuple[Any, Callable[[Any], Any]]:
    make, _ = NETWORKS[name]
    ferro.manual_seed(0)
    model = make()
    optimizer = ferro.optim.SGD(model.parameters(), 0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, step


@pytest.mark.parametrize("order", ["serial", "any"])
@pytest.mark.parametrize("name", NETWORKS)
def test_steps_of_networks(name: str, order: str) -> None:
    (eager, its), (mine, own) = trained(name), trained(name)
    batches = [ferro.randn(*NETWORKS[name][1]) for _ in range(5)]
    want = [its(x).detach() for x in batches]
    graph = capture(own, batches[0]).optimise()
    made = Plan(graph, order, Options(), ahead=False)
    for x, loss in zip(batches[1:], want[1:], strict=True):
        assert same_bits(made.run(x, poison=True)[0]._data, loss._data)
    for a, b in zip(mine.state_dict().values(), eager.state_dict().values(), strict=True):
        assert same_bits(a._data, b._data)
    made.verify()
    assert made.missed <= (2 if readiness.MODE == "off" else 1)
    if order == "serial":
        assert made.arena_bytes <= 1.05 * made.lower_bound
