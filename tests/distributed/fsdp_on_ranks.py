"""A script for several ranks: modules whose parameters lie in parts train as one process does. Prints one line when all agree."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ferro
import ferro.distributed as dist
from ferro import nn
from ferro.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from ferro.distributed.tensor import DTensor, Shard
from ferro.utils.checkpoint import checkpoint
from tests.distributed.placing import BACKEND, DEVICE, checked

dist.init_process_group(BACKEND, pg_options=dist.GroupOptions(deterministic=True))
RANK, SIZE = dist.get_rank(), dist.get_world_size()
SHORT = "short" in sys.argv  # (fewer optimisers, two steps of each)
EXACT = SIZE in (1, 2, 4)  # (a division by a power of two is)
rng = np.random.default_rng(0)


class Block(nn.Module):
    """Two layers, the sizes of which do not divide."""

    def __init__(self, recomputed: bool = False) -> None:
        super().__init__()
        self.up, self.down, self.recomputed = nn.Linear(6, 29), nn.Linear(29, 6), recomputed
        self.idle = nn.Linear(2, 1)

    def inner(self, x: Any) -> Any:
        return self.down(self.up(x).tanh())

    def forward(self, x: Any) -> Any:
        return x + (checkpoint(self.inner, x, use_reentrant=False) if self.recomputed else self.inner(x))


class Net(nn.Module):
    def __init__(self, recomputed: bool = False, around: bool = False) -> None:
        super().__init__()
        self.blocks, self.around = nn.ModuleList([Block(recomputed) for _ in range(3)]), around
        self.head = nn.Linear(6, 6, bias=False)
        self.tail = nn.Linear(6, 6, bias=False)
        self.tail.weight = self.head.weight

    def forward(self, x: Any) -> Any:
        x = self.head(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.around else block(x)
        return self.tail(x)


def made(recomputed: bool = False, around: bool = False) -> Any:
    ferro.manual_seed(0)
    return Net(recomputed, around).to(DEVICE)


def sharded(net: Any, **options: Any) -> Any:
    for block in net.blocks:
        fully_shard(block, **options)
    return fully_shard(net, **options)


def same(net: Any, alone: Any, what: str, exact: bool = EXACT, part: Callable[[Any], Any] = lambda p: p) -> None:
    for (name, a), b in zip(net.named_parameters(), alone.parameters(), strict=True):
        ours, theirs = part(a), part(b)
        if theirs is None:
            assert ours is None, (what, name)
            continue
        assert isinstance(ours, DTensor), (what, name)
        assert ours.placements[-1] == Shard(0)
        if exact:
            assert ours.full_tensor().tolist() == theirs.tolist(), (what, name)
        else:
            np.testing.assert_allclose(
                ours.full_tensor().cpu().numpy(), theirs.detach().cpu().numpy(), rtol=2e-5, atol=1e-6
            )


def data() -> Any:
    return ferro.tensor(rng.standard_normal((2 * SIZE, 6)).astype(np.float32)).to(DEVICE)


def mine(x: Any) -> Any:
    return x[2 * RANK : 2 * RANK + 2]


def train(
    what: str,
    make: Callable[[Any], Any],
    exact: bool = EXACT,
    recomputed: bool = False,
    around: bool = False,
    clip: bool = False,
    **options: Any,
) -> None:
    """Some steps, beside one process that takes the parts of all ranks one after the other."""
    net, alone = sharded(made(recomputed, around), **options), made(recomputed)
    ours, theirs = make(net.parameters()), make(alone.parameters())
    for step in range(2 if SHORT else 3):
        x = data()
        net.zero_grad()
        alone.zero_grad()
        net(mine(x)).square().mean().backward(num_threads=step % 2 + 1)
        for r in range(SIZE):
            (alone(x[2 * r : 2 * r + 2]).square().mean() / SIZE).backward()
        same(net, alone, what, exact, lambda p: p.grad)
        if clip:
            norm = nn.utils.clip_grad_norm_(net.parameters(), 0.05)
            expected = np.sqrt(
                sum((p.grad.cpu().numpy().astype(float) ** 2).sum() for p in alone.parameters() if p.grad is not None)
            )
            np.testing.assert_allclose(norm.item(), expected, rtol=1e-5)
            nn.utils.clip_grads_with_norm_(alone.parameters(), 0.05, norm)
        ours.step()
        theirs.step()
        same(net, alone, what, exact)


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda p: ferro.optim.SGD(p, lr=0.1, momentum=0.9),
    "AdamW": lambda p: ferro.optim.AdamW(p, lr=0.01),
    "RMSprop": lambda p: ferro.optim.RMSprop(p, lr=0.01),
    "Adagrad": lambda p: ferro.optim.Adagrad(p, lr=0.01),
    "Adafactor": lambda p: ferro.optim.Adafactor(p, lr=0.01),
    "Muon": lambda p: ferro.optim.Muon([q for q in p if q.dim() == 2], lr=0.01),
}
for name, make in OPTIMIZERS.items():
    if not SHORT or name in ("SGD", "AdamW"):
        train(name, make, EXACT, clip=name == "SGD")
train("recomputed", OPTIMIZERS["AdamW"], recomputed=True)
train("modules that are computed again", OPTIMIZERS["AdamW"], around=True)
train("kept between forward and backward", OPTIMIZERS["AdamW"], reshard_after_forward=False)
if SIZE == 4:
    mesh = dist.init_device_mesh(DEVICE, (2, 2), mesh_dim_names=("copies", "parts"))
    train("copies of parts", OPTIMIZERS["AdamW"], exact=False, mesh=mesh)

# -- parameters are there while they are used, and not otherwise

net = sharded(made())
shards = [m._fsdp_state.shards for m in (*net.blocks, net)]
seen = []


def there(p: Any) -> bool:
    """Whether a whole parameter takes memory; on the processor it reads as zeros when its pages were given back."""
    return p.memory.array is not None if DEVICE == "cuda" else bool(p.memory.array.any())


def look(module: Any, args: Any) -> None:
    k = [b.up for b in net.blocks].index(module)
    seen.append((k, [s.is_whole for s in shards], [s.is_on_its_way() for s in shards]))


for block in net.blocks:
    block.up.register_forward_pre_hook(look)
for _ in range(2):
    loss = net(mine(data())).sum()
    assert [s.is_whole for s in shards] == [False, False, False, True]
    assert [any(there(p) for p in s.parameters) for s in shards] == [
        False,
        False,
        False,
        True,
    ]  # the memory is given back
    loss.backward()
    assert not any(s.is_whole for s in shards)
    assert not any(there(p) for s in shards for p in s.parameters)
for k, whole, _ in seen:
    assert whole == [i == k for i in range(3)] + [True], seen
assert [way[:3] for _, _, way in seen[:3]] == [[False] * 3] * 3  # in the first forward the order is not known
assert [way[:3] for _, _, way in seen[3:]] == [[False, True, False], [False, False, True], [False] * 3]
with ferro.no_grad():
    net(mine(data()))
assert not any(s.is_whole for s in shards)
net.unshard()
assert net.head.weight.tolist() == net._fsdp_state.shards.parameters[0].whole.tolist()
handle = net.blocks[0].unshard(async_op=True)
handle.wait()
assert shards[0].is_whole
assert sorted(net.state_dict()) == sorted(made().state_dict())  # (which frees them)
assert not any(s.is_whole for s in shards)
big = fully_shard(nn.Linear(2048, 4096, bias=False).to(DEVICE))  # 32 MB


def resident() -> float:
    """MB that are in use, where the parameters are."""
    if DEVICE == "cuda":
        ferro.cuda.synchronize()
        return ferro.ones(1, device="cuda").numel() * ferro.cuda.memory_allocated() / 2**20
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


before = resident()
big.unshard()
between = resident()
big.reshard()
assert between - before > 28, (before, between)
assert between - resident() > 28, (between, resident())

# -- a graph that reads parameters after they have been freed says so


class Aside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.loss: Any = None

    def forward(self, x: Any) -> Any:
        y = self.layer(x)
        self.loss = self.layer(y).sum()
        return y


outer = nn.Sequential(fully_shard(Aside().to(DEVICE)))
fully_shard(outer)
outer(mine(data()))
with pytest.raises(RuntimeError, match="fully_shard, which has freed the parameter behind its forward"):
    outer[0].loss.backward()
given = mine(data()).requires_grad_()
with pytest.raises(NotImplementedError, match="create_graph=True"):
    ferro.autograd.grad(outer(given).sum(), given, create_graph=True)

# -- gradients that stay here until they are reduced, parameters that one rank alone uses, and frozen ones

net, alone = sharded(made()), made()
x = data()
net.set_requires_gradient_sync(False)
net(mine(x)).sum().backward()
assert all(p.grad is None for p in net.parameters())
net.set_requires_gradient_sync(True)
net(mine(x) * 2).sum().backward()
for r in range(SIZE):
    part = x[2 * r : 2 * r + 2]
    (alone(part).sum() / SIZE).backward()
    (alone(part * 2).sum() / SIZE).backward()
same(net, alone, "gradients added up", False, lambda p: p.grad)


class Either(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pair = nn.ModuleList([nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)])

    def forward(self, x: Any) -> Any:
        return self.pair[min(RANK, 1)](x)


either = fully_shard(Either().to(DEVICE))
either(ferro.ones(1, 6, device=DEVICE)).sum().backward()
assert (either.pair[0].weight.grad.full_tensor() == 1 / SIZE).all()
if SIZE > 1:
    np.testing.assert_allclose(either.pair[1].weight.grad.full_tensor().cpu().numpy(), (SIZE - 1) / SIZE, rtol=1e-6)
else:
    assert either.pair[1].weight.grad is None
frozen = made()
frozen.blocks[1].requires_grad_(False)
frozen.blocks[0].up.requires_grad_(False)
net = sharded(frozen)
net(mine(x)).sum().backward()
assert [p.grad is None for p in net.blocks[0].parameters()] == [True, True, False, False, True, True]
assert all(p.grad is None for p in net.blocks[1].parameters())
assert not any(m._fsdp_state.shards.is_whole for m in (*net.blocks, net))

# -- other dtypes on the way

policy = MixedPrecisionPolicy(param_dtype=ferro.bfloat16, reduce_dtype=ferro.float32)
net, alone = made(), made().bfloat16()
for block in net.blocks:
    fully_shard(block, mp_policy=policy)
fully_shard(net, mp_policy=dataclasses.replace(policy, output_dtype=ferro.float64))
y = net(mine(x))
assert y.dtype is ferro.float64
y.sum().backward()
for p in net.parameters():
    assert p.dtype is ferro.float32
    assert p.grad is None or p.grad.dtype is ferro.float32
total: dict[str, Any] = {}
for r in range(SIZE):
    alone.zero_grad()
    alone(x[2 * r : 2 * r + 2].bfloat16()).sum().backward()
    for name, p in alone.named_parameters():
        if p.grad is not None:
            total[name] = total.get(name, 0) + p.grad.float().cpu().numpy() / SIZE
for name, p in net.named_parameters():
    if name in total:
        np.testing.assert_allclose(p.grad.full_tensor().cpu().numpy(), total[name], rtol=2e-2, atol=2e-2)

# -- a gradient that is infinite in the part of one rank lets all of them leave the step out

layer = fully_shard(nn.Linear(6, 8).to(DEVICE))
scaler, optimizer = ferro.amp.GradScaler(DEVICE, init_scale=4.0), ferro.optim.SGD(layer.parameters(), lr=1.0)
weight = layer.weight.full_tensor()
scaler.scale((layer(mine(x)) * ferro.tensor([np.inf] + [0.0] * 7, device=DEVICE)).sum()).backward()
assert bool(layer.weight.grad.to_local().isfinite().all()) == (RANK > 0)
scaler.step(optimizer)
scaler.update()
assert scaler.get_scale() == 2.0
assert layer.weight.full_tensor().tolist() == weight.tolist()

# -- a whole state into parts

net, other = sharded(made()), Net().to(DEVICE)
net.load_state_dict(other.state_dict())
same(net, other, "loaded", True)
dist.destroy_process_group()
checked()
if RANK == 0:
    print(f"{SIZE} ranks shard alike")
