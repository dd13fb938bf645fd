"""A script for several ranks: hooks, sparse gradients and uneven inputs of DistributedDataParallel. Prints one line when all agree."""

from __future__ import annotations

from typing import Any

import numpy as np

import ferro
import ferro.distributed as dist
from ferro import nn
from ferro.core.base import wrap
from ferro.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from ferro.distributed.algorithms.join import Join
from ferro.nn.parallel import DistributedDataParallel
from tests.distributed.placing import BACKEND, DEVICE, checked

dist.init_process_group(BACKEND)
RANK, SIZE = dist.get_rank(), dist.get_world_size()
MEAN = sum(r + 1.0 for r in range(SIZE)) / SIZE


def linear(inputs: int = 1, outputs: int = 1) -> Any:
    made = nn.Linear(inputs, outputs, bias=False).to(DEVICE)
    with ferro.no_grad():
        made.weight.fill_(1.0)
    return made


def close(got: Any, want: Any, what: str, rtol: float = 1e-6, atol: float = 0.0) -> None:
    got = got.detach().cpu().numpy() if isinstance(got, ferro.Tensor) else got
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=f"{what}, rank {RANK}")


def said(function: Any) -> str:
    try:
        function()
    except (RuntimeError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def the_hooks_that_are_there() -> None:
    given = np.float32(1 + 2.0**-9 + 2.0**-13)  # (bfloat16 has neither of the small parts, float16 has the larger one)
    rounded = {"allreduce_hook": given, "fp16_compress_hook": 1 + 2.0**-9, "bf16_compress_hook": 1.0}
    for name, want in rounded.items():
        for is_wrapped in (False, True):
            hook = getattr(default_hooks, name)
            if is_wrapped:
                if name == "allreduce_hook":
                    continue
                wrapper = getattr(default_hooks, name.replace("_hook", "_wrapper"))
                hook = wrapper(default_hooks.allreduce_hook)
            model = DistributedDataParallel(linear())
            model.register_comm_hook(None, hook)
            for _ in range(2):
                model.zero_grad()
                model(ferro.full((1, 1), float(given), device=DEVICE)).sum().backward()
                close(model.module.weight.grad, [[want]], name)


def a_hook_of_the_program() -> None:
    net = nn.Sequential(linear(), linear())
    model = DistributedDataParallel(net, bucket_cap_mb=1e-6)
    seen: list[Any] = []

    def hook(state: Any, bucket: dist.GradBucket) -> Any:
        state.append((bucket.index(), bucket.is_last(), [p is net[1].weight for p in bucket.parameters()]))
        assert [g.shape for g in bucket.gradients()] == [(1, 1)]
        work: Any = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda done: [10 * done.value()[0]])

    model.register_comm_hook(seen, hook)
    model(ferro.full((1, 1), RANK + 1.0, device=DEVICE)).sum().backward()
    assert seen == [(0, False, [True]), (1, True, [False])], seen
    for one in net:
        close(one.weight.grad, [[10 * SIZE * MEAN]], "ten times the sum")
    assert "can only be called once" in said(lambda: model.register_comm_hook(None, hook))
    assert "must be callable" in said(lambda: model.register_comm_hook(None, 3))  # type: ignore[arg-type]
    wrong = DistributedDataParallel(linear())
    wrong.register_comm_hook(None, lambda state, bucket: bucket.buffer())
    assert "TypeError: DistributedDataParallel: a communication hook returns a Future" in said(
        lambda: wrong(ferro.ones(1, 1, device=DEVICE)).sum().backward()
    )


