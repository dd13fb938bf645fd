"""A script for several ranks: layers divided by columns, rows and along the sequence compute and learn as whole ones."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

import ferro
import ferro.distributed as dist
from ferro import nn
from ferro.distributed.fsdp import fully_shard
from ferro.distributed.tensor import DTensor, Replicate, Shard
from ferro.distributed.tensor.dtensor import like
from ferro.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from ferro.nn import functional as F
from ferro.nn.parallel import DistributedDataParallel
from tests.distributed.placing import BACKEND, DEVICE, checked

dist.init_process_group(BACKEND, pg_options=dist.GroupOptions(deterministic=True))
SHORT = "short" in sys.argv  # (one plan, one step)
RANK, SIZE = dist.get_rank(), dist.get_world_size()
WIDTH, HEADS, LETTERS, TIME = 48, 24, 11, 8  # (each of 1, 2, 3, 4 and 8 ranks has whole heads)
rng = np.random.default_rng(0)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Any) -> Any:
        q, k, v = (f(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(-2))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 37), nn.Linear(37, WIDTH)

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.letters, self.features = nn.Embedding(LETTERS, WIDTH, padding_idx=0), nn.Embedding(LETTERS, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm, self.scores = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, LETTERS)

    def forward(self, ids: Any) -> Any:
        x = self.letters(ids) + self.features(ids)
        for block in self.blocks:
            x = block(x)
        return self.scores(self.norm(x))


WHOLE: dict[str, Any] = {
    "letters": RowwiseParallel(input_layouts=Replicate()),
    "features": ColwiseParallel(output_layouts=Replicate()),
    "blocks.*.attention.[qkv]": ColwiseParallel(),
    "blocks.*.attention.out": RowwiseParallel(),
    "blocks.*.up": ColwiseParallel(),
    "blocks.*.down": RowwiseParallel(),
    "scores": ColwiseParallel(output_layouts=Replicate()),
}
ALONG = {
    **WHOLE,
    "letters": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "features": ColwiseParallel(output_layouts=Shard(1)),
    "blocks.*.norm*": SequenceParallel(),
    "blocks.*.attention": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
    "blocks.*.attention.out": RowwiseParallel(output_layouts=Shard(1)),
    "blocks.*.up": ColwiseParallel(input_layouts=Shard(1)),
    "blocks.*.down": RowwiseParallel(output_layouts=Shard(1)),
    "norm": SequenceParallel(),
    "scores": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
}
FROM_WHOLE = {
    "blocks.*.attention": PrepareModuleInput(
        input_kwarg_layouts={"x": Replicate()}, desired_input_kwarg_layouts={"x": Replicate()}
    ),
    "blocks.*.up": PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(-1)),
    "blocks.*.down": RowwiseParallel(),
}


def made(seed: int = 0) -> Any:
    ferro.manual_seed(seed)
    return Net().to(DEVICE)


def near(a: Any, b: Any, what: Any) -> None:
    a = a.full_tensor() if isinstance(a, DTensor) else a
    np.testing.assert_allclose(
        a.detach().cpu().numpy(), b.detach().cpu().numpy(), rtol=2e-4, atol=2e-5, err_msg=str(what)
    )


def train(what: str, net: Any, groups: int = 1, mine: int = 0) -> None:
    """Some steps, beside the whole model on the whole batch; this rank's part of a batch is `mine` of `groups`."""
    alone = made()
    inner = net.module if isinstance(net, DistributedDataParallel) else net
    # (not Adam: the gradient of the keys' biases is zero but for rounding, which it would take for a direction)
    ours, theirs = (ferro.optim.SGD(m.parameters(), lr=0.3, momentum=0.9) for m in (net, alone))
    for step in range(1 if SHORT else 3):
        ids = rng.integers(0, LETTERS, (2 * groups, TIME + 1))
        text, following = (ferro.tensor(part, device=DEVICE) for part in (ids[:, :-1], ids[:, 1:]))
        part = slice(2 * mine, 2 * mine + 2)
        scores = net(text[part])
        expected = alone(text)
        near(scores, expected[part], (what, step))
        ours.zero_grad()
        theirs.zero_grad()
        F.cross_entropy(scores.flatten(0, 1), following[part].flatten()).backward()
        F.cross_entropy(expected.flatten(0, 1), following.flatten()).backward()
        for (name, a), b in zip(inner.named_parameters(), alone.named_parameters(), strict=True):
            grad = (
                like(a.grad, a) if isinstance(a, DTensor) else a.grad
            )  # (DistributedDataParallel's are views of buckets)
            near(grad, b[1].grad, (what, step, name))
        norms = [nn.utils.clip_grad_norm_(m.parameters(), 0.5).item() for m in (inner, alone)]
        assert math.isclose(*norms, rel_tol=1e-4), (what, norms)
        ours.step()
        theirs.step()
    for (name, a), b in zip(inner.named_parameters(), alone.parameters(), strict=True):
        near(a, b, (what, name))


mesh = dist.init_device_mesh(DEVICE, (SIZE,))
net = made()
net.letters.weight.data += RANK  # (that of the first rank counts)
parallelize_module(net, mesh, WHOLE)
assert net.blocks[0].up.weight.placements == (Shard(0),)
assert net.blocks[0].down.weight.placements == (Shard(1),)
assert net.blocks[0].up.weight.shape == (37, WIDTH)
assert net.blocks[0].up.weight.to_local().shape[0] == min(-(-37 // SIZE), 37 - RANK * -(-37 // SIZE))
if not SHORT:
    train("whole activations", net)
    train("rows alone", parallelize_module(made(), mesh, FROM_WHOLE))
if TIME % SIZE == 0:
    train("along the sequence", parallelize_module(made(), mesh, ALONG))
if SIZE == 4:
    both = dist.init_device_mesh(DEVICE, (2, 2), mesh_dim_names=("dp", "tp"))
    here = both["dp"].get_local_rank()
    net = parallelize_module(made(), both["tp"], ALONG)
    train("and data", DistributedDataParallel(net, process_group=both.get_group("dp")), 2, here)
    net = parallelize_module(made(), both["tp"], WHOLE)
    for block in net.blocks:
        fully_shard(block, mesh=both["dp"])
    fully_shard(net, mesh=both["dp"])
    assert net.blocks[0].up.weight.placements == (Shard(0), Shard(0))
    assert net.blocks[0].down.weight.placements == (Shard(0), Shard(1))
    train("and parameters in parts", net, 2, here)
dist.destroy_process_group()
checked()
if RANK == 0:
    print(f"{SIZE} ranks divide layers")
