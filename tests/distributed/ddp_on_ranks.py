"""A script for several ranks: DistributedDataParallel trains as one process does with all the data. Prints one line when all agree."""

from __future__ import annotations

from typing import Any

import numpy as np

import ferro
import ferro.distributed as dist
from ferro import nn
from ferro.nn import functional as F
from ferro.nn.parallel import DistributedDataParallel
from tests.distributed.placing import BACKEND, DEVICE, checked

dist.init_process_group(BACKEND, pg_options=dist.GroupOptions(deterministic=True))
RANK, SIZE = dist.get_rank(), dist.get_world_size()
rng = np.random.default_rng(0)
X = ferro.tensor(rng.standard_normal((4 * SIZE, 6)).astype(np.float32)).to(DEVICE)
Y = ferro.tensor(rng.integers(0, 3, 4 * SIZE)).to(DEVICE)
PARTS = [slice(4 * r, 4 * r + 4) for r in range(SIZE)]


class Net(nn.Module):
    """Layers, one of which has a part in every other step alone, and one in none."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(6, 300), nn.Linear(300, 3), nn.Linear(3, 3)
        self.idle = nn.Linear(2, 2)
        self.register_buffer("calls", ferro.zeros(1))

    def forward(self, x: Any, step: int) -> Any:
        self.calls += 1
        y = self.second(self.first(x).tanh())
        return self.third(y) if step % 2 else y


def trained(parallel: bool) -> tuple[list, Any]:
    """The losses and the model: of this rank's part, or of all parts one after the other."""
    ferro.manual_seed(RANK if parallel else 0)  # (rank 0's parameters go to all)
    model: Any = Net().to(DEVICE)
    inner = model
    if parallel:
        model = DistributedDataParallel(model, bucket_cap_mb=0.003)
        assert SIZE == 1 or len(model._reducer.buckets) > 3
    optimizer = ferro.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
    losses = []
    for step in range(4):
        optimizer.zero_grad()
        for part in [PARTS[RANK]] if parallel else PARTS:
            loss = F.cross_entropy(model(X[part], step), Y[part])
            (loss if parallel else loss / SIZE).backward(num_threads=step % 2 + 1)
            losses.append(loss.item())
        assert inner.idle.weight.grad is None
        assert (inner.third.weight.grad is None) == (step % 2 == 0)
        optimizer.step()
    return losses, inner


losses, model = trained(True)
alone_losses, alone = trained(False)
EXACT = SIZE in (1, 2, 4)  # (a division by a power of two is)
assert not EXACT or losses == alone_losses[RANK::SIZE], (losses, alone_losses)
for (name, a), b in zip(model.named_parameters(), alone.parameters(), strict=True):
    if EXACT:
        assert a.tolist() == b.tolist(), name
    else:
        np.testing.assert_allclose(
            a.detach().cpu().numpy(), b.detach().cpu().numpy(), rtol=1e-5, atol=1e-6, err_msg=name
        )

# gradients that stay here until the next backward
model = DistributedDataParallel(nn.Linear(2, 1, bias=False).to(DEVICE)) if SIZE > 1 else None
if model is not None:
    x = ferro.full((1, 2), float(RANK + 1), device=DEVICE)
    with model.no_sync():
        model(x).sum().backward()
    assert model.module.weight.grad.tolist() == [[RANK + 1.0] * 2]
    model(x).sum().backward()
    mean = sum(2.0 * (r + 1) for r in range(SIZE)) / SIZE
    np.testing.assert_allclose(model.module.weight.grad.cpu().numpy(), [[mean] * 2], rtol=1e-6)

    # programs switch the mean off by the attribute; a gradient stays where a later backward has no part in it
    both = nn.ModuleList([nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)]).to(DEVICE)

    class Chosen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.both = both

        def forward(self, x: Any, k: int) -> Any:
            return self.both[k](x)

    model = DistributedDataParallel(Chosen(), find_unused_parameters=True)
    x = ferro.full((1, 1), float(RANK + 1), device=DEVICE)
    model.require_backward_grad_sync = False
    model(x, 0).sum().backward()
    assert both[0].weight.grad.item() == RANK + 1.0
    model.require_backward_grad_sync = True
    mean = sum(r + 1.0 for r in range(SIZE)) / SIZE
    for k in (0, 1):  # (in the second one the first layer has no part)
        model(x, k).sum().backward()
    np.testing.assert_allclose(both[0].weight.grad.item(), 2 * mean, rtol=1e-6)
    np.testing.assert_allclose(both[1].weight.grad.item(), mean, rtol=1e-6)

    # buffers of rank 0 go to all before a forward in training
    net = nn.BatchNorm1d(3).to(DEVICE)
    model = DistributedDataParallel(net)
    net.running_mean.fill_(float(RANK))
    model(ferro.ones(4, 3, device=DEVICE))
    assert net.running_mean.tolist() == [ferro.tensor(0.1).item()] * 3, net.running_mean

    # a parameter that one rank alone uses
    pair = nn.ModuleList([nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)]).to(DEVICE)

    class Either(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pair = pair

        def forward(self, x: Any) -> Any:
            return self.pair[min(RANK, 1)](x)

    model = DistributedDataParallel(Either(), find_unused_parameters=True)
    model(ferro.ones(1, 1, device=DEVICE)).sum().backward()
    np.testing.assert_allclose(pair[0].weight.grad.item(), 1 / SIZE, rtol=1e-6)
    np.testing.assert_allclose(pair[1].weight.grad.item(), (SIZE - 1) / SIZE, rtol=1e-6)
dist.destroy_process_group()
checked()
if RANK == 0:
    print(f"{SIZE} ranks train alike")
