"""A script for several ranks: DistributedDataParallel with mixed precision. Argument: a file for what it has trained.

Numbers are small whole ones, so that every sum is exact in float32 and what is rounded shows: 257 is no number of bfloat16.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import ferro
import ferro.distributed as dist
from ferro import nn
from ferro.nn.parallel import DistributedDataParallel
from ferro.nn.parallel.distributed import _MixedPrecision
from ferro.utils.checkpoint import checkpoint

dist.init_process_group("mpi")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
BF16, FP16, FP32 = ferro.bfloat16, ferro.float16, ferro.float32
TESTS = []


def test(f: Any) -> Any:
    """Runs below, on all ranks."""
    TESTS.append(f)
    return f


class Seen(nn.Module):
    """A layer and a buffer, and which dtypes forward has seen."""

    def __init__(self, rows: int = 1, columns: int = 1) -> None:
        super().__init__()
        self.layer = nn.Linear(columns, rows, bias=False)
        nn.init.ones_(self.layer.weight)
        self.register_buffer("scale", ferro.ones(1))
        self.register_buffer("count", ferro.zeros((), dtype=ferro.int64))
        self.seen: list[Any] = []

    def forward(self, x: Any) -> Any:
        self.seen = [x.dtype, self.layer.weight.dtype, self.scale.dtype]
        return self.layer(x)


def wrapped(module: Any, param: Any = None, reduce: Any = None, buffer: Any = None, **options: Any) -> Any:
    return DistributedDataParallel(module, mixed_precision=_MixedPrecision(param, reduce, buffer), **options)


@test
def forward_computes_in_fewer_bits_and_parameters_keep_theirs() -> None:
    net = Seen()
    weight = net.layer.weight
    model = wrapped(net, BF16, FP32, FP16)
    out = model(ferro.full((1, 1), 257.0))
    assert net.seen == [BF16, BF16, FP16], net.seen
    assert net.count.dtype is ferro.int64
    assert (out.dtype, out.item()) == (BF16, 256.0)
    assert net.layer.weight is weight
    assert weight.dtype is FP32
    out.sum().backward()
    assert net.layer.weight is weight
    assert weight.grad.dtype is FP32
    assert weight.grad.item() == 256.0
    with ferro.no_grad():
        assert model(ferro.ones(1, 1)).dtype is BF16
    assert net.layer.weight is weight
    weight.data.fill_(2.0)  # (a change is seen by the next forward)
    assert model(ferro.ones(1, 1)).item() == 2.0


@test
def each_dtype_may_be_left_out() -> None:
    """What is reduced in float32 is exact, what is reduced in bfloat16 is rounded; its sum over ranks only once."""
    mine = 257.0 if RANK == 0 else 1.0
    mean = (257.0 + SIZE - 1) / SIZE
    rounded = ferro.tensor((256.0 + SIZE - 1) / SIZE).to(BF16).item()
    for given, want in (
        ((), mean),
        ((None, FP32), mean),
        ((None, BF16), rounded),
        ((FP32, BF16), rounded),
        ((BF16, None), rounded),
        ((BF16, BF16), rounded),
        ((BF16, FP32), (256.0 + SIZE - 1) / SIZE),
    ):
        for options in ({}, {"gradient_as_bucket_view": True}, {"static_graph": True}):
            net = Seen()
            model = wrapped(net, *given, **options)
            for _ in range(3):  # (the order is learned in the first)
                model.zero_grad()
                model(ferro.full((1, 1), mine)).sum().backward()
                assert net.layer.weight.grad.dtype is FP32
                np.testing.assert_allclose(net.layer.weight.grad.item(), want, rtol=1e-6, err_msg=str(given))


@test
def gradients_are_added_up_in_the_dtype_of_the_parameters() -> None:
    """PyTorch's would round 256 + 1 to 256."""
    net = Seen()
    model = wrapped(net, BF16, FP32)
    with model.no_sync():
        model(ferro.full((1, 1), 256.0)).sum().backward()
        assert net.layer.weight.grad.item() == 256.0
        model(ferro.ones(1, 1)).sum().backward()
        assert net.layer.weight.grad.item() == 257.0
    model(ferro.ones(1, 1)).sum().backward()
    assert net.layer.weight.grad.item() == 258.0


@test
def some_parameters_stay_as_they_are() -> None:
    """Those to be ignored keep their dtype, those without a gradient are cast, those that nothing uses get none."""

    class Net(nn.Module):
        _ddp_params_and_buffers_to_ignore = ("own.weight", "kept")

        def __init__(self) -> None:
            super().__init__()
            self.own, self.frozen, self.idle = (nn.Linear(2, 2, bias=False) for _ in range(3))
            self.frozen.requires_grad_(False)
            self.layer = nn.Linear(2, 2)
            self.register_buffer("kept", ferro.ones(1))

        def forward(self, x: Any) -> Any:
            assert self.own.weight.dtype is FP32
            assert self.frozen.weight.dtype is FP16
            return self.layer(self.frozen(self.own(x.float()).half()))

    net = Net()
    model = wrapped(net, FP16, FP32, FP16, find_unused_parameters=True)
    assert net.kept.dtype is FP32
    for _ in range(2):
        model(ferro.ones(3, 2)).sum().backward()
    assert net.idle.weight.grad is None
    assert net.frozen.weight.grad is None
    assert net.layer.weight.grad.dtype is FP32
    assert net.layer.bias.grad.tolist() == [6.0, 6.0]


