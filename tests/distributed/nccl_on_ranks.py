"""A script for several ranks, of which each has a GPU: what NCCL does otherwise than MPI. Prints one line when all agree."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

import ferro
import ferro.distributed as dist
from ferro import nn
from ferro.cuda import driver
from ferro.distributed.fsdp import CPUOffloadPolicy, fully_shard
from ferro.distributed.optim import ZeroRedundancyOptimizer
from ferro.distributed.tensor import Shard, distribute_tensor
from ferro.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from tests.distributed.placing import IS_GPU, checked

dist.init_process_group("cpu:mpi,cuda:nccl")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
Op = dist.ReduceOp


def said(function: Any) -> str:
    try:
        function()
    except (RuntimeError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def here(values: Any, dtype: Any = ferro.float32) -> Any:
    return ferro.tensor(values, dtype=dtype, device="cuda")


def each_device_has_its_library() -> None:
    for device in ("cpu", "cuda"):
        x = ferro.ones(2, device=device)
        dist.all_reduce(x)
        assert (x.tolist(), x.device.type) == ([SIZE] * 2, device)
    outputs = [ferro.zeros(2) for _ in range(SIZE)]
    text = said(lambda: dist.all_gather(outputs, ferro.ones(2, device="cuda")))
    assert text == "RuntimeError: the tensors of one exchange are on several devices: cpu, cuda", text
    alone = dist.new_group(backend="nccl")
    for call in (
        lambda: dist.all_reduce(ferro.ones(2), group=alone),
        lambda: dist.broadcast(ferro.ones(2), 0, alone),
        lambda: dist.all_gather([ferro.ones(2)] * SIZE, ferro.ones(2), alone),
        lambda: dist.all_to_all([ferro.ones(2)] * SIZE, [ferro.ones(2)] * SIZE, alone),
    ):
        assert "RuntimeError: No backend type associated with device type cpu" in said(call), said(call)
    dist.barrier(alone)
    dist.destroy_process_group(alone)
    other = dist.new_group(backend="mpi")
    text = said(lambda: dist.all_reduce(ferro.ones(2, device="cuda"), group=other))
    assert SIZE == 1 or "DistBackendError: reduce: MPI moves tensors of the CPU, got one on cuda:0" in text, text


def what_nccl_does_not_add() -> None:
    """Numbers of 16 bits, and bits: by the order of the ranks. Means of integers are cut off."""
    bits = [7 * r + 5 for r in range(SIZE)]
    folded = {Op.BAND: np.bitwise_and, Op.BOR: np.bitwise_or, Op.BXOR: np.bitwise_xor}
    for op, function in folded.items():
        for dtype in (ferro.int32, ferro.int16, ferro.uint8):
            x = here([bits[RANK]] * 5, dtype)
            dist.all_reduce(x, op)
            assert x.tolist() == [int(function.reduce(bits))] * 5, (op, dtype, x)
    x = here([bits[RANK]], ferro.int64)
    dist.all_reduce(x, Op.AVG)
    assert x.item() == sum(bits) // SIZE
    assert "for floating-point tensors" in said(lambda: dist.all_reduce(here([1], ferro.int16), Op.AVG))
    assert "complex tensors" in said(lambda: dist.all_reduce(here([1j], ferro.complex64), Op.MAX))


def streams_wait_and_hosts_do_not() -> None:
    side = ferro.cuda.Stream()
    x = ferro.full((1000,), RANK + 1.0, device="cuda")
    work: Any = dist.all_reduce(x, async_op=True)
    y = ferro.ones(1000, device="cuda") * 2  # (beside it)
    assert work.wait()
    assert (x + y).sum().item() == 1000 * (2 + SIZE * (SIZE + 1) / 2)
    side.wait_stream(ferro.cuda.current_stream())
    with ferro.cuda.stream(side):
        z = x * 2
        dist.broadcast(z, 0)
        z += 1
        parts = [ferro.empty(1000, device="cuda") for _ in range(SIZE)]
        dist.all_gather(parts, z.flip(0))
        total: Any = sum(parts)
    ferro.cuda.current_stream().wait_stream(side)
    assert total.tolist() == [SIZE * (SIZE * (SIZE + 1) + 1)] * 1000
    for _ in range(3):  # (nobody keeps the tensor, nor the work)
        dist.all_reduce(ferro.ones(100, device="cuda"), async_op=True)
    del work


def a_graph_records_no_exchange() -> None:
    """The error has the name of the exchange; what was begun before goes on, and what comes behind works."""
    x, found, recorded = (
        here([RANK + 1.0] * 4),
        [ferro.empty(4, device="cuda") for _ in range(SIZE)],
        ferro.cuda.CUDAGraph(),
    )
    calls: dict[str, Any] = {
        "all_reduce": lambda: dist.all_reduce(x),
        "broadcast": lambda: dist.broadcast(x, 0, async_op=True),
        "all_gather": lambda: dist.all_gather(found, x),
        "reduce_scatter": lambda: dist.reduce_scatter(x, [x] * SIZE),
        "all_to_all": lambda: dist.all_to_all(found, [x] * SIZE),
        "barrier": dist.barrier,
    }
    if SIZE > 1:
        calls["send to"] = lambda: dist.isend(x, (RANK + 1) % SIZE)
    for name, call in calls.items():
        with ferro.cuda.graph(recorded):
            text = said(call)
            y = x * 2
        assert text.startswith(f"RuntimeError: {name}"), text
        assert "cannot be recorded in a CUDA graph" in text, text
        x.fill_(RANK + 1.0)
        recorded.replay()
        assert y.tolist() == [2 * (RANK + 1.0)] * 4
        recorded.reset()
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1, bias=False).to("cuda"))
    with ferro.cuda.graph(recorded):
        text = said(lambda: model(x[None]).sum().backward())
    assert SIZE == 1 or "cannot be recorded in a CUDA graph" in text, text  # (one rank exchanges nothing)
    dist.all_reduce(x)
    assert x.tolist() == [SIZE * (SIZE + 1) / 2] * 4


def both_may_send_first() -> None:
    after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    for count in (3, 1 << 18):
        sent, found = ferro.full((count,), float(RANK), device="cuda"), ferro.empty(count, device="cuda")
        work = dist.isend(sent, after)
        dist.all_reduce(ferro.ones(1, device="cuda"))
        assert dist.recv(found, before) == before
        work.wait()
        assert found.mean().item() == before
    rows = ferro.arange(12.0, device="cuda").reshape(4, 3) * (RANK + 1)
    room = ferro.zeros(3, 4, device="cuda")
    operations = [dist.P2POp(dist.isend, rows.T, after), dist.P2POp(dist.irecv, room, before)]
    for one in dist.batch_isend_irecv(operations):
        one.wait()
    assert room.tolist() == (np.arange(12.0).reshape(4, 3).T * (before + 1)).tolist()
    text = said(lambda: dist.recv(room))
    assert text == "RuntimeError: recv: Backend nccl does not support recvAnysource: the rank must be named", text
    text = said(lambda: dist.P2POp(dist.all_reduce, room, after))  # type: ignore[arg-type]
    assert "ValueError: Invalid ``op``" in text, text


def tensors_and_layers_in_parts() -> None:
    """Against NumPy: the whole of parts, a pair of layers divided by columns and rows, and an optimiser in parts."""
    mesh = dist.init_device_mesh("cuda", (SIZE,))
    numbers = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    whole = distribute_tensor(here(numbers), mesh, [Shard(0)])
    assert whole.to_local().is_cuda
    assert whole.full_tensor().tolist() == numbers.tolist()
    one, two = nn.Linear(3, 8, bias=False).to("cuda"), nn.Linear(8, 2, bias=False).to("cuda")
    drawn = [np.random.default_rng(k).standard_normal(s).astype(np.float32) for k, s in ((1, (8, 3)), (2, (2, 8)))]
    with ferro.no_grad():
        for layer, values in zip((one, two), drawn, strict=True):
            layer.weight.copy_(here(values))
    model = nn.Sequential(one, two)
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})
    out = model(here(numbers))
    np.testing.assert_allclose(out.detach().cpu().numpy(), numbers @ drawn[0].T @ drawn[1].T, rtol=1e-4, atol=1e-5)
    out.sum().backward(num_threads=1)
    grad = model[0].weight.grad.cpu().numpy()
    rows = np.array_split(drawn[1].sum(0), SIZE)[RANK] if 8 % SIZE == 0 else None
    if rows is not None:
        np.testing.assert_allclose(grad, np.outer(rows, numbers.sum(0)), rtol=1e-4, atol=1e-5)
    parameters = [nn.Parameter(here(values)) for values in drawn]
    optimizer = ZeroRedundancyOptimizer(parameters, ferro.optim.SGD, lr=0.5)
    loss: Any = sum((p * p).sum() for p in parameters)
    loss.backward()
    optimizer.step()
    for p, values in zip(parameters, drawn, strict=True):
        assert np.array_equal(p.detach().cpu().numpy(), values - np.float32(0.5) * (2 * values))


class Product(nn.Module):
    """Keeps a view of its parameter for backward, and another one; `change` may change what was saved."""

    def __init__(self, width: int, change: Any = None) -> None:
        super().__init__()
        self.weight, self.change = nn.Parameter(ferro.zeros(width, width)), change

    def forward(self, x: Any) -> Any:
        z = x * 1
        e = (z @ self.weight.T).exp()
        if self.change is not None:
            self.change(z, e)
        return e * self.weight[:1].exp()


class Grown(ferro.autograd.Function):
    """exp, which saves its own result."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0]


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return Grown.apply(self.layer(x)).add_(1) * 2