def low_rank() -> None:
    """What was delivered in all steps and what the ranks still keep is what there was; a matrix of rank 1 arrives as it is."""
    for hook in (powerSGD_hook.powerSGD_hook, powerSGD_hook.batched_powerSGD_hook):
        model = DistributedDataParallel(nn.Linear(12, 10).to(DEVICE), bucket_cap_mb=25)
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=1
        )
        model.register_comm_hook(state, hook)
        delivered, wanted = np.zeros((10, 12)), np.zeros((10, 12))
        bias = np.zeros(10)
        for step in range(6):
            draws = [
                np.random.default_rng(100 * step + r).standard_normal((2, 5, 12)).astype(np.float32)
                for r in range(SIZE)
            ]
            model.zero_grad()
            x, scale = (
                ferro.tensor(draws[RANK][0], device=DEVICE),
                ferro.tensor(draws[RANK][1][:, :10].copy(), device=DEVICE),
            )
            (model(x) * scale).sum().backward()
            mean = sum(d[1][:, :10].T @ d[0] for d in draws) / SIZE
            got = model.module.weight.grad.cpu().numpy()
            if step < 2:
                close(got, mean, "before it begins", rtol=1e-4, atol=1e-5)
            elif hook is powerSGD_hook.powerSGD_hook:
                assert np.linalg.matrix_rank(got, tol=1e-4) == 2
                bias = model.module.bias.grad.cpu().numpy()
                close(bias, sum(d[1][:, :10].sum(0) for d in draws) / SIZE, "a vector", rtol=1e-4, atol=1e-5)
            delivered, wanted = delivered + got, wanted + mean
        errors: Any = [None] * SIZE
        dist.all_gather_object(errors, wrap(state.error_dict[0]).cpu().numpy())
        left: Any = sum(errors) / SIZE
        parts = {id(model.module.weight): 120, id(model.module.bias): 10}
        order = model._reducer.buckets[0].parameters
        start = 0 if order[0] is model.module.weight else parts[id(order[0])]
        close(delivered + left[start : start + 120].reshape(10, 12), wanted, hook.__name__, rtol=1e-4, atol=1e-4)
        assert state.compression_stats()[0] > 1
    model = DistributedDataParallel(linear(8, 8))
    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=0, use_error_feedback=False, warm_start=False)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    model(ferro.arange(8.0, device=DEVICE)[None] * (RANK + 1)).sum().backward()
    close(model.module.weight.grad, np.ones((8, 1)) * np.arange(8.0) * MEAN, "of rank 1", rtol=1e-5, atol=1e-5)
    assert "start_powerSGD_iter" in str(error_of(lambda: powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=1)))


def error_of(function: Any) -> ValueError:
    try:
        function()
    except ValueError as error:
        return error
    raise AssertionError("nothing was raised")


def sparse() -> None:
    class Looked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.out = nn.Embedding(max(6, SIZE), 2, sparse=True), linear(2, 1)
            self.table.to(DEVICE)
            with ferro.no_grad():
                self.table.weight.fill_(1.0)

        def forward(self, places: Any) -> Any:
            return self.out(self.table(places) if places is not None else ferro.ones(1, 2, device=DEVICE))

    model = DistributedDataParallel(Looked())
    net = model.module
    optimizer = ferro.optim.SGD(net.parameters(), lr=1.0)
    for skips in (False, True):
        want = np.zeros((max(6, SIZE), 2))
        for r in range(SIZE):
            if not (skips and r == 0):
                np.add.at(want, [r, r, 5], 1.0 / SIZE)
        model.zero_grad()
        places = None if skips and RANK == 0 else ferro.tensor([RANK, RANK, 5], device=DEVICE)
        model(places).sum().backward()
        assert net.table.weight.grad.is_sparse
        close(net.table.weight.grad.to_dense(), want * net.out.weight.detach().cpu().numpy(), "rows")
    before = net.table.weight.detach().clone()
    optimizer.step()
    assert not ferro.equal(before, net.table.weight)
    model.zero_grad()
    model(None).sum().backward()  # (nobody)
    assert net.table.weight.grad is None
    plain = DistributedDataParallel(nn.ParameterList([nn.Parameter(ferro.ones(3, 2, device=DEVICE))]))
    table = next(plain.parameters())
    wrong = said(
        lambda: ferro.nn.functional.embedding(ferro.tensor([1], device=DEVICE), table, sparse=True).sum().backward()
    )
    assert "the gradient of 0 is sparse" in wrong, wrong


class Trained:
    """NumPy's account of what ranks with 1, 2, ... batches do to a weight by SGD."""

    def __init__(self, by_all: bool) -> None:
        self.weight = 1.0
        for step in range(SIZE):
            active = [r for r in range(SIZE) if r + 1 > step]
            self.weight -= 0.25 * sum(r + 1.0 + step for r in active) / (SIZE if by_all else len(active))


def uneven_inputs() -> None:
    for by_all in (True, False):
        net = nn.Sequential(linear(), nn.BatchNorm1d(1, affine=False)).to(DEVICE) if by_all else linear()
        first = net[0] if by_all else net
        model = DistributedDataParallel(net)
        optimizer = ferro.optim.SGD(model.parameters(), lr=0.25)
        calls = 0
        with model.join(divide_by_initial_world_size=by_all):
            for step in range(RANK + 1):
                optimizer.zero_grad()
                x = ferro.full((2, 1), 0.5 * (RANK + 1.0 + step), device=DEVICE)
                (model(x).sum() * 0 + first(x).sum() if by_all else model(x).sum()).backward()
                with ferro.no_grad():
                    model(x)  # (a forward that nobody differentiates)
                with model.no_sync():
                    model(x).sum().backward()
                optimizer.zero_grad()
                (model(x).sum() * 0 + first(x).sum() if by_all else model(x).sum()).backward()
                optimizer.step()
                calls += 1
        assert calls == RANK + 1
        close(first.weight, [[Trained(by_all).weight]], f"joined, by all {by_all}")
        model.zero_grad()  # afterwards all is as before
        net.eval()
        (
            model(ferro.ones(1, 1, device=DEVICE)).sum() * 0
            + first(ferro.full((1, 1), RANK + 1.0, device=DEVICE)).sum()
        ).backward()
        close(first.weight.grad, [[MEAN]], "after the join")