@test
def tied_parameters_are_cast_once() -> None:
    net = nn.ModuleList([nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)])
    net[1].weight = net[0].weight
    nn.init.ones_(net[0].weight)

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Any) -> Any:
            assert self.net[0].weight is self.net[1].weight
            return self.net[1](self.net[0](x))

    model = wrapped(Both(), BF16, FP32)
    model(ferro.full((1, 1), 3.0)).sum().backward()
    assert net[0].weight.grad.item() == 6.0
    assert net[1].weight is net[0].weight


@test
def checkpoints_compute_again_in_fewer_bits() -> None:
    """Modules, functions that read parameters, and backwards inside of another: the gradients are those without checkpoints."""

    class Net(nn.Module):
        def __init__(self, how: dict | None) -> None:
            super().__init__()
            ferro.manual_seed(3)
            self.how, self.first, self.second = how, nn.Linear(4, 4), nn.Linear(4, 4)

        def block(self, x: Any) -> Any:
            y = ferro.nn.functional.linear(x, self.first.weight, self.first.bias).tanh()
            assert y.dtype is BF16
            return self.second(y).tanh()

        def run(self, f: Any, x: Any) -> Any:
            return f(x) if self.how is None else checkpoint(f, x, **self.how)

        def forward(self, x: Any) -> Any:
            y = self.run(self.second, self.run(self.block, self.first(x).tanh()))
            return self.run(self.block, y)

    found = []
    for how in (None, {"use_reentrant": False}, {"use_reentrant": True}):
        net = Net(how)
        model = wrapped(net, BF16, FP32)
        x = ferro.tensor(np.random.default_rng(RANK).standard_normal((5, 4)).astype(np.float32))
        for threads in (1, 2):
            model.zero_grad()
            model(x).sum().backward(num_threads=threads)
            found.append([p.grad.tolist() for p in net.parameters()])
            assert all(type(p) is nn.Parameter and p.dtype is FP32 for p in net.parameters())
    assert all(other == found[0] for other in found[1:4])
    for a, b in zip(found[4] + found[5], found[0] * 2, strict=True):  # (other sums of the uses of a parameter)
        np.testing.assert_allclose(a, b, rtol=0.02, atol=0.02)


@test
def a_backward_that_raises_leaves_the_parameters() -> None:
    net = Seen()
    model = wrapped(net, BF16, FP32)
    weight: Any = net.layer.weight

    def bad(grad: Any) -> None:
        raise ValueError("of a hook")

    x = ferro.ones(1, 1, requires_grad=True)
    x.register_hook(bad)
    try:
        model(x).sum().backward()
    except ValueError:
        assert net.layer.weight is weight
    else:
        raise AssertionError("no error")
    weight.grad = None
    model(ferro.ones(1, 1)).sum().backward()
    assert net.layer.weight.grad.tolist() == [[1.0]]


@test
def a_hook_is_given_gradients_in_the_dtype_in_which_they_travel() -> None:
    from ferro.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    seen = []

    def hook(state: Any, bucket: Any) -> Any:
        seen.append(bucket.buffer().dtype)
        return allreduce_hook(state, bucket)

    net = Seen()
    model = wrapped(net, BF16, FP16)
    model.register_comm_hook(None, hook)
    model(ferro.full((1, 1), float(RANK))).sum().backward()
    assert seen == [FP16]
    assert net.layer.weight.grad.dtype is FP32
    np.testing.assert_allclose(net.layer.weight.grad.item(), (SIZE - 1) / 2, rtol=1e-3)


@test
def ranks_with_other_dtypes_are_told_apart() -> None:
    said = "gradients travel in ferro.bfloat16" if SIZE == 1 else ""
    try:
        wrapped(Seen(), None, BF16 if RANK == 0 else FP16)
    except RuntimeError as error:
        said = str(error)
    assert "gradients travel in ferro.bfloat16" in said, said


@test
def a_compiled_model_trains() -> None:
    net = Seen()
    model = ferro.compile(wrapped(net, BF16, FP32))
    for _ in range(3):
        net.zero_grad()
        model(ferro.full((1, 1), 257.0)).sum().backward()
        assert net.layer.weight.grad.item() == 256.0


def trained() -> list[Any]:
    """Some steps of a small network, whose parameters the test compares with those of PyTorch."""
    net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
    rng = np.random.default_rng(0)
    for p in net.parameters():
        p.data = ferro.tensor(rng.standard_normal(tuple(p.shape)).astype(np.float32) / 4)
    model = wrapped(net, BF16, BF16, bucket_cap_mb=0.0002)
    optimizer = ferro.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    for step in range(5):
        x = np.random.default_rng([RANK, step]).standard_normal((4, 6)).astype(np.float32)
        optimizer.zero_grad()
        model(ferro.tensor(x)).float().square().mean().backward()
        optimizer.step()
    return [p.detach().numpy() for p in net.parameters()]


for one in TESTS:
    one()
np.savez(f"{sys.argv[1]}-{RANK}.npz", *trained())
dist.destroy_process_group()
if RANK == 0:
    print(f"{SIZE} ranks agree on mixed precision")