class Inside(nn.Module):
    """A forward in which hooks of the program keep what is saved, parameters too."""

    def __init__(self, hooks: Any) -> None:
        super().__init__()
        self.layer, self.hooks = nn.Linear(4, 4), hooks

    def forward(self, x: Any) -> Any:
        with self.hooks():
            return self.layer(x).tanh() * self.layer.weight[:1].exp()


def in_use() -> int:
    ferro.cuda.synchronize()
    return ferro.ones(1, device="cuda").numel() and ferro.cuda.memory_allocated()


def modules_in_parts() -> None:
    """Sums by NCCL itself, in a stream of the program, against NumPy; a graph keeps no memory of parameters."""
    mesh, width = dist.init_device_mesh("cuda", (SIZE,)), 256
    product: Any
    w = np.random.default_rng(5).standard_normal((width, width)).astype(np.float32) / 100
    xs = [np.random.default_rng(r).standard_normal((2, width)).astype(np.float32) for r in range(SIZE)]
    product = Product(width)
    with ferro.no_grad():
        product.weight.copy_(ferro.tensor(w))
    model = nn.Sequential(fully_shard(product, mesh=mesh))  # (which brings it to the GPU)
    fully_shard(model, mesh=mesh, reshard_after_forward=True)
    assert product.weight.is_cuda
    packed = []
    side = ferro.cuda.Stream()
    side.wait_stream(ferro.cuda.current_stream())
    with ferro.cuda.stream(side):
        x = here(xs[RANK])
        before = in_use()
        with ferro.autograd.graph.saved_tensors_hooks(lambda t: packed.append(tuple(t.shape)) or t, lambda t: t):
            y = model(x)
        assert in_use() - before < w.nbytes / 2, (before, in_use())
        y.sum().backward()
        grad = product.weight.grad.full_tensor()
    ferro.cuda.current_stream().wait_stream(side)
    assert packed
    assert (width, width) not in packed, packed  # (hooks around it do not see parameters)
    np.testing.assert_allclose(y.detach().cpu().numpy(), np.exp(xs[RANK] @ w.T) * np.exp(w[:1]), rtol=1e-5)
    expected = np.zeros((width, width))
    for one in xs:
        g = np.exp(one @ w.T) * np.exp(w[:1])
        expected += g.T @ one / SIZE
        expected[0] += g.sum(0) / SIZE
    np.testing.assert_allclose(grad.cpu().numpy(), expected, rtol=1e-4, atol=1e-4)
    wrong: dict[str, Any] = {"what a product saved": lambda z, e: z.add_(1), "what exp gave": lambda z, e: e.add_(1)}
    nets = {"what a function of the program saved": Own(), **{k: Product(4, change) for k, change in wrong.items()}}
    for name, net in nets.items():
        changed = fully_shard(net, mesh=mesh)
        text = said(lambda net=changed: net(here([[1.0] * 4])).sum().backward())
        assert "modified by an inplace operation" in text, (name, text)
    dist.barrier()