def two_models_join() -> None:
    """The exchanges of a step come in the order of the models, as those of a rank that has left do."""
    one, two = DistributedDataParallel(linear()), DistributedDataParallel(linear())
    with Join([one, two]):
        for _ in range(RANK + 1):
            one(ferro.ones(1, 1, device=DEVICE)).sum().backward()
            two(ferro.full((1, 1), 2.0, device=DEVICE)).sum().backward()
    if RANK == SIZE - 1:
        close(one.module.weight.grad, [[accumulated(1.0)]], "the first model")
        close(two.module.weight.grad, [[accumulated(2.0)]], "the second model")


def accumulated(gradient: float) -> float:
    """What the last rank's gradient has become, which is added up over steps, each the mean of all (zeros of those that have left)."""
    grads = [0.0] * SIZE
    for step in range(SIZE):
        active = [r for r in range(SIZE) if r + 1 > step]
        mean = sum(grads[r] + gradient for r in active) / SIZE
        for r in active:
            grads[r] = mean
    return grads[-1]


def a_join_that_throws() -> None:
    model = DistributedDataParallel(linear())

    def run() -> None:
        with model.join(throw_on_early_termination=True):
            for _ in range(RANK + 1):
                model(ferro.ones(1, 1, device=DEVICE)).sum().backward()

    text = said(run)
    assert ("exhausted" in text) == (SIZE > 1), text
    dist.barrier()
    with model.join(throw_on_early_termination=True):  # (as many on all: nothing is raised)
        for _ in range(2):
            model(ferro.ones(1, 1, device=DEVICE)).sum().backward()
    with model.join(enable=False):
        model(ferro.ones(1, 1, device=DEVICE)).sum().backward()
    assert "requires at least one joinable" in str(error_of(lambda: Join([])))


def what_it_has_cost() -> None:
    net = nn.Sequential(linear(4, 8), linear(8, 4), linear(4, 1))
    model = DistributedDataParallel(net, bucket_cap_mb=130 / 2**20)
    for _ in range(4):
        model(ferro.ones(2, 4, device=DEVICE)).sum().backward()
    found = model.communication()
    assert [b.bytes for b in found.buckets] == [16, 128, 128], found
    assert (found.bytes, found.steps) == (272, 3)  # (the first step learns the order)
    assert 0 <= found.overlap <= 1
    assert found.time > 0
    lines = str(found).splitlines()
    assert lines[0] == f"3 steps on {SIZE} ranks"
    assert lines[-1].split()[:2] == ["all", "272"], lines
    assert len(lines) == 6


def a_profiler_sees_them() -> None:
    net = nn.Sequential(linear(4, 8), linear(8, 4), linear(4, 1))
    model = DistributedDataParallel(net, bucket_cap_mb=130 / 2**20)
    model(ferro.ones(2, 4, device=DEVICE)).sum().backward()
    with ferro.profiler.profile() as prof:
        model(ferro.ones(2, 4, device=DEVICE)).sum().backward()
        dist.barrier()
        work: Any = dist.all_reduce(ferro.ones(2, device=DEVICE), async_op=True)
        ferro.ones(3, device=DEVICE).exp()
        work.wait()
    events = {e.name: e for e in prof.events() if e.kind == "exchange"}
    buckets = [f"distributed::all_reduce of bucket {i}" for i in range(3)]
    assert sorted(events) == sorted([*buckets, "distributed::barrier", "distributed::all_reduce"]), sorted(events)
    nodes = [e for e in prof.events() if e.kind == "backward"]
    first = events[buckets[0]]
    assert first.start < max(e.end for e in nodes), "the first bucket begins while backward goes on"
    asked = events["distributed::all_reduce"]
    inside = [e for e in prof.events() if e.name == "aten::exp"]
    assert asked.start <= inside[0].start
    assert inside[0].end <= asked.end
    whole = sum(e.end - e.start for e in events.values())
    assert 0 < prof.hidden() < 1
    assert prof.hidden() * whole >= 0.9 * (inside[0].end - inside[0].start)
    assert "distributed::barrier" in prof.key_averages().table()


for case in (
    the_hooks_that_are_there,
    a_hook_of_the_program,
    low_rank,
    sparse,
    uneven_inputs,
    two_models_join,
    a_join_that_throws,
    what_it_has_cost,
    a_profiler_sees_them,
):
    case()
dist.destroy_process_group()
checked()
if RANK == 0:
    print(f"{SIZE} ranks agree on hooks")