def hooks_within_modules_in_parts() -> None:
    """What they keep of parameters reads right numbers when these have been freed and gathered again."""
    mesh = dist.init_device_mesh("cuda", (SIZE,))
    graph = ferro.autograd.graph
    for hooks in (graph.save_on_cpu, lambda: graph.saved_tensors_hooks(lambda t: t, lambda t: t)):
        ferro.manual_seed(4)
        alone, x = Inside(contextlib.nullcontext), np.random.default_rng(RANK).standard_normal((3, 4))
        net: Any = Inside(hooks)
        net.load_state_dict(alone.state_dict())
        model = fully_shard(nn.Sequential(fully_shard(net, mesh=mesh)), mesh=mesh)
        for _ in range(2):
            model.zero_grad()
            out = model(here(x))
            assert not net._fsdp_state.shards.is_whole
            out.sum().backward()
        mine = alone(ferro.tensor(x.astype(np.float32)))
        np.testing.assert_allclose(out.detach().cpu().numpy(), mine.detach().numpy(), rtol=1e-5)
        mine.sum().backward()
        for p, q in zip(model.parameters(), alone.parameters(), strict=True):
            expected = q.grad / SIZE
            dist.all_reduce(expected)
            np.testing.assert_allclose(p.grad.full_tensor().cpu().numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


def parts_on_the_processor() -> None:
    """Layers compute on the GPU; parts, gradients and states lie elsewhere, and are stepped as in one process."""

    def made() -> Any:
        ferro.manual_seed(3)
        return nn.Sequential(nn.Linear(6, 29), nn.Tanh(), nn.Linear(29, 6))

    mesh, policy = dist.init_device_mesh("cuda", (SIZE,)), CPUOffloadPolicy()
    net, alone = made(), made()
    for layer in (net[0], net[2], net):
        fully_shard(layer, mesh=mesh, offload_policy=policy)
    optimizers = [ferro.optim.AdamW(m.parameters(), lr=0.01) for m in (net, alone)]
    xs = np.random.default_rng(0).standard_normal((3, SIZE, 4, 6)).astype(np.float32)
    for x in xs:
        for optimizer in optimizers:
            optimizer.zero_grad()
        out = net(here(x[RANK]))
        assert out.is_cuda
        out.square().mean().backward()
        for part in x:
            (alone(ferro.tensor(part)).square().mean() / SIZE).backward()
        norms = [nn.utils.clip_grad_norm_(m.parameters(), 0.1).item() for m in (net, alone)]
        np.testing.assert_allclose(*norms, rtol=1e-4)
        for optimizer in optimizers:
            optimizer.step()
        for p, q in zip(net.parameters(), alone.parameters(), strict=True):
            assert [t.device.type for t in (p, p.grad, optimizers[0].state[p]["exp_avg"])] == ["cpu"] * 3
            np.testing.assert_allclose(p.grad.full_tensor().numpy(), q.grad.numpy(), rtol=1e-3, atol=1e-5)
            np.testing.assert_allclose(p.full_tensor().numpy(), q.detach().numpy(), rtol=1e-3, atol=1e-4)
    net.load_state_dict(alone.state_dict())
    weight = net[0].weight
    net[0].unshard()
    assert net[0].weight.is_cuda
    assert net[0].weight.tolist() == alone[0].weight.tolist()
    net[0].reshard()
    assert net[0].weight is weight
    dist.barrier()


def no_library_named() -> None:
    """Tensors of GPUs may come: communicators are made when the first does."""
    dist.init_process_group()
    assert dist.get_backend() == "undefined"
    world: Any = dist.group.WORLD
    some = dist.new_group(list(range(SIZE))[1:])
    assert world._all is None
    x = ferro.ones(2)
    dist.all_reduce(x)
    assert (world._all, x.tolist()) == (None, [SIZE] * 2)
    y = ferro.ones(2, device="cuda")
    dist.all_reduce(y)
    assert world._all is not None
    if RANK > 0:
        dist.all_reduce(y, group=some)
        assert y.tolist() == [SIZE * (SIZE - 1)] * 2
    dist.destroy_process_group()


def the_stand_in_takes_what_nccl_takes() -> None:
    nccl = driver.module("cupy.cuda.nccl")
    x, there = here([1.0, 2.0]), np.ones(2, np.float32)
    assert "expected bytes" in said(lambda: nccl.NcclCommunicator(1, (0,) * 128, 0))
    alone, far = nccl.NcclCommunicator(1, nccl.get_unique_id(), 0), "NcclError: NCCL_ERROR_INVALID_ARGUMENT"
    side = ferro.cuda.Stream()
    place, stream = x._data.data.ptr, side.cuda_stream
    assert far in said(lambda: alone.allReduce(place, place, 2, 10, nccl.NCCL_SUM, stream))  # (no such type)
    assert far in said(lambda: alone.allReduce(place, place, 2, nccl.NCCL_FLOAT32, 5, stream))  # (nor operation)
    assert far in said(lambda: alone.allReduce(place, place, 3, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, stream))
    assert far in said(lambda: alone.broadcast(there.ctypes.data, place, 8, nccl.NCCL_UINT8, 0, stream))
    assert far in said(lambda: alone.reduce(place, place, 2, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, 1, stream))
    assert "INVALID_USAGE" in said(nccl.groupEnd)
    alone.destroy()


each_device_has_its_library()
if SIZE == 1 and not IS_GPU:
    the_stand_in_takes_what_nccl_takes()
what_nccl_does_not_add()
streams_wait_and_hosts_do_not()
a_graph_records_no_exchange()
if SIZE > 1:
    both_may_send_first()
tensors_and_layers_in_parts()
modules_in_parts()
hooks_within_modules_in_parts()
parts_on_the_processor()
dist.destroy_process_group()
if SIZE > 1:
    no_library_named()
checked()
if RANK == 0:
    print(f"{SIZE} ranks agree on NCCL")
